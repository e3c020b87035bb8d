//! Which sets are looked at when something changes. The ids are those of upstream's own tests of its wake-ups.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_planner::plan::{Kind, Object};
use sts_plus_planner::statefulset::world::{Features, Memory, World};

use super::super::store::{Store, Touched};

fn set_json(name: &str, app: &str, version: u32) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": version.to_string()
        },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "template": { "metadata": { "labels": { "app": app } } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }]
        }
    })
}

fn pod_json(name: &str, owner: Option<&str>, app: &str, version: u32) -> Value {
    let owners =
        owner.map(|set| json!([{ "kind": "StatefulSet", "uid": format!("uid-{set}"), "controller": true }]));
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": { "app": app }, "ownerReferences": owners
        }
    })
}

fn claim_json(name: &str, version: u32) -> Value {
    json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string()
    } })
}

fn revision_json(name: &str, owner: Option<&str>, app: &str, version: u32) -> Value {
    let mut json = pod_json(name, owner, app, version);
    json["data"] = json!({});
    json["revision"] = json!(1);
    json
}

/// Two sets, `web` and `db`, that select their own pods.
fn store() -> Store {
    let store = Store::controlling();
    for name in ["web", "db"] {
        store.upsert(Kind::StatefulSet, &set_json(name, name, 1).to_string());
    }
    store
}

/// The names of the sets that a change wakes, each once, in order.
fn woken(touched: Vec<Touched>) -> Vec<String> {
    let mut names: Vec<_> = touched
        .into_iter()
        .map(|touched| match touched {
            Touched::Set { set, .. }
            | Touched::Respecified { set, .. }
            | Touched::Surroundings { set, .. } => set.to_string(),
            Touched::Rollout { .. }
            | Touched::Scaling { .. }
            | Touched::Extended { .. }
            | Touched::Object { .. }
            | Touched::Confirmed => {
                panic!("there are none")
            }
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn upsert(store: &Store, resource: Kind, json: &Value) -> Vec<String> {
    woken(store.upsert(resource, &json.to_string()).touched)
}

fn remove(store: &Store, resource: Kind, json: &Value) -> Vec<String> {
    woken(store.remove(resource, &json.to_string()).touched)
}

fn world(store: &Store, name: &str) -> World {
    store.world_of_set(&"ns".into(), &name.into(), Memory::default(), Features::default()).expect("a set")
}

const NOBODY: [&str; 0] = [];

/// S7: a pod that is added wakes the set that controls it.
#[test]
fn c_s7_a_new_pod_wakes_its_owner() {
    assert_eq!(upsert(&store(), Kind::Pod, &pod_json("web-0", Some("web"), "web", 2)), ["web"]);
}

/// S8: a pod without an owner wakes every set whose selector matches it, and no other.
#[test]
fn c_s8_a_new_orphan_wakes_the_sets_that_match_it() {
    let store = store();
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", None, "web", 2)), ["web"]);
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("x-0", None, "x", 3)), NOBODY);
    let mut elsewhere = pod_json("web-1", None, "web", 4);
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(upsert(&store, Kind::Pod, &elsewhere), NOBODY);
    let mut going = pod_json("web-2", None, "web", 5);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    assert_eq!(upsert(&store, Kind::Pod, &going), NOBODY, "it comes on its way out");
}

/// S9: a pod of a set that is not known wakes nobody.
#[test]
fn c_s9_a_new_pod_of_an_unknown_set_wakes_nobody() {
    assert_eq!(upsert(&store(), Kind::Pod, &pod_json("web-0", Some("former-web"), "web", 2)), NOBODY);
}

/// S10: a pod that changes wakes the set that controls it.
#[test]
fn c_s10_a_changed_pod_wakes_its_owner() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("web-0", Some("web"), "web", 2));
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", Some("web"), "web", 3)), ["web"]);
}

/// S11: a changed pod of a set that is not known wakes nobody.
#[test]
fn c_s11_a_changed_pod_of_an_unknown_set_wakes_nobody() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("web-0", Some("former-web"), "web", 2));
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", Some("former-web"), "web", 3)), NOBODY);
}

