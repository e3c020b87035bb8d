//! Claims that grow, and the set that is created again around its pods. Every write is held against the promise: what a step
//! relies on was stored before it, no pod is replaced, and the set is never gone without a record of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::remedy::RemedyKind;

use super::cluster::{Cluster, NEW, OLD, WEB, untaken};
use crate::plan::{Action, Verb};
use crate::set::{SetRow, Strategy};
use crate::statefulset::world::Management;

/// What is known of claims, of the set's claim template, and of records.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// What the claim template of the set asks for.
    template: String,
    /// What claims ask for and have, where that is not what the claim template asked for at first.
    sizes: BTreeMap<String, (String, String)>,
    /// Claims that are bound to no volume.
    unbound: Vec<String>,
    class: &'static str,
    /// The StorageClasses, and whether their volumes can grow.
    classes: BTreeMap<&'static str, bool>,
    /// Whether volumes grow when they are asked to.
    resizes: bool,
    /// What is reported about each claim that grows.
    condition: Option<Value>,
    /// ControllerRevisions by name.
    revisions: BTreeMap<String, Value>,
    /// What the set was when it was deleted.
    deleted: Option<Value>,
    /// The number of sets so far.
    sets: u32,
    /// What the user has noted on the set.
    pub(super) note: &'static str,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            template: "1Gi".into(),
            sizes: BTreeMap::new(),
            unbound: Vec::new(),
            class: "fast",
            classes: BTreeMap::from([("fast", true), ("slow", false)]),
            resizes: true,
            condition: None,
            revisions: BTreeMap::new(),
            deleted: None,
            sets: 1,
            note: "kept",
        }
    }
}

impl Storage {
    pub(super) fn template(&self) -> Value {
        let requests = json!({ "storage": self.template });
        json!({ "metadata": { "name": "data" }, "spec": { "resources": { "requests": requests } } })
    }

    fn size(&self, claim: &str) -> (String, String) {
        self.sizes.get(claim).cloned().unwrap_or_else(|| ("1Gi".into(), "1Gi".into()))
    }

    pub(super) fn describe(&self, name: &str, claim: &mut Value) {
        let (request, capacity) = self.size(name);
        let phase = if self.unbound.iter().any(|it| it == name) { "Pending" } else { "Bound" };
        claim["spec"] =
            json!({ "storageClassName": self.class, "resources": { "requests": { "storage": request } } });
        claim["status"] = json!({ "phase": phase, "capacity": { "storage": capacity } });
        if let Some(condition) = &self.condition {
            claim["status"]["conditions"] = json!([condition]);
        }
    }

    pub(super) fn class(&self, name: &str) -> Option<Value> {
        self.classes.get(name).map(|grows| json!({ "allowVolumeExpansion": grows }))
    }

    pub(super) fn revision(&self, name: &str) -> Option<Value> {
        self.revisions.get(name).cloned()
    }
}

impl Cluster {
    #[track_caller]
    pub(super) fn grow(&mut self, action: &Action) {
        let Verb::Merge { body, .. } = action.verb() else { panic!("{action:?}") };
        let wanted = body.pointer("/spec/resources/requests/storage").unwrap().as_str().unwrap();
        let remedy = self.status().remedy.clone().expect("announced first");
        assert_ne!(remedy.kind, RemedyKind::None, "announced first");
        let name = action.object().name.to_string();
        let grows = self.storage.classes[self.storage.class];
        assert!(grows, "the class of {name} does not let it grow:\n{self}");
        let (_, capacity) = self.storage.size(&name);
        self.storage.sizes.insert(name.clone(), (wanted.to_owned(), capacity));
        self.trace.push(format!("grow {name} to {wanted}"));
    }

    #[track_caller]
    pub(super) fn write_revision(&mut self, action: &Action) {
        let name = action.object().name.to_string();
        match action.verb() {
            Verb::Create { body, .. } => {
                let remembered = self.status().remedy.as_ref().and_then(|remedy| remedy.record.clone());
                assert_eq!(remembered.as_ref(), Some(&name), "remembered first:\n{self}");
                let mut body = body.clone();
                body["metadata"]["uid"] = json!(format!("uid-{name}"));
                body["metadata"]["resourceVersion"] = json!("1");
                let before = self.storage.revisions.insert(name, body);
                assert_eq!(before, None, "{action:?}");
                self.trace.push("record".to_owned());
            }
            Verb::Delete => {
                assert!(self.sets.iter().any(|set| &*set.name == WEB && !set.deleting), "{self}");
                self.storage.revisions.remove(&name).unwrap();
                self.trace.push("forget record".to_owned());
            }
            other => panic!("{other:?}"),
        }
    }

