//! Two sets of one rollout group, each with a rollout of its own: never both disturbed at once, whatever the StatefulSet
//! controller takes for its work, and each with a way back of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use sts_plus_api::phased_rollout::{OnFailure, Phase};

use super::cluster::{Cluster, NEW, OLD, WEB, given, partition_of, rollout};
use super::native::Work;
use crate::example;
use crate::phased_rollout::query::Outcome;
use crate::set::{SetRow, Strategy};

/// The other set, and its rollout.
const OTHER: &str = "other";
/// Passes of both rollouts, and pieces of work, until nothing may happen any more.
const STEPS: usize = 3_000;
/// Wake-ups until a scenario must be where it wants to be.
const WAKES: usize = 500;

/// Two zones, and what the fixture keeps of one rollout at a time.
struct Zones {
    cluster: Cluster,
    kept: BTreeMap<&'static str, Kept>,
}

/// The answers that a rollout waits for, those that were counted for it, and when its pods were last down.
#[derive(Default)]
struct Kept {
    outcomes: Vec<Outcome>,
    counted: Vec<(usize, Outcome)>,
    disturbed_at: usize,
}

/// Two zones whose rollouts manage them and have nothing to do.
fn zones() -> Zones {
    let mut cluster = given();
    cluster.set_mut().group = Some("shop".into());
    let other = SetRow {
        group: Some("shop".into()),
        strategy: Strategy::RollingUpdate { partition: 0 },
        current_revision: Some(OLD.into()),
        update_revision: Some(OLD.into()),
        ..example::set(OTHER)
    };
    cluster.create_set(other);
    cluster.create_rollout(rollout(OTHER, OTHER));
    for name in [WEB, OTHER] {
        cluster.respec_of(name, |spec| {
            spec.on_failure = OnFailure::Rollback;
            spec.progress_deadline_seconds = Some(600);
        });
    }
    let mut zones = Zones { cluster, kept: BTreeMap::new() };
    zones.quiet(|_| true);
    zones
}

impl Zones {
    /// One pass for each rollout; whether one of them did something.
    fn pass(&mut self) -> bool {
        let mut busy = false;
        let mut wakes = None;
        for name in [WEB, OTHER] {
            self.swap(name);
            let plan = self.cluster.pass_for(name);
            self.swap(name);
            busy |= !plan.plan.steps.is_empty() || !plan.questions().is_empty();
            wakes = [wakes, plan.plan.wake_at].into_iter().flatten().min();
        }
        self.cluster.wake_at = wakes;
        busy
    }

    fn swap(&mut self, name: &'static str) {
        let kept = self.kept.entry(name).or_default();
        std::mem::swap(&mut kept.outcomes, &mut self.cluster.outcomes);
        std::mem::swap(&mut kept.counted, &mut self.cluster.counted);
        std::mem::swap(&mut kept.disturbed_at, &mut self.cluster.disturbed_at);
    }

    /// Lets everybody do all they can at this time, the StatefulSet controller and the kubelets only such work.
    #[track_caller]
    fn quiet(&mut self, does: impl Fn(&Work) -> bool) {
        for _ in 0..STEPS {
            let busy = self.pass();
            if let Some(work) = self.cluster.work().into_iter().find(|work| does(work)) {
                self.cluster.perform(&work);
            } else if !busy {
                return;
            }
        }
        panic!("no rest after {STEPS} steps:\n{}", self.cluster);
    }

    /// Lets time pass until it is so.
    #[track_caller]
    fn until(&mut self, does: impl Fn(&Work) -> bool, so: impl Fn(&Self) -> bool) {
        for _ in 0..WAKES {
            self.quiet(&does);
            if so(self) {
                return;
            }
            let at = self.cluster.wake_at.unwrap_or_else(|| panic!("nothing would wake:\n{}", self.cluster));
            self.cluster.now = self.cluster.now.max(at);
        }
        panic!("not so after {WAKES} wake-ups:\n{}", self.cluster);
    }

    fn edit(&mut self, revision: &str) {
        for name in [WEB, OTHER] {
            self.cluster.edit_of(name, revision);
        }
        self.quiet(|_| true);
    }

