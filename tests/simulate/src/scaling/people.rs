//! The users of ScalingPolicies, and third parties who change what is not theirs. They act beside all others, by numbers of
//! their own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;
use tokio::time::sleep;

use super::cast::Scaled;
use super::state::records;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::hand::Hand;
use crate::link::Net;

/// From one thing that somebody does to the next.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(40));
/// The same where a write may arrive long after it was decided: not before that.
const BETWEEN_LATE: (Duration, Duration) = (Duration::from_mins(1), Duration::from_secs(90));
/// How long a number of replicas is wanted that is taken back.
const FLIP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
/// How long an object is gone before it is created again.
const GONE: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(20));
/// How long a container stays down.
const DOWN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The greatest number of replicas that somebody asks for.
const MOST: u64 = 5;
/// What can be the matter with a version.
const ILLS: [&str; 3] = ["never-ready", "crash-loop", "image-pull"];

/// What its user wants of a set and its policy.
#[derive(Clone, Copy, Debug)]
struct Desired {
    replicas: u64,
    version: u64,
    ill: Option<&'static str>,
    /// Which attempt of the hook is asked for.
    attempt: u64,
}

/// Everybody who does something to the scaled sets of a run.
pub struct ScalingPeople {
    net: Net,
    all: Vec<Scaled>,
    dice: Dice,
    user: Hand,
    other: Hand,
    desired: BTreeMap<&'static str, Desired>,
    newest: u64,
}

impl ScalingPeople {
    /// Everybody of a run.
    pub fn new(net: &Net, all: &[Scaled], seed: u64) -> Self {
        let desired = |one: &Scaled| {
            let replicas = one.set["spec"]["replicas"].as_u64().unwrap_or(1);
            (one.name, Desired { replicas, version: 1, ill: None, attempt: 0 })
        };
        Self {
            net: net.clone(),
            all: all.to_vec(),
            dice: Dice::new(seed, "scaling people"),
            user: Hand::new(&net.server, &net.trace, "user"),
            other: Hand::new(&net.server, &net.trace, "third party"),
            desired: all.iter().map(desired).collect(),
            newest: 1,
        }
    }

    /// Creates what there is to be.
    pub async fn begin(&self) {
        for one in &self.all {
            self.user.create("statefulsets", &one.set).await;
            self.user.create("scalingpolicies", &one.policy).await;
        }
    }

    /// Does things until the time of trouble is over.
    pub async fn act(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let has = |people: &Self, fault| people.net.plan.has(fault);
        let is_late = has(self, Fault::LateWrite);
        let between = if is_late { BETWEEN_LATE } else { BETWEEN };
        loop {
            let pause = self.dice.time(between.0, between.1);
            if self.net.now() + pause >= self.net.plan.chaos {
                break;
            }
            sleep(pause).await;
            let [turn, what] = [self.dice.draw(), self.dice.draw()];
            match turn % 14 {
                0..=3 => self.scale().await,
                _ if is_late => {}
                4 | 5 => self.flip().await,
                6 => self.roll(None).await,
                7..=9 if has(self, Fault::Edits) => self.edit(what).await,
                10 if has(self, Fault::SickPods) => self.restart().await,
                11 if has(self, Fault::Evictions) => self.remove().await,
                12 | 13 if has(self, Fault::Meddling) => self.meddle(what).await,
                _ => {}
            }
        }
    }

    /// Wants what there is to be at the end, while the wires are still bad.
    pub async fn heal(&mut self) {
        self.newest += 1;
        for one in self.all.clone() {
            let replicas = self.dice.among(1, MOST - 1);
            let attempt = self.desired(&one).attempt + 1;
            self.desired.insert(one.name, Desired { replicas, version: self.newest, ill: None, attempt });
            self.restore(&one).await;
            let template = one.template(self.newest, None);
            self.user.patch("statefulsets", one.name, &spec(json!({ "template": template }))).await;
            self.user.patch("scalingpolicies", one.name, &spec(self.wanted(&one))).await;
        }
    }

