//! What is served, and answers that are the same for every cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::show;
use super::state::State;
use crate::kinds::{Action, Kind, Version};

/// The version that this server behaves like.
const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");

/// The answer to a path that names no resource, if there is one.
pub(crate) fn answer(state: &State, path: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let body = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => return Some(b"ok".to_vec()),
        ["version"] => {
            let (major, minor, version) = VERSION;
            json!({ "major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64" })
        }
        ["api"] => json!({ "kind": "APIVersions", "versions": ["v1"] }),
        ["api", version] => resources(state, "", version)?,
        ["apis"] => {
            let groups: BTreeSet<&str> = state.table.rows().map(|kind| kind.group.as_str()).collect();
            let groups: Vec<Value> =
                groups.into_iter().filter(|group| !group.is_empty()).map(|name| group(state, name)).collect();
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
        }
        ["apis", name] => {
            if !state.table.rows().any(|kind| kind.group == *name) {
                return None;
            }
            let mut found = group(state, name);
            let fields = super::object::fields(&mut found);
            fields.insert("kind".into(), "APIGroup".into());
            fields.insert("apiVersion".into(), "v1".into());
            found
        }
        ["apis", group, version] => resources(state, group, version)?,
        _ => return None,
    };
    Some(show::bytes(&body))
}

fn group(state: &State, name: &str) -> Value {
    let rows = state.table.rows().filter(|kind| kind.group == name);
    let versions: BTreeSet<&str> =
        rows.flat_map(|kind| kind.versions.iter().map(|version| version.name.as_str())).collect();
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let rows = state.table.rows().filter(|kind| kind.group == group);
    let found: Vec<Value> = rows
        .filter_map(|kind| Some((kind, kind.version(version)?)))
        .flat_map(|(kind, version)| entries(kind, version))
        .collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!found.is_empty()).then(|| {
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found })
    })
}

fn entries(kind: &Kind, version: &Version) -> Vec<Value> {
    let mut whole = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    let fields = super::object::fields(&mut whole);
    for (name, texts) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !texts.is_empty() {
            fields.insert(name.into(), json!(texts));
        }
    }
    let part = |name: &str, shown: &str, verbs: Value| {
        json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
            "kind": shown, "verbs": verbs,
        })
    };
    let mut entries = vec![whole];
    entries.extend(version.status.then(|| part("status", &kind.kind, json!(["get", "patch", "update"]))));
    entries.extend(version.scale.iter().map(|_| {
        let mut scale = part("scale", "Scale", json!(["get", "patch", "update"]));
        let fields = super::object::fields(&mut scale);
        fields.insert("group".into(), "autoscaling".into());
        fields.insert("version".into(), "v1".into());
        scale
    }));
    entries.extend(kind.actions.iter().map(|Action { name, .. }| {
        let shown = if *name == "eviction" { "Eviction" } else { "Binding" };
        let mut entry = part(name, shown, json!(["create"]));
        if shown == "Eviction" {
            let fields = super::object::fields(&mut entry);
            fields.insert("group".into(), "policy".into());
            fields.insert("version".into(), "v1".into());
        }
        entry
    }));
    entries
}