    /// Deletes the set, or creates it.
    #[track_caller]
    pub(super) fn replace_set(&mut self, action: &Action) {
        if let Verb::Create { body, .. } = action.verb() {
            assert!(!self.sets.iter().any(|set| &*set.name == WEB), "it exists:\n{self}");
            assert_eq!(Some(body), self.storage.deleted.as_ref(), "what was recorded");
            self.trace.push("create set".to_owned());
            let storage = body.pointer("/spec/volumeClaimTemplates/0/spec/resources/requests/storage");
            let replicas = body.pointer("/spec/replicas").and_then(Value::as_u64).unwrap();
            let storage = storage.and_then(Value::as_str).unwrap().to_owned();
            self.create_successor(u32::try_from(replicas).unwrap(), &storage);
        } else {
            let set = self.set().clone();
            assert_eq!(*action.precondition().uid, *set.uid);
            assert_eq!(action.precondition().resource_version.as_deref(), Some(&*set.resource_version));
            let status = self.status().clone();
            let remedy = status.remedy.expect("announced first");
            assert_eq!(remedy.replaces.as_deref(), Some(&*set.uid), "decided first:\n{self}");
            let record = &self.storage.revisions[&remedy.record.expect("recorded first")]["data"];
            let live = self.live_set();
            assert_eq!(record["metadata"]["annotations"], live["metadata"]["annotations"]);
            assert_eq!(record["metadata"]["uid"], Value::Null);
            assert_eq!(record["spec"]["template"], live["spec"]["template"], "of the last spec:\n{self}");
            assert_eq!(record["spec"]["replicas"], live["spec"]["replicas"]);
            self.storage.deleted = Some(record.clone());
            self.change_set(WEB, |set| set.deleting = true);
            self.trace.push("delete set".to_owned());
        }
    }

    /// A set of the same name comes, whoever creates it, and adopts the pods.
    fn create_successor(&mut self, replicas: u32, storage: &str) {
        self.storage.sets += 1;
        storage.clone_into(&mut self.storage.template);
        let uid: Arc<str> = format!("uid-{WEB}-{}", self.storage.sets).into();
        let set = SetRow {
            replicas,
            uid: Arc::clone(&uid),
            resource_version: self.objects.next_version(),
            strategy: Strategy::RollingUpdate { partition: 0 },
            current_revision: Some(OLD.into()),
            update_revision: Some(OLD.into()),
            ..crate::example::set(WEB)
        };
        self.templates.insert(Arc::clone(&uid), OLD.to_owned());
        self.management.insert(Arc::clone(&uid), Management::Parallel);
        self.sets.push(set);
        for pod in &mut self.objects.pods {
            pod.owner = Arc::clone(&uid);
        }
    }

    /// The garbage collector releases the pods of a set that is deleted without them, and the set is gone.
    pub(super) fn release(&mut self) -> bool {
        let Some(at) = self.sets.iter().position(|set| set.deleting) else { return false };
        self.objects.sets.remove(at);
        for pod in &mut self.objects.pods {
            pod.owner = "".into();
        }
        true
    }

    /// Volumes grow.
    pub(super) fn resize(&mut self) -> bool {
        let mut moved = false;
        for (request, capacity) in self.storage.sizes.values_mut().filter(|_| self.storage.resizes) {
            moved |= request != capacity;
            capacity.clone_from(request);
        }
        moved
    }

    /// The lines about claims, records and the set.
    fn tale(&self) -> Vec<&str> {
        let is_told = |line: &&String| {
            ["grow", "record", "delete set", "create", "forget", "delete web"]
                .iter()
                .any(|it| line.starts_with(it))
        };
        self.trace.iter().filter(is_told).map(String::as_str).collect()
    }
}

/// Three pods with a claim of 1Gi each, and a policy that asks for 2Gi.
fn asked() -> Cluster {
    let mut cluster = bare();
    cluster.respec("/volumeClaims", json!([{ "name": "data", "storage": "2Gi" }]));
    cluster
}

