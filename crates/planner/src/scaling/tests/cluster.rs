//! A cluster reduced to what a ScalingPolicy touches: sets, pods, policies, the applications in the pods, and one clock. The
//! operator's part is in [`super::operate`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{PodRecord, ScalingPolicySpec, ScalingPolicyStatus};

use super::sizes::Storage;
use crate::example;
use crate::forecast::Objects;
use crate::ordinal;
use crate::plan::Note;
use crate::pod::{Phase, PodRow};
use crate::scaling::hook::{Call, HookOutcome, HookRequest};
use crate::scaling::lock::LockRow;
use crate::scaling::row::{ParsedSpec, ScalingRow};
use crate::scaling::template::{self, Lock};
use crate::set::{SetRow, Strategy};
use crate::statefulset::world::Management;

/// The revision that pods have at first.
pub(super) const OLD: &str = "web-old";
/// What the name of a revision has whose template has the lock.
pub(super) const LOCKED: &str = "-locked";
/// What it has besides where containers that exit restart all of their pod.
pub(super) const RULE: &str = "-rule";
/// The name of the lock.
pub(super) const LOCK: &str = "web-lock";
/// The revision of a changed template.
pub(super) const NEW: &str = "web-new";
/// The name of the set, and of its policy.
pub(super) const WEB: &str = "web";
/// When scenarios take place; pods have been Ready for an hour.
const START: i64 = 1_750_003_600;

/// How long a kubelet needs until a container that has exited runs again.
const RESTART: SignedDuration = SignedDuration::from_secs(1);

/// How an application answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// It accepts the call and is done after so many polls.
    After(u32),
    Fail(&'static str),
    /// It is done, and its container exits before it has answered.
    Exit,
    /// The answer does not come before the scenario lets it.
    Hang,
}

/// What is known of the application in a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct App {
    pub(super) restarts: i32,
    /// When its container has exited last.
    pub(super) exited: Option<Timestamp>,
    /// Whether it was called and has not been called off.
    pub(super) called: bool,
    /// Whether it has finished what it was called for, since its last start.
    pub(super) done: bool,
    pub(super) polls: u32,
}

/// API objects, applications, the operator's memory, and the time.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a test, independent of each other")]
pub(super) struct Cluster {
    pub(super) now: Timestamp,
    pub(super) objects: Objects,
    pub(super) spec: Value,
    /// By UID of the pod.
    pub(super) apps: BTreeMap<Box<str>, App>,
    /// How applications answer a call; [`Answer::Done`] where nothing is said.
    pub(super) answers: BTreeMap<Call, Answer>,
    /// Pods that do not become Ready.
    pub(super) stuck: BTreeSet<String>,
    /// The ConfigMaps of locks.
    pub(super) locks: Vec<LockRow>,
    /// A ConfigMap of this name that is somebody else's.
    pub(super) foreign_lock: Option<String>,
    /// The image of the init container of a lock.
    pub(super) lock_image: Option<Arc<str>>,
    /// Whether nodes declare that a container may restart all containers of its pod.
    pub(super) declared: bool,
    /// Pods that start whatever their lock says: the node is behind, or the pod ignores it.
    pub(super) unruly: BTreeSet<String>,
    /// Pods that the cache lacks.
    pub(super) unseen: BTreeSet<String>,
    /// Pods that have finished what they were called for, and have not served since.
    pub(super) drained: BTreeSet<String>,
    /// The claims, each with its UID.
    pub(super) claims: BTreeMap<String, String>,
    /// Sizes of claims, and how the set is created again.
    pub(super) storage: Storage,
    /// What becomes of claims when the set is scaled down.
    pub(super) when_scaled: Option<String>,
    pub(super) in_flight: Vec<(Timestamp, HookRequest)>,
    pub(super) outcomes: Vec<HookOutcome>,
    pub(super) polls_at: BTreeMap<Box<str>, Timestamp>,
    pub(super) unconfirmed: bool,
    /// Whether pods cannot be read.
    pub(super) unreadable: bool,
    /// Who has written the replicas, other than us.
    pub(super) foreign: Option<String>,
    /// Writes until the operator dies.
    pub(super) dies_after: Option<usize>,
    pub(super) wake_at: Option<Timestamp>,
    /// What happened, one line each.
    pub(super) trace: Vec<String>,
    pub(super) announced: Vec<Note>,
    /// Calls of each kind, and restarts of pods by anyone.
    pub(super) calls: BTreeMap<Call, usize>,
    pub(super) created: usize,
    pub(super) writes_made: usize,
    /// Whether pods may be removed undrained.
    pub(super) forced: bool,
    pub(super) removed: usize,
}

