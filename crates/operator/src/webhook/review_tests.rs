use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sts_plus_api::keys::{POD_INDEX, STABLE_CLAIMS};

use super::super::paths::PATHS;
use super::{Answer, ReviewError, answer};

fn review() -> Value {
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data-volume-management-db.ordinal" } });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "name": "db-v1-11",
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": { "username": "somebody" },
            "object": {
                "metadata": { "name": "db-v1-11", "labels": { STABLE_CLAIMS: "true", POD_INDEX: "11" } },
                "spec": { "volumes": [volume], "containers": [{ "name": "db", "image": "db" }] },
            },
            "oldObject": null,
            "dryRun": false,
            "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" },
        },
    })
}

fn ask(body: &[u8]) -> Result<Answer, ReviewError> {
    let row = PATHS.iter().find(|row| row.path == "/stable-claims").unwrap();
    answer(body, row.decide)
}

fn ask_json(review: &Value) -> Result<(Value, &'static str), ReviewError> {
    let answer = ask(review.to_string().as_bytes())?;
    Ok((serde_json::from_slice(&answer.body).unwrap(), answer.result))
}

#[test]
fn d_s2_4_6_the_answer_is_a_json_patch() {
    let (answer, result) = ask_json(&review()).unwrap();
    assert_eq!(result, "patched");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = &answer["response"];
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    assert_eq!(response["allowed"], true);
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: Value =
        serde_json::from_slice(&STANDARD.decode(response["patch"].as_str().unwrap()).unwrap()).unwrap();
    let at = "/spec/volumes/0/persistentVolumeClaim/claimName";
    assert_eq!(patch, json!([{ "op": "replace", "path": at, "value": "data-volume-management-db-11" }]));
    assert!(response.get("warnings").is_none());
}

#[test]
fn whatever_is_asked_is_allowed() {
    let mut without_label = review();
    without_label["request"]["object"]["metadata"]["labels"] = json!({});
    let mut update = review();
    update["request"]["operation"] = "UPDATE".into();
    let mut deletion = review();
    deletion["request"]["operation"] = "DELETE".into();
    deletion["request"]["object"] = Value::Null;
    let mut eviction = review();
    eviction["request"]["subResource"] = "eviction".into();
    for review in [without_label, update, deletion, eviction] {
        let (answer, result) = ask_json(&review).unwrap();
        assert_eq!(result, "unchanged", "{review}");
        assert_eq!(answer["response"], json!({ "uid": review["request"]["uid"], "allowed": true }));
    }
    let mut without_ordinal = review();
    without_ordinal["request"]["object"]["metadata"]["labels"][POD_INDEX] = "x".into();
    let (answer, result) = ask_json(&without_ordinal).unwrap();
    assert_eq!(result, "warned");
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["warnings"].as_array().unwrap().len(), 1);
    assert!(answer["response"]["warnings"][0].as_str().unwrap().len() <= 256);
}

#[test]
fn a_body_that_is_no_review_is_refused_with_the_reason() {
    let change = |pointer: &str, value: Value| {
        let mut review = review();
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string().into_bytes()
    };
    let deep = "[".repeat(100_000).into_bytes();
    let cases: [(Vec<u8>, &str); 14] = [
        (Vec::new(), "not an AdmissionReview in JSON: EOF"),
        (b"hello".to_vec(), "not an AdmissionReview in JSON"),
        (vec![0xff, 0xfe], "not an AdmissionReview in JSON"),
        (deep, "not an AdmissionReview in JSON"),
        (b"{}".to_vec(), "a  of ;"),
        (
            change("/apiVersion", "admission.k8s.io/v1beta1".into()),
            "AdmissionReview of admission.k8s.io/v1beta1",
        ),
        (change("/kind", "Pod".into()), "a Pod of admission.k8s.io/v1"),
        (change("/request", Value::Null), "has no request"),
        (change("/request/uid", "".into()), "no uid"),
        (change("/request/uid", "x".repeat(10_000).into()), "no uid"),
        (change("/request/operation", "PATCH".into()), "unknown variant `PATCH`"),
        (change("/request/resource", "pods".into()), "not an AdmissionReview in JSON"),
        (change("/request/object", json!({ "spec": 7 })), "not a readable pod"),
        (change("/request/object", "\u{1f}".into()), "not a readable pod"),
    ];
    for (body, words) in cases {
        let error = ask(&body).unwrap_err().to_string();
        let shown = String::from_utf8_lossy(&body).chars().take(80).collect::<String>();
        assert!(error.contains(words), "{shown}: {error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn escapes_in_a_review_are_read() {
    let body =
        review().to_string().replace("\"pods\"", "\"po\\u0064s\"").replace("\"CREATE\"", "\"\\u0043REATE\"");
    assert_eq!(ask(body.as_bytes()).unwrap().result, "patched");
}
