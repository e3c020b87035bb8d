//! Every id of the behaviour catalogue of the StatefulSet controller has a test that bears it: `fn c_<id>_...`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{assert_none, texts};

/// A letter of the catalogue, and its first and last number.
const IDS: [(&str, u32, u32); 6] = [
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
];

/// Ids without a test, and why.
const WITHOUT: [(&str, u32, u32, &str); 1] =
    [("c", 49, 53, "the Recreate strategy of 1.37, which a 1.36 server refuses")];

fn ids() -> impl Iterator<Item = (&'static str, u32)> {
    IDS.into_iter().flat_map(|(letter, first, last)| (first..=last).map(move |number| (letter, number)))
}

/// Why an id needs no test.
fn excuse(letter: &str, number: u32) -> Option<&'static str> {
    let excuse =
        WITHOUT.iter().find(|(of, first, last, _)| *of == letter && (*first..=*last).contains(&number));
    excuse.map(|(_, _, _, why)| *why)
}

/// The ids in the names of the tests in a source.
fn borne(source: &str) -> BTreeSet<String> {
    let names = source.match_indices("fn c_").filter(|(at, _)| {
        // Whatever stands between the attribute and the name: `async`, more attributes.
        let before = source[..*at].rfind("#[").map(|attribute| &source[attribute..*at]);
        before.is_some_and(|between| between.contains("test") && !between.contains('}'))
    });
    let ids = names.filter_map(|(at, start)| {
        let (id, _) = source[at + start.len()..].split_once('_')?;
        id.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| id.to_owned())
    });
    ids.collect()
}

#[test]
fn every_id_has_a_test_or_a_reason() {
    let crates = texts("rs").filter(|(path, _)| path.starts_with(Path::new("crates")));
    let borne: BTreeSet<String> = crates.flat_map(|(_, text)| borne(&text)).collect();
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
    assert_eq!(borne(source).into_iter().collect::<Vec<_>>(), ["c1", "s14"]);
}
