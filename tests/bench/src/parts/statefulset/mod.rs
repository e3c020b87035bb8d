//! The StatefulSet controller beside kube-controller-manager's: pace (f) and memory (m).
//!
//! Every run has a control plane of its own. kube-controller-manager, with its limiter out of the way, makes the sets
//! for all contestants and is stopped; then the contestant is started and rolls them.

pub(crate) mod contestant;
pub(crate) mod memory;
pub(crate) mod pace;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use sts_plus_harness::{Assets, AuditEntry};

use super::{by_kind, counted, number};
use crate::bed::Bed;
use crate::proc;
use crate::stats::Spread;
use contestant::{Contestant, Running};

/// Nothing more is to come from a controller that has asked for nothing for so long: ours holds back events for 5 s
/// at most.
const SILENCE: Duration = Duration::from_secs(10);

/// What to measure, and how often.
pub(crate) struct Course {
    pub(crate) assets: Assets,
    pub(crate) binary: PathBuf,
    /// Where it is not the usual number.
    pub(crate) runs: Option<usize>,
    /// Where it is not all of them.
    pub(crate) only: Option<Contestant>,
}

impl Course {
    /// Each run with its number, the contestants by turns.
    fn runs(&self, usual: usize) -> impl Iterator<Item = (usize, Contestant)> {
        let contestants = Contestant::ALL.into_iter();
        let contestants: Vec<_> =
            contestants.filter(|one| self.only.is_none_or(|only| only == *one)).collect();
        (1..=self.runs.unwrap_or(usual))
            .flat_map(move |run| contestants.clone().into_iter().map(move |one| (run, one)))
    }
}

/// What a stretch of work cost its contestant.
struct Cost {
    pods: f64,
    calls: Vec<AuditEntry>,
    cpu: Duration,
}

impl Cost {
    fn calls_per_pod(&self) -> f64 {
        number(self.calls.len()) / self.pods
    }

    /// In milliseconds.
    fn cpu_per_pod(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e3 / self.pods
    }
}

/// What a contestant had cost when a stretch of work began.
struct Meter {
    calls: usize,
    cpu: Duration,
}

impl Meter {
    /// It must be at rest.
    fn start(bed: &Bed, running: &Running) -> Result<Self> {
        let calls = counted(bed.plane.requests_of(&running.user)?).len();
        Ok(Self { calls, cpu: proc::cpu(running.pid)? })
    }

    /// Waits until it is at rest again.
    async fn stop(self, bed: &Bed, running: &Running, pods: usize) -> Result<Cost> {
        bed.silent(&running.user, SILENCE).await?;
        let mut calls = counted(bed.plane.requests_of(&running.user)?);
        calls.drain(..self.calls.min(calls.len()));
        let cpu = proc::cpu(running.pid)?.saturating_sub(self.cpu);
        Ok(Cost { pods: number(pods), calls, cpu })
    }
}

/// What each contestant did, run by run.
struct Results<R>(Vec<(Contestant, R)>);

impl<R> Results<R> {
    fn of(&self, contestant: Contestant) -> impl Iterator<Item = &R> {
        self.0.iter().filter(move |(one, _)| *one == contestant).map(|(_, result)| result)
    }

    fn spread(&self, contestant: Contestant, figure: impl Fn(&R) -> f64) -> Option<Spread> {
        Spread::of(self.of(contestant).map(figure).collect())
    }

    /// A row of a table: the figure of each contestant over its runs, and the goal.
    fn row(
        &self,
        measure: &str,
        figure: impl Fn(&R) -> f64,
        show: fn(f64) -> String,
        goal: String,
    ) -> Vec<String> {
        let cell =
            |contestant| self.spread(contestant, &figure).map_or_else(absent, |spread| spread.show(show));
        [measure.to_owned()].into_iter().chain(Contestant::ALL.map(cell)).chain([goal]).collect()
    }

    /// The middle of ours over the middle of theirs, where both ran.
    fn ratio(&self, theirs: Contestant, figure: impl Fn(&R) -> f64) -> Option<f64> {
        let ours = self.spread(Contestant::Ours, &figure)?.median;
        Some(ours / self.spread(theirs, &figure)?.median)
    }

    /// What ours cost, where it ran.
    fn ours(&self, figure: impl Fn(&R) -> f64) -> Option<f64> {
        self.spread(Contestant::Ours, figure).map(|spread| spread.median)
    }
}

fn header() -> Vec<String> {
    let contestants = Contestant::ALL.map(|contestant| contestant.title().to_owned());
    ["measure".to_owned()].into_iter().chain(contestants).chain(["goal".to_owned()]).collect()
}

fn absent() -> String {
    "-".to_owned()
}

/// A goal in words, and whether it is met by the figure that it is about.
fn goal(words: &str, figure: Option<f64>, met: impl Fn(f64) -> bool) -> String {
    match figure {
        None => words.to_owned(),
        Some(figure) if met(figure) => format!("{words}: {figure:.2}, met"),
        Some(figure) => format!("{words}: {figure:.2}, **missed**"),
    }
}
