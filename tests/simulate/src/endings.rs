//! What people do at the end of some runs, once nothing goes wrong any more and the goal is reached.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::cast::{PLAIN, bad_image, deadline, image, template};
use crate::people::People;
use crate::truth::Truth;

/// How long somebody who looks on waits for what the operator is to do, once nothing goes wrong.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often they look.
const GLANCE: Duration = Duration::from_millis(500);
/// How long a rollout may be under way when it is frozen.
const ROLLS_FOR: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(40));
/// How often a third party writes a partition that is held: not so often that it is left alone for a while.
const FOREIGN_WRITES: (u64, u64) = (1, 4);
/// From a partition that is put back to the next foreign write.
const MEDDLES_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// What is wrong with a version that is taken back without anybody healing its pods.
const STUCK: [&str; 3] = ["never-ready", "crash-loop", "image-pull"];
/// How long such a version is wanted after its first pod is there.
const STUCK_FOR: (Duration, Duration) = (Duration::ZERO, Duration::from_mins(2));

/// How long a new version has been tried at most when its rollout is paused, ...
const HALTS_AFTER: Duration = Duration::from_secs(20);
/// ... and how much longer than a gate may take it is.
const HALTS_LONGER: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(2));

/// A set that is frozen, and what a third party has done to it.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// Its name, and that of its rollout.
    pub name: String,
    /// Where it is held.
    pub partition: u64,
    /// The pods below that.
    pub kept: Vec<String>,
    /// How often those had been deleted before.
    pub deleted_before: u64,
    /// How often the third party has lowered the partition.
    pub writes: u64,
}

/// A rollout that was deleted, or has got another target.
#[derive(Clone, Debug)]
pub struct Left {
    /// The set that it has held.
    pub set: String,
    /// The set that it holds now; `None` where it was deleted.
    pub target: Option<String>,
}

impl People {
    /// One more version for what has gates, and it is a bad one.
    pub async fn err(&mut self) {
        self.net.trace.line("a bad version");
        self.newest += 1;
        for name in self.cast.gated() {
            let mut template = template(&name, self.newest, None);
            template["spec"]["containers"][0]["image"] = bad_image(self.newest).into();
            self.user.patch("statefulsets", &name, &json!({ "spec": { "template": template } })).await;
        }
    }

    /// Suspends a rollout with `Freeze`, before or after a new version has come, and has a third party write the partition
    /// again and again.
    pub async fn freeze(&mut self) -> Result<Frozen, String> {
        let name = self.some_gated().unwrap_or_default();
        self.net.trace.line(&format!("{name} is frozen"));
        self.newest += 1;
        let under_way = self.whims.happens(500);
        if under_way {
            self.give(&name, self.newest, None).await;
            sleep(self.whims.time(ROLLS_FOR.0, ROLLS_FOR.1)).await;
        }
        let fields = json!({ "spec": { "skipCheck": true, "suspendPolicy": "Freeze" } });
        self.user.patch("phasedrollouts", &name, &fields).await;
        let is_suspended = |truth: &Truth| {
            let rollout = truth.rollouts.get(&name).cloned().unwrap_or_default();
            rollout["status"]["phase"] == "Suspended"
                && rollout["status"]["observedGeneration"] == rollout["metadata"]["generation"]
        };
        self.waits_for(is_suspended, &format!("{name} is not suspended")).await?;
        if !under_way {
            self.give(&name, self.newest, None).await;
        }
        let is_observed = |truth: &Truth| {
            let set = truth.sets.get(&name).map(|set| set.object.clone()).unwrap_or_default();
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
        };
        self.waits_for(is_observed, &format!("{name} is not observed")).await?;
        let partition = self.net.monitor.look_at(|truth| truth.sets.get(&name).and_then(|set| set.partition));
        let partition = partition.unwrap_or_default();
        let kept: Vec<_> = (0..partition).map(|ordinal| format!("{name}-{ordinal}")).collect();
        let deleted_before = self.net.monitor.deletions_of(&kept);
        let mut frozen = Frozen { name: name.clone(), partition, kept, deleted_before, writes: 0 };
        for _ in 0..self.whims.among(FOREIGN_WRITES.0, FOREIGN_WRITES.1) {
            sleep(self.whims.time(MEDDLES_AFTER.0, MEDDLES_AFTER.1)).await;
            let foreign = self.whims.below(partition + 2);
            let fields =
                json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": foreign } } } });
            self.other.patch("statefulsets", &name, &fields).await;
            frozen.writes += u64::from(foreign < partition);
            let is_back =
                |truth: &Truth| truth.sets.get(&name).is_some_and(|set| set.partition == Some(partition));
            let words = format!("{name} is frozen at {partition} and was set to {foreign}, which stays");
            self.waits_for(is_back, &words).await?;
        }
        Ok(frozen)
    }

    /// A version whose pods do not get Ready, for every set whose pods an operator replaces, and then the one before
    /// again. Nobody heals its pods.
    pub async fn revert(&mut self) -> Result<(), String> {
        let before = self.versions.clone();
        let ill = self.whims.pick(&STUCK).copied();
        self.net.trace.line(&format!("a version that is {}", ill.unwrap_or_default()));
        self.newest += 1;
        let image = image(self.newest);
        for name in self.cast.revertible() {
            self.give(&name, self.newest, ill).await;
        }
        let is_stuck = |truth: &Truth| truth.pods.values().any(|pod| pod.image == image && !pod.serves());
        self.waits_for(is_stuck, &format!("nobody tries {image}")).await?;
        sleep(self.whims.time(STUCK_FOR.0, STUCK_FOR.1)).await;
        self.restore_versions(before).await;
        Ok(())
    }

