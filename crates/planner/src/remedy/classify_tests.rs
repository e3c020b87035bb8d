use serde_json::{Value, json};

use super::*;

fn template(name: &str, storage: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": { "requests": { "storage": storage } },
    } })
}

fn spec() -> Value {
    json!({
        "replicas": 3,
        "serviceName": "db",
        "selector": { "matchLabels": { "app": "db" } },
        "volumeClaimTemplates": [template("data", "10Gi"), template("wal", "1Gi")],
    })
}

fn verdict(change: impl FnOnce(&mut Value)) -> Verdict {
    let mut after = spec();
    change(&mut after);
    Verdict::of(&spec(), &after)
}

/// The words of the only part of a change.
fn only(verdict: &Verdict) -> String {
    assert_eq!(verdict.changes.len(), 1, "{verdict:?}");
    verdict.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_b7_each_change_has_the_lightest_remedy_that_does_it() {
    use Remedy::{None, Recreate, Rotate};
    type Edit = fn(&mut Value);
    let table: &[(&str, Remedy, Edit)] = &[
        ("replicas", None, |spec| spec["replicas"] = json!(5)),
        ("the pod template", None, |spec| spec["template"] = json!({ "spec": {} })),
        ("a default that is written", None, |spec| spec["podManagementPolicy"] = json!("OrderedReady")),
        ("another spelling", None, |spec| spec["volumeClaimTemplates"][0] = template("data", "10240Mi")),
        ("the order", None, |spec| spec["volumeClaimTemplates"].as_array_mut().unwrap().reverse()),
        ("a larger claim", Recreate, |spec| spec["volumeClaimTemplates"][0] = template("data", "20Gi")),
        ("labels of claims", Recreate, |spec| {
            spec["volumeClaimTemplates"][0]["metadata"]["labels"] = json!({ "a": "b" });
        }),
        ("annotations of claims", Recreate, |spec| {
            spec["volumeClaimTemplates"][1]["metadata"]["annotations"] = json!({ "a": "b" });
        }),
        ("serviceName", Recreate, |spec| spec["serviceName"] = json!("db-new")),
        ("no serviceName", Recreate, |spec| drop(spec.as_object_mut().unwrap().remove("serviceName"))),
        ("podManagementPolicy", Recreate, |spec| spec["podManagementPolicy"] = json!("Parallel")),
        ("a smaller claim", Rotate, |spec| spec["volumeClaimTemplates"][0] = template("data", "9Gi")),
        ("no size", Rotate, |spec| {
            spec["volumeClaimTemplates"][0]["spec"]["resources"] = json!({});
        }),
        ("a class", Rotate, |spec| {
            spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] = json!("slow");
        }),
        ("the default class", Rotate, |spec| {
            let claim = spec["volumeClaimTemplates"][0]["spec"].as_object_mut().unwrap();
            claim.remove("storageClassName");
        }),
        ("access modes", Rotate, |spec| {
            spec["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!(["ReadWriteMany"]);
        }),
        ("a data source", Rotate, |spec| {
            spec["volumeClaimTemplates"][0]["spec"]["dataSource"] =
                json!({ "kind": "VolumeSnapshot", "name": "s" });
        }),
        ("a limit", Rotate, |spec| {
            spec["volumeClaimTemplates"][0]["spec"]["resources"]["limits"] = json!({ "storage": "99Gi" });
        }),
        ("a claim more", Rotate, |spec| {
            spec["volumeClaimTemplates"].as_array_mut().unwrap().push(template("cache", "1Gi"));
        }),
        ("a claim less", Rotate, |spec| drop(spec["volumeClaimTemplates"].as_array_mut().unwrap().pop())),
        ("a claim of another name", Rotate, |spec| {
            spec["volumeClaimTemplates"][0] = template("disk", "10Gi");
        }),
        ("the selector", Rotate, |spec| spec["selector"]["matchLabels"]["app"] = json!("cache")),
        ("a field of a later server", Rotate, |spec| spec["ofLaterServers"] = json!(true)),
        ("a light and a heavy one", Rotate, |spec| {
            spec["serviceName"] = json!("db-new");
            spec["selector"]["matchLabels"]["app"] = json!("cache");
        }),
        ("two light ones", Recreate, |spec| {
            spec["serviceName"] = json!("db-new");
            spec["volumeClaimTemplates"][1] = template("wal", "3Gi");
        }),
    ];
    for (what, remedy, edit) in table {
        let verdict = verdict(edit);
        assert_eq!(verdict.remedy, *remedy, "{what}: {verdict:?}");
        assert_eq!(verdict.changes.is_empty(), *remedy == None, "{what}");
        assert_eq!(verdict.moves_data(), *remedy == Rotate, "{what}");
        assert_eq!(verdict.restarts(), u32::from(*remedy == Rotate), "{what}");
        assert_eq!(verdict.refused().is_some(), *remedy == Rotate, "{what}");
    }
}

#[test]
fn the_words_name_what_is_different() {
    let grown = verdict(|spec| spec["volumeClaimTemplates"][0] = template("data", "20Gi"));
    assert_eq!(only(&grown), "volumeClaimTemplate data asks for more storage");
    let both = verdict(|spec| {
        spec["volumeClaimTemplates"][0] = template("data", "5Gi");
        spec["volumeClaimTemplates"][1]["spec"]["storageClassName"] = json!("slow");
        spec["serviceName"] = json!("db-new");
    });
    assert_eq!(
        both.refused().unwrap(),
        "volumeClaimTemplate data asks for less storage, and a volume cannot shrink; \
         storageClassName of volumeClaimTemplate wal is different, which needs another volume"
    );
}

#[test]
fn a_change_back_is_a_change_too_and_no_change_is_none() {
    let grown = {
        let mut after = spec();
        after["volumeClaimTemplates"][0] = template("data", "20Gi");
        after
    };
    assert_eq!(Verdict::of(&grown, &spec()).remedy, Remedy::Rotate, "a volume cannot shrink");
    assert_eq!(Verdict::of(&spec(), &spec()).remedy, Remedy::None);
    assert_eq!(Verdict::of(&Value::Null, &Value::Null).remedy, Remedy::None);
}
