//! The part of the table that is about ScalingPolicies.

use std::fmt::Write;

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::remedy::RemedyKind;
use sts_plus_api::scaling_policy::PodRecord;
use sts_plus_operator::view::Scaling;

use crate::table::age;
use crate::table_extended::state;

/// Writes a policy: what it waits for, how many pods there are, those that leave and join, what was removed past it.
pub(crate) fn render(page: &mut String, scaling: &Scaling, now: Timestamp) -> std::fmt::Result {
    let Scaling { namespace, name, target, status, .. } = scaling;
    writeln!(page, "SCALING POLICY {name} of {target} in namespace {namespace}")?;
    let Some(ready) = scaling.ready() else {
        return writeln!(
            page,
            "  No operator has reported a status: is sts-plus running with the controller scaling?"
        );
    };
    writeln!(page, "  {} for {}  {}", state(ready), age(ready.last_transition_time, now), pods(scaling))?;
    writeln!(page, "    {}", ready.message)?;
    if !scaling.observed {
        writeln!(page, "    The operator has not yet observed the present spec.")?;
    }
    let records = || {
        let leaving = status.leaving.iter().map(|record| ("leaves", record));
        leaving.chain(status.joining.iter().map(|record| ("joins", record)))
    };
    let width = records().map(|(_, record)| record.pod_name.chars().count()).max().unwrap_or(0);
    for (what, record) in records() {
        let PodRecord { pod_name, phase, start_time, .. } = record;
        let progress = progress(record);
        writeln!(
            page,
            "    {pod_name:width$}  {what}: {} for {}{progress}",
            phase.word(),
            age(*start_time, now)
        )?;
        if !record.message.is_empty() {
            writeln!(page, "    {:width$}    {}", "", record.message)?;
        }
        if !record.last_error.is_empty() {
            writeln!(page, "    {:width$}    last error: {}", "", record.last_error)?;
        }
    }
    if let Some(lock) = &status.lock {
        let state = match (lock.removing, lock.template_generation) {
            (true, _) => "is being removed",
            (false, None) => "is being added",
            (false, Some(_)) => "holds drained pods",
        };
        writeln!(page, "    lock {}: {state}", lock.config_map)?;
    }
    if let Some(remedy) = status.remedy.as_ref().filter(|remedy| remedy.kind != RemedyKind::None) {
        writeln!(page, "    {}: {}", remedy.kind.word(), remedy.message)?;
    }
    for removal in &status.removed_without_drain {
        let pod = format!("{target}-{}", removal.ordinal);
        writeln!(
            page,
            "    removed without its hook: {pod} by {} {} ago",
            removal.by,
            age(removal.time, now)
        )?;
    }
    for condition in &status.conditions {
        if condition.kind == conditions::CONFLICT && condition.status == Truth::True {
            writeln!(page, "    warning: {}", condition.message)?;
        }
    }
    Ok(())
}

/// `2 replicas wanted, 3 present, 2 Ready`
pub(crate) fn pods(scaling: &Scaling) -> String {
    let status = &scaling.status;
    let (present, ready) = (status.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
    match status.desired_replicas {
        Some(wanted) => format!("{wanted} replicas wanted, {present} present, {ready} Ready"),
        None => format!("{present} replicas present, {ready} Ready"),
    }
}

/// `, 1 failed attempt`
fn progress(record: &PodRecord) -> String {
    match record.attempts {
        0 => String::new(),
        1 => ", 1 failed attempt".to_owned(),
        attempts => format!(", {attempts} failed attempts"),
    }
}

#[cfg(test)]
#[path = "table_scaling_tests.rs"]
mod tests;
