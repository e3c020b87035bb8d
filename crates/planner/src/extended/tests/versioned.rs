//! F15: versions of a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;
use crate::extended::probe::Digest;
use crate::extended::references::rename_secrets;
use crate::extended::versioned::next;
use crate::plan::{Kind, Object};

fn secret(name: &str) -> Object {
    Object { kind: Kind::Secret, namespace: "ns".into(), name: name.into() }
}

fn versioned(digest: &str) -> Digest {
    Digest::Versioned(digest.into())
}

/// A pod that refers to the first version in a volume, in its environment and in an init container.
fn started(digests: &[(&str, Digest)]) -> Cluster {
    let mut given = template("a", 1);
    let pod = &mut given["spec"]["template"]["spec"];
    pod["volumes"] = json!([{ "name": "tls", "secret": { "secretName": "x-v1" } }]);
    pod["initContainers"] = json!([{ "name": "first", "envFrom": [{ "secretRef": { "name": "x-v1" } }] }]);
    let mut cluster =
        Cluster::new(Group::Fissile, json!({ "template": given, "updateOnConfigChange": true }));
    for (name, digest) in digests {
        cluster.digests.insert(secret(name), digest.clone());
    }
    cluster.settle();
    cluster
}

/// The Secrets that the pods of a set refer to.
fn referred(cluster: &Cluster, set: &str) -> [Value; 2] {
    let pod = &cluster.live(set)["spec"]["template"]["spec"];
    let volume = &pod["volumes"][0]["secret"]["secretName"];
    [volume.clone(), pod["initContainers"][0]["envFrom"][0]["secretRef"]["name"].clone()]
}

#[test]
fn d_f15_pods_refer_to_the_newest_version_of_a_secret() {
    with_and_without_restarts(|| {
        let first = [("x-v1", versioned("1")), ("x-v2", Digest::Absent)];
        let mut cluster = started(&first);
        assert_eq!(
            (cluster.names(), referred(&cluster, "foo-v1")),
            (vec!["foo-v1"], ["x-v1"; 2].map(Value::from))
        );
        // While it is read nothing is made of what was known before.
        cluster.digests.insert(secret("x-v2"), versioned("2"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1"], "the version after it has not been read");
        cluster.digests.insert(secret("x-v3"), Digest::Absent);
        cluster.settle();
        assert_eq!(
            (cluster.names(), referred(&cluster, "foo-v2")),
            (vec!["foo-v2"], ["x-v2"; 2].map(Value::from))
        );
        // The one that the template names may be removed.
        cluster.digests.insert(secret("x-v1"), Digest::Absent);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v2"]);
        assert!(cluster.condition("Ready").unwrap().0);
    });
}

#[test]
fn d_f15_a_secret_without_the_label_of_versions_has_no_later_one() {
    let known = |digest: &str| Digest::Known(digest.into());
    for (first, second) in [(known("1"), versioned("2")), (versioned("1"), known("2"))] {
        let cluster = started(&[("x-v1", first), ("x-v2", second)]);
        assert_eq!(referred(&cluster, "foo-v1"), ["x-v1"; 2].map(Value::from));
    }
    let cluster = started(&[("x-v1", Digest::Absent), ("x-v2", known("2"))]);
    assert_eq!(cluster.condition("Stalled"), Some((true, "ConfigMissing".to_owned())));
}

#[test]
fn d_f15_a_name_with_a_number_has_a_next_one() {
    let cases = [
        ("x-v1", Some("x-v2")),
        ("x-v09", None),
        ("x-v", None),
        ("x", None),
        ("a-v1-v9", Some("a-v1-v10")),
        ("x-v4294967295", None),
        ("x-v-1", None),
    ];
    for (name, expected) in cases {
        assert_eq!(next(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn d_f15_only_references_to_secrets_are_renamed() {
    let mut pod = json!({
        "containers": [{
            "env": [
                { "name": "A", "valueFrom": { "secretKeyRef": { "name": "x-v1", "key": "k" } } },
                { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "x-v1", "key": "k" } } },
                { "name": "C", "value": "x-v1" },
            ],
            "envFrom": [{ "secretRef": { "name": "other-v1" } }],
        }],
        "volumes": [
            { "name": "x-v1", "projected": { "sources": [{ "secret": { "name": "x-v1" } }, { "configMap": { "name": "x-v1" } }] } },
            { "name": "odd", "secret": null },
        ],
        "initContainers": "no list",
    });
    let text = pod.to_string();
    let newest = BTreeMap::from([(Arc::from("x-v1"), Arc::from("x-v7"))]);
    rename_secrets(&mut pod, &newest);
    assert_eq!(pod["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"], "x-v7");
    assert_eq!(pod["volumes"][0]["projected"]["sources"][0]["secret"]["name"], "x-v7");
    assert_eq!(pod.to_string().replace("x-v7", "x-v1"), text);
    assert_eq!(pod.to_string().matches("x-v7").count(), 2);
}
