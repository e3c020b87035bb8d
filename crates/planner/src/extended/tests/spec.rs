//! What is refused, what is adjusted, and what makes a version.

use serde_json::{Value, json};

use super::*;

/// A spec whose template is valid, with more in it.
fn with(more: &Value) -> Value {
    let mut spec =
        json!({ "template": { "spec": { "template": { "spec": { "containers": [{ "name": "app" }] } } } } });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn parse(spec: &Value) -> Result<Spec, String> {
    parse_for(Group::StsPlus, spec)
}

/// As the operator reads it: what the types refuse is a fault as well.
fn parse_for(group: Group, spec: &Value) -> Result<Spec, String> {
    let typed: ExtendedStatefulSetSpec =
        serde_json::from_value(spec.clone()).map_err(|error| error.to_string())?;
    Spec::of(group, &typed).map_err(|fault| format!("{}: {fault}", fault.reason()))
}

/// A valid spec with this value at a place of its template.
fn template_with(pointer: &str, value: Value) -> Value {
    let mut spec = with(&json!({}));
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(&format!("/template{parent}")).unwrap();
    parent.as_object_mut().unwrap().insert(key.to_owned(), value);
    spec
}

#[test]
fn d_z10_a11_what_cannot_be_used_is_refused_with_a_reason_and_the_value() {
    let zones: Vec<_> = (0..17).map(|zone| format!("z{zone}")).collect();
    let names: Vec<_> = (0..=MAX_REFERENCES)
        .map(|number| json!({ "configMapRef": { "name": format!("c{number}") } }))
        .collect();
    let mut followed =
        template_with("/spec/template/spec/containers", json!([{ "name": "app", "envFrom": names }]));
    followed["updateOnConfigChange"] = json!(true);
    let probe = |probe: Value| with(&json!({ "activeProbe": { "app": probe } }));
    let blue_green =
        |settings: Value| with(&json!({ "updateStrategy": { "type": "BlueGreen", "blueGreen": settings } }));
    let cases = [
        (with(&json!({ "zones": ["z1", ""] })), "InvalidSpec", "no name"),
        (with(&json!({ "zones": ["z1", "z2", "z1"] })), "InvalidSpec", "z1"),
        (with(&json!({ "zones": zones })), "InvalidSpec", "17"),
        (
            with(&json!({ "activeProbe": { "other": { "tcpSocket": { "port": 80 } } } })),
            "UnknownContainer",
            "other",
        ),
        (
            with(
                &json!({ "activeProbe": { "app": { "tcpSocket": { "port": 80 } }, "b": { "tcpSocket": { "port": 80 } } } }),
            ),
            "InvalidSpec",
            "more than one",
        ),
        (probe(json!({})), "InvalidSpec", "exactly one"),
        (probe(json!({ "exec": { "command": [] } })), "InvalidSpec", "exactly one"),
        (probe(json!({ "tcpSocket": { "port": 0 } })), "InvalidSpec", "port 0"),
        (probe(json!({ "tcpSocket": { "port": 65_536 } })), "InvalidSpec", "port 65536"),
        (probe(json!({ "httpGet": { "port": "http" } })), "InvalidSpec", "port http"),
        (
            probe(json!({ "exec": { "command": ["a"] }, "tcpSocket": { "port": 80 } })),
            "InvalidSpec",
            "exactly one",
        ),
        (template_with("/spec/replicas", json!(-1)), "InvalidSpec", "-1"),
        (template_with("/spec/replicas", json!("3")), "InvalidSpec", "\"3\""),
        (template_with("/spec/replicas", json!(2.5)), "InvalidSpec", "2.5"),
        (template_with("/spec/replicas", json!(2_147_483_648_u64)), "InvalidSpec", "2147483648"),
        (template_with("/spec/replicas", json!(1e30)), "InvalidSpec", "1e+30"),
        (template_with("/spec/replicas", json!([])), "InvalidSpec", "[]"),
        (with(&json!({ "updateStrategy": { "maxUnavailable": 0 } })), "InvalidSpec", "maxUnavailable is 0"),
        (with(&json!({ "updateStrategy": { "maxUnavailable": "101%" } })), "InvalidSpec", "101%"),
        (blue_green(json!({ "minReady": -1 })), "InvalidSpec", "minReady is -1"),
        (blue_green(json!({ "minReady": "0%" })), "InvalidSpec", "minReady is 0%"),
        (blue_green(json!({ "minReady": "many" })), "InvalidSpec", "minReady is many"),
        (with(&json!({ "template": "apps/v1" })), "InvalidSpec", "no containers"),
        (with(&json!({ "template": {} })), "InvalidSpec", "no containers"),
        (with(&json!({ "template": Value::Null })), "InvalidSpec", "no containers"),
        (with(&json!({ "template": [] })), "InvalidSpec", "no containers"),
        (
            template_with("/spec/template/spec/containers", json!({ "name": "app" })),
            "InvalidSpec",
            "no containers",
        ),
        (template_with("/spec/template/spec/containers", json!([])), "InvalidSpec", "no containers"),
        (with(&json!({ "services": { "headless": "a", "active": "a" } })), "InvalidSpec", "name a"),
        (
            template_with(
                "/spec/template/metadata",
                json!({ "labels": { "sts.plus/pod-designation": "active" } }),
            ),
            "InvalidSpec",
            "pod-designation",
        ),
        (
            template_with(
                "/spec/selector",
                json!({ "matchLabels": { "sts.plus/pod-designation": "active" } }),
            ),
            "InvalidSpec",
            "pod-designation",
        ),
        (followed, "InvalidSpec", "65"),
    ];
    for (spec, reason, says) in cases {
        let fault = parse(&spec).expect_err(&spec.to_string());
        assert!(
            fault.starts_with(reason) && fault.contains(says),
            "{fault} should be {reason} and name {says}"
        );
    }
}

#[test]
fn d_shapes_that_the_types_do_not_have_are_refused_and_never_panic() {
    for spec in [
        json!(null),
        json!("text"),
        json!({}),
        with(&json!({ "zones": "z1" })),
        with(&json!({ "zones": [1] })),
        with(&json!({ "zones": [null] })),
        with(&json!({ "activeProbe": [] })),
        with(&json!({ "activeProbe": { "app": "true" } })),
        with(&json!({ "updateStrategy": { "type": "Canary" } })),
        with(&json!({ "updateStrategy": { "progressDeadlineSeconds": 1e12 } })),
        with(&json!({ "scaling": { "parity": "Prime" } })),
        with(&json!({ "services": "db" })),
    ] {
        parse(&spec).unwrap_err();
    }
}

#[test]
fn d_c9_what_is_missing_has_a_default_which_the_group_decides() {
    let ours = parse_for(Group::StsPlus, &with(&json!({}))).unwrap();
    assert_eq!((ours.replicas, ours.is_blue_green(), ours.deadline.as_secs()), (1, false, 600));
    assert_eq!(ours.zone_labels, ["topology.kubernetes.io/zone".into()]);
    let theirs = parse_for(Group::Fissile, &with(&json!({}))).unwrap();
    assert!(matches!(theirs.strategy, Strategy::BlueGreen { min_ready: Amount::Count(1), .. }));
    assert_eq!(theirs.zone_labels.len(), 2);
    let claims = template_with("/spec/volumeClaimTemplates", json!([{ "metadata": { "name": "data" } }]));
    assert!(parse_for(Group::Fissile, &claims).unwrap().is_handover());
    assert!(!parse_for(Group::StsPlus, &claims).unwrap().is_versioned());
    let refused = parse_for(Group::Fissile, &{
        let mut spec = claims;
        spec["updateStrategy"] = json!({ "type": "BlueGreen" });
        spec
    });
    assert!(refused.unwrap_err().starts_with("ClaimsNeedHandover"));
    for replicas in [json!(null), json!(1)] {
        assert_eq!(parse(&template_with("/spec/replicas", replicas)).unwrap().replicas, 1);
    }
}

#[test]
fn d_v13_v15_only_what_pods_are_made_of_makes_a_version() {
    let hash = |spec: &Value| parse(spec).unwrap().base_hash;
    let base = hash(&with(&json!({})));
    let same = [
        template_with("/spec/replicas", json!(5)),
        template_with("/spec/updateStrategy", json!({ "type": "OnDelete" })),
        template_with("/spec/revisionHistoryLimit", json!(3)),
        template_with("/metadata", json!({ "name": "a", "namespace": "b" })),
        template_with("/metadata", Value::Null),
        template_with("/spec/template/metadata", Value::Null),
        template_with("/spec/template/spec/affinity", Value::Null),
        with(&json!({ "scaling": { "minReplicas": 1 }, "paused": true })),
        with(&json!({ "updateStrategy": { "maxUnavailable": 2 } })),
        with(&json!({ "zoneNodeLabel": "only-with-zones" })),
    ];
    for spec in same {
        assert_eq!(hash(&spec), base, "{spec}");
    }
    let other = [
        template_with("/spec/template/spec/containers", json!([{ "name": "app", "image": "b" }])),
        template_with("/spec/serviceName", json!("s")),
        template_with("/spec/minReadySeconds", json!(5)),
        template_with("/spec/persistentVolumeClaimRetentionPolicy", json!({ "whenDeleted": "Delete" })),
        template_with("/metadata", json!({ "labels": { "a": "b" } })),
        with(&json!({ "zones": ["z1"] })),
    ];
    for spec in other {
        assert_ne!(hash(&spec), base, "{spec}");
    }
    let [one, two] =
        [json!(["z1"]), json!(["z2", "z3"])].map(|zones| hash(&with(&json!({ "zones": zones }))));
    assert_eq!(one, two);
}

#[test]
fn d_replicas_are_clamped_and_every_restriction_that_matters_is_named() {
    use Restriction::{Max, Min, NoRange, NoSuchParity};
    let (odd, even) = (Some(Parity::Odd), Some(Parity::Even));
    let parity = Restriction::Parity;
    let cases = [
        // min, max, parity; asked, allowed, why
        ((None, None, None), (7, 7), vec![]),
        ((Some(2), Some(5), None), (1, 2), vec![Min(2)]),
        ((Some(2), Some(5), None), (9, 5), vec![Max(5)]),
        ((None, None, odd), (4, 5), vec![parity(Parity::Odd)]),
        ((None, Some(4), odd), (4, 3), vec![parity(Parity::Odd)]),
        ((None, None, even), (1, 2), vec![parity(Parity::Even)]),
        ((None, None, odd), (0, 0), vec![]),
        ((Some(1), None, odd), (0, 1), vec![Min(1)]),
        ((Some(2), Some(2), odd), (2, 2), vec![NoSuchParity(Parity::Odd)]),
        ((None, Some(1), even), (1, 1), vec![NoSuchParity(Parity::Even)]),
        ((Some(5), Some(3), None), (4, 3), vec![Min(5), Max(3), NoRange { min: 5, max: 3 }]),
        ((Some(5), Some(3), None), (3, 3), vec![Min(5), Max(3), NoRange { min: 5, max: 3 }]),
        ((None, None, odd), (u32::MAX - 1, u32::MAX), vec![parity(Parity::Odd)]),
        ((None, None, even), (u32::MAX, u32::MAX - 1), vec![parity(Parity::Even)]),
    ];
    for ((min, max, parity), (asked, allowed), why) in cases {
        assert_eq!(
            Limits { min, max, parity }.clamp(asked),
            (allowed, why),
            "{min:?} {max:?} {parity:?} {asked}"
        );
    }
}

#[test]
fn d_a6_a_probe_has_the_values_of_its_group_and_is_bounded() {
    let active = |group: Group, probe: Value| {
        parse_for(group, &with(&json!({ "activeProbe": { "app": probe } }))).unwrap().active.unwrap()
    };
    let tcp = json!({ "tcpSocket": { "port": "8080" } });
    let policy = active(Group::StsPlus, tcp.clone());
    assert_eq!((policy.period.as_secs(), policy.timeout.as_secs(), policy.threshold), (10, 1, 1));
    assert_eq!((policy.check, policy.fallback), (ProbeCheck::Tcp { port: 8080 }, ActiveFallback::None));
    let policy = active(Group::Fissile, tcp);
    assert_eq!((policy.period.as_secs(), policy.fallback), (30, ActiveFallback::FirstRunning));
    let extreme = json!({
        "exec": { "command": ["a"] }, "periodSeconds": 0, "timeoutSeconds": 1_000_000, "failureThreshold": -4,
    });
    let policy = active(Group::StsPlus, extreme);
    assert_eq!((policy.period.as_secs(), policy.timeout.as_secs(), policy.threshold), (10, 60, 1));
    let get = active(Group::StsPlus, json!({ "httpGet": { "port": 80, "path": "leader" } }));
    assert_eq!(
        get.check,
        ProbeCheck::Http { scheme: sts_plus_api::extended::Scheme::Http, port: 80, path: "/leader".into() }
    );
}
