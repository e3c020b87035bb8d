//! What is served, and answers that are the same for every cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::answer::Refusal;
use super::openapi;
use super::reviews;
use super::show;
use super::state::State;
use crate::kinds::{Kind, Version};

/// The version that this server behaves like.
pub(super) const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");
/// Groups in the order in which Kubernetes lists its own; others follow.
const ORDER: [&str; 13] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];
const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// As [`ALL_VERBS`], in the order in which custom resources have them.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// As [`ALL_VERBS`], where objects are deleted one by one.
const SINGLE_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// An answer that is no object.
pub(crate) struct Page {
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Page {
    fn json(body: &Value) -> Self {
        Page { content_type: JSON, body: show::bytes(body) }
    }
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// How a client asks for everything at once, newest first, and what it is told that it gets.
const AGGREGATED: [(&str, &str); 2] = [
    ("v=v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ("v=v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
];

/// The answer to a path that names no resource, if there is one.
pub(crate) fn answer(state: &State, path: &str, accept: &str) -> Result<Option<Page>, Refusal> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let body = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => {
            return Ok(Some(Page { content_type: TEXT, body: b"ok".to_vec() }));
        }
        ["version"] => version(),
        ["openapi", rest @ ..] => return openapi::answer(state, rest, accept),
        ["api"] => match aggregated(accept) {
            Some(as_asked) => return Ok(Some(as_asked.page(state, &[""]))),
            None => json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }),
        },
        ["apis"] => {
            let groups = groups(state);
            if let Some(as_asked) = aggregated(accept) {
                return Ok(Some(as_asked.page(state, &groups)));
            }
            let groups: Vec<Value> = groups.into_iter().map(|name| group(state, name)).collect();
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
        }
        ["api", version] => match resources(state, "", version) {
            Some(found) => found,
            None => return Ok(None),
        },
        ["apis", name] => {
            if !groups(state).contains(name) {
                return Ok(None);
            }
            let mut found = group(state, name);
            let fields = super::object::fields(&mut found);
            fields.insert("kind".into(), "APIGroup".into());
            fields.insert("apiVersion".into(), "v1".into());
            found
        }
        ["apis", group, version] => match resources(state, group, version) {
            Some(found) => found,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Page::json(&body)))
}

fn version() -> Value {
    let (major, minor, version) = VERSION;
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": "35", "gitVersion": version, "gitCommit": "",
        "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
        "platform": "linux/amd64",
    })
}

/// The groups that have a name, in Kubernetes' order.
pub(super) fn groups(state: &State) -> Vec<&str> {
    let mut groups: Vec<&str> = state.table.rows().map(|kind| kind.group.as_str()).collect();
    groups.extend(reviews::ALL.iter().map(|review| review.group));
    groups.retain(|group| !group.is_empty());
    let place = |group: &&str| ORDER.iter().position(|known| known == group).unwrap_or(ORDER.len());
    groups.sort_by_key(|group| (place(group), *group));
    groups.dedup();
    groups
}

/// The versions of a group, most important first.
pub(super) fn versions<'a>(state: &'a State, group: &str) -> Vec<&'a str> {
    let rows = state.table.rows().filter(|kind| kind.group == group);
    let mut versions: Vec<&str> =
        rows.flat_map(|kind| kind.versions.iter().map(|version| version.name.as_str())).collect();
    versions.extend(reviews::ALL.iter().filter(|review| review.group == group).map(|_| reviews::VERSION));
    versions.sort_by_key(|version| rank(version));
    versions.dedup();
    versions
}

