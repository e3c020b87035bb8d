//! The users of ExtendedStatefulSets, and third parties who change what is not theirs. They act beside all others, by
//! numbers of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;
use tokio::time::sleep;

use super::cast::{Extended, answer, zones};
use crate::cast::NAMESPACE;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::hand::Hand;
use crate::link::Net;

/// From one thing that somebody does to the next.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(45));
/// How long a change lasts that is taken back.
const FLIP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(20));
/// How long an object is gone before it is created again.
const GONE: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(20));
/// What can be the matter with a version.
const ILLS: [&str; 4] = ["never-ready", "crash-loop", "image-pull", "unready-after=20s"];

/// What its user wants of an object.
#[derive(Clone, Copy, Debug)]
struct Desired {
    version: u64,
    ill: Option<&'static str>,
}

/// Everybody who does something to the ExtendedStatefulSets of a run.
pub struct ExtendedPeople {
    net: Net,
    objects: Vec<Extended>,
    dice: Dice,
    user: Hand,
    other: Hand,
    desired: BTreeMap<&'static str, Desired>,
    newest: u64,
    data: u64,
}

impl Extended {
    /// The plural of its kind, as hands take it.
    fn plural(&self) -> String {
        match self.group {
            Group::StsPlus => "extendedstatefulsets".to_owned(),
            Group::Fissile => format!("extendedstatefulsets.{}", self.group.name()),
        }
    }
}

impl ExtendedPeople {
    /// Everybody of a run.
    pub fn new(net: &Net, objects: &[Extended], seed: u64) -> Self {
        Self {
            net: net.clone(),
            objects: objects.to_vec(),
            dice: Dice::new(seed, "extended people"),
            user: Hand::new(&net.server, &net.trace, "user"),
            other: Hand::new(&net.server, &net.trace, "third party"),
            desired: objects.iter().map(|object| (object.name, Desired { version: 1, ill: None })).collect(),
            newest: 1,
            data: 0,
        }
    }

    /// Creates what there is to be.
    pub async fn begin(&mut self) {
        for object in self.objects.clone() {
            if let Some(stranger) = &object.stranger {
                self.user.create("statefulsets", stranger).await;
            }
            if object.has_config {
                self.data += 1;
                self.user.create("configmaps", &config(&object.settings(), self.data)).await;
            }
            self.user.create(&object.plural(), &object.object).await;
        }
    }

    /// Does things until the time of trouble is over.
    pub async fn act(&mut self) {
        if self.objects.is_empty() {
            return;
        }
        sleep(self.dice.time(Duration::from_secs(5), Duration::from_secs(40))).await;
        self.roll(None).await;
        loop {
            let pause = self.dice.time(BETWEEN.0, BETWEEN.1);
            if self.net.now() + pause >= self.net.plan.chaos {
                break;
            }
            sleep(pause).await;
            let [turn, what] = [self.dice.draw(), self.dice.draw()];
            if what % 5 < 3 {
                self.approve().await;
            }
            let has = |fault| self.net.plan.has(fault);
            match turn % 10 {
                0 | 1 => self.roll(None).await,
                2 | 3 => self.configure(what).await,
                4..=7 if has(Fault::Edits) => self.edit(what).await,
                8 if has(Fault::SickPods) => self.refuse(what).await,
                9 if has(Fault::Meddling) => self.meddle(what).await,
                _ => {}
            }
        }
    }

    /// Wants what there is to be at the end, while the wires are still bad.
    pub async fn heal(&mut self) {
        self.newest += 1;
        for object in self.objects.clone() {
            self.desired.insert(object.name, Desired { version: self.newest, ill: None });
            let given = &object.object["spec"];
            let fields = json!({ "spec": {
                "paused": false,
                "zones": given["zones"],
                "template": { "spec": {
                    "replicas": given["template"]["spec"]["replicas"],
                    "template": object.template(self.newest, None),
                } },
            } });
            self.user.patch(&object.plural(), object.name, &fields).await;
        }
        self.mend().await;
    }

