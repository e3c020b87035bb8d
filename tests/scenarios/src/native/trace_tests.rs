use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;

fn pod(uid: &str, leaving: bool) -> Pod {
    named("web-0", uid, leaving, true)
}

fn named(name: &str, uid: &str, leaving: bool, ready: bool) -> Pod {
    let deletion = leaving.then_some("2026-01-01T00:00:00Z");
    let metadata = json!({ "name": name, "uid": uid, "deletionTimestamp": deletion });
    let condition = json!({ "type": "Ready", "status": if ready { "True" } else { "False" } });
    serde_json::from_value(json!({ "metadata": metadata, "status": { "conditions": [condition] } })).unwrap()
}

fn timeline(look: impl FnOnce(&mut Trace)) -> String {
    let mut trace = Trace::default();
    look(&mut trace);
    trace.timeline()
}

#[test]
fn a_life_is_a_creation_a_deletion_and_an_end() {
    let told = timeline(|trace| {
        Followed::seen(pod("a", false), trace);
        Followed::seen(pod("a", true), trace);
        Followed::seen(pod("a", true), trace);
        <Pod as Followed<Trace>>::gone("web-0", trace);
        Followed::seen(pod("b", false), trace);
    });
    assert_eq!(told, "created web-0 #1\ndeleted web-0 #1\ngone web-0 #1\ncreated web-0 #2");
}

#[test]
fn a_deletion_without_grace_is_a_deletion_too() {
    let told = timeline(|trace| {
        Followed::seen(pod("a", false), trace);
        <Pod as Followed<Trace>>::gone("web-0", trace);
    });
    assert_eq!(told, "created web-0 #1\ndeleted web-0 #1\ngone web-0 #1");
}

#[test]
fn lives_have_the_same_callings_in_every_run() {
    let mut trace = Trace::default();
    Followed::seen(pod("a", false), &mut trace);
    <Pod as Followed<Trace>>::gone("web-0", &mut trace);
    Followed::seen(pod("b", false), &mut trace);
    assert_eq!(trace.callings["a"], "Pod web-0 #1");
    assert_eq!(trace.callings["b"], "Pod web-0 #2");
    assert_eq!(trace.lives_of("web-0"), 2);
}

#[test]
fn at_a_deletion_the_others_that_are_down_are_counted() {
    let mut trace = Trace::default();
    Followed::seen(named("web-0", "a", false, true), &mut trace);
    Followed::seen(named("web-1", "b", false, true), &mut trace);
    Followed::seen(named("web-2", "c", false, false), &mut trace);
    // One is not ready; then one is on its way out as well; then it is gone.
    Followed::seen(named("web-1", "b", true, true), &mut trace);
    Followed::seen(named("web-2", "c", true, true), &mut trace);
    <Pod as Followed<Trace>>::gone("web-1", &mut trace);
    <Pod as Followed<Trace>>::gone("web-0", &mut trace);
    assert_eq!(trace.down_at_deletions, [1, 1, 2]);
}