/// The same before the policy asks for it.
fn bare() -> Cluster {
    let mut cluster = untaken(3, json!({ "replicas": 3 }));
    cluster.claim();
    cluster.run();
    cluster.forget();
    cluster
}

const GROWN: [&str; 3] = ["grow data-web-0 to 2Gi", "grow data-web-1 to 2Gi", "grow data-web-2 to 2Gi"];
const REPLACED: [&str; 4] = ["record", "delete set", "create set", "forget record"];

#[test]
fn a_b9_20_claims_grow_and_the_set_is_created_again_without_a_restart() {
    let mut cluster = asked();
    let before = cluster.uids();
    cluster.run();
    assert_eq!(cluster.tale(), [&GROWN[..], &REPLACED[..]].concat());
    assert_eq!(cluster.uids(), before);
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
    let remedy = cluster.status().remedy.clone().unwrap();
    assert_eq!((remedy.kind, remedy.record, remedy.replaces), (RemedyKind::None, None, None));
    assert_eq!(remedy.replicas, Some(3));
    assert_eq!(cluster.set().replicas, 3);
    assert!(cluster.storage.revisions.is_empty());
    let said = cluster.events("RemedyChosen");
    assert_eq!(
        said,
        [
            "Grow 3 claims in place (data to 2Gi), then create StatefulSet web again around its pods (data to 2Gi). No pod is restarted."
        ]
    );
    cluster.forget();
    let writes = cluster.writes_made;
    cluster.run();
    assert_eq!(cluster.writes_made, writes, "I11: at the goal nothing is written");
}

#[test]
fn a_b9_20_the_remedy_is_announced_before_anything_is_done() {
    let mut cluster = asked();
    let made = cluster.pass();
    assert!(cluster.tale().is_empty());
    let remedy = made.status.remedy.unwrap();
    assert_eq!((remedy.kind, remedy.restarts, remedy.moves_data), (RemedyKind::Recreate, 0, false));
    assert!(remedy.message.starts_with("Grow 3 claims in place"), "{}", remedy.message);
    assert_eq!(cluster.state().0, "GrowingClaims");
}

#[test]
fn a_b7_a_crash_before_and_after_every_write_loses_nothing() {
    let writes = {
        let mut cluster = asked();
        let before = cluster.writes_made;
        cluster.run();
        cluster.writes_made - before
    };
    assert!(writes > 10, "{writes}");
    for dies_after in 0..=writes {
        let mut cluster = asked();
        let before = cluster.uids();
        cluster.dies_after = Some(dies_after);
        cluster.run();
        cluster.run();
        assert_eq!(cluster.uids(), before, "after {dies_after}:\n{cluster}");
        assert_eq!(cluster.state().0, "AsRequested", "after {dies_after}:\n{cluster}");
        assert_eq!(cluster.storage.template, "2Gi", "after {dies_after}");
        assert!(cluster.storage.revisions.is_empty(), "after {dies_after}");
        assert_eq!(cluster.storage.sets, 2, "after {dies_after}: created again once");
    }
}

#[test]
fn a_b7_a_class_that_cannot_grow_stops_it_before_anything_is_done() {
    let mut cluster = asked();
    cluster.storage.class = "slow";
    cluster.run();
    assert!(cluster.tale().is_empty());
    assert!(cluster.is_stalled());
    assert_eq!(
        cluster.state(),
        (
            "ClaimCannotGrow",
            "data-web-0 cannot grow: its StorageClass slow does not have allowVolumeExpansion. Set it, or move the data to volumes of another class."
        )
    );
    cluster.storage.classes.insert("slow", true);
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "it is looked at again:\n{cluster}");
}

#[test]
fn a_b7_a_claim_without_a_class_is_named() {
    let mut cluster = asked();
    cluster.storage.class = "";
    cluster.run();
    assert_eq!(cluster.state().0, "ClaimCannotGrow");
    assert!(cluster.state().1.contains("it has no StorageClass"), "{:?}", cluster.state());
}