    /// Sees to it that everything stays as it shall be at the end: somebody approves what waits for it, and pods that must
    /// not be active may be so again.
    pub async fn mend(&self) {
        for object in &self.objects {
            self.restore(object).await;
        }
        self.approve().await;
        let refusing: Vec<String> = self.net.monitor.look_at(|truth| {
            let refusing = truth.pods.values().filter(|pod| pod.refuses);
            refusing.map(|pod| pod.name.clone()).collect()
        });
        for pod in refusing {
            self.other.patch("pods", &pod, &answering(true)).await;
        }
    }

    /// Creates an object that is not there.
    async fn restore(&self, object: &Extended) {
        let is_there = self.net.monitor.look_at(|truth| {
            let objects = || truth.extended.objects.values().filter(|known| known.name == object.name);
            objects().any(|known| !known.gone)
        });
        if is_there {
            return;
        }
        let mut wanted = object.object.clone();
        let desired = self.desired(object);
        wanted["spec"]["template"]["spec"]["template"] = object.template(desired.version, desired.ill);
        self.user.create(&object.plural(), &wanted).await;
    }

    fn desired(&self, object: &Extended) -> Desired {
        self.desired.get(object.name).copied().unwrap_or(Desired { version: 1, ill: None })
    }

    fn some(&self) -> Option<Extended> {
        self.dice.pick(&self.objects).cloned()
    }

    /// Gives an object a version, whose pods may be ill.
    async fn give(&mut self, object: &Extended, desired: Desired) {
        self.desired.insert(object.name, desired);
        let template = object.template(desired.version, desired.ill);
        let fields = json!({ "spec": { "template": { "spec": { "template": template } } } });
        self.user.patch(&object.plural(), object.name, &fields).await;
    }

    async fn roll(&mut self, ill: Option<&'static str>) {
        let Some(object) = self.some() else { return };
        self.newest += 1;
        self.give(&object, Desired { version: self.newest, ill }).await;
    }

    /// Approves whatever waits for it.
    async fn approve(&self) {
        for object in &self.objects {
            let live = self.user.get(&object.plural(), object.name).await;
            let awaited = &live["status"]["awaitedApproval"];
            if awaited.is_string() && live["metadata"]["annotations"][keys::APPROVE] != *awaited {
                let fields = json!({ "metadata": { "annotations": { keys::APPROVE: awaited } } });
                self.user.patch(&object.plural(), object.name, &fields).await;
            }
        }
    }

    /// Changes a ConfigMap: its data, what is no data, or whether it is there.
    async fn configure(&mut self, what: u64) {
        let Some(object) = self.some().filter(|object| object.has_config) else { return };
        self.data += 1;
        let settings = object.settings();
        match what % 6 {
            0 | 1 => {
                let fields = json!({ "data": { "number": self.data.to_string() } });
                self.user.patch("configmaps", &settings, &fields).await;
            }
            2 | 3 => {
                let fields =
                    json!({ "metadata": { "annotations": { "simulate/note": self.data.to_string() } } });
                self.user.patch("configmaps", &settings, &fields).await;
            }
            4 => {
                let extra = object.extra();
                if self.user.get("configmaps", &extra).await.is_null() {
                    self.user.create("configmaps", &config(&extra, self.data)).await;
                } else {
                    self.user.delete("configmaps", &extra, &json!({})).await;
                }
            }
            _ => {
                self.user.delete("configmaps", &settings, &json!({})).await;
                sleep(self.dice.time(FLIP.0, FLIP.1)).await;
                self.user.create("configmaps", &config(&settings, self.data)).await;
            }
        }
    }

