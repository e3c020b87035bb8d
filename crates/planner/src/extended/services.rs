//! The Services that an object creates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::kinds::Kind;

use super::World;
use super::promotion;
use super::render::owner_reference;
use super::spec::{Port, Spec};
use super::zones::Layout;
use crate::plan::{Action, Object, Precondition};
use crate::revision::{canonical, fnv64};
use crate::selector::Labels;

/// How many Services per replica are created for an object: beyond that a headless Service does the same for less.
const MAX_PER_REPLICA: u32 = 256;

/// A Service, as far as it is ours to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRow {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// The UID of the object that controls it.
    pub owner: Option<Arc<str>>,
    /// The [path](super::row::path) of the object that has left it behind: it carries the labels that such an object gives
    /// its Services, and nothing controls it.
    pub left_by: Option<Arc<str>>,
    /// Which pods it selects.
    pub selector: Arc<Labels>,
    /// The digest of its ports, see [`digest_of_ports`].
    pub ports: Box<str>,
    /// Whether it has no cluster IP, which cannot be changed.
    pub headless: bool,
}

impl ServiceRow {
    /// The object, as writes and reads name it.
    pub fn object(&self) -> Object {
        Object { kind: Kind::Service, namespace: Arc::clone(&self.namespace), name: (*self.name).into() }
    }
}

/// The digest of the ports of a Service: of the fields that are written here, not of those that the server adds.
pub fn digest_of_ports(ports: &Value) -> Box<str> {
    let ports = ports.as_array().map(Vec::as_slice).unwrap_or_default();
    let ports = ports.iter().map(|port| {
        let fields = ["name", "port", "targetPort", "protocol"];
        let fields = fields.map(|field| (field.to_owned(), port.get(field).cloned().unwrap_or_default()));
        Value::Object(fields.into_iter().collect())
    });
    fnv64(canonical(&ports.collect()).as_bytes()).into()
}

/// What the selectors depend on besides the spec.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The version that serves each zone, by the index of the zone; `None` where versions have no sets of their own.
    pub promoted: Option<Vec<(u32, u32)>>,
    /// The version that is asked for.
    pub update: u32,
    /// The pods per zone.
    pub replicas: u32,
}

/// A Service that is asked for.
struct Service {
    name: String,
    selector: BTreeMap<String, String>,
    headless: bool,
}

/// The writes that make the Services what they shall be: those to be there, those that are no longer asked for.
pub fn writes(world: &World, spec: &Spec, layout: &Layout, selected: &Selected) -> Vec<Action> {
    let ports = ports(spec);
    let wanted = if ports.is_empty() { Vec::new() } else { wanted(world, spec, layout, selected) };
    let names: BTreeSet<&str> = wanted.iter().map(|service| &*service.name).collect();
    let mut writes: Vec<_> = wanted.iter().filter_map(|service| write(world, service, &ports)).collect();
    let surplus = world.services.iter().filter(|row| !names.contains(&*row.name) && !row.terminating);
    writes.extend(surplus.filter_map(|row| Action::delete_service(&world.row, row)));
    writes
}

