//! The ScalingPolicies of a [`Cluster`] and their controller, by the real decisions, with applications that answer as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{RecordPhase, ScalingPolicyStatus};

use super::cluster::Cluster;
use super::rows::{merge, ordinal};
use crate::health::Member;
use crate::plan::{Action, Ask, Kind, Verb};
use crate::scaling;
use crate::scaling::hook::{Call, HookOutcome, HookRequest, HookResult};
use crate::scaling::row::{ParsedSpec, ScalingRow};

/// Passes of the controller of ScalingPolicies between two of the others.
const PASSES: usize = 3;

/// How the application in a pod answers; nothing while it does not.
pub(super) type Answers = fn(pod: &str, call: Call) -> Option<HookResult>;

/// The ScalingPolicies, and what happens because of them.
#[derive(Clone)]
pub(super) struct Scaling {
    pub(super) policies: BTreeMap<String, (ScalingRow, Value)>,
    pub(super) answers: Answers,
    outcomes: BTreeMap<String, Vec<HookOutcome>>,
    polls_at: BTreeMap<Box<str>, Timestamp>,
    /// Whether the controller of ScalingPolicies runs.
    pub(super) runs: bool,
    /// The pods that were told to prepare, in order.
    pub(super) prepared: Vec<String>,
    /// The pods that were removed because fewer are asked for, in order.
    pub(super) removed: Vec<String>,
    /// The pods that were replaced, in order.
    pub(super) restarts: Vec<String>,
    /// The UIDs of the pods that are prepared.
    done: BTreeSet<Box<str>>,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            policies: BTreeMap::new(),
            answers: |_, _| Some(HookResult::Done),
            outcomes: BTreeMap::new(),
            polls_at: BTreeMap::new(),
            runs: true,
            prepared: Vec::new(),
            removed: Vec::new(),
            restarts: Vec::new(),
            done: BTreeSet::new(),
        }
    }
}

impl Scaling {
    pub(super) fn live(&self, name: &str) -> Option<Value> {
        self.policies.get(name).map(|(_, live)| live.clone())
    }

    /// Forgets what has happened so far.
    pub(super) fn forget(&mut self) {
        self.prepared.clear();
        self.removed.clear();
        self.restarts.clear();
    }
}

fn row_of(name: &str, live: &Value, version: &str, status: ScalingPolicyStatus) -> ScalingRow {
    let metadata = &live["metadata"];
    let owner = &metadata["ownerReferences"][0];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let spec = serde_json::from_value(live["spec"].clone());
    let label = |group: sts_plus_api::extended::Group| {
        Some((group, metadata["labels"][&group.key(keys::EXTENDED_NAME)].as_str()?.into()))
    };
    ScalingRow {
        namespace: "ns".into(),
        name: name.into(),
        uid: metadata["uid"].as_str().unwrap().into(),
        resource_version: version.into(),
        generation: metadata["generation"].as_i64().unwrap(),
        created: Timestamp::UNIX_EPOCH,
        deleting: metadata.get("deletionTimestamp").is_some(),
        finalizers: finalizers.map(|finalizer| finalizer.as_str().unwrap().to_owned()).collect(),
        controller: owner["uid"].as_str().unwrap_or_default().into(),
        created_for: sts_plus_api::extended::Group::ALL.into_iter().find_map(label),
        spec: spec
            .map_or_else(|error| ParsedSpec::unreadable(error.to_string()), |spec| ParsedSpec::of(&spec)),
        status,
    }
}

/// The API server.
impl Cluster {
    pub(super) fn policies(&self) -> Vec<Arc<ScalingRow>> {
        self.scaling.policies.values().map(|(row, _)| Arc::new(row.clone())).collect()
    }

    pub(super) fn policy(&self, name: &str) -> &ScalingRow {
        &self.scaling.policies[name].0
    }

