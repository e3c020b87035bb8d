use super::*;

fn claim(spec: &Value) -> Value {
    let mut claim = json!({
        "metadata": { "namespace": "db", "name": "data-web-1", "uid": "u-1" },
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": "2Gi" } },
        },
    });
    merge(&mut claim["spec"], spec);
    claim
}

fn volume(name: &str, spec: &Value) -> Arc<Stored> {
    let mut volume = json!({
        "metadata": { "name": name, "labels": { "tier": name } },
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": { "storage": "5Gi" },
        },
    });
    merge(&mut volume["spec"], spec);
    Stored::new(volume)
}

fn merge(target: &mut Value, patch: &Value) {
    *target = crate::machinery::patch::merge(target, patch);
}

fn class(more: &Value) -> Value {
    let mut class =
        json!({ "metadata": { "name": "fast" }, "provisioner": "p", "volumeBindingMode": "Immediate" });
    merge(&mut class, more);
    class
}

fn in_zone(zone: &str) -> Value {
    let expression = json!({ "key": ZONE, "operator": "In", "values": [zone] });
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } })
}

fn node(zone: &str) -> Value {
    json!({ "metadata": { "name": "n", "labels": { ZONE: zone } } })
}

#[test]
fn the_smallest_volume_that_suits_is_taken() {
    let bind = |name: &str| Choice::Bind(name.to_owned());
    let made = Choice::Provision(None);
    for (what, spec, volumes, expected) in [
        ("none there", json!({}), vec![], made.clone()),
        (
            "smallest, then first",
            json!({}),
            vec![
                volume("a", &json!({ "capacity": { "storage": "9Gi" } })),
                volume("c", &json!({ "capacity": { "storage": "3Gi" } })),
                volume("b", &json!({ "capacity": { "storage": "3Gi" } })),
            ],
            bind("b"),
        ),
        (
            "too small",
            json!({}),
            vec![volume("a", &json!({ "capacity": { "storage": "2000Mi" } }))],
            made.clone(),
        ),
        (
            "just enough",
            json!({}),
            vec![volume("a", &json!({ "capacity": { "storage": "2048Mi" } }))],
            bind("a"),
        ),
        ("other class", json!({}), vec![volume("a", &json!({ "storageClassName": "slow" }))], made.clone()),
        ("other mode", json!({}), vec![volume("a", &json!({ "volumeMode": "Block" }))], made.clone()),
        (
            "other access",
            json!({ "accessModes": ["ReadWriteMany"] }),
            vec![volume("a", &json!({}))],
            made.clone(),
        ),
        (
            "selector",
            json!({ "selector": { "matchLabels": { "tier": "b" } } }),
            vec![volume("a", &json!({})), volume("b", &json!({}))],
            bind("b"),
        ),
        (
            "reserved for another",
            json!({}),
            vec![volume("a", &json!({ "claimRef": { "namespace": "db", "name": "other" } }))],
            made.clone(),
        ),
        (
            "reserved by name, before any other, suiting or not",
            json!({}),
            vec![
                volume("a", &json!({})),
                volume(
                    "b",
                    &json!({
                        "claimRef": { "namespace": "db", "name": "data-web-1" }, "capacity": { "storage": "1Gi" },
                    }),
                ),
            ],
            bind("b"),
        ),
        (
            "reserved for a predecessor",
            json!({}),
            vec![volume(
                "a",
                &json!({ "claimRef": { "namespace": "db", "name": "data-web-1", "uid": "u-0" } }),
            )],
            made.clone(),
        ),
        (
            "named",
            json!({ "volumeName": "b" }),
            vec![volume("a", &json!({})), volume("b", &json!({}))],
            bind("b"),
        ),
    ] {
        assert_eq!(choose(&claim(&spec), Some(&class(&json!({}))), &volumes, None), expected, "{what}");
    }
}

#[test]
fn who_waits_says_for_what() {
    let waits = |spec: Value, class: Option<&Value>, volumes: &[Arc<Stored>]| {
        let Choice::Wait(reason, message) = choose(&claim(&spec), class, volumes, None) else {
            panic!("does not wait")
        };
        (reason, message)
    };
    let fast = class(&json!({}));
    let later = class(&json!({ "volumeBindingMode": "WaitForFirstConsumer" }));
    let none = class(&json!({ "provisioner": NO_PROVISIONER }));
    let free = [volume("a", &json!({}))];
    assert_eq!(waits(json!({}), Some(&later), &free).0, "WaitForFirstConsumer");
    assert_eq!(waits(json!({}), Some(&none), &[]).0, "ProvisioningFailed");
    assert_eq!(
        waits(json!({}), None, &[]),
        ("ProvisioningFailed", "storageclass.storage.k8s.io \"fast\" not found".to_owned())
    );
    let no_class = json!({ "storageClassName": "" });
    assert_eq!(waits(no_class, None, &free).0, "FailedBinding", "static only, and none without a class");
    assert_eq!(waits(json!({ "volumeName": "b" }), Some(&fast), &free).0, "FailedBinding");
    let small = [volume("b", &json!({ "capacity": { "storage": "1Gi" } }))];
    assert_eq!(waits(json!({ "volumeName": "b" }), Some(&fast), &small).0, "VolumeMismatch");
}

#[test]
fn a_volume_is_made_where_its_pod_is() {
    let later = class(&json!({ "volumeBindingMode": "WaitForFirstConsumer" }));
    let Choice::Provision(Some(terms)) = choose(&claim(&json!({})), Some(&later), &[], Some(&node("b")))
    else {
        panic!()
    };
    let made = new_volume(&claim(&json!({})), &later, Some(terms));
    assert_eq!(made["spec"]["nodeAffinity"], in_zone("b"));
    assert_eq!(made["spec"]["claimRef"]["uid"], "u-1");
    assert_eq!(made["spec"]["capacity"]["storage"], "2Gi");
    let volumes = [
        volume("a", &json!({ "nodeAffinity": in_zone("a"), "capacity": { "storage": "2Gi" } })),
        volume("b", &json!({ "nodeAffinity": in_zone("b") })),
    ];
    let chosen = choose(&claim(&json!({})), Some(&later), &volumes, Some(&node("b")));
    assert_eq!(chosen, Choice::Bind("b".to_owned()), "one that cannot be reached does not count");
}

#[test]
fn without_a_pod_zones_are_taken_in_turn_from_those_that_are_allowed() {
    let values = ["a", "b", "c"];
    let topologies = json!([{ "matchLabelExpressions": [{ "key": ZONE, "values": values }] }]);
    let zonal = class(&json!({ "allowedTopologies": topologies }));
    let zone = |ordinal: u32| {
        let mut claim = claim(&json!({}));
        claim["metadata"]["name"] = json!(format!("data-web-{ordinal}"));
        let Choice::Provision(Some(terms)) = choose(&claim, Some(&zonal), &[], None) else { panic!() };
        terms[0]["matchExpressions"][0]["values"][0].as_str().unwrap().to_owned()
    };
    let zones: std::collections::BTreeSet<String> = (0..3).map(zone).collect();
    assert_eq!(zones, values.map(str::to_owned).into());
    assert_eq!(zone(0), zone(3));
    let places = places(&claim(&json!({})), &zonal, &[]);
    assert!(places[0].as_ref().unwrap()[0].holds_for(&node("c")));
    assert!(!places[0].as_ref().unwrap()[0].holds_for(&node("d")));
}
