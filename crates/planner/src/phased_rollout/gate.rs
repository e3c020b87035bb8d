//! One gate: what has to be before the partition goes down by one.
//!
//! The state of a gate is the [`GateStatus`] in the object's status and nothing else. [`look`] brings it up to date
//! with what is the case now; it never takes a step itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{Approval, CheckStatus, GateState, GateStatus, Verdict};

use super::judge::Judgement;
use super::policy::{Check, Policy};
use super::query::{GateId, Outcome, Question};
use super::wait::{Wait, in_succession};
use crate::health::{Health, Member};
use crate::pod::PodRow;

/// How long to leave a server alone that has refused a query: only a change of the query helps, and that is seen at
/// once; this is for a proxy that was wrong.
pub const REJECTED_RETRY: SignedDuration = SignedDuration::from_mins(5);

/// What a gate stands on.
#[derive(Debug)]
pub(super) struct Ground<'w> {
    pub(super) rollout: &'w str,
    pub(super) policy: &'w Policy,
    pub(super) member: &'w Member,
    pub(super) health: &'w Health,
    /// The revision that is rolled out.
    pub(super) revision: &'w str,
    pub(super) generation: i64,
    /// What the approval annotation says.
    pub(super) approve: Option<&'w str>,
    /// What it has to say where an approval is needed.
    pub(super) needed: &'w str,
    pub(super) outcomes: &'w [Outcome],
    /// The checks whose query has been sent and not answered.
    pub(super) under_way: &'w BTreeSet<String>,
    pub(super) now: Timestamp,
}

impl Ground<'_> {
    /// What the queries of a gate are asked for.
    fn gate(&self, gate: &GateStatus) -> GateId {
        let revision = self.revision.into();
        GateId { generation: self.generation, revision, partition: gate.partition }
    }
}

