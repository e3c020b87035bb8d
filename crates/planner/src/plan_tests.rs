use std::sync::Arc;

use serde_json::json;

use super::{Action, Kind, Object, Precondition, Verb};
use crate::disruption::{Allowance, DomainBudget, Gatekeeper};
use crate::example;
use crate::health::Member;
use crate::pod::PodRow;
use crate::set::SetRow;

fn set() -> SetRow {
    SetRow { resource_version: "41".into(), ..example::set("web") }
}

fn object(kind: Kind, name: &str) -> Object {
    Object { kind, namespace: "prod".into(), name: name.into() }
}

#[test]
fn a_deletion_insists_on_the_very_pod_that_leave_was_given_for() {
    let pod = Arc::new(PodRow { resource_version: "42".into(), ..example::pod(&set(), 0) });
    let member = Member::new(Arc::new(SetRow { replicas: 1, ..set() }), [Arc::clone(&pod)]);
    let domain = DomainBudget::of([&member], Allowance::OnePod, jiff::Timestamp::UNIX_EPOCH);
    let permit = Gatekeeper::new(&domain).ask(&"web".into(), &pod).unwrap();
    let deletion = Action::delete(&permit);
    assert_eq!(
        deletion,
        Action {
            object: object(Kind::Pod, "web-0"),
            owner: "uid-web".into(),
            precondition: Precondition { uid: "uid-web-0".into(), resource_version: Some("42".into()) },
            verb: Verb::Delete,
        }
    );
    assert!(deletion.disrupts());
}

#[test]
fn an_annotation_is_set_or_removed_on_any_version_of_the_same_set() {
    for (value, body) in [
        (Some("x"), json!({ "metadata": { "annotations": { "key": "x" } } })),
        (None, json!({ "metadata": { "annotations": { "key": null } } })),
    ] {
        let annotate = Action::annotate(&set(), "key", value, "manager");
        assert_eq!(
            annotate,
            Action {
                object: object(Kind::StatefulSet, "web"),
                owner: "uid-web".into(),
                precondition: Precondition { uid: "uid-web".into(), resource_version: None },
                verb: Verb::Merge { body, manager: "manager", disrupts: false },
            }
        );
        assert!(!annotate.disrupts());
    }
}

#[test]
fn a_partition_comes_with_the_mark_of_who_holds_it_and_a_lost_answer_to_it_must_be_known() {
    let pin = Action::pin(&set(), "gate", 3);
    let Verb::Apply { body, disrupts, .. } = &pin.verb else { panic!("{pin:?}") };
    assert_eq!(
        *body,
        json!({
            "metadata": { "annotations": { "sts.plus/phasedRollout": "gate" } },
            "spec": { "updateStrategy": { "rollingUpdate": { "partition": 3 } } },
        })
    );
    assert!(!disrupts && pin.must_be_known());
    let Verb::Apply { body, disrupts, .. } = Action::release(&set()).verb else { panic!() };
    assert_eq!((body, disrupts), (json!({}), true));
    assert!(!Action::annotate(&set(), "key", None, "manager").must_be_known());
}

#[test]
fn a_promotion_insists_on_the_version_in_which_the_set_was_done() {
    let promote = Action::promote(&set(), "web-abc", "manager");
    assert_eq!(
        promote,
        Action {
            object: object(Kind::StatefulSet, "web"),
            owner: "uid-web".into(),
            precondition: Precondition { uid: "uid-web".into(), resource_version: Some("41".into()) },
            verb: Verb::MergeStatus {
                body: json!({ "status": { "currentRevision": "web-abc" } }),
                manager: "manager",
            },
        }
    );
    assert!(!promote.disrupts());
}

#[test]
fn only_the_removal_of_our_finalizer_counts_as_such_and_needs_a_confirmed_view() {
    let merge = |finalizers: &[&str]| Action {
        object: object(Kind::PhasedRollout, "gate"),
        owner: "uid-gate".into(),
        precondition: Precondition { uid: "uid-gate".into(), resource_version: Some("7".into()) },
        verb: Verb::Merge {
            body: json!({ "metadata": { "finalizers": finalizers } }),
            manager: "manager",
            disrupts: false,
        },
    };
    for (finalizers, removes) in
        [(&[][..], true), (&["other"], true), (&["other", sts_plus_api::keys::FINALIZER], false)]
    {
        let action = merge(finalizers);
        assert_eq!((action.removes_finalizer(), action.needs_confirmed_view()), (removes, removes));
        assert!(!action.disrupts());
    }
    assert!(!Action::annotate(&set(), "key", None, "manager").removes_finalizer());
}
