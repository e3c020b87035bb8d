//! A cluster as it may be observed, for the tests of this folder.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_api::extended::ActivePod;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_operator::view::{
    ChildSet, Extended, Group, Location, LoneSet, Phase, Pod, PodState, Rollout, Scaling, Set, SetState,
};

use super::observed::{Change, Observed, Seen};
use super::template::{FAULT, HTTP, Template, VERSION, ZONE};

fn seen<O: DeserializeOwned>(object: Value) -> Seen<O> {
    Seen::Object(serde_json::from_value(object).unwrap())
}

/// How a pod is to be.
#[derive(Clone, Copy)]
pub(super) enum Health {
    Ready,
    Starting,
    Terminating,
    Leaving,
    Crashing,
}

/// What is observed, changed step by step.
#[derive(Default)]
pub(super) struct Sample(pub(super) Observed);

impl Sample {
    /// Three zones, the group `store` rolling in its first zone, and the set `gated` at a gate.
    pub(super) fn rolling() -> Self {
        let mut sample = Self::default();
        for zone in ["zone-a", "zone-b", "zone-c"] {
            sample.node(zone);
        }
        sample.set("store-zone-a", "zone-a", "Rolling", "Rolling to revision store-zone-a-7966aa. The next outdated pod is replaced when the pods replaced before it are Ready.");
        sample.set(
            "store-zone-b",
            "zone-b",
            "WaitingForTurn",
            "Waiting for store-zone-a: one set of the group is rolled at a time.",
        );
        sample.set(
            "store-zone-c",
            "zone-c",
            "WaitingForTurn",
            "Waiting for store-zone-a: one set of the group is rolled at a time.",
        );
        sample.gated();
        for (pod, zone, revision, health) in [
            ("store-zone-a-0", "zone-a", "7966aa", Health::Ready),
            ("store-zone-a-1", "zone-a", "7966aa", Health::Starting),
            ("store-zone-a-2", "zone-a", "58aabb", Health::Terminating),
            ("store-zone-b-0", "zone-b", "58aabb", Health::Ready),
            ("store-zone-b-1", "zone-b", "58aabb", Health::Ready),
            ("store-zone-b-2", "zone-b", "58aabb", Health::Ready),
            ("store-zone-c-0", "zone-c", "58aabb", Health::Ready),
            ("store-zone-c-1", "zone-c", "58aabb", Health::Ready),
            ("gated-0", "zone-a", "58aabb", Health::Ready),
            ("gated-1", "zone-b", "58aabb", Health::Ready),
            ("gated-2", "zone-c", "7966aa", Health::Ready),
        ] {
            sample.pod(pod, zone, revision, health);
        }
        sample.metric("0");
        sample.event("StatefulSet", "store-zone-a", "Rolling", "Rolling to revision store-zone-a-7966aa.");
        sample.event(
            "PhasedRollout",
            "gated",
            "GatePassed",
            "The gate at partition 3 has passed. gated-2 is replaced next.",
        );
        sample
    }

    pub(super) fn take(&mut self, change: Change) {
        self.0.take(change, "2026-11-16T12:00:00Z".parse().unwrap());
    }

    pub(super) fn node(&mut self, zone: &str) {
        let labels = json!({ ZONE: zone });
        self.take(Change::Nodes(seen(
            json!({ "metadata": { "name": format!("node-{zone}"), "labels": labels } }),
        )));
    }

    fn sets(&mut self) -> impl Iterator<Item = &mut Set> {
        let view = &mut self.0.view;
        let grouped = view.groups.iter_mut().flat_map(|group| &mut group.sets);
        let lone = view.sets.iter_mut().map(|lone| &mut lone.set);
        let children = view.extended.iter_mut().flat_map(|extended| &mut extended.sets);
        grouped.chain(lone).chain(children.map(|child| &mut child.set))
    }

    fn named(&mut self, name: &str) -> &mut Set {
        self.sets().find(|set| set.name == name).unwrap()
    }

    /// A set of the group `store`, of version 1; its pods stay if it is there already.
    pub(super) fn set(&mut self, name: &str, zone: &str, state: &'static str, message: &str) {
        self.template(name, &json!({ ZONE: zone }), &json!({}));
        let since = "2026-11-16T12:00:00Z".parse().unwrap();
        let state = Some(SetState { state, message: message.to_owned(), release: None, since });
        if self.0.view.groups.is_empty() {
            let (namespace, name) = ("default".to_owned(), "store".to_owned());
            self.0.view.groups.push(Group { namespace, name, sets: Vec::new() });
        }
        let sets = &mut self.0.view.groups[0].sets;
        match sets.iter_mut().find(|set| set.name == name) {
            Some(set) => set.state = state,
            None => sets.push(Set { state, ..Self::bare_set(name) }),
        }
    }

    fn bare_set(name: &str) -> Set {
        let target_revision = Some(format!("{name}-7966aa"));
        Set { name: name.to_owned(), replicas: 3, target_revision, ..Set::default() }
    }

