//! Random histories: edits of every kind, an operator that crashes between any two writes or acts on an old view, pods that
//! fail, sets that are deleted or lose their labels.
//!
//! [`Cluster`] checks after each write that no version is removed before its successor meets the rule, that nothing but sets
//! of the object is deleted, that two pods are never active and that an active one is relieved before its set is removed.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::Cluster;
use super::creation::template;
use crate::pod::PodRow;

/// Used for every run, so that it is the same everywhere.
const SEED: u64 = 20_261_118;
const HISTORIES: u32 = 1_500;
const STEPS: usize = 60;

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";
const IMAGES: [&str; 5] = ["a", "b", "c", "bad-1", "bad-2"];
const ZONES: [&[&str]; 5] = [&[], &["z1"], &["z1", "z2"], &["z2", "z3"], &["z3", "z2", "z1"]];

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A pass that crashes after so many writes.
    Pass(usize),
    /// Remember the view, to act on it later.
    Look,
    /// A pass on the view that was remembered; writes that rest on a confirmed view are not made.
    Stale,
    Control,
    Image(usize),
    Zones(usize),
    Scale(u32),
    Strategy(bool),
    Rollback(bool),
    Paused(bool),
    Doubt(bool),
    Probe(u8),
    Fail(usize),
    Heal(usize),
    DeletePod(usize),
    DeleteSet(usize),
    LoseLabels(usize),
    /// The deadline of the present version passes.
    Exceed,
    Approve,
    Wait(i64),
    Restart,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let pick = || 0..100_usize;
    prop_oneof![
        20 => (0..8_usize).prop_map(Step::Pass),
        10 => Just(Step::Pass(usize::MAX)),
        3 => Just(Step::Look),
        4 => Just(Step::Stale),
        20 => Just(Step::Control),
        4 => (0..IMAGES.len()).prop_map(Step::Image),
        1 => (0..ZONES.len()).prop_map(Step::Zones),
        1 => (0..4_u32).prop_map(Step::Scale),
        1 => any::<bool>().prop_map(Step::Strategy),
        1 => any::<bool>().prop_map(Step::Rollback),
        1 => any::<bool>().prop_map(Step::Paused),
        1 => any::<bool>().prop_map(Step::Doubt),
        1 => (0..4_u8).prop_map(Step::Probe),
        3 => pick().prop_map(Step::Fail),
        4 => pick().prop_map(Step::Heal),
        1 => pick().prop_map(Step::DeletePod),
        1 => pick().prop_map(Step::DeleteSet),
        1 => pick().prop_map(Step::LoseLabels),
        1 => Just(Step::Exceed),
        1 => Just(Step::Approve),
        2 => (1..60_i64).prop_map(Step::Wait),
        2 => Just(Step::Restart),
    ]
}

pub(super) struct History {
    pub(super) cluster: Cluster,
    pub(super) view: Option<Box<Cluster>>,
}

pub(super) fn nth<T: Clone>(items: impl Iterator<Item = T>, number: usize) -> Option<T> {
    let items: Vec<_> = items.collect();
    number.checked_rem(items.len()).map(|number| items[number].clone())
}

impl History {
    pub(super) fn step(&mut self, step: Step) {
        let cluster = &mut self.cluster;
        match step {
            Step::Pass(most) => {
                cluster.pass_of(most);
            }
            Step::Look => self.view = Some(Box::new(cluster.clone())),
            Step::Stale => self.act_on_old_view(),
            Step::Control => {
                cluster.control();
            }
            Step::Image(image) => cluster.set_field(IMAGE, json!(IMAGES[image])),
            Step::Zones(zones) => cluster.set_field("/zones", json!(ZONES[zones])),
            Step::Scale(replicas) => cluster.set_field("/template/spec/replicas", json!(replicas)),
            Step::Strategy(blue_green) => {
                let kind = if blue_green { "BlueGreen" } else { "InPlace" };
                cluster.set_field("/updateStrategy/type", json!(kind));
            }
            Step::Rollback(rollback) => {
                let policy = if rollback { "Rollback" } else { "Pause" };
                cluster.set_field("/updateStrategy/onFailure", json!(policy));
            }
            Step::Paused(paused) => cluster.set_field("/paused", json!(paused)),
            Step::Doubt(doubt) => cluster.unconfirmed = doubt,
            Step::Probe(which) => {
                cluster.passes = match which {
                    0 => |_| false,
                    1 => |pod| pod.ends_with("-1"),
                    2 => |pod| pod.contains("-z1"),
                    _ => |_| true,
                };
            }
            Step::Fail(pod) => {
                if let Some(name) = nth(cluster.pods.keys().cloned(), pod) {
                    cluster.pods.get_mut(&name).unwrap().ready_since = None;
                }
            }
            Step::Heal(pod) => {
                if let Some(name) = nth(cluster.pods.keys().cloned(), pod) {
                    heal(cluster, &name);
                }
            }
            Step::DeletePod(pod) => {
                if let Some(name) = nth(cluster.pods.keys().cloned(), pod) {
                    cluster.pods.remove(&name);
                }
            }
            Step::DeleteSet(set) => {
                if let Some(name) = nth(own(cluster).into_iter(), set) {
                    cluster.delete_by_hand(&name);
                }
            }
            Step::LoseLabels(set) => {
                if let Some(name) = nth(own(cluster).into_iter(), set) {
                    let labels = json!({ "sts.plus/az-index": null, "sts.plus/az-name": null });
                    let annotations = json!({ "sts.plus/version": null });
                    let metadata = json!({ "labels": labels, "annotations": annotations });
                    cluster.edit_set(&name, &json!({ "metadata": metadata }));
                }
            }
            Step::Exceed => {
                cluster.open = SignedDuration::from_secs(60);
                cluster.pass_of(usize::MAX);
                cluster.open = SignedDuration::ZERO;
            }
            Step::Approve => {
                cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
            }
            Step::Wait(seconds) => cluster.now += SignedDuration::from_secs(seconds),
            Step::Restart => cluster.restart(),
        }
    }

