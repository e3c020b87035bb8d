//! The gate as a table: from a state, by an input, to a state, with what is done and what is awaited then.

use sts_plus_api::phased_rollout::GateState::{self, *};

use super::cluster::{Cluster, NEW, Reply, SECONDS, broken, data, empty};
use super::states::{at, states};
use crate::phased_rollout::answer::QueryError;

/// What happens to a gate.
#[derive(Clone, Copy, Debug)]
enum Input {
    Nothing,
    /// The set's controller and the kubelets get on with it.
    PodReplaced,
    PodReady,
    PodDown,
    /// Time passes up to the next look, and the server says so.
    Answer(Saying),
    Pause,
    Resume,
    Approve,
    ApproveAnother,
    Reword,
    /// Nobody looks for an hour.
    Outage,
}

#[derive(Clone, Copy, Debug)]
enum Saying {
    Data,
    Nothing,
    Error,
    Config,
    Rejected,
}
use Input::*;

fn reply(saying: Saying) -> Reply {
    match saying {
        Saying::Data => data(),
        Saying::Nothing => empty(),
        Saying::Error => broken(),
        Saying::Config => Err(QueryError::Config("no Secret".to_owned())),
        Saying::Rejected => Err(QueryError::Rejected { code: 400, message: "parse error".to_owned() }),
    }
}

fn happens(cluster: &mut Cluster, input: Input) {
    match input {
        Nothing => {}
        PodReplaced => cluster.native = true,
        PodReady => cluster.stuck.clear(),
        PodDown => {
            cluster.stuck.insert("web-0".to_owned());
            cluster.pod("web-0", |pod| pod.ready_since = None);
        }
        Answer(saying) => {
            cluster.say(reply(saying));
            cluster.wake();
        }
        Pause => cluster.respec(|spec| spec.paused = true),
        Resume => cluster.respec(|spec| spec.paused = false),
        Approve => cluster.approve(NEW),
        ApproveAnother => cluster.approve("web-older"),
        Reword => cluster.recheck(|check| check.query.expr.push_str(" or up{}")),
        Outage => cluster.let_pass(3600),
    }
    cluster.quiet();
}

/// From, by, to (the state and the partition of the gate), with these writes to the set, waiting for.
type Row = (GateState, Input, (GateState, i32), &'static [&'static str], &'static str);

