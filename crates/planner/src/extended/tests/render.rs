//! Sets as they are written, and Services.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::Cluster;
use super::creation::template;

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";

fn started(group: Group, spec: Value) -> Cluster {
    let mut cluster = Cluster::new(group, spec);
    cluster.settle();
    cluster.log.clear();
    cluster
}

/// A template with ports, each of them several times.
fn with_ports() -> Value {
    let mut given = template("a", 2);
    given["spec"]["template"]["spec"]["containers"] = json!([
        { "name": "main", "image": "a", "ports": [{ "name": "http", "containerPort": 80 }, { "containerPort": 53, "protocol": "UDP" }] },
        { "name": "side", "image": "a", "ports": [{ "containerPort": 80 }, { "containerPort": "no number" }, { "containerPort": 53 }] },
    ]);
    given
}

#[test]
fn d_c8_expressions_of_a_selector_are_kept_beside_ours() {
    let mut given = template("a", 1);
    let expressions = json!([{ "key": "app", "operator": "Exists" }]);
    given["spec"]["selector"] = json!({ "matchExpressions": expressions });
    let cluster = started(Group::Fissile, json!({ "template": given }));
    let selector = &cluster.live("foo-v1")["spec"]["selector"];
    assert_eq!(selector["matchExpressions"], expressions);
    assert_eq!(
        selector["matchLabels"],
        json!({
            "fissile.cloudfoundry.org/extendedstatefulset-name": "foo",
            "fissile.cloudfoundry.org/az-index": "0",
            "fissile.cloudfoundry.org/version": "1",
        })
    );
}

#[test]
fn d_c6_c12_our_variables_come_first_and_replace_those_of_the_same_name() {
    let mut given = template("a", 1);
    let field = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
    given["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        { "name": "USES", "value": "$(KUBE_AZ)" },
        { "name": "AZ_INDEX", "valueFrom": field },
        { "name": "BOSH_AZ", "value": "theirs" },
        { "name": "OWN", "valueFrom": field },
    ]);
    given["spec"]["template"]["spec"]["initContainers"][0]["env"] = Value::Null;
    let cluster = started(Group::StsPlus, json!({ "template": given, "zones": ["z1"] }));
    let ours = [
        json!({ "name": "KUBE_AZ", "value": "z1" }),
        json!({ "name": "BOSH_AZ", "value": "z1" }),
        json!({ "name": "CF_OPERATOR_AZ", "value": "z1" }),
        json!({ "name": "AZ_INDEX", "value": "1" }),
    ];
    let env =
        |list: &str| cluster.live("foo-z0").pointer(&format!("/spec/template/spec/{list}/0/env")).unwrap();
    let theirs =
        [json!({ "name": "USES", "value": "$(KUBE_AZ)" }), json!({ "name": "OWN", "valueFrom": field })];
    assert_eq!(*env("containers"), json!([&ours[..], &theirs[..]].concat()));
    assert_eq!(*env("initContainers"), json!(ours));
}

#[test]
fn d_c12_an_environment_that_is_no_list_is_left_for_the_api_server_to_refuse() {
    let mut given = template("a", 1);
    given["spec"]["template"]["spec"]["containers"][0]["env"] = json!("text");
    let cluster = started(Group::Fissile, json!({ "template": given }));
    assert_eq!(cluster.live("foo-v1").pointer("/spec/template/spec/containers/0/env").unwrap(), "text");
}

#[test]
fn d_c8_a_pod_template_with_an_empty_metadata_gets_its_labels() {
    let mut given = template("a", 1);
    given["spec"]["template"]["metadata"] = Value::Null;
    let cluster = started(Group::StsPlus, json!({ "template": given }));
    assert_eq!(
        cluster.live("foo")["spec"]["template"]["metadata"]["labels"]["sts.plus/extendedstatefulset-name"],
        "foo"
    );
}

#[test]
fn d_c11_fields_that_the_template_no_longer_has_get_their_default_again() {
    let mut given = template("a", 1);
    given["spec"]["minReadySeconds"] = json!(5);
    given["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({ "whenDeleted": "Delete" });
    let mut cluster = started(Group::StsPlus, json!({ "template": given }));
    assert_eq!(cluster.live("foo")["spec"]["minReadySeconds"], 5);
    cluster.edit(json!({ "template": template("a", 1) }));
    cluster.settle();
    let spec = &cluster.live("foo")["spec"];
    assert_eq!((spec.get("minReadySeconds"), spec.get("persistentVolumeClaimRetentionPolicy")), (None, None));
}

#[test]
fn d_a_headless_service_that_is_added_later_blocks_no_update() {
    let mut cluster = started(Group::StsPlus, json!({ "template": with_ports(), "services": {} }));
    cluster.set_field("/services", json!({ "headless": "peers" }));
    cluster.settle();
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.condition("Ready"), Some((true, "AsRequested".to_owned())));
    assert_eq!(cluster.live("foo")["spec"].get("serviceName"), None);
    let cluster =
        started(Group::StsPlus, json!({ "template": with_ports(), "services": { "headless": "peers" } }));
    assert_eq!(cluster.live("foo")["spec"]["serviceName"], "peers");
}

