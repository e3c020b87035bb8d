//! The guarantees that are about several kinds of objects, judged over everything that happened, in order.

use std::collections::{BTreeMap, BTreeSet};

use sts_plus_api::keys;

use super::seen::{Pod, Set};

#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The name of a set or the UID of a pod that somebody else takes away.
    Excused(String),
    Pod(Pod),
    PodGone(String),
    Set(Set),
    SetGone(String),
}

/// What is there at a moment.
#[derive(Default)]
struct Moment {
    sets: BTreeMap<String, Set>,
    pods: BTreeMap<String, Pod>,
    excused: BTreeSet<String>,
    faults: Vec<String>,
}

/// Everything that was wrong: a version that was removed before another one of its zone met the rule, and pods of two zones
/// that were disturbed at once.
pub(super) fn judge(changes: impl Iterator<Item = Change>, min_ready: usize) -> Vec<String> {
    let mut moment = Moment::default();
    for change in changes {
        match change {
            Change::Excused(what) => {
                moment.excused.insert(what);
            }
            Change::Pod(pod) => {
                let before = moment.pods.insert(pod.pod.name.clone(), pod.clone());
                let was_live = before.is_some_and(|before| before.pod.deleted_at.is_none());
                if was_live && pod.pod.deleted_at.is_some() {
                    moment.judge_pod(&pod);
                }
            }
            Change::PodGone(name) => {
                if let Some(pod) = moment.pods.remove(&name)
                    && pod.pod.deleted_at.is_none()
                {
                    moment.judge_pod(&pod);
                }
            }
            Change::Set(set) => {
                let was_live = moment.sets.get(&set.name).is_some_and(|before| !before.deleting);
                let is_removed = was_live && set.deleting;
                moment.sets.insert(set.name.clone(), set.clone());
                if is_removed {
                    moment.judge_set(&set, min_ready);
                }
            }
            Change::SetGone(name) => {
                if let Some(set) = moment.sets.remove(&name)
                    && !set.deleting
                {
                    moment.judge_set(&set, min_ready);
                }
            }
        }
    }
    moment.faults
}

impl Moment {
    fn serving_of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.pod.set.as_deref() == Some(set) && pod.pod.serves())
    }

    /// A set of a version is removed: another version of its zone must serve.
    fn judge_set(&mut self, set: &Set, min_ready: usize) {
        let Some((number, prefix)) = set.versioned() else { return };
        if self.excused.contains(&set.name) {
            return;
        }
        let others = self.sets.values().filter(|other| {
            let versioned = other.versioned();
            !other.deleting
                && other.owner == set.owner
                && versioned.is_some_and(|(other, zone)| zone == prefix && other != number)
        });
        let most = others.map(|other| self.serving_of(&other.name).count()).max().unwrap_or(0);
        if most < min_ready {
            self.faults.push(format!(
                "{} was removed while no other version of {prefix} had {min_ready} Ready pods, at most {most}",
                set.name
            ));
        }
    }

    /// A pod of a zone is deleted: no pod of another zone of its group may be down.
    fn judge_pod(&mut self, pod: &Pod) {
        let Some(set) = pod.pod.set.as_ref().and_then(|set| self.sets.get(set)) else { return };
        let Some(group) = set.labels.get(keys::ROLLOUT_GROUP) else { return };
        if set.deleting || self.excused.contains(&pod.pod.uid) || self.excused.contains(&set.name) {
            return;
        }
        // Pods above the replicas leave because the set shrinks.
        let ordinal = pod.pod.name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<u32>().ok());
        if !pod.pod.ready || ordinal.is_none_or(|ordinal| ordinal >= set.replicas) {
            return;
        }
        let zones = self.sets.values().filter(|other| {
            other.labels.get(keys::ROLLOUT_GROUP) == Some(group) && other.name != set.name && !other.deleting
        });
        // A zone that never served is not disturbed by us: it starts.
        let down = zones.filter(|zone| {
            let pods = self.pods.values().filter(|pod| pod.pod.set.as_ref() == Some(&zone.name));
            pods.clone().any(|pod| pod.pod.ready)
                && self.serving_of(&zone.name).count() < zone.replicas as usize
        });
        let down: Vec<_> = down.map(|zone| zone.name.clone()).collect();
        if !down.is_empty() {
            let (name, zones) = (&pod.pod.name, down.join(", "));
            self.faults.push(format!("{name} was deleted while pods of {zones} were down"));
        }
    }
}