/// Releases come before betas, those before alphas, newer ones first; other names follow by the alphabet.
pub(crate) fn rank(version: &str) -> (Reverse<(u8, u64, u64)>, String) {
    let last = || (Reverse((0, 0, 0)), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else {
        return last();
    };
    let digits = |text: &str| -> Option<u64> {
        let is_number = text.starts_with(|first: char| ('1'..='9').contains(&first));
        if is_number { text.parse().ok() } else { None }
    };
    if let Some(major) = digits(rest) {
        return (Reverse((3, major, 0)), String::new());
    }
    for (word, stability) in [("beta", 2), ("alpha", 1)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (digits(major), digits(minor))
        {
            return (Reverse((stability, major, minor)), String::new());
        }
    }
    last()
}

fn group(state: &State, name: &str) -> Value {
    let versions: Vec<Value> = versions(state, name)
        .into_iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

/// A resource or a part of one, as both forms of discovery need it.
struct Entry {
    plural: String,
    part: Option<&'static str>,
    singular: String,
    namespaced: bool,
    kind: String,
    /// Group and version of what is shown where they are not those of the resource.
    shown_in: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
    short_names: Vec<String>,
    categories: Vec<String>,
    hash: Option<String>,
    custom: bool,
}

/// All entries of a group's version.
fn entries(state: &State, group: &str, version: &str) -> Vec<Entry> {
    let rows = state.table.rows().filter(|kind| kind.group == group);
    let of_rows = rows.filter_map(|kind| Some((kind, kind.version(version)?)));
    let mut found: Vec<Entry> = of_rows.flat_map(|(kind, version)| of_kind(kind, version)).collect();
    let asked = reviews::ALL.iter().filter(|review| review.group == group && version == reviews::VERSION);
    found.extend(asked.map(|review| Entry {
        plural: review.plural.to_owned(),
        part: None,
        singular: review.kind.to_lowercase(),
        namespaced: false,
        kind: review.kind.to_owned(),
        shown_in: None,
        verbs: &["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        hash: None,
        custom: false,
    }));
    found
}

fn of_kind(kind: &Kind, version: &Version) -> Vec<Entry> {
    let part = |part: &'static str, shown: &str, shown_in, verbs: &'static [&'static str]| Entry {
        plural: kind.plural.clone(),
        part: Some(part),
        singular: String::new(),
        namespaced: kind.namespaced,
        kind: shown.to_owned(),
        shown_in,
        verbs,
        short_names: Vec::new(),
        categories: Vec::new(),
        hash: None,
        custom: kind.custom,
    };
    let mut parts: Vec<Entry> = Vec::new();
    parts.extend(version.status.then(|| part("status", &kind.kind, None, &PART_VERBS)));
    parts.extend(
        version.scale.iter().map(|_| part("scale", "Scale", Some(("autoscaling", "v1")), &PART_VERBS)),
    );
    parts.extend(kind.habits.one_by_one.then(|| part("finalize", &kind.kind, None, &["update"])));
    parts.extend(kind.actions.iter().map(|action| {
        let elsewhere = action.api_version.split_once('/');
        part(action.name, action.kind, elsewhere, &["create"])
    }));
    if kind.group.is_empty() && kind.plural == "pods" {
        parts.push(part("log", &kind.kind, None, &["get"]));
    }
    if !kind.custom {
        parts.sort_by_key(|entry| entry.part);
    }
    let whole = Entry {
        plural: kind.plural.clone(),
        part: None,
        singular: kind.singular.clone(),
        namespaced: kind.namespaced,
        kind: kind.kind.clone(),
        shown_in: None,
        verbs: match (kind.custom, kind.habits.one_by_one) {
            (true, _) => &CUSTOM_VERBS,
            (_, true) => &SINGLE_VERBS,
            _ => &ALL_VERBS,
        },
        short_names: kind.short_names.clone(),
        categories: kind.categories.clone(),
        hash: Some(storage_hash(kind)),
        custom: kind.custom,
    };
    std::iter::once(whole).chain(parts).collect()
}

/// By what clients notice that objects are stored in another version.
fn storage_hash(kind: &Kind) -> String {
    let name = match kind.group.as_str() {
        // Whichever group shows them.
        "events.k8s.io" => format!("/{}/{}", kind.stored, kind.kind),
        // As ever.
        group @ "apiextensions.k8s.io" => format!("{group}/v1beta1/{}", kind.kind),
        group => format!("{group}/{}/{}", kind.stored, kind.kind),
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    STANDARD.encode(digest.as_ref().get(..8).unwrap_or_default())
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let found: Vec<Value> = entries(state, group, version).iter().map(Entry::listed).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!found.is_empty()).then(|| {
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found })
    })
}

impl Entry {
    /// As a list of resources has it.
    fn listed(&self) -> Value {
        let name = match self.part {
            Some(part) => format!("{}/{part}", self.plural),
            None => self.plural.clone(),
        };
        let mut fields = Map::new();
        fields.insert("name".into(), name.into());
        fields.insert("singularName".into(), self.singular.as_str().into());
        fields.insert("namespaced".into(), self.namespaced.into());
        if let Some((group, version)) = self.shown_in {
            fields.insert("group".into(), group.into());
            fields.insert("version".into(), version.into());
        }
        fields.insert("kind".into(), self.kind.as_str().into());
        fields.insert("verbs".into(), json!(self.verbs));
        self.names(&mut fields);
        if let Some(hash) = &self.hash {
            fields.insert("storageVersionHash".into(), hash.as_str().into());
        }
        fields.into()
    }

    fn names(&self, fields: &mut Map<String, Value>) {
        for (name, texts) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !texts.is_empty() {
                fields.insert(name.into(), json!(texts));
            }
        }
    }

    /// As the list of everything has it.
    fn discovered(&self, group: &str, version: &str) -> Map<String, Value> {
        let (group, version) = match self.shown_in {
            Some(elsewhere) => elsewhere,
            None if self.custom => (group, version),
            None => ("", ""),
        };
        let mut fields = Map::new();
        let (name, value) =
            self.part.map_or(("resource", self.plural.as_str()), |part| ("subresource", part));
        fields.insert(name.into(), value.into());
        fields
            .insert("responseKind".into(), json!({ "group": group, "version": version, "kind": self.kind }));
        if self.part.is_none() {
            fields.insert("scope".into(), if self.namespaced { "Namespaced" } else { "Cluster" }.into());
            fields.insert("singularResource".into(), self.singular.as_str().into());
        }
        fields.insert("verbs".into(), json!(self.verbs));
        self.names(&mut fields);
        fields
    }
}

