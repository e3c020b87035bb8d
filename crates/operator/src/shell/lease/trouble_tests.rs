use serde_json::json;

use super::*;

#[test]
fn a_missing_permission_says_which_and_what_to_do() {
    let words = Trouble::of("watch", ApiError::Forbidden("User \"x\" cannot watch".to_owned())).to_string();
    for part in ["permission to watch leases", "User \"x\" cannot watch", "Role", "--leader-elect=false"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn a_missing_namespace_is_not_a_missing_lease() {
    let not_found = || ApiError::NotFound("namespaces \"x\" not found".to_owned());
    assert!(matches!(Trouble::of("create", not_found()), Trouble::NoNamespace(_)));
    assert_eq!(Trouble::of("update", not_found()).failure(), Failure::Absent);
}

#[test]
fn only_a_clear_refusal_is_known_to_have_done_nothing() {
    let refused = ApiError::Refused { code: 422, message: String::new() };
    let throttled = ApiError::Throttled { retry_after: Duration::from_secs(7) };
    let table = [
        (ApiError::Conflict(String::new()), Failure::Unknown),
        (ApiError::AlreadyExists(String::new()), Failure::Unknown),
        (ApiError::Unanswered(String::new()), Failure::Unknown),
        (ApiError::Gone(String::new()), Failure::Unknown),
        (ApiError::Forbidden(String::new()), Failure::Refused),
        (refused, Failure::Refused),
        (throttled.clone(), Failure::Refused),
        (ApiError::NotFound(String::new()), Failure::Absent),
    ];
    for (error, failure) in table {
        assert_eq!(Trouble::of("update", error.clone()).failure(), failure, "{error}");
    }
    assert_eq!(Trouble::of("update", throttled).retry_after(), Duration::from_secs(7));
}

#[test]
fn the_error_event_of_a_watch_is_an_answer_like_any_other() {
    let gone = Trouble::of_watch(&json!({ "kind": "Status", "code": 410, "message": "too old" }));
    assert!(matches!(gone, Trouble::Watch(ApiError::Gone(message)) if message == "too old"));
    assert!(matches!(Trouble::of_watch(&json!(7)), Trouble::Watch(ApiError::Unanswered(_))));
}
