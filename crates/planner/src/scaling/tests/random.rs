//! Random histories: edits of the spec, hooks that fail, hang and finish late, containers that restart, pods that are lost,
//! foreign writes, rollouts, an operator that dies between any two writes. [`Cluster`] holds every write and every call against
//! what must always be: no pod is removed undrained unless that is asked for, nothing is called that is not remembered and said
//! first, and never more leave than may. Then all goes well, and the policy must reach its goal and rest.
//!
//! A failure prints the shortest history that shows it. `PROPTEST_RNG_SEED` picks another seed than the one printed at the start.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::json;

use super::cluster::{Answer, Cluster, WEB, with};
use crate::scaling::hook::Call;

const HISTORIES: u32 = 400;
const STEPS: usize = 60;
/// Used unless the environment names another one, so that a run is the same everywhere.
const SEED: u64 = 20_261_119;

#[derive(Clone, Debug)]
enum Move {
    Pass,
    /// A pass whose operator dies after so many writes.
    Crash(usize),
    Answer,
    Work(prop::sample::Index),
    Scale(u32),
    Concurrent(u32),
    Paused(bool),
    OnFailure(&'static str),
    Path(bool),
    Says(Call, Answer),
    Restart(u32),
    Kill(u32),
    Foreign(u32),
    Edit,
    Unmark,
    Doubt(bool),
    Wait(i64),
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Done),
        4 => (1..4_u32).prop_map(Answer::After),
        2 => Just(Answer::Fail("answered 500")),
        1 => Just(Answer::Hang),
    ]
}

fn a_move() -> impl Strategy<Value = Move> {
    let pod = || 0..7_u32;
    let call = prop::sample::select(vec![Call::Prepare, Call::Poll, Call::Cancel]);
    prop_oneof![
        20 => Just(Move::Pass),
        3 => (0..3_usize).prop_map(Move::Crash),
        12 => Just(Move::Answer),
        12 => any::<prop::sample::Index>().prop_map(Move::Work),
        5 => pod().prop_map(Move::Scale),
        1 => (1..4_u32).prop_map(Move::Concurrent),
        1 => any::<bool>().prop_map(Move::Paused),
        1 => prop::sample::select(vec!["Block", "Abort"]).prop_map(Move::OnFailure),
        1 => any::<bool>().prop_map(Move::Path),
        3 => (call, answer()).prop_map(|(call, answer)| Move::Says(call, answer)),
        2 => pod().prop_map(Move::Restart),
        2 => pod().prop_map(Move::Kill),
        1 => pod().prop_map(Move::Foreign),
        1 => Just(Move::Edit),
        1 => Just(Move::Unmark),
        1 => any::<bool>().prop_map(Move::Doubt),
        3 => (0..300_i64).prop_map(Move::Wait),
    ]
}

fn take(cluster: &mut Cluster, step: Move) {
    let name = |ordinal: u32| format!("{WEB}-{ordinal}");
    let is_there = |cluster: &Cluster, ordinal| cluster.pods.iter().any(|pod| *pod.name == *name(ordinal));
    match step {
        Move::Pass => drop(cluster.pass()),
        Move::Crash(writes) => {
            cluster.dies_after = Some(writes);
            cluster.pass();
            cluster.die();
        }
        Move::Answer => drop(cluster.answer()),
        Move::Work(pick) => {
            let work = cluster.work();
            if !work.is_empty() {
                cluster.perform(pick.get(&work));
            }
        }
        Move::Scale(replicas) => cluster.scale(replicas),
        // Fewer at once while more leave already is not what the bound is about.
        Move::Concurrent(most) if cluster.leaving() == 0 && cluster.status().leaving.is_empty() => {
            cluster.respec("/scaleDown/maxConcurrent", json!(most));
        }
        Move::Paused(paused) => cluster.respec("/paused", json!(paused)),
        Move::OnFailure(policy) => cluster.respec("/scaleDown/hook/onFailure", json!(policy)),
        Move::Path(other) => {
            cluster.respec("/scaleDown/hook/http/path", json!(if other { "/other" } else { "/shutdown" }));
        }
        Move::Says(call, answer) => drop(cluster.answers.insert(call, answer)),
        Move::Restart(ordinal) if is_there(cluster, ordinal) => cluster.restart(&name(ordinal)),
        Move::Kill(ordinal) => cluster.kill(&name(ordinal)),
        Move::Concurrent(_) | Move::Restart(_) => {}
        Move::Foreign(replicas) => cluster.scale_set(replicas, "somebody-else"),
        Move::Edit => {
            let revision = format!("r{}", cluster.writes);
            cluster.edit(&revision);
        }
        Move::Unmark => cluster.change_set(WEB, |set| set.steering.leaving = None),
        Move::Doubt(doubt) => cluster.unconfirmed = doubt,
        Move::Wait(seconds) => cluster.pass_time(seconds),
    }
}

