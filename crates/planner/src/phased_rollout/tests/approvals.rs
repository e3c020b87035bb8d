//! Somebody agrees (A14.14): to one step, or to one more attempt, and once.

use sts_plus_api::phased_rollout::{Approval, GateState, OnFailure, Phase};

use super::cluster::{Cluster, NEW, OLD, WEB, data, empty, idle};
use super::failing::{CAUSES, wrong_at};
use super::states::at;

fn used(cluster: &Cluster) -> Vec<&str> {
    cluster.status().used_approvals.iter().map(String::as_str).collect()
}

fn awaited(cluster: &Cluster) -> Option<&str> {
    cluster.status().awaited_approval.as_deref()
}

/// A rollout whose steps want approvals, at its first gate.
fn waiting(approval: Approval) -> Cluster {
    let mut cluster = idle().with(|spec| spec.approval = approval);
    cluster.edit(NEW);
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
    cluster
}

#[test]
fn b_a14_14_the_first_pod_waits_for_an_approval_and_the_others_do_not() {
    let mut cluster = waiting(Approval::FirstPod);
    assert_eq!((cluster.partition(), cluster.revisions()), (3, vec![OLD; 3]), "before the first pod moves");
    assert_eq!(awaited(&cluster), Some("web-new/web-2"));
    let message = cluster.status().message.clone().unwrap();
    assert!(
        message.contains("sts.plus/approve is web-new/web-2 (sts-plus approve phasedrollout/web)"),
        "{message}"
    );
    cluster.approve_as("web-new/web-2");
    cluster.quiet();
    assert_eq!((cluster.partition(), used(&cluster)), (2, vec!["web-new/web-2"]));
    assert_eq!(awaited(&cluster), None);
    cluster.finish();
    assert_eq!(cluster.announced("Approved").len(), 1);
}

#[test]
fn b_a14_14_every_step_wants_an_approval_of_its_own() {
    let mut cluster = waiting(Approval::EveryStep);
    for (partition, approval) in [(3, "web-new/web-2"), (2, "web-new/web-1"), (1, "web-new/web-0")] {
        cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
        assert_eq!((cluster.partition(), awaited(&cluster)), (partition, Some(approval)));
        let waited = cluster.questions;
        (0..5).for_each(|_| {
            cluster.wake();
        });
        assert_eq!(cluster.partition(), partition, "the one before stays where it is, and is one step");
        assert_eq!(cluster.questions, waited + 5, "the checks stay fresh meanwhile");
        cluster.approve_as(approval);
        cluster.quiet();
        assert!(cluster.partitions().contains(&&*(partition - 1).to_string()), "{cluster}");
    }
    cluster.finish();
    assert_eq!(used(&cluster), ["web-new/web-2", "web-new/web-1", "web-new/web-0"]);
    assert_eq!(cluster.announced("Approved").len(), 3);
}

#[test]
fn b_a14_14_a_revision_without_a_step_approves_nothing_and_the_status_names_what_would() {
    for given in ["web-new", "web-new/", "web-new/web-1", "web-new/web-2/2", "web-new/retry", "web-old/web-2"]
    {
        let mut cluster = waiting(Approval::EveryStep);
        cluster.approve_as(given);
        cluster.quiet();
        cluster.wake();
        assert_eq!((cluster.partition(), used(&cluster).len()), (3, 0), "{given}");
        let message = cluster.status().message.clone().unwrap();
        assert!(
            message.contains(&format!("The approval that is given, {given}, is for another")),
            "{message}"
        );
        assert!(message.contains("sts.plus/approve is web-new/web-2 ("), "{message}");
        assert_eq!(cluster.rollout(WEB).approve.as_deref(), Some(given), "not ours to take away");
    }
}

#[test]
fn b_a14_14_an_approval_kept_in_git_approves_one_step_once_also_when_the_revision_comes_again() {
    let mut cluster = waiting(Approval::FirstPod);
    cluster.approve_as("web-new/web-2");
    cluster.quiet();
    cluster.finish();
    for (revision, approval) in [(OLD, "web-old/web-2"), (NEW, "web-new/web-2/2"), (OLD, "web-old/web-2/2")] {
        cluster.edit(revision);
        cluster.quiet();
        cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
        for _ in 0..3 {
            cluster.wake();
        }
        assert_eq!((cluster.partition(), awaited(&cluster)), (3, Some(approval)), "{cluster}");
        cluster.approve_as(approval);
        cluster.quiet();
        cluster.finish();
        // A tool puts the first one back.
        cluster.approve_as("web-new/web-2");
        let plan = cluster.quiet();
        assert!(plan.plan.steps.is_empty(), "and nobody fights over it: {plan:?}");
    }
}

#[test]
fn b_a14_14_an_approval_given_ahead_counts_once() {
    let mut cluster = idle().with(|spec| spec.approval = Approval::EveryStep);
    cluster.edit(NEW);
    cluster.approve_as("web-new/web-2");
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
    assert_eq!((cluster.partition(), used(&cluster)), (2, vec!["web-new/web-2"]));
}

