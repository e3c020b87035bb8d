//! The API server of a forecast: rows, and what a write of a plan makes of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::keys;

use crate::ordinal;
use crate::phased_rollout::row::RolloutRow;
use crate::plan::{Action, Kind, Verb};
use crate::pod::{ClaimVolume, Phase, PodRow};
use crate::scaling::row::ScalingRow;
use crate::selector::Labels;
use crate::set::{SetRow, Strategy};
use crate::statefulset::world::{Counts, Management};

/// The objects that a forecast runs over.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub sets: Vec<SetRow>,
    pub pods: Vec<PodRow>,
    pub rollouts: Vec<RolloutRow>,
    /// The ScalingPolicies, for which a forecast does not plan.
    pub policies: Vec<ScalingRow>,
    /// The revision that each set's present template has, by the set's UID. A set without an entry has the template of its
    /// update revision.
    pub templates: BTreeMap<Arc<str>, String>,
    /// How the pods of each set are created and removed, by the set's UID: one after the other for a set without an entry.
    pub management: BTreeMap<Arc<str>, Management>,
    /// The counts in the status of each set, by the set's UID.
    pub(super) counts: BTreeMap<Arc<str>, Counts>,
    /// The writes so far: the latest resourceVersion, and a part of the next UID.
    pub writes: u64,
}

/// Why a write was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The object does not exist.
    NotFound,
    /// An object of that name exists already.
    AlreadyExists,
    /// It is another object, or another version of it, than the write insists on.
    Conflict,
    /// What is to be stored cannot be read.
    Invalid(String),
    /// Nobody writes this in a forecast.
    Unsupported,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("the object does not exist"),
            Self::AlreadyExists => f.write_str("an object of this name exists already"),
            Self::Conflict => {
                f.write_str("the object is not the one, or not the version, that was looked at")
            }
            Self::Invalid(error) => write!(f, "the object would be invalid: {error}"),
            Self::Unsupported => f.write_str("this kind of write is not part of a forecast"),
        }
    }
}

impl Objects {
    /// Does what a write asks for, if its precondition holds.
    pub fn apply(&mut self, action: &Action) -> Result<(), Refused> {
        let version = self.next_version();
        match action.object().kind {
            Kind::Pod => self.write_pod(action, version),
            Kind::StatefulSet => self.write_set(action, version),
            Kind::PhasedRollout => self.write_rollout(action, version),
            Kind::ScalingPolicy => self.write_policy(action, version),
            Kind::Claim
            | Kind::Revision
            | Kind::Event
            | Kind::Lease
            | Kind::Secret
            | Kind::Extended
            | Kind::FissileExtended
            | Kind::Service
            | Kind::ConfigMap
            | Kind::Other(_) => Err(Refused::Unsupported),
        }
    }

    /// The version of the next write.
    pub fn next_version(&mut self) -> Box<str> {
        self.writes += 1;
        // A server's versions are numbers: none of these is taken for one of a row that was copied.
        format!("v{}", self.writes).into()
    }

    /// Changes a pod as its kubelet does; nothing where there is no pod of this name.
    pub fn change_pod(&mut self, namespace: &str, name: &str, change: impl FnOnce(&mut PodRow)) {
        let version = self.next_version();
        let mut pods = self.pods.iter_mut();
        if let Some(pod) = pods.find(|pod| *pod.name == *name && *pod.namespace == *namespace) {
            change(pod);
            pod.resource_version = version;
        }
    }

    /// A pod as the controller of its set creates it: not started.
    pub fn new_pod(&mut self, set: &SetRow, ordinal: u32, revision: &str) -> PodRow {
        let (version, name) = (self.next_version(), format!("{}-{ordinal}", set.name));
        PodRow {
            namespace: Arc::clone(&set.namespace),
            uid: format!("uid-{name}-{version}").into(),
            name: name.into(),
            resource_version: version,
            owner: Arc::clone(&set.uid),
            revision: Some(revision.into()),
            labels: Arc::new(set.template_labels.clone()),
            phase: Phase::Pending,
            ready_since: None,
            terminating: false,
            waiting: None,
            terminated_restarts: None,
            running: false,
            named: true,
            numbered: false,
            ip: None,
            zones: None,
            volumes: Arc::default(),
        }
    }

