use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::rollout_group::overlaps;

use super::{Store, Touched, is_older};
use crate::shell::api::Kind;

fn set_json(name: &str, group: Option<&str>, version: u32) -> String {
    let labels = group.map(|group| json!({ "rollout-group": group }));
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "labels": labels
        },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } } },
            "updateStrategy": { "type": "OnDelete" }
        }
    })
    .to_string()
}

fn pod_json(set: &str, ordinal: u32, version: u32) -> Value {
    json!({
        "metadata": {
            "name": format!("{set}-{ordinal}"), "namespace": "ns", "uid": format!("uid-{set}-{ordinal}"),
            "resourceVersion": version.to_string(), "labels": { "app": set },
            "ownerReferences": [{ "kind": "StatefulSet", "uid": format!("uid-{set}"), "controller": true }]
        }
    })
}

fn touched(set: &str, group: Option<&str>) -> Touched {
    Touched::Set { namespace: "ns".into(), set: set.into(), group: group.map(Into::into) }
}

fn members(store: &Store, group: &str) -> Vec<(String, usize)> {
    let members = store.group(&Arc::from("ns"), &Arc::from(group));
    members.iter().map(|member| (member.set.name.to_string(), member.pods.len())).collect()
}

#[test]
fn pods_are_found_by_their_sets_whichever_comes_first() {
    let store = Store::default();
    store.upsert(Kind::Pod, &pod_json("a", 0, 1).to_string());
    assert!(members(&store, "g").is_empty());
    let applied = store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 2));
    assert_eq!(applied.touched, [touched("a", Some("g"))]);
    assert_eq!(members(&store, "g"), [("a".to_owned(), 1)]);
    let applied = store.upsert(Kind::Pod, &pod_json("a", 1, 3).to_string());
    assert_eq!(applied.touched, [touched("a", Some("g"))]);
    assert_eq!(members(&store, "g"), [("a".to_owned(), 2)]);
}

#[test]
fn a_set_that_changes_groups_touches_both() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 1));
    let applied = store.upsert(Kind::StatefulSet, &set_json("a", Some("h"), 2));
    assert_eq!(applied.touched, [touched("a", Some("g")), touched("a", Some("h"))]);
    assert!(members(&store, "g").is_empty());
    let applied = store.upsert(Kind::StatefulSet, &set_json("a", None, 3));
    assert_eq!(applied.touched, [touched("a", Some("h")), touched("a", None)]);
    assert!(store.groups().is_empty());
}

#[test]
fn a_change_wakes_the_rollouts_of_the_set_and_of_the_other_sets_of_its_group() {
    let store = Store::default();
    let rollout = |name: &str, set: &str| {
        let metadata = json!({ "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" });
        json!({ "metadata": metadata, "spec": { "targetRef": set } }).to_string()
    };
    for (name, set) in [("of-a", "a"), ("of-b", "b"), ("of-c", "c"), ("of-d", "d")] {
        store.upsert(Kind::PhasedRollout, &rollout(name, set));
    }
    for (set, group) in [("a", Some("g")), ("b", Some("g")), ("c", Some("h")), ("d", None)] {
        store.upsert(Kind::StatefulSet, &set_json(set, group, 2));
    }
    let woken = |json: &str, resource| {
        let mut woken: Vec<_> = store.upsert(resource, json).touched;
        woken.retain(|touched| matches!(touched, Touched::Rollout { .. }));
        woken
    };
    let rollout = |name: &str| Touched::Rollout { namespace: "ns".into(), name: name.into() };
    let both = [rollout("of-a"), rollout("of-b")];
    assert_eq!(woken(&pod_json("a", 0, 3).to_string(), Kind::Pod), both);
    assert_eq!(woken(&set_json("a", Some("g"), 4), Kind::StatefulSet), both);
    assert_eq!(woken(&pod_json("d", 0, 5).to_string(), Kind::Pod), [rollout("of-d")]);
    // It leaves its group: nobody there waits for it any more.
    assert!(woken(&set_json("a", None, 6), Kind::StatefulSet).contains(&rollout("of-b")));
}

