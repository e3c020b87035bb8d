use serde_json::json;
use sts_plus_operator::shell::api::Kind;

use super::{Change, awaited_approval, fields, is_of, retry};

#[test]
fn what_is_approved_is_what_the_status_waits_for() {
    let rows = [
        (json!({}), None),
        (json!({ "status": { "updateRevision": "web-2" } }), None),
        (json!({ "status": { "awaitedApproval": "web-2/web-0" } }), Some("web-2/web-0")),
        (json!({ "status": { "awaitedApproval": "web-2/retry/2" } }), Some("web-2/retry/2")),
        (json!({ "status": { "awaitedApproval": "promote-2-7d4c9b1e" } }), Some("promote-2-7d4c9b1e")),
    ];
    for (object, approval) in rows {
        assert_eq!(awaited_approval(&object), approval, "{object}");
    }
}

#[test]
fn an_approval_is_of_the_whole_revision_or_version_and_not_of_one_that_begins_like_it() {
    for (approval, kind, revision, is) in [
        ("web-2/web-0", Kind::PhasedRollout, "web-2", true),
        ("web-2/retry/2", Kind::PhasedRollout, "web-2", true),
        ("web-22/web-0", Kind::PhasedRollout, "web-2", false),
        ("promote-3-7d4c9b1e", Kind::Extended, "3", true),
        ("retry-3-7d4c9b1e-1", Kind::FissileExtended, "3", true),
        ("promote-31-7d4c9b1e", Kind::Extended, "3", false),
        ("promote-3-7d4c9b1e", Kind::Extended, "7d4c9b1e", false),
    ] {
        assert_eq!(is_of(approval, kind, revision), is, "{approval} {revision}");
    }
}

#[test]
fn only_what_has_failed_is_retried() {
    let retried = |status| retry(&json!({ "status": status }));
    assert_eq!(retried(json!({ "awaitedApproval": "promote-2-7d4c9b1e" })), None);
    assert_eq!(retried(json!({ "failedVersion": { "number": 2 } })), None, "no approval is known yet");
    let version = json!({ "failedVersion": { "number": 2 }, "awaitedApproval": "retry-2-7d4c9b1e-0" });
    assert_eq!(retried(version), Some(("version 2".to_owned(), "retry-2-7d4c9b1e-0".to_owned())));
    let revision = json!({ "failure": { "revision": "web-2" }, "awaitedApproval": "web-2/retry/1" });
    assert_eq!(retried(revision), Some(("revision web-2".to_owned(), "web-2/retry/1".to_owned())));
}

#[test]
fn a_set_is_paused_by_its_annotation_and_everything_else_by_its_spec() {
    let annotation =
        |value| json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": value } } });
    assert_eq!(fields(Kind::StatefulSet, Change::Pause), annotation(json!("true")));
    assert_eq!(fields(Kind::StatefulSet, Change::Resume), annotation(json!(null)));
    for kind in [Kind::PhasedRollout, Kind::Extended, Kind::FissileExtended, Kind::ScalingPolicy] {
        assert_eq!(fields(kind, Change::Pause), json!({ "spec": { "paused": true } }), "{kind:?}");
        assert_eq!(fields(kind, Change::Resume), json!({ "spec": { "paused": false } }), "{kind:?}");
    }
}