    /// Creates a set with gates again over its pods, with another template.
    pub async fn adopt(&mut self) -> Result<(), String> {
        let name = self.some_gated().unwrap_or_default();
        self.net.trace.line(&format!("{name} is created again over its pods"));
        self.user.delete("statefulsets", &name, &json!({ "propagationPolicy": "Orphan" })).await;
        let is_gone = |truth: &Truth| !truth.sets.contains_key(&name);
        self.waits_for(is_gone, &format!("{name} is not gone")).await?;
        self.newest += 1;
        self.versions.insert(name.clone(), (self.newest, None));
        self.recreate(&name).await;
        self.upset(&name).await;
        Ok(())
    }

    /// A set that was created again over its pods is frozen for a while, or a further version comes and goes: no pod of the
    /// revision that they had may pass a gate by that.
    pub(super) async fn upset(&mut self, name: &str) {
        if !self.cast.gated().iter().any(|gated| gated == name) {
            return;
        }
        sleep(self.turns.time(ROLLS_FOR.0, ROLLS_FOR.1)).await;
        match self.turns.below(3) {
            0 => {
                let fields = json!({ "spec": { "skipCheck": true, "suspendPolicy": "Freeze" } });
                self.user.patch("phasedrollouts", name, &fields).await;
                sleep(self.turns.time(ROLLS_FOR.0, ROLLS_FOR.1)).await;
                let fields = json!({ "spec": { "skipCheck": false } });
                self.user.patch("phasedrollouts", name, &fields).await;
            }
            1 => {
                let (version, ill) = self.versions.get(name).copied().unwrap_or((1, None));
                self.newest += 1;
                self.give(name, self.newest, None).await;
                sleep(self.turns.time(ROLLS_FOR.0, ROLLS_FOR.1)).await;
                self.give(name, version, ill).await;
            }
            _ => {}
        }
    }

    /// Pauses the rollouts in the middle of a new version, for longer than a gate may take, and resumes them: none of that
    /// time counts.
    pub async fn halt(&mut self) -> Result<(), String> {
        self.newest += 1;
        let (gated, image) = (self.cast.gated(), image(self.newest));
        for name in &gated {
            self.give(name, self.newest, None).await;
        }
        let has_none =
            |truth: &Truth, name: &String| truth.sets.get(name).is_none_or(|set| set.replicas == 0);
        let has_begun = |truth: &Truth| {
            truth.pods.values().any(|pod| pod.image == image)
                || gated.iter().all(|name| has_none(truth, name))
        };
        self.waits_for(has_begun, &format!("nobody tries {image}")).await?;
        sleep(self.halts.time(Duration::ZERO, HALTS_AFTER)).await;
        let pause = |paused: bool| json!({ "spec": { "paused": paused } });
        for name in &gated {
            self.user.patch("phasedrollouts", name, &pause(true)).await;
        }
        let limit =
            self.cast.rollouts.first().and_then(deadline).map(Duration::from_secs).unwrap_or_default();
        sleep(limit + self.halts.time(HALTS_LONGER.0, HALTS_LONGER.1)).await;
        for name in &gated {
            self.user.patch("phasedrollouts", name, &pause(false)).await;
        }
        Ok(())
    }

    /// Deletes the rollouts, before or after a new version has come, or gives one another target.
    pub async fn leave(&mut self) -> Vec<Left> {
        let gated = self.cast.gated();
        if self.whims.happens(500) {
            self.newest += 1;
            for name in &gated {
                self.give(name, self.newest, None).await;
            }
            sleep(self.whims.time(ROLLS_FOR.0, ROLLS_FOR.1)).await;
        }
        let target = Some(PLAIN.to_owned()).filter(|plain| self.cast.names().contains(plain));
        // One that is frozen would stay so.
        let target = target.filter(|_| !self.cast.freezes && self.whims.happens(500));
        let mut left = Vec::new();
        for (at, set) in gated.into_iter().enumerate() {
            let target = target.clone().filter(|_| at == 0);
            match &target {
                Some(target) => {
                    self.net.trace.line(&format!("the rollout of {set} gets the target {target}"));
                    let fields = json!({ "spec": { "targetRef": target } });
                    self.user.patch("phasedrollouts", &set, &fields).await;
                }
                None => {
                    self.net.trace.line(&format!("the rollout of {set} is deleted"));
                    self.user.delete("phasedrollouts", &set, &json!({})).await;
                }
            }
            left.push(Left { set, target });
        }
        left
    }

    /// Waits until something is the case; in vain it is a failure.
    async fn waits_for(&self, is_so: impl Fn(&Truth) -> bool, otherwise: &str) -> Result<(), String> {
        let until = self.net.now() + PATIENCE;
        while !self.net.monitor.look_at(&is_so) {
            if self.net.now() >= until {
                return Err(format!("goal: {otherwise}"));
            }
            sleep(GLANCE).await;
        }
        Ok(())
    }
}
