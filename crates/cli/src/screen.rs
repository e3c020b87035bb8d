//! How groups look to people and to machines.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;
use sts_plus_api::rollout_status::RolloutStatus;
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::executor::Domain;
use sts_plus_planner::reason::Reason;
use sts_plus_planner::rollout_group::Decision;
use sts_plus_planner::rollout_group::report::Report;

use crate::rollout::Rollout;

/// One part of the page.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Section {
    /// A rollout group.
    Group(Group),
    /// A PhasedRollout.
    Rollout(Box<Rollout>),
}

/// A group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    namespace: String,
    #[serde(rename = "group")]
    name: String,
    sets: Vec<Set>,
}

/// A set of a group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    name: String,
    replicas: u32,
    /// The revision its pods shall have.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_revision: Option<String>,
    /// The kind of reason, as in the annotation, the event and the metric.
    state: &'static str,
    /// The reason in words.
    message: String,
    /// What would end the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    since: Timestamp,
    /// Its pods by revision, the target first.
    pods: Vec<Tally>,
    /// What is down, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    not_ready: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Tally {
    revision: String,
    pods: u32,
    ready: u32,
}

impl Group {
    pub(crate) fn new(domain: &Domain, decision: &Decision) -> Self {
        Self {
            namespace: domain.namespace.to_string(),
            name: domain.group.to_string(),
            sets: decision.reports.iter().map(Set::new).collect(),
        }
    }
}

impl Set {
    fn new(report: &Report) -> Self {
        let pods = report.pods.iter().map(|tally| Tally {
            revision: tally.revision.as_deref().unwrap_or("none").to_owned(),
            pods: tally.pods,
            ready: tally.ready,
        });
        let reason = &report.reason;
        let (state, message, release, since) = match refused(report) {
            Some(told) => (Reason::WRITE_REFUSED, told.message, told.release, told.since),
            None => (reason.kind(), reason.to_string(), reason.release(), report.since),
        };
        Self {
            name: report.set.name.to_string(),
            replicas: report.set.replicas,
            target_revision: report.target.as_deref().map(str::to_owned),
            state,
            message,
            release,
            since,
            pods: pods.collect(),
            not_ready: report.down.clone(),
            warnings: report.warnings.iter().map(ToString::to_string).collect(),
        }
    }

    /// `3/5 Ready on web-a1b2c3 (target), 2/2 Ready on web-d4e5f6`
    fn pods_in_words(&self) -> String {
        let revisions = self.pods.iter().map(|pods| {
            let target = self.target_revision.as_deref() == Some(&pods.revision);
            let mark = if target { " (target)" } else { "" };
            format!("{}/{} Ready on {}{mark}", pods.ready, pods.pods, pods.revision)
        });
        let words = revisions.collect::<Vec<_>>().join(", ");
        if words.is_empty() { "no pods".to_owned() } else { words }
    }
}

/// What only the operator knows: that the write which a set waits for is refused. It has written so on the set.
fn refused(report: &Report) -> Option<RolloutStatus> {
    let told = report.set.steering.rollout_status.as_deref().and_then(RolloutStatus::parse)?;
    let is_rolling = matches!(report.reason, Reason::Rolling { .. });
    (is_rolling && told.state == Reason::WRITE_REFUSED && told.group == report.status.group).then_some(told)
}

/// Everything as text that fits a terminal and a bug report alike.
pub(crate) fn render(sections: &[Section], scope: &Scope, now: Timestamp) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    page_of(sections, scope, now, &mut page).ok();
    page
}

fn page_of(sections: &[Section], scope: &Scope, now: Timestamp, page: &mut String) -> std::fmt::Result {
    if sections.is_empty() {
        let place = match scope {
            Scope::Cluster => "this cluster".to_owned(),
            Scope::Namespaces(names) => format!("namespace {}", names.join(", ")),
        };
        return writeln!(
            page,
            "Nothing to show in {place}: there is no PhasedRollout, and no StatefulSet has the label rollout-group."
        );
    }
    for (position, section) in sections.iter().enumerate() {
        if position > 0 {
            writeln!(page)?;
        }
        match section {
            Section::Group(group) => group.page(now, page)?,
            Section::Rollout(rollout) => rollout.page(now, page)?,
        }
    }
    Ok(())
}

impl Group {
    fn page(&self, now: Timestamp, page: &mut String) -> std::fmt::Result {
        writeln!(page, "GROUP {} in namespace {}", self.name, self.namespace)?;
        let width = self.sets.iter().map(|set| set.name.chars().count()).max().unwrap_or(0);
        for set in &self.sets {
            let age = age(set.since, now);
            writeln!(page, "  {:width$}  {} for {age}  {}", set.name, set.state, set.pods_in_words())?;
            writeln!(page, "  {:width$}    {}", "", set.message)?;
            if let Some(release) = &set.release {
                writeln!(page, "  {:width$}    until {release}", "")?;
            }
            if !set.not_ready.is_empty() && !set.message.contains(&set.not_ready) {
                writeln!(page, "  {:width$}    now: {}", "", set.not_ready)?;
            }
            for warning in &set.warnings {
                writeln!(page, "  {:width$}    warning: {warning}", "")?;
            }
        }
        Ok(())
    }
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
#[path = "screen_tests.rs"]
mod tests;
