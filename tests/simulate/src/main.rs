//! Runs seeds: many of them, or one with its trace.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use sts_plus_simulate::faults::{FAULTS, Plan};
use sts_plus_simulate::planted::Planted;
use sts_plus_simulate::run::{Part, Report, Script, replay};

/// More threads than this would only wait for each other.
const MOST_AT_ONCE: u64 = 256;

/// Simulates.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Prints what happens.
    #[arg(long)]
    trace: bool,
    /// Plants a fault.
    #[arg(long)]
    bug: Option<String>,
    /// Runs only the seeds that have this fault.
    #[arg(long)]
    with: Option<String>,
    /// Gives the seeds these faults instead of those that they draw: names, with commas between them.
    #[arg(long)]
    faults: Option<String>,
    /// Whether to run only the seeds that draw ExtendedStatefulSets, or all of them without.
    #[arg(long, value_enum)]
    extended: Option<Share>,
    /// The same for ScalingPolicies.
    #[arg(long, value_enum)]
    scaling: Option<Share>,
    /// The same for init containers.
    #[arg(long, value_enum)]
    init: Option<Share>,
    /// The same for locks.
    #[arg(long, value_enum)]
    locks: Option<Share>,
    /// Ends with the first bad seed.
    #[arg(long)]
    until_bad: bool,
    /// Seeds at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=MOST_AT_ONCE))]
    at_once: u64,
}

/// What becomes of a part of the workloads that only some seeds draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Share {
    /// Seeds without it are left out.
    Only,
    /// No seed has it.
    None,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bug = arguments
        .bug
        .as_ref()
        .map(|wanted| Planted::named(wanted).ok_or_else(|| format!("there is no bug {wanted}")));
    let with = arguments.with.as_ref().map(|wanted| {
        let known = FAULTS.iter().find(|(_, name, ..)| name == wanted);
        known.map(|(fault, ..)| *fault).ok_or_else(|| format!("there is no fault {wanted}"))
    });
    let faults = arguments.faults.as_deref();
    let known = faults.map_or(Ok(()), |names| Plan::named(0, names).map(|_| ()));
    let read = known.and_then(|()| Ok((bug.transpose()?, with.transpose()?)));
    let (bug, with) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (next, done) = (AtomicU64::new(arguments.first), AtomicU64::new(0));
    let end = arguments.first.saturating_add(arguments.seeds);
    let failed: Mutex<BTreeMap<u64, Report>> = Mutex::default();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.at_once {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let started = Instant::now();
                    let mut script = Script::of(seed);
                    if let Some(Ok(plan)) = faults.map(|names| Plan::named(seed, names)) {
                        script.plan = plan;
                    }
                    let parts = [
                        (arguments.extended, Part::Extended),
                        (arguments.scaling, Part::Scaling),
                        (arguments.init, Part::Init),
                        (arguments.locks, Part::Locks),
                    ];
                    if parts.iter().any(|(share, part)| *share == Some(Share::Only) && !script.has(*part)) {
                        continue;
                    }
                    let left_out = parts.iter().filter(|(share, _)| *share == Some(Share::None));
                    script = left_out.fold(script, |script, (_, part)| script.without(*part));
                    if with.is_some_and(|fault| !script.plan.has(fault)) {
                        continue;
                    }
                    let report = Script { keep: arguments.trace, bug, ..script }.run();
                    done.fetch_add(1, Ordering::Relaxed);
                    for line in &report.lines {
                        println!("{line}");
                    }
                    let Report { hash, deletions, took, faults, failures, .. } = &report;
                    println!(
                        "seed {seed}: {} after {} s ({} ms), {deletions} deletions, trace {hash:016x}, with {faults}",
                        if failures.is_empty() { "good" } else { "BAD" },
                        took.as_secs(),
                        started.elapsed().as_millis()
                    );
                    for failure in failures {
                        println!("seed {seed}:   {failure}");
                    }
                    if !failures.is_empty() && arguments.until_bad {
                        next.store(end, Ordering::Relaxed);
                    }
                    if !failures.is_empty() {
                        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(seed, report);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    println!("{} seeds, {} bad, {} s", done.into_inner(), failed.len(), began.elapsed().as_secs());
    for seed in failed.keys() {
        println!("{}", replay(*seed, faults, arguments.bug.as_deref()));
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
