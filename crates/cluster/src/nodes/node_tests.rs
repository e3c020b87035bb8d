use serde_json::json;

use super::super::pod::tests::pod_with;
use super::super::pod::{Binding, Pod};
use super::*;

fn three_zones() -> Nodes {
    Nodes {
        all: ["a", "b", "c"].map(|zone| Node::new(format!("n-{zone}"), zone)).into(),
        lost: BTreeSet::new(),
    }
}

fn wants(spec: &Value) -> Wants {
    let mut pod = json!({ "spec": { "nodeName": null } });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let Pod { binding: Binding::Unbound(wants), .. } = pod_with(pod) else {
        panic!("the pod is not to be placed")
    };
    wants
}

fn affinity(terms: &Value) -> Value {
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    json!({ "affinity": { "nodeAffinity": required } })
}

fn zone(operator: &str, values: &[&str]) -> Value {
    json!({ "matchExpressions": [{ "key": "topology.kubernetes.io/zone", "operator": operator, "values": values }] })
}

#[test]
fn pods_go_only_where_selector_and_affinity_allow() {
    let nodes = three_zones();
    for (spec, expected) in [
        (json!({}), vec!["n-a", "n-b", "n-c"]),
        (json!({ "nodeSelector": { "topology.kubernetes.io/zone": "b" } }), vec!["n-b"]),
        (json!({ "nodeSelector": { "kubernetes.io/hostname": "n-c", "type": "hollow" } }), vec!["n-c"]),
        (json!({ "nodeSelector": { "disk": "ssd" } }), vec![]),
        (affinity(&json!([zone("In", &["a", "b"])])), vec!["n-a", "n-b"]),
        (affinity(&json!([zone("NotIn", &["a"])])), vec!["n-b", "n-c"]),
        (affinity(&json!([zone("Exists", &[])])), vec!["n-a", "n-b", "n-c"]),
        (affinity(&json!([zone("DoesNotExist", &[])])), vec![]),
        (affinity(&json!([zone("Gt", &["1"])])), vec![]),
        (affinity(&json!([zone("In", &["a"]), zone("In", &["c"])])), vec!["n-a", "n-c"]),
        (affinity(&json!([{}])), vec![]),
        (affinity(&json!([])), vec![]),
        (
            affinity(&json!([{ "matchExpressions": [
            { "key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a", "b"] },
            { "key": "disk", "operator": "NotIn", "values": ["slow"] },
        ] }])),
            vec!["n-a", "n-b"],
        ),
        (
            affinity(
                &json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n-b"] }] }]),
            ),
            vec!["n-b"],
        ),
    ] {
        let wants = wants(&spec);
        let chosen: BTreeSet<&str> = (0..30)
            .filter_map(|ordinal| Some(nodes.choose(&wants, &format!("web-{ordinal}")).ok()?.name.as_str()))
            .collect();
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), expected, "{spec}");
    }
}

#[test]
fn neighbours_are_spread_and_a_name_keeps_its_node() {
    let nodes = three_zones();
    let wants = Wants::default();
    let place = |pod: &str| nodes.choose(&wants, pod).unwrap().name.clone();
    for set in ["web", "db", "cache-zone-a"] {
        let placed: BTreeSet<String> = (0..3).map(|ordinal| place(&format!("{set}-{ordinal}"))).collect();
        assert_eq!(placed.len(), 3, "{set}: {placed:?}");
        assert_eq!(place(&format!("{set}-0")), place(&format!("{set}-3")));
    }
    assert_eq!(place("job-7f9c"), place("job-7f9c"));
}

#[test]
fn lost_nodes_take_no_pods() {
    let mut nodes = three_zones();
    nodes.lost = ["n-a".to_owned(), "n-b".to_owned()].into();
    assert_eq!(nodes.choose(&Wants::default(), "web-0").unwrap().name, "n-c");
    let refused =
        nodes.choose(&wants(&json!({ "nodeSelector": { "topology.kubernetes.io/zone": "a" } })), "web-0");
    assert_eq!(
        refused.unwrap_err(),
        "0/3 nodes are available: 2 node(s) are lost, 1 node(s) didn't match Pod's node affinity/selector."
    );
    assert!(Nodes::default().choose(&Wants::default(), "web-0").is_err());
}

#[test]
fn a_node_is_announced_ready_with_its_zone_and_as_lost_when_it_is() {
    let mut nodes = three_zones();
    let node = nodes.all[1].clone();
    let calls = nodes.announce(&node, "now");
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(paths, ["/api/v1/nodes", "/api/v1/nodes/n-b", "/api/v1/nodes/n-b/status"]);
    assert_eq!(calls[0].body["metadata"]["labels"]["topology.kubernetes.io/zone"], "b");
    assert_eq!(calls[1].body["spec"], json!({ "taints": null }));
    let ready = |calls: &[Call]| {
        let conditions = calls[2].body["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap()["status"].clone()
    };
    assert_eq!(ready(&calls), "True");
    assert_eq!(
        calls[2].body["status"]["addresses"][0],
        json!({ "type": "InternalIP", "address": "10.127.0.2" })
    );

    nodes.lost.insert("n-b".to_owned());
    let calls = nodes.announce(&node, "now");
    assert_eq!(ready(&calls), "Unknown");
    assert_eq!(calls[1].body["spec"]["taints"].as_array().unwrap().len(), 2);
}
