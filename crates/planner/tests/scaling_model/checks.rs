//! What is checked where no lock fences pods that leave.

use sts_plus_api::scaling_policy::OnFailure;

use crate::explore::{Explored, Until, explore};
use crate::guarantees::Guarantee;
use crate::moves::Move;
use crate::planted::Planted;
use crate::state::{Faults, Fence, Model};

/// With this set the models are larger, and take minutes.
const WIDE: &str = "STS_PLUS_WIDE_MODEL";

pub(crate) const NOTHING: Faults = Faults {
    edits: 0,
    deletions: 0,
    foreign: 0,
    crashes: 0,
    losses: 0,
    restarts: 0,
    evictions: 0,
    deadlines: 0,
    stale_nodes: 0,
};
pub(crate) const EDIT: Faults = Faults { edits: 1, ..NOTHING };
pub(crate) const RESTART: Faults = Faults { restarts: 1, ..NOTHING };
pub(crate) const EVICTION: Faults = Faults { evictions: 1, ..NOTHING };
pub(crate) const DEADLINE: Faults = Faults { deadlines: 1, ..NOTHING };

/// A set of two pods, of which one is to leave.
pub(crate) fn two_to_one(faults: Faults) -> Model {
    Model {
        replicas: 2,
        wanted: 1,
        edits: &[0, 1, 2],
        concurrent: 1,
        on_failure: OnFailure::Block,
        cancel: true,
        polled: false,
        drains: false,
        controller_lags: false,
        reuses_addresses: false,
        late: false,
        fence: Fence::None,
        stale_mounts: false,
        exits: false,
        deletes_claims: false,
        scaling_deletes: false,
        faults,
        planted: None,
        unpromised: &[Guarantee::DrainedWhenGone],
    }
}

fn told(moves: &[Move]) -> String {
    moves.iter().map(|what| format!("\n    {what:?}")).collect::<Vec<_>>().concat()
}

fn look(name: &str, model: &Model, until: Until) -> Explored {
    let explored = explore(model, until);
    let steps = explored.violation.as_ref().map(|(broken, moves)| (broken, moves.len()));
    let Explored { states, asked, .. } = explored;
    println!("{name}: {states} states, {asked} questions, violation {steps:?}");
    explored
}

/// Every guarantee holds in every state, and from each of them the goal can be reached.
#[track_caller]
pub(crate) fn holds(name: &str, model: &Model) {
    let explored = look(name, model, Until::Exhausted);
    if let Some((broken, moves)) = &explored.violation {
        panic!("{name}: {broken:?} after{}", told(moves));
    }
    if let Some(moves) = &explored.trap {
        panic!("{name}: the goal is out of reach after{}", told(moves));
    }
}

/// Some history leads to where the goal is out of reach.
#[track_caller]
pub(crate) fn traps(planted: Planted, model: &Model) {
    let explored =
        look(&format!("{planted:?}"), &Model { planted: Some(planted), ..*model }, Until::Exhausted);
    let moves = explored.trap.unwrap_or_else(|| panic!("{planted:?}: the goal is never out of reach"));
    println!("{}", told(&moves));
}

/// Some history breaks a guarantee.
#[track_caller]
pub(crate) fn opens(name: &str, guarantee: Guarantee, model: &Model) {
    let explored = look(name, model, Until::Broken(guarantee));
    let (_, moves) =
        explored.violation.unwrap_or_else(|| panic!("{name}: no counterexample to {guarantee:?}"));
    println!("{}", told(&moves));
}

/// Without a rule some history breaks a guarantee.
#[track_caller]
pub(crate) fn breaks(planted: Planted, guarantee: Guarantee, model: &Model) {
    opens(&format!("{planted:?}"), guarantee, &Model { planted: Some(planted), ..*model });
}