    /// The user changes something about an object.
    async fn edit(&mut self, what: u64) {
        let Some(object) = self.some() else { return };
        let (plural, name) = (object.plural(), object.name);
        let desired = self.desired(&object);
        let paused = |paused: bool| json!({ "spec": { "paused": paused } });
        match what % 9 {
            0 => {
                let version = desired.version.saturating_sub(1).max(1);
                self.give(&object, Desired { version, ill: None }).await;
            }
            1 => {
                let ill = self.dice.pick(&ILLS).copied();
                self.newest += 1;
                self.give(&object, Desired { version: self.newest, ill }).await;
            }
            2 | 3 => {
                let replicas = self.dice.among(1, 4);
                let fields = json!({ "spec": { "template": { "spec": { "replicas": replicas } } } });
                self.user.patch(&plural, name, &fields).await;
            }
            4 => {
                let is_zoned =
                    object.object["spec"]["zones"].as_array().is_some_and(|zones| !zones.is_empty());
                let fields = json!({ "spec": { "zones": zones(&self.dice, is_zoned) } });
                self.user.patch(&plural, name, &fields).await;
            }
            5 => {
                self.user.patch(&plural, name, &paused(true)).await;
                sleep(self.dice.time(BETWEEN.0, BETWEEN.1)).await;
                self.user.patch(&plural, name, &paused(false)).await;
            }
            6 => {
                let orphan = !object.is_blue_green() && self.dice.happens(500);
                let policy = if orphan { "Orphan" } else { "Background" };
                self.user.delete(&plural, name, &json!({ "propagationPolicy": policy })).await;
                sleep(self.dice.time(GONE.0, GONE.1)).await;
                self.restore(&object).await;
            }
            _ => {
                self.newest += 1;
                self.give(&object, Desired { version: self.newest, ill: None }).await;
                sleep(self.dice.time(FLIP.0, FLIP.1)).await;
                self.give(&object, desired).await;
            }
        }
    }

    /// A pod of an object says that it must not be active, or may be so again: mostly the active one.
    async fn refuse(&mut self, what: u64) {
        let pods: Vec<(String, bool)> = self.net.monitor.look_at(|truth| {
            let own = truth.pods.values().filter(|pod| truth.extended.sets.contains_key(&pod.owner));
            let meant = own.filter(|pod| pod.active || !what.is_multiple_of(3));
            meant.map(|pod| (pod.name.clone(), pod.refuses)).collect()
        });
        let Some((pod, refuses)) = self.dice.pick(&pods).cloned() else { return };
        self.other.patch("pods", &pod, &answering(refuses)).await;
    }

    /// A third party changes what an object owns.
    async fn meddle(&mut self, what: u64) {
        let sets: Vec<String> = self.net.monitor.look_at(|truth| {
            let own = truth.sets.iter().filter(|(_, set)| truth.extended.sets.contains_key(&set.uid));
            own.map(|(name, _)| name.clone()).collect()
        });
        let Some(set) = self.dice.pick(&sets).cloned() else { return };
        match what % 4 {
            0 => {
                let replicas = self.dice.among(0, 4);
                self.other.patch("statefulsets", &set, &json!({ "spec": { "replicas": replicas } })).await;
            }
            1 => {
                self.other.delete("statefulsets", &set, &json!({ "propagationPolicy": "Background" })).await;
            }
            2 => {
                let active: Vec<String> = self.net.monitor.look_at(|truth| {
                    truth.pods.values().filter(|pod| pod.active).map(|pod| pod.name.clone()).collect()
                });
                let Some(pod) = self.dice.pick(&active) else { return };
                let labels: BTreeMap<_, _> =
                    Group::ALL.iter().map(|group| (group.key(keys::POD_DESIGNATION), Value::Null)).collect();
                self.other.patch("pods", pod, &json!({ "metadata": { "labels": labels } })).await;
            }
            _ => {
                self.other
                    .patch("statefulsets", &set, &json!({ "metadata": { "ownerReferences": null } }))
                    .await;
            }
        }
    }
}

fn config(name: &str, data: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "data": { "number": data.to_string() },
    })
}

fn answering(passes: bool) -> Value {
    json!({ "metadata": { "annotations": { behaviour::HTTP: answer(passes) } } })
}
