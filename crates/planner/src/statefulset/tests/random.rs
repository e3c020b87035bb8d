//! Random histories of a set: users, kubelets, accidents, refused and unanswered writes, crashes and caches that are
//! behind, in any order, and passes only when something woke the controller. The invariants hold for each plan. Then the
//! faults stop, and the set must reach its goal and rest there.
//!
//! A failure prints the shortest history that shows it. `PROPTEST_RNG_SEED` picks another seed than the one that is
//! printed at the start.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use sts_plus_api::keys;

use super::super::world::World;
use super::cluster::{BAD, Cluster, FOO, empty};
use super::drive::{POLICIES, set_policy, wanted_owners};
use super::operate::{How, Op, internal_error};
use super::server::Refusal;
use crate::plan::Kind;
use crate::pod::{Phase, PodRow};
use crate::set::Strategy as UpdateStrategy;

const HISTORIES: u32 = 400;
const STEPS: usize = 90;
/// Used unless the environment names another one, so that a run is the same everywhere.
const SEED: u64 = 20_260_820;
/// Steps until a set must be at rest once the faults have stopped; far above what any needs.
const STEPS_TO_REST: usize = 3_000;
/// States that caches may show: the present one and those before the latest two writes, and some that rule B skips.
const STATES: usize = 8;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// The controller looks, if something woke it.
    Pass,
    /// A kubelet or the garbage collector does something.
    Move(Index),
    Edit(Edit),
    Accident(Accident, Index),
    Fault {
        op: Op,
        kind: Kind,
        after: usize,
        how: usize,
    },
    Lag {
        kind: Kind,
        writes: usize,
    },
    Wait(i64),
}

/// Something that a user changes.
#[derive(Clone, Debug)]
enum Edit {
    Image(&'static str),
    Replicas(u32),
    Start(u32),
    Strategy(usize),
    Partition(u32),
    MinReady(u32),
    Policy(usize),
    HistoryLimit(i64),
}

/// Something that happens to a pod or a claim.
#[derive(Clone, Copy, Debug)]
enum Accident {
    Fail,
    Succeed,
    Unready,
    Delete,
    Vanish,
    Relabel,
    Unname,
    Orphan,
    DeleteClaim,
}

const ACCIDENTS: [Accident; 9] = [
    Accident::Fail,
    Accident::Succeed,
    Accident::Unready,
    Accident::Delete,
    Accident::Vanish,
    Accident::Relabel,
    Accident::Unname,
    Accident::Orphan,
    Accident::DeleteClaim,
];

const REQUESTS: [(Op, Kind); 8] = [
    (Op::Create, Kind::Pod),
    (Op::Delete, Kind::Pod),
    (Op::Patch, Kind::Pod),
    (Op::Create, Kind::Claim),
    (Op::Patch, Kind::Claim),
    (Op::Create, Kind::Revision),
    (Op::Delete, Kind::Revision),
    (Op::Status, Kind::StatefulSet),
];

const KINDS: [Kind; 4] = [Kind::Pod, Kind::StatefulSet, Kind::Claim, Kind::Revision];

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => select(&["one", "two", "three", BAD][..]).prop_map(Edit::Image),
        3 => (0..5_u32).prop_map(Edit::Replicas),
        1 => (0..3_u32).prop_map(Edit::Start),
        1 => (0..3_usize).prop_map(Edit::Strategy),
        1 => (0..4_u32).prop_map(Edit::Partition),
        1 => select(&[0_u32, 5][..]).prop_map(Edit::MinReady),
        1 => (0..POLICIES.len()).prop_map(Edit::Policy),
        1 => (-1..3_i64).prop_map(Edit::HistoryLimit),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fault = (select(&REQUESTS[..]), 0..2_usize, 0..5_usize);
    prop_oneof![
        30 => Just(Step::Pass),
        30 => any::<Index>().prop_map(Step::Move),
        6 => edit().prop_map(Step::Edit),
        5 => (select(&ACCIDENTS[..]), any::<Index>()).prop_map(|(what, which)| Step::Accident(what, which)),
        5 => fault.prop_map(|((op, kind), after, how)| Step::Fault { op, kind, after, how }),
        5 => (select(&KINDS[..]), 0..3_usize).prop_map(|(kind, writes)| Step::Lag { kind, writes }),
        3 => (0..4_i64).prop_map(Step::Wait),
    ]
}

