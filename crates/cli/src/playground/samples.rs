//! Objects as the API server sends them, for the tests of this folder.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::rows::{FAULT, VERSION};
use super::sight::{Change, Shown, Sight};

fn row<R: DeserializeOwned>(object: Value) -> Shown<R> {
    Shown::Seen(serde_json::from_value(object).unwrap())
}

/// How a pod is to be.
#[derive(Clone, Copy)]
pub(super) enum Health {
    Ready,
    Starting,
    Stopping,
    Crashing,
}

/// Takes changes in, one by one.
#[derive(Default)]
pub(super) struct Sample(pub(super) Sight);

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
        for (pod, zone, revision, health) in [
            ("store-zone-a-0", "zone-a", "7966aa", Health::Ready),
            ("store-zone-a-1", "zone-a", "7966aa", Health::Starting),
            ("store-zone-a-2", "zone-a", "58aabb", Health::Stopping),
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
        sample.gated();
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
        let labels = json!({ "topology.kubernetes.io/zone": zone });
        self.take(Change::Nodes(row(
            json!({ "metadata": { "name": format!("node-{zone}"), "labels": labels } }),
        )));
    }

    /// A set of the group `store`, of version 1.
    pub(super) fn set(&mut self, name: &str, zone: &str, state: &str, message: &str) {
        let status =
            json!({ "group": "store", "state": state, "message": message, "since": "2026-11-16T12:00:00Z" });
        let annotations = json!({ "sts.plus/rollout-status": status.to_string() });
        let mut object = Self::bare_set(name, &json!({ "topology.kubernetes.io/zone": zone }));
        object["metadata"]["labels"] = json!({ "rollout-group": "store" });
        object["metadata"]["annotations"] = annotations;
        self.take(Change::Sets(row(object)));
    }

    fn bare_set(name: &str, selector: &Value) -> Value {
        let container = json!({ "name": "main", "env": [{ "name": VERSION, "value": "1" }] });
        json!({
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "template": { "metadata": {}, "spec": { "nodeSelector": selector, "containers": [container] } } },
            "status": { "updateRevision": format!("{name}-7966aa") },
        })
    }

    /// A revision of a set: the latest is the one with the highest number.
    pub(super) fn revision(&mut self, set: &str, hash: &str, number: i64) {
        self.take(Change::Revisions(row(json!({
            "metadata": {
                "name": format!("{set}-{hash}"), "namespace": "default",
                "ownerReferences": [{ "kind": "StatefulSet", "name": set }],
            },
            "revision": number,
        }))));
    }

    /// Puts an object in the place of a set.
    pub(super) fn change_set(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = Self::bare_set(name, &json!({}));
        object["metadata"]["labels"] = json!({ "rollout-group": "store" });
        change(&mut object);
        self.take(Change::Sets(row(object)));
    }

    pub(super) fn break_set(&mut self, name: &str) {
        self.change_set(name, |object| {
            object["spec"]["template"]["metadata"]["annotations"] = json!({ FAULT: "crash-loop" });
        });
    }

    fn gated(&mut self) {
        self.take(Change::Sets(row(Self::bare_set("gated", &json!({})))));
        self.take(Change::Rollouts(row(json!({
            "metadata": { "name": "gated", "namespace": "default" },
            "spec": { "targetRef": "gated" },
            "status": {
                "phase": "Rolling", "waitingFor": "Checks",
                "message": "waits until the check has passed 2 times in a row (1 so far) before gated-1 may go",
            },
        }))));
    }

    pub(super) fn pod(&mut self, name: &str, zone: &str, revision: &str, health: Health) {
        let (set, _) = name.rsplit_once('-').unwrap();
        let mut object = json!({
            "metadata": {
                "name": name, "namespace": "default",
                "labels": { "controller-revision-hash": format!("{set}-{revision}") },
                "ownerReferences": [{ "kind": "StatefulSet", "name": set }],
            },
            "spec": { "nodeName": format!("node-{zone}") },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        match health {
            Health::Ready => {}
            Health::Starting => object["status"] = json!({ "phase": "Pending" }),
            Health::Stopping => object["metadata"]["deletionTimestamp"] = json!("2026-11-16T12:00:00Z"),
            Health::Crashing => {
                let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
                object["status"] = json!({ "phase": "Running", "containerStatuses": [{ "state": waiting }] });
            }
        }
        self.take(Change::Pods(row(object)));
    }

    pub(super) fn metric(&mut self, value: &str) {
        let metadata = json!({ "name": "playground-metrics", "namespace": "default" });
        let object = json!({ "metadata": metadata, "data": { "errors_per_second": value } });
        self.take(Change::Settings(row(object)));
    }

    pub(super) fn event(&mut self, kind: &str, name: &str, reason: &str, message: &str) {
        self.take(Change::Events(row(json!({
            "metadata": { "name": format!("{name}.1"), "namespace": "default" },
            "involvedObject": { "kind": kind, "name": name },
            "reason": reason, "message": message,
            "source": { "component": "sts-plus" }, "reportingComponent": "sts.plus/operator",
            "lastTimestamp": "2026-11-16T12:00:01Z",
        }))));
    }
}
