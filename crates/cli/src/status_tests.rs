use serde_json::json;
use sts_plus_operator::view::{Group, LoneSet, Rollout, Set, View};

use super::sections;

fn view() -> View {
    let group = |name: &str| Group {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        sets: vec![Set { name: format!("{name}-zone-a"), ..Set::default() }],
    };
    View {
        groups: vec![group("one"), group("two")],
        rollouts: vec![Rollout {
            namespace: "ns".to_owned(),
            name: "gated".to_owned(),
            ..Rollout::default()
        }],
        sets: vec![LoneSet::default()],
        ..View::default()
    }
}

#[test]
fn the_json_is_one_array_of_groups_and_then_rollouts() {
    let view = view();
    let json = serde_json::to_value(sections(&view, None)).unwrap();
    let elements: Vec<_> =
        json.as_array().unwrap().iter().map(|e| (&e["group"], &e["phasedRollout"])).collect();
    let null = &json!(null);
    assert_eq!(elements, [(&json!("one"), null), (&json!("two"), null), (null, &json!("gated"))]);
    assert_eq!(json[0]["sets"][0]["name"], "one-zone-a");
}

#[test]
fn one_group_is_shown_alone() {
    let view = view();
    let json = serde_json::to_value(sections(&view, Some("two"))).unwrap();
    assert_eq!((json.as_array().unwrap().len(), &json[0]["group"]), (1, &json!("two")));
}