/// How a set is made: parallel, the feature on, repairs asked for, a block in its strategy.
type Made = (bool, bool, bool, bool);

fn history() -> impl Strategy<Value = (Made, u32, Vec<Step>)> {
    let made = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (made, 0..4_u32, prop::collection::vec(step(), 0..STEPS))
}

/// A cluster and what would make its controller look at the set.
struct Run {
    cluster: Cluster,
    seen: Option<Seen>,
    wake_at: Option<Timestamp>,
    retry: bool,
    /// Pods of an orderly set that were deleted for their revision, by UID.
    deleted: BTreeSet<Box<str>>,
    deletions: usize,
    passes: usize,
}

/// What a controller is woken by when it changes: versions of the set, of its pods, claims and revisions by UID, and orphans
/// that it has not seen. That an orphan is gone wakes nobody.
#[derive(PartialEq)]
struct Seen {
    versions: BTreeMap<Box<str>, Box<str>>,
    orphans: BTreeSet<(Box<str>, bool)>,
}

impl Seen {
    fn of(world: &World) -> Self {
        let mut versions: BTreeMap<Box<str>, Box<str>> = BTreeMap::new();
        versions.insert((*world.set.uid).into(), world.set.resource_version.clone());
        for pod in &world.pods {
            versions.insert(pod.uid.clone(), pod.resource_version.clone());
        }
        for claim in world.claims.iter().flat_map(BTreeMap::values) {
            versions.insert(claim.uid.clone(), claim.resource_version.clone());
        }
        for revision in &world.revisions {
            versions.insert(revision.uid.clone(), revision.resource_version.clone());
        }
        let orphans = world.orphans.iter().map(|pod| (pod.uid.clone(), pod.terminating)).collect();
        Self { versions, orphans }
    }
}

