use serde_json::json;

use super::*;

fn claim(request: &str, capacity: &str) -> Value {
    json!({
        "spec": { "storageClassName": "fast", "resources": { "requests": { "storage": request } } },
        "status": { "phase": "Bound", "capacity": { "storage": capacity } },
    })
}

fn of(claim: &Value) -> Growth {
    growth(claim, &Size::parse("data", "2Gi").unwrap())
}

#[test]
fn a_claim_is_grown_by_its_request_and_done_by_its_capacity() {
    assert_eq!(of(&claim("1Gi", "1Gi")), Growth::Wanted { class: Some("fast".into()) });
    assert_eq!(of(&claim("1Gi", "5Gi")), Growth::Wanted { class: Some("fast".into()) });
    assert_eq!(of(&claim("2048Mi", "1Gi")), Growth::Growing { why: String::new() });
    assert_eq!(of(&claim("2Gi", "2Gi")), Growth::Done);
    assert_eq!(of(&claim("9Gi", "9Gi")), Growth::Done, "a larger one is left alone");
}

#[test]
fn a_claim_without_a_class_and_one_that_is_not_bound_are_told_apart() {
    for class in [json!(null), json!("")] {
        let mut bare = claim("1Gi", "1Gi");
        bare["spec"]["storageClassName"] = class;
        assert_eq!(of(&bare), Growth::Wanted { class: None });
    }
    let mut pending = claim("1Gi", "1Gi");
    pending["status"] = json!({ "phase": "Pending" });
    assert_eq!(of(&pending), Growth::Unbound);
    pending["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    assert_eq!(of(&pending), Growth::Done, "it will be bound with that size");
    assert_eq!(of(&json!({})), Growth::Unbound);
}

#[test]
fn what_the_resizer_reports_is_kept() {
    let mut growing = claim("2Gi", "1Gi");
    growing["status"]["conditions"] = json!([
        { "type": "Resizing", "status": "False" },
        { "type": "FileSystemResizePending", "status": "True", "message": "Waiting for user to (re-)start a pod" },
    ]);
    let why = "FileSystemResizePending: Waiting for user to (re-)start a pod";
    assert_eq!(of(&growing), Growth::Growing { why: why.into() });
    growing["status"]["allocatedResourceStatuses"] = json!({ "storage": "ControllerResizeInfeasible" });
    assert_eq!(of(&growing), Growth::Failed { why: why.into() });
    growing["status"]["conditions"][1]["message"] = json!("x".repeat(10_000));
    let Growth::Failed { why } = of(&growing) else { panic!() };
    assert_eq!(why.chars().count(), MESSAGE_CHARACTERS);
}
