use std::sync::Arc;

use sts_plus_planner::plan::Awaited;
use sts_plus_planner::set::SetName;

use super::Waiting;
use crate::shell::cache::Touched;

fn set(name: &str) -> Awaited {
    Awaited::Set(SetName { namespace: "ns".into(), name: name.into() })
}

fn group(name: &str) -> Awaited {
    Awaited::Group { namespace: "ns".into(), group: name.into() }
}

fn touched(set: &str, group: Option<&str>) -> Touched {
    Touched::Set { namespace: "ns".into(), set: set.into(), group: group.map(Arc::from) }
}

#[test]
fn whoever_waits_for_a_set_or_its_group_is_woken_by_a_change_of_the_set() {
    let waiting = Waiting::default();
    waiting.end(&"one", &[set("a")]);
    waiting.end(&"two", &[group("g"), set("a")]);
    assert_eq!(waiting.woken_by(&touched("a", Some("g"))), ["one", "two"], "each once");
    assert_eq!(waiting.woken_by(&touched("b", Some("g"))), ["two"], "also one that joins or leaves");
    assert!(waiting.woken_by(&touched("b", None)).is_empty());
    let elsewhere = Touched::Set { namespace: "other".into(), set: "a".into(), group: None };
    assert!(waiting.woken_by(&elsewhere).is_empty());
}

#[test]
fn the_next_plan_takes_the_place_of_what_was_waited_for() {
    let waiting = Waiting::default();
    waiting.end(&"key", &[set("a")]);
    waiting.end(&"key", &[set("b")]);
    assert!(waiting.woken_by(&touched("a", None)).is_empty());
    assert_eq!(waiting.woken_by(&touched("b", None)), ["key"]);
    waiting.begin(&"key");
    waiting.give_up(&"key");
    assert_eq!(waiting.woken_by(&touched("b", None)), ["key"], "a pass without a plan changes nothing");
    waiting.forget(&"key");
    assert!(waiting.woken_by(&touched("b", None)).is_empty());
    let state = waiting.state();
    assert!(state.by.is_empty() && state.of.is_empty() && state.missed.is_empty(), "{state:?}");
}

#[test]
fn a_change_between_the_plan_and_its_end_is_not_missed() {
    let waiting = Waiting::default();
    waiting.begin(&"key");
    assert!(waiting.woken_by(&touched("a", Some("g"))).is_empty(), "it does not wait for it yet");
    assert!(waiting.end(&"key", &[group("g")]), "the pass was on what had been before");
    waiting.begin(&"key");
    assert!(!waiting.end(&"key", &[group("g")]));
}