impl Run {
    fn new((parallel, feature, repairs, block): Made, replicas: u32) -> Self {
        let mut cluster = empty();
        cluster.server.memory = STATES;
        cluster.paced = true;
        cluster.features.max_unavailable = feature;
        cluster.add_set(FOO, |spec| {
            spec["replicas"] = json!(replicas);
            spec["podManagementPolicy"] = json!(if parallel { "Parallel" } else { "OrderedReady" });
            if block {
                spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0, "maxUnavailable": 2 });
            }
        });
        if repairs {
            cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
        }
        Self {
            cluster,
            seen: None,
            wake_at: None,
            retry: false,
            deleted: BTreeSet::new(),
            deletions: 0,
            passes: 0,
        }
    }

    /// Whether the view has changed or a timer is due.
    fn is_called(&self) -> bool {
        let due = self.wake_at.is_some_and(|at| at <= self.cluster.server.now);
        let Some(world) = self.cluster.world(FOO) else { return false };
        let now = Seen::of(&world);
        let changed = self.seen.as_ref().is_none_or(|seen| {
            seen.versions != now.versions || now.orphans.iter().any(|orphan| !seen.orphans.contains(orphan))
        });
        changed || due
    }

    /// The same, or something that went wrong is to be retried.
    fn is_woken(&self) -> bool {
        self.retry || self.is_called()
    }

    /// One pass, if something woke the controller.
    fn pass(&mut self) {
        if !self.is_woken() {
            return;
        }
        self.passes += 1;
        let cluster = &mut self.cluster;
        let before = cluster.pods();
        self.seen = cluster.world(FOO).as_ref().map(Seen::of);
        let pass = cluster.sync();
        (self.retry, self.wake_at) = (pass.failed(), pass.wake_at);
        let set = cluster.set();
        for pod in before.iter().filter(|pod| !pod.terminating) {
            let now = cluster.find_pod(&pod.name).filter(|now| now.uid == pod.uid);
            if now.is_none_or(|now| now.terminating) {
                self.deletions += 1;
                let Some(ordinal) = crate::ordinal::of_pod(&pod.name, FOO) else { continue };
                let up_to_date = pod.revision.as_deref() == set.update_revision.as_deref();
                if cluster.is_ordered() && !cluster.features.max_unavailable && pod.ready() && !up_to_date {
                    // Our own deletions are seen before the next one (rule B), so never two are under way.
                    let under_way =
                        self.deleted.iter().filter(|uid| cluster.pods().iter().any(|pod| pod.uid == **uid));
                    let in_range = set.ordinals().contains(&ordinal);
                    assert!(
                        !in_range || under_way.count() == 0,
                        "{} goes beside another:\n{cluster}",
                        pod.name
                    );
                    self.deleted.insert(pod.uid.clone());
                }
            }
        }
    }

    fn happens(&mut self, step: &Step) {
        let cluster = &mut self.cluster;
        match step {
            Step::Pass => self.pass(),
            Step::Move(which) => {
                let moves = cluster.moves();
                if !moves.is_empty() {
                    cluster.perform(&moves[which.index(moves.len())]);
                }
            }
            Step::Edit(edit) => apply(cluster, edit),
            Step::Accident(what, which) => strike(cluster, *what, *which),
            Step::Fault { op, kind, after, how } => {
                let how = match how {
                    0 => internal_error(),
                    1 => How::Refused(Refusal::Conflict("changed".to_owned())),
                    2 => How::Lost,
                    3 => How::DiesBefore,
                    _ => How::DiesAfter,
                };
                cluster.fail(*op, *kind, *after, how);
            }
            Step::Lag { kind, writes } => drop(cluster.lag.insert(*kind, *writes)),
            Step::Wait(seconds) => cluster.pass_time(*seconds),
        }
    }

    /// Lets everything happen until nothing does any more.
    fn rest(&mut self) {
        for round in 0..STEPS_TO_REST {
            let moves = self.cluster.moves();
            // Kubelets are faster than a back-off.
            if self.is_called() || (self.retry && moves.is_empty()) {
                self.pass();
            } else if !moves.is_empty() {
                self.cluster.perform(&moves[round % moves.len()]);
            } else if let Some(wake_at) = self.wake_at {
                self.cluster.server.now = wake_at;
            } else {
                return;
            }
        }
        panic!("no rest after {STEPS_TO_REST} steps:\n{}", self.cluster);
    }
}

fn apply(cluster: &mut Cluster, edit: &Edit) {
    cluster.edit(|spec| match edit {
        Edit::Image(image) => spec["template"]["spec"]["containers"][0]["image"] = json!(image),
        Edit::Replicas(replicas) => spec["replicas"] = json!(replicas),
        Edit::Start(start) => spec["ordinals"] = json!({ "start": start }),
        Edit::Strategy(0) => spec["updateStrategy"] = json!({ "type": "OnDelete" }),
        Edit::Strategy(1) => spec["updateStrategy"] = json!({ "type": "RollingUpdate" }),
        Edit::Strategy(_) => {
            let block = json!({ "partition": 0, "maxUnavailable": "50%" });
            spec["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": block });
        }
        Edit::Partition(partition) => {
            if let Some(block) = spec["updateStrategy"].get_mut("rollingUpdate") {
                block["partition"] = json!(partition);
            }
        }
        Edit::MinReady(seconds) => spec["minReadySeconds"] = json!(seconds),
        Edit::Policy(number) => set_policy(spec, POLICIES[*number]),
        Edit::HistoryLimit(limit) => spec["revisionHistoryLimit"] = json!(limit),
    });
}