/// S12: a pod that is listed again at the same version wakes nobody.
#[test]
fn c_s12_a_pod_of_the_same_version_wakes_nobody() {
    let store = store();
    for pod in [pod_json("web-0", Some("web"), "web", 2), pod_json("web-1", None, "web", 3)] {
        upsert(&store, Kind::Pod, &pod);
        assert_eq!(upsert(&store, Kind::Pod, &pod), NOBODY);
    }
}

/// S13: an orphan whose labels change wakes the sets that match it now; any other change of it wakes nobody.
#[test]
fn c_s13_an_orphan_with_new_labels_wakes_the_sets_that_match_it() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("web-0", None, "x", 2));
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", None, "web", 3)), ["web"]);
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", None, "web", 4)), NOBODY);
}

/// S14: a pod that changes hands wakes both sets.
#[test]
fn c_s14_a_pod_with_another_owner_wakes_the_old_one_and_the_new_one() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("web-0", Some("web"), "web", 2));
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", Some("db"), "web", 3)), ["db", "web"]);
    assert_eq!((world(&store, "web").pods.len(), world(&store, "db").pods.len()), (0, 1));
}

/// S15: a pod that loses its owner wakes that one and every set that may adopt it.
#[test]
fn c_s15_a_pod_without_its_owner_wakes_the_old_one_and_the_sets_that_match_it() {
    let store = store();
    store.upsert(Kind::StatefulSet, &set_json("twin", "web", 1).to_string());
    upsert(&store, Kind::Pod, &pod_json("db-0", Some("db"), "web", 2));
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("db-0", None, "web", 3)), ["db", "twin", "web"]);
    assert_eq!((world(&store, "db").pods.len(), world(&store, "web").orphans.len()), (0, 1));
}

/// S16: a pod that goes wakes the set that controlled it.
#[test]
fn c_s16_a_deleted_pod_wakes_its_owner() {
    let store = store();
    let pod = pod_json("web-0", Some("web"), "web", 2);
    upsert(&store, Kind::Pod, &pod);
    assert_eq!(remove(&store, Kind::Pod, &pod), ["web"]);
}

/// S17: an orphan that goes wakes nobody.
#[test]
fn c_s17_a_deleted_orphan_wakes_nobody() {
    let store = store();
    let pod = pod_json("web-0", None, "web", 2);
    upsert(&store, Kind::Pod, &pod);
    assert_eq!(remove(&store, Kind::Pod, &pod), NOBODY);
    assert!(world(&store, "web").orphans.is_empty());
}

/// S18: a pod whose deletion was missed, and which the next list does not contain, wakes its owner.
#[test]
fn c_s18_a_pod_that_a_list_does_not_contain_wakes_its_owner() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("web-0", Some("web"), "web", 2));
    upsert(&store, Kind::Pod, &pod_json("web-1", None, "web", 3));
    assert_eq!(woken(store.sweep(Kind::Pod, None, (&HashSet::new(), "99"))), ["web"]);
    assert_eq!((world(&store, "web").pods.len(), world(&store, "web").orphans.len()), (0, 0));
}

/// S19: a pod that two sets match wakes both.
#[test]
fn c_s19_an_orphan_that_two_sets_match_wakes_both() {
    let store = store();
    store.upsert(Kind::StatefulSet, &set_json("twin", "web", 1).to_string());
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", None, "web", 2)), ["twin", "web"]);
}

#[test]
fn a_claim_wakes_the_sets_that_may_call_it_theirs_by_name() {
    let store = store();
    assert_eq!(upsert(&store, Kind::Claim, &claim_json("data-web-0", 2)), ["web"]);
    assert_eq!(upsert(&store, Kind::Claim, &claim_json("logs-web-0", 3)), NOBODY, "no such template");
    assert_eq!(upsert(&store, Kind::Claim, &claim_json("data-web", 4)), NOBODY, "no ordinal");
    assert_eq!(store.count(Kind::Claim), 2);
    let of_web: Vec<_> = world(&store, "web").claims.iter().map(BTreeMap::len).collect();
    assert_eq!(of_web, [1]);
    assert_eq!(remove(&store, Kind::Claim, &claim_json("data-web-0", 5)), ["web"]);
    assert_eq!(store.count(Kind::Claim), 1);
}

