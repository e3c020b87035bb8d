//! Secrets in versions, `<prefix>-v<number>`, as cf-operator writes them: none of them changes, and pods are to have the newest.

use std::sync::Arc;

use sts_plus_api::kinds::Kind;

use super::World;
use super::content::object;
use super::probe::Digest;
use super::references::Reference;
use super::spec::MAX_REFERENCES;

/// What is known of the versions of a Secret that a pod refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Those after the one that the pod refers to, up to the first that does not exist: they must be followed.
    pub followed: Vec<Arc<str>>,
    /// The newest one, where it is not the one that the pod refers to.
    pub newest: Option<Arc<str>>,
    /// The one that is being read.
    pub pending: Option<Arc<str>>,
}

/// Looks for later versions of a Secret. One is a version where its label says so; the one that the pod refers to may have
/// been removed since.
pub fn versions(world: &World, reference: &Reference) -> Versions {
    let mut versions = Versions::default();
    let digest = |name: &Arc<str>| {
        let named = Reference { name: Arc::clone(name), ..reference.clone() };
        world.digests.get(&object(world, &named))
    };
    if reference.kind != Kind::Secret {
        return versions;
    }
    let mut name = Arc::clone(&reference.name);
    for _ in 0..MAX_REFERENCES {
        let is_given = name == reference.name;
        match digest(&name) {
            Some(Digest::Versioned(_)) => versions.newest = Some(Arc::clone(&name)).filter(|_| !is_given),
            Some(Digest::Absent) if is_given => {}
            None | Some(Digest::Unknown) if !is_given => {
                versions.pending = Some(name);
                break;
            }
            _ => break,
        }
        let Some(next) = next(&name) else { break };
        versions.followed.push(Arc::clone(&next));
        name = next;
    }
    versions
}

/// The name of the version after this one; `None` for a name without a number.
pub(super) fn next(name: &str) -> Option<Arc<str>> {
    let (prefix, digits) = name.rsplit_once("-v")?;
    let number: u32 = digits.parse().ok().filter(|number: &u32| number.to_string() == digits)?;
    Some(format!("{prefix}-v{}", number.checked_add(1)?).into())
}