/// Each event of a group of thousands would be looked at for each of its sets while the rows are locked.
#[test]
fn in_a_group_of_too_many_sets_a_change_wakes_nobody_elses_rollout_until_one_leaves() {
    let store = Store::default();
    let metadata = json!({ "name": "of-n000", "namespace": "ns", "uid": "r", "resourceVersion": "1" });
    let rollout = json!({ "metadata": metadata, "spec": { "targetRef": "n000" } });
    store.upsert(Kind::PhasedRollout, &rollout.to_string());
    for number in 0..=MAX_MEMBERS {
        store.upsert(Kind::StatefulSet, &set_json(&format!("n{number:03}"), Some("g"), 2));
    }
    assert_eq!(store.group_sets(&"ns".into(), &"g".into()), MAX_MEMBERS + 1);
    let woken = |applied: super::Applied| {
        applied.touched.iter().any(|touched| matches!(touched, Touched::Rollout { .. }))
    };
    assert!(!woken(store.upsert(Kind::Pod, &pod_json("n001", 0, 3).to_string())));
    assert!(woken(store.upsert(Kind::Pod, &pod_json("n000", 0, 4).to_string())), "its own set");
    assert!(woken(store.remove(Kind::StatefulSet, &set_json("n002", Some("g"), 5))), "one leaves");
    assert!(woken(store.upsert(Kind::Pod, &pod_json("n001", 0, 6).to_string())));
}

#[test]
fn an_object_at_the_version_that_is_known_wakes_nobody() {
    let store = Store::default();
    let metadata = json!({ "name": "r", "namespace": "ns", "uid": "r", "resourceVersion": "1" });
    let rollout = json!({ "metadata": metadata, "spec": { "targetRef": "a" } }).to_string();
    for (resource, object) in [
        (Kind::StatefulSet, set_json("a", Some("g"), 2)),
        (Kind::Pod, pod_json("a", 0, 3).to_string()),
        (Kind::PhasedRollout, rollout),
    ] {
        assert!(!store.upsert(resource, &object).touched.is_empty(), "{resource}");
        assert!(store.upsert(resource, &object).touched.is_empty(), "{resource}");
    }
}

#[test]
fn an_empty_label_is_a_group_of_its_own() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some(""), 1));
    store.upsert(Kind::StatefulSet, &set_json("b", Some(""), 1));
    assert_eq!(members(&store, "").len(), 2);
}

#[test]
fn a_row_never_goes_back_in_time() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 1));
    store.upsert(Kind::Pod, &pod_json("a", 0, 10).to_string());
    let stale = store.upsert(Kind::Pod, &pod_json("a", 0, 9).to_string());
    assert!(stale.touched.is_empty());
    let members = store.group(&Arc::from("ns"), &Arc::from("g"));
    assert_eq!(&*members[0].pods[0].resource_version, "10");
    assert!(is_older("9", "10") && !is_older("10", "9") && !is_older("x", "10"));
}

#[test]
fn a_complete_list_sweeps_what_it_did_not_contain_in_its_scope_only() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 1));
    store.upsert(Kind::Pod, &pod_json("a", 0, 2).to_string());
    let kept = store.upsert(Kind::Pod, &pod_json("a", 1, 3).to_string()).name.expect("named");
    assert!(store.sweep(Kind::Pod, Some("other"), (&HashSet::new(), "99")).is_empty());
    let swept = store.sweep(Kind::Pod, Some("ns"), (&HashSet::from([kept]), "99"));
    assert_eq!(swept, [touched("a", Some("g"))]);
    assert_eq!(members(&store, "g"), [("a".to_owned(), 1)]);
}

