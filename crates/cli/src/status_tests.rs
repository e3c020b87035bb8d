use serde_json::{Value, json};
use sts_plus_operator::view::{Extended, Group, LoneSet, Rollout, Scaling, Set, View};

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
        extended: vec![Extended {
            name: "db".to_owned(),
            rollout_group: Some("db.ests".to_owned()),
            ..Extended::default()
        }],
        scaling: vec![Scaling { name: "scaled".to_owned(), ..Scaling::default() }],
        sets: vec![LoneSet::default()],
        ..View::default()
    }
}

#[test]
fn the_json_is_one_array_of_groups_then_rollouts_then_extended_stateful_sets_then_policies() {
    let view = view();
    let json = serde_json::to_value(sections(&view, None)).unwrap();
    let keys = ["group", "phasedRollout", "extendedStatefulSet", "scalingPolicy"];
    let named = |element: &Value| keys.map(|key| element[key].as_str().unwrap_or_default().to_owned());
    let elements: Vec<_> = json.as_array().unwrap().iter().map(named).collect();
    let expected = [
        ["one", "", "", ""],
        ["two", "", "", ""],
        ["", "gated", "", ""],
        ["", "", "db", ""],
        ["", "", "", "scaled"],
    ];
    assert_eq!(elements, expected);
    assert_eq!(json[0]["sets"][0]["name"], "one-zone-a");
}

#[test]
fn one_group_is_shown_alone_also_where_zones_form_it() {
    let view = view();
    let shown = |group: &str| serde_json::to_value(sections(&view, Some(group))).unwrap();
    let json = shown("two");
    assert_eq!((json.as_array().unwrap().len(), &json[0]["group"]), (1, &json!("two")));
    let json = shown("db.ests");
    assert_eq!((json.as_array().unwrap().len(), &json[0]["extendedStatefulSet"]), (1, &json!("db")));
}
