use serde_json::json;

use super::{ANNOTATION_CHARACTERS, metadata};
use crate::shell::cache::intern::Interner;
use crate::shell::kinds::{Definition, Kind};

static CONFIG_MAPS: Definition = Definition::built_in("v1", "ConfigMap", "configmaps");

#[test]
fn metadata_is_kept_and_nothing_else() {
    let json = json!({
        "kind": "PartialObjectMetadata",
        "metadata": {
            "name": "settings", "namespace": "ns", "uid": "u1", "resourceVersion": "7",
            "labels": { "app": "web" }, "annotations": { "a": "b" }, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "kind": "Pod", "uid": "p" }, { "kind": "StatefulSet", "uid": "s", "controller": true }],
        },
        "data": { "large": "document" }
    });
    let kind = Kind::Other(&CONFIG_MAPS);
    let row = metadata(kind, &json.to_string(), &mut Interner::default()).unwrap().row.unwrap();
    assert_eq!((row.kind, &*row.namespace, &*row.name, &*row.uid), (kind, "ns", "settings", "u1"));
    assert_eq!((&*row.resource_version, row.terminating, row.owner.as_deref()), ("7", true, Some("s")));
    assert_eq!((&*row.labels["app"], &*row.annotations["a"]), ("web", "b"));
}

#[test]
fn a_document_in_an_annotation_is_cut() {
    let document = "x".repeat(256 * 1024);
    let json = json!({ "metadata": { "name": "n", "annotations": { "document": document } } });
    let read = metadata(Kind::Secret, &json.to_string(), &mut Interner::default()).unwrap();
    let kept = read.row.unwrap().annotations["document"].chars().count();
    assert_eq!(kept, ANNOTATION_CHARACTERS + 1, "and a mark that it was cut");
}

#[test]
fn an_object_without_metadata_cannot_be_read() {
    assert!(metadata(Kind::Secret, "{}", &mut Interner::default()).is_err());
}
