//! What makes a version: the template, and the data of what it refers to. The same content is the same version.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use sts_plus_api::kinds::Kind;

use super::World;
use super::probe::Digest;
use super::references::Reference;
use super::spec::{MAX_REFERENCES, Spec};
use super::versioned::versions;
use super::wait::Wait;
use crate::plan::{Ask, Object};
use crate::revision::fnv64;

/// The content of the version that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The hash that is stored on the sets: of the template, and after a dot of the data.
    pub hash: Arc<str>,
    /// The hash of the data, which the pod template carries, so that its pods are replaced.
    pub config: Option<Arc<str>>,
    /// The newest version of each Secret that the template refers to by an older one.
    pub newest: BTreeMap<Arc<str>, Arc<str>>,
}

/// An object that is referred to, as reads name it.
pub fn object(world: &World, reference: &Reference) -> Object {
    Object {
        kind: reference.kind,
        namespace: Arc::clone(&world.row.namespace),
        name: (*reference.name).into(),
    }
}

/// What must be followed.
pub fn asks(world: &World, spec: &Spec) -> Vec<Ask> {
    let mut asks: Vec<_> =
        spec.references.iter().map(|reference| Ask::Digest(object(world, reference))).collect();
    for reference in &spec.references {
        for name in versions(world, reference).followed {
            let ask = Ask::Digest(object(world, &Reference { name, ..reference.clone() }));
            if asks.len() < MAX_REFERENCES && !asks.contains(&ask) {
                asks.push(ask);
            }
        }
    }
    asks
}

/// The content that is asked for, or what it lacks.
pub fn content(world: &World, spec: &Spec) -> Result<Content, Wait> {
    let mut lines = String::new();
    let mut newest = BTreeMap::new();
    for given in &spec.references {
        let versions = versions(world, given);
        if let Some(name) = versions.pending.filter(|_| is_followed(world, spec, given)) {
            return Err(Wait::ConfigPending { of: (given.kind, name) });
        }
        let name = versions.newest.unwrap_or_else(|| Arc::clone(&given.name));
        if name != given.name {
            newest.insert(Arc::clone(&given.name), Arc::clone(&name));
        }
        let reference = &Reference { name, ..given.clone() };
        let of = (reference.kind, Arc::clone(&reference.name));
        match world.digests.get(&object(world, reference)) {
            None | Some(Digest::Unknown) => return Err(Wait::ConfigPending { of }),
            Some(Digest::Absent) if reference.optional => {
                let _ = writeln!(lines, "{}/{}", reference.kind, reference.name);
            }
            Some(Digest::Absent) => return Err(Wait::ConfigMissing { of }),
            Some(Digest::Unreadable(why)) => {
                return Err(Wait::ConfigUnreadable { of, why: Arc::clone(why) });
            }
            Some(Digest::Known(digest) | Digest::Versioned(digest)) => {
                let _ = writeln!(lines, "{}/{} {digest}", reference.kind, reference.name);
            }
        }
    }
    let config: Option<Arc<str>> = (!spec.references.is_empty()).then(|| fnv64(lines.as_bytes()).into());
    let hash = match &config {
        Some(config) => format!("{}.{config}", spec.base_hash).into(),
        None => Arc::clone(&spec.base_hash),
    };
    Ok(Content { hash, config, newest })
}

/// Whether later versions of a Secret are followed: there is a limit for all objects that a template refers to.
fn is_followed(world: &World, spec: &Spec, given: &Reference) -> bool {
    let asks = asks(world, spec);
    versions(world, given)
        .followed
        .into_iter()
        .all(|name| asks.contains(&Ask::Digest(object(world, &Reference { name, ..given.clone() }))))
}

/// The content of the last version that was known.
pub fn last(world: &World) -> Content {
    let hash = world.row.status.update_hash.as_deref().unwrap_or_default();
    let config = hash.split_once('.').map(|(_, config)| config.into());
    Content { hash: hash.into(), config, newest: BTreeMap::new() }
}

/// Whether two hashes differ in the data alone.
pub fn differ_in_config(left: &str, right: &str) -> bool {
    let base = |hash: &str| hash.split_once('.').map_or(hash.to_owned(), |(base, _)| base.to_owned());
    left != right && base(left) == base(right)
}

/// How a message names an object that is referred to.
pub fn name_of((kind, name): &(Kind, Arc<str>)) -> String {
    format!("{} {name}", kind.definition().kind)
}
