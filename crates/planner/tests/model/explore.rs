//! Breadth first through all states of a model.

use std::collections::{BTreeMap, VecDeque};

use crate::state::{Model, Move, State};
use crate::view::Planner;

/// A model that grows beyond this was set up wrongly.
const MOST_STATES: usize = 3_000_000;

/// What was found.
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// The shortest history that ends in a state where the guarantee does not hold, if there is one.
    pub(crate) violation: Option<Vec<Move>>,
    /// The most pods that were down because we deleted them while they served, beyond what the guarantee allows.
    pub(crate) worst_excess: usize,
    /// A history into a state that exceeds the guarantee by more pods than were deleted late, if there is one.
    pub(crate) unexplained: Option<Vec<Move>>,
    /// A history into a state from which the goal cannot be reached any more, if there is one.
    pub(crate) trap: Option<Vec<Move>>,
}

/// Whether to look at everything, or to stop at the first violation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Violation,
    Exhausted,
}

/// Pods down by our hand beyond the guarantee: above the budget of a zone, or in more than one zone.
fn excess(state: &State, model: &Model) -> usize {
    let zones = state.taken.chunks(model.pods_per_zone);
    let down: Vec<_> = zones.map(|zone| zone.iter().filter(|taken| **taken).count()).collect();
    let allowed = down.iter().map(|down| (*down).min(usize::from(model.budget))).max().unwrap_or(0);
    down.iter().sum::<usize>() - allowed
}

pub(crate) fn explore(model: &Model, until: Until) -> Explored {
    let mut planner = Planner::new(model);
    let first = State::initial(model);
    let mut numbers = BTreeMap::from([(first.key(), 0_usize)]);
    let mut origins: Vec<(usize, Option<Move>)> = vec![(0, None)];
    // Who can come from where without a fault or a user's help, to walk back from the goal.
    let mut arrivals: Vec<Vec<u32>> = vec![Vec::new()];
    let mut goals = Vec::new();
    let (mut violation, mut unexplained, mut worst_excess) = (None, None, 0);
    let mut queue = VecDeque::from([(0_usize, first)]);
    while let Some((number, state)) = queue.pop_front() {
        let excess = excess(&state, model);
        worst_excess = worst_excess.max(excess);
        if (excess > 0 || state.unfounded) && violation.is_none() {
            violation = Some(number);
            if until == Until::Violation {
                break;
            }
        }
        if excess > usize::from(state.landed_late) {
            unexplained.get_or_insert(number);
        }
        let moves = state.moves(model, &mut planner);
        if state.at_goal(model) && moves.iter().all(|(what, _)| what.optional()) {
            goals.push(number);
        }
        for (what, next) in moves {
            let known = numbers.len();
            let id = *numbers.entry(next.key()).or_insert(known);
            if id == known {
                origins.push((number, Some(what)));
                arrivals.push(Vec::new());
                queue.push_back((id, next));
                assert!(known < MOST_STATES, "the model has too many states");
            }
            if !what.optional() {
                arrivals[id].push(u32::try_from(number).unwrap());
            }
        }
    }
    let trap = match until {
        Until::Violation => None,
        Until::Exhausted => trap(&arrivals, goals),
    };
    Explored {
        states: numbers.len(),
        violation: violation.map(|number| history(&origins, number)),
        unexplained: unexplained.map(|number| history(&origins, number)),
        worst_excess,
        trap: trap.map(|number| history(&origins, number)),
    }
}

/// The first state from which no way leads to a goal.
fn trap(arrivals: &[Vec<u32>], goals: Vec<usize>) -> Option<usize> {
    let mut reaches = vec![false; arrivals.len()];
    let mut left = goals;
    while let Some(number) = left.pop() {
        if !std::mem::replace(&mut reaches[number], true) {
            left.extend(arrivals[number].iter().map(|from| *from as usize));
        }
    }
    reaches.iter().position(|reaches| !reaches)
}

fn history(origins: &[(usize, Option<Move>)], end: usize) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut number = end;
    while let (from, Some(what)) = origins[number] {
        moves.push(what);
        number = from;
    }
    moves.reverse();
    moves
}
