use serde_json::json;

use super::*;

/// Nodes `a1`, `a2`, `b1`, `c1` in zones a, b and c; `c1` has a number.
fn nodes() -> Nodes {
    ["a1", "a2", "b1", "c1"].map(|name| (name.to_owned(), Stored::new(node(name)))).into()
}

fn node(name: &str) -> Value {
    let mut labels = json!({ "zone": name[..1], "host": name });
    if name == "c1" {
        labels["size"] = json!("8");
    }
    json!({ "metadata": { "name": name, "labels": labels } })
}

fn pod(name: &str, app: &str, node: &str, spec: &Value) -> Arc<Stored> {
    let mut pod = json!({
        "metadata": { "namespace": "db", "name": name, "labels": { "app": app } },
        "spec": { "nodeName": node },
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    Stored::new(pod)
}

fn placed(pods: &[(&str, &str)]) -> Placed {
    let mut placed = Placed::default();
    for (at, (app, node)) in pods.iter().enumerate() {
        placed.see(&pod(&format!("{app}-{at}"), app, node, &json!({})));
    }
    placed
}

fn place_one(spec: &Value, nodes: &Nodes, pods: &Placed) -> Result<String, String> {
    place_with(spec, nodes, pods, &[])
}

fn place_with(spec: &Value, nodes: &Nodes, pods: &Placed, needs: &[Need]) -> Result<String, String> {
    let namespaces = json!({ "metadata": { "name": "other", "labels": { "team": "x" } } });
    let namespaces = Nodes::from([("other".to_owned(), Stored::new(namespaces))]);
    place(&pod("new", "web", "", spec), nodes, pods, needs, &namespaces).map_err(|why| why.to_string())
}

fn required(expressions: &Value) -> Value {
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": expressions }] });
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })
}

#[test]
fn the_emptiest_node_takes_a_pod_then_the_first() {
    let free = json!({});
    assert_eq!(place_one(&free, &nodes(), &placed(&[])).unwrap(), "a1");
    assert_eq!(place_one(&free, &nodes(), &placed(&[("x", "a1"), ("x", "a2")])).unwrap(), "b1");
    let everywhere = [("x", "a1"), ("x", "a2"), ("x", "b1"), ("x", "c1"), ("x", "a1")];
    assert_eq!(place_one(&free, &nodes(), &placed(&everywhere)).unwrap(), "a2");
}

#[test]
fn node_selectors_and_affinities_are_obeyed() {
    let expression = |key: &str, operator: &str, values: &[&str]| {
        required(&json!([{ "key": key, "operator": operator, "values": values }]))
    };
    let named = json!({ "nodeSelectorTerms": [
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["b1"] }] },
    ] });
    let named = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": named,
    } } });
    let prefers = |weight_of_c: i64| {
        let one = |zone: &str, weight: i64| {
            let preference =
                json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] });
            json!({ "weight": weight, "preference": preference })
        };
        json!({ "affinity": { "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [one("b", 10), one("c", weight_of_c)],
        } } })
    };
    for (spec, expected) in [
        (json!({ "nodeSelector": { "zone": "b" } }), "b1"),
        (expression("zone", "In", &["c"]), "c1"),
        (expression("zone", "NotIn", &["a", "b"]), "c1"),
        (expression("size", "Exists", &[]), "c1"),
        (expression("size", "DoesNotExist", &[]), "a1"),
        (expression("size", "Gt", &["7"]), "c1"),
        (expression("size", "Lt", &["9"]), "c1"),
        (named, "b1"),
        (prefers(1), "b1"),
        (prefers(100), "c1"),
    ] {
        assert_eq!(place_one(&spec, &nodes(), &placed(&[])).as_deref(), Ok(expected), "{spec}");
    }
    for spec in [expression("size", "Gt", &["8"]), json!({ "nodeSelector": { "zone": "d" } })] {
        let why = place_one(&spec, &nodes(), &placed(&[])).unwrap_err();
        assert_eq!(
            why,
            "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. preemption: 0/4 nodes \
             are available: 4 Preemption is not helpful for scheduling."
        );
    }
    assert_eq!(
        place_one(&json!({}), &Nodes::new(), &placed(&[])).unwrap_err(),
        "no nodes available to schedule pods"
    );
}

