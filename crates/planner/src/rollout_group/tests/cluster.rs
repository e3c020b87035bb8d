//! A cluster reduced to what a rollout group touches: its sets, their pods, versions and one clock.
//!
//! A scenario builds one (`given().old("b").not_ready("b-0")`), and [`Cluster::then`] plans, compares the
//! complete outcome with the expected lines, and runs the invariants on it. Zones and pods go by short names:
//! `a` is the set `ingester-zone-a` and `a-0` its first pod.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sts_plus_api::keys;

use super::invariants;
use crate::example;
use crate::forecast::Objects;
use crate::health::Member;
use crate::plan::{Action, Kind, Verb};
use crate::pod::{Phase, PodRow, Waiting};
use crate::reason::Reason;
use crate::rollout_group::{Decision, Memory, Overlap, World, plan};
use crate::set::{SetRow, Steering, Strategy};
use crate::statefulset::world::Management;

/// The revision that pods have before a rollout.
pub(super) const OLD: &str = "old";
/// The revision that all sets of the fixture roll to.
pub(super) const NEW: &str = "new";
/// When the fixture's pods became Ready.
const READY_SINCE: i64 = 1_750_000_000;
/// How long after that a scenario takes place.
const AGE: SignedDuration = SignedDuration::from_hours(1);

const GROUP: &str = "ingester";
const ZONE_PREFIX: &str = "ingester-zone-";

/// API objects of one group, and the time.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) group: Arc<str>,
    objects: Objects,
    pub(super) overlaps: Vec<Overlap>,
    pub(super) unobserved_since: BTreeMap<Arc<str>, Timestamp>,
    pub(super) memory: Memory,
    pub(super) now: Timestamp,
    /// The revisions of each set's template, the present one last.
    pub(super) templates: BTreeMap<Arc<str>, Vec<String>>,
}

impl Deref for Cluster {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

/// The fixture of the catalogue: two zones of three pods, all Ready and up to date, `OnDelete`, two of them
/// may be down.
pub(super) fn given() -> Cluster {
    zones(&["a", "b"], 3)
}

/// Zones like those of [`given`], with these names and this many pods each.
pub(super) fn zones(names: &[&str], replicas: u32) -> Cluster {
    let start = Timestamp::from_second(READY_SINCE).unwrap();
    let mut cluster = Cluster {
        group: GROUP.into(),
        objects: Objects::default(),
        overlaps: Vec::new(),
        unobserved_since: BTreeMap::new(),
        memory: Memory::default(),
        now: start.saturating_add(AGE).unwrap(),
        templates: names.iter().map(|name| (full(name).into(), vec![NEW.to_owned()])).collect(),
    };
    for set in names.iter().map(|name| set_row(name, replicas)) {
        cluster.management.insert(Arc::clone(&set.uid), Management::Parallel);
        for ordinal in set.ordinals() {
            let mut pod = cluster.pod_row(&set, ordinal);
            (pod.phase, pod.running, pod.ready_since) = (Phase::Running, true, Some(start));
            cluster.pods.push(pod);
        }
        cluster.sets.push(set);
    }
    cluster
}

fn set_row(zone: &str, replicas: u32) -> SetRow {
    let steering = Steering { max_unavailable: Some("2".into()), ..Steering::default() };
    SetRow { group: Some(GROUP.into()), steering, replicas, ..example::set(&full(zone)) }
}

/// The full name of a zone, or of a pod of it.
pub(super) fn full(short: &str) -> String {
    format!("{ZONE_PREFIX}{short}")
}

/// The short name of a zone, or of a pod of it.
pub(super) fn short(full: &str) -> &str {
    full.strip_prefix(ZONE_PREFIX).unwrap_or(full)
}

/// Given: changes to the fixture.
impl Cluster {
    pub(super) fn set(mut self, zone: &str, change: impl FnOnce(&mut SetRow)) -> Self {
        change(self.set_mut(zone));
        self
    }

    pub(super) fn pod(mut self, pod: &str, change: impl FnOnce(&mut PodRow)) -> Self {
        change(self.pod_mut(pod));
        self
    }

    /// The template of the zone was changed and none of its pods follows yet.
    pub(super) fn old(mut self, zone: &str) -> Self {
        let owner = Arc::clone(&self.set_mut(zone).uid);
        for pod in self.pods.iter_mut().filter(|pod| pod.owner == owner) {
            pod.revision = Some(OLD.into());
        }
        self.set(zone, |set| set.current_revision = Some(OLD.into()))
    }

