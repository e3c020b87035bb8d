use std::sync::Arc;

use super::{Budget, Reason, Refusal, Severity};
use crate::disruption::Disturbance;

fn refusal() -> Refusal {
    Refusal { webhook: Some("guard.example.com".into()), message: "not today".to_owned() }
}

fn one_of_each() -> [Reason; 17] {
    let (set, revision): (Arc<str>, Arc<str>) = ("web-b".into(), "web-abc".into());
    let down = || "web-b-1 is not Ready".to_owned();
    [
        Reason::UpToDate { revision: Arc::clone(&revision) },
        Reason::Rolling { revision: Arc::clone(&revision) },
        Reason::WaitingForTurn { set: Arc::clone(&set) },
        Reason::OtherSetNotReady { set: Arc::clone(&set), down: down() },
        Reason::OtherSetDisturbed {
            set: Arc::clone(&set),
            disturbance: Disturbance::Released { pod: "web-b-1".into() },
        },
        Reason::BudgetSpent { down: down(), budget: Budget::MaxUnavailable(2) },
        Reason::PodBroken { revision, down: down() },
        Reason::NotReady { down: down() },
        Reason::Paused,
        Reason::GroupSkipped { set: Arc::clone(&set), strategy: "RollingUpdate".into() },
        Reason::TooManySets { sets: 2000, limit: 100 },
        Reason::NotObserved { generation: 7 },
        Reason::ViewUnconfirmed { why: "cannot list pods: forbidden".into() },
        Reason::Deleting,
        Reason::WriteRefused { refusal: refusal() },
        Reason::PodLeaving { pod: "web-b-2".into() },
        Reason::NotInDomain { set },
    ]
}

#[test]
fn the_kinds_of_reasons_are_those_that_alerts_and_dashboards_know() {
    // What annotations, alerts and dashboards have: a variant may be renamed, its kind may not.
    let kinds = [
        "UpToDate",
        "Rolling",
        "WaitingForTurn",
        "OtherSetNotReady",
        "OtherSetDisturbed",
        "BudgetSpent",
        "PodBroken",
        "NotReady",
        "Paused",
        "GroupSkipped",
        "TooManySets",
        "NotObserved",
        "ViewUnconfirmed",
        "Deleting",
        "WriteRefused",
        "PodLeaving",
        "NotInDomain",
    ];
    assert_eq!(one_of_each().map(|reason| reason.kind()), kinds);
    assert_eq!(Reason::KINDS, kinds);
    for kind in Reason::ROLLING_KINDS.into_iter().chain([Reason::POD_BROKEN, Reason::WRITE_REFUSED]) {
        assert!(Reason::KINDS.contains(&kind), "{kind}");
    }
}

#[test]
fn every_reason_has_words_and_every_wait_says_what_would_release_it() {
    for reason in one_of_each() {
        let message = reason.to_string();
        assert!(!message.is_empty() && !message.contains('\n'), "{reason:?}");
        let is_sentence = message.starts_with(char::is_uppercase) && message.ends_with('.');
        assert!(is_sentence, "{message}");
        let nothing_awaited = matches!(reason, Reason::UpToDate { .. } | Reason::Deleting);
        match reason.release() {
            None => assert!(nothing_awaited, "{reason:?}"),
            Some(release) => assert!(!nothing_awaited && !release.is_empty(), "{reason:?}"),
        }
    }
}

#[test]
fn words_name_what_the_reason_is_about() {
    for reason in one_of_each() {
        let message = reason.to_string();
        if let Some(part) = reason.subject() {
            assert!(message.contains(part), "{message}");
        }
        let (Reason::OtherSetNotReady { down, .. }
        | Reason::BudgetSpent { down, .. }
        | Reason::PodBroken { down, .. }
        | Reason::NotReady { down }) = &reason
        else {
            continue;
        };
        assert!(message.contains(&**down), "{message}");
    }
}

#[test]
fn a_set_that_will_be_disturbed_is_told_with_what_will_happen_to_it() {
    let words = |disturbance| {
        let reason = Reason::OtherSetDisturbed { set: "web-b".into(), disturbance };
        format!("{reason} Until {}", reason.release().unwrap())
    };
    assert_eq!(
        words(Disturbance::Released { pod: "web-b-1".into() }),
        "Blocked: the StatefulSet controller is about to replace web-b-1 of web-b, which is outdated and not below the partition. \
         Until every pod of web-b at or above its partition is of the update revision and Ready"
    );
    assert_eq!(
        words(Disturbance::Unobserved { generation: 7 }),
        "Blocked: the StatefulSet controller has not observed generation 7 of web-b. \
         Until the StatefulSet controller reports observedGeneration 7 for web-b"
    );
}

#[test]
fn pods_are_not_what_a_reason_is_about() {
    for reason in one_of_each() {
        let known = ["web-b", "web-abc", "guard.example.com"];
        assert!(reason.subject().is_none_or(|subject| known.contains(&subject)), "{reason:?}");
    }
}

#[test]
fn what_needs_a_look_is_a_warning_and_what_cannot_be_done_an_error() {
    let loud = one_of_each().map(|reason| (reason.kind(), reason.severity()));
    let warnings = [
        "OtherSetNotReady",
        "BudgetSpent",
        "PodBroken",
        "NotReady",
        "NotObserved",
        "WriteRefused",
        "ViewUnconfirmed",
        "NotInDomain",
    ];
    for (kind, severity) in loud {
        let expected = match kind {
            "GroupSkipped" | "TooManySets" => Severity::Error,
            _ if warnings.contains(&kind) => Severity::Warning,
            _ => Severity::Normal,
        };
        assert_eq!(severity, expected, "{kind}");
    }
}
