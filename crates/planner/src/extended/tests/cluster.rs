//! An object with its sets and pods as rows. Writes are carried out one by one, so that a test may stop in between.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::extended::{ExtendedStatefulSetSpec, ExtendedStatus, Group};
use sts_plus_api::keys;

use super::rows::{merge, merge_set, ordinal, partition, place, revision, service_row, set_row};
use super::scaling::Scaling;
use super::volumes::{Volumes, volumes_of};
use crate::extended::active::{ProbeState, count};
use crate::extended::children::belongs;
use crate::extended::probe::{Digest, ProbeOutcome};
use crate::extended::row::ExtendedRow;
use crate::extended::services::ServiceRow;
use crate::extended::spec::{Fault, Spec};
use crate::extended::{Decision, World, plan};
use crate::health::Member;
use crate::plan::{Action, Ask, Kind, Object, Verb};
use crate::pod::{Phase, PodRow, Waiting};
use crate::reason::Refusal;
use crate::selector::Labels;
use crate::set::{Child, SetRow, Strategy};

/// More passes than any scenario takes.
const MAX_PASSES: usize = 200;

thread_local! {
    /// Whether the operator of a new cluster restarts after each write.
    static RESTARTS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a scenario as it is, and with an operator that restarts after each write.
pub(super) fn with_and_without_restarts(scenario: impl Fn()) {
    for restarts in [false, true] {
        RESTARTS.set(restarts);
        scenario();
    }
    RESTARTS.set(false);
}

/// Which pods of a set become Ready.
pub(super) type Becomes = fn(set: &str, image: &str) -> bool;

#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) row: ExtendedRow,
    pub(super) given: Value,
    pub(super) sets: BTreeMap<String, (SetRow, Value)>,
    pub(super) pods: BTreeMap<String, PodRow>,
    pub(super) digests: BTreeMap<Object, Digest>,
    pub(super) strangers: BTreeSet<Arc<str>>,
    pub(super) now: Timestamp,
    pub(super) becomes: Becomes,
    pub(super) open: SignedDuration,
    /// What the operator remembers to have written.
    written: BTreeMap<Arc<str>, i64>,
    /// The last valid spec that the operator has seen.
    pub(super) last_spec: Option<Arc<Spec>>,
    /// A write was refused, and is not tried again yet.
    pub(super) refused: Option<Refusal>,
    pub(super) unconfirmed: bool,
    pub(super) settled_at: Option<Timestamp>,
    pub(super) services: BTreeMap<String, (ServiceRow, Value)>,
    /// What the refused write is of, where one is.
    pub(super) held: Kind,
    /// The ScalingPolicies, and what their controller and the applications do.
    pub(super) scaling: Scaling,
    /// The claims, and how pods get and release them.
    pub(super) volumes: Volumes,
    pub(super) probes: BTreeMap<Box<str>, ProbeState>,
    /// Which pods pass the probe of the active one.
    pub(super) passes: fn(pod: &str) -> bool,
    /// Of each place, the set that serves it as an onlooker sees it: the first, then each that met the rule when its
    /// predecessor was removed.
    pub(super) serving: BTreeMap<String, String>,
    restarts: bool,
    /// Each write: verb and object.
    pub(super) log: Vec<String>,
    version: u64,
}

