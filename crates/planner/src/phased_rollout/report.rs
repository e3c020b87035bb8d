//! What is said about a rollout: its status, its conditions, what is announced.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Condition, Truth};
use sts_plus_api::phased_rollout::{Phase, PhasedRolloutStatus, RevisionPods};

use super::gate::later;
use super::policy::Policy;
use super::progress::{Effects, Progress};
use super::situation::Scene;
use super::wait::{Wait, in_succession};
use super::{Decision, IN_LINE_LOOK, TARGET_GRACE, World};
use crate::conditions::whole_seconds;
use crate::plan::{Action, Note, Plan, Step, When};
use crate::reason::{Reason, Severity};

/// Revisions that the status tells apart; a set has two, and after a revert three.
const MAX_REVISIONS: usize = 8;

/// Counts the pods by revision, the target first.
pub(super) fn tally(scene: &Scene<'_>) -> Vec<RevisionPods> {
    let mut pods: Vec<RevisionPods> = Vec::new();
    for pod in &scene.member().pods {
        let revision = pod.revision.as_deref().unwrap_or_default();
        let ready = i32::from(scene.health.why_down(&pod.name).is_none());
        match pods.iter_mut().find(|tally| tally.revision == revision) {
            Some(tally) => {
                tally.pods = tally.pods.saturating_add(1);
                tally.ready = tally.ready.saturating_add(ready);
            }
            None => pods.push(RevisionPods { revision: revision.to_owned(), pods: 1, ready }),
        }
    }
    pods.sort_by(|left, right| {
        let rank = |tally: &RevisionPods| tally.revision != scene.update;
        rank(left).cmp(&rank(right)).then_with(|| left.revision.cmp(&right.revision))
    });
    pods.truncate(MAX_REVISIONS);
    pods
}

/// Puts the plan together: writes to the workload first, then what is reported of it.
pub(super) fn plan(world: &World, progress: Progress, now: Timestamp) -> Decision {
    let Progress { status, wait, effects } = progress;
    let (status, effects) = match &wait {
        Some(wait) => report(&ReportContext { world, wait, now }, status, effects),
        None => (status, effects),
    };
    let Effects { writes, asks, notes, wake_at, waits_on, stretch, adds_time, gate_took, ended } = effects;
    let (deletions, writes): (Vec<_>, Vec<_>) = writes.into_iter().partition(Action::is_deletion);
    let deletions = (!deletions.is_empty()).then(|| Step::act(deletions));
    let rollout = &world.rollout;
    let reported = (status != rollout.status).then(|| Step::one(rollout.report(&status)));
    let steps = writes.into_iter().map(Step::one).chain(deletions).chain(reported).collect();
    let waits_on: BTreeSet<_> = waits_on.into_iter().collect();
    let plan = Plan { asks, steps, notes, wake_at, waits_on: waits_on.into_iter().collect() };
    Decision { plan, status, wait, stretch, adds_time, gate_took, ended }
}

/// What a report is made from.
struct ReportContext<'w> {
    world: &'w World,
    wait: &'w Wait,
    now: Timestamp,
}

impl ReportContext<'_> {
    fn note(&self, severity: Severity, reason: &'static str, message: String) -> Note {
        self.world.note(severity, reason, message, When::Done)
    }

    /// The wait as an event.
    fn announcement(&self) -> Note {
        self.note(self.wait.severity(), self.wait.kind(), self.wait.to_string())
    }
}

/// The status with what is reported of the wait, and the notes that go with it.
fn report(
    context: &ReportContext<'_>,
    status: PhasedRolloutStatus,
    effects: Effects,
) -> (PhasedRolloutStatus, Effects) {
    let ReportContext { world, wait, now } = *context;
    let before = &world.rollout.status;
    let message = match wait.release() {
        Some(release) => format!("{wait} Continues when {release}."),
        None => wait.to_string(),
    };
    let mut status = PhasedRolloutStatus {
        phase: Some(phase(wait, status.phase)),
        observed_generation: Some(world.rollout.generation),
        waiting_for: Some(wait.kind().to_owned()),
        message: Some(message),
        ..status
    };
    if place(&status) != place(before) || before.since.is_none() {
        status.since = Some(now);
    }
    let begins = wait.is_announced() && before.waiting_for.as_deref() != Some(wait.kind());
    let ends_an_obstacle = before.waiting_for.as_deref().is_some_and(|kind| wait.ends(kind));
    let effects = if begins {
        effects.note(context.announcement())
    } else if ends_an_obstacle && effects.notes.is_empty() {
        effects.note(context.note(Severity::Normal, "Resumed", wait.to_string()))
    } else {
        effects
    };
    let in_line = matches!(wait, Wait::TargetNotFound { .. } | Wait::ManagedByOther { .. });
    let effects = effects.wake(in_line.then(|| later(now, IN_LINE_LOOK)));
    let (is_overdue, overdue) = target_overdue(context, &status);
    let effects = effects.and(overdue);
    let warnings = warnings(world);
    status.conditions = conditions(context, &status, is_overdue, &warnings);
    let is_warned = before.conditions.iter().any(|known| {
        known.kind == conditions::WARNING && known.status == Truth::True && known.message == warnings
    });
    if warnings.is_empty() || is_warned {
        return (status, effects);
    }
    (status, effects.note(context.note(Severity::Warning, "Suspicious", warnings)))
}

/// Where a rollout is: while that stays, so does the time since when.
fn place(status: &PhasedRolloutStatus) -> (Option<&str>, Option<&str>, Option<i32>) {
    let partition = status.rolling_pod_status.as_ref().map(|gate| gate.partition);
    (status.waiting_for.as_deref(), status.update_revision.as_deref(), partition)
}

