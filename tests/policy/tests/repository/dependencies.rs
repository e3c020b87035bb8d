//! Banned crates, licences and sources of the resolved tree, by the lists of `deny.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::{assert_none, cargo, licences, root};

/// What we read of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    license: Option<String>,
    source: Option<String>,
    pub(crate) manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A package and what it depends on, by package id.
#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Metadata {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

/// What we read of `deny.toml`.
#[derive(Deserialize)]
struct Deny {
    graph: Graph,
    bans: Bans,
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    /// Crates that may depend on it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

fn deny() -> Deny {
    toml::from_str(&std::fs::read_to_string(root().join("deny.toml")).unwrap()).unwrap()
}

/// The tree as resolved for the platforms that `deny.toml` names.
pub(crate) fn metadata() -> Metadata {
    let targets = deny().graph.targets;
    let mut args = vec!["metadata", "--format-version", "1"];
    args.extend(targets.iter().flat_map(|target| ["--filter-platform", target]));
    serde_json::from_str(&cargo(&args)).unwrap()
}

/// Each edge of the tree that leads to a banned crate from one that is not its wrapper.
fn banned(metadata: &Metadata, bans: &[Ban]) -> Vec<String> {
    let names: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (&package.id, &package.name)).collect();
    let mut found = Vec::new();
    for node in &metadata.resolve.nodes {
        let user = names[&node.id];
        for used in node.dependencies.iter().map(|id| names[id]) {
            let ban = bans.iter().find(|ban| ban.name == *used && !ban.wrappers.contains(user));
            found.extend(ban.map(|ban| format!("{user} depends on {used}: {}", ban.reason)));
        }
    }
    found
}

#[test]
fn no_banned_crate_is_in_the_tree() {
    assert_none(&banned(&metadata(), &deny().bans.deny));
}

#[test]
fn every_licence_is_on_the_allow_list() {
    let allowed = deny().licenses.allow;
    let refused = metadata().packages.into_iter().filter_map(|package| {
        let licence = package.license.unwrap_or_else(|| "no licence given".to_owned());
        let verdict = licences::allowed(&licence, &allowed);
        (verdict != Ok(true)).then(|| format!("{}: {licence} ({verdict:?})", package.name))
    });
    assert_none(&refused.collect::<Vec<_>>());
}

#[test]
fn every_dependency_comes_from_a_registry_or_this_repository() {
    let foreign = metadata().packages.into_iter().filter_map(|package| {
        let source = package.source?;
        (!source.starts_with("registry+")).then(|| format!("{} comes from {source}", package.name))
    });
    assert_none(&foreign.collect::<Vec<_>>());
}

#[test]
fn a_ban_binds_everybody_but_its_wrappers() {
    let package = |name: &str| format!(r#"{{"id": "{name}", "name": "{name}", "manifest_path": ""}}"#);
    let names = ["ours", "cel", "chrono", "openssl"].map(package).join(",");
    let tree: Metadata = serde_json::from_str(&format!(
        r#"{{"packages": [{names}], "workspace_members": ["ours"], "resolve": {{"nodes": [
            {{"id": "ours", "dependencies": ["cel", "chrono"]}},
            {{"id": "cel", "dependencies": ["chrono", "openssl"]}}]}}}}"#
    ))
    .unwrap();
    let ban = |name: &str, wrappers: &[&str]| Ban {
        name: name.to_owned(),
        wrappers: wrappers.iter().map(ToString::to_string).collect(),
        reason: "why".to_owned(),
    };
    assert_eq!(
        banned(&tree, &[ban("chrono", &["cel"]), ban("openssl", &[])]),
        ["ours depends on chrono: why", "cel depends on openssl: why"]
    );
}
