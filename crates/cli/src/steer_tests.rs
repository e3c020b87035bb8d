use serde_json::json;

use super::{Target, awaited_approval};

#[test]
fn a_name_is_a_set_unless_it_says_otherwise() {
    let rows = [
        ("web", Some(Target::Set("web"))),
        ("sts/web", Some(Target::Set("web"))),
        ("statefulset/web", Some(Target::Set("web"))),
        ("phasedrollout/web", Some(Target::Rollout("web"))),
        ("phr/web", Some(Target::Rollout("web"))),
        ("phasedrollout/", None),
        ("pod/web-0", None),
        ("", None),
    ];
    for (text, target) in rows {
        assert_eq!(Target::parse(text).ok(), target, "{text:?}");
    }
}

#[test]
fn what_is_approved_is_what_the_status_waits_for() {
    let rows = [
        (json!({}), None),
        (json!({ "status": { "updateRevision": "web-2" } }), None),
        (json!({ "status": { "awaitedApproval": "web-2/web-0" } }), Some("web-2/web-0")),
        (json!({ "status": { "awaitedApproval": "web-2/retry/2" } }), Some("web-2/retry/2")),
    ];
    for (rollout, approval) in rows {
        assert_eq!(awaited_approval(&rollout), approval, "{rollout}");
    }
}
