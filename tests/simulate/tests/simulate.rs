//! Sixty seeds, those that ever failed, and the planted faults that have to be seen.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../monitor/rolled.rs"]
mod rolled;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sts_plus_simulate::faults::{FAULTS, Plan};
use sts_plus_simulate::planted::Planted;
use sts_plus_simulate::run::{Part, Report, Script, replay};

/// How many seeds there are in a run of the tests; `make simulate` runs as many as one likes.
const SEEDS: u64 = 60;
/// Up to which seed a planted fault is searched for, when the one that saw it last no longer does.
const SEARCHED: u64 = 300;
/// How many of them are one trial.
const TOGETHER: u64 = 10;
/// Seeds that once failed, with the faults that they had then, and what it was; they are run whatever the number of seeds. A
/// fault that was invented later is not drawn into them: they stay the runs that failed.
const ONCE_BAD: [(u64, &str, &str); 25] = [
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
    (
        159,
        "crash, lost-answer, stale-reads, sick-pods, lost-node, edits",
        "a template returns before anybody has observed the one in between",
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
    (
        9_001_120,
        "crash, lost-answer, conflict, dead-watch, skewed-clock, meddling, nonsense, prometheus-down",
        "nobody has recorded what it broke",
    ),
    (
        20_000_153,
        "lost-answer, error, conflict, stale-reads, lagging-watch, lost-node, meddling, prometheus-down, blind, stepped-clock",
        "a pod that has lost its owner just before its set is removed for good",
    ),
    (
        20_000_298,
        "lost-answer, error, lagging-watch, broken-watch, throttled, partition, sick-pods, lost-node, edits, prometheus-down, stopped-controller",
        "a set that could not be read is read again",
    ),
    (
        20_000_373,
        "error, conflict, stale-reads, lagging-watch, partition, skewed-clock, sick-pods, evictions, edits, prometheus-down",
        "an object adopts sets of several contents that a former one has left behind",
    ),
    (
        20_000_606,
        "error, conflict, dead-watch, late-write, skewed-clock, quota",
        "an operator that raises the partition on an old status comes back to the same gate",
    ),
    (
        22_000_005,
        "crash, lost-answer, conflict, lost-node, prometheus-lies, hook-refuses, hook-dies, hook-lies",
        "a deadline that is over begins the time in which the call is taken back",
    ),
];
/// The planted faults that must be seen, the seed by which each was last, which is looked at first, and how the failure
/// begins that is to be seen.
const SEEN_BY: [(&str, u64, &str); 49] = [
    ("no-preconditions", 1, "I5:"),
    ("one-too-many", 5, "I2:"),
    ("terminating-serves", 5, "I2:"),
    ("gate-skipped", 1, "I6:"),
    ("error-passes", 4, "I6:"),
    ("pass-counts-twice", 4, "I6:"),
    ("streak-survives-failure", 177, "I6:"),
    ("all-time-counts", 73, "deadline:"),
    ("rollback-forgotten", 21, "goal:"),
    ("partition-ignored", 1, "I6:"),
    ("updated-roll-again", 1, "I13:"),
    ("revision-not-promoted", 1, "goal:"),
    ("surplus-stays", 12, "goal:"),
    ("orphans-left", 25, "goal:"),
    ("claims-always-go", 76, "I4:"),
    ("finished-init-broken", 23, "broken:"),
    ("other-zones-ignored", 1, "I3:"),
    ("lowered-partition-ignored", 203, "I3:"),
    ("freeze-not-held", 6, "goal:"),
    ("stale-view-trusted", 128, "I14:"),
    ("timers-forgotten", 1, "goal:"),
    ("failures-forgotten", 39, "observed:"),
    ("gone-without-list", 30, "observed:"),
    ("dead-watch-trusted", 21, "observed:"),
    ("inconsistent-view", 2, "rule C:"),
    ("stale-first-lists", 2, "rule C:"),
    ("unstored-revision-named", 4, "stored:"),
    ("adopted-brought-back", 28, "I6:"),
    ("set-stays-held", 1, "goal:"),
    ("stuck-pods-count", 7, "goal:"),
    ("old-label-stays", 1, "active:"),
    ("version-removed-early", 1, "I7:"),
    ("promoted-everywhere", 7, "I7:"),
    ("number-every-pass", 1, "version:"),
    ("index-by-place", 99, "zone:"),
    ("owned-by-label", 1, "owned:"),
    ("restrictions-ignored", 14, "scaling:"),
    ("config-version-hashed", 2, "config:"),
    ("hook-skipped", 16, "drain:"),
    ("record-after-call", 16, "recorded:"),
    ("uid-ignored", 16, "recorded:"),
    ("lowered-early", 16, "drain:"),
    ("cancel-forgotten", 35, "cancel:"),
    ("foreign-lowering-ignored", 16, "foreign:"),
    ("leaving-uncounted", 2, "leaving:"),
    ("zones-leave-together", 19, "I3:"),
    ("blocked-forced", 58, "drain:"),
    ("key-after-hook", 85, "lock:"),
    ("drained-runs-on", 2, "lock:"),
];

/// How failures begin that are about ExtendedStatefulSets.
const EXTENDED: [&str; 7] = ["active:", "I7:", "version:", "zone:", "owned:", "scaling:", "config:"];
/// Seeds that failed from here on failed with ExtendedStatefulSets, where they draw some.
const FIRST_EXTENDED: u64 = 20_000_000;
/// Seeds that failed from here on failed with init containers, where they draw some.
const FIRST_INIT: u64 = 20_000_000;
/// Seeds that failed from here on failed with ScalingPolicies, where they draw some.
const FIRST_SCALING: u64 = 21_000_000;
/// Seeds that failed from here on failed with locks, where they draw some.
const FIRST_LOCKS: u64 = 22_000_000;
/// The planted faults that need locks.
const LOCKS: [&str; 2] = ["key-after-hook", "drained-runs-on"];
/// How failures begin that only init containers bring about.
const INIT: &str = "broken:";

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("a_seed_gives_the_same_trace_each_time", same_trace),
        Trial::test("all_faults_strike_within_the_seeds", all_faults),
        plain("a_template_that_returns_unobserved_begins_no_new_step", rolled::returns),
        plain("a_template_that_is_observed_late_is_rolled_from_when_it_came", rolled::observed_late),
    ];
    for first in (1..=SEEDS).step_by(usize::try_from(TOGETHER).unwrap()) {
        let last = first + TOGETHER - 1;
        trials.push(Trial::test(format!("seeds_{first}_to_{last}"), move || good(first..=last)));
    }
    for (seed, faults, what) in ONCE_BAD {
        trials.push(Trial::test(format!("seed_{seed}_once_bad: {what}"), move || stays_good(seed, faults)));
    }
    for (name, hint, breaks) in SEEN_BY {
        let bug = Planted::named(name).unwrap();
        trials.push(Trial::test(format!("seen: {name}"), move || seen(bug, hint, breaks)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that panics where it fails.
fn plain(name: &str, test: fn()) -> Trial {
    let run = move || {
        test();
        Ok(())
    };
    Trial::test(name, run)
}

fn good(seeds: impl Iterator<Item = u64>) -> Result<(), Failed> {
    let bad: Vec<_> =
        seeds.map(|seed| Script::of(seed).run()).filter(|report| !report.failures.is_empty()).collect();
    if bad.is_empty() { Ok(()) } else { Err(words(&bad).into()) }
}

/// A seed is good with these faults.
fn stays_good(seed: u64, faults: &str) -> Result<(), Failed> {
    let script = Script { plan: Plan::named(seed, faults)?, ..Script::of(seed) };
    // Most of them are from before there were all parts of the workloads in the runs.
    let parts = [
        (FIRST_EXTENDED, Part::Extended),
        (FIRST_INIT, Part::Init),
        (FIRST_SCALING, Part::Scaling),
        (FIRST_LOCKS, Part::Locks),
    ];
    let left_out = parts.iter().filter(|(first, _)| seed < *first);
    let report = left_out.fold(script, |script, (_, part)| script.without(*part)).run();
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
fn seen(bug: &'static Planted, hint: u64, breaks: &str) -> Result<(), Failed> {
    let name = bug.name;
    // What has nothing to do with a part of the workloads is looked for in the runs that it was found in.
    let parts = [
        (Part::Extended, EXTENDED.iter().any(|kind| breaks.starts_with(kind))),
        (Part::Init, breaks == INIT),
        (Part::Scaling, bug.scaling.is_some()),
        (Part::Locks, LOCKS.contains(&name)),
    ];
    let mut otherwise = BTreeSet::new();
    for seed in std::iter::once(hint).chain(1..=SEARCHED) {
        let script = Script { bug: Some(bug), ..Script::of(seed) };
        let left_out = parts.iter().filter(|(_, is_needed)| !is_needed);
        let report = left_out.fold(script, |script, (part, _)| script.without(*part)).run();
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
