//! What people see, as plain data that serialises: groups with their sets and pods, PhasedRollouts,
//! ExtendedStatefulSets, ScalingPolicies, and sets in no group.
//!
//! ```text
//!   Store --read--> Snapshot --View::of--> View --> `sts-plus status` (table, JSON), the playground (screen, lines)
//! ```
//!
//! A view is made of the operator's own rows by the operator's own planner. Whoever shows something reads a view, so that
//! no screen judges a pod by another rule than the one by which the operator acts.

mod extended;
mod pod;
mod scaling;
mod snapshot;

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_api::rollout_status::RolloutStatus;
use sts_plus_planner::health::{Health, Member};
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::reason::Reason;
use sts_plus_planner::rollout_group::report::Report;
use sts_plus_planner::rollout_group::zone::Zone;
use sts_plus_planner::rollout_group::{Memory, World, plan};
use sts_plus_planner::set::SetRow;

pub use extended::{ChildSet, Extended};
pub use pod::{Location, Phase, Pod, PodState};
pub use scaling::Scaling;
pub use snapshot::Snapshot;

/// How the revision of pods without the revision label is called in a [`Tally`].
const NO_REVISION: &str = "none";

/// All there is to see at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// The rollout groups, by namespace and name, without the sets of ExtendedStatefulSets.
    pub groups: Vec<Group>,
    /// The PhasedRollouts, by namespace and name.
    #[serde(rename = "phasedRollouts")]
    pub rollouts: Vec<Rollout>,
    /// The ExtendedStatefulSets of both groups, by group, namespace and name.
    #[serde(rename = "extendedStatefulSets")]
    pub extended: Vec<Extended>,
    /// The ScalingPolicies, by namespace and name.
    #[serde(rename = "scalingPolicies")]
    pub scaling: Vec<Scaling>,
    /// The sets in no group and of no ExtendedStatefulSet, by namespace and name.
    pub sets: Vec<LoneSet>,
    /// When the view changes although no object does: a pod will have been Ready for `minReadySeconds`.
    #[serde(skip)]
    pub changes_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The namespace of its sets.
    pub namespace: String,
    /// The value of the label `rollout-group`.
    #[serde(rename = "group")]
    pub name: String,
    /// Its sets, in natural order of their names.
    pub sets: Vec<Set>,
}

/// A set in no group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoneSet {
    pub namespace: String,
    /// The PhasedRollout that names it; the one that comes first where several do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phased_rollout: Option<String>,
    #[serde(flatten)]
    pub set: Set,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Set {
    pub name: String,
    /// How many pods its spec asks for.
    pub replicas: u32,
    /// The update revision. Where ControllerRevisions are cached it is the latest of them, which the status of the set
    /// names only after the first pods have been deleted for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_revision: Option<String>,
    /// Why its rollout is where it is; `None` for a set in no group.
    #[serde(flatten)]
    pub state: Option<SetState>,
    /// Its pods by revision, the update revision first.
    pub pods: Vec<Tally>,
    /// The first few pods that are unavailable, in words; empty when all are available.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_ready: String,
    /// Faults in what the user wrote on the set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether the user has paused it by the annotation `grafana.com/rollout-paused`.
    pub paused: bool,
    /// Its pods one by one, in natural order of their names.
    pub pod_states: Vec<Pod>,
}

/// Why the rollout of a set in a group is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetState {
    /// The kind of reason, as in the annotation, the event and the metric.
    pub state: &'static str,
    /// A human-readable explanation of the state.
    pub message: String,
    /// What would end the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// When the state began.
    pub since: Timestamp,
}

/// Pods of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The revision, or `none` for pods without the revision label.
    pub revision: String,
    /// How many there are.
    pub pods: u32,
    /// How many of them are available.
    pub ready: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub namespace: String,
    #[serde(rename = "phasedRollout")]
    pub name: String,
    /// The set that it names; empty where its spec cannot be read.
    pub target: String,
    /// Its status as the operator last wrote it.
    pub status: PhasedRolloutStatus,
}

impl View {
    /// The view of these rows at a moment. `location` says where a pod runs, which rows do not hold; `|_| None` where nobody
    /// needs it.
    pub fn of(snapshot: &Snapshot, location: impl Fn(&PodRow) -> Option<Location>, now: Timestamp) -> Self {
        let mut view = Self {
            rollouts: snapshot.rollouts.iter().map(|row| Rollout::of(row)).collect(),
            extended: snapshot.extended.iter().map(|row| Extended::of(row)).collect(),
            scaling: snapshot.scaling.iter().map(|row| Scaling::of(row)).collect(),
            ..Self::default()
        };
        let managing = snapshot.managing();
        let managing = |set: &SetRow| {
            managing.get(&(&*set.namespace, &*set.name)).map(|rollout| rollout.name.to_string())
        };
        for (domain, world) in &snapshot.groups {
            let (reports, changes_at) = judge(world, now);
            view.changes_at = view.changes_at.into_iter().chain(changes_at).min();
            let members: HashMap<&str, &Member> =
                world.members.iter().map(|member| (&*member.set.name, member)).collect();
            let mut sets = Vec::new();
            for report in &reports {
                let Some(member) = members.get(&*report.set.name) else { continue };
                let health = Health::of(member, now);
                let zone = Zone::judge(member, &health, &world.memory);
                let set = Set {
                    state: Some(SetState::of(report)),
                    warnings: report.warnings.iter().map(ToString::to_string).collect(),
                    ..Set::of(&zone, snapshot, &location)
                };
                sets.extend(view.keep(snapshot, &member.set, managing(&member.set), set));
            }
            if !sets.is_empty() {
                let (namespace, name) = (domain.namespace.to_string(), domain.group.to_string());
                view.groups.push(Group { namespace, name, sets });
            }
        }
        for member in &snapshot.sets {
            let row = &member.set;
            let health = Health::of(member, now);
            let zone = Zone::judge(member, &health, &Memory::default());
            view.changes_at = view.changes_at.into_iter().chain(zone.health.changes_at).min();
            let set = Set::of(&zone, snapshot, &location);
            let phased_rollout = managing(row);
            if let Some(set) = view.keep(snapshot, row, phased_rollout.clone(), set) {
                let namespace = row.namespace.to_string();
                view.sets.push(LoneSet { namespace, phased_rollout, set });
            }
        }
        view.extended.iter_mut().for_each(Extended::sort);
        view
    }

