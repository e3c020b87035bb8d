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
    assert_eq!(single.compare(&combined), [""; 0]);
    assert_eq!(single.compare(&single), [""; 0]);
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
fn theirs_may_tell_of_a_deletion_twice() {
    let deleted = |count| told(&[("Normal", "SuccessfulDelete", "a", count)]);
    assert_eq!(deleted(2).compare(&deleted(1)), [""; 0]);
    assert_eq!(deleted(2).deletions(), 2);
}

#[test]
fn how_often_something_was_tried_does_not_matter() {
    let (theirs, ours) = (told(&[("Warning", "Failed", "a", 9)]), told(&[("Warning", "Failed", "a", 2)]));
    assert_eq!(theirs.compare(&ours), [""; 0]);
    assert_eq!(theirs.compare(&told(&[("Warning", "Failed", "b", 9)])).len(), 1);
}

#[test]
fn what_theirs_has_dropped_may_be_told_by_ours() {
    let theirs = told(&[("Normal", "Created", "a", 25)]);
    let ours = told(&[("Normal", "Created", "a", 27), ("Normal", "Created", "b", 1)]);
    assert_eq!(theirs.compare(&ours), [""; 0]);
    assert_eq!(theirs.compare(&told(&[("Normal", "Created", "b", 1)])).len(), 1);
}

#[test]
fn lost_races_and_namespaces_are_left_out() {
    let theirs = told(&[("Warning", "FailedUpdate", "conflict: the object has been modified", 1)]);
    assert_eq!(theirs.told, BTreeMap::new());
    let untold = told(&[("Warning", "FailedUpdate", "the object has been modified", 1), ("Normal", "A", "b", 1)]);
    assert_eq!(untold.compare(&told(&[("Normal", "A", "b", 2)])), [""; 0]);
    assert_eq!(untold.compare(&told(&[("Normal", "A", "c", 1)])).len(), 1);
    assert_eq!(told(&[("Normal", "A", "in t-space", 1)]), told(&[("Normal", "A", "in <namespace>", 1)]));
}