#[test]
fn operators_that_crash_and_writes_that_are_lost_do_no_harm() {
    let faults = Faults { edits: 2, crashes: 1, losses: 1, ..NOTHING };
    holds("2 to 1, crash, loss", &two_to_one(faults));
    holds("2 to 1, crash, loss, polled", &Model { polled: true, ..two_to_one(faults) });
}

#[test]
fn a_pod_that_restarts_before_it_is_looked_at_last_is_called_again() {
    let faults = Faults { restarts: 1, ..EDIT };
    holds("restart, edit", &two_to_one(faults));
    holds("restart, edit, polled", &Model { polled: true, ..two_to_one(faults) });
    let faults = Faults { crashes: 1, losses: 1, ..RESTART };
    holds("restart, crash, loss", &two_to_one(faults));
}

#[test]
fn a_pod_that_is_evicted_before_it_is_looked_at_last_is_called_again() {
    let faults = Faults { evictions: 1, ..EDIT };
    holds("eviction, edit", &two_to_one(faults));
    holds("eviction, edit, controller behind", &Model { controller_lags: true, ..two_to_one(EVICTION) });
    holds("eviction, edit, address in use again", &Model { reuses_addresses: true, ..two_to_one(faults) });
    let faults = Faults { crashes: 1, losses: 1, ..EVICTION };
    holds("eviction, crash, loss", &two_to_one(faults));
}

#[test]
fn several_pods_leave_at_once() {
    let three = Model { replicas: 3, wanted: 1, edits: &[1, 3], concurrent: 2, ..two_to_one(EDIT) };
    holds("3 to 1, two at once", &three);
}

#[test]
fn a_deadline_that_is_over_removes_nothing_undrained_but_by_force() {
    for on_failure in [OnFailure::Block, OnFailure::Force, OnFailure::Abort] {
        let faults = Faults { edits: 1, ..DEADLINE };
        let model = Model { on_failure, ..two_to_one(faults) };
        holds(&format!("deadline, edit, {on_failure:?}"), &model);
        holds(&format!("deadline, edit, no cancel, {on_failure:?}"), &Model { cancel: false, ..model });
        let faults = Faults { restarts: 1, ..DEADLINE };
        holds(&format!("deadline, restart, {on_failure:?}"), &Model { faults, polled: true, ..model });
    }
}

#[test]
fn a_foreign_number_of_replicas_is_restored_or_drained() {
    holds("foreign, crash", &two_to_one(Faults { foreign: 1, crashes: 1, ..NOTHING }));
}

#[test]
fn a_policy_that_is_deleted_takes_its_calls_back_or_drains_all() {
    for drains in [false, true] {
        let name = if drains { "drain" } else { "release" };
        let faults = Faults { deletions: 1, crashes: 1, ..NOTHING };
        holds(&format!("{name}, crash"), &Model { drains, ..two_to_one(faults) });
        let faults = Faults { deletions: 1, ..RESTART };
        holds(&format!("{name}, restart"), &Model { drains, ..two_to_one(faults) });
    }
}

#[test]
fn a_write_that_lands_late_does_no_harm_unless_its_pod_is_called_again_or_back_meanwhile() {
    let late = |faults| Model { late: true, ..two_to_one(faults) };
    holds("late, crash", &late(Faults { crashes: 1, losses: 1, ..NOTHING }));
    let only = &[Guarantee::DrainedWhenGone, Guarantee::Remembered, Guarantee::OwnWrite];
    for (name, faults) in [("edit", EDIT), ("restart", RESTART)] {
        let faults = Faults { losses: 1, ..faults };
        holds(&format!("late, {name}, but for that"), &Model { unpromised: only, ..late(faults) });
        opens(&format!("late, {name}"), Guarantee::Remembered, &late(faults));
    }
}

#[test]
fn a_drained_pod_that_is_gone_is_not_waited_for_although_it_may_have_served_since() {
    let model = Model { unpromised: &[], ..two_to_one(EVICTION) };
    holds("one eviction", &model);
    let faults = Faults { restarts: 1, ..EVICTION };
    opens("a restart and an eviction", Guarantee::DrainedWhenGone, &Model { faults, ..model });
    holds("a restart and an eviction", &two_to_one(faults));
}

