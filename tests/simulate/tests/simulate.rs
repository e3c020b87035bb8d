//! Sixty seeds, those that ever failed, and the planted faults that have to be seen.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sts_plus_planner::planted::{BUGS, Bug};
use sts_plus_simulate::faults::{FAULTS, Plan};
use sts_plus_simulate::run::{Report, Script, replay};

/// How many seeds there are in a run of the tests; `make simulate` runs as many as one likes.
const SEEDS: u64 = 60;
/// Up to which seed a planted fault is searched for, when the one that saw it last no longer does.
const SEARCHED: u64 = 300;
/// How many of them are one trial.
const TOGETHER: u64 = 10;
/// Seeds that once failed, with the faults that they had then, and what it was; they are run whatever the number of seeds. A
/// fault that was invented later is not drawn into them: they stay the runs that failed.
const ONCE_BAD: [(u64, &str, &str); 18] = [
    (
        41,
        "crash, error, conflict, stale-reads, partition, skewed-clock, sick-pods, prometheus-lies",
        "a clock that lags lets pods seem unready for as long",
    ),
    (
        77,
        "lost-answer, error, conflict, stale-reads, sick-pods, nonsense, prometheus-slow, prometheus-lies, stepped-clock",
        "a gate's time counts once, also where the answer to the write that says so is lost",
    ),
    (
        108,
        "lost-answer, conflict, gone, throttled, partition, evictions, lost-node, edits, meddling, nonsense, prometheus-slow",
        "a pod is made of a template that has just been replaced",
    ),
    (416, "throttled, late-write, nonsense, prometheus-down", "a query that means nothing is no pass"),
    (
        468,
        "lost-answer, error, throttled, skewed-clock, edits",
        "a rollout is made anew while the old one waits for its finalizer",
    ),
    (667, "dead-watch, edits", "the same, and nobody hears of it for long"),
    (
        768,
        "dead-watch, throttled, partition, skewed-clock, meddling",
        "a foreign partition is taken back after its gates have passed",
    ),
    (
        701_048,
        "lost-answer, error, conflict, broken-watch, throttled, sick-pods, evictions, lost-node, edits, prometheus-slow",
        "a claim that a former set has given to its pod goes with that pod",
    ),
    (
        2_000_326,
        "gone, lagging-watch, throttled, skewed-clock, evictions, meddling",
        "a deletion arrives after its operator has begun another term",
    ),
    (
        2_000_368,
        "stale-reads, dead-watch, meddling, nonsense, blind, stepped-clock",
        "a watch whose request hangs is silent, and relied on for a while",
    ),
    (
        2_000_603,
        "error, conflict, gone, stale-reads, lagging-watch, evictions, lost-node, meddling, blind, stepped-clock",
        "the same, for a group",
    ),
    (
        2_001_501,
        "stale-reads, broken-watch, throttled, edits, meddling, nonsense",
        "a deletion arrives late in another term, with stale reads",
    ),
    (
        3_000_109,
        "error, dead-watch, meddling, prometheus-slow, prometheus-lies",
        "a foreign partition that is taken back does not begin the gate anew",
    ),
    (
        3_000_139,
        "crash, lost-answer, gone, skewed-clock, evictions, lost-node, meddling, nonsense, prometheus-lies, blind",
        "nonsense in the query of one rollout says nothing about another one",
    ),
    (
        4_000_004,
        "error, stale-reads, broken-watch, partition, skewed-clock, quota, nonsense, prometheus-down, prometheus-lies",
        "the same, before the first step",
    ),
    (
        5_000_908,
        "conflict, stale-reads, dead-watch, broken-watch, quota, sick-pods",
        "a template that nobody observes for minutes",
    ),
    (
        5_001_394,
        "dead-watch, sick-pods, prometheus-slow, prometheus-lies",
        "a rollback waits for minutes before it deletes",
    ),
    (
        9_000_301,
        "error, partition, late-write, skewed-clock, prometheus-lies",
        "a step that was decided on arrives after a check has failed",
    ),
];
/// The planted faults that must be seen, the seed by which each was last, which is looked at first, and how the failure
/// begins that is to be seen.
const SEEN_BY: [(Bug, u64, &str); 27] = [
    (Bug::NoPreconditions, 1, "I5:"),
    (Bug::OneTooMany, 5, "I2:"),
    (Bug::TerminatingServes, 5, "I2:"),
    (Bug::GateSkipped, 1, "I6:"),
    (Bug::ErrorPasses, 4, "I6:"),
    (Bug::PassCountsTwice, 4, "I6:"),
    (Bug::RowSurvivesFailure, 186, "I6:"),
    (Bug::RollbackForgotten, 21, "goal:"),
    (Bug::PartitionIgnored, 1, "I6:"),
    (Bug::UpdatedRollAgain, 1, "I13:"),
    (Bug::RevisionNotPromoted, 1, "goal:"),
    (Bug::SurplusStays, 12, "goal:"),
    (Bug::OrphansLeft, 25, "goal:"),
    (Bug::ClaimsAlwaysGo, 76, "I4:"),
    (Bug::OtherZonesIgnored, 1, "I3:"),
    (Bug::LoweredPartitionIgnored, 203, "I3:"),
    (Bug::FreezeNotHeld, 6, "goal:"),
    (Bug::StaleViewTrusted, 164, "I14:"),
    (Bug::TimersForgotten, 1, "goal:"),
    (Bug::FailuresForgotten, 26, "observed:"),
    (Bug::GoneWithoutList, 48, "goal:"),
    (Bug::DeadWatchTrusted, 21, "observed:"),
    (Bug::InconsistentView, 1, "rule C:"),
    (Bug::UnstoredRevisionNamed, 4, "stored:"),
    (Bug::AdoptedBroughtBack, 4, "I6:"),
    (Bug::SetStaysHeld, 1, "goal:"),
    (Bug::StuckPodsCount, 7, "goal:"),
];

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("a_seed_gives_the_same_trace_each_time", same_trace),
        Trial::test("all_faults_strike_within_the_seeds", all_faults),
    ];
    for first in (1..=SEEDS).step_by(usize::try_from(TOGETHER).unwrap()) {
        let last = first + TOGETHER - 1;
        trials.push(Trial::test(format!("seeds_{first}_to_{last}"), move || good(first..=last)));
    }
    for (seed, faults, what) in ONCE_BAD {
        trials.push(Trial::test(format!("seed_{seed}_once_bad: {what}"), move || stays_good(seed, faults)));
    }
    for (bug, hint, breaks) in SEEN_BY {
        let name = BUGS.iter().find(|row| row.0 == bug).map(|row| row.1).unwrap();
        trials.push(Trial::test(format!("seen: {name}"), move || seen(bug, name, hint, breaks)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn good(seeds: impl Iterator<Item = u64>) -> Result<(), Failed> {
    let bad: Vec<_> =
        seeds.map(|seed| Script::of(seed).run()).filter(|report| !report.failures.is_empty()).collect();
    if bad.is_empty() { Ok(()) } else { Err(words(&bad).into()) }
}

/// A seed is good with these faults.
fn stays_good(seed: u64, faults: &str) -> Result<(), Failed> {
    let report = Script { plan: Plan::named(seed, faults)?, ..Script::of(seed) }.run();
    if report.failures.is_empty() { Ok(()) } else { Err(words(&[report]).into()) }
}

fn words(bad: &[Report]) -> String {
    let mut words = String::new();
    for Report { seed, faults, failures, .. } in bad {
        // Writing to a string cannot fail.
        let _ = writeln!(words, "seed {seed}, with {faults}:\n  {}", failures.join("\n  "));
        let _ = writeln!(words, "replay: {}", replay(*seed, Some(faults), None));
    }
    words
}

fn same_trace() -> Result<(), Failed> {
    for seed in [7, 8, 9] {
        let (once, again) = (Script::of(seed).run(), Script::of(seed).run());
        if once.hash != again.hash {
            return Err(format!("seed {seed} gave {:x} and then {:x}", once.hash, again.hash).into());
        }
    }
    Ok(())
}

fn all_faults() -> Result<(), Failed> {
    let mut missing: BTreeSet<_> = FAULTS.iter().map(|row| row.0).collect();
    for seed in 1..=SEEDS {
        let plan = Script::of(seed).plan;
        missing.retain(|fault| !plan.has(*fault));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("never: {missing:?}").into()) }
}

/// A planted fault makes one of the seeds fail, in the way that it has to.
fn seen(bug: Bug, name: &str, hint: u64, breaks: &str) -> Result<(), Failed> {
    let mut otherwise = BTreeSet::new();
    for seed in std::iter::once(hint).chain(1..=SEARCHED) {
        let report = Script { bug: Some(bug), ..Script::of(seed) }.run();
        if let Some(failure) = report.failures.iter().find(|failure| failure.starts_with(breaks)) {
            if hint != seed {
                println!("{name} is now seen by seed {seed}: {failure}");
            }
            // The first seeds are run without it in any case.
            return if seed > SEEDS { good(seed..=seed) } else { Ok(()) };
        }
        otherwise.extend(report.failures.first().map(|failure| format!("seed {seed}: {failure}")));
    }
    let otherwise = otherwise.into_iter().collect::<Vec<_>>().join("\n  ");
    Err(format!("{name} was planted and no seed of {SEARCHED} has failed by {breaks}\n  {otherwise}").into())
}
