//! The playground without a terminal: one line for each change, without escape codes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::layout::{Cell, Layout, clock};

/// What has changed from one moment to the next.
pub(super) fn lines(before: &Layout, after: &Layout, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let (were, are) = (cells(before), cells(after));
    for (pod, cell) in &are {
        let Cell { revision, word, .. } = cell;
        if were.get(pod).is_none_or(|was| (&was.revision, &was.word) != (revision, word)) {
            let age = cell.age();
            lines.push(format!("{} pod/{pod} {word} ({age} revision {revision})", clock(now)));
        }
    }
    for pod in were.keys().filter(|pod| !are.contains_key(*pod)) {
        lines.push(format!("{} pod/{pod} deleted", clock(now)));
    }
    let titles: Vec<&str> = before.workloads.iter().map(|workload| workload.title.as_str()).collect();
    for workload in after.workloads.iter().filter(|workload| !titles.contains(&workload.title.as_str())) {
        lines.push(format!("{} {}", clock(now), workload.title));
    }
    let new = after.reason_count.saturating_sub(before.reason_count).min(after.reasons.len());
    for reason in after.reasons.iter().skip(after.reasons.len() - new) {
        lines.push(format!("{} {}", clock(reason.at), reason.text));
    }
    lines
}

fn cells(layout: &Layout) -> BTreeMap<&str, &Cell> {
    let columns = layout.workloads.iter().flat_map(|workload| &workload.columns);
    let placed = columns.flat_map(|column| &column.strips).flat_map(|strip| &strip.cells);
    let unplaced = layout.workloads.iter().flat_map(|workload| &workload.unplaced);
    placed.chain(unplaced).map(|cell| (cell.pod.as_str(), cell)).collect()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
