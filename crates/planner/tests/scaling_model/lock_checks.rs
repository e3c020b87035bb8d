//! What is checked where a lock fences pods that leave.

use sts_plus_api::scaling_policy::OnFailure;

use crate::checks::{DEADLINE, EDIT, EVICTION, NOTHING, RESTART, breaks, holds, opens, traps, two_to_one};
use crate::guarantees::Guarantee;
use crate::planted::Planted;
use crate::state::{Faults, Fence, Model};

fn locked(rule: bool, faults: Faults) -> Model {
    Model { fence: Fence::Lock { rule }, unpromised: &[], ..two_to_one(faults) }
}

fn name(rule: bool) -> &'static str {
    if rule { "lock, rule" } else { "lock" }
}

#[test]
fn behind_a_lock_operators_that_crash_and_writes_that_are_lost_do_no_harm() {
    for rule in [false, true] {
        let faults = Faults { crashes: 1, losses: 1, ..NOTHING };
        holds(&format!("{}, crash, loss", name(rule)), &locked(rule, faults));
        holds(&format!("{}, edit, crash", name(rule)), &locked(rule, Faults { crashes: 1, ..EDIT }));
    }
}

#[test]
fn behind_a_lock_a_drained_pod_that_restarts_is_held_or_called_again() {
    for rule in [false, true] {
        holds(&format!("{}, restart", name(rule)), &locked(rule, RESTART));
        holds(&format!("{}, restart, edit", name(rule)), &locked(rule, Faults { restarts: 1, ..EDIT }));
    }
}

#[test]
fn behind_a_lock_nothing_starts_in_the_place_of_a_drained_pod() {
    for rule in [false, true] {
        holds(&format!("{}, eviction, edit", name(rule)), &locked(rule, Faults { evictions: 1, ..EDIT }));
    }
}

#[test]
fn with_the_restart_rule_a_drained_pod_that_is_gone_has_not_served_since() {
    let faults = Faults { restarts: 1, ..EVICTION };
    holds("lock, rule, restart, eviction", &locked(true, faults));
    opens("lock, restart, eviction", Guarantee::DrainedWhenGone, &locked(false, faults));
    let unpromised = &[Guarantee::DrainedWhenGone, Guarantee::Drained];
    holds("lock, restart, eviction, but for that", &Model { unpromised, ..locked(false, faults) });
}

#[test]
fn a_pod_that_is_shown_a_lock_of_before_may_start_and_is_called_again() {
    let stale = Model { stale_mounts: true, ..locked(true, RESTART) };
    opens("lock, rule, restart, mount behind", Guarantee::Fenced, &stale);
    let unpromised = &[Guarantee::Fenced];
    holds("lock, rule, restart, mount behind, but for that", &Model { unpromised, ..stale });
    for rule in [false, true] {
        let behind = locked(rule, Faults { stale_nodes: 1, ..EVICTION });
        opens(&format!("{}, node behind", name(rule)), Guarantee::Fenced, &behind);
        holds(&format!("{}, node behind, but for that", name(rule)), &Model { unpromised, ..behind });
    }
}

#[test]
fn an_exit_that_is_expected_is_success_and_no_other_is() {
    for rule in [false, true] {
        for (fault, faults) in [("edit", EDIT), ("restart", RESTART), ("eviction", EVICTION)] {
            // Without the rule a pod that has exited may serve again, and be evicted before anybody looks.
            let is_unseen = !rule && fault == "eviction";
            let unpromised: &[_] =
                if is_unseen { &[Guarantee::DrainedWhenGone, Guarantee::Drained] } else { &[] };
            let model = Model { exits: true, unpromised, ..locked(rule, faults) };
            holds(&format!("{}, exit, {fault}", name(rule)), &model);
        }
    }
}

#[test]
fn claims_are_deleted_only_after_a_recorded_drain() {
    for rule in [false, true] {
        for (fault, faults) in [("edit", EDIT), ("restart", RESTART), ("eviction", EVICTION)] {
            let model = Model { deletes_claims: true, ..locked(rule, faults) };
            holds(&format!("{}, claims, {fault}", name(rule)), &model);
        }
    }
}

#[test]
fn the_claims_of_a_pod_that_is_removed_by_force_are_kept() {
    for rule in [false, true] {
        let forced = Model { on_failure: OnFailure::Force, ..locked(rule, DEADLINE) };
        holds(&format!("{}, forced", name(rule)), &Model { deletes_claims: true, ..forced });
        let model = Model { scaling_deletes: true, ..forced };
        holds(&format!("{}, forced, the set deletes claims", name(rule)), &model);
    }
}

#[test]
fn without_the_removal_of_the_key_before_the_call_a_successor_starts() {
    breaks(Planted::KeyNotRemoved, Guarantee::Fenced, &locked(false, NOTHING));
    breaks(Planted::KeyNotRemoved, Guarantee::Fenced, &locked(true, RESTART));
}

#[test]
fn without_its_key_a_pod_that_is_wanted_again_does_not_start() {
    traps(Planted::KeyNotRestored, &locked(false, EDIT));
}

#[test]
fn without_the_version_a_pod_is_deleted_that_has_restarted_since() {
    breaks(Planted::DeletedUnchecked, Guarantee::Drained, &locked(false, RESTART));
}

#[test]
fn without_the_times_of_containers_one_that_is_at_work_is_taken_for_one_that_is_done() {
    let model = Model { exits: true, ..locked(false, RESTART) };
    breaks(Planted::ExitTimesNotCompared, Guarantee::Drained, &model);
}

#[test]
fn without_retention_the_claims_of_a_pod_that_is_removed_by_force_are_lost() {
    let forced = Model { on_failure: OnFailure::Force, ..locked(false, DEADLINE) };
    breaks(Planted::ClaimsNotRetained, Guarantee::ClaimsKept, &Model { scaling_deletes: true, ..forced });
    breaks(Planted::ForcedAsDrained, Guarantee::ClaimsKept, &Model { deletes_claims: true, ..forced });
}