    /// The number that a ScalingPolicy asks for.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.policy(name).spec.policy.as_ref().unwrap().replicas
    }

    /// Somebody creates a ScalingPolicy.
    pub(super) fn create_policy(&mut self, name: &str, body: &Value) {
        let version = self.next_version();
        let mut live = body.clone();
        live["metadata"]["uid"] = json!(format!("uid-{name}-{version}"));
        live["metadata"]["generation"] = json!(1);
        live["metadata"]["resourceVersion"] = json!(version);
        let row = row_of(name, &live, &version, ScalingPolicyStatus::default());
        assert!(self.scaling.policies.insert(name.to_owned(), (row, live)).is_none(), "{name} exists");
    }

    /// Somebody changes a ScalingPolicy.
    pub(super) fn merge_policy(&mut self, name: &str, patch: &Value) {
        let version = self.next_version();
        let (row, live) = self.scaling.policies.get_mut(name).unwrap();
        let spec = live["spec"].clone();
        merge(live, patch);
        live["metadata"]["resourceVersion"] = json!(version);
        if live["spec"] != spec {
            live["metadata"]["generation"] = json!(row.generation + 1);
        }
        *row = row_of(name, live, &version, row.status.clone());
        self.scaling.policies.retain(|_, (row, _)| !row.deleting || !row.finalizers.is_empty());
    }

    pub(super) fn delete_policy(&mut self, name: &str) {
        self.merge_policy(name, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    }

    pub(super) fn write_policy(&mut self, action: &Action, version: Box<str>) {
        let name = action.object().name.to_string();
        if let Some((row, _)) = self.scaling.policies.get(&name) {
            assert_eq!(action.precondition().uid, row.uid.as_ref().into(), "{action:?}");
            assert_eq!(action.precondition().resource_version, Some(row.resource_version.clone()));
        }
        let verb = match action.verb() {
            Verb::Create { body, .. } => {
                self.create_policy(&name, body);
                "create"
            }
            Verb::Merge { body, .. } => {
                self.merge_policy(&name, body);
                "merge"
            }
            Verb::Delete => {
                self.delete_policy(&name);
                "delete"
            }
            Verb::ReplaceStatus { status, .. } => {
                let (row, live) = self.scaling.policies.get_mut(&name).unwrap();
                row.status = serde_json::from_value(status.clone()).unwrap();
                live["metadata"]["resourceVersion"] = json!(version);
                row.resource_version = version;
                return;
            }
            verb => panic!("not expected: {verb:?}"),
        };
        self.log.push(format!("{verb} policy {name}"));
    }

    /// A set whose pods are to be prepared is not removed while it has any.
    pub(super) fn may_delete_set(&self, name: &str) {
        let Ok(spec) = &self.row.spec else { return };
        if spec.rules.as_ref().is_none_or(|rules| !rules.prepares) {
            return;
        }
        let (set, _) = &self.sets[name];
        let pods: Vec<_> =
            self.pods.values().filter(|pod| pod.owner == set.uid).map(|pod| &pod.name).collect();
        assert!(set.replicas == 0 && pods.is_empty(), "{name} is removed with {pods:?}: {:#?}", self.log);
    }
}

/// The controller of ScalingPolicies, and the applications.
impl Cluster {
    /// Passes of the controller of ScalingPolicies, each of so many writes at most; whether anything has happened.
    pub(super) fn scale_all(&mut self, most: usize) -> bool {
        let mut moved = false;
        for _ in 0..PASSES {
            let names: Vec<_> = self.scaling.policies.keys().cloned().collect();
            if !self.scaling.runs {
                return false;
            }
            for name in &names {
                moved |= self.scaling.policies.contains_key(name) && self.scale_one(name, most);
            }
        }
        moved
    }

    fn member(&self, name: &str) -> Option<Member> {
        let (set, _) = self.sets.get(name)?;
        Some(Member::new(Arc::new(set.clone()), self.pods.values().cloned().map(Arc::new)))
    }

    fn scaling_world(&self, name: &str) -> scaling::World {
        let row = self.policy(name).clone();
        let target = row.target().and_then(|target| self.member(target));
        let group = target.as_ref().and_then(|member| member.set.group.clone());
        let neighbours = self.sets.iter().filter(|(other, (set, _))| {
            Some(&***other) != row.target() && group.is_some() && set.group == group
        });
        let neighbours: Vec<_> = neighbours.filter_map(|(other, _)| self.member(other)).collect();
        let others = self.scaling.policies.values().map(|(other, _)| other);
        let others = others.filter(|other| other.name != row.name && other.target() == row.target());
        scaling::World {
            others: others.cloned().map(Arc::new).collect(),
            group_sets: neighbours.len() + 1,
            target,
            neighbours,
            reads: BTreeMap::new(),
            unread: BTreeSet::new(),
            locks: Vec::new(),
            lock_image: None,
            declared: None,
            hooked: self.scaling.outcomes.get(name).cloned().unwrap_or_default(),
            hooking: BTreeSet::new(),
            polls_at: self.scaling.polls_at.clone(),
            unconfirmed: None,
            refused: None,
            row: Arc::new(row),
        }
    }

