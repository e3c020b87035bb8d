//! Which pods clients reach while a new version is rolled out zone after zone: those of the promoted version of each zone.
//!
//! A Service selects by equality, so one selector cannot mean one version here and another one there. While zones differ, the
//! pods of promoted versions carry a label, and Services select that; otherwise they select the version, which new pods have
//! from the start.

use std::collections::BTreeSet;

use serde_json::json;
use sts_plus_api::keys;

use super::moves::Scene;
use super::patch_of;
use super::report::Served;
use crate::plan::Action;

/// The value of the label.
pub(super) const TRUE: &str = "true";

/// The version that serves each zone, by the index of the zone.
pub(super) fn versions(scene: &Scene<'_>, served: &[Option<Served<'_>>]) -> Vec<(u32, u32)> {
    let zones = scene.layout.zones.iter().zip(served);
    zones.filter_map(|(zone, served)| Some((zone.index, served.as_ref()?.version.number))).collect()
}

/// Whether zones are served by different versions.
pub(super) fn differ(versions: &[(u32, u32)]) -> bool {
    versions.iter().map(|(_, version)| version).collect::<BTreeSet<_>>().len() > 1
}

/// The labels that are missing or wrong, where a Service needs them.
pub(super) fn labels(scene: &Scene<'_>, served: &[Option<Served<'_>>]) -> Vec<Action> {
    let is_needed = scene.spec.is_blue_green()
        && scene.spec.services.active.is_some()
        && scene.spec.active.is_none()
        && differ(&versions(scene, served));
    if !is_needed {
        return Vec::new();
    }
    let key = scene.world.row.group.key(keys::PROMOTED);
    let is_promoted = |name: &str| served.iter().flatten().any(|served| *served.version.set().name == *name);
    let of_set = |version: &super::children::Version<'_>| {
        let wanted = is_promoted(&version.set().name).then_some(TRUE);
        let pods = version.member.pods.iter().filter(|pod| !pod.terminating && pod.label(&key) != wanted);
        pods.map(|pod| patch_of(pod, &json!({ "labels": { &key: wanted } }))).collect::<Vec<_>>()
    };
    scene.versions.all.iter().flat_map(of_set).collect()
}
