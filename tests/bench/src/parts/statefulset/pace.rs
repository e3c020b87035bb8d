//! (f) How fast sets are rolled, many at once and one pod after the other, and at what cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Cost, Course, Meter, Results, by_kind, goal, header};
use crate::bed::{Bed, FIELD};
use crate::parts::ROLLOUT_DEADLINE;
use crate::parts::statefulset::contestant::{Contestant, Running};
use crate::stats::{mean, percentile};
use crate::table::Section;
use crate::timeline::{Turn, added};
use crate::workload::{Delays, Group, RolledBy};
use crate::{proc, say};

/// Of each contestant.
pub(crate) const RUNS: usize = 5;
/// Rollouts of the long set in each run: a percentile of one would be its worst pod.
const LONG_ROLLOUTS: usize = 3;

/// After so long without a call the limiter of a client allows as many at once as ever: 30, and 20 more a second.
const REFILL: Duration = Duration::from_secs(3);

/// What one run found.
struct Run {
    number: usize,
    load: String,
    /// From the first change to the last pod Ready.
    fleet: Duration,
    fleet_cost: Cost,
    /// Of each pod but the last of each rollout.
    added: Vec<Duration>,
    long_cost: Cost,
    /// Of the observer's watch: where there are any, its stamps are late.
    renewals: usize,
}

impl Run {
    fn pods_per_second(&self) -> f64 {
        self.fleet_cost.pods / self.fleet.as_secs_f64()
    }
}

/// 50 sets of 5 pods, rolled at once.
fn fleet() -> Group {
    group("fleet", 50, 5)
}

/// One set of 20 pods, rolled one after the other.
fn long() -> Group {
    group("long", 1, 20)
}

fn group(name: &str, zones: usize, replicas: usize) -> Group {
    let (namespace, name) = (FIELD.to_owned(), name.to_owned());
    Group { namespace, name, zones, replicas, delays: Delays::SHORT, rolled_by: RolledBy::ItsController }
}

pub(crate) async fn measure(course: &Course) -> Result<Vec<Section>> {
    let mut runs = Vec::new();
    for (number, contestant) in course.runs(RUNS) {
        say!("(f) run {number}: {}", contestant.title());
        let load = proc::load();
        let mut bed = Bed::filled(&course.assets, &[fleet(), long()]).await?;
        let running = contestant.start(&mut bed, course).await?;
        let (added, long_cost) = one_by_one(&mut bed, &running).await?;
        let (fleet, fleet_cost) = all_at_once(&mut bed, &running).await?;
        let renewals = bed.observer.renewals();
        let run = Run { number, load, fleet, fleet_cost, added, long_cost, renewals };
        say!("(f) {}", figures(&run).join(" | "));
        runs.push((contestant, run));
    }
    Ok(report(&Results(runs)))
}

/// Rolls the long set some times; what was added to each pod, and the cost.
async fn one_by_one(bed: &mut Bed, running: &Running) -> Result<(Vec<Duration>, Cost)> {
    let long = long();
    let meter = Meter::start(bed, running)?;
    let mut times = Vec::new();
    for round in 1..=LONG_ROLLOUTS {
        let mark = bed.observer.mark();
        long.change(&bed.client(), &round.to_string()).await?;
        bed.observer.until(mark, FIELD, Turn::Ready, long.pods(), ROLLOUT_DEADLINE).await?;
        times.extend(added(&bed.observer.since(mark, FIELD)).context("pods were not rolled one at a time")?);
        bed.silent(&running.user, REFILL).await?;
    }
    let cost = meter.stop(bed, running, LONG_ROLLOUTS * long.pods()).await?;
    Ok((times, cost))
}

/// Rolls all sets of the fleet; how long that took, and the cost.
async fn all_at_once(bed: &mut Bed, running: &Running) -> Result<(Duration, Cost)> {
    let fleet = fleet();
    let meter = Meter::start(bed, running)?;
    let mark = bed.observer.mark();
    let began = Instant::now();
    fleet.change(&bed.client(), "1").await?;
    bed.observer.until(mark, FIELD, Turn::Ready, fleet.pods(), ROLLOUT_DEADLINE).await?;
    let took = began.elapsed();
    Ok((took, meter.stop(bed, running, fleet.pods()).await?))
}