#[test]
fn taints_and_closed_nodes_keep_pods_away_that_do_not_tolerate_them() {
    let mut nodes = nodes();
    nodes.retain(|name, _| name != "a2");
    let mut taint = |name: &str, spec: Value| {
        let mut tainted = node(name);
        tainted["spec"] = spec;
        nodes.insert(name.to_owned(), Stored::new(tainted));
    };
    taint("a1", json!({ "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] }));
    taint("b1", json!({ "taints": [{ "key": "gone", "effect": "NoExecute" }] }));
    taint("c1", json!({ "unschedulable": true }));
    let tolerating = |toleration: Value| json!({ "tolerations": [toleration] });
    for (spec, expected) in [
        (
            tolerating(json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" })),
            Some("a1"),
        ),
        (tolerating(json!({ "key": "k", "value": "v" })), Some("a1")),
        (tolerating(json!({ "key": "k", "value": "w" })), None),
        (tolerating(json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" })), None),
        (tolerating(json!({ "key": "gone", "operator": "Exists", "tolerationSeconds": 5 })), Some("b1")),
        (tolerating(json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" })), Some("c1")),
        (tolerating(json!({ "operator": "Exists" })), Some("a1")),
    ] {
        let got = place_one(&spec, &nodes, &placed(&[])).ok();
        assert_eq!(got.as_deref(), expected, "{spec}");
    }
    assert_eq!(
        place_one(&json!({}), &nodes, &placed(&[])).unwrap_err(),
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). preemption: 0/3 \
         nodes are available: 3 Preemption is not helpful for scheduling."
    );
    let mut rather_not = node("a1");
    rather_not["spec"] = json!({ "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] });
    let nodes =
        Nodes::from([("a1".to_owned(), Stored::new(rather_not)), ("b1".to_owned(), Stored::new(node("b1")))]);
    assert_eq!(place_one(&json!({}), &nodes, &placed(&[("x", "b1")])).unwrap(), "b1");
}

fn spread(key: &str, how: &str, more: &Value) -> Value {
    let mut constraint = json!({
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": how,
        "labelSelector": { "matchLabels": { "app": "web" } },
    });
    constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "topologySpreadConstraints": [constraint] })
}

#[test]
fn pods_spread_over_zones_as_evenly_as_they_ask() {
    let must = spread("zone", "DoNotSchedule", &json!({}));
    let may = spread("zone", "ScheduleAnyway", &json!({}));
    // Zone a has one, though both of its nodes are emptier than the rest.
    let one_in_a = [("web", "a1"), ("x", "b1"), ("x", "b1"), ("x", "c1"), ("x", "c1")];
    assert_eq!(place_one(&must, &nodes(), &placed(&one_in_a)).unwrap(), "b1");
    assert_eq!(place_one(&may, &nodes(), &placed(&one_in_a)).unwrap(), "b1");
    let balanced = [("web", "a1"), ("web", "b1"), ("web", "c1")];
    assert_eq!(place_one(&must, &nodes(), &placed(&balanced)).unwrap(), "a2");
    let mut only_a = must.clone();
    only_a["tolerations"] = json!([]);
    only_a["nodeSelector"] = json!({ "zone": "a" });
    assert_eq!(place_one(&only_a, &nodes(), &placed(&one_in_a)).unwrap(), "a2", "other zones do not count");
    only_a["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    assert_eq!(
        place_one(&only_a, &nodes(), &placed(&one_in_a)).unwrap_err(),
        "0/4 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod \
         topology spread constraints. preemption: 0/4 nodes are available: 2 No preemption victims found for \
         incoming pod, 2 Preemption is not helpful for scheduling."
    );
    let wide = spread("zone", "DoNotSchedule", &json!({ "minDomains": 4 }));
    assert!(
        place_one(&wide, &nodes(), &placed(&balanced)).is_err(),
        "too few domains: the least counts as none"
    );
    let rack = spread("rack", "DoNotSchedule", &json!({}));
    assert!(
        place_one(&rack, &nodes(), &placed(&[]))
            .unwrap_err()
            .contains("4 node(s) didn't match pod topology spread constraints (missing required label)")
    );
    let keyed = spread("zone", "DoNotSchedule", &json!({ "matchLabelKeys": ["version"] }));
    assert_eq!(
        place_one(&keyed, &nodes(), &placed(&one_in_a)).unwrap(),
        "b1",
        "a key that the pod lacks is left out"
    );
}

fn near(kind: &str, term: &Value) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

#[test]
fn pods_keep_together_and_apart() {
    let term = |app: &str, key: &str| json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } });
    let there = || placed(&[("db", "b1"), ("web", "a1")]);
    for (spec, expected) in [
        (near("podAffinity", &term("db", "zone")), Ok("b1")),
        (near("podAffinity", &term("web", "zone")), Ok("a2")),
        (near("podAntiAffinity", &term("web", "zone")), Ok("c1")),
        (near("podAntiAffinity", &term("web", "host")), Ok("a2")),
        (near("podAffinity", &term("nobody", "zone")), Err("4 node(s) didn't match pod affinity rules")),
        (near("podAffinity", &term("db", "rack")), Err("4 node(s) didn't match pod affinity rules")),
    ] {
        match (place_one(&spec, &nodes(), &there()), expected) {
            (Ok(node), Ok(expected)) => assert_eq!(node, expected, "{spec}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (got, _) => panic!("{got:?} for {spec}"),
        }
    }
    let first = near("podAffinity", &term("web", "zone"));
    assert_eq!(
        place_one(&first, &nodes(), &placed(&[])).unwrap(),
        "a1",
        "the first of a group goes anywhere"
    );

    let mut guarded = placed(&[]);
    guarded.see(&pod("lone", "lone", "a1", &near("podAntiAffinity", &term("web", "zone"))));
    assert_eq!(place_one(&json!({}), &nodes(), &guarded).unwrap(), "b1", "who is there may keep others away");
    guarded.forget(&("db".to_owned(), "lone".to_owned()));
    assert_eq!(place_one(&json!({}), &nodes(), &guarded).unwrap(), "a1");

    let elsewhere = |namespaces: Value| {
        let mut term = term("db", "zone");
        term.as_object_mut().unwrap().extend(namespaces.as_object().unwrap().clone());
        near("podAffinity", &term)
    };
    let mut foreign = placed(&[]);
    let mut other = (*pod("db-0", "db", "c1", &json!({}))).clone();
    other["metadata"]["namespace"] = json!("other");
    foreign.see(&Stored::new(other));
    for (namespaces, expected) in [
        (json!({}), None),
        (json!({ "namespaces": ["other"] }), Some("c1")),
        (json!({ "namespaceSelector": {} }), Some("c1")),
        (json!({ "namespaceSelector": { "matchLabels": { "team": "x" } } }), Some("c1")),
        (json!({ "namespaceSelector": { "matchLabels": { "team": "y" } } }), None),
    ] {
        assert_eq!(
            place_one(&elsewhere(namespaces.clone()), &nodes(), &foreign).ok().as_deref(),
            expected,
            "{namespaces}"
        );
    }

    let wish = |kind: &str, app: &str| {
        let wish = json!([{ "weight": 1, "podAffinityTerm": term(app, "zone") }]);
        json!({ "affinity": { kind: { "preferredDuringSchedulingIgnoredDuringExecution": wish } } })
    };
    assert_eq!(place_one(&wish("podAffinity", "db"), &nodes(), &there()).unwrap(), "b1");
    assert_eq!(place_one(&wish("podAntiAffinity", "web"), &nodes(), &there()).unwrap(), "c1");
}

#[test]
fn volumes_hold_a_pod_where_they_are() {
    let zone = |zone: &str| -> Vec<Term> {
        let term = json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] }]);
        serde_json::from_value(term).unwrap()
    };
    let at = |needs: &[Need]| place_with(&json!({}), &nodes(), &placed(&[]), needs);
    assert_eq!(at(&[Need::Bound(zone("b"))]).unwrap(), "b1");
    assert_eq!(at(&[Need::Open(vec![Some(zone("c")), Some(zone("d"))])]).unwrap(), "c1");
    assert_eq!(at(&[Need::Open(vec![None])]).unwrap(), "a1");
    assert!(
        at(&[Need::Bound(zone("d"))])
            .unwrap_err()
            .contains("4 node(s) didn't match PersistentVolume's node affinity")
    );
    assert!(
        at(&[Need::Open(vec![])])
            .unwrap_err()
            .contains("4 node(s) didn't find available persistent volumes to bind")
    );
}

#[test]
fn pods_that_have_ended_do_not_count() {
    let mut pods = placed(&[("x", "a1")]);
    let mut ended = (*pod("x-0", "x", "a1", &json!({}))).clone();
    ended["status"] = json!({ "phase": "Succeeded" });
    assert!(pods.see(&Stored::new(ended)), "its place is free");
    assert_eq!(place_one(&json!({}), &nodes(), &pods).unwrap(), "a1");
}