/// What a gate is found to be.
#[derive(Debug)]
pub(super) enum GateVerdict {
    /// Something is awaited.
    Waits(Wait),
    /// Everything is as it has to be.
    Passed,
    /// It will not pass.
    Failed { reason: &'static str, why: String },
}

/// What looking at a gate brought.
#[derive(Debug)]
pub(super) struct Look {
    /// The gate, brought up to date.
    pub(super) gate: GateStatus,
    pub(super) verdict: GateVerdict,
    pub(super) questions: Vec<Question>,
    pub(super) wake_at: Option<Timestamp>,
}

/// How a gate stands: what is found, which queries are due, when to look again.
type Found = (GateVerdict, Vec<Question>, Option<Timestamp>);

fn waits(wait: Wait, wake_at: Option<Timestamp>) -> Found {
    (GateVerdict::Waits(wait), Vec::new(), wake_at)
}

/// A gate that begins now.
pub(super) fn begin(partition: u32, replicas: u32, first: bool, now: Timestamp) -> GateStatus {
    GateStatus {
        status: GateState::WaitForPodToBeUpdated,
        partition: to_i32(partition),
        replicas: to_i32(replicas),
        start_time: now,
        elapsed_seconds: 0,
        analysis_start_time: None,
        pods_ready_since: None,
        last_check_time: None,
        next_check_time: None,
        consecutive_successful_checks: 0,
        consecutive_failed_checks: 0,
        total_failed_checks: 0,
        first,
        approved: false,
        checks: Vec::new(),
    }
}

/// Brings a gate up to date, and says how it stands.
pub(super) fn look(mut gate: GateStatus, ground: &Ground<'_>) -> Look {
    let (verdict, questions, wake_at) = stand(&mut gate, ground);
    sum_up(&mut gate);
    let waited_for_somebody = matches!(gate.status, GateState::Paused | GateState::WaitForApproval);
    let somebody = matches!(verdict, GateVerdict::Waits(Wait::Paused { .. } | Wait::Approval { .. }));
    if waited_for_somebody && !somebody {
        gate.status = GateState::WaitForChecks;
    }
    if let GateVerdict::Waits(wait) = &verdict
        && let Some(state) = wait.gate_state()
    {
        gate.status = state;
    }
    Look { gate, verdict, questions, wake_at }
}

fn stand(gate: &mut GateStatus, ground: &Ground<'_>) -> Found {
    let gone_back = outdated_from(ground.member, gate.partition, ground.revision);
    let ready_since = ground.member.pods.iter().filter_map(|pod| pod.ready_since).max();
    if gone_back.is_some() || !ground.health.all_ready() || gate.pods_ready_since != ready_since {
        unsettle(gate);
    }
    if ground.policy.paused {
        return waits(Wait::Paused { rollout: ground.rollout.to_owned() }, None);
    }
    if let Some(pod) = gone_back {
        return waits(Wait::PodNotUpdated { pod, revision: ground.revision.to_owned() }, None);
    }
    if !ground.health.all_ready() {
        let wait = Wait::PodsNotAvailable { down: ground.health.summary() };
        return waits(wait, ground.health.changes_at);
    }
    if gate.partition == 0 && !ground.policy.verify_last {
        return (GateVerdict::Passed, Vec::new(), None);
    }
    // A time that is yet to come was written by a clock that ran ahead.
    let begun = gate.analysis_start_time.filter(|begun| *begun <= ground.now).unwrap_or(ground.now);
    gate.analysis_start_time = Some(begun);
    gate.pods_ready_since = ready_since;
    check(gate, ground, begun)
}

/// The first pod from the partition on that is not there in the revision.
fn outdated_from(member: &Member, partition: i32, revision: &str) -> Option<String> {
    let set = &member.set;
    let first = set.first_ordinal.saturating_add(u32::try_from(partition).unwrap_or(0));
    let missing = highest_outdated(member, revision).filter(|ordinal| *ordinal >= first)?;
    Some(format!("{}-{missing}", set.name))
}

/// The highest ordinal without a pod of the revision.
pub(super) fn highest_outdated(member: &Member, revision: &str) -> Option<u32> {
    let updated = member.pods.iter().filter(|pod| is_of(pod, revision));
    let updated: BTreeSet<_> = updated.filter_map(|pod| member.wanted_ordinal(pod)).collect();
    // Bounded by the pods that there are: the first that is missing ends the search.
    member.set.ordinals().rev().find(|ordinal| !updated.contains(ordinal))
}

/// Whether a pod is of a revision, and stays.
pub(super) fn is_of(pod: &PodRow, revision: &str) -> bool {
    pod.revision.as_deref() == Some(revision) && !pod.terminating
}

/// Forgets what was found out while the pods were as they are no longer.
fn unsettle(gate: &mut GateStatus) {
    gate.analysis_start_time = None;
    gate.pods_ready_since = None;
    gate.next_check_time = None;
    gate.checks.iter_mut().for_each(start_anew);
}

/// Forgets what was found out by questions that are asked no more.
pub(super) fn reword(gate: &mut GateStatus) {
    for check in &mut gate.checks {
        start_anew(check);
        check.last_check_time = None;
    }
}

fn start_anew(check: &mut CheckStatus) {
    check.consecutive_successful_checks = 0;
    check.consecutive_failed_checks = 0;
    check.consecutive_errors = 0;
    check.last_success_time = None;
    check.last_verdict = None;
    check.last_error = None;
}

fn check(gate: &mut GateStatus, ground: &Ground<'_>, begun: Timestamp) -> Found {
    let Ground { policy, now, .. } = ground;
    let id = ground.gate(gate);
    let mut checks = std::mem::take(&mut gate.checks);
    gate.checks = policy
        .checks
        .iter()
        .map(|check| {
            let known = checks.iter().position(|known| known.name == check.name);
            let mut known = known.map_or_else(|| new_check(&check.name), |at| checks.swap_remove(at));
            let eligible = later(begun, check.delay);
            count(&mut known, check, ground, &id, eligible);
            discard_stale(&mut known, check, *now);
            known
        })
        .collect();

    if let Some((reason, why)) = policy.checks.iter().zip(&gate.checks).find_map(|(c, s)| failure(c, s)) {
        return (GateVerdict::Failed { reason, why }, Vec::new(), None);
    }
    let passed =
        policy.checks.iter().zip(&gate.checks).all(|(c, s)| s.consecutive_successful_checks >= c.successes);
    let approved = gate.approved || !needs_approval(policy, gate);
    if passed && approved {
        // If the step cannot be taken now, the row gets old and has to be made anew.
        let stale = policy.checks.iter().zip(&gate.checks).filter_map(|(c, s)| stale_at(s, c)).min();
        gate.next_check_time = None;
        return (GateVerdict::Passed, Vec::new(), stale);
    }
    let due = |check: &Check, status: &CheckStatus| due_at(check, status, later(begun, check.delay));
    gate.next_check_time = policy.checks.iter().zip(&gate.checks).map(|(c, s)| due(c, s)).min();
    let mut questions = Vec::new();
    let mut wake_at: Option<Timestamp> = None;
    for (check, status) in policy.checks.iter().zip(&gate.checks) {
        let due = due(check, status);
        if ground.under_way.contains(&check.name) {
            // Its answer brings the next look.
        } else if due <= *now {
            questions.push(ask(check, &id, ground));
        } else {
            wake_at = [wake_at, Some(due)].into_iter().flatten().min();
        }
    }
    let wait = if passed {
        Wait::Approval {
            rollout: ground.rollout.to_owned(),
            revision: ground.revision.to_owned(),
            approval: ground.needed.to_owned(),
            given: ground.approve.map(str::to_owned),
        }
    } else {
        waits_for(policy, gate, begun, *now)
    };
    (GateVerdict::Waits(wait), questions, wake_at)
}

/// Whether somebody has to agree to the step behind this gate.
pub(super) fn needs_approval(policy: &Policy, gate: &GateStatus) -> bool {
    let asked = match policy.approval {
        Approval::Never => false,
        Approval::FirstPod => gate.first,
        Approval::EveryStep => true,
    };
    asked && gate.partition > 0
}

fn new_check(name: &str) -> CheckStatus {
    CheckStatus {
        name: name.to_owned(),
        consecutive_successful_checks: 0,
        consecutive_failed_checks: 0,
        total_failed_checks: 0,
        consecutive_errors: 0,
        last_check_time: None,
        last_success_time: None,
        last_verdict: None,
        last_value: None,
        last_error: None,
        warnings: Vec::new(),
    }
}

/// Counts every answer that was asked for in this state of this gate, each once.
fn count(status: &mut CheckStatus, check: &Check, ground: &Ground<'_>, gate: &GateId, eligible: Timestamp) {
    let mine = ground.outcomes.iter().filter(|outcome| {
        outcome.check == check.name && outcome.gate == *gate && outcome.asked_at >= eligible
    });
    let mut mine: Vec<_> = mine.collect();
    mine.sort_by_key(|outcome| outcome.asked_at);
    for outcome in mine {
        if status.last_check_time.is_some_and(|last| outcome.asked_at <= last) {
            continue;
        }
        discard_stale(status, check, outcome.asked_at);
        let Judgement { verdict, value, error, warnings } = outcome.judgement.clone();
        let errors = status.consecutive_errors.saturating_add(1);
        status.consecutive_errors = if error.is_some() { errors } else { 0 };
        match verdict {
            Verdict::Pass => {
                status.consecutive_successful_checks = status.consecutive_successful_checks.saturating_add(1);
                status.consecutive_failed_checks = 0;
                status.last_success_time = Some(outcome.asked_at);
            }
            Verdict::Fail => {
                status.consecutive_successful_checks = 0;
                status.consecutive_failed_checks = status.consecutive_failed_checks.saturating_add(1);
                status.total_failed_checks = status.total_failed_checks.saturating_add(1);
            }
            Verdict::NoData | Verdict::Error | Verdict::ConfigError | Verdict::Rejected => {
                status.consecutive_successful_checks = 0;
            }
        }
        status.last_check_time = Some(outcome.asked_at);
        status.last_verdict = Some(verdict);
        status.last_value = value;
        status.last_error = error;
        status.warnings = warnings;
    }
}

/// A streak of successes that nobody has added to for too long, or whose time is yet to come, proves nothing.
fn discard_stale(status: &mut CheckStatus, check: &Check, now: Timestamp) {
    let fresh =
        status.last_success_time.is_some_and(|last| last <= now && stale_at(status, check) > Some(now));
    if !fresh {
        status.consecutive_successful_checks = 0;
    }
    status.last_check_time = status.last_check_time.filter(|last| *last <= now);
}

fn stale_at(status: &CheckStatus, check: &Check) -> Option<Timestamp> {
    Some(later(status.last_success_time?, check.freshness()))
}

fn due_at(check: &Check, status: &CheckStatus, eligible: Timestamp) -> Timestamp {
    let interval = match status.last_verdict {
        Some(Verdict::Rejected) => check.period.max(REJECTED_RETRY),
        _ => check.period,
    };
    status.last_check_time.map_or(eligible, |last| later(last, interval).max(eligible))
}

fn failure(check: &Check, status: &CheckStatus) -> Option<(&'static str, String)> {
    let CheckStatus { name, consecutive_failed_checks: failed, consecutive_errors: errors, .. } = status;
    if check.failures.is_some_and(|limit| *failed >= limit) {
        return Some((
            "CheckFailed",
            format!("{name} has failed {}: {}", in_succession(*failed), said(status)),
        ));
    }
    if check.errors.is_some_and(|limit| *errors >= limit) {
        return Some((
            "CheckErrors",
            format!("{name} got no verdict {}: {}", in_succession(*errors), said(status)),
        ));
    }
    None
}

/// What the last query brought, in words.
fn said(status: &CheckStatus) -> String {
    status.last_error.clone().or_else(|| status.last_value.clone()).unwrap_or_default()
}

fn waits_for(policy: &Policy, gate: &GateStatus, begun: Timestamp, now: Timestamp) -> Wait {
    let last = |verdicts: &[Verdict]| {
        gate.checks.iter().find(|s| s.last_verdict.is_some_and(|verdict| verdicts.contains(&verdict)))
    };
    if let Some(status) = last(&[Verdict::ConfigError, Verdict::Rejected]) {
        return Wait::PrometheusConfigError { check: status.name.clone(), error: said(status) };
    }
    if let Some(status) = last(&[Verdict::Error]) {
        return Wait::PrometheusError { check: status.name.clone(), error: said(status) };
    }
    if let Some(status) = last(&[Verdict::Fail]) {
        return Wait::ChecksFailing {
            check: status.name.clone(),
            failures: status.consecutive_failed_checks,
            value: said(status),
        };
    }
    let first = policy.checks.iter().map(|check| later(begun, check.delay)).min();
    if let Some(until) = first.filter(|first| *first > now) {
        return Wait::InitialDelay { until };
    }
    let progress = policy.checks.iter().zip(&gate.checks).map(|(check, status)| {
        format!("{} passed {} of {} times", check.name, status.consecutive_successful_checks, check.successes)
    });
    Wait::Checks { progress: progress.collect::<Vec<_>>().join(", ") }
}

fn ask(check: &Check, gate: &GateId, ground: &Ground<'_>) -> Question {
    let set = &ground.member.set;
    let index = u32::try_from(gate.partition).unwrap_or(0);
    // Before the first pod is replaced, the gate is about the one that would be.
    let index = if index >= set.replicas { set.replicas.saturating_sub(1) } else { index };
    let pod = format!("{}-{}", set.name, set.first_ordinal.saturating_add(index));
    let updated = ground.member.pods.iter().filter(|pod| is_of(pod, ground.revision));
    Question {
        check: check.clone(),
        gate: gate.clone(),
        set: Arc::clone(set),
        pod: pod.into(),
        updated: updated.cloned().collect(),
    }
}

/// The numbers over all checks.
fn sum_up(gate: &mut GateStatus) {
    let checks = || gate.checks.iter();
    gate.consecutive_successful_checks =
        checks().map(|check| check.consecutive_successful_checks).min().unwrap_or(0);
    gate.consecutive_failed_checks = checks().map(|check| check.consecutive_failed_checks).max().unwrap_or(0);
    gate.total_failed_checks =
        checks().fold(0, |sum: i32, check| sum.saturating_add(check.total_failed_checks));
    gate.last_check_time = checks().filter_map(|check| check.last_check_time).max();
}

/// The index from which pods are of the new revision when the gate has passed.
pub(super) fn index(gate: &GateStatus) -> u32 {
    u32::try_from(gate.partition).unwrap_or(0)
}

/// A time and a wait after it; one beyond the calendar never comes.
pub(super) fn later(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// What Kubernetes calls an int32 and never makes negative.
pub(super) fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
