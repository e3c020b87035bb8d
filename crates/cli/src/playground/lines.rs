//! The playground where there is no terminal: one line for each thing that happens, without escape codes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::picture::{Cell, Picture, clock};

/// What has happened from one moment to the next.
pub(super) fn lines(before: &Picture, after: &Picture, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let (were, are) = (cells(before), cells(after));
    for (pod, cell) in &are {
        let changed =
            were.get(pod).is_none_or(|was| (&was.revision, &was.state) != (&cell.revision, &cell.state));
        if changed {
            let (revision, age, word) = (&cell.revision, cell.age(), cell.state.word());
            lines.push(format!("{} pod/{pod} {word} ({age} revision {revision})", clock(now)));
        }
    }
    for pod in were.keys().filter(|pod| !are.contains_key(*pod)) {
        lines.push(format!("{} pod/{pod} gone", clock(now)));
    }
    let titles: Vec<&str> = before.workloads.iter().map(|workload| workload.title.as_str()).collect();
    for workload in after.workloads.iter().filter(|workload| !titles.contains(&workload.title.as_str())) {
        lines.push(format!("{} {}", clock(now), workload.title));
    }
    let news = after.told.saturating_sub(before.told).min(after.reasons.len());
    for said in after.reasons.iter().skip(after.reasons.len() - news) {
        lines.push(format!("{} {}", clock(said.at), said.words));
    }
    lines
}

fn cells(picture: &Picture) -> BTreeMap<&str, &Cell> {
    let columns = picture.workloads.iter().flat_map(|workload| &workload.columns);
    let placed = columns.flat_map(|column| &column.strips).flat_map(|strip| &strip.cells);
    let unplaced = picture.workloads.iter().flat_map(|workload| &workload.unplaced);
    placed.chain(unplaced).map(|cell| (cell.pod.as_str(), cell)).collect()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
