//! ExtendedStatefulSets as people see them: what each waits for, and its StatefulSets by zone and version.

use serde::Serialize;
use sts_plus_api::conditions::{self, Condition, Truth};
use sts_plus_api::extended::ExtendedStatus;
use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::set::Child;

use super::{PodState, Set};

/// An ExtendedStatefulSet of either group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extended {
    pub namespace: String,
    #[serde(rename = "extendedStatefulSet")]
    pub name: String,
    pub api_group: &'static str,
    /// Whether `spec.paused` is set.
    pub paused: bool,
    /// Whether the status describes the present spec.
    pub observed: bool,
    /// The rollout group that its zones form, where they are changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_group: Option<String>,
    /// Its StatefulSets by zone and version. They are in no group of the view, also where they form a rollout group.
    pub sets: Vec<ChildSet>,
    /// Its status as the operator last wrote it.
    pub status: ExtendedStatus,
}

/// A StatefulSet of an ExtendedStatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildSet {
    /// The name of its zone; `None` for an object without zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The version that its pod template has; `None` where its annotation is not a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Whether at least one pod of that version is Ready.
    pub running: bool,
    /// The PhasedRollout that names it; the one that comes first where several do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phased_rollout: Option<String>,
    /// The set. The state of its rollout is that of the rollout group which the zones form where they are changed in place.
    #[serde(flatten)]
    pub set: Set,
}

impl Extended {
    pub(super) fn of(row: &ExtendedRow) -> Self {
        Self {
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            api_group: row.group.name(),
            paused: row.spec.as_ref().is_ok_and(|spec| spec.paused),
            observed: row.status.observed_generation == Some(row.generation),
            rollout_group: None,
            sets: Vec::new(),
            status: row.status.clone(),
        }
    }

    /// The condition that says what the object waits for, once an operator has written one.
    pub fn ready(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == conditions::READY)
    }

    /// What is reported besides what it waits for: restricted replicas, a missing active pod, warnings.
    pub fn findings(&self) -> impl Iterator<Item = &Condition> {
        let of_the_wait = [conditions::READY, conditions::RECONCILING, conditions::STALLED];
        let holds = |condition: &&Condition| condition.status == Truth::True;
        self.status
            .conditions
            .iter()
            .filter(holds)
            .filter(move |condition| !of_the_wait.contains(&&*condition.kind))
    }

    /// Orders the sets: by zone as the zones were added, then by version.
    pub(super) fn sort(&mut self) {
        let zones = &self.status.zones;
        let index = |set: &ChildSet| {
            let name = set.zone.as_deref();
            zones.iter().find(|zone| Some(&*zone.name) == name).map_or(0, |zone| zone.index)
        };
        self.sets.sort_by(|one, other| {
            let key = |set: &ChildSet| (index(set), set.zone.is_some(), set.version);
            key(one).cmp(&key(other)).then_with(|| one.set.name.cmp(&other.set.name))
        });
    }
}

impl ChildSet {
    pub(super) fn of(child: &Child, phased_rollout: Option<String>, set: Set) -> Self {
        Self {
            zone: child.zone_name.as_ref().map(ToString::to_string),
            version: child.version.as_deref().and_then(|version| version.parse().ok()),
            running: set.pod_states.iter().any(|pod| pod.state == PodState::Ready && !pod.outdated),
            phased_rollout,
            set,
        }
    }
}