    /// Sees to it that everything stays as it shall be at the end: what was deleted is created again once it is gone, and
    /// pods that have failed to leave get another attempt.
    pub async fn mend(&self) {
        for one in &self.all {
            self.restore(one).await;
            let has_failed = self.net.monitor.look_at(|truth| {
                let policy = truth.scaling.policies.get(one.name);
                policy.is_some_and(|policy| {
                    let status = &policy.object["status"];
                    let all = records(status, "leaving").chain(records(status, "joining"));
                    all.into_iter().any(|record| record["phase"] == "Failed")
                })
            });
            if has_failed {
                let attempt = one.hook(self.net.now().as_secs());
                let fields = spec(json!({ "scaleDown": { "hook": attempt } }));
                self.user.patch("scalingpolicies", one.name, &fields).await;
            }
        }
    }

    /// Creates what is not there.
    async fn restore(&self, one: &Scaled) {
        let (has_set, has_policy) = self.net.monitor.look_at(|truth| {
            (truth.sets.contains_key(one.name), truth.scaling.policies.contains_key(one.name))
        });
        let desired = self.desired(one);
        if !has_set {
            let mut set = one.set.clone();
            set["spec"]["template"] = one.template(desired.version, desired.ill);
            self.user.create("statefulsets", &set).await;
        }
        if !has_policy {
            let mut policy = one.policy.clone();
            for (field, value) in self.wanted(one).as_object().into_iter().flatten() {
                policy["spec"][field] = value.clone();
            }
            self.user.create("scalingpolicies", &policy).await;
        }
    }

    /// The fields of a policy that change, as its user wants them.
    fn wanted(&self, one: &Scaled) -> Value {
        let desired = self.desired(one);
        let mut down = one.policy["spec"]["scaleDown"].clone();
        down["hook"] = one.hook(desired.attempt);
        json!({ "replicas": desired.replicas, "paused": false, "scaleDown": down })
    }

    fn desired(&self, one: &Scaled) -> Desired {
        let new = Desired { replicas: 1, version: 1, ill: None, attempt: 0 };
        self.desired.get(one.name).copied().unwrap_or(new)
    }

    fn some(&self) -> Option<Scaled> {
        self.dice.pick(&self.all).cloned()
    }

    fn change(&mut self, one: &Scaled, change: impl Fn(&mut Desired)) {
        if let Some(desired) = self.desired.get_mut(one.name) {
            change(desired);
        }
    }

    /// Another number of replicas, written to the policy or through its scale.
    async fn give(&mut self, one: &Scaled, replicas: u64) {
        self.change(one, |desired| desired.replicas = replicas);
        let scale = format!("{}/scale", one.name);
        let path = if self.dice.happens(400) { scale.as_str() } else { one.name };
        self.user.patch("scalingpolicies", path, &spec(json!({ "replicas": replicas }))).await;
    }

    async fn scale(&mut self) {
        let Some(one) = self.some() else { return };
        let replicas = self.dice.among(0, MOST);
        self.give(&one, replicas).await;
    }

    /// Fewer pods are wanted, and then more again while some of them leave.
    async fn flip(&mut self) {
        let Some(one) = self.some() else { return };
        let before = self.desired(&one).replicas;
        self.give(&one, before.saturating_sub(self.dice.among(1, 3))).await;
        sleep(self.dice.time(FLIP.0, FLIP.1)).await;
        self.give(&one, (before + self.dice.below(2)).min(MOST)).await;
    }

    /// A new version, whose pods may be ill.
    async fn roll(&mut self, ill: Option<&'static str>) {
        self.newest += 1;
        for one in self.all.clone() {
            let version = self.newest;
            self.change(&one, |desired| (desired.version, desired.ill) = (version, ill));
            let template = one.template(version, ill);
            self.user.patch("statefulsets", one.name, &spec(json!({ "template": template }))).await;
        }
    }