fn seeded(cases: u32) -> TestRunner {
    let mut config = Config { cases, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    println!("seed {:?}", config.rng_seed);
    TestRunner::new(config)
}

/// All goes well from now on.
fn heal(cluster: &mut Cluster, wanted: u32) {
    cluster.answers.clear();
    cluster.unconfirmed = false;
    cluster.respec("/paused", json!(false));
    cluster.scale(wanted);
}

#[track_caller]
fn reach_the_goal(cluster: &mut Cluster, wanted: u32) {
    for _ in 0..4 {
        cluster.run();
    }
    assert_eq!((cluster.set().replicas, cluster.state().0), (wanted, "AsRequested"), "{cluster}");
    assert!(cluster.status().leaving.is_empty() && cluster.set().steering.leaving.is_none(), "{cluster}");
    assert_eq!(cluster.status().ready_replicas, Some(wanted), "{cluster}");
    let called = cluster.pods.iter().filter(|pod| cluster.apps.get(&pod.uid).is_some_and(|app| app.called));
    assert_eq!(called.count(), 0, "no pod that stays is prepared for its removal:\n{cluster}");
    let made = cluster.pass();
    assert!(made.plan.steps.is_empty() && made.plan.asks.is_empty(), "I11: {made:?}");
}

#[test]
fn every_history_keeps_the_guarantees_and_ends_at_the_goal() {
    let (lowered, called) = (Cell::new(0), Cell::new(0));
    let histories = (1..6_u32, any::<bool>(), prop::collection::vec(a_move(), 0..STEPS), 0..6_u32);
    let run = |(replicas, polled, steps, wanted): (u32, bool, Vec<Move>, u32)| {
        let mut cluster = with(replicas, polled);
        for step in steps {
            take(&mut cluster, step);
        }
        heal(&mut cluster, wanted);
        reach_the_goal(&mut cluster, wanted);
        lowered.update(|count| count + cluster.removed);
        called.update(|count| count + cluster.calls.values().sum::<usize>());
        Ok(())
    };
    seeded(HISTORIES).run(&histories, run).unwrap();
    println!("{} pods removed, {} calls", lowered.get(), called.get());
    assert!(lowered.get() > HISTORIES as usize, "the histories are worth their time");
}

#[test]
fn where_nothing_fails_the_cost_is_minimal_and_availability_is_kept() {
    let cases = (0..8_u32, 0..8_u32, 1..4_u32, any::<bool>(), any::<bool>());
    let run = |(before, after, most, polled, edited): (u32, u32, u32, bool, bool)| {
        let mut cluster = with(before, polled);
        cluster.respec("/scaleDown/maxConcurrent", json!(most));
        cluster.answers.insert(Call::Prepare, if polled { Answer::After(2) } else { Answer::Done });
        cluster.answers.insert(Call::Poll, Answer::After(2));
        cluster.quiet();
        cluster.forget();
        if edited {
            cluster.edit("web-new");
        }
        cluster.scale(after);
        let floor = before.min(after).saturating_sub(1) as usize;
        for _ in 0..2_000 {
            let ready = cluster.pods.iter().filter(|pod| {
                let serves = !cluster.apps.get(&pod.uid).is_some_and(|app| app.called);
                pod.ready() && serves
            });
            assert!(ready.count() >= floor, "availability is at least {floor}:\n{cluster}");
            let moved = cluster.pass().plan.writes().next().is_some();
            let moved = cluster.answer() || moved;
            match cluster.work().first().cloned() {
                Some(work) => cluster.perform(&work),
                None if !moved => match cluster.wake_at {
                    Some(at) => cluster.now = cluster.now.max(at),
                    None => break,
                },
                None => {}
            }
        }
        reach_the_goal(&mut cluster, after);
        let leavers = before.saturating_sub(after) as usize;
        assert_eq!(cluster.called(Call::Prepare), leavers, "one hook for each pod that leaves:\n{cluster}");
        assert_eq!(cluster.called(Call::Cancel), 0);
        // The user writes the template before the replicas, so that pods leave between rollouts.
        let restarts = if edited { before as usize } else { 0 };
        assert_eq!(cluster.created, restarts + after.saturating_sub(before) as usize, "{cluster}");
        assert_eq!(cluster.removed, leavers);
        Ok(())
    };
    seeded(300).run(&cases, run).unwrap();
}
