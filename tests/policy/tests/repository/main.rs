//! The rules of the repository, as tests: what may be depended on, how manifests look, how files look, that
//! documentation holds together. Each rule is a row of a table with its reason; a violation is reported with the place.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a checkout that cannot be read should stop these tests loudly"
)]

mod catalogue;
mod dependencies;
mod docs;
mod layers;
mod licences;
mod manifests;
mod restored_times;
mod test_command;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The top of the checkout.
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..").canonicalize().unwrap()
}

/// What cargo prints when asked with `args`, of the workspace as it is locked.
fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(args).arg("--locked").current_dir(root()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

fn toml(path: &Path) -> toml::Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the checkout by its path from the top, without what builds and git put there.
fn files() -> Vec<PathBuf> {
    const NOT_OURS: [&str; 2] = [".git", "target"];
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let ours = NOT_OURS.iter().all(|name| entry.file_name() != *name);
            if kind.is_dir() && ours {
                folders.push(entry.path());
            } else if kind.is_file() && ours {
                found.push(entry.path().strip_prefix(&root).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The files whose names end in `.extension`, with their text.
fn texts(extension: &str) -> impl Iterator<Item = (PathBuf, String)> {
    files().into_iter().filter(move |path| path.extension().is_some_and(|found| found == extension)).map(
        |path| {
            let text = std::fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        },
    )
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}