    /// The user changes something.
    async fn edit(&mut self, what: u64) {
        let Some(one) = self.some() else { return };
        let policy = |fields: Value| (one.name, spec(fields));
        let down = |fields: Value| policy(json!({ "scaleDown": fields }));
        match what % 11 {
            0 => {
                self.patch(policy(json!({ "paused": true }))).await;
                sleep(self.dice.time(BETWEEN.0, BETWEEN.1)).await;
                self.patch(policy(json!({ "paused": false }))).await;
            }
            1 | 2 => {
                self.change(&one, |desired| desired.attempt += 1);
                self.patch(down(json!({ "hook": one.hook(self.desired(&one).attempt) }))).await;
            }
            3 => self.patch(down(json!({ "maxConcurrent": self.dice.among(1, 3) }))).await,
            4 => {
                self.patch(down(json!({ "hook": null }))).await;
                sleep(self.dice.time(FLIP.0, FLIP.1)).await;
                self.patch(down(json!({ "hook": one.hook(self.desired(&one).attempt) }))).await;
            }
            5 => {
                let policies = ["Block", "Force", "Abort"];
                let on_failure = self.dice.pick(&policies).copied();
                let hook = json!({ "onFailure": on_failure, "deadlineSeconds": self.dice.among(20, 200) });
                self.patch(down(json!({ "hook": hook }))).await;
            }
            6 => {
                let ill = self.dice.pick(&ILLS).copied();
                self.roll(ill).await;
            }
            7 => {
                let orphans = self.dice.happens(500);
                let policy = if orphans { "Orphan" } else { "Background" };
                self.user.delete("statefulsets", one.name, &json!({ "propagationPolicy": policy })).await;
                sleep(self.dice.time(GONE.0, GONE.1)).await;
                self.restore(&one).await;
            }
            _ => {
                let end = if self.dice.happens(500) { "Drain" } else { "Release" };
                self.patch(policy(json!({ "deletionPolicy": end }))).await;
                self.user.delete("scalingpolicies", one.name, &json!({})).await;
                sleep(self.dice.time(GONE.0, GONE.1)).await;
                self.restore(&one).await;
            }
        }
    }

    async fn patch(&self, (name, fields): (&str, Value)) {
        self.user.patch("scalingpolicies", name, &fields).await;
    }

    /// A pod that leaves, where there is one; else the last one of a set.
    fn some_leaving(&self) -> Option<String> {
        let one = self.some()?;
        let pods: Vec<String> = self.net.monitor.look_at(|truth| {
            let status = truth.scaling.policies.get(one.name).map(|policy| &policy.object["status"]);
            let recorded = status.into_iter().flat_map(|status| records(status, "leaving"));
            recorded.filter_map(|record| record["podName"].as_str().map(str::to_owned)).collect()
        });
        let last = || {
            let last = |pods: Vec<String>| pods.into_iter().max();
            self.net
                .monitor
                .look_at(|truth| last(truth.pods_of(one.name).map(|pod| pod.name.clone()).collect()))
        };
        self.dice.pick(&pods).cloned().or_else(last)
    }

    /// The container of a pod that leaves is restarted.
    async fn restart(&self) {
        let Some(pod) = self.some_leaving() else { return };
        let fault = |fault: &str| json!({ "metadata": { "annotations": { behaviour::FAULT: fault } } });
        self.other.patch("pods", &pod, &fault("crash-loop")).await;
        sleep(self.dice.time(DOWN.0, DOWN.1)).await;
        self.other.patch("pods", &pod, &fault("")).await;
    }

    /// A pod that leaves is replaced.
    async fn remove(&self) {
        let Some(pod) = self.some_leaving() else { return };
        self.other.delete("pods", &pod, &json!({})).await;
    }

    /// A third party writes what is not theirs.
    async fn meddle(&mut self, what: u64) {
        let Some(one) = self.some() else { return };
        let annotated = |value: Value| json!({ "metadata": { "annotations": { keys::LEAVING: value } } });
        let fields = match what % 5 {
            0..=2 => spec(json!({ "replicas": self.dice.among(0, MOST) })),
            3 => annotated(Value::Null),
            _ => annotated(self.dice.pick(&["0", "1,2", "many"]).copied().into()),
        };
        self.other.patch("statefulsets", one.name, &fields).await;
    }
}

fn spec(fields: Value) -> Value {
    [("spec".to_owned(), fields)].into_iter().collect()
}
