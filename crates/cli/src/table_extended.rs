//! The part of the table that is about ExtendedStatefulSets.

use std::fmt::Write;

use jiff::Timestamp;
use sts_plus_api::conditions::{Condition, Truth};
use sts_plus_api::extended::Group;
use sts_plus_operator::view::{ChildSet, Extended, PodState};

use crate::table::age;

/// The reason of an object at its goal.
pub(crate) const AS_REQUESTED: &str = "AsRequested";

/// Writes an object: what it waits for, its sets by zone and version, its active pod, findings.
pub(crate) fn render(page: &mut String, extended: &Extended, now: Timestamp) -> std::fmt::Result {
    let Extended { namespace, status, .. } = extended;
    writeln!(page, "EXTENDED STATEFULSET {} in namespace {namespace}", name(extended))?;
    let Some(ready) = extended.ready() else {
        return writeln!(
            page,
            "  No operator has reported a status: is sts-plus running with the controller extended-statefulset?"
        );
    };
    writeln!(
        page,
        "  {} for {}  {}",
        state(ready),
        age(ready.last_transition_time, now),
        versions(extended)
    )?;
    writeln!(page, "    {}", ready.message)?;
    if !extended.observed {
        writeln!(page, "    The operator has not yet observed the present spec.")?;
    }
    let rows: Vec<_> = extended.sets.iter().map(|child| columns(extended, child)).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)?.chars().count().into()).max().unwrap_or(0)
    };
    for (child, [zone, set, version, pods]) in extended.sets.iter().zip(&rows) {
        let (zones, sets, versions) = (width(0), width(1), width(2));
        let gap = if zones > 0 { "  " } else { "" };
        writeln!(page, "    {zone:zones$}{gap}{set:sets$}  {version:versions$}  {pods}")?;
        for line in details(child) {
            writeln!(page, "    {:zones$}{gap}  {line}", "")?;
        }
    }
    for record in &status.leaving {
        let since = age(record.start_time, now);
        writeln!(page, "    leaves: {} {} for {since}", record.pod_name, record.phase.word())?;
    }
    if let Some(active) = &status.active_pod {
        writeln!(page, "    active pod: {} for {}", active.name, age(active.since, now))?;
    }
    for finding in extended.findings() {
        writeln!(page, "    {}: {}", word(finding), finding.message)?;
    }
    Ok(())
}

/// The name, with the group where it is not ours.
pub(crate) fn name(extended: &Extended) -> String {
    if extended.api_group == Group::StsPlus.name() {
        extended.name.clone()
    } else {
        format!("{} of {}", extended.name, extended.api_group)
    }
}

/// `Ready`, or `VersionStarting, not Ready`.
pub(crate) fn state(ready: &Condition) -> String {
    match (ready.status, &*ready.reason) {
        (Truth::True, AS_REQUESTED) => "Ready".to_owned(),
        (Truth::True, reason) => format!("{reason}, Ready"),
        (_, reason) => format!("{reason}, not Ready"),
    }
}

/// `version 1, update to version 2`
pub(crate) fn versions(extended: &Extended) -> String {
    match (extended.status.current_version, extended.status.update_version) {
        (Some(current), Some(update)) if current != update => {
            format!("version {current}, update to version {update}")
        }
        (Some(version), _) => format!("version {version}"),
        (None, Some(update)) => format!("first version {update}"),
        (None, None) => "no version".to_owned(),
    }
}

/// Zone, name, version, pods.
fn columns(extended: &Extended, child: &ChildSet) -> [String; 4] {
    let zone = child.zone.clone().unwrap_or_default();
    [zone, child.set.name.clone(), version(extended, child), pods(child)]
}

/// `version 2 (update)`
fn version(extended: &Extended, child: &ChildSet) -> String {
    let Some(version) = child.version else { return "no version".to_owned() };
    let status = &extended.status;
    let role = match (status.current_version, status.update_version) {
        (current, update) if current == update => "",
        (_, Some(update)) if update == version => " (update)",
        (Some(current), _) if current == version => " (current)",
        _ => "",
    };
    format!("version {version}{role}")
}

/// `running, 1/1 Ready, 2/2 Ready on outdated revisions`
fn pods(child: &ChildSet) -> String {
    let pods = &child.set.pod_states;
    let count = |outdated: bool| {
        let pods = || pods.iter().filter(move |pod| pod.outdated == outdated);
        (pods().filter(|pod| pod.state == PodState::Ready).count(), pods().count())
    };
    let (ready, all) = count(false);
    let word = if child.running { "running" } else { "not running" };
    let (outdated_ready, outdated) = count(true);
    if outdated > 0 {
        format!("{word}, {ready}/{all} Ready, {outdated_ready}/{outdated} Ready on outdated revisions")
    } else {
        format!("{word}, {ready}/{} Ready", child.set.replicas)
    }
}

/// What there is to know about a set beyond its own line.
fn details(child: &ChildSet) -> Vec<String> {
    let set = &child.set;
    let mut lines = Vec::new();
    if let Some(rollout) = &child.phased_rollout {
        lines.push(format!("gated by phasedrollout/{rollout}"));
    }
    let state = set.state.as_ref().filter(|state| state.state != "UpToDate");
    lines.extend(state.map(|state| format!("{}: {}", state.state, state.message)));
    let is_said = state.is_some_and(|state| state.message.contains(&set.not_ready));
    if !set.not_ready.is_empty() && !is_said {
        lines.push(format!("now: {}", set.not_ready));
    }
    lines.extend(set.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

/// How a finding is called.
fn word(finding: &Condition) -> &'static str {
    match &*finding.kind {
        "ReplicasRestricted" => "restricted replicas",
        "NoActivePod" => "active pod",
        _ => "warning",
    }
}

#[cfg(test)]
#[path = "table_extended_tests.rs"]
mod tests;
