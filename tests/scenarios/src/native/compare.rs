//! Theirs against ours.

use std::fmt;

use serde_json::{Value, json};

/// Something that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where: `pods.web-0.spec.hostname`.
    pub path: Vec<String>,
    /// What theirs has there; null for nothing.
    pub theirs: Value,
    /// What ours has there; null for nothing.
    pub ours: Value,
}

/// A difference that is meant to be.
#[derive(Debug)]
pub struct Allowed {
    /// The heading in docs/statefulset-differences.md.
    pub item: &'static str,
    /// The scripts in which it may be seen; none means all of them.
    pub scripts: &'static [&'static str],
    /// Whether a difference is of this kind.
    pub covers: fn(&Difference) -> bool,
}

/// All differences that are meant to be. One more is not seen here: the volumes of claims, which theirs puts into pods in
/// any order, are sorted in every picture.
pub const ALLOWED: [Allowed; 4] = [
    Allowed {
        item: "It waits for its own writes",
        scripts: &[],
        covers: |found| {
            found.is_event("SuccessfulDelete")
                && found.theirs["messages"] == found.ours["messages"]
                && found.theirs["count"].as_i64() > found.ours["count"].as_i64()
        },
    },
    Allowed {
        item: "Events are combined, not dropped",
        scripts: &[],
        covers: |found| {
            let incomplete = |told: &Value| told["incomplete"] == true;
            let all_told = subset(&found.theirs["messages"], &found.ours["messages"]);
            found.path.first().is_some_and(|part| part == "events")
                && incomplete(&found.theirs)
                && (all_told || incomplete(&found.ours))
        },
    },
    Allowed {
        item: "Wrong owners of a claim cause no write to its pod",
        scripts: &[
            "same_when_claims_are_kept",
            "same_when_claims_go_with_the_set",
            "same_when_claims_go_with_their_pod",
            "same_when_claims_go_with_their_pod_and_the_set",
            "same_when_the_retention_changes_midway",
            "same_when_scaled_up_onto_claims_that_are_about_to_go",
            "same_when_a_pod_is_deleted_whose_claims_go_with_it",
            "same_when_a_claim_has_another_controller",
            "same_when_a_set_is_deleted_without_its_pods_and_made_again",
        ],
        covers: |found| {
            found.is_event("SuccessfulUpdate") && subset(&found.ours["messages"], &found.theirs["messages"])
        },
    },
    Allowed {
        item: "Broken pods may be replaced, and unreadable revisions are reported",
        scripts: &["same_when_a_stored_revision_does_not_decode"],
        covers: |found| found.is_event("RevisionUnreadable") && found.theirs["messages"] == json!([]),
    },
];

/// Who is compared with theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Ours, which does not do what is only allowed to theirs.
    Ours,
    /// Theirs again.
    Theirs,
    /// Ours again, on the embedded cluster: nothing may differ.
    Itself,
}

impl Difference {
    /// Whether it is meant to be, in this script.
    fn is_allowed(&self, script: &str, rival: Rival) -> bool {
        let applies = |allowed: &&Allowed| allowed.scripts.is_empty() || allowed.scripts.contains(&script);
        let covered = |found: &Self| ALLOWED.iter().filter(applies).any(|allowed| (allowed.covers)(found));
        match rival {
            Rival::Ours => covered(self),
            Rival::Theirs => covered(self) || covered(&self.clone().swapped()),
            Rival::Itself => false,
        }
    }

    fn is_event(&self, reason: &str) -> bool {
        self.path.first().is_some_and(|part| part == "events")
            && self.path.last().is_some_and(|part| part == reason)
    }

    fn swapped(self) -> Self {
        Self { path: self.path, theirs: self.ours, ours: self.theirs }
    }
}

fn subset(some: &Value, all: &Value) -> bool {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    items(some).iter().all(|item| items(all).contains(item))
}

/// What is left of differences in a script without those that are meant to be.
pub fn unexpected(found: Vec<Difference>, script: &str, rival: Rival) -> Vec<Difference> {
    found.into_iter().filter(|difference| !difference.is_allowed(script, rival)).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, theirs, ours } = self;
        write!(f, "{}\n    theirs: {theirs}\n    ours:   {ours}", path.join("."))
    }
}

/// Everything that differs.
pub fn differences(theirs: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), theirs, ours, &mut found);
    found
}

fn walk(path: &mut Vec<String>, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
    let mut step = |key: String, theirs: &Value, ours: &Value| {
        path.push(key);
        walk(path, theirs, ours, found);
        path.pop();
    };
    match (theirs, ours) {
        (Value::Object(one), Value::Object(two)) => {
            let only_ours = two.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(only_ours) {
                let of =
                    |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                step(key.clone(), &of(one), &of(two));
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (index, (theirs, ours)) in one.iter().zip(two).enumerate() {
                step(index.to_string(), theirs, ours);
            }
        }
        _ if theirs == ours => {}
        _ => found.push(Difference { path: path.clone(), theirs: theirs.clone(), ours: ours.clone() }),
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
