//! The sets of a run that are scaled by a policy, as their users write them.

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;

use crate::cast::{NAMESPACE, image};
use crate::dice::Dice;

/// So many of a thousand seeds have ScalingPolicies.
const SHARE: u64 = 350;
/// The set on its own.
const SINGLE: &str = "ingester";
/// The sets of a group, one for each zone.
const ZONED: [&str; 2] = ["store-a", "store-b"];
/// Their group.
const GROUP: &str = "store";
/// So many of a thousand seeds with policies have the group; the others have the set on its own.
const ZONED_SHARE: u64 = 450;
/// So many of a thousand sets have claims.
const CLAIMS_SHARE: u64 = 300;
/// So many of a thousand seeds with policies have locks, and so many of those with claims delete them after a drain.
const LOCK_SHARE: u64 = 400;
const DELETES_SHARE: u64 = 700;
/// How long a drain may take, in seconds: less than the pods of a run need, or more than the run.
const DEADLINES: [u64; 5] = [45, 90, 200, 4800, 4800];
/// The port of the applications.
const PORT: u16 = 8080;

/// A set and the policy of its name that scales it.
#[derive(Clone, Debug)]
pub struct Scaled {
    pub name: &'static str,
    /// The set to create.
    pub set: Value,
    /// The policy to create.
    pub policy: Value,
    /// Whether the set is a zone of a group.
    pub is_zone: bool,
}

impl Scaled {
    /// Whether a seed has any.
    pub fn is_drawn(seed: u64) -> bool {
        Dice::new(seed, "scaling").happens(SHARE)
    }

    /// Those of a seed. They are drawn from numbers of their own, so that the seeds without them stay what they are.
    pub fn draw(seed: u64) -> Vec<Self> {
        if !Self::is_drawn(seed) {
            return Vec::new();
        }
        let dice = Dice::new(seed, "scaled");
        let mut all = if dice.happens(ZONED_SHARE) {
            // The zones of a group are one workload.
            let first = Self::of(ZONED[0], true, &dice);
            ZONED.into_iter().map(|name| first.renamed(name)).collect()
        } else {
            vec![Self::of(SINGLE, false, &dice)]
        };
        // Of its own row of numbers, so that seeds without locks stay what they are.
        let dice = Dice::new(seed, "locks");
        if dice.happens(LOCK_SHARE) {
            let deletes = dice.happens(DELETES_SHARE);
            for one in &mut all {
                one.lock(deletes);
            }
        }
        all
    }

    /// Whether its pods have a lock.
    pub fn is_locked(&self) -> bool {
        self.policy["spec"]["scaleDown"]["fence"] == "Lock"
    }

    /// Gives it a lock, which its nodes obey.
    fn lock(&mut self, deletes: bool) {
        let down = &mut self.policy["spec"]["scaleDown"];
        down["fence"] = "Lock".into();
        if deletes && !self.set["spec"]["volumeClaimTemplates"].is_null() {
            down["claims"] = "DeleteAfterDrain".into();
        }
        self.set["spec"]["template"] = self.template(1, None);
    }

    /// The same without a lock.
    #[must_use]
    pub fn unlocked(mut self) -> Self {
        if let Some(down) = self.policy["spec"]["scaleDown"].as_object_mut() {
            down.retain(|field, _| field != "fence" && field != "claims");
        }
        self.set["spec"]["template"] = self.template(1, None);
        self
    }

    fn of(name: &'static str, is_zone: bool, dice: &Dice) -> Self {
        let replicas = dice.among(2, 4);
        let mut set = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "replicas": replicas,
                "serviceName": name,
                "podManagementPolicy": dice.pick(&["OrderedReady", "Parallel"]).copied(),
                "selector": { "matchLabels": { "app": name } },
                "template": Value::Null,
            },
        });
        if is_zone {
            set["metadata"]["labels"] = json!({ keys::ROLLOUT_GROUP: GROUP });
            set["metadata"]["annotations"] = json!({ keys::MAX_UNAVAILABLE: "1" });
            set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
        }
        if dice.happens(CLAIMS_SHARE) {
            let policy = || dice.pick(&["Retain", "Delete"]).copied();
            set["spec"]["persistentVolumeClaimRetentionPolicy"] =
                json!({ "whenDeleted": policy(), "whenScaled": policy() });
            set["spec"]["volumeClaimTemplates"] = json!([{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }]);
        }
        let mut policy = json!({
            "apiVersion": "sts.plus/v1alpha1",
            "kind": "ScalingPolicy",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "targetRef": { "name": name },
                "scaleDown": { "maxConcurrent": dice.pick(&[1, 1, 2, 3]).copied(), "hook": hook(dice) },
            },
        });
        if dice.happens(600) {
            policy["spec"]["replicas"] = replicas.into();
        }
        if dice.happens(400) {
            let join = json!({ "path": "/join", "port": "http" });
            policy["spec"]["scaleUp"] =
                json!({ "hook": { "http": join, "timeoutSeconds": dice.among(2, 10) } });
        }
        let mut scaled = Self { name, set, policy, is_zone };
        scaled.set["spec"]["template"] = scaled.template(1, None);
        scaled
    }

    fn renamed(&self, name: &'static str) -> Self {
        let mut other = Self { name, ..self.clone() };
        other.set["metadata"]["name"] = name.into();
        other.set["spec"]["serviceName"] = name.into();
        other.set["spec"]["selector"]["matchLabels"]["app"] = name.into();
        other.set["spec"]["template"] = other.template(1, None);
        other.policy["metadata"]["name"] = name.into();
        other.policy["spec"]["targetRef"]["name"] = name.into();
        other
    }

    /// The template of a version of its pods; `fault` is what they have.
    pub fn template(&self, version: u64, fault: Option<&str>) -> Value {
        let mut container = json!({
            "name": "main",
            "image": image(version),
            "ports": [{ "name": "http", "containerPort": PORT }],
        });
        if !self.set["spec"]["volumeClaimTemplates"].is_null() {
            container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
        }
        let mut template = json!({
            "metadata": {
                "labels": { "app": self.name },
                "annotations": { behaviour::FAULT: fault.unwrap_or_default() },
            },
            "spec": { "containers": [container] },
        });
        if self.is_locked() {
            template["metadata"]["annotations"][behaviour::INIT_KEY] = keys::LOCK.into();
        }
        template
    }

    /// The hook for pods that leave. Each attempt has a path of its own, so that what is called has changed.
    pub fn hook(&self, attempt: u64) -> Value {
        let mut hook = self.policy["spec"]["scaleDown"]["hook"].clone();
        let path = hook["http"]["path"].as_str().unwrap_or_default();
        hook["http"]["path"] = format!("{path}?attempt={attempt}").into();
        hook
    }
}

/// One that answers when the pod is done, or one that begins a drain and is asked for its progress.
fn hook(dice: &Dice) -> Value {
    let polls = dice.happens(600);
    let path = if polls { "/begin" } else { "/flush" };
    let mut http =
        json!({ "path": path, "port": if dice.happens(500) { json!("http") } else { json!(PORT) } });
    if polls {
        http["status"] = json!({ "path": "/progress", "jsonPointer": "/state", "equals": "drained" });
    }
    if dice.happens(700) {
        http["cancel"] = json!({ "path": path });
    }
    json!({
        "http": http,
        "timeoutSeconds": dice.among(3, 15),
        "deadlineSeconds": dice.pick(&DEADLINES).copied(),
        "onFailure": dice.pick(&["Block", "Block", "Force", "Abort"]).copied(),
    })
}
