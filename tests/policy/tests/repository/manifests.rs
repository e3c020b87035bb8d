//! One fact, one place: what the workspace manifest says, members inherit.

use toml::{Table, Value};

use crate::dependencies::metadata;
use crate::{assert_none, toml};

/// What each member's `[package]` takes from the workspace.
const INHERITED: [&str; 6] = ["edition", "license", "publish", "repository", "rust-version", "version"];

/// What a member may say about a dependency of its own; a version, a path or a source belongs to the workspace.
const MEMBERS_CHOICE: [&str; 3] = ["features", "optional", "workspace"];

const DEPENDENCIES: [&str; 3] = ["build-dependencies", "dependencies", "dev-dependencies"];

fn is_inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// Every dependency with its table's name, also those of one platform only.
fn dependencies(manifest: &Table) -> Vec<(&str, &str, &Value)> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = platforms.filter_map(|(_, value)| value.as_table()).chain([manifest]);
    let mut found = Vec::new();
    for table in tables {
        for section in DEPENDENCIES {
            let entries = table.get(section).and_then(Value::as_table).into_iter().flatten();
            found.extend(entries.map(|(name, value)| (section, name.as_str(), value)));
        }
    }
    found
}

fn violations(member: &str, manifest: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for key in INHERITED {
        if !is_inherited(manifest["package"].get(key)) {
            found.push(format!("{member}: package.{key} must come from the workspace"));
        }
    }
    if !is_inherited(manifest.get("lints")) {
        found.push(format!("{member}: lints must come from the workspace"));
    }
    for (section, name, value) in dependencies(manifest) {
        let own =
            value.as_table().into_iter().flatten().find(|(key, _)| !MEMBERS_CHOICE.contains(&key.as_str()));
        if !is_inherited(Some(value)) || own.is_some() {
            found.push(format!(
                "{member}: {section}.{name} must be `workspace = true` and no more than features"
            ));
        }
    }
    found
}

#[test]
fn members_inherit_from_the_workspace() {
    let metadata = metadata();
    let found = metadata.members().flat_map(|member| violations(&member.name, &toml(&member.manifest_path)));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn a_version_of_ones_own_is_found_wherever_it_hides() {
    let manifest: Table = r#"
        [package]
        version = "1.0.0"
        edition.workspace = true
        license.workspace = true
        publish.workspace = false
        repository.workspace = true
        rust-version.workspace = true
        [lints.rust]
        unsafe_code = "allow"
        [dependencies]
        good = { workspace = true, features = ["std"], optional = true }
        plain = "1"
        [dev-dependencies]
        local = { workspace = true, path = "../local" }
        [target.'cfg(unix)'.build-dependencies]
        hidden = { version = "2" }
    "#
    .parse()
    .unwrap();
    let found = violations("x", &manifest).join("\n");
    for expected in [
        "package.version",
        "package.publish",
        "lints",
        " dependencies.plain",
        "dev-dependencies.local",
        "build-dependencies.hidden",
    ] {
        assert!(found.contains(expected), "{expected} in:\n{found}");
    }
    assert_eq!(found.lines().count(), 6, "{found}");
}
