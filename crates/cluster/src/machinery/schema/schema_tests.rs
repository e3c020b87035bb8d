use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::machinery::arbitrary;

const KINDS: [(&str, &str); 8] = [
    ("", "Pod"),
    ("", "Service"),
    ("", "PersistentVolumeClaim"),
    ("apps", "StatefulSet"),
    ("policy", "PodDisruptionBudget"),
    ("coordination.k8s.io", "Lease"),
    ("rbac.authorization.k8s.io", "Role"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

#[test]
fn what_go_always_writes_is_defaulted() {
    let mut service =
        json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }], "selector": null } });
    arbitrary::built_in("", "Service").default(&mut service);
    let expected = json!({
        "metadata": { "name": "s" },
        "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] },
        "status": { "loadBalancer": {} },
    });
    assert_eq!(service, expected);
}

#[test]
fn of_a_new_object_only_what_cannot_be_absent_is_there() {
    let zero = arbitrary::built_in("apps", "StatefulSet").zero();
    assert_eq!(zero["status"], json!({ "replicas": 0, "availableReplicas": 0 }));
    assert_eq!(zero["spec"]["template"]["spec"]["containers"], Value::Null);
    assert_eq!(zero["spec"].get("replicas"), None);
    assert_eq!(arbitrary::thing().zero(), json!({}));
}

#[test]
fn lists_say_how_they_merge() {
    let schema = arbitrary::built_in("", "Pod");
    let spec = schema.view().property("spec").unwrap();
    let containers = spec.property("containers").unwrap();
    assert_eq!(containers.edge().merge_key.as_deref(), Some("name"));
    assert_eq!(containers.node().list, List::Map(vec!["name".to_owned()]));
    let ports = containers.items().unwrap().property("ports").unwrap();
    assert_eq!(ports.edge().merge_key.as_deref(), Some("containerPort"));
    assert_eq!(ports.node().list, List::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
    assert_eq!(spec.property("tolerations").unwrap().node().list, List::Atomic);
    assert!(spec.property("nodeSelector").unwrap().is_atomic());
}

#[test]
fn unknown_fields_are_named_in_order() {
    let pod = json!({
        "spec": { "containers": [{ "name": "a" }, { "nam": "b", "ports": [{ "x": 1 }] }], "zebra": {}, "nodeSelector": { "any": "x" } },
        "metadata": { "lables": {}, "labels": { "any": "x" } }, "top": 1,
    });
    let unknown: Vec<_> =
        arbitrary::built_in("", "Pod").unknown_fields(&pod).iter().map(ToString::to_string).collect();
    let expected =
        ["metadata.lables", "spec.containers[1].nam", "spec.containers[1].ports[0].x", "spec.zebra", "top"];
    assert_eq!(unknown, expected);
}

#[test]
fn formats_are_checked() {
    let good = [
        ("date-time", "2026-11-16T05:41:49Z"),
        ("date", "2026-11-16"),
        ("duration", "1h30m"),
        ("duration", "-1.5s"),
        ("byte", "aGVsbG8="),
        ("ipv4", "10.0.0.1"),
        ("ipv6", "::1"),
        ("cidr", "10.0.0.0/8"),
        ("uuid", "550e8400-e29b-41d4-a716-446655440000"),
        ("k8s-short-name", "web-0"),
        ("k8s-long-name", "web-0.example.com"),
        ("nobody-checks", "anything"),
    ];
    let bad = [
        ("date-time", "2026-11-16"),
        ("date", "16.11.2026"),
        ("duration", "1"),
        ("duration", ""),
        ("byte", "a"),
        ("ipv4", "10.0.0"),
        ("ipv6", "10.0.0.1"),
        ("cidr", "10.0.0.0/33"),
        ("uuid", "550e8400"),
        ("k8s-short-name", "Web"),
        ("k8s-long-name", "web..com"),
    ];
    for (name, text) in good {
        assert!(format::fits(name, text), "{text} is a {name}");
    }
    for (name, text) in bad {
        assert!(!format::fits(name, text), "{text} is no {name}");
    }
}

#[test]
fn amounts_are_written_as_the_server_does() {
    let amounts = [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0", "0"),
        ("-1", "-1"),
        ("+1.50", "1500m"),
        ("1.500", "1.500"),
        ("01", "01"),
        ("0.1Gi", "107374182400m"),
        ("1025Ki", "1025Ki"),
        ("1e1", "10"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000Mi", "1000Mi"),
        ("1000k", "1M"),
        ("2000000", "2M"),
        ("1e3", "1e3"),
        ("1E6", "1E6"),
        ("1000e3", "1e6"),
        ("12e-1", "1200e-3"),
        ("0.0000000001", "1n"),
        ("9E", "9E"),
    ];
    for (given, expected) in amounts {
        assert_eq!(quantity::canonical(given).as_deref(), Some(expected), "{given}");
    }
    for text in
        ["", "x", "1x", "1.2.3", "--1", "1-1", "Gi", ".", "1e", "1e99999999999", "99999999999999999999999E"]
    {
        assert_eq!(quantity::canonical(text), None, "{text}");
    }
}

#[test]
fn every_definition_has_a_zero_value() {
    let definitions = Definitions::built_in().unwrap();
    assert!(definitions.kinds.len() >= 30);
    for (group, version, kind) in definitions.kinds.keys() {
        let schema = definitions.kind(group, version, kind).unwrap();
        assert!(schema.zero().is_object(), "{kind}");
    }
}

#[test]
fn definitions_that_are_none_are_refused() {
    assert!(Definitions::parse("[]").is_err());
    assert!(Definitions::parse("{").is_err());
}

proptest! {
    #[test]
    fn pruning_leaves_nothing_unknown(object in arbitrary::object()) {
        for (group, kind) in KINDS {
            let schema = arbitrary::built_in(group, kind);
            let mut pruned = object.clone();
            schema.prune(&mut pruned);
            prop_assert_eq!(schema.unknown_fields(&pruned), Vec::new());
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(object in arbitrary::object()) {
        for schema in KINDS.iter().map(|(group, kind)| arbitrary::built_in(group, kind)).chain([arbitrary::thing()]) {
            let mut once = object.clone();
            schema.default(&mut once);
            let mut twice = once.clone();
            schema.default(&mut twice);
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn no_json_makes_a_schema_panic(object in arbitrary::value(), custom in arbitrary::value()) {
        for schema in [arbitrary::built_in("", "Pod"), arbitrary::thing(), arbitrary::custom(&custom)] {
            let _ = (schema.validate(&object), schema.judge(&object, Some(&custom)), schema.unknown_fields(&object));
            let mut changed = object.clone();
            schema.default(&mut changed);
            schema.prune(&mut changed);
            schema.normalize(&mut changed);
        }
    }

    #[test]
    fn no_text_makes_an_amount_panic(text in "[-+0-9.eEkKMGi]{0,40}") {
        if let Some(canonical) = quantity::canonical(&text) {
            prop_assert_eq!(quantity::canonical(&canonical), Some(canonical));
        }
    }

    #[test]
    fn normalizing_twice_is_normalizing_once(object in arbitrary::object()) {
        for (group, kind) in KINDS {
            let schema = arbitrary::built_in(group, kind);
            let mut once = object.clone();
            schema.normalize(&mut once);
            let mut twice = once.clone();
            schema.normalize(&mut twice);
            prop_assert_eq!(twice, once);
        }
    }
}
