//! What a plan is made of, in one shape for all systems: what must be known first, writes as values, each with the
//! precondition it was decided under, what to report, and when to look again.

mod extended;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
pub use sts_plus_api::kinds::Kind;

use crate::disruption::Permit;
use crate::extended::probe::ProbeRequest;
use crate::extended::row::ExtendedRow;
use crate::phased_rollout::query::Question;
use crate::phased_rollout::row::RolloutRow;
use crate::reason::Severity;
use crate::scaling::hook::HookRequest;
use crate::scaling::lock::LockRow;
use crate::scaling::row::ScalingRow;
use crate::set::{self, SetName, SetRow, Strategy};

/// What to do for one key now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What must be known first, or is found out beside everything else.
    pub asks: Vec<Ask>,
    /// The writes, in order.
    pub steps: Vec<Step>,
    /// What to report.
    pub notes: Vec<Note>,
    /// When to look again although nothing has changed.
    pub wake_at: Option<Timestamp>,
    /// What a disruption was denied for, each once: a change of it is a reason to plan again.
    pub waits_on: Vec<Awaited>,
}

/// What has to change before a disruption that was denied can be permitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// A set, or one of its pods.
    Set(SetName),
    /// Any set of a group, or which these are.
    Group {
        /// The namespace of the group.
        namespace: Arc<str>,
        /// The value of the label `rollout-group`.
        group: Arc<str>,
    },
}

/// Something that a decision must know and that no cache has.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// The object as the API server has it now. The plan is made again with the answer before anything is written.
    Read(Object),
    /// The names of the pods that the API server has now with these labels. As for a read.
    Pods(PodsOf),
    /// Whether each node declares a feature, so that whatever pod is created may rely on it. The plan is made again with the
    /// answer, as for a read.
    Declared(&'static str),
    /// A query to Prometheus, sent beside everything else. Its answer brings the next pass.
    Query(Box<Question>),
    /// The digest of the data of a ConfigMap or a Secret. The object is followed for as long as plans ask for it, beside
    /// everything else; that it became known, and each change of its data, brings the next pass.
    Digest(Object),
    /// A probe of a pod, beside everything else. Its answer brings the next pass.
    Probe(Box<ProbeRequest>),
    /// A call of the application in a pod, beside everything else. Its outcome brings the next pass.
    Hook(Box<HookRequest>),
}

/// A question about the pods that exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodsOf {
    pub namespace: Arc<str>,
    /// The labels, as a query spells them.
    pub selector: Box<str>,
    /// What was known when it was asked: once something else is known it is another question.
    pub basis: Box<str>,
}

/// Writes that may be under way together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub writes: Vec<Action>,
    /// When the step begins, and who waits for it.
    pub mode: Mode,
}

/// When a step begins, and who waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Once every write before it has succeeded. A write that fails ends the acting steps: the next pass plans again.
    #[default]
    Act,
    /// Whatever the outcome of the steps before it, unless the lease is lost or the API server throttles.
    Settle {
        /// Unless a write to this object failed, where one is named.
        unless_failed: Option<Object>,
    },
    /// Beside the lane, retried on its own: no decision depends on it.
    Inform,
}

/// Something to report: an event, and a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The objects that the event is about, one event for each.
    pub on: Vec<Subject>,
    /// How urgent it is.
    pub severity: Severity,
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
    /// Which writes must be acknowledged before it is true.
    pub when: When,
}

/// Which writes of its plan must be acknowledged before a note is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// None: it describes what was found.
    Always,
    /// All of them. The next plan has the note again as long as they are not.
    Done,
    /// Those to this object. No later plan has the note once they are acknowledged.
    Written(Object),
}

/// An object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl Plan {
    /// All writes, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(|step| &step.writes)
    }

    /// The steps that are carried out inside the lane, in order.
    pub fn lane_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.mode != Mode::Inform)
    }

    /// The writes that are carried out inside the lane, in order.
    pub fn acting(&self) -> impl Iterator<Item = &Action> {
        self.lane_steps().flat_map(|step| &step.writes)
    }

    /// The writes that only inform, in order.
    pub fn informing(&self) -> impl Iterator<Item = &Action> {
        let informing = self.steps.iter().filter(|step| step.mode == Mode::Inform);
        informing.flat_map(|step| &step.writes)
    }

    /// Whether any of the writes must rest on a confirmed view.
    pub fn needs_confirmed_view(&self) -> bool {
        self.writes().any(Action::needs_confirmed_view)
    }

    /// The notes that are true although not all writes were acknowledged.
    pub fn notes_after<'p>(&'p self, acknowledged: &[&Action]) -> impl Iterator<Item = &'p Note> {
        let is_written = |object: &Object| {
            let mut writes = self.writes().filter(|action| action.object == *object).peekable();
            writes.peek().is_some() && writes.all(|action| acknowledged.contains(&action))
        };
        self.notes.iter().filter(move |note| match &note.when {
            When::Always => true,
            When::Done => false,
            When::Written(object) => is_written(object),
        })
    }
}

