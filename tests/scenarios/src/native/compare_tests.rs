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
    for allowed in ALLOWED {
        assert!(items.contains(&allowed.item), "{} is not documented", allowed.item);
    }
}
