use serde_json::Value;

use super::*;

fn claim(phase: &str, volume: Option<&str>) -> Event<Claim> {
    let claim = json!({
        "metadata": { "uid": "c1", "resourceVersion": "5", "namespace": "db", "name": "data-web-0" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": "1Gi" } }, "volumeName": volume,
        },
        "status": { "phase": phase },
    });
    Event::Seen(serde_json::from_value(claim).unwrap())
}

fn volume(phase: &str, policy: &str, provisioner: &str) -> Event<Volume> {
    let volume = json!({
        "metadata": {
            "uid": "v1", "resourceVersion": "6", "name": "pvc-c1", "annotations": { PROVISIONED_BY: provisioner },
        },
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "db", "name": "data-web-0", "uid": "c1" },
        },
        "status": { "phase": phase },
    });
    Event::Seen(serde_json::from_value(volume).unwrap())
}

fn ours(phase: &str, policy: &str) -> Event<Volume> {
    volume(phase, policy, PROVISIONER)
}

fn synced(namespaces: &[&str]) -> Claims {
    let mut claims = Claims::new(namespaces.iter().map(|name| (*name).to_owned()).collect());
    for _ in 0..namespaces.len().max(1) {
        claims.take(Input::Claim(Event::Synced), Moment::ZERO);
    }
    claims.take(Input::Volume(Event::Synced), Moment::ZERO);
    claims
}

fn next(claims: &Claims) -> Next<Write> {
    claims.next(&Key::from("c1".to_owned()), Moment::ZERO)
}

#[test]
fn a_claim_and_its_volume_come_and_go_together() {
    fn gone<R>() -> Event<R> {
        Event::Gone(Key::from("c1".to_owned()))
    }
    for (name, claim, volume, expected) in [
        ("new claim", Some(claim("Pending", None)), None, Next::Write(Write::Provision)),
        ("claim without status", Some(claim("", None)), None, Next::Write(Write::Provision)),
        (
            "volume unbound",
            Some(claim("Pending", None)),
            Some(ours("Pending", "Delete")),
            Next::Write(Write::BindVolume),
        ),
        (
            "claim unbound",
            Some(claim("Pending", None)),
            Some(ours("Bound", "Delete")),
            Next::Write(Write::BindClaim),
        ),
        (
            "claim half bound",
            Some(claim("Pending", Some("pvc-c1"))),
            Some(ours("Bound", "Delete")),
            Next::Write(Write::BindClaim),
        ),
        (
            "claim half bound, volume lost",
            Some(claim("Pending", Some("pvc-c1"))),
            None,
            Next::Write(Write::Provision),
        ),
        ("both bound", Some(claim("Bound", Some("pvc-c1"))), Some(ours("Bound", "Delete")), Next::Rest),
        ("claim wants a volume of its choice", Some(claim("Pending", Some("mine"))), None, Next::Rest),
        (
            "somebody else's volume",
            Some(claim("Pending", None)),
            Some(volume("Available", "Delete", "other")),
            Next::Rest,
        ),
        ("claim gone", None, Some(ours("Bound", "Delete")), Next::Write(Write::Reclaim)),
        ("claim gone, volume kept", None, Some(ours("Bound", "Retain")), Next::Write(Write::Release)),
        ("claim gone, volume released", None, Some(ours("Released", "Retain")), Next::Rest),
        ("claim gone, somebody else's volume", None, Some(volume("Bound", "Delete", "other")), Next::Rest),
        ("both gone", None, None, Next::Forget),
    ] {
        let mut claims = synced(&[]);
        claims.take(Input::Claim(claim.unwrap_or_else(gone)), Moment::ZERO);
        claims.take(Input::Volume(volume.unwrap_or_else(gone)), Moment::ZERO);
        assert_eq!(next(&claims), expected, "{name}");
    }
}

#[test]
fn nothing_is_made_or_removed_before_everything_is_known() {
    let mut claims = Claims::new(["db".to_owned(), "web".to_owned()].into());
    claims.take(Input::Volume(ours("Bound", "Delete")), Moment::ZERO);
    claims.take(Input::Claim(Event::Synced), Moment::ZERO);
    assert_eq!(next(&claims), Next::Rest, "the claim may be in the namespace that is still to come");
    assert_eq!(claims.take(Input::Claim(Event::Synced), Moment::ZERO).len(), 1);
    assert_eq!(next(&claims), Next::Write(Write::Reclaim));

    let mut claims = Claims::new(BTreeSet::new());
    claims.take(Input::Claim(claim("Pending", None)), Moment::ZERO);
    claims.take(Input::Claim(Event::Synced), Moment::ZERO);
    assert_eq!(next(&claims), Next::Rest, "the volume may be there already");
    claims.take(Input::Volume(Event::Synced), Moment::ZERO);
    assert_eq!(next(&claims), Next::Write(Write::Provision));
}

#[test]
fn volumes_of_namespaces_that_are_not_followed_stay() {
    let mut claims = synced(&["web"]);
    claims.take(Input::Volume(ours("Bound", "Delete")), Moment::ZERO);
    assert_eq!(next(&claims), Next::Rest);
}

#[test]
fn calls_say_what_a_provisioner_and_the_binder_would() {
    let mut claims = synced(&[]);
    claims.take(Input::Claim(claim("Pending", None)), Moment::ZERO);
    claims.take(Input::Volume(ours("Bound", "Delete")), Moment::ZERO);
    let mut calls = |write: Write| -> Vec<(String, String, Value)> {
        let calls = claims.perform(&Key::from("c1".to_owned()), &write, Moment::ZERO);
        calls.into_iter().map(|call| (call.method.to_string(), call.path, call.body)).collect()
    };
    let provision = calls(Write::Provision);
    assert_eq!(provision[0].1, "/api/v1/persistentvolumes");
    let spec = &provision[0].2["spec"];
    assert_eq!(provision[0].2["metadata"]["name"], "pvc-c1");
    assert_eq!(spec["capacity"], json!({ "storage": "1Gi" }));
    assert_eq!(spec["storageClassName"], "fast");
    assert_eq!((&spec["claimRef"]["uid"], &spec["claimRef"]["name"]), (&json!("c1"), &json!("data-web-0")));
    let bound = (
        "PATCH".to_owned(),
        "/api/v1/persistentvolumes/pvc-c1/status".to_owned(),
        json!({ "status": { "phase": "Bound" } }),
    );
    assert_eq!(provision.get(1), Some(&bound));
    assert_eq!(calls(Write::BindVolume), [bound]);

    let bind = calls(Write::BindClaim);
    assert_eq!(bind[0].1, "/api/v1/namespaces/db/persistentvolumeclaims/data-web-0");
    assert_eq!(bind[0].2["spec"], json!({ "volumeName": "pvc-c1" }));
    assert_eq!(bind[1].1, "/api/v1/namespaces/db/persistentvolumeclaims/data-web-0/status");
    let status =
        json!({ "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } });
    assert_eq!(bind[1].2, json!({ "metadata": { "uid": "c1" }, "status": status }));

    let reclaim = calls(Write::Reclaim);
    assert_eq!(reclaim[0].2, json!({ "metadata": { "uid": "v1", "finalizers": null } }));
    assert_eq!((reclaim[1].0.as_str(), &reclaim[1].2["preconditions"]), ("DELETE", &json!({ "uid": "v1" })));
    assert_eq!(calls(Write::Release)[0].2, json!({ "status": { "phase": "Released" } }));
}
