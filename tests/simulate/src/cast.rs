//! The workloads of a run, as their users write them.

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;

use crate::dice::Dice;
use crate::extended::cast::Extended;
use crate::faults::{Fault, Plan};
use crate::init;
use crate::prometheus::HOST;
use crate::scaling::cast::Scaled;

/// The namespace of everything.
pub const NAMESPACE: &str = "default";
/// The group of the zones.
pub const GROUP: &str = "web";
/// The set that a PhasedRollout gates, and the rollout.
pub const GATED: &str = "gated";
/// Another such set, in a group with the first, and its rollout.
pub const TWIN: &str = "gated-twin";
/// Their group, where both are there.
pub const TWINS: &str = "gated";
/// So many of a thousand sets with a PhasedRollout have a twin.
const TWIN_SHARE: u64 = 400;
/// So many of a thousand runs with a PhasedRollout, and without a bad version at the end, end with one that is frozen.
const FREEZE_SHARE: u64 = 300;
/// So many of a thousand runs end with a version that is never Ready and is taken back.
const REVERT_SHARE: u64 = 250;
/// So many of a thousand runs with a PhasedRollout that is neither frozen nor rolled back at the end create its set again.
const ADOPT_SHARE: u64 = 250;
/// So many of a thousand runs with a PhasedRollout that has a deadline, and is neither frozen nor rolled back at the end, pause
/// it.
const HALT_SHARE: u64 = 400;
/// So many of a thousand runs with a PhasedRollout end without it.
const LEAVE_SHARE: u64 = 250;
/// The set that nobody but its own controller rolls.
pub const PLAIN: &str = "plain";

/// What there is in a run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not by itself")]
pub struct Cast {
    /// The names of the zones of the group.
    pub zones: Vec<String>,
    /// The sets to create.
    pub sets: Vec<Value>,
    /// The PhasedRollouts, each named like its set; none, one, or two on the two sets of a group.
    pub rollouts: Vec<Value>,
    /// Whether one more version comes at the end, which has to be rolled back.
    pub errs: bool,
    /// Whether a rollout is suspended with `Freeze` at the end, and a third party writes its partition.
    pub freezes: bool,
    /// Whether a version that is never Ready comes at the end, and is taken back.
    pub reverts: bool,
    /// Whether a set with gates is created again over its pods at the end, with another template.
    pub adopts: bool,
    /// Whether the rollouts are paused at the end, for longer than a gate may take.
    pub halts: bool,
    /// Whether the rollouts are deleted at the end, or one gets another target.
    pub leaves: bool,
    /// The ExtendedStatefulSets.
    pub extended: Vec<Extended>,
    /// The sets with a ScalingPolicy.
    pub scaled: Vec<Scaled>,
}

