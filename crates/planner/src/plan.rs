//! What a plan is made of: writes as values, each with the precondition it was decided under.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use crate::disruption::Permit;
use crate::set::{SetRow, Strategy};

/// Writes that may be under way together; the next batch starts only after all of this one succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The writes.
    pub actions: Vec<Action>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The object it goes to.
    pub object: Object,
    /// The state of the object it was decided under.
    pub precondition: Precondition,
    /// What is done.
    pub verb: Verb,
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
}

/// The kinds that plans write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A StatefulSet.
    StatefulSet,
    /// A PhasedRollout.
    PhasedRollout,
    /// A PersistentVolumeClaim.
    Claim,
    /// A ControllerRevision.
    Revision,
}

/// The state of an object that a write insists on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The object is still the same one; empty for an object that is not there yet.
    pub uid: Box<str>,
    /// It has not changed since; `None` where a change cannot make the write wrong.
    pub resource_version: Option<Box<str>>,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Create the object, which must not exist.
    Create {
        /// The whole object.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
    /// Delete the object with its own grace period.
    Delete,
    /// Merge these fields into the object as its kind defines it: entries of lists by their key, under this field manager.
    StrategicMerge {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
    /// Merge these fields into the object, under this field manager.
    Merge {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
    /// Own exactly these fields of the object, taking them from whoever else has them, under this field manager.
    Apply {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
        /// Whether a pod may go down because of it.
        disrupts: bool,
    },
    /// Replace the object's status.
    ReplaceStatus {
        /// The status.
        status: Value,
        /// The field manager.
        manager: &'static str,
    },
    /// Merge these fields into the object's status, under this field manager.
    MergeStatus {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
}

impl Batch {
    /// Whether any of these writes must rest on a confirmed view.
    pub fn any_needs_confirmed_view(batches: &[Self]) -> bool {
        batches.iter().flat_map(|batch| &batch.actions).any(Action::needs_confirmed_view)
    }
}

impl Action {
    /// Deletes the pod of a permit, as it was when the permit was given.
    pub fn delete(permit: &Permit) -> Self {
        let pod = permit.pod();
        Self {
            object: Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() },
            precondition: Precondition {
                uid: pod.uid.clone(),
                resource_version: Some(pod.resource_version.clone()),
            },
            verb: Verb::Delete,
        }
    }

    /// Sets or, with `None`, removes an annotation of a set. Any version of the set will do: the annotation
    /// has one writer and the set's controller writes its status all the time.
    pub fn annotate(set: &SetRow, key: &str, value: Option<&str>, manager: &'static str) -> Self {
        Self {
            object: object_of(set),
            precondition: Precondition { uid: (*set.uid).into(), resource_version: None },
            verb: Verb::Merge { body: json!({ "metadata": { "annotations": { key: value } } }), manager },
        }
    }

    /// Calls the target revision of a set its current one, which the StatefulSet controller never does for
    /// a set with the strategy OnDelete.
    pub fn promote(set: &SetRow, revision: &str, manager: &'static str) -> Self {
        Self {
            object: object_of(set),
            precondition: Precondition {
                uid: (*set.uid).into(),
                resource_version: Some(set.resource_version.clone()),
            },
            verb: Verb::MergeStatus { body: json!({ "status": { "currentRevision": revision } }), manager },
        }
    }

    /// Lowers the partition of a set by one, so that the pod of the permit is replaced by the set's controller.
    pub fn let_go(permit: &Permit, set: &SetRow, rollout: &str, partition: u32) -> Self {
        debug_assert_eq!(permit.pod().owner, set.uid, "the permit is for a pod of this set");
        Self::owned_by_phased_rollout(set, marked(rollout, Some(partition)), true)
    }

    /// Brings the partition of a set back to what it has to be, and marks the set with the PhasedRollout that holds it:
    /// one write, so that a partition of ours without our mark does not exist. Where the value is lower than what somebody
    /// else has made of it, the pods from it on have passed their gates already.
    pub fn pin(set: &SetRow, rollout: &str, partition: u32) -> Self {
        let lowers = matches!(set.strategy, Strategy::RollingUpdate { partition: now } if partition < now);
        let disrupts = lowers && partition < set.replicas;
        Self::owned_by_phased_rollout(set, marked(rollout, Some(partition)), disrupts)
    }

    /// Marks a set with the PhasedRollout that manages it without holding its partition.
    pub fn mark(set: &SetRow, rollout: &str) -> Self {
        Self::owned_by_phased_rollout(set, marked(rollout, None), false)
    }

    /// Releases the partition of a set that stays marked, so that its controller rolls it by itself.
    pub fn give_up_partition(set: &SetRow, rollout: &str) -> Self {
        Self::owned_by_phased_rollout(set, marked(rollout, None), true)
    }

    /// Releases the partition of a set and its mark, so that its controller rolls it by itself.
    pub fn release(set: &SetRow) -> Self {
        Self::owned_by_phased_rollout(set, json!({}), true)
    }

    /// The version matters also where nothing goes down: the value was decided for the replicas, the strategy and the
    /// revision that the set had.
    fn owned_by_phased_rollout(set: &SetRow, body: Value, disrupts: bool) -> Self {
        Self {
            object: object_of(set),
            precondition: Precondition {
                uid: (*set.uid).into(),
                resource_version: Some(set.resource_version.clone()),
            },
            verb: Verb::Apply { body, manager: keys::MANAGER_PHASED_ROLLOUT, disrupts },
        }
    }

    /// Whether the write deletes its object.
    pub fn is_deletion(&self) -> bool {
        matches!(self.verb, Verb::Delete)
    }

    /// Whether a lost answer to the write must be read back before the next plan: after a disruption, and where a field
    /// may have become ours that has to be released one day.
    pub fn must_be_known(&self) -> bool {
        self.disrupts() || matches!(self.verb, Verb::Apply { .. })
    }

    /// Whether the write takes something away from the user's workload.
    pub fn disrupts(&self) -> bool {
        matches!(self.verb, Verb::Delete | Verb::Apply { disrupts: true, .. })
    }

    /// Whether the write must rest on a confirmed view: a disruption; a change of a claim's owners, because the
    /// garbage collector deletes the data of a claim whose owner does not exist; and the removal of our finalizer, because
    /// nobody releases a set that a PhasedRollout leaves behind.
    pub fn needs_confirmed_view(&self) -> bool {
        let rewrites_claim = self.object.kind == Kind::Claim && !matches!(self.verb, Verb::Create { .. });
        self.disrupts() || rewrites_claim || self.removes_finalizer()
    }

    /// Whether the write takes our finalizer from its object: it rests on what is known of every set of the namespace, since
    /// any of them may carry the mark of a PhasedRollout.
    pub fn removes_finalizer(&self) -> bool {
        let Verb::Merge { body, .. } = &self.verb else { return false };
        let finalizers = body.pointer("/metadata/finalizers").and_then(Value::as_array);
        finalizers.is_some_and(|kept| kept.iter().all(|finalizer| finalizer != keys::FINALIZER))
    }
}

/// What the phased rollout owns of a set that it manages.
fn marked(rollout: &str, partition: Option<u32>) -> Value {
    let metadata = json!({ "annotations": { keys::PHASED_ROLLOUT: rollout } });
    match partition {
        Some(partition) => json!({
            "metadata": metadata,
            "spec": { "updateStrategy": { "rollingUpdate": { "partition": partition } } },
        }),
        None => json!({ "metadata": metadata }),
    }
}

fn object_of(set: &SetRow) -> Object {
    Object { kind: Kind::StatefulSet, namespace: Arc::clone(&set.namespace), name: (*set.name).into() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