fn wanted(world: &World, spec: &Spec, layout: &Layout, selected: &Selected) -> Vec<Service> {
    let group = world.row.group;
    let all = BTreeMap::from([(group.key(keys::EXTENDED_NAME), world.row.name.to_string())]);
    let with = |more: Vec<(String, String)>| {
        let mut selector = all.clone();
        selector.extend(more);
        selector
    };
    let version = |number: u32| (group.key(keys::VERSION), number.to_string());
    let promoted = || match selected.promoted.as_deref() {
        None => Vec::new(),
        Some(versions) if promotion::differ(versions) => {
            vec![(group.key(keys::PROMOTED), promotion::TRUE.to_owned())]
        }
        Some(versions) => {
            let number = versions.first().map_or(selected.update, |(_, number)| *number);
            vec![version(number)]
        }
    };
    let mut services = Vec::new();
    if let Some(name) = &spec.services.headless {
        services.push(Service { name: name.clone(), selector: all.clone(), headless: true });
    }
    if let Some(name) = &spec.services.active {
        let selector = match &spec.active {
            Some(_) => with(vec![(group.key(keys::POD_DESIGNATION), keys::ACTIVE.to_owned())]),
            None => with(promoted()),
        };
        services.push(Service { name: name.clone(), selector, headless: false });
    }
    if let Some(name) = &spec.services.preview {
        let selector = with(selected.promoted.iter().map(|_| version(selected.update)).collect());
        services.push(Service { name: name.clone(), selector, headless: false });
    }
    if spec.services.per_replica {
        for zone in &layout.zones {
            let prefix = match &zone.name {
                Some(_) => format!("{}-z{}", world.row.name, zone.index),
                None => world.row.name.to_string(),
            };
            let serving = selected.promoted.iter().flatten().find(|(index, _)| *index == zone.index);
            for ordinal in 0..selected.replicas.min(MAX_PER_REPLICA) {
                services.push(Service {
                    name: format!("{prefix}-{ordinal}"),
                    selector: with(
                        [
                            (group.key(keys::AZ_INDEX), zone.index.to_string()),
                            (keys::POD_INDEX.to_owned(), ordinal.to_string()),
                        ]
                        .into_iter()
                        .chain(serving.map(|(_, number)| version(*number)))
                        .collect(),
                    ),
                    headless: false,
                });
            }
        }
    }
    let mut names = BTreeSet::new();
    services.retain(|service| names.insert(service.name.clone()));
    services
}

fn write(world: &World, service: &Service, ports: &[Value]) -> Option<Action> {
    let row = &world.row;
    let object = Object {
        kind: Kind::Service,
        namespace: Arc::clone(&row.namespace),
        name: service.name.as_str().into(),
    };
    let Some(existing) = world.services.iter().find(|existing| *existing.name == *service.name) else {
        let labels = json!({
            keys::MANAGED_BY: keys::MANAGED_BY_STS_PLUS,
            row.group.key(keys::EXTENDED_NAME): row.name,
        });
        let metadata = json!({ "labels": labels, "ownerReferences": [owner_reference(row)] });
        let mut spec = json!({ "selector": service.selector, "ports": ports });
        if let Some(spec) = spec.as_object_mut().filter(|_| service.headless) {
            spec.insert("clusterIP".to_owned(), json!("None"));
        }
        let body = json!({ "metadata": metadata, "spec": spec });
        return Some(Action::create(object, &row.uid, body, keys::MANAGER_EXTENDED));
    };
    if existing.terminating {
        return None;
    }
    let precondition = Precondition::exactly(&existing.uid, &existing.resource_version);
    if existing.owner.as_ref() != Some(&row.uid) {
        // It was left behind. Its other owners, which no row has, stay.
        let body = json!({ "metadata": { "ownerReferences": [owner_reference(row)] } });
        return Some(Action::strategic_merge(object, &row.uid, precondition, (body, keys::MANAGER_EXTENDED)));
    }
    if existing.headless != service.headless {
        // It is created again once it is gone.
        return Action::delete_service(row, existing);
    }
    let wanted = service.selector.iter().map(|(key, value)| (&**key, Some(&**value)));
    let is_stray = |key: &&str| !service.selector.contains_key(*key);
    let stray: Vec<_> = existing.selector.keys().map(|key| &**key).filter(is_stray).collect();
    let has = |(key, value): (&str, Option<&str>)| existing.selector.get(key).map(|known| &**known) == value;
    if stray.is_empty() && wanted.clone().all(has) && existing.ports == digest_of_ports(&json!(ports)) {
        return None;
    }
    let selector: BTreeMap<_, _> = wanted.chain(stray.into_iter().map(|key| (key, None))).collect();
    let body = json!({ "spec": { "selector": selector, "ports": ports } });
    Some(Action::merge(object, &row.uid, precondition, (body, keys::MANAGER_EXTENDED)))
}

fn ports(spec: &Spec) -> Vec<Value> {
    let port = |Port { name, number, protocol }: &Port| json!({ "name": name, "port": number, "targetPort": number, "protocol": protocol });
    spec.ports.iter().map(port).collect()
}
