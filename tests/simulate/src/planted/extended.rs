//! Faults of ExtendedStatefulSets.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::extended::spec::{Limits, Spec};
use sts_plus_planner::extended::{Decision, World, plan};
use sts_plus_planner::plan::{Action, Kind, Step};
use sts_plus_planner::set::{Child, SetRow};

/// More versions are not made by [`counts_every_pass`]: each has sets and pods.
const MAX_NUMBER: u32 = 12;

fn is_of_pod(step: &Step) -> bool {
    step.writes.iter().any(|write| write.object().kind == Kind::Pod && !write.designates())
}

/// The new active label is written before the old one is removed.
pub fn labels_first(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    let steps = &mut decision.plan.steps;
    let label = steps.iter().position(|step| step.writes.iter().any(Action::designates));
    if let Some(label) = label
        && steps.first().is_some_and(is_of_pod)
    {
        let removals = steps.remove(0);
        steps.insert(label, removals);
    }
    decision
}

/// A version is removed as soon as a newer one has a set.
pub fn removes_early(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    let number = |child: &Child| child.version.as_deref().and_then(|text| text.parse::<u32>().ok());
    let is_overtaken = |set: &SetRow| {
        let Some(own) = set.child.as_ref().filter(|_| set.name.contains("-v")) else { return false };
        let others = world.children.iter().filter_map(|member| member.set.child.as_ref());
        others.filter(|child| child.zone_index == own.zone_index).any(|child| number(child) > number(own))
    };
    let overtaken = world.children.iter().filter(|member| is_overtaken(&member.set) && !member.set.deleting);
    let removals: Vec<_> =
        overtaken.filter_map(|member| Action::delete_version(&world.row, &member.set)).collect();
    decision.plan.steps.extend((!removals.is_empty()).then(|| Step::act(removals)));
    decision
}

/// A version that is promoted in one zone is promoted in all.
pub fn promotes_everywhere(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    let removed = decision
        .plan
        .writes()
        .filter(|write| write.is_deletion() && write.object().kind == Kind::StatefulSet);
    let removed: Vec<_> = removed.map(|write| write.object().name.clone()).collect();
    let version = |set: &SetRow| set.child.as_ref().and_then(|child| child.version.clone());
    let versions: Vec<_> = world
        .children
        .iter()
        .filter(|member| removed.contains(&(*member.set.name).into()))
        .filter_map(|member| version(&member.set))
        .collect();
    let others = world.children.iter().filter(|member| {
        let is_meant = version(&member.set).is_some_and(|version| versions.contains(&version));
        is_meant && !member.set.deleting && !removed.contains(&(*member.set.name).into())
    });
    let removals: Vec<_> =
        others.filter_map(|member| Action::delete_version(&world.row, &member.set)).collect();
    decision.plan.steps.extend((!removals.is_empty()).then(|| Step::act(removals)));
    decision
}

/// Another world, in which the sets of the object are changed.
fn with_children(world: &World, change: impl Fn(&mut Child, &World)) -> World {
    let mut changed = world.clone();
    for member in &mut changed.children {
        let set = Arc::make_mut(&mut member.set);
        if let Some(child) = &mut set.child {
            change(child, world);
        }
    }
    changed
}

fn with_row(world: &World, change: impl Fn(&mut ExtendedRow)) -> World {
    let mut changed = world.clone();
    change(Arc::make_mut(&mut changed.row));
    changed
}

/// Each pass counts one further, as no version is found by its content.
pub fn counts_every_pass(world: &World, now: Timestamp) -> Decision {
    if world.row.status.update_version > Some(MAX_NUMBER) {
        return plan(world, now);
    }
    let mut changed = with_children(world, |child, _| child.hash = None);
    let status = &mut Arc::make_mut(&mut changed.row).status;
    status.update_hash = None;
    status.versions.iter_mut().for_each(|version| version.hash.clear());
    plan(&changed, now)
}

/// A zone has the index of its place in the list.
pub fn indexes_by_place(world: &World, now: Timestamp) -> Decision {
    let Ok(spec) = &world.row.spec else { return plan(world, now) };
    let place = |name: &str| spec.zones.iter().position(|zone| **zone == *name);
    let mut changed = with_children(world, |child, _| {
        if let Some(place) = child.zone_name.as_ref().and_then(|name| place(name)) {
            child.zone_index = Some(place.to_string().into());
        }
    });
    let row = Arc::make_mut(&mut changed.row);
    for zone in &mut row.status.zones {
        if let Some(place) = place(&zone.name).and_then(|place| u32::try_from(place).ok()) {
            zone.index = place;
        }
    }
    row.status.zones.retain(|zone| place(&zone.name).is_some());
    plan(&changed, now)
}

/// Whatever has the label of the object belongs to it.
pub fn owns_by_label(world: &World, now: Timestamp) -> Decision {
    let changed = with_children(world, |child, world| child.owner = Arc::clone(&world.row.uid));
    plan(&changed, now)
}

/// Replicas are not restricted.
pub fn scales_freely(world: &World, now: Timestamp) -> Decision {
    let changed = with_row(world, |row| {
        if let Ok(spec) = &mut row.spec {
            *spec = Arc::new(Spec { limits: Limits::default(), ..Spec::clone(spec) });
        }
    });
    plan(&changed, now)
}

/// Nothing is looked at because of the time alone.
pub fn forgets_time(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    decision.plan.wake_at = None;
    decision
}