impl Deref for Cluster {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

/// A hook over HTTP that can be called off; with `status` it is polled.
pub(super) fn http(polled: bool) -> Value {
    let mut http = json!({
        "path": "/shutdown",
        "port": "http",
        "cancel": { "path": "/shutdown" },
    });
    if polled {
        http["status"] = json!({ "path": "/state", "jsonPointer": "/state", "equals": "drained" });
    }
    json!({ "http": http, "deadlineSeconds": 600 })
}

/// The fixture: the set `web` of so many pods, all well, and a policy for as many that has taken it.
pub(super) fn with(replicas: u32, polled: bool) -> Cluster {
    let mut cluster =
        untaken(replicas, json!({ "scaleDown": { "hook": http(polled) }, "replicas": replicas }));
    cluster.run();
    cluster.forget();
    cluster
}

/// The same before the policy has taken the set.
pub(super) fn untaken(replicas: u32, spec: Value) -> Cluster {
    let mut cluster = Cluster {
        now: Timestamp::from_second(START).unwrap(),
        objects: Objects::default(),
        spec: json!({ "targetRef": { "name": WEB } }),
        apps: BTreeMap::new(),
        answers: BTreeMap::new(),
        stuck: BTreeSet::new(),
        locks: Vec::new(),
        foreign_lock: None,
        lock_image: Some("registry.example/sts-plus:1".into()),
        declared: false,
        unruly: BTreeSet::new(),
        unseen: BTreeSet::new(),
        drained: BTreeSet::new(),
        claims: BTreeMap::new(),
        storage: Storage::default(),
        when_scaled: None,
        in_flight: Vec::new(),
        outcomes: Vec::new(),
        polls_at: BTreeMap::new(),
        unconfirmed: false,
        unreadable: false,
        foreign: None,
        dies_after: None,
        wake_at: None,
        trace: Vec::new(),
        announced: Vec::new(),
        calls: BTreeMap::new(),
        created: 0,
        writes_made: 0,
        forced: false,
        removed: 0,
    };
    cluster.create_set(WEB, replicas, None);
    let Value::Object(fields) = spec else { unreachable!("a spec is an object") };
    for (key, value) in fields {
        cluster.spec[key] = value;
    }
    let row = policy(WEB, &cluster.spec, cluster.now);
    cluster.policies.push(row);
    cluster
}

pub(super) fn policy(name: &str, spec: &Value, created: Timestamp) -> ScalingRow {
    ScalingRow {
        namespace: example::NAMESPACE.into(),
        name: name.into(),
        uid: format!("uid-policy-{name}").into(),
        resource_version: "1".into(),
        generation: 1,
        created,
        deleting: false,
        finalizers: Vec::new(),
        controller: "".into(),
        created_for: None,
        spec: parsed(spec),
        status: ScalingPolicyStatus::default(),
    }
}

pub(super) fn parsed(spec: &Value) -> ParsedSpec {
    match serde_json::from_value::<ScalingPolicySpec>(spec.clone()) {
        Ok(spec) => ParsedSpec::of(&spec),
        Err(error) => ParsedSpec::unreadable(error.to_string()),
    }
}

/// Given, and what somebody else does.
impl Cluster {
    pub(super) fn create_set(&mut self, name: &str, replicas: u32, group: Option<&str>) {
        let set = SetRow {
            replicas,
            group: group.map(Into::into),
            strategy: Strategy::RollingUpdate { partition: 0 },
            current_revision: Some(OLD.into()),
            update_revision: Some(OLD.into()),
            ..example::set(name)
        };
        self.templates.insert(Arc::clone(&set.uid), OLD.to_owned());
        self.management.insert(Arc::clone(&set.uid), Management::Parallel);
        for ordinal in set.ordinals() {
            let mut pod = self.objects.new_pod(&set, ordinal, OLD);
            (pod.phase, pod.running) = (Phase::Running, true);
            pod.ready_since = Timestamp::from_second(START - 3600).ok();
            self.pods.push(pod);
        }
        self.sets.push(set);
    }

