//! A cluster with one set, `foo`, or a few: the fixture, what users, kubelets and the garbage collector do, and questions.
//!
//! The controller's part of it is in [`super::operate`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::keys;

use super::super::world::{ClaimRow, Counts, Features, RevisionRow, SetSpec};
use super::decode::{self, Row};
use super::operate::{Fault, Op};
use super::server::{Server, Stored};
use crate::plan::{Kind, Note};
use crate::pod::PodRow;
use crate::set::SetRow;

/// The set of the fixture.
pub(super) const FOO: &str = "foo";
/// When a scenario begins.
const START: i64 = 1_750_000_000;
/// The image of pods that never become Ready.
pub(super) const BAD: &str = "bad";

/// Server, controller, and what happened.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) server: Server,
    pub(super) features: Features,
    /// When this process wrote the status of each set, by UID.
    pub(super) status_written: BTreeMap<Box<str>, Timestamp>,
    /// Whether the controller knows when it wrote a status, so that it paces such writes.
    pub(super) paced: bool,
    pub(super) faults: Vec<Fault>,
    /// Requests so far.
    pub(super) requests: BTreeMap<(Op, Kind), usize>,
    /// The most requests of a sort that were under way together.
    pub(super) widest: BTreeMap<(Op, Kind), usize>,
    /// The controller's requests, one line each: `create Pod foo-0`.
    pub(super) trace: Vec<String>,
    pub(super) events: Vec<Note>,
    /// How far the caches are behind, in writes, by kind.
    pub(super) lag: BTreeMap<Kind, usize>,
    /// The version that each cache must have reached before the controller may plan: its own latest write.
    pub(super) seen: BTreeMap<Kind, u64>,
}

/// A chain of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

/// Something that a kubelet or the garbage collector would do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// A pod takes its next step towards Ready.
    Advance(Box<str>),
    /// A terminating pod is gone.
    Finish(Box<str>),
    /// A claim that nothing uses any more is gone.
    Release(Box<str>),
    /// An object whose owners are all gone is deleted.
    Collect(Kind, Box<str>),
}

/// The fixture's spec: three replicas, one claim template, one volume on the host, RollingUpdate without a block of its
/// own, two old revisions kept.
pub(super) fn spec() -> Value {
    json!({
        "replicas": 3,
        "serviceName": "governing",
        "podManagementPolicy": "OrderedReady",
        "selector": { "matchLabels": { "app": "foo" } },
        "template": {
            "metadata": { "labels": { "app": "foo", "tier": "db" }, "annotations": { "note": "kept" } },
            "spec": {
                "containers": [{ "name": "main", "image": "one", "resources": {} }],
                "volumes": [{ "name": "home", "hostPath": { "path": "/tmp/home" } }],
            },
        },
        "volumeClaimTemplates": [{ "metadata": { "name": "datadir" }, "spec": { "accessModes": ["ReadWriteOnce"] } }],
        "updateStrategy": { "type": "RollingUpdate" },
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Retain", "whenDeleted": "Retain" },
        "revisionHistoryLimit": 2,
    })
}

/// A cluster in which the set `foo` has just been created, as the fixture or changed.
pub(super) fn given(change: impl FnOnce(&mut Value)) -> Cluster {
    let mut cluster = empty();
    cluster.add_set(FOO, change);
    cluster
}

/// A cluster without any object.
pub(super) fn empty() -> Cluster {
    Cluster {
        server: Server::new(Timestamp::from_second(START).unwrap()),
        features: Features::default(),
        status_written: BTreeMap::new(),
        paced: false,
        faults: Vec::new(),
        requests: BTreeMap::new(),
        widest: BTreeMap::new(),
        trace: Vec::new(),
        events: Vec::new(),
        lag: BTreeMap::new(),
        seen: BTreeMap::new(),
    }
}

/// Given: users and fixtures.
impl Cluster {
    /// A user creates a set like the fixture's.
    pub(super) fn add_set(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut spec = spec();
        change(&mut spec);
        let body = json!({ "metadata": { "name": name }, "spec": spec, "status": { "replicas": 0 } });
        self.server.create(Kind::StatefulSet, body).unwrap();
    }