    fn template(&mut self, set: &str, selector: &Value, annotations: &Value) {
        let container = json!({ "name": "main", "env": [{ "name": VERSION, "value": "1" }] });
        let spec = json!({ "nodeSelector": selector, "containers": [container] });
        let template =
            json!({ "metadata": { "annotations": annotations }, "spec": spec, "$patch": "replace" });
        let template = Template::parse(&json!({ "spec": { "template": template } }).to_string());
        self.0.templates.insert(("default".to_owned(), set.to_owned()), template.into());
    }

    pub(super) fn break_set(&mut self, name: &str) {
        self.template(name, &json!({}), &json!({ FAULT: "crash-loop" }));
    }

    pub(super) fn pause_set(&mut self, name: &str) {
        self.named(name).paused = true;
    }

    fn gated(&mut self) {
        self.template("gated", &json!({}), &json!({}));
        let (namespace, name) = ("default".to_owned(), "gated".to_owned());
        self.0.view.sets.push(LoneSet {
            namespace: namespace.clone(),
            phased_rollout: Some(name.clone()),
            set: Self::bare_set("gated"),
        });
        let status = json!({
            "phase": "Rolling", "waitingFor": "Checks",
            "message": "Waiting for the checks: errors passed 1 of 2 times.",
        });
        let status: PhasedRolloutStatus = serde_json::from_value(status).unwrap();
        self.0.view.rollouts.push(Rollout { namespace, target: name.clone(), name, status });
    }

    pub(super) fn pod(&mut self, name: &str, zone: &str, revision: &str, health: Health) {
        let (set, ordinal) = name.rsplit_once('-').unwrap();
        let set = self.named(set);
        let revision = Some(format!("{}-{revision}", set.name));
        let (state, reason, phase) = match health {
            Health::Ready => (PodState::Ready, None, Phase::Running),
            Health::Starting => (PodState::NotReady, None, Phase::Pending),
            Health::Terminating => (PodState::Terminating, None, Phase::Running),
            Health::Leaving => (PodState::Leaving, None, Phase::Running),
            Health::Crashing => (PodState::Broken, Some("CrashLoopBackOff".to_owned()), Phase::Running),
        };
        set.pod_states.retain(|pod| pod.name != name);
        set.pod_states.push(Pod {
            name: name.to_owned(),
            ordinal: ordinal.parse().ok(),
            outdated: revision != set.target_revision,
            revision,
            state,
            reason,
            phase,
            location: Some(Location { node: format!("node-{zone}"), zone: Some(zone.to_owned()) }),
            ..Pod::default()
        });
        set.pod_states.sort_by_key(|pod| pod.ordinal);
    }

    pub(super) fn metric(&mut self, value: &str) {
        let metadata = json!({ "name": "playground-metrics", "namespace": "default" });
        let object = json!({ "metadata": metadata, "data": { "errors_per_second": value } });
        self.take(Change::ConfigMaps(seen(object)));
    }

    pub(super) fn event(&mut self, kind: &str, name: &str, reason: &str, message: &str) {
        self.take(Change::Events(seen(json!({
            "metadata": { "name": format!("{name}.1"), "namespace": "default" },
            "involvedObject": { "kind": kind, "name": name },
            "reason": reason, "message": message,
            "source": { "component": "sts-plus" }, "reportingComponent": "sts.plus/operator",
            "lastTimestamp": "2026-11-16T12:00:01Z",
        }))));
    }

    /// The two ExtendedStatefulSets of the demo at rest: `db` in place, `web` blue/green, two zones each.
    pub(super) fn extended() -> Self {
        let mut sample = Self::default();
        for zone in ["zone-a", "zone-b", "zone-c"] {
            sample.node(zone);
        }
        for name in ["db", "web"] {
            sample.0.view.extended.push(Extended {
                namespace: "default".to_owned(),
                name: name.to_owned(),
                api_group: "sts.plus",
                observed: true,
                ..Extended::default()
            });
            let container = json!({ "name": name, "image": format!("playground.example/{name}:1") });
            let template = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
            sample.0.extended.insert(("default".to_owned(), name.to_owned()), Template::of(&template));
            sample.version(name, 1, 1, "AsRequested");
        }
        for (set, zone) in
            [("db-z0", "zone-a"), ("db-z1", "zone-b"), ("web-z0-v1", "zone-a"), ("web-z1-v1", "zone-b")]
        {
            sample.child(set, zone, 1);
        }
        sample.active("db", Some("db-z0-0"));
        sample.config("info");
        sample
    }

    pub(super) fn named_extended(&mut self, name: &str) -> &mut Extended {
        self.0.view.extended.iter_mut().find(|extended| extended.name == name).unwrap()
    }

    /// The versions of an object, and what it waits for.
    pub(super) fn version(&mut self, name: &str, current: u32, update: u32, reason: &str) {
        let ready = json!([{
            "type": "Ready", "status": if reason == "AsRequested" { "True" } else { "False" }, "reason": reason,
            "message": format!("Version {update} is promoted when 2 pods of StatefulSet {name}-z0-v{update} are Ready; 1 are."),
            "lastTransitionTime": "2026-11-16T12:00:00Z",
        }]);
        let status = &mut self.named_extended(name).status;
        (status.current_version, status.update_version) = (Some(current), Some(update));
        status.conditions = serde_json::from_value(ready).unwrap();
    }