#[test]
fn a_name_that_two_sets_may_give_wakes_both() {
    let store = store();
    let mut other = set_json("b-web", "b", 1);
    other["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = json!("a");
    store.upsert(Kind::StatefulSet, &other.to_string());
    let mut web = set_json("web", "web", 2);
    web["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = json!("a-b");
    store.upsert(Kind::StatefulSet, &web.to_string());
    assert_eq!(upsert(&store, Kind::Claim, &claim_json("a-b-web-0", 3)), ["b-web", "web"]);
}

#[test]
fn a_claim_wakes_nobody_by_its_phase_and_somebody_by_its_owners_and_its_end() {
    let store = store();
    upsert(&store, Kind::Pod, &pod_json("db-0", Some("db"), "db", 2));
    let mut claim = claim_json("data-web-0", 3);
    upsert(&store, Kind::Claim, &claim);
    let mut change = |key: &str, value: Value, version: u32| {
        claim["metadata"][key] = value;
        claim["metadata"]["resourceVersion"] = json!(version.to_string());
        claim["status"] = json!({ "phase": version.to_string() });
        upsert(&store, Kind::Claim, &claim)
    };
    assert_eq!(change("labels", json!({ "l": "1" }), 4), NOBODY);
    let pod = json!([{ "kind": "Pod", "name": "db-0", "uid": "uid-db-0" }]);
    assert_eq!(change("ownerReferences", pod, 5), ["db", "web"], "the pod's set is concerned, too");
    let former = json!([{ "kind": "StatefulSet", "name": "db", "uid": "uid-former-db" }]);
    assert_eq!(change("ownerReferences", former, 6), ["db", "web"], "db's pod is no owner any more");
    assert_eq!(
        change("deletionTimestamp", json!("2026-01-02T03:04:05Z"), 7),
        ["web"],
        "a former db is not db"
    );
    assert_eq!(woken(store.sweep(Kind::Claim, None, (&HashSet::new(), "99"))), ["web"]);
}

#[test]
fn a_revision_wakes_its_owner_or_the_sets_that_may_adopt_it() {
    let store = store();
    let names = |set: &str| {
        let mut names: Vec<_> = world(&store, set).revisions.iter().map(|row| row.name.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(upsert(&store, Kind::Revision, &revision_json("web-1", Some("web"), "web", 2)), ["web"]);
    assert_eq!(upsert(&store, Kind::Revision, &revision_json("web-1", Some("web"), "web", 2)), NOBODY);
    assert_eq!(upsert(&store, Kind::Revision, &revision_json("x-1", None, "web", 3)), ["web"]);
    assert_eq!(names("web"), ["web-1", "x-1"]);
    assert_eq!(upsert(&store, Kind::Revision, &revision_json("x-1", Some("db"), "web", 4)), ["db", "web"]);
    assert_eq!((names("web"), names("db")), (vec!["web-1".to_owned()], vec!["x-1".to_owned()]));
    assert_eq!(remove(&store, Kind::Revision, &revision_json("web-1", Some("web"), "web", 5)), ["web"]);
    assert!(names("web").is_empty());
}

/// Deleted in the foreground, it would fight with the garbage collector over its revisions until its pods have gone.
#[test]
fn a_revision_does_not_wake_an_owner_that_is_on_its_way_out() {
    let store = store();
    let revision = revision_json("web-1", Some("web"), "web", 2);
    upsert(&store, Kind::Revision, &revision);
    let mut going = set_json("web", "web", 3);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    assert_eq!(upsert(&store, Kind::StatefulSet, &going), ["web"]);
    assert_eq!(remove(&store, Kind::Revision, &revision), NOBODY);
    assert_eq!(upsert(&store, Kind::Revision, &revision_json("web-1", Some("web"), "web", 4)), NOBODY);
}

#[test]
fn the_end_of_a_former_sets_revision_wakes_the_set_of_the_same_name() {
    let store = store();
    let revision = revision_json("web-1", Some("former-web"), "web", 2);
    upsert(&store, Kind::Revision, &revision);
    assert!(world(&store, "web").revisions.is_empty(), "it is another set's");
    assert_eq!(remove(&store, Kind::Revision, &revision), ["web"]);
}

#[test]
fn an_owner_in_another_namespace_is_none() {
    let store = store();
    let mut pod = pod_json("web-0", Some("web"), "web", 2);
    pod["metadata"]["namespace"] = json!("other");
    assert_eq!(upsert(&store, Kind::Pod, &pod), NOBODY);
    let mut revision = revision_json("web-1", Some("web"), "web", 3);
    revision["metadata"]["namespace"] = json!("other");
    assert_eq!(upsert(&store, Kind::Revision, &revision), NOBODY);
    let world = world(&store, "web");
    assert_eq!((world.pods.len(), world.revisions.len()), (0, 0));
}

#[test]
fn only_a_new_spec_makes_a_set_respecified() {
    let store = store();
    let respecified = |json: &Value| {
        let touched = store.upsert(Kind::StatefulSet, &json.to_string()).touched;
        touched.contains(&Touched::Respecified { namespace: "ns".into(), set: "web".into() })
    };
    let mut web = set_json("web", "web", 2);
    web["status"] = json!({ "replicas": 1 });
    assert!(!respecified(&web));
    web["metadata"]["resourceVersion"] = json!("3");
    web["metadata"]["generation"] = json!(2);
    assert!(respecified(&web));
    web["metadata"]["resourceVersion"] = json!("4");
    web["metadata"]["uid"] = json!("uid-new-web");
    assert!(respecified(&web));
}

#[test]
fn a_set_that_cannot_be_read_is_not_controlled() {
    let store = store();
    let mut web = set_json("web", "web", 2);
    web["spec"]["replicas"] = json!("many");
    store.upsert(Kind::StatefulSet, &web.to_string());
    assert_eq!(store.controlled(), [("ns".into(), "db".into())]);
    let world = store.world_of_set(&"ns".into(), &"web".into(), Memory::default(), Features::default());
    assert!(world.is_none());
}

#[test]
fn without_the_controller_no_orphan_is_kept() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("web", "web", 1).to_string());
    assert_eq!(upsert(&store, Kind::Pod, &pod_json("web-0", None, "web", 2)), NOBODY);
    assert_eq!(store.count(Kind::Pod), 0);
    assert!(store.controlled().is_empty());
}

#[test]
fn claims_and_revisions_are_seen_by_name() {
    let store = store();
    upsert(&store, Kind::Claim, &claim_json("data-web-0", 2));
    upsert(&store, Kind::Revision, &revision_json("web-1", Some("web"), "web", 3));
    let seen = |kind, name: &str| {
        let seen = store.seen(&Object { kind, namespace: Arc::from("ns"), name: name.into() });
        seen.map(|seen| (seen.uid.to_string(), seen.resource_version.to_string()))
    };
    assert_eq!(seen(Kind::Claim, "data-web-0"), Some(("uid-data-web-0".into(), "2".into())));
    assert_eq!(seen(Kind::Claim, "data-web-1"), None);
    assert_eq!(seen(Kind::Revision, "web-1"), Some(("uid-web-1".into(), "3".into())));
}

#[test]
fn how_far_a_resource_was_followed_is_known_by_namespace_or_for_all() {
    let store = store();
    let reached = |kind, namespace: &str| {
        store.reached(&Object { kind, namespace: Arc::from(namespace), name: "any".into() })
    };
    assert_eq!(reached(Kind::Pod, "ns"), None);
    store.reach(Kind::Pod, Some("ns"), "7");
    store.reach(Kind::Claim, None, "9");
    store.reach(Kind::Claim, None, "odd");
    assert_eq!((reached(Kind::Pod, "ns"), reached(Kind::Pod, "other")), (Some(7), None));
    assert_eq!((reached(Kind::Claim, "ns"), reached(Kind::Claim, "other")), (Some(9), Some(9)));
}
