//! What people and machines do while the operator works: users who change their mind, third parties, sick pods and nodes
//! that are lost.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::{Running, behaviour};
use tokio::time::{sleep, timeout};

use crate::absence::KNOWN_AFTER;
use crate::cast::{Cast, NAMESPACE, template};
use crate::dice::Dice;
use crate::faults::Fault;
use crate::goal;
use crate::hand::Hand;
use crate::init;
use crate::link::Net;

/// From one thing that somebody does to the next.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(75));
/// How long a version is wanted that is taken back.
const FLIP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(12));
/// How long a version is wanted whose first pods have gone for it, ...
const CONTRARY: (Duration, Duration) = (Duration::ZERO, Duration::from_millis(300));
/// ... and how long somebody waits to see them go.
const WATCHES_FOR: Duration = Duration::from_mins(1);
/// What can be the matter with pods.
const ILLS: [&str; 6] =
    ["never-ready", "crash-loop", "image-pull", "stuck-terminating", "unready-after=3s", "unready-after=20s"];

/// What happens while a kind is out of sight.
#[derive(Debug)]
struct Unseen {
    pod: Option<String>,
    since: Duration,
    has_rolled: bool,
}

/// Everybody who does something, for one run.
pub struct People {
    pub(super) net: Net,
    pub(super) cast: Cast,
    dice: Dice,
    /// What was thought of later: drawn from elsewhere, so that the rest of a seed stays as it is.
    pub(super) whims: Dice,
    /// Drawn from elsewhere as well: what follows when a set is created again over its pods.
    pub(super) turns: Dice,
    /// And when rollouts are paused at the end.
    pub(super) halts: Dice,
    pub(super) user: Hand,
    pub(super) other: Hand,
    /// The version of each set's template, and what its pods have.
    pub(super) versions: BTreeMap<String, (u64, Option<&'static str>)>,
    pub(super) newest: u64,
}

impl People {
    /// Everybody of a run.
    pub fn new(net: &Net, cast: &Cast, seed: u64) -> Self {
        Self {
            net: net.clone(),
            cast: cast.clone(),
            dice: Dice::new(seed, "people"),
            whims: Dice::new(seed, "whims"),
            turns: Dice::new(seed, "turns"),
            halts: Dice::new(seed, "halts"),
            user: Hand::new(&net.server, &net.trace, "user"),
            other: Hand::new(&net.server, &net.trace, "third party"),
            versions: cast.names().into_iter().map(|name| (name, (1, None))).collect(),
            newest: 1,
        }
    }

    /// Creates what there is to be.
    pub async fn begin(&self) {
        for set in &self.cast.sets {
            self.user.create("statefulsets", set).await;
        }
        for rollout in &self.cast.rollouts {
            self.user.create("phasedrollouts", rollout).await;
        }
    }

    /// Does things until the time of trouble is over.
    pub async fn act(&mut self, nodes: &Running) {
        // Every run rolls at least once.
        sleep(self.dice.time(Duration::from_secs(5), Duration::from_secs(40))).await;
        self.roll().await;
        let (mut lost, mut unseen) = (None, None);
        loop {
            let pause = self.dice.time(BETWEEN.0, BETWEEN.1);
            if self.net.now() + pause >= self.net.plan.chaos {
                break;
            }
            sleep(pause).await;
            lost = self.lose_nodes(nodes, lost);
            unseen = self.harm_unseen(unseen).await;
            let [turn, what] = [self.dice.draw(), self.dice.draw()];
            match turn % 8 {
                0 | 1 if self.net.plan.has(Fault::Edits) => self.edit(what).await,
                2 if self.net.plan.has(Fault::Edits) => self.take_back().await,
                3 if self.net.plan.has(Fault::SickPods) => self.sicken().await,
                4 if self.net.plan.has(Fault::Evictions) => self.remove_pod(what).await,
                5 if self.net.plan.has(Fault::Meddling) => self.meddle(what).await,
                6 if self.net.plan.has(Fault::Nonsense) => self.nonsense(what).await,
                7 if self.net.plan.has(Fault::Edits) && what % 2 == 0 => self.flip().await,
                7 => self.roll().await,
                _ => {}
            }
        }
        if let Some(node) = lost {
            self.restore(nodes, &node);
        }
        if let Some(unseen) = unseen {
            self.see_again(unseen).await;
        }
    }

