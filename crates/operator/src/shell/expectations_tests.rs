use std::sync::Arc;

use sts_plus_planner::plan::{Kind, Object};
use tokio::time::Instant;

use super::{Expectation, Expectations, SEEN_WITHIN, Unknown};
use crate::shell::cache::Seen;

fn seen(uid: &str, version: &str, terminating: bool) -> Seen {
    Seen { uid: uid.into(), resource_version: version.into(), terminating }
}

fn pod(name: &str) -> Object {
    Object { kind: Kind::Pod, namespace: Arc::from("ns"), name: name.into() }
}

fn unknown(name: &str) -> Unknown {
    Unknown::write(pod(name), "u1".into(), Some("5".into()))
}

#[test]
fn each_expectation_is_met_by_exactly_what_it_waits_for() {
    let uid = || Box::from("u1");
    let at = |version: &str| Expectation::AtLeast { uid: uid(), resource_version: version.into() };
    let changed = |version: &str| Expectation::Changed { uid: uid(), resource_version: version.into() };
    let table = [
        (Expectation::Leaving { uid: uid() }, Some(seen("u1", "5", false)), false),
        (Expectation::Leaving { uid: uid() }, Some(seen("u1", "6", true)), true),
        (Expectation::Leaving { uid: uid() }, Some(seen("u2", "9", false)), true),
        (Expectation::Leaving { uid: uid() }, None, true),
        (Expectation::Gone { uid: uid() }, Some(seen("u1", "6", true)), false),
        (Expectation::Gone { uid: uid() }, Some(seen("u2", "6", false)), true),
        (Expectation::Gone { uid: uid() }, None, true),
        (at("10"), Some(seen("u1", "9", false)), false),
        (at("10"), Some(seen("u1", "10", false)), true),
        (at("10"), Some(seen("u1", "11", false)), true),
        (at("10"), Some(seen("u2", "1", false)), true),
        (changed("5"), Some(seen("u1", "5", false)), false),
        (changed("5"), Some(seen("u1", "6", false)), true),
        (changed("5"), Some(seen("u2", "5", false)), true),
        (changed("5"), None, true),
    ];
    for (expectation, seen, met) in table {
        assert_eq!(expectation.is_met(seen.as_ref(), None), met, "{expectation:?} with {seen:?}");
    }
}

#[test]
fn a_creation_is_seen_when_the_object_is_or_when_the_view_has_gone_past_it() {
    let at = |version: &str| Expectation::Shown { resource_version: version.into() };
    let table = [
        (at("10"), None, None, false),
        (at("10"), None, Some(9), false),
        (at("10"), None, Some(10), true),
        (at("10"), Some(seen("u1", "10", false)), None, true),
        (at("10"), Some(seen("u2", "12", true)), None, true),
        (at("10"), Some(seen("u0", "4", true)), Some(9), false),
        (at("10"), Some(seen("u0", "4", true)), Some(11), true),
        (at("odd"), None, None, true),
    ];
    for (expectation, seen, reached, met) in table {
        let words = format!("{expectation:?} with {seen:?} at {reached:?}");
        assert_eq!(expectation.is_met(seen.as_ref(), reached), met, "{words}");
    }
}

#[test]
fn what_is_awaited_for_too_long_is_read_instead() {
    let start = Instant::now();
    let mut expectations = Expectations::default();
    expectations.expect(pod("a-0"), Expectation::Leaving { uid: "u1".into() }, start);
    let unchanged = |_: &Object| (Some(seen("u1", "5", false)), None);

    expectations.look(unchanged, start);
    assert_eq!(expectations.awaited_until(Kind::Pod), Some(start + SEEN_WITHIN));
    assert!(expectations.to_read().is_empty());

    expectations.look(unchanged, start + SEEN_WITHIN);
    assert_eq!(expectations.awaited_until(Kind::Pod), None);
    let overdue = expectations.to_read();
    assert_eq!((overdue.len(), overdue[0].uid.as_deref()), (1, Some("u1")));
    // It could not be read; in the end the watch shows it after all.
    expectations.look(|_| (Some(seen("u1", "6", true)), None), start + SEEN_WITHIN);
    assert!(expectations.is_empty());
}

#[test]
fn an_unknown_write_is_dropped_once_the_view_rules_out_that_it_has_an_effect_later() {
    let (write, any_version) = (unknown("a-0"), Unknown::write(pod("a-0"), "u1".into(), None));
    let table = [
        (write.clone(), Some(seen("u1", "5", false)), false),
        (write.clone(), Some(seen("u1", "6", false)), true),
        (write.clone(), Some(seen("u2", "7", false)), true),
        (write, None, true),
        // It may still arrive, whatever else happens to the object.
        (any_version, Some(seen("u1", "6", false)), false),
        (Unknown::creation(pod("a-0")), None, false),
        (Unknown::creation(pod("a-0")), Some(seen("u3", "6", false)), true),
    ];
    for (unknown, seen, answered) in table {
        let words = format!("{unknown:?} with {seen:?}");
        let mut expectations = Expectations::default();
        expectations.lost_answer(unknown);
        expectations.look(|_| (seen.clone(), None), Instant::now());
        assert_eq!(expectations.is_empty(), answered, "{words}");
    }
}

#[test]
fn what_is_awaited_is_awaited_of_its_own_resource_and_once() {
    let start = Instant::now();
    let later = start + SEEN_WITHIN / 2;
    let mut expectations = Expectations::default();
    for now in [start, later] {
        expectations.expect(pod("a-0"), Expectation::Leaving { uid: "u1".into() }, now);
    }
    assert_eq!(expectations.awaited_until(Kind::Pod), Some(start + SEEN_WITHIN));
    assert_eq!(expectations.awaited_until(Kind::PhasedRollout), None);
    expectations.look(|_| (Some(seen("u1", "5", false)), None), start + SEEN_WITHIN);
    assert_eq!(expectations.to_read().len(), 1);
}

#[test]
fn a_lost_answer_is_to_be_read_until_it_is_known_what_became_of_the_write() {
    let mut expectations = Expectations::default();
    for _ in 0..2 {
        expectations.lost_answer(unknown("a-0"));
    }
    expectations.lost_answer(unknown("a-1"));
    assert_eq!(expectations.to_read(), [unknown("a-0"), unknown("a-1")], "the same write once");
    assert!(expectations.has_unknown(), "to read it is not yet to know");
    expectations.found_out(&unknown("a-0"));
    assert_eq!(expectations.to_read(), [unknown("a-1")]);
    expectations.found_out(&unknown("a-1"));
    assert!(expectations.is_empty());
}