    fn waits_for(&self, name: &str) -> &str {
        self.cluster.rollout(name).status.waiting_for.as_deref().unwrap_or_default()
    }

    fn set(&self, name: &str) -> &SetRow {
        self.cluster.sets.iter().find(|set| &*set.name == name).unwrap()
    }

    /// The sets whose partition is below their replicas.
    fn lowered(&self) -> Vec<&str> {
        let lowered = self.cluster.sets.iter().filter(|set| partition_of(set) < set.replicas);
        lowered.map(|set| &*set.name).collect()
    }
}

/// The StatefulSet controller does nothing.
fn stopped(work: &Work) -> bool {
    !matches!(work, Work::Write(_))
}

/// The StatefulSet controller reports, and does nothing else.
fn lags(work: &Work) -> bool {
    !work.writes_pod()
}

#[test]
fn a_zone_waits_while_the_stateful_set_controller_has_not_observed_the_partition_of_another() {
    let mut zones = zones();
    zones.edit(NEW);
    zones.until(stopped, |zones| !zones.lowered().is_empty());
    assert_eq!(zones.lowered(), [WEB]);
    zones.until(stopped, |zones| zones.waits_for(OTHER) == "OtherSetDisturbed");
    assert_eq!(zones.lowered(), [WEB]);
    let generation = zones.set(WEB).generation;
    let message = zones.cluster.rollout(OTHER).status.message.clone().unwrap();
    assert!(message.contains(&format!("has not observed generation {generation} of web")), "{message}");
}

#[test]
fn a_zone_waits_while_a_pod_that_another_zones_partition_has_released_is_still_there() {
    let mut zones = zones();
    zones.edit(NEW);
    zones.until(lags, |zones| zones.waits_for(OTHER) == "OtherSetDisturbed");
    assert_eq!(zones.lowered(), [WEB]);
    let message = zones.cluster.rollout(OTHER).status.message.clone().unwrap();
    assert!(message.contains("about to replace web-2 of web"), "{message}");
    assert!(zones.cluster.announced("OtherSetDisturbed").is_empty(), "an ordinary wait");

    zones.until(|_| true, |zones| [WEB, OTHER].iter().all(|name| zones.waits_for(name) == "UpToDate"));
    assert!(zones.cluster.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(NEW)));
}

#[test]
fn both_zones_get_back_from_a_revision_that_never_works() {
    for bad in ["web-hangs", "web-bad"] {
        let mut zones = zones();
        zones.edit(bad);
        // Whenever the StatefulSet controller works again, only one zone has been released.
        zones.until(stopped, |zones| !zones.lowered().is_empty());
        zones.until(
            |_| true,
            |zones| {
                let phase = |name| zones.cluster.rollout(name).status.phase;
                [WEB, OTHER].into_iter().all(|name| phase(name) == Some(Phase::RolledBack))
            },
        );
        assert!(zones.cluster.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(OLD)));
        assert!(zones.lowered().is_empty(), "{bad}");
    }
}

#[test]
fn dead_pods_of_two_zones_do_not_wait_for_each_other_on_the_way_back() {
    let mut zones = zones();
    zones.edit(NEW);
    zones.until(|_| true, |zones| zones.cluster.revisions() == [OLD, OLD, NEW]);
    // Both have a pod of the new revision, of which nothing runs, when the template is taken back.
    for name in ["web-2", "other-2"] {
        zones.cluster.stuck.insert(name.to_owned());
        zones.cluster.pod(name, |pod| {
            pod.revision = Some(Arc::from(NEW));
            (pod.ready_since, pod.running) = (None, false);
        });
    }
    zones.edit(OLD);
    let trace = zones.cluster.trace.join("\n");
    assert!(trace.contains("delete web-2") && trace.contains("delete other-2"), "{trace}");
    zones.cluster.stuck.clear();
    zones.until(|_| true, |zones| [WEB, OTHER].iter().all(|name| zones.waits_for(name) == "UpToDate"));
    assert!(zones.cluster.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(OLD)));
}
