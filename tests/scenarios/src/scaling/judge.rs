//! The guarantees of scaling, judged over everything that happened, in order.

use std::collections::{BTreeMap, BTreeSet};

use sts_plus_api::scaling_policy::{Fence, OnFailure, PodRecord, RecordPhase};

use super::seen::{Pod, Policy, Set};

#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Somebody else writes this number of replicas.
    Foreign {
        set: String,
        replicas: u32,
    },
    Pod(Pod),
    PodGone(String),
    Set(Set),
    SetGone(String),
    Policy(Box<Policy>),
    PolicyGone(String),
}

/// A pod that became Ready although it had been drained. It must not be removed before its record has begun anew.
#[derive(Debug)]
struct Revived {
    policy: String,
    pod: String,
    record: PodRecord,
}

/// What is there at a moment.
#[derive(Default)]
struct Moment {
    sets: BTreeMap<String, Set>,
    pods: BTreeMap<String, Pod>,
    policies: BTreeMap<String, Policy>,
    /// The numbers that others write, by set.
    foreign: BTreeSet<(String, u32)>,
    /// The pods that others remove, by set and ordinal.
    taken: BTreeSet<(String, u32)>,
    revived: Vec<Revived>,
    faults: Vec<String>,
}

/// Everything that was wrong.
pub(super) fn judge(changes: impl Iterator<Item = Change>) -> Vec<String> {
    let mut moment = Moment::default();
    for change in changes {
        match change {
            Change::Foreign { set, replicas } => {
                moment.foreign.insert((set, replicas));
            }
            Change::Pod(pod) => moment.pod(&pod),
            Change::PodGone(name) => {
                moment.pods.remove(&name);
            }
            Change::Set(set) => moment.set(&set),
            Change::SetGone(name) => {
                moment.sets.remove(&name);
            }
            Change::Policy(policy) => moment.policy(&policy),
            Change::PolicyGone(name) => {
                moment.policies.remove(&name);
                moment.revived.retain(|revived| revived.policy != name);
            }
        }
    }
    let revived = std::mem::take(&mut moment.revived);
    moment.faults.extend(revived.into_iter().map(|revived| {
        let Revived { policy, pod, .. } = revived;
        format!("{pod} became Ready again after it was drained, and {policy} did not begin anew")
    }));
    moment.faults
}

impl Policy {
    fn target(&self) -> &str {
        self.spec.as_ref().map_or("", |spec| &spec.target_ref.name)
    }

    fn locks(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.scale_down.fence == Fence::Lock)
    }

    fn forces(&self) -> bool {
        let hook = self.spec.as_ref().and_then(|spec| spec.scale_down.hook.as_ref());
        hook.is_some_and(|hook| hook.on_failure == OnFailure::Force)
    }

    /// The records of pods that are on their way out, or on their way back.
    fn under_way(&self) -> impl Iterator<Item = &PodRecord> {
        self.status.leaving.iter().filter(|record| record.phase != RecordPhase::Failed)
    }

    fn drained(&self, ordinal: u32) -> Option<&PodRecord> {
        self.leaving(ordinal).filter(|record| record.phase == RecordPhase::Drained)
    }
}

impl Moment {
    /// The policy that scales a set: the one that writes records.
    fn policy_of(&self, set: &str) -> Option<&Policy> {
        let mut all = self.policies.values().filter(|policy| policy.target() == set);
        all.find(|policy| policy.status.held_replicas.is_some())
    }

    fn pod(&mut self, pod: &Pod) {
        let before = self.pods.insert(pod.pod.name.clone(), pod.clone());
        let was_ready = before.is_some_and(|before| before.pod.uid == pod.pod.uid && before.pod.ready);
        let set = pod.pod.set.clone().unwrap_or_default();
        if was_ready || !pod.pod.ready || pod.pod.deleted_at.is_some() {
            return;
        }
        let found = self.policy_of(&set).and_then(|policy| {
            let record = policy.drained(pod.ordinal)?;
            Some(Revived { policy: policy.name.clone(), pod: pod.pod.name.clone(), record: record.clone() })
        });
        self.revived.extend(found);
    }

