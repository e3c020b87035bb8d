use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use super::{Part, Reading};
use crate::shell::api::Kind;
use crate::shell::cache::{Store, Touched};

fn pod(ordinal: u32, uid: &str, version: u32) -> String {
    json!({
        "metadata": {
            "name": format!("a-{ordinal}"), "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
            "labels": { "app": "a" },
            "ownerReferences": [{ "kind": "StatefulSet", "uid": "uid-a", "controller": true }]
        }
    })
    .to_string()
}

fn set(group: &str, version: u32) -> String {
    json!({
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": version.to_string(),
            "labels": { "rollout-group": group }
        },
        "spec": { "selector": { "matchLabels": { "app": "a" } }, "template": {} }
    })
    .to_string()
}

/// A set with the pods a-0 and a-1, followed up to version 6.
fn given() -> Store {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set("g", 4));
    store.upsert(Kind::Pod, &pod(0, "old-0", 5));
    store.upsert(Kind::Pod, &pod(1, "old-1", 6));
    store.reach(Kind::Pod, None, "6");
    store
}

fn pods_read(store: &Store, version: &str, objects: &[String], gone: &[&str]) -> Reading {
    Reading {
        parts: vec![Part::Pods { namespace: "ns".into(), owner: "uid-a".into() }],
        version: version.to_owned(),
        objects: objects.iter().map(|object| store.read(Kind::Pod, object)).collect(),
        gone: gone.iter().map(|name| Arc::from(*name)).collect(),
    }
}

fn uids(store: &Store) -> Vec<String> {
    let pods = store.member(&"ns".into(), "a").unwrap().pods;
    let mut uids: Vec<_> = pods.iter().map(|pod| pod.uid.to_string()).collect();
    uids.sort();
    uids
}

#[test]
fn a_read_shows_who_is_there_and_who_is_gone_and_wakes_the_set() {
    let store = given();
    let touched = store.confirm(pods_read(&store, "20", &[pod(1, "new-1", 18)], &["a-0"]));
    assert_eq!(uids(&store), ["new-1"]);
    let group = Some("g".into());
    assert!(touched.contains(&Touched::Set { namespace: "ns".into(), set: "a".into(), group }));
}

#[test]
fn events_that_a_read_contains_do_not_undo_it_when_they_come_late() {
    let store = given();
    store.confirm(pods_read(&store, "20", &[pod(1, "new-1", 18)], &["a-0"]));
    store.upsert(Kind::Pod, &pod(0, "old-0", 9));
    store.upsert(Kind::Pod, &pod(2, "never-seen", 12));
    store.remove(Kind::Pod, &pod(1, "old-1", 15));
    store.upsert(Kind::Pod, &pod(1, "new-1", 17));
    assert_eq!(uids(&store), ["new-1"]);
    store.upsert(Kind::Pod, &pod(0, "new-0", 21));
    assert_eq!(uids(&store), ["new-0", "new-1"], "what is newer than the read counts");
    store.remove(Kind::Pod, &pod(1, "new-1", 22));
    assert_eq!(uids(&store), ["new-0"]);
}

#[test]
fn a_read_that_is_older_than_what_the_watch_has_shown_changes_nothing() {
    let store = given();
    store.reach(Kind::Pod, None, "30");
    assert!(store.confirm(pods_read(&store, "20", &[pod(2, "ghost", 12)], &["a-0"])).is_empty());
    assert_eq!(uids(&store), ["old-0", "old-1"]);
}

#[test]
fn once_the_watch_has_come_as_far_as_a_read_nothing_is_kept_of_it() {
    let store = given();
    store.confirm(pods_read(&store, "20", &[], &["a-0", "a-1"]));
    assert_eq!(store.rows().floors.len(), 1);
    store.reach(Kind::Pod, None, "19");
    assert_eq!(store.rows().floors.len(), 1);
    store.reach(Kind::Pod, None, "20");
    assert!(store.rows().floors.is_empty());
}

#[test]
fn a_list_that_began_before_a_read_does_not_remove_what_the_read_has_shown() {
    let store = given();
    store.confirm(pods_read(&store, "20", &[pod(0, "old-0", 5), pod(1, "new-1", 18)], &[]));
    let listed = HashSet::from([(Arc::from("ns"), Arc::from("a-0"))]);
    assert!(store.sweep(Kind::Pod, None, (&listed, "10")).is_empty());
    assert_eq!(uids(&store), ["new-1", "old-0"]);
    store.sweep(Kind::Pod, None, (&listed, "21"));
    assert_eq!(uids(&store), ["old-0"], "a later list knows better");
}

#[test]
fn a_set_that_has_left_the_group_does_not_come_back_with_a_late_event() {
    let store = given();
    let parts = vec![Part::Group { namespace: "ns".into(), group: "g".into() }];
    let moved = set("h", 15);
    store.confirm(Reading {
        parts,
        version: "20".to_owned(),
        objects: vec![store.read(Kind::StatefulSet, &moved)],
        gone: Vec::new(),
    });
    store.upsert(Kind::StatefulSet, &set("g", 14));
    let groups: Vec<_> = store.groups().into_iter().map(|(_, group)| group.to_string()).collect();
    assert_eq!(groups, ["h"]);
}

#[test]
fn the_late_deletion_of_a_former_sets_pod_does_not_remove_its_successor() {
    let store = given();
    store.confirm(pods_read(&store, "20", &[pod(0, "new-0", 12), pod(1, "new-1", 13)], &[]));
    let former = pod(0, "old-0", 9).replace("uid-a", "uid-former");
    store.remove(Kind::Pod, &former);
    assert_eq!(uids(&store), ["new-0", "new-1"]);
    let later = pod(0, "new-0", 21);
    store.remove(Kind::Pod, &later);
    assert_eq!(uids(&store), ["new-1"]);
}
