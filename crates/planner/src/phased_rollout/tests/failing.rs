//! Gates that fail (A14.13), and pauses (A14.14).

use std::sync::Arc;

use sts_plus_api::phased_rollout::{GateState, OnFailure, Phase};

use super::cluster::{Cluster, NEW, OLD, broken, data, empty, rolling};
use super::states::{at, states};
use crate::phased_rollout::Ended;

/// What makes a gate fail: the reason that is told, and how.
pub(super) type Cause = (&'static str, fn(&mut Cluster));

pub(super) const CAUSES: [Cause; 3] = [
    ("ProgressDeadlineExceeded", |cluster| {
        cluster.respec(|spec| spec.progress_deadline_seconds = Some(120));
        cluster.say(empty());
    }),
    ("CheckFailed", |cluster| {
        cluster.recheck(|check| check.failure_threshold = Some(3));
        cluster.say(empty());
    }),
    ("CheckErrors", |cluster| {
        cluster.recheck(|check| check.consecutive_error_limit = Some(3));
        cluster.say(broken());
    }),
];

/// A rollout at the gate with this partition, where things go wrong from now on.
pub(super) fn wrong_at(partition: i32, action: OnFailure, cause: fn(&mut Cluster)) -> Cluster {
    let mut cluster = rolling().with(|spec| spec.on_failure = action);
    cluster.until(|cluster| cluster.gate().partition == partition);
    cause(&mut cluster);
    cluster.trace.clear();
    cluster.quiet();
    cluster.until(|cluster| cluster.status().failure.is_some());
    cluster
}

#[test]
fn b_a14_13_a_failed_gate_pauses_and_stays_until_the_template_changes() {
    for (reason, cause) in CAUSES {
        for partition in [3, 2, 1] {
            let mut cluster = wrong_at(partition, OnFailure::Pause, cause);
            let status = cluster.status();
            let failure = status.failure.clone().unwrap();
            let told = format!("{reason} at {partition}: {cluster}");
            assert_eq!((&*failure.reason, &*failure.revision), (reason, NEW), "{told}");
            assert_eq!(status.phase, Some(Phase::Failed), "{told}");
            assert_eq!(cluster.gate().status, GateState::Failed, "{told}");
            assert_eq!(cluster.condition("Ready"), Some(("False", "Failed")));
            assert_eq!(cluster.condition("Stalled"), Some(("True", "GateFailed")));
            assert_eq!(cluster.announced("GateFailed").len(), 1, "{told}");
            cluster.say(data());
            cluster.let_pass(3600);
            let asked = cluster.questions;
            let plan = cluster.quiet();
            assert_eq!(plan.plan.wake_at, None, "it waits for somebody: {told}");
            assert_eq!(cluster.questions, asked, "and asks nothing");
            assert_eq!(cluster.partition(), u32::try_from(partition).unwrap(), "{told}");
            cluster.edit("third");
            cluster.quiet();
            cluster.finish();
            assert_eq!(cluster.revisions(), ["third"; 3]);
            assert_eq!(cluster.status().failure, None);
        }
    }
}

#[test]
fn b_a14_13_a_failed_gate_rolls_back_the_changed_pods_and_no_others() {
    for (reason, cause) in CAUSES {
        for (partition, deleted) in
            [(3, vec![]), (2, vec!["delete web-2"]), (1, vec!["delete web-1", "delete web-2"])]
        {
            let mut cluster = wrong_at(partition, OnFailure::Rollback, cause);
            let told = format!("{reason} at {partition}: {cluster}");
            assert_eq!(cluster.status().failure.as_ref().unwrap().action, OnFailure::Rollback, "{told}");
            cluster.quiet();
            let trace = cluster.trace.iter().filter(|line| line.starts_with("delete"));
            assert_eq!(trace.collect::<Vec<_>>(), deleted, "newest first, and web-0 never: {told}");
            assert_eq!((cluster.revisions(), cluster.partition()), (vec![OLD; 3], 3), "{told}");
            assert_eq!(cluster.status().phase, Some(Phase::RolledBack), "{told}");
            assert_eq!(cluster.condition("Updated"), Some(("False", "RolledBack")));
            assert_eq!(cluster.announced("GateFailed").len(), 1, "{told}");
            assert_eq!(cluster.announced("RolledBack").len(), 1, "{told}");
            assert_eq!(cluster.status().update_revision.as_deref(), Some(NEW), "it stays in the status");
            assert_eq!(cluster.templates[&cluster.set().uid], NEW, "the template is the user's");
            let plan = cluster.pass();
            assert!(
                plan.plan.steps.is_empty() && plan.questions().is_empty() && plan.ended.is_none(),
                "{plan:?}"
            );
        }
    }
}

#[test]
fn b_a14_13_after_promotion_rollback_means_pause_and_names_the_revision_to_restore() {
    for (reason, cause) in CAUSES {
        for action in [OnFailure::Pause, OnFailure::Rollback] {
            let mut cluster = wrong_at(0, action, cause);
            let failure = cluster.status().failure.clone().unwrap();
            assert_eq!((&*failure.reason, failure.action), (reason, OnFailure::Pause));
            assert_eq!(
                (cluster.revisions(), cluster.partition()),
                (vec![NEW; 3], 3),
                "all there, and pinned"
            );
            let message = cluster.status().message.clone().unwrap();
            assert!(message.contains("the revision to restore is web-old"), "{message}");
            assert!(message.contains(
                "Continues when the template is changed, for instance back to that of revision web-old"
            ));
            assert!(!cluster.trace.iter().any(|line| line.starts_with("delete")));
            cluster.say(data());
            cluster.edit(OLD);
            cluster.quiet();
            assert_eq!(cluster.gate().partition, 3, "going back is a rollout of its own");
        }
    }
}

#[test]
fn b_a14_13_a_revision_promoted_while_it_was_about_to_go_back_pauses() {
    let mut cluster = rolling().with(|spec| {
        spec.on_failure = OnFailure::Rollback;
        spec.progress_deadline_seconds = Some(100);
    });
    cluster.stuck.insert("web-0".to_owned());
    cluster.until(|cluster| cluster.partition() == 0);
    let mut plan = cluster.pass();
    while plan.ended.is_none() {
        cluster.now = cluster.now.max(plan.plan.wake_at.unwrap());
        plan = cluster.pass();
    }
    assert_eq!(plan.ended, Some(Ended::Failed));
    cluster.stuck.clear();
    while let Some(work) = cluster.work().into_iter().next() {
        cluster.perform(&work);
    }
    assert_eq!(cluster.set().current_revision.as_deref(), Some(NEW), "promoted first");
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::Failed));
    assert_eq!(cluster.status().failure.as_ref().unwrap().action, OnFailure::Pause);
    assert!(cluster.status().message.as_ref().unwrap().contains("the revision to restore is web-old"));
    assert!(cluster.announced("RolledBack").is_empty());
    assert!(!cluster.trace.iter().any(|line| line.starts_with("delete")));
}

