//! What becomes of one pod and its claims, and what is told of it: P1 to P19.

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::cluster::{Cluster, FOO, given, owner_reference};
use super::drive::{complete, set_policy};
use super::operate::{How, Op, internal_error};
use super::server::Refusal;
use crate::plan::Kind;
use crate::reason::Severity;

const GOOD: Severity = Severity::Normal;
const BAD: Severity = Severity::Warning;

/// How the events are, which are forgotten by that.
fn severities(cluster: &mut Cluster) -> Vec<Severity> {
    std::mem::take(&mut cluster.events).iter().map(|event| event.severity).collect()
}

fn messages(cluster: &Cluster) -> Vec<&str> {
    cluster.events.iter().map(|event| event.message.as_str()).collect()
}

fn one(change: impl FnOnce(&mut Value)) -> Cluster {
    given(|spec| {
        spec["replicas"] = json!(1);
        change(spec);
    })
}

/// One pod that is well.
fn healthy(change: impl FnOnce(&mut Value)) -> Cluster {
    complete(|spec| {
        spec["replicas"] = json!(1);
        change(spec);
    })
}

#[test]
fn c_p1_a_pod_and_its_claim_are_created() {
    let mut cluster = one(|_| {});
    cluster.sync_well();
    let expected = [
        "Create Claim datadir-foo-0 Pod foo-0 in StatefulSet foo success",
        "Create Pod foo-0 in StatefulSet foo successful",
    ];
    assert_eq!(messages(&cluster), expected);
    assert_eq!(severities(&mut cluster), [GOOD, GOOD]);
    let claim = cluster.object(Kind::Claim, "datadir-foo-0");
    assert_eq!(claim["metadata"]["labels"], json!({ "app": "foo" }));
    assert_eq!(claim["spec"], json!({ "accessModes": ["ReadWriteOnce"] }));
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null, "owners come with the policy, later");
    let pod = cluster.object(Kind::Pod, "foo-0");
    let metadata = &pod["metadata"];
    assert_eq!(metadata["generateName"], "foo-");
    assert_eq!(metadata["annotations"], json!({ "note": "kept" }));
    let revision = &cluster.status()["updateRevision"];
    let labels = json!({
        "app": "foo", "tier": "db", keys::POD_NAME: "foo-0", keys::POD_INDEX: "0",
        keys::CONTROLLER_REVISION: revision,
    });
    assert_eq!(metadata["labels"], labels);
    let volumes = json!([
        { "name": "datadir", "persistentVolumeClaim": { "claimName": "datadir-foo-0" } },
        { "name": "home", "hostPath": { "path": "/tmp/home" } },
    ]);
    assert_eq!(pod["spec"]["volumes"], volumes);
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("foo-0"), &json!("governing")));
}

#[test]
fn c_p2_a_name_that_is_taken_is_an_error_without_an_event() {
    let mut cluster = one(|_| {});
    cluster.add_claim("datadir-foo-0", &[]);
    let foreign = owner_reference("apps/v1", "ReplicaSet", "other", "uid-other");
    cluster.add_pod("foo-0", &json!({}), Some(foreign));
    assert!(cluster.sync().failed());
    assert_eq!(messages(&cluster), [""; 0]);
}

#[test]
fn c_p3_a_claim_that_cannot_be_created_is_told_twice() {
    let mut cluster = one(|_| {});
    cluster.fail(Op::Create, Kind::Claim, 0, internal_error());
    assert!(cluster.sync().failed());
    let expected = [
        "Create Claim datadir-foo-0 for Pod foo-0 in StatefulSet foo failed error: API server failed",
        "Create Pod foo-0 in StatefulSet foo failed error: failed to create PVC datadir-foo-0: API server failed",
    ];
    assert_eq!(messages(&cluster), expected);
    assert_eq!(severities(&mut cluster), [BAD, BAD]);
    assert_eq!(cluster.find_pod("foo-0"), None);
}

