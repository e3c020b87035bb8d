//! Writes of ExtendedStatefulSets that only they may make: what they control is deleted, ordinals change hands, one pod is the
//! active one.

use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use super::{Action, Kind, Object, Precondition, Verb, object_of};
use crate::disruption::Permit;
use crate::extended::row::ExtendedRow;
use crate::extended::services::ServiceRow;
use crate::pod::PodRow;
use crate::scaling::row::ScalingRow;
use crate::set::SetRow;
use crate::statefulset::world::ClaimRow;

impl Action {
    /// Deletes a StatefulSet of an ExtendedStatefulSet with all its pods. Whether it may go is decided by the promotion rule
    /// of its successor, not by a budget. `None` for a set that is not one of the object: it must have both the owner and the
    /// label.
    pub fn delete_version(extended: &ExtendedRow, set: &SetRow) -> Option<Self> {
        let is_own = set.child.as_ref().is_some_and(|child| child.is_of(extended));
        is_own.then(|| Self {
            object: object_of(set),
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Delete,
        })
    }

    /// Takes an ordinal from a StatefulSet of an ExtendedStatefulSet, so that the pod of the permit is deleted. The version
    /// matters: the range was decided for the one that the set had.
    pub fn give_up(permit: &Permit, extended: &ExtendedRow, set: &SetRow, range: &Range<u32>) -> Self {
        debug_assert_eq!(permit.pod().owner, set.uid, "the permit is for a pod of this set");
        Self::change_range(extended, set, range, true)
    }

    /// Takes ordinals from a StatefulSet that it is not to have, or of which no pod exists.
    pub fn cut(extended: &ExtendedRow, set: &SetRow, range: &Range<u32>) -> Self {
        Self::change_range(extended, set, range, true)
    }

    /// Gives ordinals to a StatefulSet of which no other pod exists.
    pub fn take_over(extended: &ExtendedRow, set: &SetRow, range: &Range<u32>) -> Self {
        Self::change_range(extended, set, range, false)
    }

    fn change_range(extended: &ExtendedRow, set: &SetRow, range: &Range<u32>, disrupts: bool) -> Self {
        let replicas = range.end.saturating_sub(range.start);
        let body = json!({ "spec": { "ordinals": { "start": range.start }, "replicas": replicas } });
        Self {
            object: object_of(set),
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Merge { body, manager: keys::MANAGER_EXTENDED, disrupts },
        }
    }

    /// Deletes a StatefulSet with which cf-operator has created claims; `None` for one that the object does not control.
    pub fn delete_helper(extended: &ExtendedRow, set: &SetRow) -> Option<Self> {
        let is_own = set.child.as_ref().is_some_and(|child| child.owner == extended.uid);
        is_own.then(|| Self {
            object: object_of(set),
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&set.uid, &set.resource_version),
            verb: Verb::Delete,
        })
    }

    /// Deletes a claim of an ordinal that is no longer asked for, as the retention policy of its ExtendedStatefulSet has it.
    pub fn delete_stable_claim(extended: &ExtendedRow, claim: &ClaimRow, object: Object) -> Self {
        Self {
            object,
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&claim.uid, &claim.resource_version),
            verb: Verb::Delete,
        }
    }

    /// Deletes a pod that has never been on a node, as it was read: nothing of it has ever run.
    pub fn delete_unscheduled(extended: &ExtendedRow, pod: &PodRow, version: &str) -> Self {
        Self {
            object: Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() },
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&pod.uid, version),
            verb: Verb::Delete,
        }
    }

    /// Labels a pod as the active one of an ExtendedStatefulSet, given by its UID. The version of the pod matters: it was
    /// chosen because it was Ready.
    pub fn designate(pod: &PodRow, owner: &str, group: Group) -> Self {
        Self::label_designation(pod, owner, group, Some(keys::ACTIVE))
    }

    /// Removes that label from a pod, whatever its value is.
    pub fn revoke_designation(pod: &PodRow, owner: &str, group: Group) -> Self {
        Self::label_designation(pod, owner, group, None)
    }

    fn label_designation(pod: &PodRow, owner: &str, group: Group, value: Option<&str>) -> Self {
        let object =
            Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() };
        let precondition = Precondition::exactly(&pod.uid, &pod.resource_version);
        let body = json!({ "metadata": { "labels": { group.key(keys::POD_DESIGNATION): value } } });
        Self::merge(object, owner, precondition, (body, keys::MANAGER_EXTENDED))
    }

    /// Whether the write labels a pod as the active one.
    pub fn designates(&self) -> bool {
        let Verb::Merge { body, .. } = &self.verb else { return false };
        let labels = body.pointer("/metadata/labels");
        let sets = |group: Group| {
            let value = labels.and_then(|labels| labels.get(group.key(keys::POD_DESIGNATION)));
            value.is_some_and(|value| !value.is_null())
        };
        self.object.kind == Kind::Pod && Group::ALL.into_iter().any(sets)
    }

    /// Deletes a Service that an ExtendedStatefulSet has created; `None` for one that it does not control.
    pub fn delete_service(extended: &ExtendedRow, service: &ServiceRow) -> Option<Self> {
        let is_own = service.owner.as_ref() == Some(&extended.uid);
        is_own.then(|| Self {
            object: service.object(),
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&service.uid, &service.resource_version),
            verb: Verb::Delete,
        })
    }

    /// Deletes a ScalingPolicy that an ExtendedStatefulSet has created; `None` for one that it does not control.
    pub fn delete_policy(extended: &ExtendedRow, policy: &ScalingRow) -> Option<Self> {
        let is_own = policy.controller == extended.uid;
        is_own.then(|| Self {
            object: policy.object(),
            owner: (*extended.uid).into(),
            precondition: Precondition::exactly(&policy.uid, &policy.resource_version),
            verb: Verb::Delete,
        })
    }
}