    fn scale_one(&mut self, name: &str, most: usize) -> bool {
        self.now += jiff::SignedDuration::from_millis(1);
        let mut world = self.scaling_world(name);
        self.scaling.outcomes.remove(name);
        let made = loop {
            let made = scaling::plan(&world, self.now);
            world.hooked.clear();
            let asked = made.plan.asks.iter().filter_map(|ask| match ask {
                Ask::Read(object) if !world.reads.contains_key(object) => Some(object.clone()),
                _ => None,
            });
            let asked: Vec<_> = asked.collect();
            if asked.is_empty() {
                break made;
            }
            for object in asked {
                let found = match object.kind {
                    Kind::Pod => self.live_pod(&object.name),
                    _ => self.sets.get(&*object.name).map(|(set, live)| {
                        let mut live = live.clone();
                        live["metadata"]["resourceVersion"] = json!(set.resource_version);
                        live
                    }),
                };
                world.reads.insert(object, found);
            }
        };
        let writes: Vec<_> = made.plan.writes().cloned().collect();
        let count = writes.len().min(most);
        for write in &writes[..count] {
            self.before_scaling(name, write);
            let is_accepted = write.object().kind != Kind::StatefulSet || self.accepts(write);
            assert!(is_accepted, "the plan was made for this very state: {write:?}");
            self.apply(write);
        }
        if count < writes.len() {
            return true;
        }
        self.scaling.polls_at.clone_from(&made.polls_at);
        let mut moved = count > 0;
        for ask in &made.plan.asks {
            if let Ask::Hook(request) = ask {
                moved |= self.call(name, request);
            }
        }
        moved
    }

    /// Whether and when the application in a pod was called is known when its set is made smaller.
    fn before_scaling(&mut self, name: &str, write: &Action) {
        let Verb::Merge { body, manager, .. } = write.verb() else { return };
        if write.object().kind != Kind::StatefulSet {
            return;
        }
        assert_eq!(*manager, keys::MANAGER_SCALING);
        let Some(replicas) = body.pointer("/spec/replicas").and_then(Value::as_u64) else { return };
        let replicas = u32::try_from(replicas).unwrap();
        let (set, policy) = (self.sets[name].0.clone(), self.policy(name));
        let is_hooked = policy.spec.policy.as_ref().unwrap().down.is_some();
        for ordinal in (replicas..set.replicas).rev() {
            let pod = format!("{name}-{ordinal}");
            let record = policy.status.leaving.iter().find(|record| record.ordinal == ordinal).unwrap();
            assert_eq!(record.phase, RecordPhase::Drained, "{pod}");
            let uid = self.pods.get(&pod).map(|pod| &pod.uid);
            let is_done = uid.is_none_or(|uid| self.scaling.done.contains(uid));
            let is_forced = record.deadline_exceeded && record.drained_time.is_none();
            assert!(is_done || !is_hooked || is_forced, "{pod} is not prepared");
        }
        self.scaling
            .removed
            .extend((replicas..set.replicas).rev().map(|ordinal| format!("{name}-{ordinal}")));
    }

    fn call(&mut self, policy: &str, request: &HookRequest) -> bool {
        let pod = request.pod.name.to_string();
        assert_eq!(ordinal(&pod), request.ordinal);
        let Some(result) = (self.scaling.answers)(&pod, request.call) else { return false };
        if request.call == Call::Prepare && self.scaling.prepared.last() != Some(&pod) {
            self.scaling.prepared.push(pod);
        }
        match (&result, request.call) {
            (HookResult::Done, Call::Cancel) => drop(self.scaling.done.remove(&request.uid)),
            (HookResult::Done, _) => drop(self.scaling.done.insert(request.uid.clone())),
            _ => {}
        }
        let outcome = HookOutcome {
            uid: request.uid.clone(),
            call: request.call,
            hash: Arc::clone(&request.hook.hash),
            at: self.now,
            ended: self.now,
            result,
        };
        self.scaling.outcomes.entry(policy.to_owned()).or_default().push(outcome);
        true
    }

    fn live_pod(&self, name: &str) -> Option<Value> {
        let pod = self.pods.get(name)?;
        let state = if pod.running { json!({ "running": {} }) } else { json!({ "waiting": {} }) };
        Some(json!({
            "metadata": { "uid": pod.uid, "ownerReferences": [{ "controller": true, "uid": pod.owner }] },
            "spec": { "containers": [{ "name": "app", "ports": [{ "name": "http", "containerPort": 8080 }] }] },
            "status": { "podIP": "10.0.0.7", "containerStatuses": [{ "name": "app", "restartCount": 0, "state": state }] },
        }))
    }
}
