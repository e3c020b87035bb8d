use serde_json::json;

use super::*;

#[test]
fn text_selectors_select_by_label() {
    let object = json!({ "metadata": { "labels": { "app": "db", "n": "5", "empty": "" } } });
    for (text, matches) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("old", false),
        ("!old", true),
        ("app=db", true),
        ("app==db", true),
        ("app!=db", false),
        ("old!=x", true),
        ("app in (db, web)", true),
        ("app notin (db)", false),
        ("old notin (db)", true),
        ("n>4", true),
        ("n<5", false),
        ("empty=", true),
        ("app=db,n=5", true),
        ("app=db,n=6", false),
        (" app = db , n in (5) ", true),
    ] {
        assert_eq!(Selector::parse(text).unwrap().matches(&object), matches, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_the_words_of_kubernetes() {
    for (text, why) in [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ] {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), why, "{text}");
    }
}

#[test]
fn json_selectors_select_by_label() {
    let labels = json!({ "app": "db", "tier": "a" });
    let selects = |selector| Selector::from_json(&selector).unwrap().matches_labels(&labels);
    assert!(selects(json!({ "matchLabels": { "app": "db" } })));
    assert!(!selects(json!({ "matchLabels": { "app": "web" } })));
    let expression = |operator, values: &[&str]| json!({ "matchExpressions": [{ "key": "tier", "operator": operator, "values": values }] });
    assert!(selects(expression("In", &["a", "b"])));
    assert!(!selects(expression("NotIn", &["a"])));
    assert!(selects(expression("Exists", &[])));
    assert!(!selects(expression("DoesNotExist", &[])));
    assert_eq!(Selector::from_json(&expression("Near", &[])), None);
}

#[test]
fn a_selector_is_written_as_a_scale_shows_it() {
    let selector = json!({
        "matchLabels": { "b": "2", "a": "1" },
        "matchExpressions": [
            { "key": "c", "operator": "In", "values": ["y", "x", "x"] },
            { "key": "d", "operator": "NotIn", "values": ["z"] },
        ],
    });
    assert_eq!(Selector::from_json(&selector).unwrap().to_string(), "a=1,b=2,c in (x,x,y),d notin (z)");
    assert_eq!(Selector::parse("c in (y,x,x),b==2,d!=4").unwrap().to_string(), "b=2,c in (x,y),d!=4");
}