    /// This one pod is of the old revision.
    pub(super) fn old_pod(self, pod: &str) -> Self {
        self.pod(pod, |pod| pod.revision = Some(OLD.into()))
    }

    /// Its containers run, and it is not Ready.
    pub(super) fn not_ready(self, pod: &str) -> Self {
        self.pod(pod, |pod| pod.ready_since = None)
    }

    /// Its one container crashes again and again.
    pub(super) fn broken(self, pod: &str) -> Self {
        self.broken_in_part(pod).pod(pod, |pod| pod.running = false)
    }

    /// One of its containers crashes again and again, another one runs.
    pub(super) fn broken_in_part(self, pod: &str) -> Self {
        self.not_ready(pod).pod(pod, |pod| pod.waiting = Some(Waiting::CrashLoopBackOff))
    }

    pub(super) fn terminating(self, pod: &str) -> Self {
        self.pod(pod, |pod| pod.terminating = true)
    }

    pub(super) fn absent(mut self, pod: &str) -> Self {
        self.pod_mut(pod);
        self.pods.retain(|row| *row.name != *full(pod));
        self
    }

    pub(super) fn paused(self, zone: &str, value: &str) -> Self {
        self.set(zone, |set| set.steering.paused = Some(value.into()))
    }

    pub(super) fn max_unavailable(self, zone: &str, value: &str) -> Self {
        self.set(zone, |set| set.steering.max_unavailable = Some(value.into()))
    }

    pub(super) fn strategy(self, zone: &str, strategy: &str) -> Self {
        self.set(zone, |set| set.strategy = Strategy::Other(strategy.into()))
    }

    /// The spec was changed and the zone's own controller has not looked at it yet.
    pub(super) fn unobserved(self, zone: &str) -> Self {
        self.set(zone, |set| set.generation += 1)
    }

    /// The API objects, whose own `templates` and `perform` are hidden by those of the fixture.
    pub(super) fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }

    pub(super) fn set_mut(&mut self, zone: &str) -> &mut SetRow {
        let name = full(zone);
        self.sets.iter_mut().find(|set| *set.name == *name).expect("a zone of the fixture")
    }

    pub(super) fn pod_mut(&mut self, pod: &str) -> &mut PodRow {
        let name = full(pod);
        self.pods.iter_mut().find(|row| *row.name == *name).expect("a pod of the fixture")
    }

    /// A pod as the set's controller would create it: not started.
    pub(super) fn pod_row(&mut self, set: &SetRow, ordinal: u32) -> PodRow {
        self.new_pod(set, ordinal, set.update_revision.as_deref().unwrap_or_default())
    }
}

/// When: the planner looks at it.
impl Cluster {
    pub(super) fn world(&self) -> World {
        let pods: Vec<_> = self.pods.iter().cloned().map(Arc::new).collect();
        let members = self.sets.iter().filter(|set| set.group.as_ref() == Some(&self.group));
        World {
            group: Arc::clone(&self.group),
            members: members.map(|set| Member::new(Arc::new(set.clone()), pods.iter().cloned())).collect(),
            overlaps: self.overlaps.clone(),
            unobserved_since: self.unobserved_since.clone(),
            memory: self.memory.clone(),
            unconfirmed: None,
        }
    }

    /// Plans, and holds the plan against the invariants.
    #[track_caller]
    pub(super) fn plan(&self) -> Decision {
        let plan = plan(&self.world(), self.now);
        invariants::check(self, &plan);
        plan
    }
}

/// Then: the complete outcome.
impl Cluster {
    /// Plans and compares all that came out: a line for each deletion (`delete a-0`) and promotion
    /// (`promote a to new`), then for each set its reason (`b WaitingForTurn a`) and its warnings
    /// (`b warns InvalidMaxUnavailable`), then the time of the next look (`wake in 10s`). A write without
    /// the precondition it should carry, and any write not listed, makes a line of its own.
    ///
    /// Our own writes must also come to an end while nothing else happens.
    #[track_caller]
    pub(super) fn then(&self, expected: &[&str]) -> Decision {
        let plan = self.plan();
        assert_eq!(self.lines(&plan), expected, "for the cluster:\n{self}");
        invariants::writes_end(self.clone());
        plan
    }