    /// The user changes the spec of the policy.
    pub(super) fn respec(&mut self, pointer: &str, value: Value) {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let at = if parent.is_empty() { Some(&mut self.spec) } else { self.spec.pointer_mut(parent) };
        at.unwrap()[key] = value;
        let spec = parsed(&self.spec);
        self.change_policy(|row| {
            row.spec = spec;
            row.generation += 1;
        });
    }

    pub(super) fn scale(&mut self, replicas: u32) {
        self.respec("/replicas", json!(replicas));
    }

    pub(super) fn change_policy(&mut self, change: impl FnOnce(&mut ScalingRow)) {
        let version = self.objects.next_version();
        let Some(row) = self.policies.iter_mut().find(|row| &*row.name == WEB) else { return };
        change(row);
        row.resource_version = version;
        self.policies.retain(|row| !row.deleting || !row.finalizers.is_empty());
    }

    pub(super) fn delete_policy(&mut self) {
        self.change_policy(|row| row.deleting = true);
    }

    pub(super) fn change_set(&mut self, name: &str, change: impl FnOnce(&mut SetRow)) {
        let version = self.objects.next_version();
        let set = self.sets.iter_mut().find(|set| &*set.name == name).expect("a set");
        change(set);
        set.resource_version = version;
    }

    /// Somebody else writes the replicas of the set.
    pub(super) fn scale_set(&mut self, replicas: u32, manager: &str) {
        self.foreign = Some(manager.to_owned());
        self.change_set(WEB, |set| {
            set.replicas = replicas;
            set.generation += 1;
        });
    }

    /// The set gets another template.
    pub(super) fn edit(&mut self, revision: &str) {
        self.change_set(WEB, |set| set.generation += 1);
        let uid = Arc::clone(&self.set().uid);
        self.templates.insert(uid, revision.to_owned());
    }

    pub(super) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut PodRow)) {
        self.objects.change_pod(example::NAMESPACE, name, change);
    }

    /// The container of a pod is restarted in place: what it was called for is lost.
    pub(super) fn restart(&mut self, name: &str) {
        let (uid, now) = (self.pod(name).uid.clone(), self.now);
        let app = self.apps.entry(uid).or_default();
        *app = App { restarts: app.restarts + 1, exited: Some(now), ..App::default() };
        self.drained.remove(name);
        self.change_pod(name, |_| {});
    }

    /// The container of a pod exits: where it has the rule all its containers are restarted, the lock first, and otherwise it
    /// is restarted in place.
    pub(super) fn exit(&mut self, name: &str) {
        let (pod, now) = (self.pod(name).clone(), self.now);
        let app = self.apps.entry(pod.uid.clone()).or_default();
        *app = App { restarts: app.restarts + 1, exited: Some(now), ..App::default() };
        self.trace.push(format!("exit {name}"));
        let restarts_all = pod.revision.as_deref().is_some_and(|revision| revision.contains(RULE));
        self.change_pod(name, |pod| {
            pod.ready_since = None;
            if restarts_all {
                (pod.phase, pod.running) = (Phase::Pending, false);
            }
        });
    }

    /// A pod is deleted, and is gone.
    pub(super) fn kill(&mut self, name: &str) {
        self.objects.pods.retain(|pod| &*pod.name != name);
    }
}

/// What there is.
impl Cluster {
    pub(super) fn set(&self) -> &SetRow {
        self.sets.iter().find(|set| &*set.name == WEB).expect("the set")
    }

    pub(super) fn row(&self) -> &ScalingRow {
        self.policies.iter().find(|row| &*row.name == WEB).expect("the policy")
    }

