use serde_json::json;

use super::{Target, waiting_revision};

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
fn what_waits_is_what_has_failed_or_else_what_is_under_way() {
    let gate = json!({ "partition": 1 });
    let rows = [
        (json!({}), None),
        (json!({ "status": { "updateRevision": "web-2" } }), None),
        (json!({ "status": { "updateRevision": "web-2", "rollingPodStatus": gate } }), Some("web-2")),
        (
            json!({ "status": { "updateRevision": "web-2", "failure": { "revision": "web-2" } } }),
            Some("web-2"),
        ),
    ];
    for (rollout, revision) in rows {
        assert_eq!(waiting_revision(&rollout).as_deref(), revision, "{rollout}");
    }
}