    fn write_pod(&mut self, action: &Action, version: Box<str>) -> Result<(), Refused> {
        let object = action.object();
        let found = |pod: &&mut PodRow| pod.name == object.name && pod.namespace == object.namespace;
        let Some(pod) = self.pods.iter_mut().find(found) else {
            return self.create_pod(action);
        };
        match action.verb() {
            Verb::Create { .. } => return Err(Refused::AlreadyExists),
            verb => {
                check(action, &pod.uid, &pod.resource_version)?;
                match verb {
                    Verb::Delete => pod.terminating = true,
                    Verb::StrategicMerge { body, .. } => merge_pod(pod, action.owner(), body),
                    _ => return Err(Refused::Unsupported),
                }
            }
        }
        pod.resource_version = version;
        Ok(())
    }

    fn create_pod(&mut self, action: &Action) -> Result<(), Refused> {
        let Verb::Create { body, .. } = action.verb() else { return Err(Refused::NotFound) };
        let owned = |set: &&SetRow| *set.uid == *action.owner();
        let set = self.sets.iter().find(owned).ok_or(Refused::NotFound)?.clone();
        let ordinal = ordinal::of_pod(&action.object().name, &set.name)
            .ok_or_else(|| Refused::Invalid(format!("{} is not a pod of a set", action.object().name)))?;
        let mut labels = labels_of(body);
        let revision = labels.remove(keys::CONTROLLER_REVISION).unwrap_or_default();
        for per_pod in [keys::POD_NAME, keys::POD_INDEX] {
            labels.remove(per_pod);
        }
        let pod = self.new_pod(&set, ordinal, &revision);
        self.pods.push(PodRow { labels: Arc::new(labels), ..pod });
        Ok(())
    }

    fn write_set(&mut self, action: &Action, version: Box<str>) -> Result<(), Refused> {
        let object = action.object();
        let found = |set: &&mut SetRow| *set.name == *object.name && set.namespace == object.namespace;
        let set = self.sets.iter_mut().find(found).ok_or(Refused::NotFound)?;
        check(action, &set.uid, &set.resource_version)?;
        let before = set.clone();
        match action.verb() {
            Verb::Merge { body, .. } => {
                merge_annotations(set, body);
                let replicas = body.pointer("/spec/replicas").and_then(Value::as_u64);
                scale(set, replicas.and_then(|replicas| u32::try_from(replicas).ok()));
            }
            Verb::MergeStatus { body, .. } => {
                let counts = self.counts.entry(Arc::clone(&set.uid)).or_default();
                merge_set_status(set, counts, body.get("status").unwrap_or(&Value::Null));
            }
            Verb::Apply { body, manager: keys::MANAGER_PHASED_ROLLOUT, .. } => apply_partition(set, body),
            _ => return Err(Refused::Unsupported),
        }
        // A write of the status that only counts anew is a write, and one that changes nothing at all is none.
        if *set != before || matches!(action.verb(), Verb::MergeStatus { .. }) {
            set.resource_version = version;
        }
        Ok(())
    }

    fn write_rollout(&mut self, action: &Action, version: Box<str>) -> Result<(), Refused> {
        let object = action.object();
        let found = |row: &&mut RolloutRow| *row.name == *object.name && row.namespace == object.namespace;
        let rollout = self.rollouts.iter_mut().find(found).ok_or(Refused::NotFound)?;
        check(action, &rollout.uid, &rollout.resource_version)?;
        match action.verb() {
            Verb::Merge { body, .. } => merge_finalizers(&mut rollout.finalizers, body),
            Verb::ReplaceStatus { status, .. } => {
                rollout.status = serde_json::from_value(status.clone())
                    .map_err(|error| Refused::Invalid(error.to_string()))?;
            }
            _ => return Err(Refused::Unsupported),
        }
        rollout.resource_version = version;
        self.rollouts.retain(|row| !row.deleting || !row.finalizers.is_empty());
        Ok(())
    }

    fn write_policy(&mut self, action: &Action, version: Box<str>) -> Result<(), Refused> {
        let object = action.object();
        let found = |row: &&mut ScalingRow| *row.name == *object.name && row.namespace == object.namespace;
        let policy = self.policies.iter_mut().find(found).ok_or(Refused::NotFound)?;
        check(action, &policy.uid, &policy.resource_version)?;
        match action.verb() {
            Verb::Merge { body, .. } => {
                merge_finalizers(&mut policy.finalizers, body);
                let replicas = body.pointer("/spec/replicas").and_then(Value::as_u64);
                if let (Some(replicas), Ok(spec)) = (replicas, &mut policy.spec.policy) {
                    Arc::make_mut(spec).replicas = u32::try_from(replicas).ok();
                    policy.generation += 1;
                }
            }
            Verb::ReplaceStatus { status, .. } => {
                policy.status = serde_json::from_value(status.clone())
                    .map_err(|error| Refused::Invalid(error.to_string()))?;
            }
            _ => return Err(Refused::Unsupported),
        }
        policy.resource_version = version;
        self.policies.retain(|row| !row.deleting || !row.finalizers.is_empty());
        Ok(())
    }
}