#[test]
fn a_pod_that_is_released_or_unreadable_is_a_missing_one() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 1));
    let mut pod = pod_json("a", 0, 2);
    store.upsert(Kind::Pod, &pod.to_string());
    pod["metadata"]["ownerReferences"] = json!([]);
    pod["metadata"]["resourceVersion"] = json!("3");
    let applied = store.upsert(Kind::Pod, &pod.to_string());
    assert_eq!(applied.touched, [touched("a", Some("g"))]);
    assert_eq!(members(&store, "g"), [("a".to_owned(), 0)]);

    store.upsert(Kind::Pod, &pod_json("a", 1, 4).to_string());
    let mut broken = pod_json("a", 1, 5);
    broken["status"] = json!("what");
    let applied = store.upsert(Kind::Pod, &broken.to_string());
    assert!(applied.undecodable.is_some());
    assert_eq!(members(&store, "g"), [("a".to_owned(), 0)]);
}

#[test]
fn sets_that_select_the_same_pods_are_found() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &set_json("a", Some("g"), 1));
    let twin = set_json("b", Some("h"), 2).replace("\"app\":\"b\"", "\"app\":\"a\"");
    store.upsert(Kind::StatefulSet, &twin);
    store.upsert(Kind::StatefulSet, &set_json("c", None, 3).replace("\"app\":\"c\"", "\"app\":\"a\""));
    let members = store.group(&Arc::from("ns"), &Arc::from("g"));
    let grouped = store.grouped(&Arc::from("ns"));
    assert_eq!(grouped.len(), 2, "one is in no group");
    let overlaps = overlaps(&members, &grouped);
    assert_eq!(overlaps.len(), 1);
    assert_eq!((&*overlaps[0].set, &*overlaps[0].other), ("a", "b"));
}

fn marked_json(name: &str, mark: Option<&str>, version: u32) -> String {
    let mut set: Value = serde_json::from_str(&set_json(name, None, version)).unwrap();
    if let Some(mark) = mark {
        set["metadata"]["annotations"] = json!({ "sts.plus/phasedRollout": mark });
    }
    set.to_string()
}

fn rollout_json(name: &str, target: &str) -> String {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
        "spec": { "targetRef": target, "check": { "query": { "expr": "up", "url": "http://prom" } } }
    })
    .to_string()
}

#[test]
fn sets_are_found_by_the_mark_that_they_carry_whoever_comes_first() {
    let store = Store::default();
    let held = |store: &Store| {
        let rollout = store.rollout(&"ns".into(), &"gated".into()).unwrap();
        store.held(&rollout).iter().map(|set| set.name.to_string()).collect::<Vec<_>>()
    };
    store.upsert(Kind::StatefulSet, &marked_json("b", Some("gated"), 1));
    store.upsert(Kind::PhasedRollout, &rollout_json("gated", "b"));
    assert_eq!(held(&store), ["b"]);
    let rollout = Touched::Rollout { namespace: "ns".into(), name: "gated".into() };
    let applied = store.upsert(Kind::StatefulSet, &marked_json("a", Some("gated"), 2));
    assert!(applied.touched.contains(&rollout), "its mark makes the set the rollout's business");
    assert_eq!(held(&store), ["a", "b"]);
    let applied = store.upsert(Kind::StatefulSet, &marked_json("a", None, 3));
    assert!(applied.touched.contains(&rollout), "and so does the loss of it");
    assert_eq!(held(&store), ["b"]);
    store.remove(Kind::StatefulSet, &marked_json("b", Some("gated"), 4));
    assert_eq!(held(&store), [""; 0]);
}

#[test]
fn who_waits_for_a_set_that_carries_a_mark_is_a_rival_of_whoever_marked_it() {
    let store = Store::default();
    store.upsert(Kind::StatefulSet, &marked_json("a", Some("gated"), 1));
    store.upsert(Kind::PhasedRollout, &rollout_json("gated", "b"));
    store.upsert(Kind::PhasedRollout, &rollout_json("next", "a"));
    let rollout = store.rollout(&"ns".into(), &"gated".into()).unwrap();
    let rivals: Vec<_> = store.rivals(&rollout).iter().map(|rival| rival.name.to_string()).collect();
    assert_eq!(rivals, ["next"]);
}