    /// A user edits the spec of `foo`.
    #[track_caller]
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.server.change(Kind::StatefulSet, FOO, |set| change(&mut set["spec"]));
    }

    #[track_caller]
    pub(super) fn scale(&mut self, replicas: u32) {
        self.edit(|spec| spec["replicas"] = json!(replicas));
    }

    /// A user gives the template another image.
    #[track_caller]
    pub(super) fn image(&mut self, image: &str) {
        self.edit(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(image));
    }

    #[track_caller]
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        self.server.change(Kind::StatefulSet, FOO, |set| set["metadata"]["annotations"][key] = json!(value));
    }

    /// A pod that somebody else made, with these labels; answers its UID.
    pub(super) fn add_pod(&mut self, name: &str, labels: &Value, owner: Option<Value>) -> String {
        let mut body = json!({ "metadata": { "name": name, "labels": labels }, "spec": { "volumes": [
            { "name": "datadir", "persistentVolumeClaim": { "claimName": format!("datadir-{name}") } },
        ] } });
        if let Some(owner) = owner {
            body["metadata"]["ownerReferences"] = json!([owner]);
        }
        self.server.create(Kind::Pod, body).unwrap()
    }

    /// A claim that is there already; answers its UID.
    pub(super) fn add_claim(&mut self, name: &str, owners: &[Value]) -> String {
        let body = json!({ "metadata": { "name": name, "ownerReferences": owners }, "spec": {} });
        self.server.create(Kind::Claim, body).unwrap()
    }

    /// A revision that is there already, of the set `foo` or of nobody.
    pub(super) fn add_revision(&mut self, name: &str, number: i64, data: &Value, owner: Option<Value>) {
        let mut body = json!({
            "metadata": { "name": name, "labels": { "app": "foo" } }, "revision": number, "data": data,
        });
        if let Some(owner) = owner {
            body["metadata"]["ownerReferences"] = json!([owner]);
        }
        self.server.create(Kind::Revision, body).unwrap();
    }

    /// A controlling reference to a set.
    pub(super) fn owner(&self, set: &str) -> Value {
        owner_reference("apps/v1", "StatefulSet", set, &self.set_of(set).0.uid)
    }

    pub(super) fn pass_time(&mut self, seconds: i64) {
        self.server.now = self.server.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

/// A controlling reference.
pub(super) fn owner_reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Kubelets and the garbage collector.
impl Cluster {
    #[track_caller]
    pub(super) fn set_phase(&mut self, pod: &str, phase: &str) {
        self.server.change(Kind::Pod, pod, |value| value["status"]["phase"] = json!(phase));
    }

    /// The pod is Running and Ready, since now.
    #[track_caller]
    pub(super) fn make_ready(&mut self, pod: &str) {
        let now = self.server.now;
        self.make_ready_since(pod, now);
    }

    #[track_caller]
    pub(super) fn make_ready_since(&mut self, pod: &str, since: Timestamp) {
        self.server.change(Kind::Pod, pod, |value| {
            value["spec"]["nodeName"] = json!("node");
            value["status"] = json!({ "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": since.to_string() },
            ] });
        });
    }

    /// The pod runs and is not Ready.
    #[track_caller]
    pub(super) fn make_unready(&mut self, pod: &str) {
        self.server.change(Kind::Pod, pod, |value| {
            value["spec"]["nodeName"] = json!("node");
            value["status"] = json!({ "phase": "Running" });
        });
    }

    /// The pod runs, is not Ready, and a container waits for the reason.
    #[track_caller]
    pub(super) fn make_broken(&mut self, pod: &str, reason: &str) {
        self.server.change(Kind::Pod, pod, |value| {
            value["spec"]["nodeName"] = json!("node");
            value["status"] = json!({ "phase": "Running", "containerStatuses": [
                { "state": { "waiting": { "reason": reason } } },
            ] });
        });
    }

    /// Somebody deletes the pod; it goes when its kubelet is done.
    #[track_caller]
    pub(super) fn terminate(&mut self, pod: &str) {
        self.server.change(Kind::Pod, pod, |value| value["spec"]["nodeName"] = json!("node"));
        self.server.delete(Kind::Pod, pod);
        assert!(self.pod(pod).terminating);
    }

    /// The pod is gone from one moment to the next.
    #[track_caller]
    pub(super) fn vanish(&mut self, pod: &str) {
        assert!(self.server.get(Kind::Pod, pod).is_some(), "{pod} is there");
        self.server.remove(Kind::Pod, pod);
    }

    /// All that kubelets and the garbage collector could do now.
    pub(super) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for ((kind, name), stored) in &self.server.objects {
            let value = &stored.value;
            let held = value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
            let deleted = value["metadata"]["deletionTimestamp"].is_string();
            match kind {
                Kind::Pod if deleted && !held => moves.push(Move::Finish(name.clone())),
                Kind::Pod if !deleted && self.can_advance(stored) => moves.push(Move::Advance(name.clone())),
                Kind::Claim if deleted && !self.server.held(*kind, name, value) => {
                    moves.push(Move::Release(name.clone()));
                }
                _ => {}
            }
            if *kind != Kind::StatefulSet && !deleted && self.is_garbage(value) {
                moves.push(Move::Collect(*kind, name.clone()));
            }
        }
        moves
    }

    /// Whether the pod is on its way to Ready and nothing is in its way.
    fn can_advance(&self, stored: &Stored) -> bool {
        let pod = &stored.value;
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let mut claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        let mounted = claims.all(|name| {
            let claim = self.server.get(Kind::Claim, name);
            claim.is_some_and(|claim| !claim.value["metadata"]["deletionTimestamp"].is_string())
        });
        let bad = pod["spec"]["containers"][0]["image"] == BAD;
        match pod["status"]["phase"].as_str() {
            Some("Pending") => mounted,
            Some("Running") if bad => !pod["status"]["containerStatuses"].is_array(),
            Some("Running") => !pod["status"]["conditions"].is_array(),
            _ => false,
        }
    }

    /// Whether all owners of an object are gone.
    fn is_garbage(&self, value: &Value) -> bool {
        let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let kinds = [("StatefulSet", Kind::StatefulSet), ("Pod", Kind::Pod)];
        let gone = owners.map(|owner| {
            let kind = kinds.iter().find(|(name, _)| owner["kind"] == *name);
            kind.is_some_and(|(_, kind)| {
                let there = self.server.get(*kind, owner["name"].as_str().unwrap());
                there.is_none_or(|there| there.value["metadata"]["uid"] != owner["uid"])
            })
        });
        let gone: Vec<_> = gone.collect();
        !gone.is_empty() && gone.iter().all(|gone| *gone)
    }

    #[track_caller]
    pub(super) fn perform(&mut self, next: &Move) {
        match next {
            Move::Advance(pod) => self.advance(pod),
            Move::Finish(pod) => self.server.remove(Kind::Pod, pod),
            Move::Release(claim) => self.server.remove(Kind::Claim, claim),
            Move::Collect(kind, name) => self.server.delete(*kind, name),
        }
    }

    /// One step of a pod: Pending, Pending on a node, Running, Ready.
    #[track_caller]
    pub(super) fn advance(&mut self, name: &str) {
        let pod = &self.server.get(Kind::Pod, name).unwrap().value;
        let scheduled = pod["spec"]["nodeName"].is_string();
        let (running, image) = (pod["status"]["phase"] == "Running", &pod["spec"]["containers"][0]["image"]);
        if running && image == BAD {
            self.make_broken(name, "CrashLoopBackOff");
        } else if running {
            self.make_ready(name);
        } else if scheduled {
            self.make_unready(name);
        } else {
            self.server.change(Kind::Pod, name, |value| value["spec"]["nodeName"] = json!("node"));
        }
    }
}