const TABLE: &[Row] = &[
    (WaitForPodToBeUpdated, Nothing, (WaitForPodToBeUpdated, 2), &[], "PodToBeUpdated"),
    (WaitForPodToBeUpdated, PodReplaced, (WaitForInitialDelay, 2), &[], "InitialDelay"),
    (WaitForPodToBeUpdated, Pause, (Paused, 2), &[], "Paused"),
    (WaitForPodToBeUpdated, Outage, (WaitForPodToBeUpdated, 2), &[], "PodToBeUpdated"),
    (WaitForAllPodsToBeAvailable, Nothing, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (WaitForAllPodsToBeAvailable, PodReady, (WaitForInitialDelay, 2), &[], "InitialDelay"),
    (WaitForAllPodsToBeAvailable, Pause, (Paused, 2), &[], "Paused"),
    (WaitForInitialDelay, Nothing, (WaitForInitialDelay, 2), &[], "InitialDelay"),
    (WaitForInitialDelay, Answer(Saying::Data), (WaitForChecks, 2), &[], "Checks"),
    (WaitForInitialDelay, Answer(Saying::Nothing), (WaitForChecks, 2), &[], "ChecksFailing"),
    (WaitForInitialDelay, Answer(Saying::Error), (PrometheusError, 2), &[], "PrometheusError"),
    (WaitForInitialDelay, PodDown, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (WaitForInitialDelay, Pause, (Paused, 2), &[], "Paused"),
    (WaitForChecks, Nothing, (WaitForChecks, 2), &[], "Checks"),
    (WaitForChecks, Answer(Saying::Data), (WaitForInitialDelay, 1), &["1"], "InitialDelay"),
    (WaitForChecks, Answer(Saying::Nothing), (WaitForChecks, 2), &[], "ChecksFailing"),
    (WaitForChecks, Answer(Saying::Error), (PrometheusError, 2), &[], "PrometheusError"),
    (WaitForChecks, Answer(Saying::Config), (PrometheusError, 2), &[], "PrometheusConfigError"),
    (WaitForChecks, Answer(Saying::Rejected), (PrometheusError, 2), &[], "PrometheusConfigError"),
    (WaitForChecks, PodDown, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (WaitForChecks, Pause, (Paused, 2), &[], "Paused"),
    (WaitForChecks, Reword, (WaitForChecks, 2), &[], "Checks"),
    (WaitForChecks, Outage, (WaitForChecks, 2), &[], "Checks"),
    (PrometheusError, Nothing, (PrometheusError, 2), &[], "PrometheusError"),
    (PrometheusError, Answer(Saying::Data), (WaitForChecks, 2), &[], "Checks"),
    (PrometheusError, Answer(Saying::Nothing), (WaitForChecks, 2), &[], "ChecksFailing"),
    (PrometheusError, Answer(Saying::Error), (PrometheusError, 2), &[], "PrometheusError"),
    (PrometheusError, PodDown, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (WaitForApproval, Nothing, (WaitForApproval, 2), &[], "Approval"),
    (WaitForApproval, Approve, (WaitForInitialDelay, 1), &["1"], "InitialDelay"),
    (WaitForApproval, ApproveAnother, (WaitForApproval, 2), &[], "Approval"),
    (WaitForApproval, Answer(Saying::Data), (WaitForApproval, 2), &[], "Approval"),
    (WaitForApproval, Answer(Saying::Nothing), (WaitForChecks, 2), &[], "ChecksFailing"),
    (WaitForApproval, PodDown, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (WaitForApproval, Pause, (Paused, 2), &[], "Paused"),
    (Paused, Nothing, (Paused, 2), &[], "Paused"),
    (Paused, Resume, (WaitForInitialDelay, 2), &[], "InitialDelay"),
    (Paused, PodDown, (Paused, 2), &[], "Paused"),
    (Paused, Outage, (Paused, 2), &[], "Paused"),
    (Passed, Nothing, (WaitForInitialDelay, 1), &["1"], "InitialDelay"),
    (Passed, PodDown, (WaitForAllPodsToBeAvailable, 2), &[], "PodsToBeAvailable"),
    (Passed, Pause, (Paused, 2), &[], "Paused"),
    (Passed, Reword, (WaitForChecks, 2), &[], "Checks"),
    (Passed, Outage, (WaitForChecks, 2), &[], "Checks"),
    (Failed, Nothing, (Failed, 2), &[], "GateFailed"),
    (Failed, PodDown, (Failed, 2), &[], "GateFailed"),
    (Failed, Approve, (WaitForInitialDelay, 2), &[], "InitialDelay"),
    (Failed, ApproveAnother, (Failed, 2), &[], "GateFailed"),
    (Failed, Outage, (Failed, 2), &[], "GateFailed"),
];

#[test]
fn every_transition_of_a_gate() {
    for (number, (from, by, to, writes, waiting)) in TABLE.iter().enumerate() {
        let mut cluster = at(*from);
        happens(&mut cluster, *by);
        let gate = cluster.gate();
        let found =
            ((gate.status, gate.partition), cluster.partitions(), cluster.status().waiting_for.as_deref());
        assert_eq!(
            found,
            (*to, writes.to_vec(), Some(*waiting)),
            "row {number}: {from:?} by {by:?}\n{cluster}"
        );
    }
}

#[test]
fn the_table_has_every_state() {
    for (state, word) in states() {
        assert!(TABLE.iter().any(|row| row.0 == state), "{word} is left");
        assert!(TABLE.iter().any(|row| row.2.0 == state) || state == Passed, "{word} is reached");
    }
}

#[test]
fn a_row_of_successes_starts_anew_after_each_disturbance() {
    for by in [PodDown, Reword, Outage, Answer(Saying::Nothing), Answer(Saying::Error)] {
        let mut cluster = at(WaitForChecks);
        assert_eq!(cluster.gate().consecutive_successful_checks, 1);
        happens(&mut cluster, by);
        cluster.stuck.clear();
        cluster.say(data());
        let (asked, begun) = (cluster.questions, cluster.gate().consecutive_successful_checks);
        cluster.quiet();
        cluster.until(|cluster| cluster.partition() == 1);
        let needed = cluster.questions - asked + usize::try_from(begun).unwrap();
        assert_eq!(needed, 2, "{by:?}, {SECONDS} s apart");
    }
}

#[test]
fn a_pod_that_flaps_starts_the_delay_anew() {
    let mut cluster = at(WaitForChecks);
    let before = cluster.gate().analysis_start_time.unwrap();
    happens(&mut cluster, PodDown);
    assert_eq!(cluster.gate().analysis_start_time, None);
    happens(&mut cluster, PodReady);
    let after = cluster.gate().analysis_start_time.unwrap();
    assert!(after > before);
    assert_eq!(cluster.gate().status, WaitForInitialDelay);
    assert!(
        cluster.gate().next_check_time.unwrap() >= after + jiff::SignedDuration::from_secs(SECONDS.into())
    );
}

#[test]
fn a_pod_that_went_down_and_came_back_between_two_looks_starts_the_delay_anew() {
    let mut cluster = at(WaitForChecks);
    let before = cluster.gate().analysis_start_time.unwrap();
    assert_eq!(cluster.gate().consecutive_successful_checks, 1);
    cluster.let_pass(1);
    let now = cluster.now;
    cluster.pod("web-0", |pod| pod.ready_since = Some(now));
    cluster.quiet();
    assert!(cluster.gate().analysis_start_time.unwrap() > before);
    assert_eq!(
        (cluster.gate().status, cluster.gate().consecutive_successful_checks),
        (WaitForInitialDelay, 0)
    );
}
