//! Claims: what a pod's volumes are made of, and who owns them.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::claiming::{controller, reference};
use super::world::{ClaimRow, ClaimTemplate, Keep, OwnerRef, Retention, World};
use super::{Alignment, Need, Purpose, Task, identity};
use crate::plan::{Action, Kind, Note, Object, Precondition};
use crate::pod::PodRow;
use crate::reason::Severity;
use crate::set::SetRow;

pub(super) fn name(template: &str, set: &str, ordinal: u32) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// A claim that a pod of this ordinal has by rule, where it exists, with its template.
fn of_ordinal(world: &World, ordinal: u32) -> impl Iterator<Item = (&ClaimTemplate, Option<&Arc<ClaimRow>>)> {
    let templates = world.spec.claim_templates.iter().enumerate();
    templates.map(move |(position, template)| {
        (template, world.claims.get(position).and_then(|claims| claims.get(&ordinal)))
    })
}

/// Creates the claims of this ordinal that do not exist.
pub(super) fn create_missing(world: &World, ordinal: u32, need: Need) -> Vec<Task> {
    let missing = of_ordinal(world, ordinal).filter(|(_, claim)| claim.is_none());
    missing.map(|(template, _)| create(world, template, ordinal, need)).collect()
}

fn create(world: &World, template: &ClaimTemplate, ordinal: u32, need: Need) -> Task {
    let mut labels = template.labels.clone();
    labels.extend(world.spec.match_labels.clone());
    let name: Box<str> = name(&template.name, &world.set.name, ordinal).into();
    let mut metadata = json!({ "name": name, "namespace": world.set.namespace, "labels": labels });
    if let Some(metadata) = metadata.as_object_mut() {
        if !template.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(template.annotations));
        }
        // A claim that goes with its set belongs to it from the start: there is no moment in which both could part.
        if world.spec.retention.when_deleted == Keep::Delete {
            metadata.insert("ownerReferences".to_owned(), json!([reference(&controller(&world.set))]));
        }
    }
    let body = json!({ "metadata": metadata, "spec": template.spec });
    let object = Object { kind: Kind::Claim, namespace: Arc::clone(&world.set.namespace), name };
    let action = Action::create(object, &world.set.uid, body, keys::MANAGER_STATEFULSET);
    let pod = identity::name(&world.set.name, ordinal);
    Task { action, purpose: Purpose::CreateClaim { pod, need } }
}

/// The claims of this ordinal that are being deleted.
pub(super) fn leaving(world: &World, ordinal: u32) -> Vec<&str> {
    let claims = of_ordinal(world, ordinal).filter_map(|(_, claim)| claim);
    claims.filter(|claim| claim.terminating).map(|claim| &*claim.name).collect()
}

/// Whether a claim of a pod that does not exist will go with its predecessor: it must not be given to a new pod.
pub(super) fn any_stale(world: &World, ordinal: u32) -> bool {
    let pod =
        Owner { api_version: "v1", kind: "Pod", name: &identity::name(&world.set.name, ordinal), uid: "" };
    let claims = of_ordinal(world, ordinal).filter_map(|(_, claim)| claim);
    world.spec.retention.when_scaled == Keep::Delete && claims.into_iter().any(|claim| pod.is_stale(claim))
}

/// Brings the owners of a pod's claims to what the retention policy says.
pub(super) fn align(
    world: &World,
    ordinal: u32,
    pod: &PodRow,
    alignment: Alignment,
) -> (Vec<Task>, Vec<Note>) {
    let set =
        Owner { api_version: "apps/v1", kind: "StatefulSet", name: &world.set.name, uid: &world.set.uid };
    let own = Owner { api_version: "v1", kind: "Pod", name: &pod.name, uid: &pod.uid };
    let policy = Policy {
        retention: world.spec.retention,
        in_range: world.set.ordinals().contains(&ordinal),
        set,
        pod: own,
    };
    let (mut tasks, mut notes) = (Vec::new(), Vec::new());
    for claim in of_ordinal(world, ordinal).filter_map(|(_, claim)| claim) {
        let aligned = policy.is_met(claim);
        // A pod that is Pending has its claims looked at in any case; otherwise only what is wrong is met.
        if (alignment == Alignment::Pending || !aligned) && policy.has_foreign_controller(claim) {
            notes.push(conflicting(&world.set, claim));
        }
        if !aligned {
            let owners = policy.owners(claim, || controller(&world.set), || pod_reference(pod));
            tasks.push(write(world, claim, &owners, (&pod.name, alignment)));
        }
    }
    (tasks, notes)
}

