use serde_json::json;

use super::*;

fn paths(theirs: &Value, ours: &Value) -> Vec<String> {
    differences(theirs, ours).iter().map(|difference| difference.path.join(".")).collect()
}

#[test]
fn equal_things_do_not_differ() {
    let value = json!({ "a": [1, { "b": null }], "c": "text" });
    assert_eq!(paths(&value, &value), [""; 0]);
}

#[test]
fn each_difference_is_named_where_it_is() {
    assert_eq!(paths(&json!({ "a": { "b": 1, "c": 2 } }), &json!({ "a": { "b": 1, "c": 3 } })), ["a.c"]);
    assert_eq!(paths(&json!({ "a": [1, 2] }), &json!({ "a": [1, 3] })), ["a.1"]);
    assert_eq!(paths(&json!({ "a": [1] }), &json!({ "a": [1, 3] })), ["a"]);
    assert_eq!(paths(&json!({ "a": 1 }), &json!({ "b": 1 })), ["a", "b"]);
    assert_eq!(paths(&json!({ "a": "1" }), &json!({ "a": 1 })), ["a"]);
}

#[test]
fn what_may_differ_is_documented() {
    let document = include_str!("../../../../docs/statefulset-differences.md");
    let items: Vec<_> = document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!((1..=10).contains(&items.len()), "{items:?}");
    let scripts: Vec<_> = crate::native::scripts::all().iter().map(|script| script.name).collect();
    for allowed in ALLOWED {
        assert!(items.contains(&allowed.item), "{} is not documented", allowed.item);
        assert!(allowed.scripts.iter().all(|name| scripts.contains(name)), "{:?}", allowed.scripts);
    }
}

fn told(reason: &str, theirs: Value, ours: Value) -> Difference {
    let path = ["events", "web", "Normal", reason].map(str::to_owned).to_vec();
    Difference { path, theirs, ours }
}

fn is_unexpected(found: &Difference, script: &str, rival: Rival) -> bool {
    !unexpected(vec![found.clone()], script, rival).is_empty()
}

#[test]
fn theirs_may_tell_of_a_deletion_twice_and_ours_may_not() {
    let count = |count: u32| json!({ "messages": ["a"], "count": count, "incomplete": false });
    let theirs = told("SuccessfulDelete", count(2), count(1));
    assert!(!is_unexpected(&theirs, "any", Rival::Ours));
    assert!(is_unexpected(&theirs.clone().swapped(), "any", Rival::Ours));
    assert!(is_unexpected(&theirs, "any", Rival::Itself));
    assert!(!is_unexpected(&theirs.swapped(), "any", Rival::Theirs));
    assert!(is_unexpected(&told("SuccessfulCreate", count(2), count(1)), "any", Rival::Ours));
}

#[test]
fn what_theirs_has_dropped_may_be_told_by_ours() {
    let messages = |texts: &[&str], incomplete: bool| json!({ "messages": texts, "incomplete": incomplete });
    let told = |theirs, ours| is_unexpected(&told("SuccessfulCreate", theirs, ours), "any", Rival::Ours);
    assert!(!told(messages(&["a"], true), messages(&["a", "b"], false)));
    assert!(told(messages(&["a"], false), messages(&["a", "b"], false)));
    assert!(told(messages(&["a"], true), messages(&["b"], false)));
    assert!(told(messages(&["a", "b"], false), messages(&["a"], true)));
}

#[test]
fn only_where_claims_change_owners_may_ours_tell_less_of_updates() {
    let messages = |texts: &[&str]| json!({ "messages": texts, "incomplete": false });
    let less = told("SuccessfulUpdate", messages(&["a"]), messages(&[]));
    assert!(!is_unexpected(&less, "same_when_the_retention_changes_midway", Rival::Ours));
    assert!(is_unexpected(&less, "same_when_pods_lose_labels", Rival::Ours));
    assert!(is_unexpected(&less.swapped(), "same_when_the_retention_changes_midway", Rival::Ours));
}
