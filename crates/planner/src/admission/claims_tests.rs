use serde_json::{Value, json};
use sts_plus_api::keys::{CLAIM_PLACEHOLDER, POD_INDEX, STABLE_CLAIMS};

use super::super::{Edit, Operation, Request, Verdict, World};
use super::decide;

/// Creates a pod of ours.
fn creation(object: &str) -> Request<'_> {
    Request {
        operation: Operation::Create,
        group: "".into(),
        resource: "pods".into(),
        subresource: "".into(),
        object: Some(object),
    }
}

fn judge(pod: &Value) -> Verdict {
    decide(&creation(&pod.to_string()), &World::default()).unwrap()
}

fn claim(volume: &str, claim: &str) -> Value {
    json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim } })
}

fn pod(name: &str, index: Option<&str>, volumes: &[Value]) -> Value {
    let mut labels = json!({ STABLE_CLAIMS: "true", "app": "db" });
    if let Some(index) = index {
        labels[POD_INDEX] = index.into();
    }
    json!({ "metadata": { "name": name, "labels": labels }, "spec": { "volumes": volumes } })
}

fn edit(volume: usize, claim: &str) -> Edit {
    Edit { path: format!("/spec/volumes/{volume}/persistentVolumeClaim/claimName"), value: claim.into() }
}

/// What a JSON patch makes of a pod.
fn patched(mut pod: Value, verdict: &Verdict) -> Value {
    for Edit { path, value } in &verdict.patch {
        *pod.pointer_mut(path).unwrap() = value.clone();
    }
    pod
}

#[test]
fn d_s2_4_1_the_placeholder_becomes_the_ordinal() {
    let cases = [
        ("db-v1-0", Some("0"), "data-volume-management-db.ordinal", "data-volume-management-db-0"),
        ("db-z0-v1-3", Some("3"), "data-volume-management-db-z0.ordinal", "data-volume-management-db-z0-3"),
        ("db-v2-10", Some("10"), "data-volume-management-db.ordinal", "data-volume-management-db-10"),
        // Two versions share the claims, whatever the children are called.
        ("db-v12-11", Some("11"), "data-volume-management-db.ordinal", "data-volume-management-db-11"),
        ("db-v1-2", None, "data-volume-management-db.ordinal", "data-volume-management-db-2"),
        ("db-v1-17", None, "data-volume-management-db.ordinal", "data-volume-management-db-17"),
        // The label is what Kubernetes has counted.
        ("db-v1-1", Some("7"), "data-volume-management-db.ordinal", "data-volume-management-db-7"),
        ("", Some("4"), "a.b.ordinal", "a.b-4"),
        ("db-1", Some("2147483647"), "a.ordinal.ordinal", "a.ordinal-2147483647"),
    ];
    for (name, index, before, after) in cases {
        let verdict = judge(&pod(name, index, &[claim("data", before)]));
        assert_eq!(verdict, Verdict { patch: vec![edit(0, after)], warnings: vec![] }, "{name} {index:?}");
    }
}

#[test]
fn d_s2_4_2_each_claim_template_has_its_claim_and_other_volumes_stay() {
    let volumes = [
        json!({ "name": "tmp", "emptyDir": {} }),
        claim("data", "data-volume-management-db.ordinal"),
        claim("shared", "shared"),
        claim("odd", "ordinal"),
        claim("before", ".ordinal-x"),
        claim("nothing", ".ordinal"),
        json!({ "name": "config", "configMap": { "name": "x.ordinal" } }),
        json!({ "name": "wal", "persistentVolumeClaim": { "claimName": "wal-volume-management-db.ordinal", "readOnly": true } }),
    ];
    let before = pod("db-v1-5", Some("5"), &volumes);
    let verdict = judge(&before);
    let expected = [edit(1, "data-volume-management-db-5"), edit(7, "wal-volume-management-db-5")];
    assert_eq!(verdict.patch, expected);
    let after = patched(before.clone(), &verdict);
    for (at, volume) in volumes.iter().enumerate().filter(|(at, _)| ![1, 7].contains(at)) {
        assert_eq!(after["spec"]["volumes"][at], *volume);
    }
    assert_eq!(after["spec"]["volumes"][7]["persistentVolumeClaim"]["readOnly"], true);
    // Asked again, it changes nothing.
    assert_eq!(judge(&after), Verdict::default());
}