    fn lines(&self, plan: &Decision) -> Vec<String> {
        let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
        let mut lines: Vec<_> = actions.filter_map(|action| self.line(action)).collect();
        for report in &plan.reports {
            let zone = short(&report.set.name);
            let about = match &report.reason {
                Reason::WaitingForTurn { set }
                | Reason::OtherSetNotReady { set, .. }
                | Reason::OtherSetDisturbed { set, .. }
                | Reason::GroupSkipped { set, .. } => format!(" {}", short(set)),
                _ => String::new(),
            };
            lines.push(format!("{zone} {}{about}", report.reason.kind()));
            lines.extend(report.warnings.iter().map(|warning| format!("{zone} warns {}", warning.kind())));
        }
        lines.extend(
            plan.plan.wake_at.map(|at| format!("wake in {}s", at.duration_since(self.now).as_secs())),
        );
        lines
    }

    /// The line of a write; `None` for an annotation, which the invariants compare with the report.
    fn line(&self, action: &Action) -> Option<String> {
        let name = &*action.object().name;
        let (uid, version) = (&*action.precondition().uid, action.precondition().resource_version.as_deref());
        let seen = match action.object().kind {
            Kind::Pod => {
                let pod = self.pods.iter().find(|pod| pod.name == action.object().name);
                pod.map(|pod| (&*pod.uid, &*pod.resource_version))
            }
            Kind::StatefulSet => {
                let set = self.sets.iter().find(|set| *set.name == *name);
                set.map(|set| (&*set.uid, &*set.resource_version))
            }
            _ => None,
        };
        let guarded = version.is_some() && seen == Some(uid).zip(version);
        match (action.object().kind, action.verb()) {
            (Kind::Pod, Verb::Delete) if guarded => Some(format!("delete {}", short(name))),
            (Kind::StatefulSet, Verb::MergeStatus { body, manager: keys::MANAGER_ROLLOUT_GROUP })
                if guarded =>
            {
                let revision = body["status"]["currentRevision"].as_str()?;
                Some(format!("promote {} to {revision}", short(name)))
            }
            (Kind::StatefulSet, Verb::Merge { .. }) => None,
            _ => Some(format!("unexpected {action:?}")),
        }
    }
}

/// What the API server makes of our writes.
impl Cluster {
    /// Does what a write asks for, or says why not.
    pub(super) fn apply(&mut self, action: &Action) -> Result<(), String> {
        // The API server of the forecast takes more: what a group writes is this and nothing else.
        let ours = matches!(
            (action.object().kind, action.verb()),
            (Kind::Pod, Verb::Delete) | (Kind::StatefulSet, Verb::Merge { .. } | Verb::MergeStatus { .. })
        );
        assert!(ours, "not written by a group: {action:?}");
        self.objects.apply(action).map_err(|refused| format!("{refused}: {action:?}"))
    }

    /// Does all that a plan asks for; the plan was made for this very state, so nothing may fail.
    #[track_caller]
    pub(super) fn apply_all(&mut self, plan: &Decision) {
        for action in plan.plan.steps.iter().flat_map(|step| &step.writes) {
            self.apply(action).unwrap();
        }
    }
}

impl std::fmt::Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for set in &self.sets {
            let target = set.update_revision.as_deref().unwrap_or("?");
            write!(f, "  {} x{} to {target}:", short(&set.name), set.replicas)?;
            let mut pods = String::new();
            for pod in self.pods.iter().filter(|pod| pod.owner == set.uid) {
                let state = match (pod.terminating, pod.ready(), pod.defect()) {
                    (true, ..) => "terminating",
                    (_, true, _) => "Ready",
                    (_, _, Some(_)) => "broken",
                    _ => "not Ready",
                };
                let revision = pod.revision.as_deref().unwrap_or("none");
                write!(pods, " {}={revision},{state}", short(&pod.name))?;
            }
            writeln!(f, "{pods} {:?}", set.steering.paused)?;
        }
        Ok(())
    }
}

/// The annotation that a write puts on a set, if it is one.
pub(super) fn annotation(action: &Action) -> Option<&Value> {
    match action.verb() {
        Verb::Merge { body, .. } => body["metadata"]["annotations"].get(keys::ROLLOUT_STATUS),
        _ => None,
    }
}
