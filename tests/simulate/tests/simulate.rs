//! Sixty seeds, those that ever failed, and the planted faults that have to be seen.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sts_plus_planner::planted::{BUGS, Bug};
use sts_plus_simulate::faults::FAULTS;
use sts_plus_simulate::run::{Report, Script, replay};

/// How many seeds there are in a run of the tests; `make simulate` runs as many as one likes.
const SEEDS: u64 = 60;
/// Up to which seed a planted fault is searched for, when the one that saw it last no longer does.
const SEARCHED: u64 = 300;
/// How many of them are one trial.
const TOGETHER: u64 = 10;
/// Seeds that once failed, and what it was; they are run whatever the number of seeds.
const ONCE_BAD: [(u64, &str); 17] = [
    (41, "a clock that lags lets pods seem unready for as long"),
    (77, "a gate's time counts once, also where the answer to the write that says so is lost"),
    (108, "a pod is made of a template that has just been replaced"),
    (416, "a query that means nothing is no pass"),
    (468, "a rollout is made anew while the old one waits for its finalizer"),
    (667, "the same, and nobody hears of it for long"),
    (768, "a foreign partition is taken back after its gates have passed"),
    (701_048, "a claim that a former set has given to its pod goes with that pod"),
    (2_000_326, "a deletion arrives after its operator has begun another term"),
    (2_000_368, "a watch whose request hangs is silent, and relied on for a while"),
    (2_000_603, "the same, for a group"),
    (2_001_501, "a deletion arrives late in another term, with stale reads"),
    (3_000_109, "a foreign partition that is taken back does not begin the gate anew"),
    (3_000_139, "nonsense in the query of one rollout says nothing about another one"),
    (4_000_004, "the same, before the first step"),
    (5_000_908, "a template that nobody observes for minutes"),
    (5_001_394, "a rollback waits for minutes before it deletes"),
];
/// The planted faults that must be seen, and the seed by which each was last: looked at first.
const SEEN_BY: [(Bug, u64); 23] = [
    (Bug::NoPreconditions, 1),
    (Bug::OneTooMany, 5),
    (Bug::TerminatingServes, 5),
    (Bug::GateSkipped, 1),
    (Bug::ErrorPasses, 4),
    (Bug::PassCountsTwice, 4),
    (Bug::RowSurvivesFailure, 177),
    (Bug::RollbackForgotten, 21),
    (Bug::PartitionIgnored, 1),
    (Bug::UpdatedRollAgain, 1),
    (Bug::RevisionNotPromoted, 1),
    (Bug::SurplusStays, 12),
    (Bug::OrphansLeft, 25),
    (Bug::ClaimsAlwaysGo, 76),
    (Bug::OtherZonesIgnored, 1),
    (Bug::LoweredPartitionIgnored, 35),
    (Bug::FreezeNotHeld, 6),
    (Bug::StaleViewTrusted, 164),
    (Bug::TimersForgotten, 1),
    (Bug::FailuresForgotten, 17),
    (Bug::GoneWithoutList, 34),
    (Bug::DeadWatchTrusted, 21),
    (Bug::InconsistentView, 1),
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
    for (seed, what) in ONCE_BAD {
        trials.push(Trial::test(format!("seed_{seed}_once_bad: {what}"), move || good(seed..=seed)));
    }
    for (bug, hint) in SEEN_BY {
        let name = BUGS.iter().find(|row| row.0 == bug).map(|row| row.1).unwrap();
        trials.push(Trial::test(format!("seen: {name}"), move || seen(bug, name, hint)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn good(seeds: impl Iterator<Item = u64>) -> Result<(), Failed> {
    let bad: Vec<_> =
        seeds.map(|seed| Script::of(seed).run()).filter(|report| !report.failures.is_empty()).collect();
    if bad.is_empty() { Ok(()) } else { Err(words(&bad).into()) }
}

fn words(bad: &[Report]) -> String {
    let mut words = String::new();
    for Report { seed, faults, failures, .. } in bad {
        // Writing to a string cannot fail.
        let _ = writeln!(words, "seed {seed}, with {faults}:\n  {}", failures.join("\n  "));
        let _ = writeln!(words, "replay: {}", replay(*seed, None));
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

/// A planted fault makes one of the seeds fail.
fn seen(bug: Bug, name: &str, hint: u64) -> Result<(), Failed> {
    for seed in std::iter::once(hint).chain(1..=SEARCHED) {
        let report = Script { bug: Some(bug), ..Script::of(seed) }.run();
        if let Some(failure) = report.failures.first() {
            if hint != seed {
                println!("{name} is now seen by seed {seed}: {failure}");
            }
            return Ok(());
        }
    }
    Err(format!("{name} was planted and no seed of {SEARCHED} has seen it").into())
}