#[test]
fn b_a14_13_a_rollback_waits_for_pods_that_are_down_and_goes_on() {
    let mut cluster = rolling().with(|spec| spec.on_failure = OnFailure::Rollback);
    cluster.until(|cluster| cluster.gate().partition == 1);
    CAUSES[1].1(&mut cluster);
    cluster.until(|cluster| cluster.gate().consecutive_failed_checks == 2);
    cluster.now = cluster.wake_at.unwrap();
    cluster.pass();
    cluster.pass();
    assert!(cluster.status().failure.is_some());
    // From the moment of failure on another pod is down.
    cluster.stuck.insert("web-0".to_owned());
    cluster.pod("web-0", |pod| pod.ready_since = None);
    cluster.quiet();
    assert_eq!(cluster.revisions(), [OLD, NEW, NEW], "one at a time, and one is down: {cluster}");
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("RollingBack"));
    let message = cluster.status().message.clone().unwrap();
    assert!(message.contains("web-0 is not Ready") && !message.contains("rollout-max"), "{message}");
    cluster.stuck.clear();
    cluster.quiet();
    assert_eq!((cluster.revisions(), cluster.status().phase), (vec![OLD; 3], Some(Phase::RolledBack)));
}

#[test]
fn b_a14_13_a_pod_that_flaps_after_a_rollback_does_not_end_it_again() {
    let mut cluster = wrong_at(2, OnFailure::Rollback, CAUSES[1].1);
    cluster.quiet();
    let told = cluster.announced.len();
    cluster.stuck.insert("web-0".to_owned());
    cluster.pod("web-0", |pod| pod.ready_since = None);
    assert_eq!(cluster.pass().ended, None);
    cluster.stuck.clear();
    cluster.quiet();
    assert_eq!((cluster.announced.len(), cluster.status().phase), (told, Some(Phase::RolledBack)));
}

#[test]
fn b_a14_13_the_deadline_does_not_run_while_somebody_else_is_awaited() {
    for state in [GateState::Paused, GateState::WaitForApproval] {
        let mut cluster = at(state);
        cluster.respec(|spec| spec.progress_deadline_seconds = Some(100));
        cluster.quiet();
        (0..40).for_each(|_| {
            cluster.let_pass(10);
            cluster.quiet();
        });
        assert_eq!(cluster.gate().status, state, "{cluster}");
        cluster.respec(|spec| spec.paused = false);
        cluster.approve(NEW);
        cluster.quiet();
        assert_eq!(cluster.status().failure, None, "{cluster}");
    }
}

#[test]
fn b_a14_13_a_failure_threshold_counts_only_failures_in_a_row() {
    let mut cluster = at(GateState::WaitForChecks).checked(|check| check.failure_threshold = Some(2));
    let replies = Arc::new(std::sync::Mutex::new(vec![data(), data(), empty(), broken(), data(), empty()]));
    cluster.prometheus = Arc::new(move |_, _| replies.lock().unwrap().pop().unwrap_or_else(data));
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 1);
    assert_eq!(cluster.status().failure, None);
}

#[test]
fn b_a14_14_a_pause_holds_everything_and_asks_nothing() {
    for (state, word) in states().filter(|(state, _)| *state != GateState::Failed) {
        let mut cluster = at(state);
        cluster.respec(|spec| spec.paused = true);
        cluster.quiet();
        let asked = cluster.questions;
        cluster.native = true;
        cluster.stuck.clear();
        cluster.let_pass(3600);
        cluster.quiet();
        assert_eq!(cluster.status().waiting_for.as_deref(), Some("Paused"), "{word}");
        assert_eq!((cluster.partition(), cluster.questions), (2, asked), "{word}");
    }
}
