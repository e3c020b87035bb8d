//! The rings of the architecture: what a crate must never reach, however many steps away.

use crate::{assert_none, cargo};

/// What drags a runtime, a client or a clock along.
const SHELL: [&str; 8] =
    ["hyper", "k8s-openapi", "kube", "kube-client", "rand", "sts-plus-operator", "tokio", "tracing"];

/// A crate, and what its normal dependencies must not lead to.
const MUST_NOT_REACH: [(&str, &[&str]); 3] = [
    // The nouns and the verbs are plain data and pure functions: they build and test in seconds.
    ("sts-plus-api", &SHELL),
    ("sts-plus-planner", &SHELL),
    // A cluster that knew what runs on it would prove nothing.
    ("sts-plus-cluster", &["sts-plus-operator", "sts-plus-planner"]),
];

#[test]
fn no_crate_reaches_an_outer_ring() {
    let reached = MUST_NOT_REACH.into_iter().flat_map(|(package, forbidden)| {
        // Unlike `cargo metadata`, `cargo tree` leaves out features that only other members ask for.
        let tree = cargo(&["tree", "--package", package, "--edges", "normal,build", "--prefix", "none"]);
        forbidden
            .iter()
            .filter(|name| tree.lines().any(|line| line.split(' ').next() == Some(name)))
            .map(|name| format!("{package} reaches {name}"))
            .collect::<Vec<_>>()
    });
    assert_none(&reached.collect::<Vec<_>>());
}