    /// Everybody takes back what was wrong and wants what there will be, while the wires are still bad. What a gate
    /// could refuse because of that is left for later.
    pub async fn heal(&mut self) {
        for name in self.cast.names() {
            self.calm(&name).await;
            let missing = self.user.get("statefulsets", &name).await.is_null();
            if missing
                && let Some(set) = self.cast.sets.iter().find(|set| set["metadata"]["name"] == name.as_str())
            {
                self.user.create("statefulsets", set).await;
            }
        }
        self.mend().await;
        let gated = self.cast.gated();
        for (name, rollout) in gated.iter().zip(&self.cast.rollouts) {
            if self.user.get("phasedrollouts", name).await.is_null() {
                self.user.create("phasedrollouts", rollout).await;
            } else {
                let spec = rollout["spec"].clone();
                self.user
                    .patch(
                        "phasedrollouts",
                        name,
                        &json!({ "spec": merge(spec, &json!({ "paused": false, "skipCheck": false })) }),
                    )
                    .await;
            }
        }
        self.newest += 1;
        for name in self.cast.names().iter().filter(|name| !gated.contains(name)) {
            self.give(name, self.newest, None).await;
        }
    }

    /// Sees to it that everything stays as it shall be at the end: whoever does not yet know the last version may still
    /// make a pod that is ill, and what was deleted goes only when its finalizer does.
    pub async fn mend(&self) {
        for (name, rollout) in self.cast.gated().iter().zip(&self.cast.rollouts) {
            if !self.net.monitor.look_at(|truth| truth.rollouts.contains_key(name)) {
                self.user.create("phasedrollouts", rollout).await;
            }
        }
        let ill: Vec<String> = self.net.monitor.look_at(|truth| {
            let ill = truth.pods.values().filter(|pod| pod.ill);
            ill.map(|pod| pod.name.clone()).collect()
        });
        for pod in ill {
            self.other.patch("pods", &pod, &fault("")).await;
        }
    }

    /// The last version for what has gates, once nothing goes wrong any more.
    pub async fn finish(&mut self) {
        for name in self.cast.gated() {
            self.give(&name, self.newest, None).await;
        }
    }

    /// A new version for one thing.
    async fn roll(&mut self) {
        self.newest += 1;
        let names = self.cast.names();
        let groups = [self.cast.zones.clone(), self.cast.gated()];
        let one = self.dice.pick(&names).cloned().unwrap_or_default();
        for name in names {
            // The zones of a group are the same workload.
            if name == one || groups.iter().any(|group| group.contains(&one) && group.contains(&name)) {
                self.give(&name, self.newest, None).await;
            }
        }
    }

    /// A new version that is taken back at once, while the first pods go for it.
    async fn flip(&mut self) {
        let before = self.versions.clone();
        self.roll().await;
        sleep(self.dice.time(FLIP.0, FLIP.1)).await;
        self.restore_versions(before).await;
    }

    /// A new version that is taken back just as pods have gone for it: whoever took them may not see that yet.
    async fn take_back(&mut self) {
        let before = self.versions.clone();
        self.roll().await;
        for _ in 0..self.dice.among(1, 3) {
            if timeout(WATCHES_FOR, self.net.monitor.taken()).await.is_err() {
                break;
            }
        }
        sleep(self.dice.time(CONTRARY.0, CONTRARY.1)).await;
        self.restore_versions(before).await;
    }