fn phase(wait: &Wait, before: Option<Phase>) -> Phase {
    match wait {
        // What is awaited then says nothing about where the rollout is.
        Wait::PartitionContested { .. } | Wait::Held { .. } if before == Some(Phase::Suspended) => {
            Phase::Suspended
        }
        Wait::NotObserved { .. }
        | Wait::PartitionContested { .. }
        | Wait::Paused { .. }
        | Wait::Held { .. } => before.filter(|phase| is_at_work(*phase)).unwrap_or(Phase::Rolling),
        wait => wait.phase(),
    }
}

/// Whether the target has been missing for so long that it is reported, and what follows from it.
fn target_overdue(context: &ReportContext<'_>, status: &PhasedRolloutStatus) -> (bool, Effects) {
    let ReportContext { world, wait, now } = *context;
    if !matches!(wait, Wait::TargetNotFound { .. }) {
        return (false, Effects::default());
    }
    let due = later(status.since.unwrap_or(now).min(now), TARGET_GRACE);
    if due > now {
        return (false, Effects::default().wake(Some(due)));
    }
    let is_reported = world.rollout.status.conditions.iter().any(|condition| {
        condition.kind == conditions::STALLED
            && condition.status == Truth::True
            && condition.reason == wait.kind()
    });
    let note = (!is_reported).then(|| context.announcement());
    (true, Effects { notes: note.into_iter().collect(), ..Effects::default() })
}

/// What works, and probably not as meant.
fn warnings(world: &World) -> String {
    let policy = world.rollout.spec.policy.iter().flat_map(Policy::warnings);
    let warnings = policy.chain(world.syntax.iter().cloned()).map(|warning| warning.to_string());
    warnings.collect::<Vec<_>>().join(" ")
}

/// The conditions of a status, in the order in which they were there before.
fn conditions(
    context: &ReportContext<'_>,
    status: &PhasedRolloutStatus,
    is_overdue: bool,
    warnings: &str,
) -> Vec<Condition> {
    let wait = context.wait;
    let phase = status.phase.unwrap_or(Phase::Rolling);
    let blocked = matches!(
        wait,
        Wait::ChecksFailing { .. }
            | Wait::PrometheusError { .. }
            | Wait::PrometheusConfigError { .. }
            | Wait::PartitionContested { .. }
            | Wait::Held { reason: Reason::WriteRefused { .. } }
    );
    let (ready, updated) = match phase {
        Phase::ErrorSTSNotFound | Phase::ErrorCannotManage | Phase::ErrorInvalid => {
            (Truth::False, Truth::Unknown)
        }
        Phase::Suspended => (truth(!blocked), Truth::Unknown),
        Phase::Updated => (truth(!blocked), Truth::True),
        Phase::Rolling => (truth(!blocked), Truth::False),
        Phase::Failed | Phase::RollingBack | Phase::RolledBack => (Truth::False, Truth::False),
    };
    let word = phase.word();
    let ready_reason = match (ready, phase) {
        (Truth::True, Phase::Suspended) => word,
        (Truth::True, _) => "Ready",
        _ if blocked => wait.kind(),
        _ => word,
    };
    let stalled = wait.is_stalled() || is_overdue;
    let reconciling = !stalled && matches!(phase, Phase::Rolling | Phase::RollingBack);
    let words = status.message.as_deref().unwrap_or_default();
    let contested = status.contest.as_ref().map(|contest| {
        format!(
            "{} has written the partition {}. It is restored; see the documentation on ignore rules.",
            contest.manager,
            in_succession(contest.times)
        )
    });
    let warned = (!warnings.is_empty()).then_some((Truth::True, "Suspicious", warnings));
    let contested = contested.as_deref().map(|words| (Truth::True, "PartitionContested", words));
    let wanted = [
        (conditions::READY, Some((ready, ready_reason, words))),
        (conditions::UPDATED, Some((updated, word, words))),
        (conditions::RECONCILING, Some((truth(reconciling), wait.kind(), words))),
        (conditions::STALLED, Some((truth(stalled), wait.kind(), words))),
        (conditions::WARNING, warned),
        (conditions::CONFLICT, contested),
    ];
    wanted
        .into_iter()
        .fold(status.conditions.clone(), |known, (kind, wanted)| with_condition(context, known, kind, wanted))
}

/// The conditions with this one as it shall be, or without it.
fn with_condition(
    context: &ReportContext<'_>,
    mut known: Vec<Condition>,
    kind: &str,
    wanted: Option<(Truth, &str, &str)>,
) -> Vec<Condition> {
    let Some((status, reason, message)) = wanted else {
        known.retain(|condition| condition.kind != kind);
        return known;
    };
    let before = known.iter_mut().find(|condition| condition.kind == kind);
    let same = before.as_ref().filter(|condition| condition.status == status);
    let condition = Condition {
        kind: kind.to_owned(),
        status,
        observed_generation: Some(context.world.rollout.generation),
        last_transition_time: same
            .map_or_else(|| whole_seconds(context.now), |condition| condition.last_transition_time),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match before {
        Some(before) => *before = condition,
        None => known.push(condition),
    }
    known
}

fn truth(holds: bool) -> Truth {
    if holds { Truth::True } else { Truth::False }
}

/// Whether the set is managed in this phase, so that a wait within it keeps it.
fn is_at_work(phase: Phase) -> bool {
    match phase {
        Phase::Updated | Phase::Rolling | Phase::Failed | Phase::RollingBack | Phase::RolledBack => true,
        Phase::ErrorSTSNotFound | Phase::ErrorCannotManage | Phase::ErrorInvalid | Phase::Suspended => false,
    }
}
