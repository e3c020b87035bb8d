//! The search through all states, and what it has to find.

use std::collections::{BTreeMap, VecDeque};

use crate::state::{Rules, State, Step};

/// More states than there are with the bounds of [`State`]: the search ends long before.
const MAX_STATES: usize = 6_000_000;

/// The first history that ends in a state with two writers; `None` if there is none. Asserts on the way that a place at rest is
/// as asked for.
fn search(rules: Rules) -> Option<Vec<Step>> {
    let first = State::new();
    let mut known: BTreeMap<State, Option<(usize, Step)>> = BTreeMap::from([(first.clone(), None)]);
    let mut states = vec![first];
    let mut queue = VecDeque::from([0_usize]);
    while let Some(at) = queue.pop_front() {
        let state = states[at].clone();
        let steps = state.steps(rules);
        if rules == Rules::ALL && !steps.iter().any(|(step, _)| step.is_progress()) {
            assert!(
                state.is_done(),
                "at rest, and not as asked for: {:#?} {:#?}",
                state,
                history(&known, &states, at)
            );
        }
        for (step, next) in steps {
            if known.contains_key(&next) {
                continue;
            }
            known.insert(next.clone(), Some((at, step)));
            states.push(next);
            let new = states.len() - 1;
            if states[new].has_two_writers() {
                return Some(history(&known, &states, new));
            }
            queue.push_back(new);
        }
        assert!(states.len() < MAX_STATES, "the search does not end");
    }
    println!("{} states", states.len());
    None
}

fn history(known: &BTreeMap<State, Option<(usize, Step)>>, states: &[State], end: usize) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), end);
    while let Some((before, step)) = &known[&states[at]] {
        steps.push(step.clone());
        at = *before;
    }
    steps.reverse();
    steps
}

#[test]
fn i1_no_ordinal_has_pods_of_two_versions_whatever_happens() {
    let found = search(Rules::ALL);
    assert!(found.is_none(), "{found:#?}");
}

#[test]
fn without_the_list_a_pod_that_the_cache_does_not_show_has_a_second_writer() {
    assert!(search(Rules { lists: false, ..Rules::ALL }).is_some());
}

#[test]
fn without_waiting_for_the_controllers_a_pod_comes_back_beside_its_successor() {
    assert!(search(Rules { waits_for_observation: false, ..Rules::ALL }).is_some());
}

#[test]
fn without_waiting_for_pods_that_terminate_there_are_two_writers() {
    assert!(search(Rules { waits_for_pods: false, ..Rules::ALL }).is_some());
}

#[test]
fn without_a_version_a_late_write_gives_an_ordinal_away_twice() {
    assert!(search(Rules { preconditions: false, ..Rules::ALL }).is_some());
}

#[test]
fn without_the_taker_a_late_write_for_another_version_succeeds() {
    assert!(search(Rules { appoints: false, ..Rules::ALL }).is_some());
}
