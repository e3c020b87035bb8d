use serde_json::json;

use super::*;

fn policy(name: &str, version: u32, target: &str) -> ScalingRow {
    let object = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string() },
        "spec": { "targetRef": { "name": target } }
    });
    let decoded = wire::scaling(&object.to_string(), &mut Interner::default());
    decoded.unwrap().row.unwrap()
}

fn names(touched: &[Touched]) -> Vec<String> {
    let mut names: Vec<_> = touched
        .iter()
        .map(|touched| match touched {
            Touched::Scaling { name, .. } => name.to_string(),
            _ => panic!("a policy touches policies only"),
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_set_concerns_the_policies_that_name_it() {
    let mut scaling = Scaling::default();
    assert_eq!(names(&scaling.about(&"ns".into(), &"db".into())), [""; 0]);
    scaling.insert(policy("a", 1, "db"));
    scaling.insert(policy("b", 1, "db"));
    scaling.insert(policy("c", 1, "web"));
    assert_eq!(names(&scaling.about(&"ns".into(), &"db".into())), ["a", "b"]);
    assert_eq!(names(&scaling.about(&"other".into(), &"db".into())), [""; 0]);
    scaling.take_out(&("ns".into(), "a".into()));
    assert_eq!(names(&scaling.about(&"ns".into(), &"db".into())), ["b"]);
}

#[test]
fn others_hear_of_a_policy_that_comes_or_goes_but_not_of_its_status() {
    let mut scaling = Scaling::default();
    scaling.insert(policy("a", 1, "db"));
    assert_eq!(names(&scaling.insert(policy("b", 2, "db"))), ["a", "b"]);
    assert_eq!(names(&scaling.insert(policy("b", 3, "db"))), ["b"], "only its version is another one");
    assert_eq!(names(&scaling.insert(policy("b", 2, "db"))), [""; 0], "it is older");
    assert_eq!(names(&scaling.insert(ScalingRow { deleting: true, ..policy("a", 5, "db") })), ["a", "b"]);
    assert_eq!(names(&scaling.take_out(&("ns".into(), "a".into()))), ["a", "b"]);
    assert_eq!(scaling.lines.len(), 1);
    scaling.take_out(&("ns".into(), "b".into()));
    assert!(scaling.lines.is_empty());
}

#[test]
fn of_many_for_one_set_the_first_hear_of_it_and_each_knows_those() {
    let mut scaling = Scaling::default();
    for number in 0..100 {
        scaling.insert(policy(&format!("p{number:02}"), 1, "db"));
    }
    let others = |name: &str| -> Vec<_> {
        let others = scaling.others(&policy(name, 1, "db")).into_iter();
        others.map(|row| row.name.to_string()).collect()
    };
    assert_eq!(others("p99"), ["p00", "p01", "p02", "p03", "p04", "p05", "p06", "p07"]);
    assert_eq!(others("p00"), ["p01", "p02", "p03", "p04", "p05", "p06", "p07"]);
    assert_eq!(names(&scaling.about(&"ns".into(), &"db".into())).len(), FRONT);
    assert_eq!(names(&scaling.take_out(&("ns".into(), "p50".into()))), ["p50"]);
    let moved_up = names(&scaling.take_out(&("ns".into(), "p00".into())));
    assert!(moved_up.contains(&"p08".to_owned()), "{moved_up:?}");
}

#[test]
fn a_change_of_the_set_reaches_its_policy() {
    let store = Store::default();
    let object = json!({
        "metadata": { "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "1" },
        "spec": { "targetRef": { "name": "db" } }
    });
    store.upsert(Kind::ScalingPolicy, &object.to_string());
    let set = json!({
        "metadata": { "name": "db", "namespace": "ns", "uid": "uid-db", "resourceVersion": "2" },
        "spec": { "selector": { "matchLabels": { "app": "db" } }, "template": {} }
    });
    let applied = store.upsert(Kind::StatefulSet, &set.to_string());
    assert!(applied.touched.contains(&touched(&"ns".into(), &"a".into())), "{applied:?}");
    let row = store.scaling(&"ns".into(), &"a".into()).unwrap();
    assert_eq!(store.all_scaling(), [Arc::clone(&row)]);
    assert!(store.scaling_others(&row).is_empty());
    store.remove(Kind::ScalingPolicy, &object.to_string());
    assert!(store.scaling(&"ns".into(), &"a".into()).is_none());
}

#[test]
fn a_the_policies_of_an_object_are_those_that_it_controls_and_those_named_like_its_sets() {
    let store = Store::default();
    let mut version = 0;
    let mut put = |name: &str, owner: Option<&str>| {
        version += 1;
        let owners =
            owner.map(|uid| json!([{ "kind": "ExtendedStatefulSet", "uid": uid, "controller": true }]));
        let labels = json!({ "sts.plus/extendedstatefulset-name": "db" });
        let object = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
                "labels": labels, "ownerReferences": owners,
            },
            "spec": { "targetRef": { "name": name } },
        });
        store.upsert(Kind::ScalingPolicy, &object.to_string());
        object
    };
    let of = |sets: &[&str]| {
        let sets: Vec<Arc<str>> = sets.iter().map(|set| (*set).into()).collect();
        let found = store.scaling_of((&"ns".into(), &"o1".into()), sets.iter());
        found.iter().map(|row| row.name.to_string()).collect::<Vec<_>>()
    };
    put("db-z0", Some("o1"));
    put("db-z1", Some("o2"));
    put("web", None);
    assert_eq!(of(&[]), ["db-z0"]);
    assert_eq!(of(&["db-z0", "db-z1", "none"]), ["db-z0", "db-z1"]);
    let row = store.scaling(&"ns".into(), &"db-z0".into()).unwrap();
    assert_eq!((&*row.controller, row.created_for.as_ref().map(|(_, name)| &**name)), ("o1", Some("db")));
    // One that is orphaned is nobody's.
    put("db-z0", None);
    assert_eq!(of(&[]), [""; 0]);
    let own = put("db-z0", Some("o1"));
    store.remove(Kind::ScalingPolicy, &own.to_string());
    assert_eq!(of(&["db-z0"]), [""; 0]);
}

#[test]
fn a_policy_wakes_the_object_whose_set_may_have_its_name() {
    let store = Store::default();
    let extended = json!({
        "metadata": { "name": "db", "namespace": "ns", "uid": "o1", "resourceVersion": "1", "generation": 1 },
        "spec": { "template": {} },
    });
    store.upsert(Kind::Extended, &extended.to_string());
    for (name, is_woken) in
        [("db", true), ("db-z1", true), ("db-z1-v3", true), ("db-x", false), ("other", false)]
    {
        let woken = store.extended_of(&touched(&"ns".into(), &name.into()));
        assert_eq!(!woken.is_empty(), is_woken, "{name}");
    }
}
