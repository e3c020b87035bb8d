//! Random histories of a group: users, accidents, the StatefulSet controller and kubelets in any order, the
//! operator after each of them, the invariants on each of its plans; then the accidents stop and the group
//! must reach its goal and rest there.
//!
//! A failure prints the shortest history that shows it. `PROPTEST_RNG_SEED` picks another seed than the one
//! that is printed at the start.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::cluster::{Cluster, short, zones};
use super::invariants;
use super::simulator::{CRASHES, HANGS, Step, bad};
use crate::pod::PodRow;
use crate::reason::Reason;
use crate::set::{SetRow, Strategy as UpdateStrategy};

const HISTORIES: u32 = 300;
const STEPS: usize = 80;
/// Used unless the environment names another one, so that a run is the same everywhere.
const SEED: u64 = 20_250_615;

/// What the names of new revisions end in: most of them work.
const SUFFIXES: [&str; 10] = ["", "", "", "", "", "", CRASHES, CRASHES, HANGS, HANGS];

const BUDGETS: [&str; 6] = ["1", "2", "50%", "100%", "0", "many"];

fn step() -> impl Strategy<Value = Step> {
    let zone = 0..3_usize;
    let pod = 0..12_usize;
    prop_oneof![
        40 => any::<prop::sample::Index>().prop_map(|pick| Step::Work(pick.index(1 << 16))),
        4 => (zone.clone(), prop::sample::select(&SUFFIXES[..]))
            .prop_map(|(zone, suffix)| Step::Edit { zone, suffix }),
        2 => zone.clone().prop_map(|zone| Step::Rollback { zone }),
        1 => (zone.clone(), any::<bool>()).prop_map(|(zone, paused)| Step::Pause { zone, paused }),
        1 => (zone.clone(), 0..5_u32).prop_map(|(zone, replicas)| Step::Scale { zone, replicas }),
        1 => (zone.clone(), prop::sample::select(&BUDGETS[..]))
            .prop_map(|(zone, value)| Step::Budget { zone, value }),
        1 => (zone, prop::bool::weighted(0.9)).prop_map(|(zone, on_delete)| Step::Strategy { zone, on_delete }),
        1 => pod.clone().prop_map(Step::Fail),
        1 => pod.clone().prop_map(Step::Crash),
        1 => pod.prop_map(Step::Evict),
        2 => (0..20_u8).prop_map(Step::Wait),
    ]
}

fn history() -> impl Strategy<Value = (Vec<u32>, i64, Vec<Step>)> {
    let replicas = prop::collection::vec(1..4_u32, 1..4);
    let min_ready = prop::sample::select(vec![0, 0, 5]);
    (replicas, min_ready, prop::collection::vec(step(), 0..STEPS))
}

fn group(replicas: &[u32], min_ready: i64) -> Cluster {
    let names: Vec<_> = replicas.iter().zip(["a", "b", "c"]).map(|(_, name)| name).collect();
    let mut group = zones(&names, 3);
    for (set, replicas) in group.sets.iter_mut().zip(replicas) {
        (set.replicas, set.min_ready) = (*replicas, jiff::SignedDuration::from_secs(min_ready));
    }
    let surplus: Vec<_> = group.work();
    for work in surplus {
        group.perform(work);
    }
    group.pods.retain(|pod| !pod.terminating);
    group
}

#[test]
fn every_history_keeps_the_guarantees_and_ends_at_the_goal() {
    let mut config = Config { cases: HISTORIES, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    println!("seed {}", config.rng_seed);
    let (deletions, standstills) = (Cell::new(0_usize), Cell::new(0_usize));
    let run = |(replicas, min_ready, steps): (Vec<u32>, i64, Vec<Step>)| {
        let mut group = group(&replicas, min_ready);
        (0..replicas.len()).for_each(|zone| group.step(&Step::Edit { zone, suffix: "" }));
        for step in &steps {
            group.step(step);
            let plan = group.operate();
            let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
            deletions.update(|count| count + actions.filter(|action| action.disrupts()).count());
        }
        heal(&mut group);
        standstills.update(|count| count + reach_the_goal(&mut group));
        Ok(())
    };
    TestRunner::new(config).run(&history(), run).unwrap();
    println!("{} deletions amid accidents, {} standstills", deletions.get(), standstills.get());
    assert!(deletions.get() > HISTORIES as usize, "the histories are worth their time");
}

/// The accidents stop, templates work again, and what is paused does not hide a pod that needs a new one.
fn heal(group: &mut Cluster) {
    for set in group.sets.clone() {
        let zone = short(&set.name);
        if bad(group.templates[&set.name].last().unwrap()) {
            group.edit(zone, "mended");
        }
        let stuck = own(group, &set).any(|pod| pod.revision.as_deref().is_some_and(bad));
        let row = group.set_mut(zone);
        row.strategy = UpdateStrategy::OnDelete;
        if stuck {
            row.steering.paused = None;
        }
    }
}

fn own<'g>(group: &'g Cluster, set: &'g SetRow) -> impl Iterator<Item = &'g PodRow> {
    group.pods.iter().filter(|pod| pod.owner == set.uid)
}

/// Lets everything happen until nothing does. The one standstill that needs a human is that of outdated pods in two zones
/// that run and never get Ready, of which none may go while the other zone is not Ready. Answers how often that was.
fn reach_the_goal(group: &mut Cluster) -> usize {
    let mut last = group.rest(|_, _| {});
    let mut standstills = 0;
    while let Some(pod) = standstill(group) {
        standstills += 1;
        group.pods.retain(|row| row.name != pod);
        last = group.rest(|_, _| {});
    }
    assert!(last.plan.steps.is_empty(), "I11: at the goal nothing is written");
    for (report, set) in last.reports.iter().zip(&group.sets) {
        assert_eq!(invariants::down(group, set), 0, "{} serves:\n{group}", set.name);
        if set.steering.paused.is_some() {
            assert_eq!(report.reason, Reason::Paused);
            continue;
        }
        let target = set.update_revision.as_deref();
        assert!(own(group, set).all(|pod| pod.revision.as_deref() == target), "{} rolls:\n{group}", set.name);
        assert_eq!(set.current_revision.as_deref(), target, "{} is promoted", set.name);
        assert_eq!(report.reason.kind(), "UpToDate", "{}:\n{group}", set.name);
    }
    standstills
}

/// A pod that runs and is not Ready, where two zones have outdated ones.
fn standstill(group: &Cluster) -> Option<Box<str>> {
    let hangs = |set: &SetRow| {
        let outdated = |pod: &&PodRow| pod.revision.as_deref() != set.update_revision.as_deref();
        let hangs = |pod: &&PodRow| pod.running && !pod.ready();
        own(group, set).filter(outdated).find(hangs).map(|pod| pod.name.clone())
    };
    let mut stuck = group.sets.iter().filter_map(hangs);
    let (first, _second) = (stuck.next()?, stuck.next()?);
    Some(first)
}
