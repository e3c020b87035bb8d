use serde_json::{Value, json};

use super::*;

fn spec() -> Value {
    json!({
        "serviceName": "db",
        "volumeClaimTemplates": [
            { "metadata": { "name": "data" }, "spec": { "resources": { "requests": { "storage": "1Gi", "x": "1" } } } },
            { "metadata": { "name": "bare" }, "spec": {} },
            { "metadata": { "name": "odd" }, "spec": { "resources": 5 } },
        ],
    })
}

fn size(claim: &str, storage: &str) -> Size {
    Size::parse(claim, storage).unwrap()
}

fn storage(spec: &Value, at: usize) -> &str {
    spec.pointer(&format!("/volumeClaimTemplates/{at}/spec/resources/requests/storage"))
        .unwrap()
        .as_str()
        .unwrap()
}

#[test]
fn a_size_is_a_quantity_that_is_not_zero() {
    for wrong in ["", "0", "0Gi", "-1Gi", "much", "1Qi", "Gi"] {
        assert_eq!(Size::parse("data", wrong), None, "{wrong}");
    }
    assert_eq!(Size::parse("", "1Gi"), None);
    assert_eq!(size("data", "1Gi").amount, size("data", "1024Mi").amount);
}

#[test]
fn a_spec_gets_the_sizes_and_nothing_else() {
    let grown = apply(&spec(), &[size("data", "2Gi"), size("bare", "3Gi"), size("odd", "4Gi")]).unwrap();
    assert_eq!([0, 1, 2].map(|at| storage(&grown, at)), ["2Gi", "3Gi", "4Gi"]);
    assert_eq!(grown.pointer("/volumeClaimTemplates/0/spec/resources/requests/x"), Some(&json!("1")));
    assert_eq!(grown["serviceName"], "db");
}

#[test]
fn a_size_that_is_there_stays_as_it_is_written() {
    assert_eq!(apply(&spec(), &[size("data", "1024Mi")]), Ok(spec()));
    assert_eq!(apply(&spec(), &[]), Ok(spec()));
}

#[test]
fn a_smaller_size_and_an_unknown_claim_are_refused_by_name() {
    let words = |sizes: &[Size]| apply(&spec(), sizes).unwrap_err().to_string();
    assert_eq!(
        words(&[size("data", "512Mi")]),
        "volumeClaimTemplate data has 1Gi, and a volume cannot shrink to 512Mi"
    );
    assert_eq!(words(&[size("dat", "2Gi")]), "it has no volumeClaimTemplate dat, only data, bare, odd");
    let none = apply(&json!({}), &[size("data", "2Gi")]).unwrap_err();
    assert_eq!(none.to_string(), "it has no volumeClaimTemplate data, and no others");
}

#[test]
fn sizes_are_hashed_however_they_are_written() {
    assert_eq!(hash(&[size("data", "1Gi")]), hash(&[size("data", "1024Mi")]));
    assert_ne!(hash(&[size("data", "1Gi")]), hash(&[size("data", "2Gi")]));
    assert_ne!(hash(&[size("data", "1Gi")]), hash(&[size("wal", "1Gi")]));
}
