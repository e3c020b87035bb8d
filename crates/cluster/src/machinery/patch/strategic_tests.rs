use serde_json::json;

use super::*;
use crate::machinery::arbitrary;

fn merged(containers: &Value, patch: &Value) -> Value {
    let pod = arbitrary::pod(containers);
    strategic(&pod, &json!({ "spec": patch }), &arbitrary::built_in("", "Pod")).unwrap()["spec"].take()
}

#[test]
fn an_item_is_merged_with_the_one_of_its_name() {
    let containers = json!([{ "name": "a", "image": "x" }, { "name": "b", "image": "y" }]);
    let patch = json!({ "containers": [{ "name": "b", "command": ["c"] }] });
    let expected = json!([{ "name": "a", "image": "x" }, { "name": "b", "image": "y", "command": ["c"] }]);
    assert_eq!(merged(&containers, &patch)["containers"], expected);
}

#[test]
fn a_new_item_comes_before_those_that_the_patch_does_not_name() {
    let patch = json!({ "containers": [{ "name": "c" }] });
    assert_eq!(
        merged(&json!([{ "name": "a" }]), &patch)["containers"],
        json!([{ "name": "c" }, { "name": "a" }])
    );
}

#[test]
fn the_order_is_that_of_the_directive() {
    let patch = json!({ "$setElementOrder/containers": [{ "name": "c" }, { "name": "a" }] });
    let containers = json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]);
    let expected = json!([{ "name": "b" }, { "name": "c" }, { "name": "a" }]);
    assert_eq!(merged(&containers, &patch)["containers"], expected);
}

#[test]
fn a_custom_resource_has_no_strategy() {
    let refused = strategic(&json!({}), &json!({}), &arbitrary::thing()).unwrap_err();
    assert_eq!(refused, PatchError::Malformed("strategic merge patch format is not supported".to_owned()));
}

#[test]
fn of_a_union_only_the_retained_keys_stay() {
    let pod = json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } });
    let volume = json!({ "name": "v", "$retainKeys": ["name", "secret"], "secret": { "secretName": "s" } });
    let patch = json!({ "spec": { "volumes": [volume] } });
    let merged = strategic(&pod, &patch, &arbitrary::built_in("", "Pod")).unwrap();
    assert_eq!(merged["spec"]["volumes"], json!([{ "name": "v", "secret": { "secretName": "s" } }]));
}