    fn act_on_old_view(&mut self) {
        let Some(view) = &self.view else { return };
        let plan = view.decide().plan;
        if plan.needs_confirmed_view() {
            return;
        }
        for write in plan.writes() {
            if !self.cluster.accepts(write) {
                return;
            }
            self.cluster.apply(write);
        }
    }
}

/// A pod becomes Ready, unless its image is a bad one.
fn heal(cluster: &mut Cluster, name: &str) {
    let now = cluster.now;
    let pod = cluster.pods.get_mut(name).unwrap();
    if pod.waiting.is_none() && pod.ready_since.is_none() {
        (pod.ready_since, pod.running) = (Some(now), true);
    }
}

/// The sets of the object.
fn own(cluster: &Cluster) -> Vec<String> {
    let sets = cluster.sets.iter().filter(|(name, _)| *name != "foo-other");
    sets.map(|(name, _)| name.clone()).collect()
}

/// With good content and nobody interfering the object reaches its goal and rests there.
pub(super) fn reaches_its_goal(mut cluster: Cluster, image: &str) {
    cluster.unconfirmed = false;
    cluster.passes = |_| true;
    cluster.set_field("/paused", json!(false));
    cluster.set_field(IMAGE, json!(image));
    for _ in 0..20 {
        let names: Vec<_> = cluster.pods.keys().cloned().collect();
        for name in &names {
            heal(&mut cluster, name);
        }
        cluster.now += SignedDuration::from_secs(60);
        cluster.settle();
        // A failed version is retried.
        if let Some(awaited) = cluster.row.status.awaited_approval.clone() {
            cluster.row.approve = Some(awaited.into());
        }
    }
    let spec = cluster.row.spec.clone().unwrap();
    let status = &cluster.row.status;
    assert!(cluster.condition("Ready").unwrap().0, "{:?} {:#?}", status.conditions, cluster.log);
    assert_eq!(status.current_version, status.update_version);
    let zones: BTreeSet<_> = own(&cluster)
        .iter()
        .map(|set| set.rsplit_once("-v").map_or(set.clone(), |(place, _)| place.to_owned()))
        .collect();
    assert_eq!((own(&cluster).len(), zones.len()), (spec.zones.len().max(1), spec.zones.len().max(1)));
    assert_eq!(cluster.pods.len(), own(&cluster).len() * spec.replicas as usize);
    assert!(cluster.pods.values().all(PodRow::ready));
    assert_eq!(cluster.active_pods().len(), usize::from(spec.replicas > 0));
    cluster.log.clear();
    assert_eq!((cluster.pass_of(usize::MAX), &*cluster.log), (0, &[][..]), "it rests");
    assert!(!cluster.scale_all(usize::MAX), "its policies rest, too");
    assert!(cluster.sets.contains_key("foo-other"));
}

fn begin(start: Start) -> Cluster {
    begin_with(start, &json!({}))
}

/// How an object is at first: whether it is blue/green, its zones, and how many pods a version needs.
pub(super) type Start = (bool, usize, Option<u32>);

pub(super) fn start() -> impl Strategy<Value = Start> {
    (any::<bool>(), 0..ZONES.len(), prop::option::of(1..3_u32))
}

/// An object that is at its goal, with other fields of its spec, and a set of somebody else.
pub(super) fn begin_with((blue_green, zones, min_ready): Start, fields: &Value) -> Cluster {
    let kind = if blue_green { "BlueGreen" } else { "InPlace" };
    let mut spec = json!({
        "template": template("a", 2), "zones": ZONES[zones], "paused": false,
        "updateStrategy": { "type": kind, "onFailure": "Pause", "progressDeadlineSeconds": 1, "blueGreen": {} },
        "activeProbe": { "main": { "tcpSocket": { "port": 80 } } },
    });
    if let Some(min_ready) = min_ready {
        spec["updateStrategy"]["blueGreen"]["minReady"] = Value::from(min_ready);
    }
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut cluster = Cluster::new(Group::StsPlus, spec);
    cluster.settle();
    // Another object's set that looks like ours.
    let (name, mut set) = cluster.sets.iter().next().map(|(name, set)| (name.clone(), set.clone())).unwrap();
    assert!(name.starts_with("foo"));
    set.0.name = "foo-other".into();
    set.0.uid = "uid-other".into();
    set.0.replicas = 0;
    set.0.child.as_mut().unwrap().owner = "uid-another".into();
    set.1["metadata"]["ownerReferences"][0]["uid"] = json!("uid-another");
    set.1["spec"]["replicas"] = json!(0);
    cluster.sets.insert("foo-other".to_owned(), set);
    cluster
}

#[test]
fn d_i7_i9_i11_random_histories_lose_nothing_and_end_at_the_goal() {
    let config = Config {
        cases: HISTORIES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    let histories = (start(), prop::collection::vec(step(), 0..STEPS));
    let outcome = TestRunner::new(config).run(&histories, |(start, steps)| {
        let mut history = History { cluster: begin(start), view: None };
        for step in steps {
            history.step(step);
        }
        // A rollback to the first content, and a way forward, from wherever it is.
        reaches_its_goal(history.cluster.clone(), "a");
        reaches_its_goal(history.cluster, "d");
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
}
