//! The onlooker must see what is wrong: each guarantee broken once, and what is right left alone.

use super::{Pod, Set, View, max_unavailable};
use crate::observer::Onlooking;

fn set(name: &str, max_unavailable: usize) -> Set {
    Set {
        name: name.to_owned(),
        group: Some("web".to_owned()),
        replicas: 3,
        max_unavailable,
        observed: true,
        current_revision: "old".to_owned(),
        update_revision: "new".to_owned(),
        told: None,
        deleting: false,
    }
}

fn pod(name: &str) -> Pod {
    let (set, _) = name.rsplit_once('-').unwrap();
    Pod {
        name: name.to_owned(),
        uid: format!("{name}-first"),
        set: Some(set.to_owned()),
        revision: Some("old".to_owned()),
        image: String::new(),
        ready: true,
        ready_since: None,
        deleted_at: None,
        broken: false,
    }
}

/// Two zones, a and b, of three pods each; one pod may be down in a, two in b.
fn view() -> View {
    let mut view = View::default();
    for (name, max_unavailable) in [("a", 1), ("b", 2)] {
        view.set_seen(set(name, max_unavailable));
        (0..3).for_each(|ordinal| view.pod_seen(pod(&format!("{name}-{ordinal}"))));
    }
    view
}

fn delete(view: &mut View, name: &str) {
    let pod = view.pods[name].clone();
    view.pod_seen(Pod { deleted_at: Some(jiff::Timestamp::UNIX_EPOCH), ..pod });
}

fn replace(view: &mut View, name: &str, ready: bool) {
    view.pod_gone(name);
    view.pod_seen(Pod { uid: format!("{name}-next"), ready, ..pod(name) });
}

#[track_caller]
fn sound(view: &View, deletions: &[&str]) {
    assert_eq!(view.violations, Vec::<String>::new());
    assert_eq!(view.deletions.iter().map(|deletion| &deletion.pod.name).collect::<Vec<_>>(), deletions);
}

#[track_caller]
fn violated(view: &View, words: &str) {
    assert!(view.violations.iter().any(|violation| violation.contains(words)), "{:?}", view.violations);
}

#[test]
fn what_is_scaled_down_is_nobodys_fault_although_it_is_seen_before_the_set() {
    let mut view = view();
    view.expect_replicas("a", 2);
    delete(&mut view, "a-2");
    delete(&mut view, "b-0");
    sound(&view, &["b-0"]);
    view.set_seen(Set { replicas: 2, ..set("a", 1) });
    view.pod_gone("a-2");
    sound(&view, &["b-0"]);
}

#[test]
fn one_pod_after_the_other_is_sound() {
    let mut view = view();
    for name in ["a-0", "a-1", "b-0"] {
        delete(&mut view, name);
        replace(&mut view, name, false);
        view.pod_seen(Pod { uid: format!("{name}-next"), ..pod(name) });
    }
    delete(&mut view, "b-1");
    delete(&mut view, "b-2");
    sound(&view, &["a-0", "a-1", "b-0", "b-1", "b-2"]);
    assert_eq!((view.widest["a"], view.widest["b"]), (1, 2));
}

#[test]
fn one_pod_too_many_is_seen() {
    let mut terminating = view();
    delete(&mut terminating, "a-0");
    delete(&mut terminating, "a-1");
    violated(&terminating, "a-1 was deleted; 1 may be down");

    let mut missing = view();
    delete(&mut missing, "a-0");
    missing.pod_gone("a-0");
    delete(&mut missing, "a-1");
    violated(&missing, "these are: a-0, a-1");

    let mut not_ready = view();
    not_ready.pod_seen(Pod { ready: false, ..pod("a-2") });
    delete(&mut not_ready, "a-0");
    violated(&not_ready, "these are: a-2, a-0");
}

#[test]
fn two_zones_at_once_are_seen() {
    let mut view = view();
    delete(&mut view, "a-0");
    replace(&mut view, "a-0", false);
    delete(&mut view, "b-0");
    violated(&view, "b-0 was deleted while these pods of other sets of its group were down: a-0");
    violated(&view, "a, b are disturbed at once");
}

#[test]
fn a_pod_that_vanishes_counts_as_deleted() {
    let mut view = view();
    view.pod_gone("a-0");
    sound(&view, &["a-0"]);
}

#[test]
fn a_pod_that_is_down_already_may_go_and_takes_no_further_place() {
    let mut view = view();
    view.pod_seen(Pod { ready: false, broken: true, ..pod("a-2") });
    delete(&mut view, "a-2");
    sound(&view, &["a-2"]);
}

#[test]
fn what_others_delete_is_not_the_operators() {
    let mut view = view();
    view.announce_deletion("a-0");
    delete(&mut view, "a-0");
    view.set_seen(Set { replicas: 2, ..set("b", 1) });
    delete(&mut view, "b-2");
    sound(&view, &[]);
}

#[test]
fn pods_of_no_set_and_sets_of_no_group_are_nobodys_to_delete() {
    let mut view = view();
    view.pod_seen(Pod { set: None, ..pod("a-debug") });
    delete(&mut view, "a-debug");
    violated(&view, "a-debug, which no set controls, was deleted");
    view.set_seen(Set { group: None, ..set("a", 1) });
    delete(&mut view, "a-0");
    violated(&view, "a-0 was deleted and is in no group");
}

#[test]
fn a_second_life_is_seen() {
    let mut view = view();
    view.pod_seen(Pod { uid: "another".to_owned(), ..pod("a-0") });
    violated(&view, "a-0 lives twice");
}

#[test]
fn what_happens_in_a_gap_is_not_judged() {
    let mut view = view();
    view.after_a_gap(|view| {
        view.pod_gone("a-0");
        view.pod_gone("a-1");
    });
    sound(&view, &[]);
    assert_eq!(view.gaps, 1);
}

#[test]
fn the_budget_is_read_as_documented() {
    for (written, replicas, meant) in [
        ("3", 5, 3),
        (" 2 ", 5, 2),
        ("40%", 5, 2),
        ("25%", 10, 2),
        ("10%", 3, 1),
        ("0", 5, 1),
        ("300%", 5, 1),
    ] {
        assert_eq!(max_unavailable(Some(&written.to_owned()), replicas), meant, "{written:?}");
    }
    assert_eq!(max_unavailable(None, 5), 1);
}
