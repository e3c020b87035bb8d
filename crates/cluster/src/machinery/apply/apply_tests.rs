use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::machinery::arbitrary;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn manager(name: &str, operation: Operation) -> Manager {
    Manager {
        name: name.to_owned(),
        operation,
        api_version: "v1".to_owned(),
        subresource: None,
        resets: &["status"],
    }
}

fn applied(live: Option<&Value>, name: &str, object: &Value, schema: &Schema, second: i64) -> Value {
    apply(live, object, &manager(name, Operation::Apply), true, schema, at(second)).unwrap()
}

fn names(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect()
}

fn config_map(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "uid": "1" }, "data": data })
}

#[test]
fn times_are_whole_seconds_and_move_only_with_the_object() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let object = config_map(&json!({ "a": "1" }));
    let now = Timestamp::new(5, 999).unwrap();
    let first = apply(None, &object, &manager("a", Operation::Apply), false, &schema, now).unwrap();
    assert_eq!(first["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:05Z");
    assert_eq!(applied(Some(&first), "a", &object, &schema, 9), first);
    let second = applied(Some(&first), "a", &config_map(&json!({ "a": "2" })), &schema, 9);
    assert_eq!(second["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:09Z");
}

#[test]
fn conflicts_are_listed_by_manager() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let live = applied(None, "a", &config_map(&json!({ "a": "1", "b": "1" })), &schema, 1);
    let live = applied(Some(&live), "b", &config_map(&json!({ "c": "1" })), &schema, 2);
    let all = config_map(&json!({ "a": "2", "b": "2", "c": "2" }));
    let refused =
        apply(Some(&live), &all, &manager("z", Operation::Apply), false, &schema, at(3)).unwrap_err();
    let message = "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.a\n- .data.b\nconflicts with \"b\":\n- .data.c";
    assert_eq!(refused.to_string(), message);
    let ApplyError::Conflicts(conflicts) = refused else { panic!("no conflicts") };
    let fields: Vec<_> = conflicts.causes().into_iter().map(|cause| (cause.field, cause.message)).collect();
    assert_eq!(fields[2], (".data.c".to_owned(), "conflict with \"b\"".to_owned()));
}

#[test]
fn what_nobody_owns_stays_beside_what_somebody_owns() {
    let schema = arbitrary::built_in("", "Pod");
    let pod = |probe: Value| arbitrary::pod(&json!([{ "name": "a", "livenessProbe": probe }]));
    let live = applied(None, "a", &pod(json!({ "periodSeconds": 5 })), &schema, 1);
    let mut live = applied(Some(&live), "b", &pod(json!({ "timeoutSeconds": 2 })), &schema, 2);
    // As a default does.
    live["spec"]["containers"][0]["livenessProbe"]["failureThreshold"] = json!(3);
    let left = applied(Some(&live), "a", &arbitrary::pod(&json!([{ "name": "a" }])), &schema, 3);
    let probe = &left["spec"]["containers"][0]["livenessProbe"];
    assert_eq!(*probe, json!({ "timeoutSeconds": 2, "failureThreshold": 3 }));
}

#[test]
fn a_key_that_is_left_out_has_its_default() {
    let schema = arbitrary::built_in("", "Service");
    let service = |port: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": { "ports": [port] } });
    let live = applied(None, "a", &service(json!({ "port": 80, "protocol": "TCP" })), &schema, 1);
    let live = applied(Some(&live), "b", &service(json!({ "port": 80, "name": "web" })), &schema, 2);
    assert_eq!(live["spec"]["ports"], json!([{ "port": 80, "protocol": "TCP", "name": "web" }]));
}

#[test]
fn a_key_of_a_map_is_owned_with_what_is_below_it() {
    let schema = arbitrary::thing();
    let thing = json!({ "metadata": { "name": "t" }, "spec": { "free": { "a": { "b": 1 } }, "size": 2 } });
    let made = applied(None, "a", &thing, &schema, 1);
    let expected = json!({ "f:spec": { "f:size": {}, "f:free": { "f:a": { ".": {}, "f:b": {} } } } });
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], expected);
}

#[test]
fn nulls_inside_of_arbitrary_json_stay() {
    let schema = arbitrary::built_in("apps", "ControllerRevision");
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": "r", "labels": null },
        "revision": 1, "data": { "spec": { "creationTimestamp": null } },
    });
    let made = applied(None, "a", &revision, &schema, 1);
    assert_eq!(made["data"], revision["data"]);
    assert_eq!(made["metadata"].get("labels"), None);
}

#[test]
fn the_eleventh_updater_makes_the_oldest_be_forgotten() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let mut live = track(None, config_map(&json!({})), &manager("0", Operation::Update), &schema, at(0));
    for second in 1..=12 {
        let mut after = live.clone();
        after["data"][format!("k{second}")] = json!("1");
        live =
            track(Some(&live), after, &manager(&second.to_string(), Operation::Update), &schema, at(second));
        assert!(names(&live).len() <= 10, "{live}");
    }
    assert_eq!(names(&live)[..2], ["ancient-changes", "4"]);
    let forgotten = &live["metadata"]["managedFields"][0];
    assert_eq!(forgotten["time"], "1970-01-01T00:00:03Z");
    let expected = json!({ "f:data": { ".": {}, "f:k1": {}, "f:k2": {}, "f:k3": {} } });
    assert_eq!(forgotten["fieldsV1"], expected);
}