    /// Moves a set to the ExtendedStatefulSet that it belongs to; gives it back where there is none.
    fn keep(
        &mut self,
        snapshot: &Snapshot,
        row: &SetRow,
        phased_rollout: Option<String>,
        set: Set,
    ) -> Option<Set> {
        let owner = row.child.as_deref().and_then(|child| {
            // The view has them in the order of the snapshot.
            let owner = snapshot.extended.iter().position(|extended| child.is_of(extended))?;
            Some((child, self.extended.get_mut(owner)?))
        });
        let Some((child, owner)) = owner else { return Some(set) };
        owner.rollout_group = row.group.as_deref().map(str::to_owned).or(owner.rollout_group.take());
        owner.sets.push(ChildSet::of(child, phased_rollout, set));
        None
    }

    /// All sets with their namespaces, those of groups first.
    pub fn all_sets(&self) -> impl Iterator<Item = (&str, &Set)> {
        let grouped =
            self.groups.iter().flat_map(|group| group.sets.iter().map(|set| (&*group.namespace, set)));
        let lone = self.sets.iter().map(|lone| (&*lone.namespace, &lone.set));
        let children = self
            .extended
            .iter()
            .flat_map(|extended| extended.sets.iter().map(|child| (&*extended.namespace, &child.set)));
        grouped.chain(lone).chain(children)
    }
}

/// The planner's reports about a group, and when they change although no object does. Nothing else here asks the planner.
fn judge(world: &World, now: Timestamp) -> (Vec<Report>, Option<Timestamp>) {
    let decision = plan(world, now);
    (decision.reports, decision.plan.wake_at)
}

impl Set {
    fn of(zone: &Zone<'_>, snapshot: &Snapshot, location: &impl Fn(&PodRow) -> Option<Location>) -> Self {
        let Member { set, pods } = zone.member;
        let target = snapshot.latest_revision(set).or(zone.target);
        let pod_states: Vec<_> = pods.iter().map(|pod| Pod::of(pod, zone, target, location(pod))).collect();
        Self {
            name: set.name.to_string(),
            replicas: set.replicas,
            target_revision: target.map(str::to_owned),
            state: None,
            pods: tallies(&pod_states, target),
            not_ready: zone.health.summary(),
            warnings: Vec::new(),
            paused: zone.paused,
            pod_states,
        }
    }
}

impl SetState {
    fn of(report: &Report) -> Self {
        let reason = &report.reason;
        match refused(report) {
            Some(RolloutStatus { message, release, since, .. }) => {
                Self { state: Reason::WRITE_REFUSED, message, release, since }
            }
            None => Self {
                state: reason.kind(),
                message: reason.to_string(),
                release: reason.release(),
                since: report.since,
            },
        }
    }
}

/// What only the running operator knows: that the write which a set waits for is refused. It has written so on the set.
fn refused(report: &Report) -> Option<RolloutStatus> {
    let written = report.set.steering.rollout_status.as_deref().and_then(RolloutStatus::parse)?;
    let is_rolling = matches!(report.reason, Reason::Rolling { .. });
    let is_refused = written.state == Reason::WRITE_REFUSED && written.group == report.status.group;
    (is_rolling && is_refused).then_some(written)
}

fn tallies(pods: &[Pod], target: Option<&str>) -> Vec<Tally> {
    let mut by_revision: BTreeMap<Option<&str>, (u32, u32)> = BTreeMap::new();
    for pod in pods {
        let (pods, ready) = by_revision.entry(pod.revision.as_deref()).or_default();
        *pods += 1;
        *ready += u32::from(pod.state == PodState::Ready);
    }
    let mut tallies: Vec<_> = by_revision.into_iter().collect();
    tallies.sort_by_key(|(revision, _)| *revision != target);
    let tally = |(revision, (pods, ready)): (Option<&str>, _)| Tally {
        revision: revision.unwrap_or(NO_REVISION).to_owned(),
        pods,
        ready,
    };
    tallies.into_iter().map(tally).collect()
}

impl Rollout {
    fn of(row: &RolloutRow) -> Self {
        Self {
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            target: row.target().unwrap_or_default().to_owned(),
            status: row.status.clone(),
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