#[test]
fn without_versions_in_its_writes_a_late_one_removes_a_pod_that_was_called_back() {
    let faults = Faults { losses: 1, ..EDIT };
    breaks(Planted::NoPrecondition, Guarantee::Named, &Model { late: true, ..two_to_one(faults) });
}

#[test]
fn without_the_other_rules_of_the_executor_what_it_has_lowered_itself_is_taken_for_foreign_and_restored() {
    let (crash, loss) = (Faults { crashes: 1, ..NOTHING }, Faults { losses: 1, ..NOTHING });
    for (planted, faults) in
        [(Planted::OwnWritesUnseen, crash), (Planted::StaleStart, crash), (Planted::NoReadAfterUnknown, loss)]
    {
        breaks(planted, Guarantee::OwnWrite, &two_to_one(Faults { edits: 2, ..faults }));
    }
}

#[test]
fn without_a_view_of_its_own_writes_a_pod_is_called_of_which_the_set_does_not_say_that_it_leaves() {
    let faults = Faults { crashes: 1, losses: 1, restarts: 1, ..EDIT };
    breaks(Planted::OwnWritesUnseen, Guarantee::Announced, &two_to_one(faults));
}

#[test]
fn without_a_record_before_the_call_a_pod_is_called_that_nobody_remembers() {
    breaks(Planted::CalledFirst, Guarantee::Announced, &two_to_one(NOTHING));
}

#[test]
fn without_the_announcement_before_the_call_others_do_not_know_that_a_pod_leaves() {
    breaks(Planted::NotAnnounced, Guarantee::Announced, &two_to_one(NOTHING));
}

#[test]
fn without_the_uid_a_successor_is_removed_undrained() {
    breaks(Planted::UidNotCompared, Guarantee::Drained, &two_to_one(EVICTION));
}

#[test]
fn without_the_restarts_a_restarted_pod_is_removed_undrained() {
    breaks(Planted::RestartsNotCompared, Guarantee::Drained, &two_to_one(RESTART));
}

#[test]
fn without_a_live_read_a_restarted_pod_is_removed_undrained() {
    breaks(Planted::LookedAtCache, Guarantee::Drained, &two_to_one(RESTART));
}

#[test]
fn without_a_recorded_drain_the_replicas_are_lowered_past_a_pod_that_may_be_called_again() {
    breaks(Planted::LoweredUnremembered, Guarantee::Remembered, &two_to_one(NOTHING));
}

#[test]
fn without_the_cancel_a_pod_that_stays_is_left_prepared() {
    breaks(Planted::CancelForgotten, Guarantee::TakenBack, &two_to_one(EDIT));
}

#[test]
fn larger_models_hold_as_well() {
    if std::env::var_os(WIDE).is_none() {
        println!("not run: set {WIDE} for it");
        return;
    }
    holds("foreign, edit", &two_to_one(Faults { foreign: 1, ..EDIT }));
    let all = Faults { edits: 1, crashes: 1, losses: 1, restarts: 1, evictions: 1, ..NOTHING };
    holds("all at once", &two_to_one(all));
    holds("all at once, polled", &Model { polled: true, ..two_to_one(all) });
    let faults = Faults { edits: 1, restarts: 1, evictions: 1, ..DEADLINE };
    for on_failure in [OnFailure::Force, OnFailure::Abort] {
        holds(&format!("all, {on_failure:?}"), &Model { on_failure, polled: true, ..two_to_one(faults) });
    }
    let three = Model { replicas: 3, wanted: 1, edits: &[1, 2, 3], concurrent: 2, ..two_to_one(EDIT) };
    holds("3 to 1, restart", &Model { faults: Faults { restarts: 1, ..EDIT }, ..three });
    holds("3 to 1, eviction", &Model { faults: Faults { evictions: 1, ..EDIT }, ..three });
}