impl Cast {
    /// The cast of a seed.
    pub fn draw(seed: u64) -> Self {
        let dice = Dice::new(seed, "cast");
        let which = dice.among(1, 7);
        let mut sets = Vec::new();
        let mut zones = Vec::new();
        if which & 1 != 0 {
            let (replicas, budget) = (dice.among(1, 3), dice.among(1, 2));
            let policy = policy(&dice);
            for zone in ["zone-a", "zone-b", "zone-c"].into_iter().take(if dice.happens(700) { 3 } else { 2 })
            {
                let mut set = set(zone, replicas, policy);
                set["metadata"]["labels"] = json!({ keys::ROLLOUT_GROUP: GROUP });
                set["metadata"]["annotations"] = json!({ keys::MAX_UNAVAILABLE: budget.to_string() });
                set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
                sets.push(set);
                zones.push(zone.to_owned());
            }
        }
        let mut rollouts = Vec::new();
        if which & 2 != 0 {
            sets.push(set(GATED, dice.among(2, 4), policy(&dice)));
            rollouts.push(gate(&dice, &Dice::new(seed, "deadline")));
        }
        if which & 4 != 0 {
            let mut set = set(PLAIN, dice.among(1, 4), policy(&dice));
            set["spec"]["minReadySeconds"] = dice.pick(&[0, 0, 5]).copied().unwrap_or(0).into();
            if dice.happens(500) {
                claims(&mut set, &dice);
            }
            sets.push(set);
        }
        let goes_back = rollouts.first().is_some_and(|rollout| rollout["spec"]["onFailure"] == "Rollback");
        let errs = goes_back && dice.happens(500);
        let freezes = !rollouts.is_empty() && !errs && Dice::new(seed, "freeze").happens(FREEZE_SHARE);
        let reverts = Dice::new(seed, "revert").happens(REVERT_SHARE);
        let leaves = !rollouts.is_empty() && Dice::new(seed, "leave").happens(LEAVE_SHARE);
        let rests = !rollouts.is_empty() && !errs && !freezes;
        let adopts = rests && Dice::new(seed, "adopt").happens(ADOPT_SHARE);
        let has_deadline = rollouts.first().is_some_and(|rollout| deadline(rollout).is_some());
        let halts = rests && has_deadline && Dice::new(seed, "halt").happens(HALT_SHARE);
        let (extended, scaled) = (Extended::draw(seed), Scaled::draw(seed));
        let cast =
            Self { zones, sets, rollouts, errs, freezes, reverts, adopts, halts, leaves, extended, scaled };
        // Of its own row of numbers, so that seeds without a twin stay what they are. A step that lands in another one's
        // term is fenced by the version of its own set alone, whatever the twin does: architecture.md has the limit.
        let has_twin = Dice::new(seed, "twins").happens(TWIN_SHARE);
        let is_twin = has_twin && !Plan::draw(seed).has(Fault::LateWrite);
        let mut cast = if is_twin { cast.with_twin() } else { cast };
        init::add_to(&mut cast.sets, seed);
        cast
    }

    /// The same without ExtendedStatefulSets: what a seed was before there were any in the runs.
    #[must_use]
    pub fn without_extended(self) -> Self {
        Self { extended: Vec::new(), ..self }
    }

    /// The same without ScalingPolicies: what a seed was before there were any in the runs.
    #[must_use]
    pub fn without_scaling(self) -> Self {
        Self { scaled: Vec::new(), ..self }
    }

    /// The same without locks: what a seed was before there were any in the runs.
    #[must_use]
    pub fn without_locks(self) -> Self {
        Self { scaled: self.scaled.into_iter().map(Scaled::unlocked).collect(), ..self }
    }

    /// The same without init containers: what a seed was before there were any in the runs.
    #[must_use]
    pub fn without_init(mut self) -> Self {
        init::remove_from(&mut self.sets);
        self
    }

    /// Gives the set with gates a twin in a group with it.
    fn with_twin(mut self) -> Self {
        let Some(gated) = self.sets.iter_mut().find(|set| set["metadata"]["name"] == GATED) else {
            return self;
        };
        gated["metadata"]["labels"] = json!({ keys::ROLLOUT_GROUP: TWINS });
        let mut twin = gated.clone();
        twin["metadata"]["name"] = TWIN.into();
        twin["spec"]["serviceName"] = TWIN.into();
        twin["spec"]["selector"]["matchLabels"]["app"] = TWIN.into();
        twin["spec"]["template"] = template(TWIN, 1, None);
        self.sets.push(twin);
        let twins = self.rollouts.iter().map(|rollout| {
            let mut twin = rollout.clone();
            twin["metadata"]["name"] = TWIN.into();
            twin["spec"]["targetRef"] = TWIN.into();
            twin["spec"]["check"]["query"]["expr"] = expression(TWIN).into();
            twin
        });
        let twins: Vec<_> = twins.collect();
        self.rollouts.extend(twins);
        self
    }

    /// Three zones of so many pods and nothing else.
    pub fn three_zones(replicas: u64) -> Self {
        let zones = ["zone-a", "zone-b", "zone-c"].map(str::to_owned).to_vec();
        let sets = zones.iter().map(|zone| {
            let mut set = set(zone, replicas, "Parallel");
            set["metadata"]["labels"] = json!({ keys::ROLLOUT_GROUP: GROUP });
            set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
            set
        });
        let sets = sets.collect();
        let (errs, freezes, reverts, adopts, halts, leaves) = (false, false, false, false, false, false);
        let (rollouts, extended, scaled) = (Vec::new(), Vec::new(), Vec::new());
        Self { zones, sets, rollouts, errs, freezes, reverts, adopts, halts, leaves, extended, scaled }
    }