    pub(super) async fn restore_versions(&mut self, before: BTreeMap<String, (u64, Option<&'static str>)>) {
        for (set, (version, ill)) in before {
            if self.versions.get(&set) != Some(&(version, ill)) {
                self.give(&set, version, ill).await;
            }
        }
    }

    pub(super) async fn give(&mut self, set: &str, version: u64, ill: Option<&'static str>) {
        self.versions.insert(set.to_owned(), (version, ill));
        self.user
            .patch("statefulsets", set, &json!({ "spec": { "template": template(set, version, ill) } }))
            .await;
    }

    /// The user changes something.
    async fn edit(&mut self, what: u64) {
        let names = self.cast.names();
        let Some(set) = self.dice.pick(&names).cloned() else { return };
        let (version, _) = self.versions.get(&set).copied().unwrap_or((1, None));
        let spec = |fields: Value| json!({ "spec": fields });
        let annotate =
            |key: &str, value: Option<&str>| json!({ "metadata": { "annotations": { key: value } } });
        match what % 14 {
            // There, back and forth.
            0 | 1 => self.give(&set, version.saturating_sub(1).max(1), None).await,
            2 => {
                self.newest += 1;
                let ill = self.dice.pick(&ILLS).copied();
                self.give(&set, self.newest, ill).await;
            }
            3 | 12 | 13 => {
                let replicas = self.dice.among(0, 4);
                self.user.patch("statefulsets", &set, &spec(json!({ "replicas": replicas }))).await;
            }
            4 => {
                self.user.patch("statefulsets", &set, &annotate(keys::PAUSED, Some("true"))).await;
                sleep(self.dice.time(BETWEEN.0, BETWEEN.1)).await;
                self.user.patch("statefulsets", &set, &annotate(keys::PAUSED, None)).await;
            }
            5 => {
                let budget = self.dice.among(1, 3).to_string();
                self.user.patch("statefulsets", &set, &annotate(keys::MAX_UNAVAILABLE, Some(&budget))).await;
            }
            6 => {
                // Orphaned and made anew under the same name, half of the time with another template: that is how claim
                // templates are changed.
                self.user.delete("statefulsets", &set, &json!({ "propagationPolicy": "Orphan" })).await;
                sleep(self.dice.time(Duration::ZERO, Duration::from_secs(10))).await;
                let differs = self.whims.happens(500);
                if differs {
                    self.newest += 1;
                    self.versions.insert(set.clone(), (self.newest, None));
                }
                self.recreate(&set).await;
                if differs {
                    self.upset(&set).await;
                }
            }
            7 => {
                self.user.delete("statefulsets", &set, &json!({ "propagationPolicy": "Background" })).await;
                sleep(self.dice.time(Duration::ZERO, Duration::from_secs(20))).await;
                self.recreate(&set).await;
            }
            8..=11 => {
                if let Some(name) = self.some_gated() {
                    self.edit_gates(&name, what % 14).await;
                }
            }
            _ => {}
        }
    }

    /// The user changes something about the gates of a set.
    async fn edit_gates(&mut self, name: &str, what: u64) {
        match what {
            8 => {
                let fields = json!({ "spec": { "paused": self.dice.happens(500) } });
                self.user.patch("phasedrollouts", name, &fields).await;
            }
            9 => {
                let skip = self.dice.happens(500);
                let policy = if self.whims.happens(500) { "Freeze" } else { "Resume" };
                let fields = json!({ "spec": { "skipCheck": skip, "suspendPolicy": policy } });
                self.user.patch("phasedrollouts", name, &fields).await;
            }
            10 => {
                let approval =
                    self.user.get("phasedrollouts", name).await["status"]["awaitedApproval"].clone();
                let fields = json!({ "metadata": { "annotations": { keys::APPROVE: approval } } });
                self.user.patch("phasedrollouts", name, &fields).await;
            }
            _ => {
                self.user.delete("phasedrollouts", name, &json!({})).await;
                sleep(self.dice.time(Duration::from_secs(1), Duration::from_secs(30))).await;
                if let Some(rollout) = self.cast.rollout(name).cloned() {
                    self.user.create("phasedrollouts", &rollout).await;
                }
            }
        }
    }

    /// A set with gates. Nothing is drawn where there is only one.
    pub(super) fn some_gated(&self) -> Option<String> {
        let gated = self.cast.gated();
        match gated.as_slice() {
            [_, _, ..] => self.dice.pick(&gated).cloned(),
            _ => gated.first().cloned(),
        }
    }

    pub(super) async fn recreate(&mut self, name: &str) {
        let (version, ill) = self.versions.get(name).copied().unwrap_or((1, None));
        let known = self.cast.sets.iter().find(|set| set["metadata"]["name"] == name).cloned();
        if let Some(mut set) = known {
            let known = set["spec"]["template"].clone();
            let with_claims = known["spec"]["containers"][0]["volumeMounts"].clone();
            set["spec"]["template"] = template(name, version, ill);
            init::copy(&known, &mut set["spec"]["template"]);
            if !with_claims.is_null() {
                set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = with_claims;
            }
            self.user.create("statefulsets", &set).await;
        }
    }

    /// A pod gets something, and perhaps gets over it.
    async fn sicken(&mut self) {
        let Some(pod) = self.some_pod() else { return };
        let ill = self.dice.pick(&ILLS).copied().unwrap_or_default();
        self.other.patch("pods", &pod, &fault(ill)).await;
        if self.dice.happens(700) {
            sleep(self.dice.time(Duration::from_secs(1), Duration::from_mins(1))).await;
            self.other.patch("pods", &pod, &fault("")).await;
        }
    }

    async fn remove_pod(&mut self, what: u64) {
        let Some(pod) = self.some_pod() else { return };
        if what.is_multiple_of(3) {
            self.other.evict(&pod).await;
        } else {
            self.other.delete("pods", &pod, &json!({})).await;
        }
    }

    /// A third party writes what is not theirs.
    async fn meddle(&mut self, what: u64) {
        match what % 4 {
            0 if !self.cast.rollouts.is_empty() => {
                let Some(name) = self.some_gated() else { return };
                let partition = self.dice.among(0, 5);
                let fields =
                    json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": partition } } } });
                self.other.patch("statefulsets", &name, &fields).await;
            }
            1 => {
                let Some(pod) = self.some_pod() else { return };
                self.other
                    .patch(
                        "pods",
                        &pod,
                        &json!({ "metadata": { "labels": { keys::CONTROLLER_REVISION: "stolen" } } }),
                    )
                    .await;
            }
            2 => {
                let Some(pod) = self.some_pod() else { return };
                self.other.patch("pods", &pod, &json!({ "metadata": { "ownerReferences": null } })).await;
            }
            _ => {
                let names = self.cast.names();
                let Some(set) = self.dice.pick(&names).cloned() else { return };
                self.other
                    .patch(
                        "statefulsets",
                        &set,
                        &json!({ "metadata": { "annotations": { keys::ROLLOUT_STATUS: "not JSON" } } }),
                    )
                    .await;
            }
        }
    }

    /// The user writes what means nothing.
    async fn nonsense(&mut self, what: u64) {
        let names = self.cast.names();
        let Some(set) = self.dice.pick(&names).cloned() else { return };
        let long = "9".repeat(300);
        let values = ["", "-1", "0", "150%", "many", long.as_str(), "1e3", "\u{1F980}"];
        let value = self.dice.pick(&values).copied().unwrap_or_default();
        match what % 3 {
            0 => {
                self.user
                    .patch(
                        "statefulsets",
                        &set,
                        &json!({ "metadata": { "annotations": { keys::MAX_UNAVAILABLE: value } } }),
                    )
                    .await;
            }
            1 if !self.cast.rollouts.is_empty() => {
                let Some(name) = self.some_gated() else { return };
                let check = json!({ "periodSeconds": -5, "query": { "url": "ftp://nowhere", "expr": "((" } });
                self.user.patch("phasedrollouts", &name, &json!({ "spec": { "check": check } })).await;
                self.user
                    .patch(
                        "phasedrollouts",
                        &name,
                        &json!({ "spec": { "check": { "query": { "expr": "((" } } } }),
                    )
                    .await;
                sleep(self.dice.time(BETWEEN.0, BETWEEN.1)).await;
                if let Some(rollout) = self.cast.rollout(&name).cloned() {
                    self.user.patch("phasedrollouts", &name, &json!({ "spec": rollout["spec"] })).await;
                }
            }
            _ => {
                self.user
                    .patch(
                        "statefulsets",
                        &set,
                        &json!({ "metadata": { "annotations": { keys::PAUSED: value } } }),
                    )
                    .await;
                self.user
                    .patch(
                        "statefulsets",
                        &set,
                        &json!({ "metadata": { "annotations": { keys::PAUSED: null } } }),
                    )
                    .await;
            }
        }
    }

    /// Takes back whatever annotations were tried.
    async fn calm(&mut self, set: &str) {
        let known = self.cast.sets.iter().find(|known| known["metadata"]["name"] == set);
        let budget = known.and_then(|set| set["metadata"]["annotations"][keys::MAX_UNAVAILABLE].as_str());
        let replicas = known.map(|set| set["spec"]["replicas"].clone());
        let fields = json!({
            "metadata": { "annotations": { keys::PAUSED: null, keys::MAX_UNAVAILABLE: budget } },
            "spec": { "replicas": replicas },
        });
        self.user.patch("statefulsets", set, &fields).await;
    }

    /// Hides a kind. While pods are out of sight one of a group falls ill, and much later a new version comes: nobody may
    /// replace pods on what was seen before. Half of the time that begins when all is quiet: then no write of its own keeps
    /// the operator from acting.
    async fn harm_unseen(&mut self, unseen: Option<Unseen>) -> Option<Unseen> {
        match (self.net.open(Fault::Blind), unseen) {
            (Some(variant), None) if (variant / 25).is_multiple_of(2) || self.is_quiet() => {
                self.net.sight.hide(variant);
                let can_harm = self.net.sight.hides("pods").is_some() && !self.net.plan.has(Fault::LateWrite);
                let pod = self.some_grouped_pod().filter(|_| can_harm);
                if let Some(pod) = &pod {
                    self.other.patch("pods", pod, &fault("never-ready")).await;
                }
                Some(Unseen { pod, since: self.net.now(), has_rolled: false })
            }
            (None, Some(unseen)) => {
                self.see_again(unseen).await;
                None
            }
            (_, Some(unseen)) if !unseen.has_rolled && unseen.since + KNOWN_AFTER < self.net.now() => {
                self.newest += 1;
                for name in self.cast.names() {
                    self.give(&name, self.newest, None).await;
                }
                Some(Unseen { has_rolled: true, ..unseen })
            }
            (_, unseen) => unseen,
        }
    }

    async fn see_again(&self, unseen: Unseen) {
        self.net.sight.clear();
        self.net.trace.line("nothing is out of sight");
        if let Some(pod) = unseen.pod {
            self.other.patch("pods", &pod, &fault("")).await;
        }
    }

    fn is_quiet(&self) -> bool {
        self.net.monitor.look_at(|truth| goal::missing(truth, &self.cast).is_empty())
    }

    fn some_grouped_pod(&self) -> Option<String> {
        let pods: Vec<String> = self.net.monitor.look_at(|truth| {
            let grouped = |set: &str| truth.sets.get(set).is_some_and(|set| set.group.is_some());
            let pods = truth.pods.values().filter(|pod| pod.set.as_deref().is_some_and(grouped));
            pods.map(|pod| pod.name.clone()).collect()
        });
        self.whims.pick(&pods).cloned()
    }

    fn lose_nodes(&self, nodes: &Running, lost: Option<String>) -> Option<String> {
        match (self.net.open(Fault::LostNode), lost) {
            (Some(variant), None) => {
                let node = format!("node-{}", variant % 3);
                self.net.trace.line(&format!("{node} is lost"));
                nodes.lose(&node).is_ok().then_some(node)
            }
            (None, Some(node)) => {
                self.restore(nodes, &node);
                None
            }
            (_, lost) => lost,
        }
    }

    fn restore(&self, nodes: &Running, node: &str) {
        self.net.trace.line(&format!("{node} is back"));
        // It is one of ours.
        let _ = nodes.restore(node);
    }

    fn some_pod(&self) -> Option<String> {
        let pods: Vec<String> = self.net.monitor.look_at(|truth| truth.pods.keys().cloned().collect());
        self.dice.pick(&pods).cloned()
    }
}

fn fault(ill: &str) -> Value {
    json!({ "metadata": { "annotations": { behaviour::FAULT: ill }, "namespace": NAMESPACE } })
}

fn merge(mut spec: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}
