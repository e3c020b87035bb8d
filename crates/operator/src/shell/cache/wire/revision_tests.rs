use serde_json::{Value, json};

use super::super::Interner;
use super::{ReadRevision, revision, revision_row};

fn revision_json(owners: &Value) -> Value {
    json!({
        "metadata": {
            "name": "web-1", "namespace": "ns", "uid": "r1", "resourceVersion": "5",
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": { "app": "web" }, "ownerReferences": owners
        },
        "data": "DATA",
        "revision": 4
    })
}

fn read(json: &str) -> Option<ReadRevision> {
    revision(json, &mut Interner::default()).expect("decodes").row
}

fn owner(kind: &str) -> Value {
    json!([{ "apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "s1", "controller": true }])
}

#[test]
fn a_revision_becomes_a_row_with_its_data_as_the_server_gave_it() {
    let data = r#"{"spec":{"b":"\u003c","a":1.50}}"#;
    let json = revision_json(&owner("StatefulSet")).to_string().replace("\"DATA\"", data);
    let ReadRevision { row, labels, .. } = read(&json).expect("a set's");
    assert_eq!((&*row.name, &*row.uid, &*row.resource_version, row.number), ("web-1", "r1", "5", 4));
    assert_eq!(
        (row.owner.as_deref(), row.created.to_string().as_str()),
        (Some("s1"), "2026-01-02T03:04:05Z")
    );
    assert_eq!(&*row.data, data, "neither order nor escapes nor numbers are changed");
    assert!(labels.is_none(), "whose it is has been decided");
}

#[test]
fn one_that_nothing_controls_keeps_the_labels_that_decide_whose_it_may_become() {
    let ReadRevision { row, labels, .. } = read(&revision_json(&json!(null)).to_string()).expect("nobody's");
    assert_eq!(row.owner, None);
    assert_eq!(&*labels.expect("needed")["app"], "web");
}

#[test]
fn one_of_another_kind_gets_a_row_only_when_it_is_asked_for_by_name() {
    let json = revision_json(&owner("DaemonSet")).to_string();
    assert!(read(&json).is_none());
    let row = revision_row(&json, &mut Interner::default()).expect("reads");
    assert_eq!(row.owner.as_deref(), Some("s1"));
}

#[test]
fn odd_data_is_for_the_planner_to_judge() {
    let mut json = revision_json(&owner("StatefulSet"));
    for (odd, text) in [(json!("x"), "\"x\""), (json!(7), "7"), (json!(null), "")] {
        json["data"] = odd;
        assert_eq!(&*read(&json.to_string()).expect("a row all the same").row.data, text);
    }
    json.as_object_mut().expect("an object").remove("data");
    assert_eq!(&*read(&json.to_string()).expect("a row all the same").row.data, "");
}
