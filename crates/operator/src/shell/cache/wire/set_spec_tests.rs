use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_planner::amount::Amount;
use sts_plus_planner::revision;
use sts_plus_planner::statefulset::world::{Counts, Keep, Management, Retention, Rolling, SetSpec};

use super::super::{Extent, Interner, set};

fn set_json(spec: &Value) -> Value {
    let mut json = json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "s1", "annotations": { "a": "1", "b": "2" } },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" }, "creationTimestamp": null },
                "spec": { "containers": [{ "name": "c", "resources": {}, "command": ["a<b"] }], "future": 7 }
            }
        }
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        json["spec"][key] = value.clone();
    }
    json
}

fn read(json: &Value, interner: &mut Interner) -> Arc<SetSpec> {
    let read = set(&json.to_string(), Extent::Controlling, interner).expect("decodes").row;
    read.expect("every one has a row").spec.expect("asked for")
}

fn set_spec(spec: &Value) -> Arc<SetSpec> {
    read(&set_json(spec), &mut Interner::default())
}

#[test]
fn what_a_set_does_not_say_has_the_servers_default() {
    let read = set_spec(&json!({}));
    assert_eq!((&*read.service_name, read.management), ("", Management::OrderedReady));
    assert_eq!(read.rolling, Some(Rolling { partition: 0, max_unavailable: None }));
    assert_eq!((read.retention, read.history_limit), (Retention::default(), 10));
    assert_eq!((read.counts, read.collisions), (Counts::default(), None));
    assert!(read.claim_templates.is_empty());
}

#[test]
fn what_a_set_says_is_kept() {
    let mut json = set_json(&json!({
        "serviceName": "headless",
        "podManagementPolicy": "Parallel",
        "revisionHistoryLimit": 3,
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Someday" },
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2, "maxUnavailable": 3 } }
    }));
    json["status"] = json!({
        "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1,
        "collisionCount": 7
    });
    let read = read(&json, &mut Interner::default());
    assert_eq!((&*read.service_name, read.management), ("headless", Management::Parallel));
    let rolling = Rolling { partition: 2, max_unavailable: Some(Amount::Count(3)) };
    assert_eq!((read.rolling, read.history_limit), (Some(rolling), 3));
    let retention = Retention { when_scaled: Keep::Delete, when_deleted: Keep::Retain };
    assert_eq!(read.retention, retention, "a value that this build does not know keeps claims");
    let counts = Counts { replicas: 5, ready: 4, available: 3, current: 2, updated: 1 };
    assert_eq!((read.counts, read.collisions), (counts, Some(7)));
    assert_eq!(read.match_labels.get("app").map(|value| &**value), Some("web"));
    assert_eq!(read.annotations.len(), 2);
}

#[test]
fn the_block_for_rolling_updates_is_filled_in_only_where_the_type_is_absent_too() {
    let rolling = |strategy: Value| set_spec(&json!({ "updateStrategy": strategy })).rolling;
    assert_eq!(rolling(json!({ "type": "RollingUpdate" })), None);
    assert_eq!(rolling(json!({ "type": "OnDelete" })), None);
    assert!(rolling(json!({})).is_some());
    assert!(rolling(json!({ "type": "RollingUpdate", "rollingUpdate": {} })).is_some());
}

#[test]
fn an_amount_is_a_number_or_a_percentage_and_anything_else_is_none() {
    let amount = |amount: Value| {
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": amount } });
        set_spec(&json!({ "updateStrategy": strategy })).rolling.expect("given").max_unavailable
    };
    assert_eq!(amount(json!(2)), Some(Amount::Count(2)));
    assert_eq!(amount(json!("25%")), Some(Amount::Percent(25)));
    for odd in [json!(0), json!(-1), json!(1.5), json!("0%"), json!("many"), json!(true), json!([1])] {
        assert_eq!(amount(odd.clone()), None, "{odd}");
    }
}

#[test]
fn the_template_is_kept_as_revisions_store_it_with_what_this_build_does_not_know() {
    let json = set_json(&json!({}));
    let read = set_spec(&json!({}));
    assert_eq!(&*read.patch, revision::patch(&json["spec"]["template"]));
    let expected = concat!(
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":"#,
        r#"[{"command":["a\u003cb"],"name":"c","resources":{}}],"future":7}}}}"#
    );
    assert_eq!(&*read.patch, expected);
}

#[test]
fn equal_templates_and_claim_templates_are_kept_once() {
    let claims = json!({ "volumeClaimTemplates": [{
        "metadata": { "name": "data", "labels": { "l": "1" }, "annotations": { "n": "2" } },
        "spec": { "accessModes": ["ReadWriteOnce"], "future": { "x": [] } }
    }] });
    let mut interner = Interner::default();
    let (one, two) = (read(&set_json(&claims), &mut interner), read(&set_json(&claims), &mut interner));
    assert!(Arc::ptr_eq(&one.patch, &two.patch));
    assert!(Arc::ptr_eq(&one.claim_templates, &two.claim_templates));
    let [template] = &*one.claim_templates else { panic!("{one:?}") };
    assert_eq!((&*template.name, &*template.labels["l"], &*template.annotations["n"]), ("data", "1", "2"));
    assert_eq!(template.spec, json!({ "accessModes": ["ReadWriteOnce"], "future": { "x": [] } }));
}