/// An object as owner references name it.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl Owner<'_> {
    /// Whether a reference names the object, or a former one of the same name.
    pub(super) fn is_named_by(&self, owner: &OwnerRef) -> bool {
        *owner.api_version == *self.api_version && *owner.kind == *self.kind && *owner.name == *self.name
    }

    /// Whether a claim is owned by a former object of the same name.
    pub(super) fn is_stale(&self, claim: &ClaimRow) -> bool {
        claim.owners.iter().find(|owner| self.is_named_by(owner)).is_some_and(|owner| *owner.uid != *self.uid)
    }

    /// Whether the claim is owned by the object, as a controller or not.
    pub(super) fn owns(&self, claim: &ClaimRow) -> bool {
        claim.owners.iter().any(|owner| *owner.uid == *self.uid)
    }
}

/// Who shall own a claim.
#[derive(Clone, Copy)]
pub(super) struct Policy<'a> {
    pub(super) retention: Retention,
    pub(super) in_range: bool,
    pub(super) set: Owner<'a>,
    pub(super) pod: Owner<'a>,
}

impl Policy<'_> {
    /// Whether the set, and whether the pod, shall own the claim.
    fn wanted(&self) -> (bool, bool) {
        let Retention { when_scaled, when_deleted } = self.retention;
        let goes_with_pod = when_scaled == Keep::Delete && !self.in_range;
        (when_deleted == Keep::Delete && !goes_with_pod, goes_with_pod)
    }

    /// Whether something else is the claim's controller, or a former set or pod of the same name owns it. Without a
    /// policy nobody minds.
    pub(super) fn has_foreign_controller(&self, claim: &ClaimRow) -> bool {
        self.retention != Retention::default()
            && claim.owners.iter().any(|owner| {
                match [self.set, self.pod].into_iter().find(|own| own.is_named_by(owner)) {
                    Some(own) => *owner.uid != *own.uid,
                    None => owner.controller == Some(true),
                }
            })
    }

    /// Whether the set or the pod owns the claim without controlling it.
    pub(super) fn has_own_without_control(&self, claim: &ClaimRow) -> bool {
        let own = |owner: &&OwnerRef| *owner.uid == *self.set.uid || *owner.uid == *self.pod.uid;
        claim.owners.iter().filter(own).any(|owner| owner.controller != Some(true))
    }

    /// Whether the claim's owners are to be left as they are.
    pub(super) fn is_met(&self, claim: &ClaimRow) -> bool {
        if self.set.is_stale(claim) || self.pod.is_stale(claim) {
            // What a former set or pod left behind is the garbage collector's.
            return true;
        }
        let held = (self.set.owns(claim), self.pod.owns(claim));
        if self.has_foreign_controller(claim) {
            return held == (false, false);
        }
        !self.has_own_without_control(claim) && held == self.wanted()
    }

    /// The owners that the claim shall have; those that are neither the set nor the pod stay.
    pub(super) fn owners(
        &self,
        claim: &ClaimRow,
        set: impl Fn() -> OwnerRef,
        pod: impl Fn() -> OwnerRef,
    ) -> Vec<OwnerRef> {
        let ours = |owner: &&OwnerRef| self.set.is_named_by(owner) || self.pod.is_named_by(owner);
        let mut owners: Vec<_> = claim.owners.iter().filter(|owner| !ours(owner)).cloned().collect();
        if !self.has_foreign_controller(claim) {
            let (by_set, by_pod) = self.wanted();
            owners.extend(by_set.then(set));
            owners.extend(by_pod.then(pod));
        }
        owners
    }
}

fn pod_reference(pod: &PodRow) -> OwnerRef {
    OwnerRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// In upstream's words, its slip of the pen included: whoever looks for them finds them.
fn conflicting(set: &SetRow, claim: &ClaimRow) -> Note {
    let message = format!(
        "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention \
         policy is ignored for this claim",
        claim.name
    );
    Note::of_set(set, Severity::Warning, "ConflictingController", message)
}

/// At the version that was looked at: the list of owners is replaced whole.
fn write(world: &World, claim: &ClaimRow, owners: &[OwnerRef], (pod, alignment): (&str, Alignment)) -> Task {
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    let body = json!({ "metadata": { "ownerReferences": owners } });
    let namespace = Arc::clone(&world.set.namespace);
    let object = Object { kind: Kind::Claim, namespace, name: claim.name.clone() };
    let precondition = Precondition::exactly(&claim.uid, &claim.resource_version);
    let action = Action::merge(object, &world.set.uid, precondition, (body, keys::MANAGER_STATEFULSET));
    Task { action, purpose: Purpose::OwnClaim { pod: pod.into(), alignment } }
}
