//! The scenarios of the operator that came before (A13), in their order. Its code counts data as a pass, so the
//! fixture says `passWhen: Data`.

use sts_plus_api::phased_rollout::{GateState, Phase};

use super::cluster::{Cluster, NEW, SECONDS, WEB, broken, data, empty, given, idle, rollout, with_replicas};
use crate::phased_rollout::answer::QueryError;
use crate::set::Strategy;

/// Phase, then status and reason of Ready and Updated.
#[track_caller]
fn says(cluster: &Cluster, name: &str, phase: &str, ready: (&str, &str), updated: (&str, &str)) {
    let status = &cluster.rollout(name).status;
    let found = |kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
        (format!("{:?}", found.status), found.reason.clone())
    };
    assert_eq!(status.phase.map(Phase::word), Some(phase), "{cluster}");
    assert_eq!(found("Ready"), (ready.0.to_owned(), ready.1.to_owned()));
    assert_eq!(found("Updated"), (updated.0.to_owned(), updated.1.to_owned()));
}

/// The set at the first gate, and a Secret that is missing.
fn without_secret() -> Cluster {
    let mut cluster = with_replicas(2).managed();
    cluster.say(Err(QueryError::Config("there is no Secret prom".to_owned())));
    cluster.edit(NEW);
    cluster.quiet();
    cluster
}

/// One pod of two replaced by one that does not get Ready.
fn at_second_gate() -> Cluster {
    let mut cluster = without_secret();
    cluster.say(data());
    cluster.stuck.insert("web-1".to_owned());
    cluster.until(|cluster| cluster.partition() == 1 && cluster.revisions()[1] == NEW);
    cluster
}

#[test]
fn b_a13_1_a_negative_delay_is_refused() {
    let mut cluster = given().checked(|check| check.initial_delay_seconds = -1);
    cluster.quiet();
    let error = ("False", "ErrorInvalid");
    says(&cluster, WEB, "ErrorInvalid", error, ("Unknown", "ErrorInvalid"));
    let message = cluster.status().message.as_deref().unwrap();
    assert!(message.contains("initialDelaySeconds of check must not be negative"), "{message}");
    assert_eq!(cluster.partition(), 0, "and nothing is done to the set");
    cluster.recheck(|check| check.initial_delay_seconds = 0);
    cluster.quiet();
    assert_eq!(cluster.partition(), 3, "until it is corrected");
}

#[test]
fn b_a13_2_without_a_set_the_phase_is_error_sts_not_found() {
    let mut cluster = given();
    (cluster.sets, cluster.pods) = (Vec::new(), Vec::new());
    cluster.quiet();
    let reason = "ErrorSTSNotFound";
    says(&cluster, WEB, reason, ("False", reason), ("Unknown", reason));
}

#[test]
fn b_a13_3_a_set_with_on_delete_cannot_be_managed() {
    let mut cluster = given();
    cluster.reset(|set| set.strategy = Strategy::OnDelete);
    cluster.quiet();
    let reason = "ErrorCannotManage";
    says(&cluster, WEB, reason, ("False", reason), ("Unknown", reason));
}

#[test]
fn b_a13_4_an_unowned_set_gets_our_name() {
    let cluster = idle();
    assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(WEB));
    says(&cluster, WEB, "Updated", ("True", "Ready"), ("True", "Updated"));
}

#[test]
fn b_a13_5_a_set_with_the_name_of_a_rollout_that_is_not_there_is_taken() {
    let mut cluster = given();
    cluster.set_mut().steering.phased_rollout = Some("gone".into());
    cluster.quiet();
    assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(WEB));
}

#[test]
fn b_a13_6_a_set_with_the_name_of_a_rollout_for_another_set_is_taken() {
    let mut cluster = given();
    cluster.rollouts.push(rollout("elsewhere", "other"));
    cluster.set_mut().steering.phased_rollout = Some("elsewhere".into());
    cluster.quiet();
    assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(WEB));
}

#[test]
fn b_a13_7_a_second_rollout_for_the_same_set_cannot_manage_it() {
    let mut cluster = idle();
    cluster.create_rollout(rollout("second", WEB));
    cluster.quiet();
    let reason = "ErrorCannotManage";
    says(&cluster, "second", reason, ("False", reason), ("Unknown", reason));
    says(&cluster, WEB, "Updated", ("True", "Ready"), ("True", "Updated"));
    assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(WEB));
    assert_eq!(cluster.announced("CannotManage").len(), 1, "told once");
}