    pub(super) fn status(&self) -> &ScalingPolicyStatus {
        &self.row().status
    }

    pub(super) fn record(&self, ordinal: u32) -> &PodRecord {
        let found = self.status().leaving.iter().find(|record| record.ordinal == ordinal);
        found.unwrap_or_else(|| panic!("a record of {ordinal}:\n{self}"))
    }

    pub(super) fn pod(&self, name: &str) -> &PodRow {
        self.pods.iter().find(|pod| &*pod.name == name).unwrap_or_else(|| panic!("pod {name}:\n{self}"))
    }

    pub(super) fn app(&self, name: &str) -> App {
        self.apps.get(&self.pod(name).uid).cloned().unwrap_or_default()
    }

    pub(super) fn uids(&self) -> BTreeMap<Box<str>, Box<str>> {
        self.pods.iter().map(|pod| (pod.name.clone(), pod.uid.clone())).collect()
    }

    /// The reason and the message of Ready.
    pub(super) fn state(&self) -> (&str, &str) {
        let mut conditions = self.status().conditions.iter();
        let ready = conditions.find(|condition| condition.kind == "Ready").expect("a condition Ready");
        (&ready.reason, &ready.message)
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.status().conditions.iter().any(|condition| condition.kind == "Stalled")
    }

    /// The messages of the events with a reason.
    pub(super) fn events(&self, reason: &str) -> Vec<&str> {
        let of = self.announced.iter().filter(|note| note.reason == reason);
        of.map(|note| &*note.message).collect()
    }

