//! What the screen shows of a PhasedRollout: its status, in the operator's own words.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_planner::phased_rollout::row::RolloutRow;

use crate::screen::age;

/// A PhasedRollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    namespace: String,
    #[serde(rename = "phasedRollout")]
    name: String,
    /// The set that it names.
    target: String,
    status: PhasedRolloutStatus,
}

impl Rollout {
    pub(crate) fn new(row: &RolloutRow) -> Self {
        Self {
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            target: row.target().unwrap_or_default().to_owned(),
            status: row.status.clone(),
        }
    }

    pub(crate) fn page(&self, now: Timestamp, page: &mut String) -> std::fmt::Result {
        let Self { namespace, name, target, status } = self;
        writeln!(page, "PHASED ROLLOUT {name} of {target} in namespace {namespace}")?;
        let Some(phase) = status.phase else {
            return writeln!(
                page,
                "  no operator has looked at it yet: is sts-plus running, with the controller phased-rollout?"
            );
        };
        let waiting = status.waiting_for.as_deref().unwrap_or_default();
        let since = status.since.map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
        writeln!(page, "  {}  {waiting}{since}  {}", phase.word(), self.pods_in_words())?;
        if let Some(message) = &status.message {
            writeln!(page, "    {message}")?;
        }
        if let Some(gate) = &status.rolling_pod_status {
            writeln!(page, "    gate at partition {}: {}", gate.partition, gate.status.word())?;
            for check in &gate.checks {
                let verdict = check.last_verdict.map_or("not asked yet", |verdict| verdict.word());
                let said = check.last_error.as_deref().or(check.last_value.as_deref());
                let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
                writeln!(
                    page,
                    "    {}: {verdict}{said}, {} passes and {} failures in a row",
                    check.name, check.consecutive_successful_checks, check.consecutive_failed_checks
                )?;
                for warning in &check.warnings {
                    writeln!(page, "    {} warns: {warning}", check.name)?;
                }
            }
            if let Some(next) = gate.next_check_time {
                let seconds = next.duration_since(now).as_secs().max(0);
                writeln!(page, "    next check in {seconds}s")?;
            }
        }
        if let Some(failure) = &status.failure {
            writeln!(page, "    failed: {} ({}): {}", failure.revision, failure.reason, failure.message)?;
        }
        if !status.ungated_pods.is_empty() {
            writeln!(page, "    started without a gate: {}", status.ungated_pods.join(", "))?;
        }
        for condition in &status.conditions {
            let warns = [conditions::WARNING, conditions::CONFLICT].contains(&&*condition.kind);
            if warns && condition.status == Truth::True {
                writeln!(page, "    warning: {}", condition.message)?;
            }
        }
        Ok(())
    }

    fn pods_in_words(&self) -> String {
        let target = self.status.update_revision.as_deref();
        let revisions = self.status.pods.iter().map(|pods| {
            let mark = if target == Some(&pods.revision) { " (target)" } else { "" };
            let revision = if pods.revision.is_empty() { "none" } else { &pods.revision };
            format!("{}/{} Ready on {revision}{mark}", pods.ready, pods.pods)
        });
        revisions.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
