//! A cluster as it may be observed, for the tests of this folder.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_operator::view::{Group, Location, LoneSet, Phase, Pod, PodState, Rollout, Set, SetState};

use super::observed::{Change, Observed, Seen};
use super::template::{FAULT, Template, VERSION, ZONE};

fn seen<O: DeserializeOwned>(object: Value) -> Seen<O> {
    Seen::Object(serde_json::from_value(object).unwrap())
}

/// How a pod is to be.
#[derive(Clone, Copy)]
pub(super) enum Health {
    Ready,
    Starting,
    Terminating,
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
        sample.set("store-zone-a", "zone-a", "Rolling", "rolling to revision store-zone-a-7966aa: the next outdated pod goes when those replaced before it are Ready");
        sample.set("store-zone-b", "zone-b", "WaitingForTurn", "waits for its turn after store-zone-a");
        sample.set("store-zone-c", "zone-c", "WaitingForTurn", "waits for its turn after store-zone-a");
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
        sample.event("StatefulSet", "store-zone-a", "Rolling", "rolling to revision store-zone-a-7966aa");
        sample.event(
            "PhasedRollout",
            "gated",
            "GatePassed",
            "the gate at partition 3 has passed: gated-2 is next",
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
        grouped.chain(view.sets.iter_mut().map(|lone| &mut lone.set))
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
            "message": "waits until the check has passed 2 times in a row (1 so far) before gated-1 may go",
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
}