    /// The number of replicas was lowered: each pod that it removes must be drained, and be the one that was.
    fn set(&mut self, set: &Set) {
        let before = self.sets.insert(set.name.clone(), set.clone());
        let from = before.filter(|before| before.uid == set.uid).map_or(0, |before| before.replicas);
        if from <= set.replicas {
            return;
        }
        let removed = set.replicas..from;
        if self.foreign.contains(&(set.name.clone(), set.replicas)) {
            self.taken.extend(removed.map(|ordinal| (set.name.clone(), ordinal)));
            return;
        }
        let Some(policy) = self.policy_of(&set.name).cloned() else { return };
        let (lowered, forces) =
            (format!("{} was lowered from {from} to {}", set.name, set.replicas), policy.forces());
        for ordinal in removed {
            let name = format!("{}-{ordinal}", set.name);
            let Some(record) = policy.drained(ordinal) else {
                if !forces {
                    self.faults.push(format!("{lowered} while {name} was not drained"));
                }
                continue;
            };
            if let Some(pod) = self.pods.get(&name).filter(|_| !forces) {
                // Whatever waits for its lock has never served.
                let is_held = policy.locks() && !pod.pod.ready;
                if is_held {
                    continue;
                }
                if !record.pod_uid.is_empty() && pod.pod.uid != record.pod_uid {
                    self.faults.push(format!("{lowered} while {name} was another pod than the drained one"));
                } else if pod.restarts != record.container_restarts && !record.pod_uid.is_empty() {
                    self.faults.push(format!(
                        "{lowered} while {name} had restarted: {:?}, drained at {:?}",
                        pod.restarts, record.container_restarts
                    ));
                }
            }
            let revived = self.revived.iter().position(|revived| revived.pod == name);
            if let Some(revived) = revived.map(|at| self.revived.remove(at)).filter(|_| !forces) {
                self.faults.push(format!("{lowered} while {} was Ready again after its drain", revived.pod));
            }
        }
    }

    fn policy(&mut self, policy: &Policy) {
        let before = self.policies.insert(policy.name.clone(), policy.clone());
        let is_new = |record: &&PodRecord| {
            before.as_ref().is_none_or(|before| before.leaving(record.ordinal).is_none())
        };
        self.revived.retain(|revived| {
            revived.policy != policy.name
                || policy.drained(revived.record.ordinal).is_some_and(|record| {
                    (&record.pod_uid, &record.container_restarts)
                        == (&revived.record.pod_uid, &revived.record.container_restarts)
                })
        });
        let Some(set) = self.sets.get(policy.target()) else { return };
        let ordinals: BTreeSet<u32> = policy.under_way().map(|record| record.ordinal).collect();
        let began: Vec<_> = policy.under_way().filter(is_new).map(|record| record.ordinal).collect();
        if began.is_empty() {
            return;
        }
        let mut faults = Vec::new();
        for ordinal in &began {
            let higher = (ordinal + 1..set.replicas).find(|higher| policy.leaving(*higher).is_none());
            if let Some(higher) = higher {
                faults.push(format!("{}-{ordinal} leaves while {}-{higher} stays", set.name, set.name));
            }
        }
        // Those that still terminate count, but for those that somebody else removes.
        let terminating = self.pods.values().filter(|pod| {
            pod.pod.set.as_deref() == Some(policy.target())
                && pod.ordinal >= set.replicas
                && !self.taken.contains(&(set.name.clone(), pod.ordinal))
        });
        let all: BTreeSet<u32> = ordinals.iter().copied().chain(terminating.map(|pod| pod.ordinal)).collect();
        let most = policy.spec.as_ref().map_or(1, |spec| spec.scale_down.max_concurrent);
        if all.len() > usize::try_from(most).unwrap_or_default() {
            faults.push(format!("{all:?} of {} leave at once, of which {most} may", set.name));
        }
        self.faults.extend(faults);
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
