use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::json;
use sts_plus_api::extended::ExtendedStatefulSetSpec;

use super::*;
use crate::example;
use crate::extended::probe::ProbeCheck;
use crate::extended::spec::{Fault, Spec};
use crate::plan::Verb;

/// Used for every run, so that it is the same everywhere.
const SEED: u64 = 20_261_118;
const HISTORIES: u32 = 2_000;

fn policy(fallback: ActiveFallback) -> ActivePolicy {
    ActivePolicy {
        container: "app".into(),
        check: ProbeCheck::Tcp { port: 80 },
        period: SignedDuration::from_secs(10),
        timeout: Duration::from_secs(1),
        threshold: 1,
        fallback,
    }
}

/// Pods, what probes of them say, and the memory of the operator.
#[derive(Clone, Debug)]
struct Cluster {
    group: Group,
    policy: Option<ActivePolicy>,
    pods: Vec<Arc<PodRow>>,
    passes: BTreeMap<Box<str>, bool>,
    probes: BTreeMap<Box<str>, ProbeState>,
    probing: BTreeSet<Box<str>>,
    recorded: Option<ActivePod>,
    doubt: bool,
    now: Timestamp,
}

impl Cluster {
    fn new(pods: u32, fallback: ActiveFallback) -> Self {
        let set = example::set("web");
        let pods: Vec<_> = (0..pods).map(|ordinal| Arc::new(example::pod(&set, ordinal))).collect();
        Self {
            group: Group::StsPlus,
            policy: Some(policy(fallback)),
            passes: pods.iter().map(|pod| (pod.uid.clone(), true)).collect(),
            pods,
            probes: BTreeMap::new(),
            probing: BTreeSet::new(),
            recorded: None,
            doubt: false,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn strict(pods: u32) -> Self {
        Self::new(pods, ActiveFallback::None)
    }

    fn designate(&self) -> Designation {
        designate(&ActiveWorld {
            group: self.group,
            owner: "uid-extended",
            policy: self.policy.as_ref(),
            pods: &self.pods,
            probes: &self.probes,
            probing: &self.probing,
            recorded: self.recorded.as_ref(),
            doubt: self.doubt,
            now: self.now,
        })
    }

    fn edit(&mut self, ordinal: usize, change: impl FnOnce(&mut PodRow)) {
        let pod = Arc::make_mut(&mut self.pods[ordinal]);
        let version: u64 = pod.resource_version.parse().unwrap();
        pod.resource_version = (version + 1).to_string().into();
        change(pod);
    }

    fn label(&mut self, ordinal: usize, value: &str) {
        let key = self.group.key(keys::POD_DESIGNATION);
        self.edit(ordinal, |pod| {
            Arc::make_mut(&mut pod.labels).insert(key.into(), value.into());
        });
    }

    fn unready(&mut self, ordinal: usize) {
        self.edit(ordinal, |pod| pod.ready_since = None);
    }

    fn passes(&mut self, ordinal: usize, passes: bool) {
        self.passes.insert(self.pods[ordinal].uid.clone(), passes);
    }

    /// The pod was deleted and another one has its name.
    fn replace(&mut self, ordinal: usize) {
        let set = example::set("web");
        let uid = format!("{}+", self.pods[ordinal].uid);
        self.passes.insert(uid.as_str().into(), true);
        let pod = example::pod(&set, u32::try_from(ordinal).unwrap());
        self.pods[ordinal] = Arc::new(PodRow { uid: uid.into(), ..pod });
    }

    /// As the API server would; false where the precondition does not hold.
    fn write(&mut self, action: &Action) -> bool {
        let Verb::Merge { body, manager, .. } = action.verb() else { panic!("{action:?}") };
        assert_eq!((*manager, action.owner()), (keys::MANAGER_EXTENDED, "uid-extended"));
        let pod = self.pods.iter().position(|pod| {
            pod.name == action.object().name
                && pod.uid == action.precondition().uid
                && Some(&pod.resource_version) == action.precondition().resource_version.as_ref()
        });
        let Some(pod) = pod else { return false };
        for (key, value) in body["metadata"]["labels"].as_object().unwrap() {
            self.edit(pod, |pod| {
                let labels = Arc::make_mut(&mut pod.labels);
                match value.as_str() {
                    Some(value) => labels.insert(key.as_str().into(), value.into()),
                    None => labels.remove(key.as_str()),
                };
            });
        }
        true
    }

    fn carry_out(&mut self, designation: &Designation) {
        assert!(designation.removals.iter().all(|removal| self.write(removal)));
        self.recorded.clone_from(&designation.active);
        assert!(designation.addition.iter().all(|addition| self.write(addition)));
    }

    fn answer(&mut self, asks: &[Ask]) {
        for ask in asks {
            let Ask::Probe(request) = ask else { panic!("{ask:?}") };
            let result = if self.passes[&request.uid] { Ok(()) } else { Err("refused".into()) };
            let (container, check) = (Arc::clone(&request.container), request.check.clone());
            let outcome = ProbeOutcome { uid: request.uid.clone(), container, check, at: self.now, result };
            self.count(&outcome);
        }
    }

    fn count(&mut self, outcome: &ProbeOutcome) {
        count(&mut self.probes, self.policy.as_ref(), std::slice::from_ref(outcome));
    }

    /// Plans, carries the writes out and answers the probes until there is nothing to do.
    fn settle(&mut self) -> Designation {
        for _ in 0..10 {
            let designation = self.designate();
            let is_idle = designation.removals.is_empty() && designation.addition.is_none();
            if is_idle && designation.asks.is_empty() {
                self.recorded.clone_from(&designation.active);
                return designation;
            }
            self.carry_out(&designation);
            self.answer(&designation.asks);
        }
        panic!("it does not settle: {self:?}")
    }

    fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// The names of the pods with the label, whatever its value is.
    fn labelled(&self) -> Vec<&str> {
        let key = self.group.key(keys::POD_DESIGNATION);
        self.pods.iter().filter(|pod| pod.label(&key).is_some()).map(|pod| &*pod.name).collect()
    }

    fn active_at_rest(&mut self) -> Vec<&str> {
        self.settle();
        self.labelled()
    }
}

fn parse(group: Group, spec: serde_json::Value) -> Result<Spec, Fault> {
    let mut spec = spec;
    spec["template"] = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app" }] } } } });
    let spec: ExtendedStatefulSetSpec = serde_json::from_value(spec).unwrap();
    Spec::of(group, &spec)
}

fn asked(designation: &Designation) -> Vec<&str> {
    fn name(ask: &Ask) -> &str {
        let Ask::Probe(request) = ask else { panic!("{ask:?}") };
        &request.pod.name
    }
    designation.asks.iter().map(name).collect()
}

#[test]
fn d_a1_a_pod_that_passes_becomes_active_once_it_is_ready() {
    let mut cluster = Cluster::strict(1);
    cluster.unready(0);
    assert!(cluster.active_at_rest().is_empty());
    assert_eq!(cluster.settle().reason, ActiveReason::NoneReady);
    cluster.edit(0, |pod| pod.ready_since = Some(Timestamp::UNIX_EPOCH));
    assert_eq!(asked(&cluster.designate()), ["web-0"]);
    assert_eq!(cluster.active_at_rest(), ["web-0"]);
    assert_eq!(cluster.recorded.as_ref().unwrap().name, "web-0");
}

#[test]
fn d_a2_a_label_set_by_hand_on_a_pod_that_fails_is_removed() {
    let mut cluster = Cluster::strict(3);
    (0..3).for_each(|ordinal| cluster.passes(ordinal, false));
    cluster.label(0, keys::ACTIVE);
    assert!(cluster.active_at_rest().is_empty());
    let reason = cluster.settle().reason;
    assert_eq!(reason, ActiveReason::NonePasses { pod: "web-0".into(), why: "refused".into() });
    assert_eq!(cluster.recorded, None);
}

#[test]
fn d_a3_of_three_labelled_by_hand_only_the_one_that_passes_keeps_the_label() {
    let mut cluster = Cluster::strict(3);
    (0..3).for_each(|ordinal| cluster.label(ordinal, keys::ACTIVE));
    cluster.passes(0, false);
    cluster.passes(2, false);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
}

#[test]
fn d_a4_the_label_leaves_a_pod_that_fails_before_another_gets_it() {
    let mut cluster = Cluster::strict(2);
    cluster.passes(1, false);
    assert_eq!(cluster.active_at_rest(), ["web-0"]);
    cluster.passes(0, false);
    cluster.wait(10);
    assert!(cluster.active_at_rest().is_empty());
    cluster.passes(1, true);
    cluster.wait(10);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
}

#[test]
fn d_a4_an_active_pod_stays_until_a_threshold_of_probes_failed_in_succession() {
    let mut cluster = Cluster::strict(2);
    cluster.policy.as_mut().unwrap().threshold = 3;
    cluster.settle();
    for (passes, active) in
        [(false, 0), (false, 0), (true, 0), (false, 0), (false, 0), (false, 1), (true, 1), (true, 1)]
    {
        cluster.passes(0, passes);
        cluster.wait(10);
        assert_eq!(cluster.active_at_rest(), [format!("web-{active}")]);
    }
}

#[test]
fn d_a5_of_two_that_pass_exactly_one_is_active() {
    assert_eq!(Cluster::strict(2).active_at_rest(), ["web-0"]);
}

#[test]
fn d_a6_without_a_period_the_next_probe_of_a_fissile_object_is_due_after_30_s() {
    let spec = parse(Group::Fissile, json!({ "activeProbe": { "app": { "tcpSocket": { "port": 80 } } } }));
    let mut cluster = Cluster { group: Group::Fissile, policy: spec.unwrap().active, ..Cluster::strict(2) };
    let due = SignedDuration::from_secs(30);
    assert_eq!(cluster.settle().wake_at, Some(Timestamp::UNIX_EPOCH + due));
    cluster.wait(29);
    assert!(cluster.designate().asks.is_empty());
    cluster.wait(1);
    assert_eq!(asked(&cluster.designate()), ["web-0", "web-1"]);
}

#[test]
fn d_a7_across_two_zones_exactly_one_pod_is_active() {
    let mut cluster = Cluster::strict(0);
    for zone in ["web-z0", "web-z1"] {
        let pod = example::pod(&example::set(zone), 0);
        cluster.passes.insert(pod.uid.clone(), true);
        cluster.pods.push(Arc::new(pod));
    }
    assert_eq!(cluster.active_at_rest(), ["web-z0-0"]);
}

#[test]
fn d_a8_another_pod_is_active_at_once_when_the_active_one_is_deleted() {
    let mut cluster = Cluster::strict(3);
    cluster.settle();
    cluster.edit(0, |pod| pod.terminating = true);
    let designation = cluster.designate();
    assert!(designation.removals[0].object().name == "web-0".into() && designation.addition.is_some());
    let mut gone = cluster.clone();
    gone.pods.remove(0);
    for mut cluster in [cluster, gone] {
        let designation = cluster.designate();
        cluster.carry_out(&designation);
        assert_eq!(cluster.labelled(), ["web-1"]);
    }
}

#[test]
fn d_a9_without_a_probe_labels_are_removed_and_nothing_is_probed() {
    let mut cluster = Cluster::strict(2);
    cluster.settle();
    cluster.policy = None;
    cluster.wait(100);
    let designation = cluster.settle();
    assert!(cluster.labelled().is_empty());
    assert_eq!((designation.active, designation.wake_at), (None, None));
    assert_eq!(designation.reason, ActiveReason::NoProbe);
}

fn outcome(
    cluster: &Cluster,
    ordinal: usize,
    check: ProbeCheck,
    result: Result<(), Arc<str>>,
) -> ProbeOutcome {
    let uid = cluster.pods[ordinal].uid.clone();
    ProbeOutcome { uid, container: "app".into(), check, at: cluster.now, result }
}

#[test]
fn d_a10_a_probe_that_hangs_holds_up_no_other_and_fails_when_it_times_out() {
    let mut cluster = Cluster::strict(2);
    cluster.settle();
    cluster.wait(10);
    let hanging = cluster.pods[0].uid.clone();
    cluster.probing.insert(hanging);
    assert_eq!(asked(&cluster.designate()), ["web-1"]);
    cluster.settle();
    assert_eq!(cluster.labelled(), ["web-0"]);
    cluster.probing.clear();
    cluster.count(&outcome(&cluster, 0, ProbeCheck::Tcp { port: 80 }, Err("timed out".into())));
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
}

#[test]
fn d_a5_the_outcome_of_a_check_that_was_asked_for_before_does_not_count() {
    for result in [Ok(()), Err("refused".into())] {
        let mut cluster = Cluster::strict(2);
        cluster.settle();
        // The policy changes while a probe is under way.
        let before = cluster.policy.clone().unwrap().check;
        cluster.policy.as_mut().unwrap().check = ProbeCheck::Tcp { port: 81 };
        cluster.probes.clear();
        cluster.count(&outcome(&cluster, 0, before.clone(), result.clone()));
        cluster.count(&outcome(&cluster, 1, before, result));
        assert_eq!(cluster.probes, BTreeMap::new());
        let asked = asked(&cluster.designate()).len();
        assert_eq!((cluster.labelled(), asked), (vec!["web-0"], 2));
        cluster.policy = None;
        cluster.count(&outcome(&cluster, 0, ProbeCheck::Tcp { port: 81 }, Ok(())));
        assert_eq!(cluster.probes, BTreeMap::new());
    }
}

#[test]
fn d_a11_a_probe_of_an_unknown_container_is_a_fault_of_the_spec() {
    let spec = parse(Group::StsPlus, json!({ "activeProbe": { "other": { "tcpSocket": { "port": 80 } } } }));
    assert_eq!(spec.unwrap_err(), Fault::UnknownContainer("other".to_owned()));
}

#[test]
fn d_a12_a_fissile_object_has_the_documented_label_on_exactly_one_pod() {
    let probe = json!({ "activeProbe": { "app": { "exec": { "command": ["true"] } } } });
    let spec = parse(Group::Fissile, probe).unwrap();
    let mut cluster = Cluster { group: Group::Fissile, policy: spec.active, ..Cluster::strict(3) };
    assert_eq!(cluster.active_at_rest(), ["web-0"]);
    assert_eq!(cluster.pods[0].label("fissile.cloudfoundry.org/pod-designation"), Some("active"));
}

#[test]
fn d_a13_a_service_that_selects_the_label_never_has_two_endpoints() {
    let mut cluster = Cluster::strict(3);
    cluster.settle();
    cluster.passes(0, false);
    cluster.wait(10);
    let asks = cluster.designate().asks;
    cluster.answer(&asks);
    let designation = cluster.designate();
    let mut endpoints = vec![cluster.labelled().join(" ")];
    for write in designation.removals.iter().chain(&designation.addition) {
        assert!(cluster.write(write));
        endpoints.push(cluster.labelled().join(" "));
    }
    assert_eq!(endpoints, ["web-0", "", "web-1"]);
}

#[test]
fn d_a14_an_active_pod_that_is_not_ready_loses_the_label_although_nobody_can_take_over() {
    let mut cluster = Cluster::strict(2);
    cluster.passes(1, false);
    cluster.settle();
    cluster.unready(0);
    assert!(cluster.active_at_rest().is_empty());
}

#[test]
fn d_fallback_is_the_first_ready_pod_and_stays_until_one_passes() {
    let mut cluster = Cluster::new(3, ActiveFallback::FirstRunning);
    (0..3).for_each(|ordinal| cluster.passes(ordinal, false));
    cluster.unready(0);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
    assert_eq!(cluster.settle().reason, ActiveReason::Fallback { pod: "web-1".into() });
    cluster.edit(0, |pod| pod.ready_since = Some(Timestamp::UNIX_EPOCH));
    cluster.wait(10);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
    cluster.passes(2, true);
    cluster.wait(10);
    assert_eq!(cluster.active_at_rest(), ["web-2"]);
}

#[test]
fn d_fallback_is_the_first_running_pod_where_none_is_ready() {
    let mut cluster = Cluster::new(3, ActiveFallback::FirstRunning);
    (0..3).for_each(|ordinal| cluster.unready(ordinal));
    cluster.edit(0, |pod| pod.running = false);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
    cluster.edit(1, |pod| pod.terminating = true);
    assert_eq!(cluster.active_at_rest(), ["web-2"]);
}

#[test]
fn d_nobody_is_chosen_by_fallback_before_every_ready_pod_has_been_probed() {
    let mut cluster = Cluster::new(2, ActiveFallback::FirstRunning);
    cluster.passes(0, false);
    let asks = cluster.designate().asks;
    cluster.answer(&asks[..1]);
    let designation = cluster.designate();
    assert_eq!(designation.reason, ActiveReason::Unprobed { pod: "web-1".into(), pods: 1 });
    assert_eq!(designation.addition, None);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
}

#[test]
fn d_a_restart_of_the_operator_keeps_the_active_pod() {
    for fallback in [ActiveFallback::None, ActiveFallback::FirstRunning] {
        let mut cluster = Cluster::new(3, fallback);
        cluster.passes(0, false);
        assert_eq!(cluster.active_at_rest(), ["web-1"]);
        let since = cluster.recorded.clone();
        cluster.wait(5);
        cluster.passes(0, true);
        cluster.probes.clear();
        let designation = cluster.designate();
        assert!(designation.removals.is_empty() && designation.addition.is_none());
        assert_eq!(cluster.active_at_rest(), ["web-1"]);
        assert_eq!(cluster.recorded, since);
    }
}

#[test]
fn d_a_clock_that_is_set_back_brings_one_probe_and_not_one_after_another() {
    let mut cluster = Cluster::strict(1);
    cluster.settle();
    cluster.wait(-300);
    let asks = cluster.designate().asks;
    assert_eq!(asks.len(), 1, "the last outcome is from the future");
    cluster.answer(&asks);
    let designation = cluster.designate();
    assert_eq!(designation.asks, []);
    assert_eq!(designation.wake_at, Some(later(cluster.now, SignedDuration::from_secs(10))));
}

#[test]
fn d_of_two_labelled_by_hand_the_recorded_one_stays() {
    let mut cluster = Cluster::strict(2);
    cluster.passes(0, false);
    cluster.settle();
    cluster.passes(0, true);
    cluster.wait(10);
    cluster.settle();
    cluster.label(0, keys::ACTIVE);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
    cluster.recorded = None;
    cluster.label(0, keys::ACTIVE);
    assert_eq!(cluster.active_at_rest(), ["web-0"]);
}

#[test]
fn d_a_label_of_another_value_makes_nobody_active_and_is_removed() {
    let mut cluster = Cluster::strict(2);
    cluster.label(1, "passive");
    assert_eq!(cluster.active_at_rest(), ["web-0"]);
    cluster.label(0, "passive");
    cluster.settle();
    assert_eq!(cluster.pods[0].label("sts.plus/pod-designation"), Some("active"));
}

#[test]
fn d_another_pod_of_the_recorded_name_is_another_pod() {
    let mut cluster = Cluster::strict(2);
    cluster.settle();
    cluster.wait(5);
    cluster.replace(0);
    assert_eq!(cluster.active_at_rest(), ["web-1"]);
    assert_eq!(cluster.recorded.as_ref().unwrap().since, cluster.now);
}

#[test]
fn d_an_outcome_that_is_too_old_makes_nobody_active() {
    let mut cluster = Cluster::strict(1);
    let asks = cluster.designate().asks;
    cluster.answer(&asks);
    cluster.wait(21);
    assert!(cluster.designate().addition.is_some());
    cluster.wait(1);
    assert_eq!(cluster.designate().addition, None);
}

#[test]
fn d_an_unconfirmed_view_adds_and_moves_no_label_but_removes_those_of_unready_pods() {
    let mut cluster = Cluster::new(2, ActiveFallback::FirstRunning);
    let asks = cluster.designate().asks;
    cluster.answer(&asks);
    cluster.doubt = true;
    let designation = cluster.designate();
    assert_eq!((designation.addition, designation.active), (None, None));
    assert_eq!(designation.reason, ActiveReason::Unconfirmed);

    cluster.doubt = false;
    cluster.settle();
    cluster.passes(0, false);
    cluster.wait(10);
    let asks = cluster.designate().asks;
    cluster.answer(&asks);
    cluster.doubt = true;
    let designation = cluster.designate();
    assert!(designation.removals.is_empty() && designation.addition.is_none());
    cluster.unready(0);
    let designation = cluster.designate();
    assert!(designation.removals.len() == 1 && designation.addition.is_none());
}

#[test]
fn d_only_the_addition_of_the_label_needs_a_confirmed_view_and_must_be_known() {
    for group in [Group::StsPlus, Group::Fissile] {
        let pod = example::pod(&example::set("web"), 0);
        let addition = Action::designate(&pod, "uid-extended", group);
        assert!(addition.needs_confirmed_view() && addition.must_be_known() && !addition.disrupts());
        let removal = Action::revoke_designation(&pod, "uid-extended", group);
        assert!(!removal.needs_confirmed_view() && !removal.must_be_known());
    }
}

#[derive(Clone, Debug)]
enum Event {
    Ready(usize, bool),
    Passes(usize, bool),
    Terminate(usize),
    Replace(usize),
    Label(usize),
    Restart,
    Doubt(bool),
    Wait(i64),
    Answer,
    /// A pass of the operator that crashes after so many writes.
    Work(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let pod = 0..3_usize;
    prop_oneof![
        2 => (pod.clone(), any::<bool>()).prop_map(|(pod, ready)| Event::Ready(pod, ready)),
        2 => (pod.clone(), any::<bool>()).prop_map(|(pod, passes)| Event::Passes(pod, passes)),
        1 => pod.clone().prop_map(Event::Terminate),
        1 => pod.clone().prop_map(Event::Replace),
        1 => pod.prop_map(Event::Label),
        1 => Just(Event::Restart),
        1 => prop::bool::weighted(0.3).prop_map(Event::Doubt),
        3 => (1..15_i64).prop_map(Event::Wait),
        4 => Just(Event::Answer),
        8 => (0..5_usize).prop_map(Event::Work),
    ]
}

/// Carries out at most so many writes, one by one, and checks who has the label after each.
fn work(cluster: &mut Cluster, crash_after: usize) {
    let designation = cluster.designate();
    let removed: Vec<_> = designation.removals.iter().map(|removal| removal.object().clone()).collect();
    if let Some(addition) = &designation.addition {
        assert!(!removed.contains(addition.object()), "removed and added again");
        assert!(!cluster.doubt, "added in doubt");
    }
    assert_eq!(designation.asks.len(), asked(&designation).iter().collect::<BTreeSet<_>>().len());
    let mut left = crash_after;
    for removal in &designation.removals {
        if left == 0 {
            return;
        }
        left -= 1;
        let before = cluster.labelled().len();
        assert!(cluster.write(removal));
        assert_eq!(cluster.labelled().len(), before - 1);
    }
    if left == 0 {
        return;
    }
    cluster.recorded.clone_from(&designation.active);
    if let Some(addition) = designation.addition.as_ref().filter(|_| left > 1) {
        let others = cluster.labelled().iter().any(|name| **name != *addition.object().name);
        assert!(!others, "another pod has the label");
        assert!(cluster.write(addition));
        assert_eq!(cluster.labelled().len(), 1);
    }
    assert!(cluster.labelled().len() <= 1, "two pods have the label after a whole pass");
}

#[test]
fn d_never_two_active_pods_in_random_histories_with_crashes_between_writes() {
    let config = Config {
        cases: HISTORIES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    let histories = (any::<bool>(), 1..4_u32, prop::collection::vec(event(), 0..60));
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&histories, |(falls_back, threshold, events)| {
        let fallback = if falls_back { ActiveFallback::FirstRunning } else { ActiveFallback::None };
        let mut cluster = Cluster::new(3, fallback);
        cluster.policy.as_mut().unwrap().threshold = threshold;
        for event in events {
            let labelled = cluster.labelled().len();
            let by_hand = matches!(event, Event::Label(_));
            match event {
                Event::Ready(pod, ready) => {
                    cluster.edit(pod, |pod| pod.ready_since = ready.then_some(Timestamp::UNIX_EPOCH));
                }
                Event::Passes(pod, passes) => cluster.passes(pod, passes),
                Event::Terminate(pod) => cluster.edit(pod, |pod| pod.terminating = true),
                Event::Replace(pod) => cluster.replace(pod),
                Event::Label(pod) => cluster.label(pod, keys::ACTIVE),
                Event::Restart => cluster.probes.clear(),
                Event::Doubt(doubt) => cluster.doubt = doubt,
                Event::Wait(seconds) => cluster.wait(seconds),
                Event::Answer => {
                    let asks = cluster.designate().asks;
                    cluster.answer(&asks);
                }
                Event::Work(crash_after) => work(&mut cluster, crash_after),
            }
            let now = cluster.labelled().len();
            assert!(now <= 1 || now <= labelled || by_hand, "{now} pods have the label");
        }
        // Once the accidents stop, a pod that can be active is.
        cluster.doubt = false;
        (0..3).for_each(|pod| cluster.replace(pod));
        assert_eq!(cluster.active_at_rest(), ["web-0"]);
        assert!(cluster.designate().removals.is_empty(), "it rests");
        Ok(())
    });
    outcome.unwrap();
}