#[test]
fn d_s2_4_3_without_an_ordinal_the_placeholder_stays() {
    let cases = [
        ("db-v1-0", Some("")),
        ("db-v1-0", Some("01")),
        ("db-v1-0", Some("-1")),
        ("db-v1-0", Some("+1")),
        ("db-v1-0", Some("1.0")),
        ("db-v1-0", Some("99999999999")),
        ("db-v1-0", Some("\u{661}")),
        ("db-v1-x", None),
        ("db-v1-", None),
        ("db-v1-01", None),
        ("db7", None),
        ("7", None),
        ("", None),
    ];
    for (name, index) in cases {
        let verdict = judge(&pod(name, index, &[claim("data", "data-volume-management-db.ordinal")]));
        assert!(verdict.patch.is_empty(), "{name:?} {index:?}: {verdict:?}");
        let [warning] = &verdict.warnings[..] else { panic!("{name:?} {index:?}: {verdict:?}") };
        assert!(warning.contains("stays Pending") && warning.contains(POD_INDEX), "{warning}");
    }
}

#[test]
fn d_w1_pods_without_our_label_are_left_alone() {
    let volumes = [claim("data", "data-volume-management-db.ordinal")];
    for labels in [json!(null), json!({}), json!({ STABLE_CLAIMS: "false" }), json!({ STABLE_CLAIMS: "" })] {
        let mut pod = pod("db-v1-0", Some("0"), &volumes);
        pod["metadata"]["labels"] = labels.clone();
        assert_eq!(judge(&pod), Verdict::default(), "{labels}");
    }
    for nothing in [json!({}), json!({ "spec": {} }), json!({ "metadata": {}, "spec": { "volumes": null } })]
    {
        assert_eq!(judge(&nothing), Verdict::default(), "{nothing}");
    }
    let without_volumes = pod("db-v1-0", Some("0"), &[]);
    assert_eq!(judge(&without_volumes), Verdict::default());
    // Nothing to replace: no ordinal is needed.
    assert_eq!(judge(&pod("db", None, &[claim("data", "data")])), Verdict::default());
}

#[test]
fn d_s2_4_4_only_the_creation_of_a_pod_is_changed() {
    let text = pod("db-v1-0", Some("0"), &[claim("data", "data-volume-management-db.ordinal")]).to_string();
    let asked = creation(&text);
    let others = [
        Request { operation: Operation::Update, ..asked.clone() },
        Request { operation: Operation::Delete, object: None, ..asked.clone() },
        Request { operation: Operation::Connect, ..asked.clone() },
        Request { subresource: "eviction".into(), ..asked.clone() },
        Request { resource: "statefulsets".into(), group: "apps".into(), ..asked.clone() },
        Request { group: "metrics.k8s.io".into(), ..asked.clone() },
        Request { object: None, ..asked.clone() },
    ];
    for other in others {
        assert_eq!(decide(&other, &World::default()), Ok(Verdict::default()), "{other:?}");
    }
    assert!(!decide(&asked, &World::default()).unwrap().patch.is_empty());
}

#[test]
fn d_s2_4_5_what_is_no_pod_is_called_so() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let odd = [
        "",
        "null",
        "7",
        "{",
        r#"{"metadata":7}"#,
        r#"{"metadata":{"labels":{"sts.plus/stable-claims":7}}}"#,
        r#"{"spec":{"volumes":{}}}"#,
        r#"{"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":[]}}]}}"#,
        deep.as_str(),
    ];
    for object in odd {
        let refused = decide(&creation(object), &World::default()).unwrap_err();
        assert_eq!(refused.what, "pod", "{object}");
        assert!(!refused.why.is_empty() && refused.why.len() < 300, "{}", refused.why);
    }
    // Anything else about it is none of our business, and is not kept.
    let mut large = pod("db-v1-0", Some("0"), &[claim("data", "d.ordinal")]);
    large["spec"]["containers"] =
        (0..10_000).map(|at| json!({ "name": format!("c{at}"), "x": [[[]]] })).collect();
    large["metadata"]["annotations"] = json!({ "note": "x".repeat(100_000) });
    assert_eq!(judge(&large).patch, [edit(0, "d-0")]);
}

#[test]
fn the_keys_are_those_of_the_api() {
    let pod = json!({
        "metadata": { "name": "x", "labels": { STABLE_CLAIMS: "true", POD_INDEX: "6" } },
        "spec": { "volumes": [claim("data", &format!("data{CLAIM_PLACEHOLDER}"))] },
    });
    assert_eq!(judge(&pod).patch, [edit(0, "data-6")]);
}