/// Which form of the list of everything a client prefers, if any.
fn aggregated(accept: &str) -> Option<Aggregated> {
    accept.split(',').map(str::trim).find_map(|wanted| {
        let parts: Vec<&str> = wanted.split(';').map(str::trim).collect();
        let asks = |part: &str| parts.contains(&part);
        if parts.first() == Some(&JSON) && parts.len() == 1 {
            return Some(None);
        }
        let known = asks(JSON) && asks("g=apidiscovery.k8s.io") && asks("as=APIGroupDiscoveryList");
        let found = AGGREGATED.into_iter().find(|(version, _)| known && asks(version));
        found.map(|(version, content_type)| Some(Aggregated { version, content_type }))
    })?
}

struct Aggregated {
    version: &'static str,
    content_type: &'static str,
}

impl Aggregated {
    fn page(&self, state: &State, groups: &[&str]) -> Page {
        let items: Vec<Value> = groups.iter().map(|group| everything(state, group)).collect();
        let version = self.version.trim_start_matches("v=");
        let body = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
            "items": items,
        });
        Page { content_type: self.content_type, body: show::bytes(&body) }
    }
}

fn everything(state: &State, group: &str) -> Value {
    let versions: Vec<Value> = versions(state, group)
        .into_iter()
        .map(|version| {
            let mut resources: Vec<(String, Map<String, Value>)> = Vec::new();
            let mut parts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for entry in entries(state, group, version) {
                let shown = entry.discovered(group, version);
                match entry.part {
                    None => resources.push((entry.plural.clone(), shown)),
                    Some(_) => parts.entry(entry.plural.clone()).or_default().push(shown.into()),
                }
            }
            let resources: Vec<Value> = resources
                .into_iter()
                .map(|(plural, mut resource)| {
                    if let Some(parts) = parts.remove(&plural) {
                        resource.insert("subresources".into(), parts.into());
                    }
                    resource.into()
                })
                .collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
    json!({ "metadata": metadata, "versions": versions })
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
