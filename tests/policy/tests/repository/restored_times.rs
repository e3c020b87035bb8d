//! `.ci/restore-times`: what cargo has compiled for one clone serves the next one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use tempfile::TempDir;

use crate::root;

const SCRIPT: &str = ".ci/restore-times";

fn run(folder: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A checkout with these files, all of them new; the times that the script gives them.
fn times(target: &Path, files: &[(&str, &str)]) -> Vec<SystemTime> {
    let clone = TempDir::new().unwrap();
    run(clone.path(), "git", &["init", "--quiet"]);
    fs::create_dir(clone.path().join(".ci")).unwrap();
    fs::copy(root().join(SCRIPT), clone.path().join(SCRIPT)).unwrap();
    for (name, content) in files {
        fs::write(clone.path().join(name), content).unwrap();
    }
    run(clone.path(), "git", &["add", "--all"]);
    run(clone.path(), SCRIPT, &[&target.display().to_string()]);
    files.iter().map(|(name, _)| fs::metadata(clone.path().join(name)).unwrap().modified().unwrap()).collect()
}

#[test]
fn only_what_has_changed_is_newer_than_what_was_compiled() {
    let target = TempDir::new().unwrap();
    let first = times(target.path(), &[("same.rs", "a"), ("with a space.rs", "a"), ("changed.rs", "a")]);
    let second = times(target.path(), &[("same.rs", "a"), ("with a space.rs", "a"), ("changed.rs", "b")]);
    assert_eq!(first[..2], second[..2], "unchanged files");
    assert!(second[2] > first[2], "a changed file");
    // What comes back was not compiled last.
    let third = times(target.path(), &[("same.rs", "a"), ("changed.rs", "a")]);
    assert_eq!(third[0], first[0]);
    assert!(third[1] > second[2], "a file that is as it once was");
    // A file that was gone, too.
    let fourth = times(target.path(), &[("same.rs", "a"), ("with a space.rs", "a")]);
    assert!(fourth[1] > third[1], "a file that was gone");
}
