//! The table of `sts-plus status`: text that fits a terminal and a bug report alike.

use std::fmt::Write;

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::view::{Group, Rollout, Set};

use crate::status::Section;
use crate::{table_extended, table_scaling};

/// Every section, or where nothing was found.
pub(crate) fn render(sections: &[Section<'_>], scope: &Scope, now: Timestamp) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    render_to(&mut page, sections, scope, now).ok();
    page
}

fn render_to(page: &mut String, sections: &[Section<'_>], scope: &Scope, now: Timestamp) -> std::fmt::Result {
    if sections.is_empty() {
        let place = match scope {
            Scope::Cluster => "this cluster".to_owned(),
            Scope::Namespaces(names) => format!("namespace {}", names.join(", ")),
        };
        return writeln!(
            page,
            "Nothing to show in {place}: there is no PhasedRollout, no ExtendedStatefulSet and no ScalingPolicy, and no \
             StatefulSet has the label rollout-group."
        );
    }
    for (position, section) in sections.iter().enumerate() {
        if position > 0 {
            writeln!(page)?;
        }
        match section {
            Section::Group(group) => render_group(page, group, now)?,
            Section::Rollout(rollout) => render_rollout(page, rollout, now)?,
            Section::Extended(extended) => table_extended::render(page, extended, now)?,
            Section::Scaling(scaling) => table_scaling::render(page, scaling, now)?,
        }
    }
    Ok(())
}

fn render_group(page: &mut String, group: &Group, now: Timestamp) -> std::fmt::Result {
    writeln!(page, "GROUP {} in namespace {}", group.name, group.namespace)?;
    let width = group.sets.iter().map(|set| set.name.chars().count()).max().unwrap_or(0);
    for set in &group.sets {
        let pods = pods_of_set(set);
        // The planner reports on every set of a group.
        let Some(state) = &set.state else { continue };
        writeln!(page, "  {:width$}  {} for {}  {pods}", set.name, state.state, age(state.since, now))?;
        writeln!(page, "  {:width$}    {}", "", state.message)?;
        if let Some(release) = &state.release {
            writeln!(page, "  {:width$}    until {release}", "")?;
        }
        if !set.not_ready.is_empty() && !state.message.contains(&set.not_ready) {
            writeln!(page, "  {:width$}    now: {}", "", set.not_ready)?;
        }
        for warning in &set.warnings {
            writeln!(page, "  {:width$}    warning: {warning}", "")?;
        }
    }
    Ok(())
}

fn render_rollout(page: &mut String, rollout: &Rollout, now: Timestamp) -> std::fmt::Result {
    let Rollout { namespace, name, target, status } = rollout;
    writeln!(page, "PHASED ROLLOUT {name} of {target} in namespace {namespace}")?;
    let Some(phase) = status.phase else {
        return writeln!(
            page,
            "  No operator has reported a status: is sts-plus running with the controller phased-rollout?"
        );
    };
    let waiting = status.waiting_for.as_deref().unwrap_or_default();
    let since = status.since.map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
    writeln!(page, "  {}  {waiting}{since}  {}", phase.word(), pods_of_rollout(rollout))?;
    if let Some(message) = &status.message {
        writeln!(page, "    {message}")?;
    }
    if let Some(gate) = &status.rolling_pod_status {
        writeln!(page, "    gate at partition {}: {}", gate.partition, gate.status.word())?;
        for check in &gate.checks {
            let verdict = check.last_verdict.map_or("not queried yet", |verdict| verdict.word());
            let answer = check.last_error.as_deref().or(check.last_value.as_deref());
            let answer = answer.map(|answer| format!(" ({answer})")).unwrap_or_default();
            writeln!(
                page,
                "    {}: {verdict}{answer}, {} consecutive passes and {} consecutive failures",
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

fn pods_of_set(set: &Set) -> String {
    let tallies = set.pods.iter().map(|tally| (&*tally.revision, tally.pods, tally.ready));
    let words = pods_in_words(tallies, set.target_revision.as_deref());
    if words.is_empty() { "no pods".to_owned() } else { words }
}

fn pods_of_rollout(Rollout { status, .. }: &Rollout) -> String {
    let tallies = status.pods.iter().map(|tally| {
        let revision = if tally.revision.is_empty() { "none" } else { &*tally.revision };
        (revision, tally.pods, tally.ready)
    });
    pods_in_words(tallies, status.update_revision.as_deref())
}

/// `3/5 Ready on web-a1b2c3 (update revision), 2/2 Ready on web-d4e5f6`
fn pods_in_words<'a, N: std::fmt::Display>(
    tallies: impl Iterator<Item = (&'a str, N, N)>,
    update: Option<&str>,
) -> String {
    let revisions = tallies.map(|(revision, pods, ready)| {
        let mark = if update == Some(revision) { " (update revision)" } else { "" };
        format!("{ready}/{pods} Ready on {revision}{mark}")
    });
    revisions.collect::<Vec<_>>().join(", ")
}

/// The largest unit that is at least one, as kubectl shows ages.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