impl Step {
    /// Writes that are carried out once everything before them has succeeded.
    pub fn act(writes: Vec<Action>) -> Self {
        Self { writes, mode: Mode::Act }
    }

    /// One such write.
    pub fn one(write: Action) -> Self {
        Self::act(vec![write])
    }

    /// Writes that only inform.
    pub fn inform(writes: Vec<Action>) -> Self {
        Self { writes, mode: Mode::Inform }
    }
}

impl From<&SetRow> for Subject {
    fn from(set: &SetRow) -> Self {
        Self {
            kind: Kind::StatefulSet,
            namespace: Arc::clone(&set.namespace),
            name: Arc::clone(&set.name),
            uid: Arc::clone(&set.uid),
        }
    }
}

impl From<&RolloutRow> for Subject {
    fn from(rollout: &RolloutRow) -> Self {
        Self {
            kind: Kind::PhasedRollout,
            namespace: Arc::clone(&rollout.namespace),
            name: Arc::clone(&rollout.name),
            uid: Arc::clone(&rollout.uid),
        }
    }
}

impl From<&ScalingRow> for Subject {
    fn from(policy: &ScalingRow) -> Self {
        Self {
            kind: Kind::ScalingPolicy,
            namespace: Arc::clone(&policy.namespace),
            name: Arc::clone(&policy.name),
            uid: Arc::clone(&policy.uid),
        }
    }
}

impl From<&ExtendedRow> for Subject {
    fn from(extended: &ExtendedRow) -> Self {
        Self {
            kind: extended.kind(),
            namespace: Arc::clone(&extended.namespace),
            name: Arc::clone(&extended.name),
            uid: Arc::clone(&extended.uid),
        }
    }
}

impl Note {
    /// A note about a set, whatever the outcome of the writes.
    pub fn of_set(set: &SetRow, severity: Severity, reason: &'static str, message: String) -> Self {
        Self { on: vec![set.into()], severity, reason, message, when: When::Always }
    }
}

/// One write. Its fields are private, so that a deletion cannot be made without a [`Permit`], except by the named
/// constructor for the StatefulSet controller, which owns what it deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    object: Object,
    owner: Box<str>,
    precondition: Precondition,
    verb: Verb,
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Box<str>,
}

/// The state of an object that a write insists on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The object is still the same one; empty for an object that is not there yet.
    pub uid: Box<str>,
    /// It has not changed since; `None` where a change cannot make the write wrong.
    pub resource_version: Option<Box<str>>,
}

