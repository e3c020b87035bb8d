use serde_json::json;

use super::*;

#[test]
fn tildes_and_slashes_are_escaped() {
    let document = json!({ "a/b": 1, "c~d": 2 });
    let patch =
        json!([{ "op": "remove", "path": "/a~1b" }, { "op": "replace", "path": "/c~0d", "value": 3 }]);
    assert_eq!(json(&document, &patch), Ok(json!({ "c~d": 3 })));
}

#[test]
fn a_missing_field_equals_null() {
    let document = json!({ "metadata": {} });
    let patch = json!([{ "op": "test", "path": "/metadata/finalizers", "value": null }]);
    assert_eq!(json(&document, &patch), Ok(document));
}

#[test]
fn one_operation_more_than_allowed_is_refused() {
    let operations = |count| Value::from(vec![json!({ "op": "test", "path": "/a", "value": null }); count]);
    assert!(json(&json!({}), &operations(MAX_OPERATIONS)).is_ok());
    let refused = json(&json!({}), &operations(MAX_OPERATIONS + 1)).unwrap_err();
    assert_eq!(refused, PatchError::TooLarge(MAX_OPERATIONS + 1));
    assert_eq!(refused.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn what_is_no_list_of_operations_is_malformed() {
    for (patch, what) in [(json!({}), "object"), (json!("x"), "string"), (json!([{ "op": 1 }]), "number")] {
        let Err(PatchError::Malformed(message)) = json(&json!({}), &patch) else {
            panic!("{patch} is a patch")
        };
        assert!(message.contains(what), "{message}");
    }
    assert!(matches!(json(&json!({}), &json!([1])), Err(PatchError::Malformed(_))));
    assert_eq!(
        json(&json!({ "a": 1 }), &json!(null)).unwrap(),
        json!({ "a": 1 }),
        "to Go null is an empty list"
    );
}

#[test]
fn a_failing_operation_says_which() {
    let patch = json!([{ "op": "replace", "path": "/a/b", "value": 1 }]);
    let refused = json(&json!({}), &patch).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "replace operation does not apply: doc is missing path: /a/b: missing value"
    );
}

#[test]
fn copies_of_copies_come_to_an_end() {
    let copy = json!({ "op": "copy", "from": "/a", "path": "/a/-" });
    let document = json!({ "a": ["0123456789"] });
    let refused = json(&document, &Value::from(vec![copy.clone(); 100])).unwrap_err();
    assert!(refused.to_string().starts_with("Unable to complete the copy"), "{refused}");
    assert!(json(&document, &Value::from(vec![copy; 10])).is_ok());
}

#[test]
fn no_patch_makes_a_document_deeper_than_its_readers() {
    let deeper = |levels| {
        let step = |level| json!({ "op": "add", "path": "/x".repeat(level), "value": {} });
        Value::from((1..levels).map(step).collect::<Vec<_>>())
    };
    let deepest = json(&json!({}), &deeper(MAX_DEPTH)).unwrap();
    assert_eq!(depth(&deepest), MAX_DEPTH);
    assert_eq!(serde_json::from_str::<Value>(&deepest.to_string()).unwrap(), deepest);
    let refused = json(&json!({}), &deeper(MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(refused.to_string(), "exceeded max depth");
}

#[test]
fn a_long_list_is_not_shifted_for_ever() {
    let document = json!({ "a": vec![0; 100_000] });
    let to_and_fro = [
        json!({ "op": "move", "from": "/a", "path": "/b" }),
        json!({ "op": "move", "from": "/b", "path": "/a" }),
    ];
    let shift =
        [json!({ "op": "add", "path": "/a/0", "value": 1 }), json!({ "op": "remove", "path": "/a/0" })];
    for operations in [to_and_fro, shift] {
        assert!(json(&document, &Value::from(operations.to_vec())).is_ok());
        let many = operations.iter().cycle().take(MAX_OPERATIONS).cloned().collect::<Vec<_>>();
        let refused = json(&document, &Value::from(many)).unwrap_err();
        assert!(refused.to_string().starts_with("too much work"), "{refused}");
    }
}
