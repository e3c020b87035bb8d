//! Creating, scaling and mending sets: C1 to C15.

use serde_json::json;
use sts_plus_api::keys;

use super::cluster::{Cluster, FOO, given};
use super::drive::{both, complete, growing, identities, sweep};
use super::operate::{Op, internal_error};
use crate::ordinal;
use crate::plan::Kind;

/// Drives to rest; each step is held against what shall hold while a set grows.
#[track_caller]
fn grow(cluster: &mut Cluster, chance: &mut super::cluster::Chance) {
    let pass = cluster.drive(chance, growing);
    assert!(!pass.failed(), "{:?}\n{cluster}", pass.errors);
    identities(cluster);
}

#[test]
fn c_c1_a_new_set_is_driven_to_completion() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            assert_eq!(cluster.counted(), [3, 3, 3]);
            assert_eq!(cluster.names(), ["foo-0", "foo-1", "foo-2"]);
            for name in cluster.names() {
                let index = &cluster.object(Kind::Pod, &name)["metadata"]["labels"][keys::POD_INDEX];
                assert_eq!(*index, ordinal::of_pod(&name, FOO).unwrap().to_string());
            }
        },
    );
}

#[test]
fn c_c2_a_complete_set_is_scaled_up() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.scale(4);
            grow(&mut cluster, &mut chance);
            assert_eq!(cluster.counted(), [4, 4, 4]);
            assert_eq!(cluster.requested(Op::Create, Kind::Pod), 4, "no pod is created twice");
        },
    );
}

#[test]
fn c_c3_a_complete_set_is_scaled_to_zero() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.scale(0);
            grow(&mut cluster, &mut chance);
            assert_eq!(cluster.counts(), Default::default());
            assert_eq!(cluster.names(), [""; 0]);
            let policy =
                &cluster.object(Kind::StatefulSet, FOO)["spec"]["persistentVolumeClaimRetentionPolicy"];
            let kept = if policy["whenScaled"] == "Delete" { 0 } else { 3 };
            assert_eq!(cluster.claims().len(), kept, "claims go with their pods where that is the policy");
        },
    );
}

#[test]
fn c_c4_vanished_pods_are_recreated_in_order() {
    sweep(
        |spec| spec["replicas"] = json!(5),
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.forget();
            for name in ["foo-0", "foo-2", "foo-4"] {
                cluster.vanish(name);
            }
            // The claims of what is gone must not be taken for those of condemned pods.
            let pass = cluster.drive(&mut chance, |cluster| {
                for claim in cluster.claims() {
                    assert!(claim.owners.iter().all(|owner| *owner.kind != *"Pod"), "{}", claim.name);
                }
            });
            assert!(!pass.failed(), "{:?}", pass.errors);
            assert_eq!(cluster.counted(), [5, 5, 5]);
            assert_eq!(cluster.written_to(Kind::Pod), ["create foo-0", "create foo-2", "create foo-4"]);
            identities(&cluster);
        },
    );
}

/// C5 and C6, and with a deletion that fails once C7 and C8.
fn first_pod_ends(phase: &str, deletion_fails: bool) {
    sweep(
        |_| {},
        |mut cluster, _| {
            cluster.sync_well();
            cluster.advance("foo-0");
            let first = cluster.pod("foo-0").uid.clone();
            cluster.set_phase("foo-0", phase);
            if deletion_fails {
                cluster.fail(Op::Delete, Kind::Pod, 0, internal_error());
                let pass = cluster.sync();
                assert!(pass.failed() && pass.errors[0].contains("API server failed"), "{:?}", pass.errors);
                assert_eq!(cluster.pod("foo-0").uid, first);
            }
            cluster.sync_well();
            assert_eq!(cluster.find_pod("foo-0"), None, "a pod that has ended goes at once");
            let deletions = 1 + usize::from(deletion_fails);
            assert_eq!(cluster.requested(Op::Delete, Kind::Pod), deletions);
            cluster.sync_well();
            assert_ne!(cluster.pod("foo-0").uid, first);
            let created = if cluster.is_ordered() { 2 } else { 4 };
            assert_eq!(cluster.requested(Op::Create, Kind::Pod), created);
            assert_eq!(cluster.requested(Op::Delete, Kind::Pod), deletions);
        },
    );
}

#[test]
fn c_c5_a_failed_pod_is_replaced() {
    first_pod_ends("Failed", false);
}

#[test]
fn c_c6_a_succeeded_pod_is_replaced() {
    first_pod_ends("Succeeded", false);
}

#[test]
fn c_c7_a_failed_pod_whose_deletion_fails_is_replaced_in_the_next_pass() {
    first_pod_ends("Failed", true);
}