#[test]
fn a_b7_a_shrink_and_an_unknown_claim_are_refused() {
    for (claims, words) in [
        (
            json!([{ "name": "data", "storage": "512Mi" }]),
            "volumeClaimTemplate data has 1Gi, and a volume cannot shrink to 512Mi",
        ),
        (json!([{ "name": "dta", "storage": "2Gi" }]), "it has no volumeClaimTemplate dta, only data"),
    ] {
        let mut cluster = bare();
        cluster.respec("/volumeClaims", claims);
        cluster.run();
        assert!(cluster.tale().is_empty());
        assert_eq!(cluster.state().0, "SizeRefused");
        assert!(cluster.is_stalled() && cluster.state().1.contains(words), "{:?}", cluster.state());
        cluster.respec("/volumeClaims", json!([]));
        cluster.run();
        assert_eq!((cluster.state().0, cluster.status().remedy.clone()), ("AsRequested", None));
    }
}

#[test]
fn a_b7_the_set_waits_until_every_volume_has_grown_and_says_what_is_reported() {
    let mut cluster = asked();
    cluster.storage.resizes = false;
    cluster.storage.condition = Some(json!({ "type": "Resizing", "status": "True", "message": "slow" }));
    cluster.run();
    assert_eq!(cluster.tale(), GROWN);
    assert_eq!(
        cluster.state().1,
        "Waiting for these claims to have their new size: data-web-0, data-web-1, data-web-2 (Resizing: slow)."
    );
    cluster.storage.resizes = true;
    cluster.run();
    assert_eq!(cluster.tale(), [&GROWN[..], &REPLACED[..]].concat());
}

#[test]
fn a_b7_claims_that_have_the_size_already_only_need_the_set() {
    let mut cluster = asked();
    for pod in 0..3 {
        cluster.storage.sizes.insert(format!("data-web-{pod}"), ("2Gi".into(), "2Gi".into()));
    }
    cluster.run();
    assert_eq!(cluster.tale(), REPLACED);
    let said = cluster.events("RemedyChosen");
    assert_eq!(said, ["Create StatefulSet web again around its pods (data to 2Gi). No pod is restarted."]);
}

#[test]
fn a_b7_a_set_that_says_so_already_only_needs_its_claims() {
    let mut cluster = asked();
    cluster.storage.template = "2Gi".into();
    let made = cluster.pass();
    assert_eq!(made.status.remedy.unwrap().kind, RemedyKind::ExpandClaims);
    cluster.run();
    assert_eq!(cluster.tale(), GROWN);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn a_b7_a_claim_that_is_not_bound_is_waited_for() {
    let mut cluster = asked();
    cluster.storage.unbound.push("data-web-1".into());
    cluster.run();
    assert_eq!(cluster.state().0, "ClaimUnbound");
    cluster.storage.unbound.clear();
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
}

#[test]
fn a_b7_a_rollout_under_way_holds_the_set_back() {
    let mut cluster = asked();
    cluster.change_pod("web-1", |pod| pod.revision = Some(NEW.into()));
    // Nobody replaces it: the set's controller does not look at it.
    cluster.change_set(WEB, |set| set.strategy = Strategy::OnDelete);
    cluster.run();
    assert_eq!(cluster.tale(), GROWN);
    assert_eq!(
        cluster.state(),
        (
            "RemedyHeld",
            "StatefulSet web is created again once nothing else happens to it: web-1 does not have the newest revision."
        )
    );
    cluster.change_pod("web-1", |pod| pod.revision = Some(OLD.into()));
    cluster.run();
    assert_eq!(cluster.storage.sets, 2, "{cluster}");
}

#[test]
fn a_b7_pause_and_an_unconfirmed_view_hold_everything_back() {
    let mut cluster = asked();
    cluster.respec("/paused", json!(true));
    cluster.run();
    assert_eq!((cluster.tale().len(), cluster.state().0), (0, "Paused"));
    cluster.unconfirmed = true;
    cluster.respec("/paused", json!(false));
    cluster.run();
    assert_eq!((cluster.tale().len(), cluster.state().0), (0, "ViewUnconfirmed"));
    cluster.unconfirmed = false;
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
}

/// Runs until a line is in the trace.
#[track_caller]
fn until(cluster: &mut Cluster, line: &str) {
    for _ in 0..200 {
        if cluster.trace.iter().any(|it| it == line) {
            return;
        }
        cluster.pass();
        cluster.resize();
    }
    panic!("never {line}:\n{cluster}");
}

#[test]
fn a_b7_a_set_that_changes_after_it_was_recorded_is_recorded_again() {
    let mut cluster = asked();
    until(&mut cluster, "record");
    cluster.storage.note = "changed";
    cluster.change_set(WEB, |_| {});
    until(&mut cluster, "delete set");
    let records = cluster.tale().iter().filter(|line| **line == "record").count();
    assert_eq!(records, 2, "{:?}", cluster.tale());
}

#[test]
fn a_b7_somebody_else_who_creates_the_set_first_is_let_have_it() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    let before = cluster.uids();
    cluster.release();
    cluster.create_successor(3, "2Gi");
    cluster.run();
    assert_eq!(cluster.storage.sets, 2);
    assert_eq!((cluster.uids(), cluster.state().0), (before, "AsRequested"), "{cluster}");
    assert!(cluster.storage.revisions.is_empty());
}