#[test]
fn whoever_clears_the_managers_ends_tracking() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let writer = manager("a", Operation::Update);
    let live = track(None, config_map(&json!({ "a": "1" })), &writer, &schema, at(1));
    for clear in [json!([]), json!([{}])] {
        let mut after = live.clone();
        after["metadata"]["managedFields"] = clear;
        let cleared = track(Some(&live), after, &writer, &schema, at(2));
        assert_eq!(names(&cleared), Vec::<&str>::new());
        let again = track(Some(&cleared), config_map(&json!({ "a": "2" })), &writer, &schema, at(3));
        assert_eq!(names(&again), Vec::<&str>::new());
    }
}

#[test]
fn managers_that_cannot_be_read_do_not_come_back() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let mut live = config_map(&json!({ "a": "1" }));
    live["metadata"]["managedFields"] = json!([{ "operation": "Sing" }]);
    let writer = manager("a", Operation::Update);
    assert_eq!(names(&track(Some(&live), live.clone(), &writer, &schema, at(2))), Vec::<&str>::new());
    let object = config_map(&json!({}));
    let refused = apply(Some(&live), &object, &manager("a", Operation::Apply), true, &schema, at(2));
    assert_eq!(refused, Err(ApplyError::Unreadable));
}

#[test]
fn an_object_that_differs_only_in_times_does_not_differ() {
    let schema = arbitrary::built_in("", "ConfigMap");
    let before =
        track(None, config_map(&json!({ "a": "1" })), &manager("a", Operation::Update), &schema, at(1));
    let mut later = before.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("1970-01-01T00:00:09Z");
    assert_eq!(without_needless_times(&before, later.clone()), before);
    later["data"]["a"] = json!("2");
    assert_eq!(without_needless_times(&before, later.clone()), later);
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(before in arbitrary::containers(), object in arbitrary::containers()) {
        let schema = arbitrary::built_in("", "Pod");
        let live = applied(None, "before", &arbitrary::pod(&before), &schema, 1);
        let once = applied(Some(&live), "a", &arbitrary::pod(&object), &schema, 2);
        prop_assert_eq!(applied(Some(&once), "a", &arbitrary::pod(&object), &schema, 3), once);
    }

    #[test]
    fn what_was_applied_last_is_there(before in arbitrary::containers(), object in arbitrary::containers()) {
        let schema = arbitrary::built_in("", "Pod");
        let live = applied(None, "before", &arbitrary::pod(&before), &schema, 1);
        let live = applied(Some(&live), "a", &arbitrary::pod(&object), &schema, 2);
        for container in object.as_array().unwrap() {
            let merged = live["spec"]["containers"].as_array().unwrap();
            let merged = merged.iter().find(|merged| merged["name"] == container["name"]).unwrap();
            prop_assert_eq!(merged["image"].clone(), container.get("image").unwrap_or(&merged["image"]).clone());
        }
    }

    #[test]
    fn what_is_applied_no_longer_is_gone_unless_it_is_somebody_elses(
        ours in arbitrary::containers(), theirs in arbitrary::containers(),
    ) {
        let schema = arbitrary::built_in("", "Pod");
        let only_theirs = applied(None, "them", &arbitrary::pod(&theirs), &schema, 1);
        let both = applied(Some(&only_theirs), "us", &arbitrary::pod(&ours), &schema, 2);
        let left = applied(Some(&both), "us", &arbitrary::pod(&json!([])), &schema, 3);
        let names = |object: &Value| -> std::collections::BTreeSet<String> {
            let list = object["spec"]["containers"].as_array().cloned().unwrap_or_default();
            list.iter().map(|item| item["name"].to_string()).collect()
        };
        prop_assert_eq!(names(&left), names(&only_theirs));
    }

    #[test]
    fn a_field_has_an_owner_as_long_as_somebody_wrote_it(
        before in arbitrary::containers(), after in arbitrary::containers(),
    ) {
        let schema = arbitrary::built_in("", "Pod");
        let kind = Type::Known(schema.view());
        let live = track(None, arbitrary::pod(&before), &manager("a", Operation::Update), &schema, at(1));
        let live = track(Some(&live), arbitrary::pod(&after), &manager("b", Operation::Update), &schema, at(2));
        let managers = Managers::decode(listed_managers(&live)).unwrap();
        let owned = managers.0.values().fold(Set::default(), |all, owned| all.union(&owned.set));
        let mut bare = live.clone();
        forget_managers(&mut bare);
        let there = fields::of(&bare, kind).difference(&unowned());
        prop_assert_eq!(there.difference(&owned), Set::default(), "{}", live);
    }

    #[test]
    fn no_json_makes_apply_panic(
        live in proptest::option::of(arbitrary::value()), object in arbitrary::value(), force: bool,
    ) {
        for schema in [arbitrary::built_in("", "Pod"), arbitrary::built_in("apps", "StatefulSet"), arbitrary::thing()] {
            let _ = apply(live.as_ref(), &object, &manager("a", Operation::Apply), force, &schema, at(1));
            let tracked = track(live.as_ref(), object.clone(), &manager("b", Operation::Update), &schema, at(2));
            let _ = apply(Some(&tracked), &object, &manager("a", Operation::Apply), force, &schema, at(3));
        }
    }
}
