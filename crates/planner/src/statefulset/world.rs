//! All that a decision about one StatefulSet may look at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::amount::Amount;
use crate::extended::claims::StableClaim;
use crate::pod::PodRow;
use crate::selector::Labels;
use crate::set::SetRow;

/// A set, and everything that concerns it.
#[derive(Clone, Debug)]
pub struct World {
    pub set: Arc<SetRow>,
    /// What else this controller has to know of it.
    pub spec: Arc<SetSpec>,
    /// The pods that the set controls, in any order.
    pub pods: Vec<Arc<PodRow>>,
    /// The pods of the namespace that nothing controls and that the set's selector matches, in any order.
    pub orphans: Vec<Arc<PodRow>>,
    /// For each claim template, in the order of the spec: its claims by ordinal.
    pub claims: Vec<BTreeMap<u32, Arc<ClaimRow>>>,
    /// The revisions that the set controls, or that nothing controls and the set's selector matches, in any order.
    pub revisions: Vec<Arc<RevisionRow>>,
    /// What this process knows beyond its caches.
    pub memory: Memory,
    /// Which behaviour is switched on.
    pub features: Features,
}

/// What this process knows beyond its caches. Losing it costs a request, nothing else.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The set as a read that [`crate::plan::Ask::Read`] asked for in this pass found it.
    pub presence: Option<Presence>,
    /// The revisions that were found to have a name that was to be given to a new one, as read from the server.
    pub taken: BTreeMap<Box<str>, Arc<RevisionRow>>,
    /// How long ago this process last wrote the set's status, by a clock that nobody sets.
    pub status_age: Option<Duration>,
}

/// A set as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there, with the UID that we know, and stays.
    Alive,
    /// It is being deleted.
    Deleting,
    /// It is not there, or it is another one of the same name.
    Gone,
}

/// Behaviour that upstream keeps behind a feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `MaxUnavailableStatefulSet`: off in Kubernetes 1.36.
    pub max_unavailable: bool,
}

/// What only its own controller needs of a StatefulSet: most of its spec, its annotations, and the counts of its status.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSpec {
    /// The template as revisions store it: [`crate::revision::patch`] of `spec.template`.
    pub patch: Arc<str>,
    /// The claim templates, in the order of the spec.
    pub claim_templates: Arc<[ClaimTemplate]>,
    /// `spec.serviceName`; may be empty.
    pub service_name: Box<str>,
    /// How pods are created and removed.
    pub management: Management,
    /// `spec.updateStrategy.rollingUpdate`, where it is present.
    pub rolling: Option<Rolling>,
    /// What becomes of claims.
    pub retention: Retention,
    /// How many unused revisions are kept; all of them where it is negative.
    pub history_limit: i64,
    /// `spec.selector.matchLabels`, which claims get as labels.
    pub match_labels: Labels,
    /// All annotations of the set, which its revisions get.
    pub annotations: Labels,
    pub counts: Counts,
    /// `status.collisionCount`.
    pub collisions: Option<u32>,
}

/// `spec.updateStrategy.rollingUpdate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// The index below which pods keep the current revision.
    pub partition: u32,
    /// How many pods may be unavailable while the set rolls; `None` where it is not given or unusable.
    pub max_unavailable: Option<Amount>,
}

/// `spec.podManagementPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Management {
    /// One pod after the other.
    #[default]
    OrderedReady,
    /// All at once.
    Parallel,
}

/// `spec.persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Whether the claims of a pod go with it when the set is scaled down.
    pub when_scaled: Keep,
    /// Whether all claims go with the set.
    pub when_deleted: Keep,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// It stays.
    #[default]
    Retain,
    /// It goes.
    Delete,
}

/// The counts in a set's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods that exist.
    pub replicas: u32,
    /// Pods that are Running and Ready.
    pub ready: u32,
    /// Pods that have been so for minReadySeconds.
    pub available: u32,
    /// Pods of the current revision that are not on their way out.
    pub current: u32,
    /// Pods of the update revision that are not on their way out.
    pub updated: u32,
}

/// One entry of `spec.volumeClaimTemplates`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimTemplate {
    /// Its name, which the volume has too.
    pub name: Box<str>,
    pub labels: Labels,
    pub annotations: Labels,
    /// Its `spec`, as the server gave it.
    pub spec: Value,
}

/// A PersistentVolumeClaim whose name is one that a set may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    pub owners: Vec<OwnerRef>,
    /// What an ExtendedStatefulSet looks at, of a claim with a name as it gives them.
    pub stable: Option<Box<StableClaim>>,
}

/// An owner reference, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub controller: Option<bool>,
    pub block_owner_deletion: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionRow {
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// UID of its controlling owner.
    pub owner: Option<Arc<str>>,
    pub number: i64,
    /// When it was created.
    pub created: Timestamp,
    /// Its `data` as JSON text, as the server gave it.
    pub data: Arc<str>,
}
