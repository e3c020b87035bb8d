//! The ConfigMaps and Secrets that a pod refers to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::kinds::Kind;

/// A ConfigMap or a Secret that a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// [`Kind::ConfigMap`] or [`Kind::Secret`].
    pub kind: Kind,
    pub name: Arc<str>,
    /// Whether pods start without it, wherever they refer to it.
    pub optional: bool,
}

/// Where a container refers to an object: the list, the field, and what it is.
const ENV: [(&str, &str, Kind); 4] = [
    ("envFrom", "/configMapRef", Kind::ConfigMap),
    ("envFrom", "/secretRef", Kind::Secret),
    ("env", "/valueFrom/configMapKeyRef", Kind::ConfigMap),
    ("env", "/valueFrom/secretKeyRef", Kind::Secret),
];

/// All references of a pod spec, each object once.
pub fn references(pod: &Value) -> Vec<Reference> {
    let mut found: BTreeMap<(Kind, Arc<str>), bool> = BTreeMap::new();
    let mut add = |kind: Kind, name: Option<&Value>, source: &Value| {
        let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) else { return };
        let optional = source.get("optional").and_then(Value::as_bool).unwrap_or(false);
        found.entry((kind, name.into())).and_modify(|known| *known &= optional).or_insert(optional);
    };
    for containers in ["initContainers", "containers"] {
        for container in items(pod, containers) {
            for (list, field, kind) in ENV {
                for source in items(container, list).filter_map(|entry| entry.pointer(field)) {
                    add(kind, source.get("name"), source);
                }
            }
        }
    }
    for volume in items(pod, "volumes") {
        let projected = volume.get("projected").into_iter().flat_map(|volume| items(volume, "sources"));
        for (source, is_projected) in
            std::iter::once((volume, false)).chain(projected.map(|source| (source, true)))
        {
            if let Some(map) = source.get("configMap") {
                add(Kind::ConfigMap, map.get("name"), map);
            }
            if let Some(secret) = source.get("secret") {
                let name = if is_projected { "name" } else { "secretName" };
                add(Kind::Secret, secret.get(name), secret);
            }
        }
    }
    found.into_iter().map(|((kind, name), optional)| Reference { kind, name, optional }).collect()
}

/// Renames the Secrets that a pod refers to.
pub fn rename_secrets(pod: &mut Value, names: &BTreeMap<Arc<str>, Arc<str>>) {
    if names.is_empty() {
        return;
    }
    let rename = |source: Option<&mut Value>, key: &str| {
        let name = source.and_then(|source| source.get_mut(key));
        if let Some(name) = name
            && let Some(other) = name.as_str().and_then(|name| names.get(name))
        {
            *name = Value::from(&**other);
        }
    };
    for containers in ["initContainers", "containers"] {
        for container in items_mut(pod, containers) {
            for (list, field, _) in ENV.iter().filter(|(.., kind)| *kind == Kind::Secret) {
                items_mut(container, list).for_each(|entry| rename(entry.pointer_mut(field), "name"));
            }
        }
    }
    for volume in items_mut(pod, "volumes") {
        rename(volume.get_mut("secret"), "secretName");
        let sources = volume.get_mut("projected").into_iter().flat_map(|volume| items_mut(volume, "sources"));
        sources.for_each(|source| rename(source.get_mut("secret"), "name"));
    }
}

fn items_mut<'v>(value: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn items<'v>(value: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    value.get(list).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
#[path = "tests/references.rs"]
mod tests;