/// Upstream retries this with back-off; we are woken when the claim is gone.
#[test]
fn c_p4_a_claim_that_is_being_deleted_keeps_its_pod_waiting() {
    let mut cluster = one(|_| {});
    cluster.add_claim("datadir-foo-0", &[]);
    let deleted = |claim: &mut Value| {
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        claim["metadata"]["deletionTimestamp"] = json!("2025-06-15T15:06:40Z");
    };
    cluster.server.change(Kind::Claim, "datadir-foo-0", deleted);
    cluster.sync();
    let message = "Create Pod foo-0 in StatefulSet foo failed error: pvc datadir-foo-0 is being deleted";
    assert_eq!(messages(&cluster), [message]);
    assert_eq!(severities(&mut cluster), [BAD]);
    assert_eq!(cluster.find_pod("foo-0"), None);
    cluster.server.remove(Kind::Claim, "datadir-foo-0");
    cluster.rest();
    assert_eq!(cluster.counted(), [1, 1, 1]);
}

/// A look into a cache cannot fail. What can go wrong is that the cache does not show a claim yet: the refusal is told of
/// the pod, not of the claim, and the next pass finds it.
#[test]
fn c_p5_a_claim_that_the_cache_does_not_show_stops_its_pod_once() {
    let mut cluster = one(|_| {});
    cluster.server.memory = 10;
    cluster.server.change(Kind::StatefulSet, FOO, |_| {});
    cluster.add_claim("datadir-foo-0", &[]);
    cluster.lag.insert(Kind::Claim, 1);
    assert!(cluster.sync().failed());
    assert_eq!(severities(&mut cluster), [BAD]);
    assert_eq!(cluster.find_pod("foo-0"), None);
    cluster.lag.clear();
    cluster.sync_well();
    assert_eq!(severities(&mut cluster), [GOOD]);
}

