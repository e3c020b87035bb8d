use std::time::Duration;

use super::Timing;
use super::model::{Action, Faults, Setup, World, explore};

fn timing(lease: u64, give_up: u64, renew_every: u64) -> Timing {
    let [lease, give_up, renew_every] = [lease, give_up, renew_every].map(Duration::from_secs);
    Timing { lease, renew_every, give_up }
}

fn assert_safe(setup: &Setup) {
    let mut led = false;
    let states = explore(setup, |world| {
        led |= !world.leaders(&setup.timing).is_empty();
        // Only a deletion starts the count of terms anew.
        assert!(!world.epoch_fell || setup.faults.deletions > 0, "an epoch did not grow: {}", world.story());
    });
    println!("{} candidates: {states:?} states", setup.rates.len());
    states.unwrap_or_else(|story| panic!("two lead after: {story}"));
    assert!(led, "nobody ever led");
}

/// The model can see what it is there for.
fn assert_unsafe(setup: &Setup) {
    let story = explore(setup, |_| {}).expect_err("two should lead at once");
    println!("two lead after: {story}");
}

fn two(faults: Faults) -> Setup {
    Setup { timing: timing(3, 2, 1), rates: vec![1, 1], faults, same_name: false }
}

#[test]
fn two_candidates_never_lead_together() {
    assert_safe(&two(Faults { losses: 1, crashes: 1, leaves: 1, ..Faults::default() }));
}

/// The coarsest clock that still tells silence from life, and renewals at any time, to keep it small.
fn three(faults: Faults) -> Setup {
    Setup { timing: timing(2, 1, 0), rates: vec![1, 1, 1], ..two(faults) }
}

#[test]
fn three_candidates_with_a_lost_answer_never_lead_together() {
    assert_safe(&three(Faults { losses: 1, ..Faults::default() }));
}

#[test]
fn three_candidates_with_a_crash_never_lead_together() {
    assert_safe(&three(Faults { crashes: 1, ..Faults::default() }));
}

#[test]
fn a_lease_edited_and_deleted_by_others_makes_no_two_leaders() {
    assert_safe(&two(Faults { losses: 1, deletions: 1, edits: 1, ..Faults::default() }));
}

#[test]
fn clocks_may_differ_in_speed_by_the_margin() {
    let faults = Faults { losses: 1, ..Faults::default() };
    assert_safe(&Setup { timing: timing(9, 6, 1), rates: vec![2, 3], ..two(faults) });
}

#[test]
fn clocks_that_differ_by_more_than_the_margin_are_unsafe() {
    assert_unsafe(&Setup { timing: timing(9, 6, 3), rates: vec![1, 2], ..two(Faults::default()) });
}

#[test]
fn giving_up_later_than_others_take_over_is_unsafe() {
    assert_unsafe(&Setup { timing: timing(3, 4, 1), ..two(Faults::default()) });
}

#[test]
fn two_processes_of_one_name_are_unsafe() {
    assert_unsafe(&Setup { same_name: true, ..two(Faults::default()) });
}

/// Lets everybody but the dead run without further misfortune, and returns who leads then.
fn run_on(mut world: World, setup: &Setup, dead: Option<usize>, ticks: usize) -> (World, Vec<usize>) {
    for _ in 0..ticks {
        for index in (0..setup.rates.len()).filter(|index| Some(*index) != dead) {
            // An answer, a step down, a read and a write with three actions each, and the change they bring.
            for _ in 0..9 {
                let own = [
                    Action::Decide(index),
                    Action::Serve(index),
                    Action::Answer(index),
                    Action::Notice(index),
                ];
                let Some(action) = world.possible(setup).into_iter().find(|action| own.contains(action))
                else {
                    break;
                };
                world.apply(action, setup);
            }
        }
        world.apply(Action::Tick, setup);
    }
    let leaders = world.leaders(&setup.timing).into_iter().filter(|index| Some(*index) != dead).collect();
    (world, leaders)
}

#[test]
fn whatever_happened_and_whoever_dies_somebody_leads_and_stays() {
    for faults in [Faults { losses: 1, ..Faults::default() }, Faults { crashes: 1, ..Faults::default() }] {
        let setup = two(faults);
        // A silent holder's whole lease, seen at the last moment, and the rounds around it.
        let ticks = 6;
        let states = explore(&setup, |world| {
            for dead in [None, Some(0), Some(1)] {
                let (later, leaders) = run_on(world.clone(), &setup, dead, ticks);
                assert_eq!(leaders.len(), 1, "without {dead:?} after: {}", world.story());
                let (_, still) = run_on(later, &setup, dead, ticks);
                assert_eq!(still, leaders, "without {dead:?} after: {}", world.story());
            }
        });
        println!("somebody leads after each of {states:?} states");
    }
}