#[test]
fn b_a14_14_an_approval_retries_a_failed_revision_once_also_when_it_is_kept_in_git() {
    for action in [OnFailure::Pause, OnFailure::Rollback] {
        let mut cluster = wrong_at(2, action, CAUSES[1].1);
        cluster.quiet();
        assert_eq!(awaited(&cluster), Some("web-new/retry"));
        let message = cluster.status().message.clone().unwrap();
        assert!(message.contains("sts.plus/approve is web-new/retry, which retries"), "{message}");
        cluster.approve_as("web-new/retry");
        cluster.quiet();
        assert_eq!(used(&cluster), ["web-new/retry"], "{cluster}");
        assert_eq!(cluster.announced("Approved"), ["Revision web-new is retried."]);
        assert_eq!((cluster.status().phase, cluster.status().failure.clone()), (Some(Phase::Rolling), None));
        cluster.until(|cluster| cluster.status().failure.is_some());
        cluster.quiet();
        cluster.let_pass(3600);
        cluster.quiet();
        assert!(cluster.status().failure.is_some(), "and fails again, for good: {action:?}");
        assert_eq!(cluster.rollout(WEB).approve.as_deref(), Some("web-new/retry"), "it is still there");
        assert_eq!(awaited(&cluster), Some("web-new/retry/2"));
        cluster.say(data());
        cluster.approve_as("web-new/retry/2");
        cluster.quiet();
        cluster.finish();
        assert_eq!((cluster.revisions(), awaited(&cluster)), (vec![NEW; 3], None));
    }
}

#[test]
fn b_a14_14_a_crash_at_any_write_uses_an_approval_once() {
    for writes in 0..6 {
        let mut cluster = waiting(Approval::EveryStep);
        cluster.approve_as("web-new/web-2");
        cluster.dies_after = Some(writes);
        cluster.quiet();
        cluster.dies_after = None;
        cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
        assert_eq!((cluster.partition(), used(&cluster)), (2, vec!["web-new/web-2"]), "{writes}");
    }
}

#[test]
fn b_a14_14_an_approval_that_comes_with_the_last_failure_is_used_up_and_the_gate_fails() {
    let mut cluster = at(GateState::WaitForApproval).checked(|check| check.failure_threshold = Some(1));
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
    cluster.say(empty());
    cluster.now = cluster.wake_at.unwrap();
    cluster.pass();
    cluster.approve_as("web-new/web-1");
    cluster.quiet();
    assert_eq!((cluster.gate().status, cluster.partition()), (GateState::Failed, 2));
    assert_eq!(awaited(&cluster), Some("web-new/retry"));
}

#[test]
fn b_a14_14_an_approval_after_a_rollback_is_also_that_of_the_first_pod() {
    let mut cluster =
        wrong_at(2, OnFailure::Rollback, CAUSES[1].1).with(|spec| spec.approval = Approval::FirstPod);
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::RolledBack));
    cluster.say(data());
    cluster.approve_as("web-new/retry");
    cluster.quiet();
    cluster.finish();
    assert_eq!(
        (cluster.revisions(), cluster.announced("Approved").len()),
        (vec![NEW; 3], 1),
        "reported once"
    );
}

#[test]
fn b_a14_14_an_approval_that_nothing_needed_does_not_wait_for_a_failure() {
    let mut cluster = at(GateState::WaitForChecks).checked(|check| check.failure_threshold = Some(2));
    cluster.approve_as("web-new/web-1");
    cluster.quiet();
    cluster.say(empty());
    cluster.until(|cluster| cluster.status().failure.is_some());
    cluster.quiet();
    assert_eq!((cluster.gate().status, used(&cluster).len()), (GateState::Failed, 0));
}

#[test]
fn b_a14_14_the_status_remembers_a_bounded_number_of_used_approvals() {
    let mut cluster = idle().with(|spec| spec.approval = Approval::FirstPod);
    for round in 0..20 {
        for revision in [NEW, OLD] {
            cluster.edit(revision);
            cluster.quiet();
            cluster.approve(revision);
            cluster.quiet();
            cluster.finish();
        }
        assert!(used(&cluster).len() <= 32, "{round}");
    }
    assert_eq!(used(&cluster).last(), Some(&"web-old/web-2/20"));
}

#[test]
fn b_a14_14_an_approval_does_not_count_for_the_pod_that_another_number_of_replicas_puts_first() {
    let mut cluster = idle().with(|spec| spec.approval = Approval::FirstPod);
    cluster.edit(NEW);
    cluster.approve_as("web-new/web-2");
    cluster.quiet();
    assert_eq!(used(&cluster), ["web-new/web-2"], "given ahead of its gate");
    cluster.reset(|set| set.replicas = 5);
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().status == GateState::WaitForApproval);
    assert_eq!((cluster.partition(), awaited(&cluster)), (5, Some("web-new/web-4")), "{cluster}");
}
