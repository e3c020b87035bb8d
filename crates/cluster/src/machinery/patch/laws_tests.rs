use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::machinery::arbitrary;

/// The merge patch from one document to another; neither may hold nulls.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = to.iter().filter(|(name, value)| from.get(*name) != Some(value)).map(|(name, value)| {
        let change = from.get(name).map_or_else(|| value.clone(), |before| difference(before, value));
        (name.clone(), change)
    });
    Value::Object(gone.chain(changed).collect())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>(),
            )
        }
        // Items stay: without them a list would be another.
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        value => value.clone(),
    }
}

fn operation() -> impl Strategy<Value = Value> {
    let path = || prop_oneof!["(/(a|b|spec|0|1|-|-1)){0,3}", "[a-z/~]{0,4}"];
    let kind = proptest::sample::select(&["add", "remove", "replace", "move", "copy", "test", "sing"][..]);
    (kind, path(), path(), arbitrary::value())
        .prop_map(|(op, path, from, value)| json!({ "op": op, "path": path, "from": from, "value": value }))
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(document in arbitrary::value(), patch in arbitrary::value()) {
        let once = merge(&document, &patch);
        prop_assert_eq!(merge(&once, &patch), once);
    }

    #[test]
    fn merging_nothing_changes_nothing(document in arbitrary::object()) {
        prop_assert_eq!(merge(&document, &json!({})), document);
    }

    #[test]
    fn merging_the_difference_arrives(from in arbitrary::object(), to in arbitrary::object()) {
        let (from, to) = (without_nulls(&from), without_nulls(&to));
        prop_assert_eq!(merge(&from, &difference(&from, &to)), to);
    }

    #[test]
    fn merging_leaves_no_null_behind(document in arbitrary::value(), patch in arbitrary::object()) {
        let merged = merge(&without_nulls(&document), &patch);
        prop_assert_eq!(without_nulls(&merged), merged);
    }

    #[test]
    fn what_is_added_can_be_tested_and_removed(document in arbitrary::object(), value in arbitrary::value()) {
        let path = "/new~1field";
        let added = json(&document, &json!([{ "op": "add", "path": path, "value": value }])).unwrap();
        let patch = json!([{ "op": "test", "path": path, "value": value }, { "op": "remove", "path": path }]);
        prop_assert_eq!(json(&added, &patch).unwrap(), document);
    }

    #[test]
    fn no_json_patch_panics(document in arbitrary::value(), patch in proptest::collection::vec(operation(), 0..4)) {
        let _ = json(&document, &Value::from(patch));
    }

    #[test]
    fn no_json_makes_a_patch_panic(document in arbitrary::value(), patch in arbitrary::value()) {
        let _ = json(&document, &patch);
        for kind in ["Pod", "Service", "ConfigMap"] {
            let _ = strategic(&document, &patch, &arbitrary::built_in("", kind));
        }
        let _ = strategic(&document, &patch, &arbitrary::thing());
    }

    #[test]
    fn strategic_merging_twice_is_merging_once(
        before in arbitrary::containers(), change in arbitrary::containers(),
    ) {
        let schema = arbitrary::built_in("", "Pod");
        let patch = json!({ "spec": { "containers": change } });
        let once = strategic(&arbitrary::pod(&before), &patch, &schema).unwrap();
        prop_assert_eq!(strategic(&once, &patch, &schema).unwrap(), once);
    }

    #[test]
    fn strategic_merging_keeps_who_is_not_named(before in arbitrary::containers(), change in arbitrary::containers()) {
        let schema = arbitrary::built_in("", "Pod");
        let patch = json!({ "spec": { "containers": change } });
        let merged = strategic(&arbitrary::pod(&before), &patch, &schema).unwrap();
        let merged = merged["spec"]["containers"].as_array().unwrap();
        let names = |list: &[Value]| -> std::collections::BTreeSet<String> {
            list.iter().map(|item| item["name"].to_string()).collect()
        };
        let (before, change) = (before.as_array().unwrap(), change.as_array().unwrap());
        prop_assert_eq!(names(merged), names(before).union(&names(change)).cloned().collect());
        for kept in before.iter().filter(|item| !names(change).contains(&item["name"].to_string())) {
            prop_assert!(merged.contains(kept));
        }
    }

    #[test]
    fn without_lists_strategic_is_merge(
        before in proptest::collection::btree_map("[a-c]", "[xy]", 0..3),
        change in proptest::collection::btree_map("[a-c]", proptest::option::of("[xy]"), 0..3),
    ) {
        let document = json!({ "metadata": { "name": "c" }, "data": before });
        let patch = json!({ "data": change });
        let merged = strategic(&document, &patch, &arbitrary::built_in("", "ConfigMap")).unwrap();
        prop_assert_eq!(merged, merge(&document, &patch));
    }
}