#[test]
fn c_p6_a_pod_that_cannot_be_created_is_told_after_its_claim() {
    let mut cluster = one(|_| {});
    cluster.fail(Op::Create, Kind::Pod, 0, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(messages(&cluster)[1], "Create Pod foo-0 in StatefulSet foo failed error: API server failed");
    assert_eq!(severities(&mut cluster), [GOOD, BAD]);
}

#[test]
fn c_p7_a_pod_that_is_as_it_should_be_is_left_alone() {
    let mut cluster = healthy(|_| {});
    cluster.sync_well();
    assert_eq!(cluster.written(), [""; 0]);
    assert_eq!(messages(&cluster), [""; 0]);
}

fn without_its_name(pod: &mut Value) {
    pod["metadata"]["labels"].as_object_mut().unwrap().remove(keys::POD_NAME);
}

/// A name cannot be wrong; the label that repeats it can.
#[test]
fn c_p8_a_wrong_identity_is_repaired() {
    let mut cluster = healthy(|_| {});
    cluster.server.change(Kind::Pod, "foo-0", without_its_name);
    cluster.sync_well();
    assert_eq!(messages(&cluster), ["Update Pod foo-0 in StatefulSet foo successful"]);
    assert_eq!(severities(&mut cluster), [GOOD]);
    let labels = &cluster.object(Kind::Pod, "foo-0")["metadata"]["labels"];
    assert_eq!((&labels[keys::POD_NAME], &labels[keys::POD_INDEX]), (&json!("foo-0"), &json!("0")));
    assert_eq!(labels["tier"], "db", "the other labels stay");
}

#[test]
fn c_p9_a_failed_repair_is_told_and_changes_nothing() {
    let mut cluster = healthy(|_| {});
    cluster.server.change(Kind::Pod, "foo-0", without_its_name);
    let before = cluster.pod("foo-0");
    cluster.fail(Op::Patch, Kind::Pod, 0, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(messages(&cluster), ["Update Pod foo-0 in StatefulSet foo failed error: API server failed"]);
    assert_eq!(severities(&mut cluster), [BAD]);
    assert_eq!(cluster.pod("foo-0"), before);
}

/// A pod whose volume and claim are missing; a server would not let the volume go, and not let it come back.
fn without_storage() -> Cluster {
    let mut cluster = healthy(|_| {});
    cluster.server.change(Kind::Pod, "foo-0", |pod| pod["spec"]["volumes"] = json!([{ "name": "home" }]));
    cluster.server.remove(Kind::Claim, "datadir-foo-0");
    cluster
}

#[test]
fn c_p10_missing_volumes_are_repaired_and_their_claims_created() {
    let mut cluster = without_storage();
    cluster.sync_well();
    assert_eq!(severities(&mut cluster), [GOOD, GOOD]);
    assert_eq!(cluster.written(), ["create Claim datadir-foo-0", "patch Pod foo-0"]);
    let volumes = cluster.object(Kind::Pod, "foo-0")["spec"]["volumes"].as_array().unwrap();
    let names: Vec<_> = volumes.iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"home") && names.contains(&"datadir"));
    cluster.sync_well();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn c_p11_a_claim_that_cannot_be_created_stops_the_repair() {
    let mut cluster = without_storage();
    cluster.fail(Op::Create, Kind::Claim, 0, internal_error());
    assert!(cluster.sync().failed());
    let told = cluster.events.clone();
    assert_eq!(severities(&mut cluster), [BAD, BAD], "{told:?}");
    assert_eq!((told[0].reason, told[1].reason), ("FailedCreate", "FailedUpdate"));
}

/// Upstream tries again within the sync; here the next pass does, and only then is anything told.
#[test]
fn c_p12_a_repair_succeeds_after_a_conflict() {
    let mut cluster = healthy(|_| {});
    cluster.server.change(Kind::Pod, "foo-0", without_its_name);
    cluster.fail(Op::Patch, Kind::Pod, 0, How::Refused(Refusal::Conflict("changed".to_owned())));
    assert!(cluster.sync().failed());
    cluster.sync_well();
    assert_eq!(cluster.told(), ["SuccessfulUpdate"]);
    assert!(cluster.pod("foo-0").named);
}

#[test]
fn c_p13_a_deletion_is_told() {
    let mut cluster = healthy(|_| {});
    cluster.scale(0);
    cluster.sync_well();
    assert_eq!(messages(&cluster), ["Delete Pod foo-0 in StatefulSet foo successful"]);
    let mut cluster = healthy(|_| {});
    cluster.scale(0);
    cluster.fail(Op::Delete, Kind::Pod, 0, How::Refused(Refusal::NotFound("gone".to_owned())));
    cluster.sync_well();
    assert_eq!(cluster.told(), ["SuccessfulDelete"], "what is gone is gone");
    let mut cluster = healthy(|_| {});
    cluster.scale(0);
    cluster.fail(Op::Delete, Kind::Pod, 0, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(messages(&cluster), ["Delete Pod foo-0 in StatefulSet foo failed error: API server failed"]);
    assert_eq!(severities(&mut cluster), [BAD]);
    // Q9: a successor of the same name is not deleted for its predecessor.
    let mut cluster = healthy(|_| {});
    cluster.scale(0);
    let world = cluster.world(FOO).unwrap();
    cluster.vanish("foo-0");
    let owner = cluster.owner(FOO);
    let successor = cluster.add_pod("foo-0", &super::cluster::foo_labels("foo-0"), Some(owner));
    let late = super::super::plan(&world, cluster.server.now).unwrap();
    let work = super::work(&late);
    let deletion = &work.last().unwrap()[0].action;
    assert!(matches!(cluster.server.write(deletion), Err(Refusal::Conflict(_))));
    assert_eq!(*cluster.pod("foo-0").uid, *successor);
}

#[test]
fn c_p14_claims_fit_one_policy_and_not_the_other() {
    let mut cluster = healthy(|_| {});
    cluster.sync_well();
    assert_eq!(cluster.written(), [""; 0]);
    cluster.edit(|spec| set_policy(spec, Some(("Retain", "Delete"))));
    cluster.sync_well();
    assert_eq!(cluster.written(), ["patch Claim datadir-foo-0", "status StatefulSet foo"]);
}

#[test]
fn c_p15_a_bare_claim_gains_the_set_and_a_controlled_one_does_not() {
    for others in [false, true] {
        let mut cluster = healthy(|_| {});
        cluster.edit(|spec| set_policy(spec, Some(("Retain", "Delete"))));
        if others {
            let foreign = owner_reference("v1", "ReplicationController", "other", "uid-other");
            let owned = |claim: &mut Value| claim["metadata"]["ownerReferences"] = json!([foreign]);
            cluster.server.change(Kind::Claim, "datadir-foo-0", owned);
        }
        cluster.sync_well();
        cluster.sync_well();
        let expected = if others { "ReplicationController other" } else { "StatefulSet foo" };
        assert_eq!(cluster.owners("datadir-foo-0"), [expected]);
    }
}

/// Q14: only the claim is written, and what is told is what upstream tells.
#[test]
fn c_p17_the_reference_goes_with_the_policy() {
    let mut cluster = healthy(|spec| set_policy(spec, Some(("Retain", "Delete"))));
    assert_eq!(cluster.owners("datadir-foo-0"), ["StatefulSet foo"]);
    cluster.edit(|spec| set_policy(spec, Some(("Retain", "Retain"))));
    cluster.sync_well();
    assert_eq!(cluster.owners("datadir-foo-0"), [""; 0]);
    assert_eq!(cluster.told(), ["SuccessfulUpdate"]);
    assert_eq!(cluster.requested(Op::Patch, Kind::Pod), 0);
}

#[test]
fn c_p18_the_reference_comes_with_the_policy() {
    let mut cluster = healthy(|_| {});
    cluster.edit(|spec| set_policy(spec, Some(("Retain", "Delete"))));
    cluster.sync_well();
    let expected = cluster.owner(FOO);
    assert_eq!(
        cluster.object(Kind::Claim, "datadir-foo-0")["metadata"]["ownerReferences"],
        json!([expected])
    );
    assert_eq!(cluster.told(), ["SuccessfulUpdate"]);
    assert_eq!(cluster.requested(Op::Patch, Kind::Pod), 0);
}

#[test]
fn c_p19_a_missing_claim_is_tolerated_and_mended_when_it_is_back() {
    let mut cluster = healthy(|_| {});
    cluster.server.remove(Kind::Claim, "datadir-foo-0");
    cluster.edit(|spec| set_policy(spec, Some(("Retain", "Delete"))));
    cluster.sync_well();
    assert_eq!(cluster.written(), ["status StatefulSet foo"]);
    cluster.add_claim("datadir-foo-0", &[]);
    cluster.sync_well();
    assert_eq!(cluster.owners("datadir-foo-0"), ["StatefulSet foo"]);
}

/// Q8 and what is told of a claim that somebody else controls.
#[test]
fn a_claim_of_somebody_else_is_told_where_it_would_be_changed() {
    let mut cluster = one(|spec| set_policy(spec, Some(("Delete", "Delete"))));
    let foreign = owner_reference("apps/v1", "StatefulSet", "other", "uid-other");
    cluster.add_claim("datadir-foo-0", &[foreign]);
    cluster.sync_well();
    cluster.told();
    cluster.sync_well();
    assert_eq!(cluster.told(), ["ConflictingController"], "while the pod is Pending");
    cluster.kubelets();
    cluster.sync_well();
    assert_eq!(cluster.told(), [""; 0], "once it runs, nobody minds");
    assert_eq!(cluster.owners("datadir-foo-0"), ["StatefulSet other"]);
}
