//! Claims that pods use, and volumes that claims use, stay until they are no longer used.

use std::collections::BTreeSet;

use super::garbage::drop_finalizer;
use crate::kinds::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use crate::machinery::object::{self, text};
use crate::machinery::state::State;

/// Lets go of the claims of a namespace that no pod uses.
pub(super) fn claims(state: &mut State, namespace: &str) {
    let pods = state.objects("", "pods", Some(namespace));
    let used: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        // A pod that no node has taken uses nothing yet, and none will take it while its claim is about to go.
        .filter(|pod| !text(pod, "/spec/nodeName").is_empty())
        .flat_map(|pod| object::list(pod, "/spec/volumes"))
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .collect();
    let Some(row) = state.row("", "persistentvolumeclaims") else {
        return;
    };
    for claim in state.objects("", "persistentvolumeclaims", Some(namespace)) {
        if object::is_deleting(&claim) && !used.contains(object::name(&claim)) {
            drop_finalizer(state, &row, &row.key(namespace, object::name(&claim)), CLAIM_PROTECTION);
        }
    }
}

/// Lets go of volumes that are not bound.
pub(super) fn volumes(state: &mut State) {
    let Some(row) = state.row("", "persistentvolumes") else {
        return;
    };
    for volume in state.objects("", "persistentvolumes", None) {
        if object::is_deleting(&volume) && text(&volume, "/status/phase") != "Bound" {
            drop_finalizer(state, &row, &row.key("", object::name(&volume)), VOLUME_PROTECTION);
        }
    }
}
