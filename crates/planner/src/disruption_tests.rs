use std::sync::Arc;

use super::{Gatekeeper, Guarded};
use crate::example;
use crate::health::{Down, Health, Why};
use crate::pod::{Defect, PodRow};
use crate::reason::Reason;

fn pod(name: &str) -> Arc<PodRow> {
    Arc::new(PodRow { name: name.into(), ..example::pod(&example::set("a"), 0) })
}

fn guarded(set: &str, max_unavailable: u32, down: &[(&str, Why)]) -> Guarded {
    let down: Vec<_> = down.iter().map(|(pod, why)| Down { pod: (*pod).into(), why: why.clone() }).collect();
    let count = u32::try_from(down.len()).unwrap();
    Guarded { health: Health { set: set.into(), down, count, changes_at: None }, max_unavailable }
}

const BROKEN: Why = Why::Broken(Defect::Terminated { restarts: 3 });

#[track_caller]
fn answers(domain: &[Guarded], questions: &[(&str, &str)], expected: &[&str]) {
    let mut gatekeeper = Gatekeeper::new(domain);
    let answers: Vec<_> = questions
        .iter()
        .map(|(set, name)| match gatekeeper.ask(&(*set).into(), &pod(name)) {
            Ok(permit) => {
                assert_eq!(permit.pod(), &*pod(name), "leave is given for the pod as it was seen");
                "may go"
            }
            Err(reason) => reason.kind(),
        })
        .collect();
    assert_eq!(answers, expected);
}

#[test]
fn leave_is_given_until_the_budget_is_spent() {
    let domain = [guarded("a", 2, &[])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
    let domain = [guarded("a", 2, &[("a-3", Why::Missing)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["may go", "BudgetSpent"]);
}

#[test]
fn a_broken_pod_goes_for_nothing_and_leaves_nothing_for_the_others() {
    let domain = [guarded("a", 1, &[("a-0", BROKEN), ("a-1", BROKEN)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
    let domain = [guarded("a", 2, &[("a-0", BROKEN)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
}

#[test]
fn a_pod_that_is_merely_not_ready_needs_a_free_place() {
    let domain = [guarded("a", 1, &[("a-0", Why::NotReady)])];
    answers(&domain, &[("a", "a-0")], &["BudgetSpent"]);
    let domain = [guarded("a", 2, &[("a-0", Why::NotReady)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["may go", "BudgetSpent"]);
}

#[test]
fn on_the_way_back_a_pod_that_is_down_goes_for_nothing_however_many_others_are() {
    let settling = Why::Settling { until: jiff::Timestamp::UNIX_EPOCH };
    let down = [("a-0", Why::NotReady), ("a-1", Why::NotReady), ("a-2", settling.clone())];
    for (down, pod_name, expected) in [
        (&down[..], "a-0", "may go"),
        (&down[..], "a-2", "BudgetSpent"),
        (&down[2..], "a-2", "may go"),
        (&down[2..], "a-3", "BudgetSpent"),
        (&[], "a-3", "may go"),
    ] {
        let domain = [guarded("a", 1, down)];
        let answer = Gatekeeper::new(&domain).ask_back(&"a".into(), &pod(pod_name));
        assert_eq!(answer.map_or_else(|reason| reason.kind(), |_| "may go"), expected, "{pod_name} {down:?}");
    }
}

#[test]
fn nobody_goes_while_a_pod_of_another_set_is_down_not_even_a_broken_one() {
    let domain = [guarded("a", 9, &[("a-0", BROKEN)]), guarded("b", 9, &[("b-0", Why::Terminating)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["OtherSetNotReady", "OtherSetNotReady"]);
}

#[test]
fn leave_given_to_one_set_closes_the_door_to_the_others() {
    let domain = [guarded("a", 1, &[]), guarded("b", 1, &[])];
    answers(&domain, &[("b", "b-0"), ("a", "a-0")], &["may go", "WaitingForTurn"]);
}

#[test]
fn a_set_that_the_gatekeeper_was_not_told_about_gets_no_leave() {
    let domain = [guarded("a", 1, &[])];
    answers(&domain, &[("z", "z-0")], &["NotInDomain"]);
    let mut gatekeeper = Gatekeeper::new(&[]);
    assert_eq!(gatekeeper.ask(&"z".into(), &pod("z-0")), Err(Reason::NotInDomain { set: "z".into() }));
}
