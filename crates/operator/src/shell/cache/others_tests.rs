use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;
use sts_plus_planner::plan::Object;

use crate::shell::cache::{Part, Reading, Store, Touched};
use crate::shell::kinds::{Definition, Kind};

static CONFIG_MAPS: Definition = Definition::built_in("v1", "ConfigMap", "configmaps");
const KIND: Kind = Kind::Other(&CONFIG_MAPS);

fn config_map(name: &str, version: u32, owner: Option<&str>) -> String {
    let owners = owner.map(|uid| json!([{ "kind": "StatefulSet", "uid": uid, "controller": true }]));
    json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        "ownerReferences": owners,
    } })
    .to_string()
}

fn touched(name: &str, owner: Option<&str>) -> Touched {
    Touched::Object { kind: KIND, namespace: "ns".into(), name: name.into(), owner: owner.map(Into::into) }
}

fn names(store: &Store) -> Vec<String> {
    store.all_metadata(KIND).iter().map(|row| row.name.to_string()).collect()
}

#[test]
fn an_object_is_found_by_its_name_and_by_what_controls_it() {
    let store = Store::default();
    assert_eq!(store.upsert(KIND, &config_map("a", 1, Some("s"))).touched, [touched("a", Some("s"))]);
    store.upsert(KIND, &config_map("b", 2, None));
    assert_eq!((names(&store), store.count(KIND)), (vec!["a".into(), "b".into()], 2));
    assert_eq!(store.metadata_owned_by(KIND, "s").len(), 1);
    let object = Object { kind: KIND, namespace: "ns".into(), name: "b".into() };
    assert_eq!(&*store.metadata(&object).unwrap().uid, "uid-b");
    assert_eq!(&*store.seen(&object).unwrap().resource_version, "2");
}

#[test]
fn a_new_owner_and_the_former_one_hear_of_it() {
    let store = Store::default();
    store.upsert(KIND, &config_map("a", 1, Some("s")));
    let moved = store.upsert(KIND, &config_map("a", 2, Some("t")));
    assert_eq!(moved.touched, [touched("a", Some("s")), touched("a", Some("t"))]);
    assert!(store.metadata_owned_by(KIND, "s").is_empty());
    assert_eq!(store.remove(KIND, &config_map("a", 3, Some("t"))).touched, [touched("a", Some("t"))]);
    assert_eq!(store.count(KIND), 0);
}

#[test]
fn what_is_known_or_older_wakes_nobody_and_one_that_cannot_be_read_stays() {
    let store = Store::default();
    store.upsert(KIND, &config_map("a", 5, None));
    assert!(store.upsert(KIND, &config_map("a", 5, None)).touched.is_empty());
    assert!(store.upsert(KIND, &config_map("a", 4, None)).touched.is_empty());
    let unreadable = json!({ "metadata": { "name": "a", "namespace": "ns", "labels": "none" } }).to_string();
    assert!(store.upsert(KIND, &unreadable).undecodable.is_some());
    assert_eq!(names(&store), ["a"]);
}

#[test]
fn one_kind_is_not_taken_for_another() {
    let store = Store::default();
    store.upsert(KIND, &config_map("a", 1, None));
    store.upsert(Kind::Secret, &config_map("a", 2, None));
    for kind in [KIND, Kind::Secret] {
        assert_eq!(store.count(kind), 1);
    }
    assert_eq!((store.count(Kind::Pod), store.count(Kind::Lease)), (0, 0));
    store.sweep(Kind::Secret, None, (&HashSet::new(), "9"));
    assert_eq!((store.count(KIND), store.count(Kind::Secret)), (1, 0));
}

#[test]
fn a_consistent_read_of_the_namespace_runs_ahead_of_the_watch() {
    let store = Store::default();
    store.upsert(KIND, &config_map("a", 1, None));
    store.upsert(KIND, &config_map("b", 2, None));
    let part = Part::Namespace { kind: KIND, namespace: "ns".into() };
    assert_eq!(store.names_in(&part).len(), 2);
    let objects = vec![store.read(KIND, &config_map("b", 7, None))];
    let gone: Vec<Arc<str>> = vec!["a".into()];
    store.confirm(Reading { parts: vec![part], version: "9".to_owned(), objects, gone });
    assert_eq!(names(&store), ["b"]);
    assert!(store.upsert(KIND, &config_map("a", 8, None)).touched.is_empty(), "the watch lags");
    assert_eq!(names(&store), ["b"]);
    store.reach(KIND, None, "9");
    store.upsert(KIND, &config_map("a", 10, None));
    assert_eq!(names(&store), ["a", "b"]);
}