#[test]
fn b_a13_8_suspending_an_idle_set_clears_the_partition() {
    let mut cluster = with_replicas(2).managed();
    assert_eq!(cluster.partition(), 2);
    cluster.respec(|spec| spec.standard_rolling_update = true);
    cluster.quiet();
    says(&cluster, WEB, "Suspended", ("True", "Suspended"), ("Unknown", "Suspended"));
    assert_eq!(cluster.partition(), 0);
    assert_eq!(cluster.announced("Suspended").len(), 1);
}

#[test]
fn b_a13_9_deleting_the_rollout_of_an_idle_set_leaves_no_trace() {
    let mut cluster = idle();
    cluster.delete_rollout(WEB);
    cluster.quiet();
    assert!(cluster.rollouts.is_empty(), "the object is gone");
    assert_eq!(cluster.set().steering.phased_rollout, None);
    assert_eq!(cluster.partition(), 0);
}

#[test]
fn b_a13_10_a_new_revision_rolls_with_a_gate_in_the_initial_delay() {
    let cluster = without_secret();
    says(&cluster, WEB, "Rolling", ("True", "Ready"), ("False", "Rolling"));
    assert_eq!((cluster.gate().partition, cluster.gate().status), (2, GateState::WaitForInitialDelay));
    assert_eq!(cluster.questions, 0, "nothing is asked before the delay is over");
}

#[test]
fn b_a13_11_after_the_delay_a_missing_secret_is_an_error() {
    let mut cluster = without_secret();
    cluster.wake();
    assert_eq!(cluster.gate().status, GateState::PrometheusError);
    says(&cluster, WEB, "Rolling", ("False", "PrometheusConfigError"), ("False", "Rolling"));
    assert_eq!(cluster.announced("PrometheusConfigError").len(), 1);
    let message = cluster.status().message.as_deref().unwrap();
    assert!(message.contains("there is no Secret prom"), "{message}");
}

#[test]
fn b_a13_12_with_the_secret_there_successes_count_and_the_partition_goes_down() {
    let mut cluster = without_secret();
    cluster.wake();
    cluster.say(data());
    cluster.wake();
    assert_eq!(cluster.gate().consecutive_successful_checks, 1, "{cluster}");
    assert_eq!(cluster.gate().status, GateState::WaitForChecks);
    cluster.native = false;
    cluster.wake();
    assert_eq!(cluster.partition(), 1);
    assert_eq!((cluster.gate().partition, cluster.gate().status), (1, GateState::WaitForPodToBeUpdated));
}

#[test]
fn b_a13_13_a_replaced_pod_that_is_not_available_is_waited_for() {
    let cluster = at_second_gate();
    assert_eq!(
        (cluster.gate().partition, cluster.gate().status),
        (1, GateState::WaitForAllPodsToBeAvailable)
    );
}

#[test]
fn b_a13_14_with_all_pods_available_the_delay_and_the_checks_follow() {
    let mut cluster = at_second_gate();
    cluster.stuck.clear();
    cluster.quiet();
    assert_eq!((cluster.gate().partition, cluster.gate().status), (1, GateState::WaitForInitialDelay));
    cluster.wake();
    assert_eq!((cluster.gate().partition, cluster.gate().status), (1, GateState::WaitForChecks));
}

fn at_second_checks() -> Cluster {
    let mut cluster = at_second_gate();
    cluster.stuck.clear();
    cluster.quiet();
    cluster.wake();
    cluster
}

#[test]
fn b_a13_15_an_answer_500_is_an_error() {
    let mut cluster = at_second_checks();
    cluster.say(broken());
    cluster.wake();
    assert_eq!(cluster.gate().status, GateState::PrometheusError);
    assert_eq!(cluster.gate().consecutive_successful_checks, 0, "ours breaks the row");
}

#[test]
fn b_a13_16_an_empty_answer_is_a_failure() {
    let mut cluster = at_second_checks();
    cluster.say(empty());
    cluster.wake();
    let gate = cluster.gate();
    assert_eq!(gate.consecutive_successful_checks, 0);
    assert_eq!((gate.consecutive_failed_checks, gate.total_failed_checks), (1, 1));
    says(&cluster, WEB, "Rolling", ("False", "ChecksFailing"), ("False", "Rolling"));
}

#[test]
fn b_a13_17_with_data_again_the_partition_reaches_0() {
    let mut cluster = at_second_checks();
    cluster.say(empty());
    cluster.wake();
    cluster.say(data());
    let asked = cluster.questions;
    cluster.native = false;
    cluster.until(|cluster| cluster.partition() == 0);
    assert_eq!(cluster.questions - asked, 2, "two more consecutive ones, {SECONDS} s apart");
}