    /// A set of an object, with two pods that are Ready.
    pub(super) fn child(&mut self, set: &str, zone: &str, version: u32) {
        let (name, _) = set.split_once('-').unwrap();
        let child = ChildSet {
            zone: Some(zone.to_owned()),
            version: Some(version),
            running: true,
            set: Set { replicas: 2, ..Self::bare_set(set) },
            ..ChildSet::default()
        };
        self.named_extended(name).sets.push(child);
        for ordinal in 0..2 {
            self.pod(&format!("{set}-{ordinal}"), zone, "7966aa", Health::Ready);
        }
    }

    /// The active pod of an object.
    pub(super) fn active(&mut self, name: &str, pod: Option<&str>) {
        let since = "2026-11-16T12:00:00Z".parse().unwrap();
        let active = pod.map(|pod| ActivePod { name: pod.to_owned(), uid: format!("uid-{pod}"), since });
        self.named_extended(name).status.active_pod = active;
    }

    pub(super) fn break_extended(&mut self, name: &str) {
        let metadata = json!({ "annotations": { FAULT: "crash-loop" } });
        let template = json!({ "spec": { "template": { "metadata": metadata } } });
        self.0.extended.insert(("default".to_owned(), name.to_owned()), Template::of(&template));
    }

    pub(super) fn config(&mut self, log_level: &str) {
        let metadata = json!({ "name": "db-config", "namespace": "default" });
        let object = json!({ "metadata": metadata, "data": { "log_level": log_level } });
        self.take(Change::ConfigMaps(seen(object)));
    }

    /// The set and the policy of the demo of ScalingPolicies at rest.
    pub(super) fn scaling() -> Self {
        let mut sample = Self::default();
        for zone in ["zone-a", "zone-b", "zone-c"] {
            sample.node(zone);
        }
        let namespace = "default".to_owned();
        sample.template("ingester", &json!({}), &json!({}));
        sample.0.view.sets.push(LoneSet {
            namespace: namespace.clone(),
            phased_rollout: None,
            set: Self::bare_set("ingester"),
        });
        sample.0.view.scaling.push(Scaling {
            namespace,
            name: "ingester".to_owned(),
            target: "ingester".to_owned(),
            observed: true,
            ..Scaling::default()
        });
        for (pod, zone) in [("ingester-0", "zone-a"), ("ingester-1", "zone-b"), ("ingester-2", "zone-c")] {
            sample.pod(pod, zone, "7966aa", Health::Ready);
        }
        sample.wanted(3);
        sample.scaled(3, "AsRequested", "");
        sample.storage("available");
        sample
    }

    pub(super) fn policy(&mut self) -> &mut Scaling {
        self.0.view.scaling.first_mut().unwrap()
    }

    /// So many pods are aimed at.
    pub(super) fn wanted(&mut self, replicas: u32) {
        self.policy().status.desired_replicas = Some(replicas);
    }

    fn scaled(&mut self, replicas: u32, reason: &str, message: &str) {
        let ready = json!([{
            "type": "Ready", "status": if reason == "AsRequested" { "True" } else { "False" }, "reason": reason,
            "message": message, "lastTransitionTime": "2026-11-16T12:00:00Z",
        }]);
        let status = &mut self.policy().status;
        (status.replicas, status.ready_replicas) = (Some(replicas), status.desired_replicas);
        status.conditions = serde_json::from_value(ready).unwrap();
    }

    /// A pod of three flushes its chunks.
    pub(super) fn drains(&mut self, pod: &str) {
        self.wanted(2);
        let said = r#"/state is "flushing, 30 of 40 chunks are left""#;
        self.scaled(3, "Draining", &format!("{pod} drains: {said}."));
        self.pod(pod, "zone-c", "7966aa", Health::Leaving);
        self.policy().status.leaving = serde_json::from_value(json!([{
            "ordinal": 2, "podName": pod, "phase": "Draining", "message": said, "startTime": "2026-11-16T12:00:00Z",
        }]))
        .unwrap();
    }

    /// It is gone.
    pub(super) fn removed(&mut self, pod: &str) {
        self.wanted(2);
        self.scaled(2, "AsRequested", "");
        self.policy().status.leaving.clear();
        self.named("ingester").pod_states.retain(|known| known.name != pod);
    }

    pub(super) fn storage(&mut self, state: &str) {
        let metadata = json!({ "name": "playground-storage", "namespace": "default" });
        let object = json!({ "metadata": metadata, "data": { "storage": state } });
        self.take(Change::ConfigMaps(seen(object)));
    }

    /// A pod whose annotation sets its answers to HTTP requests.
    pub(super) fn answers(&mut self, pod: &str, answers: &str) {
        let metadata = json!({ "name": pod, "namespace": "default", "annotations": { HTTP: answers } });
        self.take(Change::Scheduled(seen(json!({ "metadata": metadata }))));
    }
}