fn merge_finalizers(finalizers: &mut Vec<String>, body: &Value) {
    if let Some(merged) = body.pointer("/metadata/finalizers").and_then(Value::as_array) {
        *finalizers = merged.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
}

fn check(action: &Action, uid: &str, version: &str) -> Result<(), Refused> {
    let wanted = action.precondition();
    let same = *wanted.uid == *uid && wanted.resource_version.as_deref().is_none_or(|seen| seen == version);
    if same { Ok(()) } else { Err(Refused::Conflict) }
}

fn labels_of(body: &Value) -> Labels {
    let labels = body.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

/// Adoption, release, and the repair of labels and volumes: all that the StatefulSet controller writes to a pod.
fn merge_pod(pod: &mut PodRow, set: &str, body: &Value) {
    let owners = body.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if let Some(owner) = owners.and_then(|owners| owners.first()) {
        pod.owner = if owner.get("$patch").is_some() { Arc::default() } else { set.into() };
    }
    pod.named |= labels_of(body).contains_key(keys::POD_NAME);
    let volumes = body.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let repaired = volumes.filter_map(|volume| volume.get("name")?.as_str());
    let repaired: Vec<_> = repaired.map(|name| ClaimVolume { name: name.into(), claim: None }).collect();
    if !repaired.is_empty() {
        let kept = pod.volumes.iter().filter(|kept| repaired.iter().all(|one| one.name != kept.name));
        pod.volumes = kept.cloned().chain(repaired.iter().cloned()).collect();
    }
}

fn merge_annotations(set: &mut SetRow, body: &Value) {
    let steering = &mut set.steering;
    let fields = [
        (keys::MAX_UNAVAILABLE, &mut steering.max_unavailable),
        (keys::PAUSED, &mut steering.paused),
        (keys::ROLLOUT_STATUS, &mut steering.rollout_status),
        (keys::PHASED_ROLLOUT, &mut steering.phased_rollout),
        (keys::LEAVING, &mut steering.leaving),
    ];
    let annotations = body.pointer("/metadata/annotations").and_then(Value::as_object);
    for (key, field) in fields {
        if let Some(value) = annotations.and_then(|annotations| annotations.get(key)) {
            *field = value.as_str().map(Into::into);
        }
    }
}

fn scale(set: &mut SetRow, replicas: Option<u32>) {
    if let Some(replicas) = replicas.filter(|replicas| *replicas != set.replicas) {
        set.replicas = replicas;
        set.generation += 1;
    }
}

fn merge_set_status(set: &mut SetRow, counts: &mut Counts, status: &Value) {
    let number = |key: &str| status.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    if let Some(observed) = status.get("observedGeneration").and_then(Value::as_i64) {
        set.observed_generation = observed;
    }
    for (key, field) in
        [("currentRevision", &mut set.current_revision), ("updateRevision", &mut set.update_revision)]
    {
        if let Some(revision) = status.get(key).and_then(Value::as_str) {
            *field = Some(revision.into());
        }
    }
    for (key, field) in [
        ("replicas", &mut counts.replicas),
        ("readyReplicas", &mut counts.ready),
        ("availableReplicas", &mut counts.available),
        ("currentReplicas", &mut counts.current),
        ("updatedReplicas", &mut counts.updated),
    ] {
        if let Some(count) = number(key) {
            *field = count;
        }
    }
    if number("updatedReplicas").is_some() {
        set.counted = [counts.updated, counts.ready] == [set.replicas; 2];
    }
}

/// Server-side apply by the one manager of these fields: what the body does not have is released.
fn apply_partition(set: &mut SetRow, body: &Value) {
    let mark = body.pointer("/metadata/annotations").and_then(|all| all.get(keys::PHASED_ROLLOUT));
    set.steering.phased_rollout = mark.and_then(Value::as_str).map(Into::into);
    let applied = body.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_u64);
    let applied = applied.map_or(0, |partition| u32::try_from(partition).unwrap_or(u32::MAX));
    if let Strategy::RollingUpdate { partition } = &mut set.strategy
        && *partition != applied
    {
        *partition = applied;
        set.generation += 1;
    }
}
