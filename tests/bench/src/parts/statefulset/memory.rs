//! (m) What a controller holds in memory with 1,000 sets and 10,000 pods.

use anyhow::{Context, Result};

use super::{Course, Results, SILENCE, goal, header, number};
use crate::bed::{Bed, FULL_NAMESPACES, FULL_REPLICAS, FULL_SETS, full_namespace};
use crate::parts::ROLLOUT_DEADLINE;
use crate::parts::statefulset::contestant::Contestant;
use crate::proc::{self, Memory};
use crate::say;
use crate::table::Section;
use crate::timeline::Turn;
use crate::workload::{Delays, Group, RolledBy};

/// Of each contestant: memory hardly differs from run to run, and filling a cluster takes minutes.
pub(crate) const RUNS: usize = 2;
/// Sets that are made, and rolled, together.
const GROUP: usize = 50;

/// What one run found.
struct Run {
    number: usize,
    load: String,
    synced: Memory,
    rolled: Memory,
}

fn groups() -> Vec<Group> {
    let groups = (0..FULL_SETS / GROUP).map(|index| Group {
        namespace: full_namespace(index % FULL_NAMESPACES),
        name: format!("store-{index}"),
        zones: GROUP,
        replicas: FULL_REPLICAS,
        delays: Delays::SHORT,
        rolled_by: RolledBy::ItsController,
    });
    groups.collect()
}

pub(crate) async fn measure(course: &Course) -> Result<Vec<Section>> {
    let groups = groups();
    let part = groups.first().context("there are sets")?;
    let mut runs = Vec::new();
    for (number, contestant) in course.runs(RUNS) {
        say!("(m) run {number}: {}", contestant.title());
        let load = proc::load();
        let mut bed = Bed::filled(&course.assets, &groups).await?;
        let running = contestant.start(&mut bed, course).await?;
        let synced = proc::memory(running.pid)?;
        say!(
            "(m) {} after it has seen everything; rolling {} pods",
            show(mebibytes(synced.resident)),
            part.pods()
        );
        let mark = bed.observer.mark();
        part.change(&bed.client(), "1").await?;
        bed.observer.until(mark, &part.namespace, Turn::Ready, part.pods(), ROLLOUT_DEADLINE).await?;
        bed.silent(&running.user, SILENCE).await?;
        let rolled = proc::memory(running.pid)?;
        let run = Run { number, load, synced, rolled };
        say!("(m) {}", figures(&run).join(" | "));
        runs.push((contestant, run));
    }
    Ok(report(&Results(runs)))
}

fn report(results: &Results<Run>) -> Vec<Section> {
    let limited = |measure, figure: fn(&Run) -> f64| {
        let ratio = results.ratio(Contestant::Default, figure);
        let goal = goal("at most 0.17 times the default", ratio, |ratio| ratio <= 0.17);
        results.row(measure, figure, show, goal)
    };
    let rows = vec![
        limited("resident after it has seen everything", |run| mebibytes(run.synced.resident)),
        limited("resident after 500 of the pods were rolled", |run| mebibytes(run.rolled.resident)),
        limited("peak until then", |run| mebibytes(run.rolled.peak)),
    ];
    let raw = Contestant::ALL.into_iter().flat_map(|contestant| {
        results.of(contestant).map(move |run| {
            let mut row = figures(run);
            row.insert(1, contestant.title().to_owned());
            row
        })
    });
    let header_of_runs = ["run", "contestant", "load before", "seen everything", "rolled", "peak"];
    vec![
        Section { name: "statefulset-memory", header: header(), rows },
        Section {
            name: "statefulset-memory-runs",
            header: header_of_runs.map(str::to_owned).to_vec(),
            rows: raw.collect(),
        },
    ]
}

/// Everything that a run found, without whose it is.
fn figures(run: &Run) -> Vec<String> {
    let memory = [run.synced.resident, run.rolled.resident, run.rolled.peak];
    let memory = memory.map(|kibibytes| show(mebibytes(kibibytes)));
    [run.number.to_string(), run.load.clone()].into_iter().chain(memory).collect()
}

fn mebibytes(kibibytes: u64) -> f64 {
    number(usize::try_from(kibibytes).unwrap_or(usize::MAX)) / 1024.0
}

fn show(mebibytes: f64) -> String {
    format!("{mebibytes:.1} MiB")
}
