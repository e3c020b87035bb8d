//! Every id of the behaviour catalogue of the StatefulSet controller has a test that bears it: `fn c_<id>_...`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::{assert_none, texts};

/// A letter of the catalogue, and its first and last number.
const IDS: [(&str, u32, u32); 8] = [
    // The control logic.
    ("c", 1, 65),
    // The shell: passes and wake-ups.
    ("s", 1, 25),
    // One pod and its claims.
    ("p", 1, 20),
    // The small questions.
    ("u", 1, 27),
    // The status, and revisions of older servers.
    ("t", 1, 5),
    // The history of revisions.
    ("h", 1, 8),
    // Integration: API server and controller.
    ("i", 1, 10),
    // End to end.
    ("e", 1, 34),
];

/// Ids without a test, and why.
const WITHOUT: [(&str, u32, u32, &str); 6] = [
    ("c", 49, 53, RECREATE),
    ("i", 10, 10, RECREATE),
    ("e", 17, 19, RECREATE),
    ("e", 1, 1, "needs containers: tests/harness/tests/real_node/ledger.rs shows it on a real node"),
    ("e", 20, 20, "needs the images of a clustered database"),
    ("e", 34, 34, "needs containers and two versions of Kubernetes; data on a real node is shown as for e1"),
];

const RECREATE: &str = "the Recreate strategy of 1.37, which a 1.36 server refuses";

/// Whether a line before a function says that it is a test.
type IsTest = fn(&str) -> bool;

/// Where tests stand: whether a function is one is told by its attribute or, where scenarios are listed by name and one that
/// is not listed is dead code, by being there.
const PLACES: [(&str, IsTest); 2] =
    [("crates", is_marked), ("tests/scenarios/src/native/ids", is_a_scenario)];

fn ids() -> impl Iterator<Item = (&'static str, u32)> {
    IDS.into_iter().flat_map(|(letter, first, last)| (first..=last).map(move |number| (letter, number)))
}

/// Why an id needs no test.
fn excuse(letter: &str, number: u32) -> Option<&'static str> {
    let excuse =
        WITHOUT.iter().find(|(of, first, last, _)| *of == letter && (*first..=*last).contains(&number));
    excuse.map(|(_, _, _, why)| *why)
}

/// Whether what stands before a function marks it as a test.
fn is_marked(before: &str) -> bool {
    // Whatever stands between the attribute and the name: `async`, more attributes.
    let between = before.rfind("#[").map(|attribute| &before[attribute..]);
    between.is_some_and(|between| between.contains("test") && !between.contains('}'))
}

/// Whether what stands before a function makes it one that can be played.
fn is_a_scenario(before: &str) -> bool {
    before.ends_with("\nasync ")
}

/// The ids in the names of the tests in a source.
fn borne(source: &str, is_test: fn(&str) -> bool) -> BTreeSet<String> {
    let names = source.match_indices("fn c_").filter(|(at, _)| is_test(&source[..*at]));
    let ids = names.filter_map(|(at, start)| {
        let (id, _) = source[at + start.len()..].split_once('_')?;
        id.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| id.to_owned())
    });
    ids.collect()
}

#[test]
fn every_id_has_a_test_or_a_reason() {
    let borne_at = |(path, text): (PathBuf, String)| {
        let place = PLACES.iter().find(|(place, _)| path.starts_with(place));
        place.map(|(_, is_test)| borne(&text, *is_test)).unwrap_or_default()
    };
    let borne: BTreeSet<String> = texts("rs").flat_map(borne_at).collect();
    let violations = ids().filter_map(|(letter, number)| {
        let id = format!("{letter}{number}");
        match (borne.contains(&id), excuse(letter, number)) {
            (true, Some(why)) => Some(format!("{id} has a test, so it needs no reason: {why}")),
            (false, None) => Some(format!("{id} has no test")),
            _ => None,
        }
    });
    assert_none(&violations.collect::<Vec<_>>());
}

#[test]
fn ids_are_found_in_the_names_of_tests_only() {
    let source = "
        #[test]
        fn c_c1_a() {}
        #[tokio::test]
        async fn c_s14_b() {}
        fn c_u3_helper() {}
        #[test]
        fn c_t2() {}";
    assert_eq!(borne(source, is_marked).into_iter().collect::<Vec<_>>(), ["c1", "s14"]);
    let source = "
async fn c_i1_a(act: &Act) {}
// async fn c_i2_b(act: &Act) {}
fn c_i3_helper() {}";
    assert_eq!(borne(source, is_a_scenario).into_iter().collect::<Vec<_>>(), ["i1"]);
}
