//! Pods that a set was created over: they are of another revision, no rollout has left them, and they are replaced gate by
//! gate.

use std::sync::Arc;

use sts_plus_api::phased_rollout::{Phase, PhasedRolloutStatus};

use super::situation::Scene;
use crate::pod::PodRow;

/// Revisions of adopted pods that the status names: a set has a few, and labels that somebody makes up must not fill it.
const MAX_ADOPTED: usize = 20;

/// The pods that are there, wanted, and of another revision than the update revision.
pub(super) fn others<'s>(scene: &Scene<'s>) -> impl Iterator<Item = &'s Arc<PodRow>> {
    let (member, update) = (scene.member(), scene.update);
    let other = move |pod: &&Arc<PodRow>| pod.revision.as_deref() != Some(update);
    member.pods.iter().filter(other).filter(|pod| member.wanted_ordinal(pod).is_some())
}

/// Whether a pod is one of those that the set was created over.
pub(super) fn is_adopted(status: &PhasedRolloutStatus, pod: &PodRow) -> bool {
    let revision = pod.revision.as_deref().unwrap_or_default();
    status.adopted_revisions.iter().any(|adopted| adopted == revision)
}

/// Whether the set was created with pods of another revision, or somebody has made them so, and no rollout was under way
/// that could have left them. Its status then calls the update revision current, although pods have yet to be replaced;
/// the partition keeps them all the same, as long as they are not deleted. Pods that a rollout has left are reverted
/// first.
pub(super) fn has_adopted(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> bool {
    let mut others = others(scene).peekable();
    others.peek().is_some() && (!was_under_way(status) || others.all(|pod| is_adopted(status, pod)))
}

/// Whether the gates of such a set are not all behind it.
pub(super) fn replaces_adopted(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> bool {
    let gate = status.rolling_pod_status.as_ref();
    // At the final gate the partition is pinned again, unless the last pod is still to be replaced.
    let ahead = gate.is_some_and(|gate| gate.partition > 0 || scene.managed.partition == 0);
    others(scene).any(|pod| ahead || is_adopted(status, pod))
}

/// Whether the status says that a rollout was under way, so that pods of another revision are what it has left.
pub(super) fn was_under_way(status: &PhasedRolloutStatus) -> bool {
    status.rolling_pod_status.is_some()
        || status.previous_revision.is_some()
        || status.phase == Some(Phase::RollingBack)
}

/// The revisions of the pods that the set was created over, those that are known included.
pub(super) fn adopted_revisions(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> Vec<String> {
    let mut adopted = status.adopted_revisions.clone();
    for pod in others(scene).filter(|pod| !pod.terminating) {
        let revision = pod.revision.as_deref().unwrap_or_default();
        if !adopted.iter().any(|known| known == revision) && adopted.len() < MAX_ADOPTED {
            adopted.push(revision.to_owned());
        }
    }
    adopted
}

/// The revision that all adopted pods had: that of the lowest pod, which would have been rolled last.
pub(super) fn revision_before<'s>(scene: &Scene<'s>) -> Option<&'s str> {
    let lowest = others(scene).filter_map(|pod| Some((scene.member().wanted_ordinal(pod)?, pod)));
    lowest.min_by_key(|(ordinal, _)| *ordinal).and_then(|(_, pod)| pod.revision.as_deref())
}