#[test]
fn a_b7_fewer_replicas_in_a_set_that_somebody_else_creates_are_raised_at_once() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    cluster.release();
    cluster.create_successor(2, "2Gi");
    cluster.pass();
    assert_eq!(cluster.set().replicas, 3, "{cluster}");
}

#[test]
fn a_b7_a_policy_that_is_deleted_meanwhile_first_creates_the_set_again() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    cluster.delete_policy();
    cluster.run();
    assert_eq!(cluster.storage.sets, 2);
    assert!(cluster.policies.is_empty(), "{:?}", cluster.tale());
}

#[test]
fn a_b7_sizes_that_are_withdrawn_meanwhile_do_not_keep_the_set_away() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    cluster.respec("/volumeClaims", json!([]));
    cluster.run();
    assert_eq!(cluster.storage.sets, 2);
    assert_eq!((cluster.state().0, cluster.status().remedy.clone()), ("AsRequested", None), "{cluster}");
    assert!(cluster.storage.revisions.is_empty());
}

#[test]
fn a_b7_a_spec_that_becomes_invalid_meanwhile_does_not_keep_the_set_away() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    cluster.respec("/volumeClaims", json!([{ "name": "data", "storage": "much" }]));
    cluster.run();
    assert_eq!((cluster.storage.sets, cluster.state().0), (2, "InvalidSpec"));
}

#[test]
fn a_b7_sizes_that_are_withdrawn_before_leave_the_set_alone() {
    let mut cluster = asked();
    until(&mut cluster, "record");
    cluster.respec("/volumeClaims", json!([]));
    cluster.run();
    assert_eq!((cluster.storage.sets, cluster.storage.revisions.len()), (1, 0));
    assert_eq!(cluster.status().remedy, None);
}

#[test]
fn a_b7_a_record_that_is_gone_is_said_with_what_to_do() {
    let mut cluster = asked();
    until(&mut cluster, "delete set");
    cluster.storage.revisions.clear();
    cluster.run();
    assert_eq!(cluster.state().0, "RecordLost");
    cluster.create_successor(3, "2Gi");
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
}

#[test]
fn a_b9_25_a_record_of_somebody_else_is_left_alone() {
    let mut cluster = asked();
    let mut other = asked();
    until(&mut other, "record");
    let name = other.storage.revisions.keys().next().unwrap().clone();
    let foreign = json!({ "metadata": { "name": name, "uid": "x", "resourceVersion": "1" }, "data": {} });
    cluster.storage.revisions.insert(name.clone(), foreign.clone());
    cluster.run();
    assert_eq!((cluster.storage.sets, cluster.state().0), (2, "AsRequested"), "{cluster}");
    assert_eq!(cluster.storage.revisions, BTreeMap::from([(name, foreign)]));
}

#[test]
fn a_b7_more_replicas_are_looked_at_when_they_come() {
    let mut cluster = asked();
    cluster.run();
    cluster.forget();
    // A claim that was left from former times.
    cluster.claims.insert("data-web-3".into(), "uid-data-web-3".into());
    cluster.scale(4);
    cluster.run();
    assert_eq!(cluster.tale(), ["create web-3", "grow data-web-3 to 2Gi"], "{cluster}");
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
}

#[test]
fn a_b7_too_many_claims_are_refused() {
    let mut cluster = asked();
    cluster.change_set(WEB, |set| set.replicas = 2001);
    cluster.respec("/replicas", json!(2001));
    let made = cluster.pass();
    let reasons: Vec<_> = made.status.conditions.iter().map(|it| it.reason.clone()).collect();
    assert!(reasons.contains(&"TooManyClaims".to_owned()), "{reasons:?}");
}
