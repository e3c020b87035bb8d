use serde_json::json;

use super::*;

fn told(events: &[(&str, &str, &str, i32)]) -> Events {
    let mut all = Events::default();
    for (kind, reason, message, count) in events {
        let event = json!({
            "metadata": {}, "involvedObject": { "name": "web" }, "source": { "component": COMPONENT },
            "type": kind, "reason": reason, "message": message, "count": count,
        });
        all.take_in(serde_json::from_value(event).unwrap(), "t-space");
    }
    all
}

#[test]
fn events_in_one_are_the_same_as_events_one_by_one() {
    let single = told(&[("Normal", "Created", "a", 1), ("Normal", "Created", "b", 2)]);
    let combined = told(&[("Normal", "Created", "(combined from similar events): a; b", 3)]);
    assert_eq!(single.compare(&combined), []);
    assert_eq!(single.compare(&single), []);
}

#[test]
fn a_message_or_a_number_that_is_missing_is_noticed() {
    let theirs = told(&[("Normal", "Created", "a", 1), ("Normal", "Created", "b", 1)]);
    assert_eq!(theirs.compare(&told(&[("Normal", "Created", "a", 2)])).len(), 1);
    assert_eq!(
        theirs.compare(&told(&[("Normal", "Created", "a", 2), ("Normal", "Created", "b", 1)])).len(),
        1
    );
    assert_eq!(theirs.compare(&told(&[])).len(), 1);
    assert_eq!(told(&[]).compare(&theirs).len(), 1);
}

#[test]
fn deletions_are_counted() {
    let told = told(&[("Normal", "SuccessfulDelete", "a", 2), ("Normal", "SuccessfulDelete", "b", 1)]);
    assert_eq!(told.deletions(), 3);
}

#[test]
fn how_often_something_was_tried_does_not_matter() {
    let (theirs, ours) = (told(&[("Warning", "Failed", "a", 9)]), told(&[("Warning", "Failed", "a", 2)]));
    assert_eq!(theirs.compare(&ours), []);
    assert_eq!(theirs.compare(&told(&[("Warning", "Failed", "b", 9)])).len(), 1);
}

#[test]
fn it_is_known_where_something_was_dropped() {
    assert!(!told(&[("Normal", "Created", "a", 24)]).incomplete("web"));
    assert!(told(&[("Normal", "Created", "a", 24), ("Normal", "Deleted", "a", 1)]).incomplete("web"));
    assert!(told(&[("Normal", "Created", "(combined from similar events): a", 2)]).incomplete("web"));
    assert!(!told(&[("Normal", "Created", "(combined from similar events): a; b", 2)]).incomplete("web"));
    let lost_race = "conflict: the object has been modified";
    assert!(told(&[("Warning", "FailedUpdate", lost_race, 1)]).incomplete("web"));
}

#[test]
fn lost_races_and_namespaces_are_left_out() {
    let theirs = told(&[("Warning", "FailedUpdate", "conflict: the object has been modified", 1)]);
    assert_eq!(theirs.told, BTreeMap::new());
    assert_eq!(told(&[("Normal", "A", "in t-space", 1)]), told(&[("Normal", "A", "in <namespace>", 1)]));
}
