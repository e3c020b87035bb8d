//! Measures sts-plus on a real control plane and writes what it finds into a page.
//!
//! The operator is its real binary, started as a process with an identity of its own; nodes are hollow, and one
//! observer's watch stamps all events. Each part is a file in `parts`, its arithmetic is in `stats` and
//! `timeline`.
//!
//! ```text
//! bed (control plane, hollow nodes, observer) <-- parts --> operator (process)
//!                                                   |
//!                                          table --> page
//! ```

mod bed;
mod observer;
mod operator;
mod parts;
mod proc;
mod stats;
mod table;
mod timeline;
mod workload;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use jiff::Timestamp;
use sts_plus_harness::Assets;

use bed::{Bed, Size};
use parts::statefulset::contestant::Contestant;
use parts::statefulset::{Course, memory, pace};
use parts::{admission, efficiency, extended, handover, idle, rollout, scaling, size, start, tenant};
use table::{Section, replace};

/// Tells how far the benchmark is.
macro_rules! say {
    ($($words:tt)*) => {
        eprintln!("{} {}", jiff::Timestamp::now().strftime("%H:%M:%S"), format_args!($($words)*))
    };
}
pub(crate) use say;

/// The parts of `make bench`, in the order of the page.
const ALL: &str = "abcdepstwx";
/// The parts of `make bench-statefulset`.
const STATEFULSET: &str = "fm";

/// Measures sts-plus.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary to measure
    #[arg(long)]
    binary: PathBuf,
    /// The page whose tables are rewritten
    #[arg(long)]
    page: PathBuf,
    /// The parts to measure: a start, b rollout, c efficiency, d hand-over, e idle, p ScalingPolicies, s size, t tenant,
    /// w admission, x ExtendedStatefulSets; and the StatefulSet controller's f pace, m memory
    #[arg(default_value = ALL)]
    parts: String,
    /// How often to run each contestant of f and m; the page says so
    #[arg(long)]
    runs: Option<usize>,
    /// The only contestant of f and m to run; the page is then left alone
    #[arg(long)]
    only: Option<Contestant>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { binary, page, parts, runs, only } = arguments;
    ensure!(
        parts.chars().all(|part| ALL.contains(part) || STATEFULSET.contains(part)),
        "the parts are {ALL} and {STATEFULSET}, not {parts}"
    );
    let load = proc::load();
    let mut sections = measure(&binary, &parts).await?;
    let ours = sections.len();
    let course = Course { assets: Assets::find()?, binary, runs, only };
    if parts.contains('f') {
        sections.extend(pace::measure(&course).await?);
    }
    if parts.contains('m') {
        sections.extend(memory::measure(&course).await?);
    }
    let statefulset = runs.map_or_else(
        || "make bench-statefulset".to_owned(),
        |runs| format!("make bench-statefulset RUNS={runs} PARTS={parts}"),
    );
    let circumstances = |command: &str| {
        format!(
            "Measured {} on {} cores, load {load} at the start, by `{command}`.",
            Timestamp::now().strftime("%Y-%m-%d"),
            thread::available_parallelism().map_or(1, NonZero::get),
        )
    };
    let mut text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    for (index, section) in sections.into_iter().enumerate() {
        let command = if index < ours { "make bench" } else { &statefulset };
        let table = section.render(&circumstances(command));
        eprintln!("\n{}\n{table}", section.name);
        text = replace(&text, section.name, &table)?;
    }
    if only.is_some() {
        say!("the page is left alone: this was not the whole measurement");
        return Ok(());
    }
    fs::write(&page, text)?;
    Ok(())
}

async fn measure(binary: &Path, parts: &str) -> Result<Vec<Section>> {
    let assets = Assets::find()?;
    let wanted = |part: char| parts.contains(part);
    let mut sections = Vec::new();
    let mut handovers = Vec::new();
    if wanted('b') || wanted('c') || wanted('d') {
        let mut bed = Bed::start(&assets, Size::Empty).await?;
        if wanted('b') {
            sections.push(rollout::measure(&mut bed, binary).await?);
        }
        if wanted('c') {
            sections.push(efficiency::measure(&mut bed, binary).await?);
        }
        if wanted('d') {
            handovers.extend(handover::measure(&mut bed, Size::Empty, binary).await?);
        }
    }
    if wanted('a') || wanted('d') || wanted('e') {
        let mut bed = Bed::start(&assets, Size::Full).await?;
        if wanted('a') {
            sections.push(start::measure(&mut bed, binary).await?);
        }
        if wanted('d') {
            handovers.extend(handover::measure(&mut bed, Size::Full, binary).await?);
            sections.push(Section::of("d", handovers));
        }
        if wanted('e') {
            sections.push(idle::measure(&mut bed, binary).await?);
        }
    }
    if wanted('p') {
        sections.push(scaling::measure(&assets, binary).await?);
    }
    if wanted('s') {
        sections.push(size::measure(binary)?);
    }
    if wanted('t') {
        let mut bed = Bed::start(&assets, Size::Empty).await?;
        sections.push(tenant::measure(&mut bed, binary).await?);
    }
    if wanted('w') {
        let bed = Bed::start(&assets, Size::Empty).await?;
        sections.push(admission::measure(&assets, &bed, binary).await?);
    }
    if wanted('x') {
        sections.push(extended::measure(&assets, binary).await?);
    }
    sections.sort_by_key(|section| section.name);
    Ok(sections)
}

/// Lets a measured stretch of time pass: the one thing here that is not waited for by a condition.
async fn window(length: Duration) {
    tokio::time::sleep(length).await;
}
