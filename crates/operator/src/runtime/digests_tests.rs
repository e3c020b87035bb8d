use serde_json::{Value, json};

use super::*;

fn digest(object: Value) -> String {
    serde_json::from_value::<Config>(object).unwrap().digest()
}

#[test]
fn d_f11_metadata_is_no_part_of_a_digest() {
    let one = digest(
        json!({ "metadata": { "resourceVersion": "1", "labels": { "a": "b" } }, "data": { "k": "v" } }),
    );
    let two = digest(json!({ "metadata": { "resourceVersion": "2" }, "data": { "k": "v" } }));
    assert_eq!(one, two);
}

#[test]
fn d_f12_binary_data_is_part_of_a_digest() {
    let one = digest(json!({ "data": { "k": "v" } }));
    assert_ne!(one, digest(json!({ "binaryData": { "k": "v" } })));
    assert_ne!(one, digest(json!({ "data": { "k": "w" } })));
}

#[test]
fn data_that_only_reads_alike_has_another_digest() {
    assert_ne!(digest(json!({ "data": { "a": "bc" } })), digest(json!({ "data": { "ab": "c" } })));
    assert_ne!(digest(json!({ "data": { "a": "1", "b": "2" } })), digest(json!({ "data": { "a": "1b2" } })));
    assert_eq!(digest(json!({})), digest(json!({ "data": null })));
}

#[test]
fn an_answer_that_cannot_be_read_is_not_quoted() {
    let error =
        serde_json::from_str::<Event>(r#"{"type":"ADDED","object":{"code":"hunter2"}}"#).err().unwrap();
    assert!(error.to_string().contains("hunter2"));
    assert!(!unreadable(&error).to_string().contains("hunter2"));
}

#[test]
fn d_f15_the_label_of_versioned_secrets_is_known() {
    let known = |labels: Value| {
        let secret = json!({ "metadata": { "labels": labels }, "data": { "k": "v" } });
        serde_json::from_value::<Config>(secret).unwrap().known()
    };
    for group in ["sts.plus", "fissile.cloudfoundry.org", "quarks.cloudfoundry.org"] {
        let key = format!("{group}/secret-kind");
        assert!(matches!(known(json!({ &key: "versionedSecret" })), Digest::Versioned(_)));
        assert!(matches!(known(json!({ &key: "generated" })), Digest::Known(_)));
    }
    assert!(matches!(known(json!(null)), Digest::Known(_)));
}
