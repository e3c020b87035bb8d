//! Fixtures in many variants, and what holds on the way of a set that is scaled or rolled.

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::cluster::{Chance, Cluster, FOO, given};
use crate::ordinal;
use crate::plan::Kind;
use crate::pod::{Phase, PodRow};
use crate::set::Strategy;

pub(super) const MANAGEMENT: [&str; 2] = ["OrderedReady", "Parallel"];

/// The sweep of retention policies: when scaled and when deleted, or no policy at all.
pub(super) const POLICIES: [Option<(&str, &str)>; 5] = [
    Some(("Retain", "Retain")),
    Some(("Delete", "Retain")),
    Some(("Retain", "Delete")),
    Some(("Delete", "Delete")),
    None,
];

/// Where the chains of pseudo-random numbers begin.
const SEED: u64 = 20_260_820;

/// Runs a scenario for both ways of managing pods.
pub(super) fn both(change: impl Fn(&mut Value), run: impl Fn(Cluster, Chance)) {
    for (number, management) in (0..).zip(MANAGEMENT) {
        let cluster = given(|spec| {
            spec["podManagementPolicy"] = json!(management);
            change(spec);
        });
        println!("{management}, seed {}", SEED + number);
        run(cluster, Chance(SEED + number));
    }
}

/// Runs a scenario for both ways of managing pods and every retention policy.
pub(super) fn sweep(change: impl Fn(&mut Value), run: impl Fn(Cluster, Chance)) {
    for policy in POLICIES {
        println!("{policy:?}");
        let with_policy = |spec: &mut Value| {
            set_policy(spec, policy);
            change(spec);
        };
        both(with_policy, &run);
    }
}

pub(super) fn set_policy(spec: &mut Value, policy: Option<(&str, &str)>) {
    spec["persistentVolumeClaimRetentionPolicy"] = policy
        .map_or(Value::Null, |(scaled, deleted)| json!({ "whenScaled": scaled, "whenDeleted": deleted }));
}

/// A set that has come to rest with all its pods.
pub(super) fn complete(change: impl FnOnce(&mut Value)) -> Cluster {
    let mut cluster = given(change);
    cluster.rest();
    cluster.forget();
    cluster
}

impl Cluster {
    /// Forgets what was requested and told so far.
    pub(super) fn forget(&mut self) {
        self.requests.clear();
        self.widest.clear();
        self.trace.clear();
        self.events.clear();
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.object(Kind::StatefulSet, FOO)["spec"]["podManagementPolicy"] == "OrderedReady"
    }

    /// The pods of `foo` in the order of their ordinals.
    pub(super) fn members(&self) -> Vec<(u32, std::sync::Arc<PodRow>)> {
        let pods = self.pods().into_iter();
        let mut pods: Vec<_> = pods.filter_map(|pod| Some((ordinal::of_pod(&pod.name, FOO)?, pod))).collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        pods
    }
}

/// What holds while a set grows or shrinks: no gap, identity and storage right, and in an orderly set no Ready pod above
/// one that is not.
#[track_caller]
pub(super) fn growing(cluster: &Cluster) {
    let members = cluster.members();
    let mut below_is_ready = true;
    for (expected, (ordinal, pod)) in (cluster.set().first_ordinal..).zip(&members) {
        if cluster.is_ordered() {
            assert_eq!(*ordinal, expected, "ordinals are contiguous");
            let ready = pod.phase == Phase::Running && pod.ready_since.is_some();
            assert!(!ready || below_is_ready, "{} is Ready above one that is not:\n{cluster}", pod.name);
            below_is_ready = ready;
        }
    }
    identities(cluster);
}

/// Every pod of `foo` has its name, labels, volumes and claims, and the claims have their owners.
#[track_caller]
pub(super) fn identities(cluster: &Cluster) {
    let (set, spec) = cluster.set_of(FOO);
    for (ordinal, pod) in cluster.members() {
        assert!(pod.named && pod.owner == set.uid, "{} knows its name and its set", pod.name);
        let value = cluster.object(Kind::Pod, &pod.name);
        assert_eq!(value["metadata"]["labels"][keys::POD_INDEX], ordinal.to_string());
        assert_eq!(value["spec"]["hostname"], *pod.name);
        for template in spec.claim_templates.iter() {
            let claim = format!("{}-{}", template.name, pod.name);
            assert!(pod.volumes.iter().any(|volume| volume.name == template.name && volume.claim.is_none()));
            // What was just created is looked at again in the next pass.
            if pod.phase != Phase::Pending && set.ordinals().contains(&ordinal) && !set.deleting {
                assert_eq!(
                    cluster.owners(&claim),
                    wanted_owners(cluster, true, &pod.name),
                    "{claim}:\n{cluster}"
                );
            }
        }
    }
}

/// Who shall own a claim of a pod of `foo`.
pub(super) fn wanted_owners(cluster: &Cluster, in_range: bool, pod: &str) -> Vec<String> {
    let policy = &cluster.object(Kind::StatefulSet, FOO)["spec"]["persistentVolumeClaimRetentionPolicy"];
    let (scaled, deleted) = (policy["whenScaled"] == "Delete", policy["whenDeleted"] == "Delete");
    match (in_range, scaled, deleted) {
        (false, true, _) => vec![format!("Pod {pod}")],
        (_, _, true) => vec![format!("StatefulSet {FOO}")],
        _ => Vec::new(),
    }
}

/// While a set rolls: the lowest pods are of the current revision and the highest of the update revision, as many as
/// the status says.
#[track_caller]
pub(super) fn rolling(cluster: &Cluster) {
    let (set, spec) = cluster.set_of(FOO);
    if set.strategy == Strategy::OnDelete || set.generation != set.observed_generation {
        return;
    }
    let members = cluster.members();
    // A parallel set rolls while condemned pods, of whatever revision, are on their way out.
    if members.iter().any(|(ordinal, _)| !set.ordinals().contains(ordinal)) {
        return;
    }
    let revision = |pod: &PodRow| pod.revision.as_deref().map(Box::<str>::from);
    for (_, pod) in members.iter().take(spec.counts.current as usize) {
        assert_eq!(revision(pod), set.current_revision, "{}:\n{cluster}", pod.name);
    }
    for (_, pod) in members.iter().rev().take(spec.counts.updated as usize) {
        assert_eq!(revision(pod), set.update_revision, "{}:\n{cluster}", pod.name);
    }
}