#[test]
fn d_services_have_the_ports_of_all_containers_each_once() {
    let spec = json!({ "template": with_ports(), "zones": ["z1", "z2"], "services": { "headless": "peers", "perReplica": true, "active": "live" } });
    let mut cluster = started(Group::StsPlus, spec);
    let names: Vec<_> = cluster.services.keys().map(String::as_str).collect();
    assert_eq!(names, ["foo-z0-0", "foo-z0-1", "foo-z1-0", "foo-z1-1", "live", "peers"]);
    let spec = &cluster.services["peers"].1["spec"];
    assert_eq!(spec["clusterIP"], "None");
    let port = |name: &str, port: u32, protocol: &str| json!({ "name": name, "port": port, "targetPort": port, "protocol": protocol });
    assert_eq!(
        spec["ports"],
        json!([port("http", 80, "TCP"), port("udp-53", 53, "UDP"), port("tcp-53", 53, "TCP")])
    );
    assert_eq!(cluster.endpoints("foo-z1-0"), ["foo-z1-0"]);
    // Without versions of their own all pods serve.
    assert_eq!(cluster.endpoints("live").len(), 4);
    // Those that are no longer asked for are deleted, and nothing else.
    let mut foreign = cluster.services["live"].clone();
    foreign.0.owner = Some("uid-another".into());
    foreign.0.name = "foreign".into();
    cluster.services.insert("foreign".to_owned(), foreign);
    cluster.set_field("/services", json!({ "active": "live" }));
    cluster.set_field("/template/spec/replicas", json!(1));
    cluster.settle();
    assert_eq!(cluster.services.keys().map(String::as_str).collect::<Vec<_>>(), ["foreign", "live"]);
}

#[test]
fn d_ports_of_one_name_in_several_containers_have_different_names_in_a_service() {
    let container = |name: &str, ports: Value| json!({ "name": name, "image": "app:v1", "ports": ports });
    let port = |name: &str, number: u32| json!({ "name": name, "containerPort": number });
    let containers = json!([
        container("main", json!([port("http", 80), { "containerPort": 81 }])),
        container("admin", json!([port("http", 82), port("tcp-81", 83), port("tcp-84", 85)])),
        container("more", json!([{ "containerPort": 84 }, port("http", 80)])),
    ]);
    let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    let cluster =
        started(Group::StsPlus, json!({ "template": template, "services": { "headless": "peers" } }));
    let ports = cluster.services["peers"].1["spec"]["ports"].clone();
    let ports: Vec<_> = ports
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (port["name"].as_str().unwrap(), port["port"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        ports,
        [("http", 80), ("tcp-81", 81), ("tcp-82", 82), ("tcp-83", 83), ("tcp-84", 85), ("tcp-84-2", 84)]
    );
}

#[test]
fn d_a_service_that_somebody_edits_is_restored() {
    let spec = json!({
        "template": with_ports(), "services": { "active": "live" },
        "activeProbe": { "main": { "tcpSocket": { "port": 80 } } },
    });
    for group in Group::ALL {
        let cluster = started(group, spec.clone());
        let written = cluster.services["live"].1["spec"].clone();
        let designation = group.key("pod-designation");
        for edit in [
            json!({ "selector": { &designation: null } }),
            json!({ "selector": { &designation: "passive" } }),
            json!({ "selector": { "app": "another" } }),
            json!({ "ports": [{ "name": "http", "port": 81 }] }),
            json!({ "ports": null }),
        ] {
            let mut cluster = cluster.clone();
            cluster.edit_service("live", &json!({ "spec": edit }));
            cluster.settle();
            assert_eq!(cluster.services["live"].1["spec"], written, "after {edit}");
        }
        // What is not decided here stays, also what the server adds to a port.
        let mut cluster = cluster;
        let mut ports = written["ports"].clone();
        ports[0]["nodePort"] = json!(30_000);
        cluster.edit_service("live", &json!({ "spec": { "type": "NodePort", "ports": ports } }));
        assert_eq!(cluster.pass_of(usize::MAX), 0);
    }
}

#[test]
fn d_a_service_that_becomes_headless_is_created_again() {
    let mut cluster =
        started(Group::StsPlus, json!({ "template": with_ports(), "services": { "active": "peers" } }));
    cluster.set_field("/services", json!({ "headless": "peers" }));
    cluster.settle();
    assert_eq!(cluster.services["peers"].1["spec"]["clusterIP"], "None");
    cluster.set_field("/services", json!({ "active": "peers" }));
    cluster.settle();
    assert_eq!(cluster.services["peers"].1["spec"].get("clusterIP"), None);
}

#[test]
fn d_without_ports_no_service_is_created() {
    let cluster =
        started(Group::StsPlus, json!({ "template": template("a", 1), "services": { "headless": "peers" } }));
    assert!(cluster.services.is_empty());
}

#[test]
fn d_a13_the_active_service_selects_the_label_where_there_is_a_probe() {
    let spec = json!({
        "template": with_ports(), "zones": ["z1", "z2"], "services": { "active": "live" },
        "activeProbe": { "main": { "tcpSocket": { "port": 80 } } },
    });
    for group in Group::ALL {
        let mut cluster = started(group, spec.clone());
        assert_eq!(cluster.endpoints("live").len(), 1);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.endpoints("live").len(), 1);
    }
}
