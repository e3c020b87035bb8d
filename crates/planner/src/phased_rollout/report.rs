//! What is said about a rollout: its status, its conditions, what is announced.

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Condition, Truth};
use sts_plus_api::phased_rollout::{Phase, RevisionPods};

use super::gate::later;
use super::wait::{Wait, in_a_row};
use super::{Decision, Draft, IN_LINE_LOOK, TARGET_GRACE};
use crate::health::{Health, Member};
use crate::plan::{Action, Step};
use crate::reason::{Reason, Severity};

/// Revisions that the status tells apart; a set has two, and after a revert three.
const MAX_REVISIONS: usize = 8;

impl Draft<'_> {
    /// Counts the pods by revision, the target first.
    pub(super) fn tally(&mut self, member: &Member, health: &Health, target: &str) {
        let mut pods: Vec<RevisionPods> = Vec::new();
        for pod in &member.pods {
            let revision = pod.revision.as_deref().unwrap_or_default();
            let ready = i32::from(health.why_down(&pod.name).is_none());
            match pods.iter_mut().find(|tally| tally.revision == revision) {
                Some(tally) => {
                    tally.pods = tally.pods.saturating_add(1);
                    tally.ready = tally.ready.saturating_add(ready);
                }
                None => pods.push(RevisionPods { revision: revision.to_owned(), pods: 1, ready }),
            }
        }
        pods.sort_by(|left, right| {
            let rank = |tally: &RevisionPods| tally.revision != target;
            rank(left).cmp(&rank(right)).then_with(|| left.revision.cmp(&right.revision))
        });
        pods.truncate(MAX_REVISIONS);
        self.status.pods = pods;
    }

    /// Puts the plan together: writes to the workload first, then what is said about it.
    pub(super) fn finish(mut self, wait: Option<Wait>) -> Decision {
        if let Some(wait) = &wait {
            self.say(wait);
        }
        let steps = &mut self.decision.plan.steps;
        let (deletions, writes): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.writes).into_iter().partition(Action::is_deletion);
        steps.extend(writes.into_iter().map(Step::one));
        if !deletions.is_empty() {
            steps.push(Step::act(deletions));
        }
        let rollout = &self.world.rollout;
        if self.status != rollout.status {
            steps.push(Step::one(rollout.report(&self.status)));
        }
        Decision { status: self.status, wait, ..self.decision }
    }

    fn say(&mut self, wait: &Wait) {
        let before = self.before();
        let phase = match wait {
            // What is awaited then says nothing about where the rollout is.
            Wait::PartitionContested { .. } | Wait::Held { .. }
                if self.status.phase == Some(Phase::Suspended) =>
            {
                Phase::Suspended
            }
            Wait::NotObserved { .. }
            | Wait::PartitionContested { .. }
            | Wait::Paused { .. }
            | Wait::Held { .. } => {
                self.status.phase.filter(|phase| is_at_work(*phase)).unwrap_or(Phase::Rolling)
            }
            wait => wait.phase(),
        };
        self.status.phase = Some(phase);
        self.status.observed_generation = Some(self.world.rollout.generation);
        let step = |status: &sts_plus_api::phased_rollout::PhasedRolloutStatus| {
            let partition = status.rolling_pod_status.as_ref().map(|gate| gate.partition);
            (status.waiting_for.clone(), status.update_revision.clone(), partition)
        };
        self.status.waiting_for = Some(wait.kind().to_owned());
        self.status.message = Some(match wait.release() {
            Some(release) => format!("{wait}; until {release}"),
            None => wait.to_string(),
        });
        if step(&self.status) != step(before) || before.since.is_none() {
            self.status.since = Some(self.now);
        }
        if wait.is_announced() && before.waiting_for.as_deref() != Some(wait.kind()) {
            self.announce(wait.severity(), wait.kind(), wait.to_string());
        }
        let ends_an_obstacle = before.waiting_for.as_deref().is_some_and(|kind| wait.ends(kind));
        if ends_an_obstacle && self.decision.plan.notes.is_empty() {
            self.announce(Severity::Normal, "Resumed", wait.to_string());
        }
        if matches!(wait, Wait::TargetNotFound { .. } | Wait::ManagedByOther { .. }) {
            self.wake_at(Some(later(self.now, IN_LINE_LOOK)));
        }
        let overdue = self.target_overdue(wait);
        self.set_conditions(wait, overdue);
    }

    /// Whether the target has been missing for so long that it is told.
    fn target_overdue(&mut self, wait: &Wait) -> bool {
        if !matches!(wait, Wait::TargetNotFound { .. }) {
            return false;
        }
        let since = self.status.since.unwrap_or(self.now).min(self.now);
        let due = later(since, TARGET_GRACE);
        if due > self.now {
            self.wake_at(Some(due));
            return false;
        }
        let told = self.before().conditions.iter().any(|condition| {
            condition.kind == conditions::STALLED
                && condition.status == Truth::True
                && condition.reason == wait.kind()
        });
        if !told {
            self.announce(wait.severity(), wait.kind(), wait.to_string());
        }
        true
    }

    fn set_conditions(&mut self, wait: &Wait, overdue: bool) {
        let phase = self.status.phase.unwrap_or(Phase::Rolling);
        let words = self.status.message.clone().unwrap_or_default();
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
            Phase::Suspended => (if blocked { Truth::False } else { Truth::True }, Truth::Unknown),
            Phase::Updated => (if blocked { Truth::False } else { Truth::True }, Truth::True),
            Phase::Rolling => (if blocked { Truth::False } else { Truth::True }, Truth::False),
            Phase::Failed | Phase::RollingBack | Phase::RolledBack => (Truth::False, Truth::False),
        };
        let word = phase.word();
        let ready_reason = match (ready, phase) {
            (Truth::True, Phase::Suspended) => word,
            (Truth::True, _) => "Ready",
            _ if blocked => wait.kind(),
            _ => word,
        };
        self.condition(conditions::READY, ready, ready_reason, &words);
        self.condition(conditions::UPDATED, updated, word, &words);
        let stalled = wait.is_stalled() || overdue;
        let reconciling = !stalled && matches!(phase, Phase::Rolling | Phase::RollingBack);
        let truth = |holds: bool| if holds { Truth::True } else { Truth::False };
        self.condition(conditions::RECONCILING, truth(reconciling), wait.kind(), &words);
        self.condition(conditions::STALLED, truth(stalled), wait.kind(), &words);

        let warnings = self.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let warned = self.before().conditions.iter().any(|known| {
            known.kind == conditions::WARNING && known.status == Truth::True && known.message == warnings
        });
        if warnings.is_empty() {
            self.drop_condition(conditions::WARNING);
        } else {
            self.condition(conditions::WARNING, Truth::True, "Suspicious", &warnings);
            if !warned {
                self.announce(Severity::Warning, "Suspicious", warnings);
            }
        }
        match self.status.contest.clone() {
            Some(contest) => {
                let message = format!(
                    "{} has written the partition {}; it is restored, see the documentation on ignore rules",
                    contest.manager,
                    in_a_row(contest.times)
                );
                self.condition(conditions::CONFLICT, Truth::True, "PartitionContested", &message);
            }
            None => self.drop_condition(conditions::CONFLICT),
        }
    }

    fn condition(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let at = self.status.conditions.iter().position(|condition| condition.kind == kind);
        let same = at
            .and_then(|at| self.status.conditions.get(at))
            .filter(|condition| condition.status == status)
            .map(|condition| condition.last_transition_time);
        let condition = Condition {
            kind: kind.to_owned(),
            status,
            observed_generation: Some(self.world.rollout.generation),
            last_transition_time: same.unwrap_or_else(|| whole_seconds(self.now)),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match at.and_then(|at| self.status.conditions.get_mut(at)) {
            Some(known) => *known = condition,
            None => self.status.conditions.push(condition),
        }
    }

    fn drop_condition(&mut self, kind: &str) {
        self.status.conditions.retain(|condition| condition.kind != kind);
    }
}

/// Whether the set is managed in this phase, so that a wait within it keeps it.
pub(super) fn is_at_work(phase: Phase) -> bool {
    match phase {
        Phase::Updated | Phase::Rolling | Phase::Failed | Phase::RollingBack | Phase::RolledBack => true,
        Phase::ErrorSTSNotFound | Phase::ErrorCannotManage | Phase::ErrorInvalid | Phase::Suspended => false,
    }
}

/// Conditions have times in whole seconds everywhere in Kubernetes.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
