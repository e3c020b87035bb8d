//! Policies that are deleted.

use serde_json::json;

use super::cluster::{Answer, Cluster, parsed, with};
use crate::scaling::hook::Call;

fn draining() -> Cluster {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(9));
    cluster.answers.insert(Call::Poll, Answer::After(9));
    cluster.scale(2);
    cluster.quiet();
    cluster
}

#[test]
fn a_policy_that_is_deleted_in_the_middle_of_a_drain_calls_it_off() {
    let mut cluster = draining();
    cluster.delete_policy();
    cluster.run();
    assert!(cluster.policies.is_empty());
    assert_eq!((cluster.set().replicas, cluster.called(Call::Cancel)), (3, 1));
    assert!(cluster.set().steering.leaving.is_none() && !cluster.app("web-2").called);
}

#[test]
fn an_application_that_does_not_answer_holds_a_deletion_for_a_minute() {
    let mut cluster = draining();
    cluster.answers.insert(Call::Cancel, Answer::Fail("connection refused"));
    cluster.delete_policy();
    let before = cluster.now;
    cluster.run();
    assert!(cluster.policies.is_empty());
    let seconds = cluster.now.duration_since(before).as_secs();
    assert!((60..=62).contains(&seconds), "{seconds} s");
    assert_eq!(cluster.set().steering.leaving, None);
}

#[test]
fn a_policy_without_a_set_is_deleted_at_once() {
    let mut cluster = draining();
    cluster.sets.clear();
    cluster.delete_policy();
    cluster.run();
    assert!(cluster.policies.is_empty());
}

#[test]
fn a_policy_with_an_unreadable_spec_leaves_nothing_behind() {
    let mut cluster = draining();
    cluster
        .change_policy(|row| row.spec = parsed(&json!({ "targetRef": { "name": "web" }, "scaleDown": 7 })));
    cluster.quiet();
    assert_eq!(cluster.state().0, "InvalidSpec");
    let target = cluster.row().target().is_none();
    cluster.change_policy(|row| row.spec.target = target.then(|| "web".into()));
    cluster.delete_policy();
    cluster.run();
    assert!(cluster.policies.is_empty());
    assert_eq!((cluster.set().replicas, cluster.set().steering.leaving.as_deref()), (3, None));
}

#[test]
fn a_drain_at_the_end_waits_while_it_is_paused() {
    let mut cluster = with(2, false);
    cluster.respec("/deletionPolicy", json!("Drain"));
    cluster.respec("/paused", json!(true));
    cluster.quiet();
    cluster.delete_policy();
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "Paused"));
    cluster.respec("/paused", json!(false));
    cluster.run();
    assert!(cluster.policies.is_empty() && cluster.pods.is_empty());
}