/// Questions.
impl Cluster {
    #[track_caller]
    pub(super) fn set_of(&self, name: &str) -> (Arc<SetRow>, Arc<SetSpec>) {
        match &self.server.get(Kind::StatefulSet, name).unwrap().row {
            Row::Set(set, spec) => (Arc::clone(set), Arc::clone(spec)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn set(&self) -> Arc<SetRow> {
        self.set_of(FOO).0
    }

    /// The status of `foo`.
    pub(super) fn status(&self) -> &Value {
        &self.server.get(Kind::StatefulSet, FOO).unwrap().value["status"]
    }

    pub(super) fn counts(&self) -> Counts {
        self.set_of(FOO).1.counts
    }

    /// Replicas, ready and updated replicas, as the status of `foo` has them.
    pub(super) fn counted(&self) -> [u32; 3] {
        let Counts { replicas, ready, updated, .. } = self.counts();
        [replicas, ready, updated]
    }

    pub(super) fn find_pod(&self, name: &str) -> Option<Arc<PodRow>> {
        self.server.get(Kind::Pod, name).map(pod_of)
    }

    #[track_caller]
    pub(super) fn pod(&self, name: &str) -> Arc<PodRow> {
        self.find_pod(name).unwrap_or_else(|| panic!("there is no pod {name}:\n{self}"))
    }

    #[track_caller]
    pub(super) fn object(&self, kind: Kind, name: &str) -> &Value {
        &self.server.get(kind, name).unwrap_or_else(|| panic!("there is no {kind:?} {name}:\n{self}")).value
    }

    /// The pods, by name.
    pub(super) fn pods(&self) -> Vec<Arc<PodRow>> {
        self.server.list(Kind::Pod).map(pod_of).collect()
    }

    /// The names of all pods in the order of their ordinals.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.pods().iter().map(|pod| pod.name.to_string()).collect();
        names.sort_by(|left, right| crate::ordinal::natural(left, right));
        names
    }

    /// The names of the pods on their way out.
    pub(super) fn terminating(&self) -> Vec<String> {
        let names = self.names();
        names.into_iter().filter(|name| self.pod(name).terminating).collect()
    }

    #[track_caller]
    pub(super) fn image_of(&self, pod: &str) -> &str {
        self.object(Kind::Pod, pod)["spec"]["containers"][0]["image"].as_str().unwrap()
    }

    /// The images of all pods in the order of their ordinals.
    pub(super) fn images(&self) -> Vec<&str> {
        self.names().iter().map(|name| self.image_of(name)).collect()
    }

    pub(super) fn claims(&self) -> Vec<Arc<ClaimRow>> {
        let rows = self.server.list(Kind::Claim).map(|stored| match &stored.row {
            Row::Claim(row) => Arc::clone(row),
            other => panic!("{other:?}"),
        });
        rows.collect()
    }

    #[track_caller]
    pub(super) fn claim(&self, name: &str) -> Arc<ClaimRow> {
        let found = self.claims().into_iter().find(|claim| *claim.name == *name);
        found.unwrap_or_else(|| panic!("there is no claim {name}:\n{self}"))
    }

    /// Who owns a claim: kinds and names.
    #[track_caller]
    pub(super) fn owners(&self, claim: &str) -> Vec<String> {
        self.claim(claim).owners.iter().map(|owner| format!("{} {}", owner.kind, owner.name)).collect()
    }

    /// The revisions in their order.
    pub(super) fn revisions(&self) -> Vec<Arc<RevisionRow>> {
        let rows = self.server.list(Kind::Revision).map(|stored| match &stored.row {
            Row::Revision(row) => Arc::clone(row),
            other => panic!("{other:?}"),
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|left, right| {
            (left.number, left.created, &left.name).cmp(&(right.number, right.created, &right.name))
        });
        rows
    }

    pub(super) fn requested(&self, op: Op, kind: Kind) -> usize {
        self.requests.get(&(op, kind)).copied().unwrap_or_default()
    }

    /// The reasons of the events, which are forgotten by that.
    pub(super) fn told(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.events).iter().map(|event| event.reason).collect()
    }

    /// The controller's writes, which are forgotten by that.
    pub(super) fn written(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    /// The controller's writes to one kind in that order, without the kind; all are forgotten by that.
    pub(super) fn written_to(&mut self, kind: Kind) -> Vec<String> {
        let word = format!(" {kind:?} ");
        let lines = self.written();
        lines.iter().filter(|line| line.contains(&word)).map(|line| line.replace(&word, " ")).collect()
    }
}

fn pod_of(stored: impl AsRef<Stored>) -> Arc<PodRow> {
    match &stored.as_ref().row {
        Row::Pod(row) => Arc::clone(row),
        other => panic!("{other:?}"),
    }
}

impl AsRef<Stored> for Stored {
    fn as_ref(&self) -> &Stored {
        self
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {}", self.server.now)?;
        for ((kind, name), stored) in &self.server.objects {
            let value = &stored.value;
            match kind {
                Kind::StatefulSet => writeln!(f, "  set {name} {} {}", value["spec"], value["status"])?,
                Kind::Pod => {
                    let row = pod_of(&**stored);
                    let flags = (row.phase, row.ready_since, row.terminating, row.revision.as_deref());
                    writeln!(f, "  pod {name} {flags:?} of {}", row.owner)?;
                }
                _ => {
                    let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                    let owners: Vec<_> = owners.map(|owner| owner["name"].to_string()).collect();
                    let deleted = decode::time(&value["metadata"]["deletionTimestamp"]).is_some();
                    let number = &value["revision"];
                    writeln!(f, "  {kind:?} {name} of {owners:?} deleted {deleted} number {number}")?;
                }
            }
        }
        let recent = self.trace.len().saturating_sub(30);
        for line in self.trace.iter().skip(recent) {
            writeln!(f, "  > {line}")?;
        }
        Ok(())
    }
}

/// The labels of a pod of `foo`.
pub(super) fn foo_labels(name: &str) -> Value {
    json!({ "app": "foo", "tier": "db", keys::POD_NAME: name })
}