    /// The names of the sets that have gates, which are those of their rollouts.
    pub fn gated(&self) -> Vec<String> {
        let names = self.rollouts.iter().filter_map(|rollout| rollout["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// The names of the sets that get over a version whose pods are never Ready: those whose pods an operator replaces. A
    /// set with gates that has ended otherwise is left as it is.
    pub fn revertible(&self) -> Vec<String> {
        let gated = if self.errs || self.freezes { Vec::new() } else { self.gated() };
        self.zones.iter().cloned().chain(gated).collect()
    }

    /// The sets of these names, and what belongs to them.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let is_one = |object: &&Value| names.iter().any(|name| object["metadata"]["name"] == name.as_str());
        let sets = self.sets.iter().filter(is_one).cloned().collect();
        let rollouts = self.rollouts.iter().filter(is_one).cloned().collect();
        Self { sets, rollouts, ..self.clone() }
    }

    /// The rollout of this name.
    pub fn rollout(&self, name: &str) -> Option<&Value> {
        self.rollouts.iter().find(|rollout| rollout["metadata"]["name"] == name)
    }

    /// The names of the sets.
    pub fn names(&self) -> Vec<String> {
        self.sets.iter().filter_map(|set| Some(set["metadata"]["name"].as_str()?.to_owned())).collect()
    }
}

fn policy(dice: &Dice) -> &'static str {
    if dice.happens(500) { "OrderedReady" } else { "Parallel" }
}

fn set(name: &str, replicas: u64, policy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": policy,
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, 1, None),
        },
    })
}

/// The template of a version; `fault` is what its pods have.
pub fn template(set: &str, version: u64, fault: Option<&str>) -> Value {
    json!({
        "metadata": { "labels": { "app": set }, "annotations": { behaviour::FAULT: fault.unwrap_or_default() } },
        "spec": { "containers": [{ "name": "main", "image": image(version) }] },
    })
}

/// The image of a version.
pub fn image(version: u64) -> String {
    format!("app:v{version}")
}

/// The image of a version that does not work, as Prometheus says.
pub fn bad_image(version: u64) -> String {
    format!("app:bad-v{version}")
}

/// Whether an image is one of those.
pub fn is_bad(image: &str) -> bool {
    image.starts_with("app:bad-")
}

fn claims(set: &mut Value, dice: &Dice) {
    let policies = ["Retain", "Delete"];
    let policy = || dice.pick(&policies).copied().unwrap_or("Retain");
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({ "whenDeleted": policy(), "whenScaled": policy() });
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }]);
}

/// What Prometheus is asked about a rollout.
fn expression(rollout: &str) -> String {
    format!("errors{{rollout=\"{rollout}\"}} > 0")
}

/// The seconds that a gate may take: more than any does once nothing is wrong, less than many things last that are.
const DEADLINE: (u64, u64) = (90, 240);

/// The seconds that a gate of a rollout may take.
pub fn deadline(rollout: &Value) -> Option<u64> {
    rollout["spec"]["progressDeadlineSeconds"].as_u64()
}

fn gate(dice: &Dice, deadlines: &Dice) -> Value {
    let on_failure = dice.pick(&["Pause", "Rollback"]).copied().unwrap_or("Pause");
    let deadline = deadlines.happens(500).then(|| deadlines.among(DEADLINE.0, DEADLINE.1));
    let mut rollout = json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "PhasedRollout",
        "metadata": { "name": GATED, "namespace": NAMESPACE },
        "spec": {
            "targetRef": GATED,
            "onFailure": on_failure,
            "check": {
                "initialDelaySeconds": dice.among(0, 10),
                "periodSeconds": dice.among(1, 10),
                "successThreshold": dice.among(1, 3),
                "failureThreshold": dice.among(1, 5),
                "query": {
                    "expr": expression(GATED),
                    "url": format!("http://{HOST}:9090"),
                    "timeoutSeconds": dice.among(1, 10),
                },
            },
        },
    });
    if let Some(deadline) = deadline {
        rollout["spec"]["progressDeadlineSeconds"] = deadline.into();
    }
    rollout
}