    pub(super) fn called(&self, call: Call) -> usize {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// Forgets what has happened so far.
    pub(super) fn forget(&mut self) {
        self.trace.clear();
        self.announced.clear();
        self.calls.clear();
        (self.created, self.removed) = (0, 0);
    }

    /// The lines about calls and replicas, in order.
    pub(super) fn story(&self) -> Vec<&str> {
        let is_told = |line: &&String| line.starts_with("call") || line.starts_with("replicas");
        self.trace.iter().filter(is_told).map(String::as_str).collect()
    }

    /// A pod as the API server has it.
    pub(super) fn live(&self, name: &str) -> Option<Value> {
        let pod = self.pods.iter().find(|pod| &*pod.name == name)?;
        let (restarts, exited) = self.apps.get(&pod.uid).map_or((0, None), |app| (app.restarts, app.exited));
        let last = exited.map_or(json!({}), |at| json!({ "terminated": { "finishedAt": at } }));
        let started = exited.map_or(self.now - SignedDuration::from_hours(1), |at| at + RESTART);
        let state = if pod.running {
            json!({ "running": { "startedAt": started } })
        } else {
            json!({ "waiting": {} })
        };
        let spec = Self::pod_spec(pod.revision.as_deref().unwrap_or_default());
        let lock =
            if pod.running { json!({ "terminated": { "exitCode": 0 } }) } else { json!({ "running": {} }) };
        let truth = if pod.ready() { "True" } else { "False" };
        let mut value = json!({
            "metadata": {
                "name": name,
                "uid": pod.uid,
                "resourceVersion": pod.resource_version,
                "ownerReferences": [{ "controller": true, "uid": pod.owner, "kind": "StatefulSet" }],
            },
            "spec": spec,
            "status": {
                "podIP": "10.0.0.7",
                "conditions": [{ "type": "Ready", "status": truth }],
                "initContainerStatuses": [{ "name": keys::LOCK, "state": lock }],
                "containerStatuses": [{ "name": "app", "restartCount": restarts, "state": state, "lastState": last }],
            },
        });
        if pod.terminating {
            value["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        }
        Some(value)
    }

    /// The pod spec of a revision: that of the user, and the lock where the name says so.
    fn pod_spec(revision: &str) -> Value {
        let containers = json!([{ "name": "app", "ports": [{ "name": "http", "containerPort": 8080 }], "image": "app:1" }]);
        let user = json!({ "containers": containers, "initContainers": [{ "name": "prepare" }] });
        let set = json!({ "spec": { "template": { "spec": user } } });
        if !revision.contains(LOCKED) {
            return user;
        }
        let lock = Lock {
            image: "registry.example/sts-plus:1",
            config_map: LOCK,
            restarts_all: revision.contains(RULE),
        };
        template::with_lock(&set, &lock).pointer("/spec/template/spec").unwrap().clone()
    }

    /// What a write makes of the template of the set; the name of its revision.
    pub(super) fn templated(&self, body: &Value) -> String {
        let set = self.set();
        let mut name = self.objects.template_of(set).replace(LOCKED, "").replace(RULE, "");
        if template::has_lock(body, LOCK) {
            name.push_str(LOCKED);
            let containers = body.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
            if containers.iter().all(template::has_rules) {
                name.push_str(RULE);
            }
        } else {
            assert!(template::is_free(body), "{body}");
        }
        assert_eq!(
            body.pointer("/spec/template/spec/containers"),
            Self::pod_spec(&name).get("containers"),
            "nothing of the user's is changed"
        );
        name
    }

    /// Gives each pod a claim.
    pub(super) fn claim(&mut self) {
        for pod in self.objects.pods.clone() {
            self.claims.insert(format!("data-{}", pod.name), format!("uid-data-{}", pod.name));
        }
    }

    pub(super) fn live_claim(&self, name: &str) -> Option<Value> {
        let uid = self.claims.get(name)?;
        let labels: BTreeMap<&str, &str> =
            self.set().template_labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        let mut claim =
            json!({ "metadata": { "name": name, "uid": uid, "resourceVersion": "1", "labels": labels } });
        self.storage.describe(name, &mut claim);
        Some(claim)
    }

    /// The set as the API server has it.
    pub(super) fn live_set(&self) -> Value {
        let replicas = json!({ "f:spec": { "f:replicas": {} } });
        let ours =
            json!({ "manager": "sts-plus/scaling", "time": "2025-06-15T16:00:00Z", "fieldsV1": replicas });
        let foreign = self.foreign.as_ref().map(|manager| {
            json!({ "manager": manager, "time": "2025-06-15T16:10:00Z", "subresource": "scale", "fieldsV1": replicas })
        });
        let entries: Vec<_> = std::iter::once(ours).chain(foreign).collect();
        let set = self.set();
        let labels: BTreeMap<&str, &str> =
            set.template_labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        json!({
            "metadata": {
                "name": set.name,
                "namespace": set.namespace,
                "uid": set.uid,
                "managedFields": entries,
                "resourceVersion": set.resource_version,
                "generation": set.generation,
                "annotations": { "note": self.storage.note },
            },
            "spec": {
                "replicas": set.replicas,
                "selector": { "matchLabels": labels },
                "template": { "spec": Self::pod_spec(self.objects.template_of(set)) },
                "volumeClaimTemplates": [self.storage.template()],
                "persistentVolumeClaimRetentionPolicy": { "whenScaled": self.when_scaled },
            },
        })
    }

    pub(super) fn ordinal(&self, pod: &str) -> Option<u32> {
        ordinal::of_pod(pod, &self.set().name)
    }

    pub(super) fn pass_time(&mut self, seconds: i64) {
        self.now = self.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for set in &self.sets {
            let leaving = set.steering.leaving.as_deref().unwrap_or_default();
            writeln!(f, "  {} x{} leaving [{leaving}]", set.name, set.replicas)?;
        }
        for pod in &self.pods {
            let app = self.apps.get(&pod.uid);
            writeln!(f, "  {} {:?} ready {} {app:?}", pod.name, pod.revision, pod.ready())?;
        }
        for row in &self.policies {
            writeln!(
                f,
                "  policy {} wants {:?}",
                row.name,
                row.spec.policy.as_ref().map(|spec| spec.replicas)
            )?;
            for record in row.status.leaving.iter().chain(&row.status.joining) {
                writeln!(f, "    {record:?}")?;
            }
            for condition in &row.status.conditions {
                writeln!(
                    f,
                    "    {} {:?} {} {}",
                    condition.kind, condition.status, condition.reason, condition.message
                )?;
            }
        }
        write!(f, "  {} at {}", self.trace.join(", "), self.now)
    }
}