impl Cluster {
    pub(super) fn new(group: Group, spec: Value) -> Self {
        let row = ExtendedRow {
            group,
            namespace: "ns".into(),
            name: "foo".into(),
            uid: "uid-foo".into(),
            resource_version: "1".into(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            finalizers: Vec::new(),
            approve: None,
            spec: Err(Fault::NoContainers),
            status: ExtendedStatus::default(),
        };
        let mut cluster = Self {
            row,
            given: Value::Null,
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            digests: BTreeMap::new(),
            strangers: BTreeSet::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            becomes: |_, image| !image.contains("bad"),
            open: SignedDuration::ZERO,
            written: BTreeMap::new(),
            last_spec: None,
            refused: None,
            unconfirmed: false,
            settled_at: None,
            services: BTreeMap::new(),
            held: Kind::StatefulSet,
            scaling: Scaling::default(),
            volumes: Volumes::default(),
            probes: BTreeMap::new(),
            passes: |_| true,
            serving: BTreeMap::new(),
            restarts: RESTARTS.get(),
            log: Vec::new(),
            version: 1,
        };
        cluster.edit(spec);
        cluster
    }

    /// A user writes the spec.
    pub(super) fn edit(&mut self, spec: Value) {
        let typed: Result<ExtendedStatefulSetSpec, _> = serde_json::from_value(spec.clone());
        self.given = spec;
        self.row.generation += 1;
        self.row.spec = match typed {
            Ok(typed) => Spec::of(self.row.group, &typed).map(Arc::new),
            Err(error) => Err(Fault::Unreadable(error.to_string())),
        };
    }

    /// A user changes one field of the spec.
    pub(super) fn set_field(&mut self, pointer: &str, value: Value) {
        let mut given = self.given.clone();
        *given.pointer_mut(pointer).unwrap() = value;
        self.edit(given);
    }

    pub(super) fn world(&self, reads: BTreeMap<Object, Option<Value>>) -> World {
        let members = self.sets.values().map(|(set, _)| {
            let pods = self.pods.values().filter(|pod| pod.owner == set.uid).cloned().map(Arc::new);
            Member::new(Arc::new(set.clone()), pods)
        });
        let children = members.filter(|member| belongs(&self.row, &member.set));
        let is_own = |row: &ServiceRow| {
            row.owner.as_ref() == Some(&self.row.uid) || row.left_by.as_deref() == Some(&*self.row.path())
        };
        let services = self.services.values().filter(|(row, _)| is_own(row));
        World {
            row: Arc::new(self.row.clone()),
            children: children.collect(),
            strangers: self.strangers.clone(),
            recorded_active: self.recorded_active(),
            policies: self.policies(),
            services: services.map(|(row, _)| Arc::new(row.clone())).collect(),
            digests: self.digests.clone(),
            claims: self.claims(),
            users: self.users(),
            listed: BTreeMap::new(),
            reads,
            config_settled_at: self.settled_at,
            written: self.written.clone(),
            last_spec: self.last_spec.clone(),
            unconfirmed: self.unconfirmed.then(|| "for a test".into()),
            open: self.open,
            refused: self.refused.clone(),
            held: self.refused.as_ref().map(|_| self.held),
            probes: self.probes.clone(),
            probing: BTreeSet::new(),
        }
    }

    fn recorded_active(&self) -> Option<Arc<PodRow>> {
        let recorded = self.row.status.active_pod.as_ref()?;
        let pod = self.pods.get(&recorded.name).filter(|pod| *pod.uid == *recorded.uid)?;
        Some(Arc::new(pod.clone()))
    }

    /// Decides, with what the decision asks to read.
    pub(super) fn decide(&self) -> Decision {
        let mut reads = BTreeMap::new();
        let mut listed = BTreeMap::new();
        loop {
            let world = World { listed: listed.clone(), ..self.world(reads.clone()) };
            let decision = plan(&world, self.now);
            let mut is_new = false;
            for ask in &decision.plan.asks {
                let Ask::Pods(question) = ask else { continue };
                is_new |= listed.insert(question.clone(), self.list(question)).is_none();
            }
            let asked: Vec<_> = decision
                .plan
                .asks
                .iter()
                .filter_map(|ask| match ask {
                    Ask::Read(object) if !reads.contains_key(object) => Some(object.clone()),
                    _ => None,
                })
                .collect();
            if asked.is_empty() && !is_new {
                return decision;
            }
            for object in asked {
                let live = match object.kind {
                    Kind::ScalingPolicy => self.scaling.live(&object.name),
                    Kind::Pod => self.live_unscheduled(&object.name),
                    _ => self.sets.get(&*object.name).map(|(_, live)| live.clone()),
                };
                reads.insert(object, live);
            }
        }
    }

    /// One pass: the writes of a plan, at most so many of them. Returns how much has happened.
    pub(super) fn pass_of(&mut self, most: usize) -> usize {
        self.last_spec = self.row.spec.clone().ok().or(self.last_spec.take());
        let decision = self.decide();
        let writes: Vec<_> = decision.plan.writes().cloned().collect();
        let count = writes.len().min(most);
        for write in &writes[..count] {
            self.apply(write);
        }
        count + self.answer(&decision.plan.asks)
    }

    fn answer(&mut self, asks: &[Ask]) -> usize {
        let mut answered = 0;
        for ask in asks {
            let Ask::Probe(request) = ask else { continue };
            let result = if (self.passes)(&request.pod.name) { Ok(()) } else { Err("refused".into()) };
            let (container, check) = (Arc::clone(&request.container), request.check.clone());
            let outcome = ProbeOutcome { uid: request.uid.clone(), container, check, at: self.now, result };
            count(
                &mut self.probes,
                self.last_spec.as_ref().and_then(|spec| spec.active.as_ref()),
                &[outcome],
            );
            answered += 1;
        }
        answered
    }

    /// The operator starts again and knows nothing but the API objects.
    pub(super) fn restart(&mut self) {
        self.open = SignedDuration::ZERO;
        self.last_spec = None;
        self.written.clear();
        self.settled_at = None;
    }

    /// Passes, and the StatefulSet controller in between, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        if self.restarts {
            return self.settle_with_crashes();
        }
        for _ in 0..MAX_PASSES {
            let writes = self.pass_of(usize::MAX);
            let moved = self.scale_all(usize::MAX) | self.control();
            if writes == 0 && !moved {
                return;
            }
        }
        panic!("no end after {MAX_PASSES} passes: {:#?}", self.log);
    }

    /// As [`Self::settle`] with a crash after each single write.
    pub(super) fn settle_with_crashes(&mut self) {
        for _ in 0..MAX_PASSES * 10 {
            let writes = self.pass_of(1);
            let moved = self.scale_all(1) | self.control();
            if writes == 0 && !moved {
                return;
            }
            self.restart();
        }
        panic!("no end: {:#?}", self.log);
    }

    /// Whether the API server would accept a write.
    pub(super) fn accepts(&self, action: &Action) -> bool {
        let (name, precondition) = (&*action.object().name, action.precondition());
        let found = match action.object().kind {
            Kind::Extended | Kind::FissileExtended => Some((&*self.row.uid, &self.row.resource_version)),
            Kind::StatefulSet => self.sets.get(name).map(|(set, _)| (&*set.uid, &set.resource_version)),
            Kind::Pod => self.pods.get(name).map(|pod| (&*pod.uid, &pod.resource_version)),
            Kind::ScalingPolicy => {
                self.scaling.policies.get(name).map(|(row, _)| (&*row.uid, &row.resource_version))
            }
            Kind::Claim => self.volumes.claims.get(name).map(|row| (&*row.uid, &row.resource_version)),
            _ => self.services.get(name).map(|(row, _)| (&*row.uid, &row.resource_version)),
        };
        match (action.verb(), found) {
            (Verb::Create { .. }, found) => found.is_none(),
            (_, None) => false,
            (_, Some((uid, version))) => {
                *uid == *precondition.uid
                    && precondition.resource_version.as_ref().is_none_or(|wanted| wanted == version)
            }
        }
    }

    /// A set is deleted by hand.
    pub(super) fn delete_by_hand(&mut self, name: &str) {
        let Some((row, _)) = self.sets.remove(name) else { return };
        self.pods.retain(|_, pod| pod.owner != row.uid);
        let place = place(name);
        if self.serving.get(&place).is_some_and(|serving| serving == name) {
            self.serving.remove(&place);
            let rest = self.sets.keys().filter(|set| self::place(set) == place);
            let oldest = rest.min_by_key(|set| set.len()).cloned();
            self.serving.extend(oldest.map(|set| (place, set)));
        }
    }

    pub(super) fn next_version(&mut self) -> Box<str> {
        self.version += 1;
        self.version.to_string().into()
    }

    pub(super) fn apply(&mut self, action: &Action) {
        let (name, version) = (action.object().name.to_string(), self.next_version());
        match (action.object().kind, action.verb()) {
            (Kind::Extended | Kind::FissileExtended, Verb::ReplaceStatus { status, .. }) => {
                assert_eq!(action.precondition().resource_version, Some(self.row.resource_version.clone()));
                self.row.status = serde_json::from_value(status.clone()).unwrap();
                self.row.resource_version = version;
                return;
            }
            (Kind::Extended | Kind::FissileExtended, Verb::Merge { body, .. }) => {
                assert_eq!(action.precondition().resource_version, Some(self.row.resource_version.clone()));
                let finalizers = body["metadata"]["finalizers"].as_array().unwrap().iter();
                self.row.finalizers =
                    finalizers.map(|finalizer| finalizer.as_str().unwrap().to_owned()).collect();
                self.row.resource_version = version;
                self.log.push(format!("finalizers {}", self.row.finalizers.len()));
                return;
            }
            (Kind::ScalingPolicy, _) => {
                self.write_policy(action, version);
                return;
            }
            (Kind::StatefulSet, Verb::Create { body, .. }) => {
                assert!(!self.sets.contains_key(&name), "{name} exists");
                let row = set_row(self.row.group, body, &version);
                let mut live = body.clone();
                live["metadata"]["uid"] = json!(row.uid);
                live["metadata"]["generation"] = json!(row.generation);
                self.written.insert(Arc::clone(&row.uid), row.generation);
                self.sets.insert(name.clone(), (row, live));
                self.serving.entry(place(&name)).or_insert_with(|| name.clone());
            }
            (Kind::StatefulSet, Verb::Replace { body, .. }) => {
                let (row, live) = self.sets.get_mut(&name).unwrap();
                let before = row.clone();
                *row = set_row(self.row.group, body, &version);
                row.uid = before.uid.clone();
                row.generation = before.generation + i64::from(live["spec"] != body["spec"]);
                row.observed_generation = before.observed_generation;
                row.current_revision = before.current_revision;
                *live = body.clone();
                live["metadata"]["generation"] = json!(row.generation);
                self.written.insert(Arc::clone(&row.uid), row.generation);
            }
            (Kind::StatefulSet, Verb::Merge { body, .. }) => {
                let (row, live) = self.sets.get_mut(&name).unwrap();
                assert_eq!(row.uid, action.precondition().uid.as_ref().into());
                merge_set(self.row.group, (row, live), body, &version);
            }
            (Kind::StatefulSet, Verb::Delete) => {
                self.may_delete_set(&name);
                let (row, _) = self.sets.remove(&name).unwrap();
                assert_eq!(Some(&row.resource_version), action.precondition().resource_version.as_ref());
                let is_own = |child: &Child| child.is_of(&self.row) || name.starts_with("volume-management-");
                assert!(row.child.as_deref().is_some_and(is_own), "{name} is another's");
                let mut own = self.pods.values().filter(|pod| pod.owner == row.uid);
                assert!(
                    own.all(|pod| !self.is_active(pod)),
                    "the active pod of {name} was not relieved before"
                );
                if !name.starts_with("volume-management-") {
                    self.succeed(&name);
                }
                self.release(|pod| pod.owner == row.uid);
            }
            (Kind::Pod, Verb::Delete) => {
                self.pods.remove(&name).unwrap();
            }
            (Kind::Pod, Verb::Merge { body, .. }) => {
                self.merge_pod(&name, body);
                assert!(self.active_pods().len() <= 1, "{:?} are active", self.active_pods());
                return;
            }
            (Kind::Service, _) => {
                self.write_service(action, &version);
                return;
            }
            (Kind::Claim, _) => self.write_claim(action, &version),
            (kind, verb) => panic!("not expected: {verb:?} of {kind}"),
        }
        let verb = match action.verb() {
            Verb::Create { .. } => "create",
            Verb::Replace { .. } => "replace",
            Verb::Merge { .. } => "merge",
            Verb::Delete => "delete",
            _ => "other",
        };
        self.log.push(format!("{verb} {name}"));
    }

    fn write_service(&mut self, action: &Action, version: &str) {
        let name = action.object().name.to_string();
        match action.verb() {
            Verb::Create { body, .. } => {
                let row = service_row(action.object(), body, version);
                assert!(self.services.insert(name, (row, body.clone())).is_none());
            }
            Verb::Merge { body, .. } => {
                let (row, live) = self.services.get_mut(&name).unwrap();
                merge(live, body);
                *row = service_row(action.object(), live, version);
            }
            Verb::StrategicMerge { body, .. } => {
                let (row, live) = self.services.get_mut(&name).unwrap();
                let owners = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                let added = body["metadata"]["ownerReferences"].as_array().unwrap();
                live["metadata"]["ownerReferences"] = json!([&owners[..], added].concat());
                *row = service_row(action.object(), live, version);
            }
            Verb::Delete => {
                self.services.remove(&name).unwrap();
            }
            verb => panic!("not expected: {verb:?} of a Service"),
        }
    }

    fn merge_pod(&mut self, name: &str, body: &Value) {
        let version = self.next_version();
        // One that was deleted meanwhile is not found.
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod.resource_version = version;
        let metadata = &body["metadata"];
        if let Some(zones) = metadata["annotations"][&self.row.group.key(keys::ZONES)].as_str() {
            pod.zones = Some(zones.into());
        }
        for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
            if key == keys::POD_ORDINAL {
                pod.numbered = true;
                continue;
            }
            let labels = Arc::make_mut(&mut pod.labels);
            match value.as_str() {
                Some(value) => labels.insert(key.as_str().into(), value.into()),
                None => labels.remove(key.as_str()),
            };
        }
    }

    fn is_active(&self, pod: &PodRow) -> bool {
        pod.label(&self.row.group.key(keys::POD_DESIGNATION)).is_some()
    }

    pub(super) fn active_pods(&self) -> Vec<&str> {
        self.pods.values().filter(|pod| self.is_active(pod)).map(|pod| &*pod.name).collect()
    }

    /// The Ready pods that a Service selects.
    pub(super) fn endpoints(&self, service: &str) -> Vec<&str> {
        let selector = self.services[service].1["spec"]["selector"].clone();
        let selects = |pod: &PodRow| {
            let mut wanted = selector.as_object().unwrap().iter();
            wanted.all(|(key, value)| pod.label(key) == value.as_str())
        };
        self.pods.values().filter(|pod| pod.ready() && selects(pod)).map(|pod| &*pod.name).collect()
    }

    /// A set was removed. The one that served its place must have a successor that meets the rule, unless the place itself is
    /// no longer asked for.
    fn succeed(&mut self, removed: &str) {
        let place = place(removed);
        if self.serving.get(&place).is_none_or(|serving| serving != removed) {
            return;
        }
        self.serving.remove(&place);
        let spec = self.row.spec.clone().unwrap();
        let is_asked_for = if spec.zones.is_empty() {
            place == "foo"
        } else {
            let zones = self.row.status.zones.iter();
            let mut indexes = zones
                .filter(|zone| spec.zones.iter().any(|name| **name == *zone.name))
                .map(|zone| zone.index);
            indexes.any(|index| place == format!("foo-z{index}"))
        };
        if !is_asked_for {
            return;
        }
        let replicas = spec.limits.clamp(spec.replicas).0;
        let needed = match self.given.pointer("/updateStrategy/blueGreen/minReady").and_then(Value::as_u64) {
            Some(count) if spec.is_blue_green() => u32::try_from(count).unwrap().min(replicas),
            None if spec.is_blue_green() && self.row.group == Group::Fissile => 1.min(replicas),
            _ => replicas,
        };
        let ready =
            |set: &SetRow| self.pods.values().filter(|pod| pod.owner == set.uid && pod.ready()).count();
        let mut here = self.sets.values().filter(|(set, _)| self::place(&set.name) == place && !set.deleting);
        let successor = here.find(|(set, _)| ready(set) >= needed as usize && set.replicas == replicas);
        let Some((successor, _)) = successor else {
            panic!("{removed} was removed before a successor met the rule: {:#?}", self.log);
        };
        self.serving.insert(place, successor.name.to_string());
    }

    /// The StatefulSet controller and the nodes: pods exist, are of the newest revision and Ready where they become so. Those
    /// of sets that wait for somebody to delete their pods stay as they are.
    pub(super) fn control(&mut self) -> bool {
        let before = (self.sets.clone(), self.pods.clone());
        let (becomes, now) = (self.becomes, self.now);
        for (name, (set, live)) in &mut self.sets {
            set.observed_generation = set.generation;
            let revision: Box<str> = revision(live).into();
            set.update_revision = Some(revision.clone());
            if set.current_revision.is_none() {
                set.current_revision = Some(revision.clone());
            }
            let image = live.pointer("/spec/template/spec/containers/0/image");
            let image = image.and_then(Value::as_str).unwrap_or_default().to_owned();
            let wanted: BTreeSet<_> = set.ordinals().map(|ordinal| format!("{name}-{ordinal}")).collect();
            self.volumes
                .drop_pods(&mut self.pods, |pod| pod.owner == set.uid && !wanted.contains(&*pod.name));
            // One at a time, from the highest ordinal down, as long as all are Ready. The rollout group does the same for zones.
            let pods = &self.pods;
            let own = || pods.values().filter(|pod| pod.owner == set.uid);
            let partition = partition(set);
            let is_held = |pod: &PodRow| ordinal(&pod.name) < partition;
            let is_doomed = |pod: &PodRow| set.is_doomed(ordinal(&pod.name));
            let outdated = own().filter(|pod| pod.revision.as_deref() != Some(&*revision) && !is_held(pod));
            let outdated = outdated.filter(|pod| !is_doomed(pod));
            let outdated = outdated.map(|pod| pod.name.to_string()).max();
            let outdated = outdated.filter(|_| own().all(PodRow::ready));
            // The rollout group replaces those first that do not serve.
            let is_grouped = set.strategy == Strategy::OnDelete;
            let stuck = own().find(|pod| {
                is_grouped && !pod.ready() && pod.revision.as_deref() != Some(&*revision) && !is_held(pod)
            });
            let outdated = stuck.map(|pod| pod.name.to_string()).or(outdated);
            if own().all(|pod| pod.ready() && pod.revision.as_deref() == Some(&*revision)) {
                set.current_revision = Some(revision.clone());
            }
            if let Some(outdated) = outdated {
                self.pods.remove(&outdated);
                self.scaling.restarts.push(outdated);
            }
            let labels: Labels = set.template_labels.clone();
            let before: Box<str> = set.current_revision.clone().unwrap_or_default();
            for pod in wanted {
                let volumes = volumes_of(live, &pod, self.volumes.unmutated);
                let is_ready = becomes(name, &image) && self.volumes.have(&volumes);
                self.version += 1;
                let (version, owner) = (self.version, Arc::clone(&set.uid));
                if self.pods.contains_key(&pod) {
                    continue;
                }
                let row = PodRow {
                    namespace: "ns".into(),
                    uid: format!("{pod}-{version}").into(),
                    name: pod.as_str().into(),
                    resource_version: version.to_string().into(),
                    owner,
                    revision: Some(if ordinal(&pod) < partition { &*before } else { &*revision }.into()),
                    labels: Arc::new(labels.clone()),
                    phase: if self.volumes.have(&volumes) { Phase::Running } else { Phase::Pending },
                    ready_since: is_ready.then_some(now),
                    terminating: false,
                    waiting: (!is_ready && self.volumes.have(&volumes)).then_some(Waiting::CrashLoopBackOff),
                    terminated_restarts: None,
                    running: is_ready,
                    named: true,
                    numbered: false,
                    volumes: volumes.into(),
                    ip: None,
                    zones: live
                        .pointer("/spec/template/metadata/annotations")
                        .and_then(|all| all.get(self.row.group.key(keys::ZONES)))
                        .and_then(Value::as_str)
                        .map(Into::into),
                };
                self.pods.insert(pod, row);
                self.volumes.check(&self.pods);
            }
            if let Some(child) = &mut set.child {
                child.status_replicas = set.replicas;
            }
        }
        (self.sets.clone(), self.pods.clone()) != before
    }

    /// Somebody edits a set: its labels, its annotations, its spec.
    pub(super) fn edit_set(&mut self, name: &str, patch: &Value) {
        let version = self.next_version();
        let (row, live) = self.sets.get_mut(name).unwrap();
        merge_set(self.row.group, (row, live), patch, &version);
    }

    /// Somebody edits a Service.
    pub(super) fn edit_service(&mut self, name: &str, patch: &Value) {
        let version = self.next_version();
        let (row, live) = self.services.get_mut(name).unwrap();
        merge(live, patch);
        let object = row.object();
        *row = service_row(&object, live, &version);
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.sets.keys().map(String::as_str).collect()
    }

    pub(super) fn live(&self, set: &str) -> &Value {
        &self.sets[set].1
    }

    pub(super) fn condition(&self, kind: &str) -> Option<(bool, String)> {
        let found = self.row.status.conditions.iter().find(|condition| condition.kind == kind)?;
        Some((found.status == sts_plus_api::conditions::Truth::True, found.reason.clone()))
    }

    pub(super) fn pod_uids(&self) -> Vec<String> {
        self.pods.values().map(|pod| pod.uid.to_string()).collect()
    }
}