fn strike(cluster: &mut Cluster, what: Accident, which: Index) {
    if let Accident::DeleteClaim = what {
        let claims = cluster.claims();
        if !claims.is_empty() {
            cluster.server.delete(Kind::Claim, &claims[which.index(claims.len())].name);
        }
        return;
    }
    let pods = cluster.pods();
    if pods.is_empty() {
        return;
    }
    let pod = &pods[which.index(pods.len())];
    let name = &*pod.name;
    let mut change = |change: fn(&mut Value)| cluster.server.change(Kind::Pod, name, change);
    match what {
        Accident::Fail => change(|pod| pod["status"] = json!({ "phase": "Failed" })),
        Accident::Succeed => change(|pod| pod["status"] = json!({ "phase": "Succeeded" })),
        Accident::Unready if pod.phase == Phase::Running => {
            change(|pod| pod["status"] = json!({ "phase": "Running" }));
        }
        Accident::Unready | Accident::DeleteClaim => {}
        Accident::Delete => cluster.server.delete(Kind::Pod, name),
        Accident::Vanish => cluster.vanish(name),
        Accident::Relabel => change(|pod| pod["metadata"]["labels"]["app"] = json!("other")),
        Accident::Unname => change(|pod| pod["metadata"]["labels"][keys::POD_NAME] = json!("other")),
        Accident::Orphan => change(|pod| pod["metadata"]["ownerReferences"] = json!([])),
    }
}

/// The faults stop, templates work again, and nobody stands in the way.
fn heal(run: &mut Run) {
    let cluster = &mut run.cluster;
    cluster.faults.clear();
    cluster.lag.clear();
    cluster.edit(|spec| {
        let image = &mut spec["template"]["spec"]["containers"][0]["image"];
        if *image == BAD {
            *image = json!("one");
        }
        if spec["updateStrategy"]["rollingUpdate"].is_object() {
            spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
        }
    });
    for pod in cluster.pods() {
        cluster.server.change(Kind::Pod, &pod.name, |pod| pod["metadata"]["labels"]["app"] = json!("foo"));
    }
}

/// A standstill that needs a human: a pod that never gets Ready is in the way of everything else, or is not to be touched.
/// Where repairs are asked for that is so only for condemned pods and where the user deletes pods himself.
fn remedy(run: &mut Run) -> bool {
    let cluster = &mut run.cluster;
    let set = cluster.set();
    let asked = cluster.object(Kind::StatefulSet, FOO)["metadata"]["annotations"][keys::REPLACE_BROKEN_PODS]
        == "true";
    let rolls = matches!(set.strategy, UpdateStrategy::RollingUpdate { .. });
    let broken: Vec<_> =
        cluster.members().into_iter().filter(|(_, pod)| cluster.image_of(&pod.name) == BAD).collect();
    for (ordinal, pod) in &broken {
        let (in_range, runs) = (set.ordinals().contains(ordinal), pod.phase == Phase::Running);
        assert!(
            !(asked && rolls && in_range && runs),
            "L3: {} stands still, repairs asked for:\n{cluster}",
            pod.name
        );
        assert!(!(rolls && runs) || cluster.is_ordered(), "L4: {} stands still:\n{cluster}", pod.name);
        cluster.server.delete(Kind::Pod, &pod.name);
    }
    // A claim that somebody deletes after its pod was given to a node and before it is mounted: the kubelet waits for ever.
    let waiting: Vec<_> = cluster
        .pods()
        .into_iter()
        .filter(|pod| {
            let claims = cluster.claims().into_iter().filter(|claim| claim.terminating);
            pod.phase == Phase::Pending
                && claims.into_iter().any(|claim| *claim.name == *format!("datadir-{}", pod.name))
        })
        .collect();
    for pod in &waiting {
        cluster.server.delete(Kind::Pod, &pod.name);
    }
    // Two condemned pods of an orderly set that have ended: the higher one waits for the lower one, for ever (Q2).
    let ended = |pod: &PodRow| matches!(pod.phase, Phase::Failed | Phase::Succeeded);
    let members = cluster.members().into_iter();
    let condemned: Vec<_> =
        members.filter(|(ordinal, pod)| !set.ordinals().contains(ordinal) && ended(pod)).collect();
    assert!(condemned.is_empty() || cluster.is_ordered(), "L4: condemned pods stand still:\n{cluster}");
    for (_, pod) in &condemned {
        cluster.server.delete(Kind::Pod, &pod.name);
    }
    !broken.is_empty() || !waiting.is_empty() || !condemned.is_empty()
}

