//! What is checked.

use crate::explore::{Explored, Until, explore};
use crate::state::{Faults, Model, Rule};

const ONE_OF_EACH: Faults = Faults { edits: 1, crashes: 1, failures: 1, losses: 1, blindness: 0 };

fn two_zones_of_two() -> Model {
    Model {
        zones: 2,
        pods_per_zone: 2,
        budget: 1,
        lag: 2,
        operators: 1,
        faults: ONE_OF_EACH,
        unready: false,
        late: false,
        without: None,
    }
}

fn one_zone_of_three() -> Model {
    Model { zones: 1, pods_per_zone: 3, lag: 3, ..two_zones_of_two() }
}

#[track_caller]
fn look(name: &str, model: &Model, until: Until) -> Explored {
    let explored = explore(model, until);
    let steps = explored.violation.as_ref().map(Vec::len);
    println!("{name}: {} states, violation after {steps:?} steps", explored.states);
    explored
}

#[track_caller]
fn holds(name: &str, model: &Model) {
    let explored = look(name, model, Until::Exhausted);
    assert_eq!(explored.violation, None, "{name}");
    assert_eq!(explored.trap, None, "{name}: the goal is out of reach");
}

#[track_caller]
fn breaks(name: &str, model: &Model) {
    let explored = look(name, model, Until::Violation);
    println!("  {:?}", explored.violation);
    assert!(explored.violation.is_some(), "{name}: no counterexample");
}

#[test]
fn with_all_four_rules_two_zones_keep_the_guarantee_and_reach_the_goal() {
    holds("2 zones x 2", &two_zones_of_two());
}

#[test]
fn with_all_four_rules_one_zone_keeps_the_guarantee_and_reaches_the_goal() {
    holds("1 zone x 3", &one_zone_of_three());
    holds("1 zone x 3, budget 2", &Model { budget: 2, lag: 1, ..one_zone_of_three() });
}

#[test]
fn pods_that_run_without_being_ready_are_replaced_within_the_guarantee() {
    let faults = Faults { losses: 0, crashes: 0, failures: 2, edits: 1, blindness: 0 };
    for (name, model) in [("2 zones x 2", two_zones_of_two()), ("1 zone x 3", one_zone_of_three())] {
        holds(&format!("{name}, unready pods"), &Model { unready: true, lag: 1, faults, ..model });
    }
}

#[test]
fn without_rule_a_a_pod_that_recovered_is_deleted_as_broken() {
    let without = Some(Rule::Version);
    breaks("2 zones x 2 without A", &Model { without, ..two_zones_of_two() });
    breaks("1 zone x 3 without A", &Model { without, ..one_zone_of_three() });
}

#[test]
fn without_rule_b_a_rollback_goes_on_before_the_last_deletion_is_seen() {
    let without = Some(Rule::OwnWrites);
    breaks("2 zones x 2 without B", &Model { without, ..two_zones_of_two() });
    breaks("1 zone x 3 without B", &Model { without, ..one_zone_of_three() });
}

#[test]
fn without_rule_c_a_restart_forgets_the_deletion_that_its_view_does_not_show() {
    let without = Some(Rule::ConsistentStart);
    breaks("2 zones x 2 without C", &Model { without, ..two_zones_of_two() });
    breaks("1 zone x 3 without C", &Model { without, ..one_zone_of_three() });
}

#[test]
fn without_rule_d_a_deletion_with_a_lost_answer_is_taken_for_one_that_failed() {
    let without = Some(Rule::Unknown);
    breaks("2 zones x 2 without D", &Model { without, ..two_zones_of_two() });
    breaks("1 zone x 3 without D", &Model { without, ..one_zone_of_three() });
}

/// A model in which pods can no longer be followed, and one that serves breaks meanwhile.
fn blinded(model: &Model) -> Model {
    let faults = Faults { failures: 1, blindness: 1, ..Faults::default() };
    Model { faults, lag: 2, ..model.clone() }
}

#[test]
fn with_a_confirmed_view_an_operator_that_cannot_follow_pods_keeps_the_guarantee_and_reaches_the_goal() {
    holds("2 zones x 2, blind", &blinded(&two_zones_of_two()));
    holds("1 zone x 3, blind", &blinded(&one_zone_of_three()));
}

#[test]
fn without_a_confirmed_view_a_pod_is_deleted_on_the_old_health_of_the_others() {
    let without = Some(Rule::ConfirmedView);
    breaks("2 zones x 2 on a stale view", &Model { without, ..blinded(&two_zones_of_two()) });
    breaks("1 zone x 3 on a stale view", &Model { without, ..blinded(&one_zone_of_three()) });
}

/// A model in which requests may land after their sender has moved on.
fn late(model: &Model, faults: Faults) -> Model {
    Model { late: true, lag: 2, faults, ..model.clone() }
}

#[test]
fn a_request_that_lands_late_does_no_harm_while_no_spec_changes() {
    let faults = Faults { edits: 0, ..ONE_OF_EACH };
    holds("2 zones x 2, late requests", &late(&two_zones_of_two(), faults));
    holds("1 zone x 3, late requests", &late(&one_zone_of_three(), faults));
}

#[test]
fn a_request_that_lands_late_after_a_change_costs_its_own_pod_and_no_more() {
    let faults = Faults { failures: 0, ..ONE_OF_EACH };
    for (name, model) in [("2 zones x 2", two_zones_of_two()), ("1 zone x 3", one_zone_of_three())] {
        let explored =
            look(&format!("{name}, late requests and an edit"), &late(&model, faults), Until::Exhausted);
        assert!(explored.violation.is_some(), "{name}: the window is closed: say so above");
        assert_eq!(explored.worst_excess, 1, "{name}");
        assert_eq!(explored.unexplained, None, "{name}: more went down than landed late");
        assert_eq!(explored.trap, None, "{name}");
    }
}

#[test]
fn two_operators_without_a_lease_keep_the_guarantee_while_no_spec_changes() {
    let two = Model {
        operators: 2,
        lag: 2,
        faults: Faults { failures: 1, ..Faults::default() },
        ..two_zones_of_two()
    };
    holds("2 zones x 2, two operators", &two);
    holds("1 zone x 3, two operators", &Model { zones: 1, pods_per_zone: 3, ..two.clone() });
    holds("2 zones x 2, budget 2, two operators", &Model { budget: 2, faults: Faults::default(), ..two });
}

#[test]
fn two_operators_need_the_lease_once_a_spec_changes_or_a_pod_fails_beside_a_wider_budget() {
    let two = Model { operators: 2, lag: 2, ..two_zones_of_two() };
    let edited = Faults { edits: 1, ..Faults::default() };
    breaks("two operators and an edit", &Model { faults: edited, ..two.clone() });
    let failed = Faults { failures: 1, ..Faults::default() };
    breaks("two operators, budget 2 and a failure", &Model { faults: failed, budget: 2, ..two });
}