#[test]
fn c_c8_a_succeeded_pod_whose_deletion_fails_is_replaced_in_the_next_pass() {
    first_pod_ends("Succeeded", true);
}

#[test]
fn c_c9_a_failed_creation_is_an_error_and_then_made_up_for() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            cluster.fail(Op::Create, Kind::Pod, 1, internal_error());
            let pass = cluster.drive(&mut chance, growing);
            assert!(pass.failed());
            assert!(cluster.told().contains(&"FailedCreate"));
            // What was created beside the failed one may be Ready before it.
            let pass = cluster.drive(&mut chance, |_| {});
            assert!(!pass.failed());
            assert_eq!(cluster.counted(), [3, 3, 3]);
            identities(&cluster);
        },
    );
}

/// A pod's name cannot be altered on a server, so it is the label that repeats it which was.
#[test]
fn c_c10_a_failed_repair_is_an_error() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.forget();
            let label =
                |pod: &mut serde_json::Value| pod["metadata"]["labels"][keys::POD_NAME] = json!("goo-0");
            cluster.server.change(Kind::Pod, "foo-0", label);
            cluster.fail(Op::Patch, Kind::Pod, 0, internal_error());
            let pass = cluster.sync();
            assert!(pass.failed());
            assert_eq!(cluster.told(), ["FailedUpdate"]);
            assert!(!cluster.pod("foo-0").named);
            cluster.sync_well();
            assert!(cluster.pod("foo-0").named);
        },
    );
}

#[test]
fn c_c11_a_failed_status_write_is_an_error_and_then_made_up_for() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            cluster.fail(Op::Status, Kind::StatefulSet, 1, internal_error());
            let pass = cluster.drive(&mut chance, growing);
            assert!(pass.failed());
            grow(&mut cluster, &mut chance);
            assert_eq!(cluster.counted(), [3, 3, 3]);
        },
    );
}

#[test]
fn c_c12_a_failed_deletion_of_an_update_leaves_the_counts() {
    sweep(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.image("two");
            cluster.fail(Op::Delete, Kind::Pod, 0, internal_error());
            let pass = cluster.sync();
            assert!(pass.failed());
            assert_eq!(cluster.counts().current, 3);
            assert_ne!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
            cluster.sync_well();
            assert_eq!(cluster.terminating(), ["foo-2"]);
            // The status describes the world before acting, so the deletion shows in the next one.
            cluster.sync_well();
            assert_eq!(cluster.counts().current, 2);
        },
    );
}

#[test]
fn c_c13_a_claim_of_a_pending_pod_is_made_again() {
    sweep(
        |_| {},
        |mut cluster, _| {
            cluster.sync_well();
            cluster.advance("foo-0");
            let first = cluster.claim("datadir-foo-0").uid.clone();
            cluster.server.remove(Kind::Claim, "datadir-foo-0");
            cluster.sync_well();
            assert_ne!(cluster.claim("datadir-foo-0").uid, first);
            cluster.rest();
            assert_eq!(cluster.counted(), [3, 3, 3]);
            identities(&cluster);
        },
    );
}

#[test]
fn c_c14_ordinals_start_where_the_spec_says() {
    let mut cluster = given(|spec| spec["ordinals"] = json!({ "start": 2 }));
    cluster.drive(&mut super::cluster::Chance(14), growing);
    assert_eq!(cluster.names(), ["foo-2", "foo-3", "foo-4"]);
    assert_eq!(cluster.counted(), [3, 3, 3]);
    identities(&cluster);
}

#[test]
fn c_c15_a_failed_deletion_of_a_scale_down_is_an_error_and_then_made_up_for() {
    both(
        |_| {},
        |mut cluster, mut chance| {
            grow(&mut cluster, &mut chance);
            cluster.scale(0);
            cluster.fail(Op::Delete, Kind::Pod, 1, internal_error());
            let pass = cluster.drive(&mut chance, growing);
            assert!(pass.failed());
            grow(&mut cluster, &mut chance);
            assert_eq!(cluster.counts(), Default::default());
        },
    );
}

/// I8, E30 to E33: pods below the first ordinal are condemned like those above the last.
#[test]
fn a_moved_start_condemns_pods_on_both_sides() {
    let mut cluster = complete(|spec| spec["replicas"] = json!(4));
    cluster.edit(|spec| {
        spec["ordinals"] = json!({ "start": 2 });
        spec["replicas"] = json!(1);
    });
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-3", "delete foo-1", "delete foo-0"]);
    cluster.edit(|spec| spec["ordinals"] = json!(null));
    cluster.rest();
    assert_eq!(cluster.names(), ["foo-0"]);
    assert_eq!(cluster.counted(), [1, 1, 1]);
}