/// L1, L6: exactly the slots exist, available and up to date, claims are there, the status says so, and nothing is written.
fn reached(run: &mut Run) {
    let cluster = &mut run.cluster;
    let (set, spec) = cluster.set_of(FOO);
    let members = cluster.members();
    let ordinals: Vec<u32> = members.iter().map(|(ordinal, _)| *ordinal).collect();
    assert_eq!(ordinals, set.ordinals().collect::<Vec<_>>(), "L1: the slots:\n{cluster}");
    for (_, pod) in &members {
        assert!(pod.ready() && pod.named && pod.owner == set.uid, "L1: {}:\n{cluster}", pod.name);
        let held =
            pod.ready_since.is_some_and(|since| cluster.server.now.duration_since(since) >= set.min_ready);
        assert!(held, "L1: {} is available:\n{cluster}", pod.name);
        if let UpdateStrategy::RollingUpdate { .. } = set.strategy {
            assert_eq!(
                pod.revision.as_deref(),
                set.update_revision.as_deref(),
                "L1: {}:\n{cluster}",
                pod.name
            );
        }
        let claim = cluster.claim(&format!("datadir-{}", pod.name));
        if !claim.terminating {
            let owners = cluster.owners(&claim.name);
            assert_eq!(owners, wanted_owners(cluster, true, &pod.name), "L1: {}:\n{cluster}", claim.name);
        }
    }
    let counts = spec.counts;
    assert_eq!(
        [counts.replicas, counts.ready, counts.available],
        [set.replicas; 3],
        "L1: the status:\n{cluster}"
    );
    assert_eq!(set.observed_generation, set.generation);
    let trimmed = usize::try_from(spec.history_limit).map_or(usize::MAX, |limit| limit + 2 + members.len());
    assert!(cluster.revisions().len() <= trimmed, "L1: revisions:\n{cluster}");
    if matches!(set.strategy, UpdateStrategy::RollingUpdate { .. }) {
        assert_eq!(set.current_revision, set.update_revision, "L1: promoted:\n{cluster}");
        assert_eq!([counts.current, counts.updated], [set.replicas; 2], "L1: the status:\n{cluster}");
    }
    let pass = cluster.sync_well();
    assert_eq!((pass.writes, pass.wake_at), (0, None), "L6: at the goal nothing is written:\n{cluster}");
}

#[test]
fn every_history_keeps_the_guarantees_and_ends_at_the_goal() {
    let mut config = Config { cases: HISTORIES, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    println!("seed {}", config.rng_seed);
    let totals = Cell::new([0_usize; 3]);
    let run = |(made, replicas, steps): (Made, u32, Vec<Step>)| {
        let mut run = Run::new(made, replicas);
        for step in &steps {
            run.happens(step);
        }
        heal(&mut run);
        run.rest();
        let mut standstills = 0;
        while remedy(&mut run) {
            standstills += 1;
            run.rest();
        }
        reached(&mut run);
        let [deletions, passes, before] = totals.get();
        totals.set([deletions + run.deletions, passes + run.passes, before + standstills]);
        Ok(())
    };
    TestRunner::new(config).run(&history(), run).unwrap();
    let [deletions, passes, standstills] = totals.get();
    println!("{deletions} deletions in {passes} passes, {standstills} standstills");
    assert!(deletions > HISTORIES as usize && standstills > 0, "the histories are worth their time");
}