fn report(results: &Results<Run>) -> Vec<Section> {
    use Contestant::{Default, Ours, Raised};
    let milliseconds = |ms: f64| format!("{ms:.1} ms");
    let two_digits = |figure: f64| format!("{figure:.2}");
    let latency = |run: &Run, percent| in_milliseconds(percentile(&run.added, percent));
    let mean = |run: &Run| in_milliseconds(mean(&run.added));
    let median = |run: &Run| latency(run, 50);
    let calls = |run: &Run| run.fleet_cost.calls_per_pod();
    let cpu = |run: &Run| run.fleet_cost.cpu_per_pod();

    let throughput = results.ratio(Default, Run::pods_per_second);
    let rows = vec![
        results.row(
            "50 sets of 5 pods at once, first change to last Ready",
            |run| run.fleet.as_secs_f64(),
            |seconds| format!("{seconds:.2} s"),
            "-".to_owned(),
        ),
        results.row(
            "the same, pods per second",
            Run::pods_per_second,
            |pods| format!("{pods:.1}"),
            goal("at least 8 times the default", throughput, |ratio| ratio >= 8.0),
        ),
        results.row(
            "the same, calls per pod",
            calls,
            two_digits,
            goal("at most 4", results.ours(calls), |calls| calls <= 4.0),
        ),
        kinds(results),
        results.row(
            "the same, processor time per pod",
            cpu,
            milliseconds,
            goal("at most 5 ms", results.ours(cpu), |cpu| cpu <= 5.0),
        ),
        results.row(
            "one set of 20 pods: added per pod, mean",
            mean,
            milliseconds,
            goal("at most 0.35 times the default", results.ratio(Default, mean), |ratio| ratio <= 0.35),
        ),
        results.row(
            "the same, median",
            median,
            milliseconds,
            goal("at most 1.1 times the raised", results.ratio(Raised, median), |ratio| ratio <= 1.1),
        ),
        results.row("the same, 99th percentile", |run| latency(run, 99), milliseconds, "-".to_owned()),
        results.row(
            "the same, calls per pod",
            |run| run.long_cost.calls_per_pod(),
            two_digits,
            "-".to_owned(),
        ),
        results.row(
            "the same, processor time per pod",
            |run| run.long_cost.cpu_per_pod(),
            milliseconds,
            "-".to_owned(),
        ),
    ];
    let header_of_runs = [
        "run",
        "contestant",
        "load before",
        "at once",
        "pods/s",
        "calls/pod",
        "CPU/pod",
        "one by one: mean",
        "median",
        "p99",
        "calls/pod",
        "CPU/pod",
        "observer's watch renewed",
    ];
    let raw = [Ours, Default, Raised].into_iter().flat_map(|contestant| {
        results.of(contestant).map(move |run| {
            let mut row = figures(run);
            row.insert(1, contestant.title().to_owned());
            row
        })
    });
    vec![
        Section { name: "statefulset", header: header(), rows },
        Section {
            name: "statefulset-runs",
            header: header_of_runs.map(str::to_owned).to_vec(),
            rows: raw.collect(),
        },
    ]
}

/// The calls of all runs by what they ask for.
fn kinds(results: &Results<Run>) -> Vec<String> {
    let cell = |contestant| {
        let costs: Vec<_> = results.of(contestant).map(|run| &run.fleet_cost).collect();
        let pods = costs.iter().map(|cost| cost.pods).sum();
        by_kind(costs.into_iter().flat_map(|cost| &cost.calls), pods)
    };
    let cells = Contestant::ALL.map(cell).into_iter();
    ["the same, calls per pod by kind".to_owned()].into_iter().chain(cells).chain(["-".to_owned()]).collect()
}

/// Everything that a run found, without whose it is.
fn figures(run: &Run) -> Vec<String> {
    let ms = |time| format!("{:.1} ms", in_milliseconds(time));
    vec![
        run.number.to_string(),
        run.load.clone(),
        format!("{:.2} s", run.fleet.as_secs_f64()),
        format!("{:.1}", run.pods_per_second()),
        format!("{:.2}", run.fleet_cost.calls_per_pod()),
        format!("{:.1} ms", run.fleet_cost.cpu_per_pod()),
        ms(mean(&run.added)),
        ms(percentile(&run.added, 50)),
        ms(percentile(&run.added, 99)),
        format!("{:.2}", run.long_cost.calls_per_pod()),
        format!("{:.1} ms", run.long_cost.cpu_per_pod()),
        run.renewals.to_string(),
    ]
}

fn in_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