impl Precondition {
    /// The object is still the same one, at the same version.
    pub fn exactly(uid: &str, resource_version: &str) -> Self {
        Self { uid: uid.into(), resource_version: Some(resource_version.into()) }
    }
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
    /// Delete the object and leave what it owns as it is, without this owner.
    Orphan,
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
        /// Whether a pod may go down because of it.
        disrupts: bool,
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
    /// Replace the whole object except for its status, under this field manager.
    Replace {
        /// The whole object.
        body: Value,
        /// The field manager.
        manager: &'static str,
        /// Whether a pod may go down because of it.
        disrupts: bool,
    },
    /// Replace the object's status.
    ReplaceStatus {
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

impl Action {
    /// The object that is written.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The UID of the object whose controller decides about the written one: the set of a pod, a claim or a revision, and
    /// otherwise the object itself. Whoever plans for that owner next waits until the view shows the write.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The state of the object that the write was decided under.
    pub fn precondition(&self) -> &Precondition {
        &self.precondition
    }

    /// What is done.
    pub fn verb(&self) -> &Verb {
        &self.verb
    }

    /// Deletes the pod of a permit, as it was when the permit was given.
    pub fn delete(permit: &Permit) -> Self {
        let pod = permit.pod();
        Self {
            object: Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() },
            owner: (*pod.owner).into(),
            precondition: Precondition::exactly(&pod.uid, &pod.resource_version),
            verb: Verb::Delete,
        }
    }

    /// Deletes what a set controls, on behalf of the StatefulSet controller: it obeys the set's spec as Kubernetes' own
    /// controller does and asks no gatekeeper.
    pub fn delete_as_owner(set: &SetRow, object: Object, precondition: Precondition) -> Self {
        Self { object, owner: (*set.uid).into(), precondition, verb: Verb::Delete }
    }

    /// Replaces a whole object except for its status.
    pub fn replace(
        object: Object,
        owner: &str,
        precondition: Precondition,
        (body, manager): (Value, &'static str),
        disrupts: bool,
    ) -> Self {
        Self { object, owner: owner.into(), precondition, verb: Verb::Replace { body, manager, disrupts } }
    }

    /// Creates an object that must not exist.
    pub fn create(object: Object, owner: &str, body: Value, manager: &'static str) -> Self {
        let precondition = Precondition { uid: "".into(), resource_version: None };
        Self { object, owner: owner.into(), precondition, verb: Verb::Create { body, manager } }
    }

    /// Merges fields into an object.
    pub fn merge(
        object: Object,
        owner: &str,
        precondition: Precondition,
        (body, manager): (Value, &'static str),
    ) -> Self {
        Self {
            object,
            owner: owner.into(),
            precondition,
            verb: Verb::Merge { body, manager, disrupts: false },
        }
    }

    /// Merges fields into an object, entries of lists by their key.
    pub fn strategic_merge(
        object: Object,
        owner: &str,
        precondition: Precondition,
        (body, manager): (Value, &'static str),
    ) -> Self {
        Self { object, owner: owner.into(), precondition, verb: Verb::StrategicMerge { body, manager } }
    }

    /// Merges fields into the status of an object.
    pub fn merge_status(
        object: Object,
        owner: &str,
        precondition: Precondition,
        (body, manager): (Value, &'static str),
    ) -> Self {
        Self { object, owner: owner.into(), precondition, verb: Verb::MergeStatus { body, manager } }
    }

    /// Replaces the status of an object.
    pub fn replace_status(
        object: Object,
        owner: &str,
        precondition: Precondition,
        (status, manager): (Value, &'static str),
    ) -> Self {
        Self { object, owner: owner.into(), precondition, verb: Verb::ReplaceStatus { status, manager } }
    }

    /// Sets or, with `None`, removes an annotation of a set. Any version of the set will do: the annotation
    /// has one writer and the set's controller writes its status all the time.
    pub fn annotate(set: &SetRow, key: &str, value: Option<&str>, manager: &'static str) -> Self {
        let precondition = Precondition { uid: (*set.uid).into(), resource_version: None };
        let body = json!({ "metadata": { "annotations": { key: value } } });
        Self::merge(object_of(set), &set.uid, precondition, (body, manager))
    }

    /// Calls the target revision of a set its current one, which the StatefulSet controller never does for
    /// a set with the strategy OnDelete.
    pub fn promote(set: &SetRow, revision: &str, manager: &'static str) -> Self {
        let precondition = Precondition::exactly(&set.uid, &set.resource_version);
        let body = json!({ "status": { "currentRevision": revision } });
        Self::merge_status(object_of(set), &set.uid, precondition, (body, manager))
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
            owner: (*set.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Apply { body, manager: keys::MANAGER_PHASED_ROLLOUT, disrupts },
        }
    }

    /// Makes the number of replicas of a set with a ScalingPolicy this one. The version matters: the number was decided for
    /// the pods that the set had.
    pub fn scale(set: &SetRow, replicas: u32) -> Self {
        let body = json!({ "spec": { "replicas": replicas } });
        Self::owned_by_scaling(set, body, replicas < set.replicas)
    }

    /// Says on a set which of its pods leave, and no others. A pod that is named there is called next, and nobody else replaces
    /// it.
    pub fn announce_leaving(set: &SetRow, leaving: &BTreeSet<u32>) -> Self {
        let value = (!leaving.is_empty()).then(|| set::leaving_value(leaving));
        let body = json!({ "metadata": { "annotations": { keys::LEAVING: value } } });
        let is_more = !leaving.is_subset(&set.leaving());
        Self::owned_by_scaling(set, body, is_more)
    }

    /// Changes the pod template of a set with a ScalingPolicy, which rolls its pods. The version matters: lists are written whole.
    pub fn change_template(set: &SetRow, body: Value) -> Self {
        Self::owned_by_scaling(set, body, true)
    }

    /// Sets `persistentVolumeClaimRetentionPolicy.whenScaled` of a set.
    pub fn retain_claims(set: &SetRow, when_scaled: &str) -> Self {
        let body =
            json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenScaled": when_scaled } } });
        Self::owned_by_scaling(set, body, false)
    }

    /// Deletes the ConfigMap of a lock that a ScalingPolicy controls; `None` for any other.
    pub fn delete_lock(policy: &ScalingRow, lock: &LockRow) -> Option<Self> {
        let is_own = lock.owner.as_ref() == Some(&policy.uid);
        is_own.then(|| Self {
            object: lock.object(),
            owner: (*policy.uid).into(),
            precondition: Precondition::exactly(&lock.uid, &lock.resource_version),
            verb: Verb::Delete,
        })
    }

    /// Deletes a claim of a pod that a ScalingPolicy has drained and removed, as it was recorded and read.
    pub fn delete_claim(policy: &ScalingRow, claim: Object, (uid, version): (&str, &str)) -> Self {
        Self {
            object: claim,
            owner: (*policy.uid).into(),
            precondition: Precondition::exactly(uid, version),
            verb: Verb::Delete,
        }
    }

    /// Asks for more storage for a claim of a set with a ScalingPolicy, at the version that it was read at.
    pub fn grow_claim(policy: &ScalingRow, claim: Object, seen: Precondition, storage: &str) -> Self {
        let body = json!({ "spec": { "resources": { "requests": { "storage": storage } } } });
        Self::merge(claim, &policy.uid, seen, (body, keys::MANAGER_SCALING))
    }

    /// Deletes a set without its pods and claims, whose successor is stored. The version matters: the successor was made from
    /// it.
    pub(crate) fn orphan(set: &SetRow) -> Self {
        Self {
            object: object_of(set),
            owner: (*set.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Orphan,
        }
    }

    /// Deletes the record of a set that was created again, or need not be.
    pub(crate) fn delete_record(record: Object, owner: &str, seen: Precondition) -> Self {
        Self { object: record, owner: owner.into(), precondition: seen, verb: Verb::Delete }
    }

    /// A merge, and not an apply: a number of replicas that nobody applies any more becomes 1.
    fn owned_by_scaling(set: &SetRow, body: Value, disrupts: bool) -> Self {
        Self {
            object: object_of(set),
            owner: (*set.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Merge { body, manager: keys::MANAGER_SCALING, disrupts },
        }
    }

    /// Whether the write deletes its object.
    pub fn is_deletion(&self) -> bool {
        matches!(self.verb, Verb::Delete | Verb::Orphan)
    }

    /// Whether a lost answer to the write must be read back before the next plan: after a disruption, where a field may
    /// have become ours that has to be released one day, and where a pod may have become the active one.
    pub fn must_be_known(&self) -> bool {
        self.disrupts() || self.designates() || matches!(self.verb, Verb::Apply { .. })
    }

    /// Whether the write takes something away from the user's workload.
    pub fn disrupts(&self) -> bool {
        matches!(
            self.verb,
            Verb::Delete
                | Verb::Orphan
                | Verb::Apply { disrupts: true, .. }
                | Verb::Merge { disrupts: true, .. }
                | Verb::Replace { disrupts: true, .. }
        )
    }

    /// Whether the write must rest on a confirmed view: a disruption; a change of a claim's owners, because the
    /// garbage collector deletes the data of a claim whose owner does not exist; the removal of our finalizer, because
    /// nobody releases a set that a PhasedRollout leaves behind; and the label of the active pod, because another pod may
    /// have it.
    pub fn needs_confirmed_view(&self) -> bool {
        let rewrites_claim = self.object.kind == Kind::Claim && !matches!(self.verb, Verb::Create { .. });
        self.disrupts() || rewrites_claim || self.removes_finalizer() || self.designates()
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

/// A set, as writes and reads name it.
pub fn object_of(set: &SetRow) -> Object {
    Object { kind: Kind::StatefulSet, namespace: Arc::clone(&set.namespace), name: (*set.name).into() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
