//! Breadth first through all states of a model.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use crate::guarantees::{Broken, Guarantee};
use crate::moves::Move;
use crate::state::{Model, State};
use crate::view::Planner;

/// A model that grows beyond this was set up wrongly.
const MOST_STATES: usize = 20_000_000;

/// What was found.
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// The questions that the planner was asked.
    pub(crate) asked: usize,
    /// The shortest history that ends in a state where a guarantee does not hold, if there is one, and which do not.
    pub(crate) violation: Option<(Broken, Vec<Move>)>,
    /// A history into a state from which the goal cannot be reached any more, if there is one.
    pub(crate) trap: Option<Vec<Move>>,
}

/// Where to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// At the first state in which this does not hold.
    Broken(Guarantee),
    /// At the first state in which anything does not hold; otherwise everything is looked at.
    Exhausted,
}

pub(crate) fn explore(model: &Model, until: Until) -> Explored {
    let mut planner = Planner::new(model);
    let first = State::initial(model);
    let mut numbers = BTreeMap::from([(fingerprint(&first), 0_u32)]);
    let mut origins: Vec<(u32, Option<Move>)> = vec![(0, None)];
    // Who can come from where without a fault or somebody's help, to walk back from the goal.
    let mut arrivals: Vec<(u32, u32)> = Vec::new();
    let mut goals = Vec::new();
    let mut violation = None;
    let mut queue = VecDeque::from([(0_u32, first)]);
    while let Some((number, mut state)) = queue.pop_front() {
        let moves = state.moves(model, &mut planner);
        if state.at_goal(model) {
            let writes = |(what, _): &(Move, State)| *what == Move::Pass;
            if state.is_seen() && moves.iter().any(writes) {
                state.broken.add(Guarantee::Rest);
            } else {
                goals.push(number);
            }
        }
        let is_broken = match until {
            Until::Broken(guarantee) => state.broken.has(guarantee),
            Until::Exhausted => !state.broken.without(model.unpromised).is_empty(),
        };
        if is_broken {
            violation = Some((state.broken, number));
            break;
        }
        for (what, next) in moves {
            let known = u32::try_from(numbers.len()).unwrap();
            let id = *numbers.entry(fingerprint(&next)).or_insert(known);
            if id == known {
                origins.push((number, Some(what)));
                queue.push_back((id, next));
                assert!(numbers.len() < MOST_STATES, "the model has too many states");
            }
            if until == Until::Exhausted && !what.optional() {
                arrivals.push((id, number));
            }
        }
    }
    let is_whole = until == Until::Exhausted && violation.is_none();
    let trap = if is_whole { trap(numbers.len(), &arrivals, goals) } else { None };
    Explored {
        states: numbers.len(),
        asked: planner.asked(),
        violation: violation.map(|(broken, number)| (broken, history(&origins, number))),
        trap: trap.map(|number| history(&origins, number)),
    }
}

/// 128 bits of a state, or of what is looked at: of ten million two are the same once in 10^24 runs.
pub(crate) fn fingerprint(what: &impl Hash) -> u128 {
    let mut lanes = Lanes([0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03]);
    what.hash(&mut lanes);
    u128::from(lanes.0[0]) << 64 | u128::from(lanes.0[1])
}

/// Two lanes of products. The standard library's hasher takes most of the time of a run, for a protection against
/// attackers that a model does not need.
struct Lanes([u64; 2]);

impl Lanes {
    fn take(&mut self, word: u64) {
        let fold = |lane: u64, factor: u64| {
            let product = (lane ^ word).wrapping_mul(factor);
            product ^ product >> 32
        };
        self.0 = [fold(self.0[0], 0xA076_1D64_78BD_642F), fold(self.0[1], 0xE703_7ED1_A0B4_28DB)];
    }
}

impl Hasher for Lanes {
    fn finish(&self) -> u64 {
        self.0[0]
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.take(u64::from_le_bytes(word));
        });
    }

    fn write_u8(&mut self, number: u8) {
        self.take(u64::from(number) + 1);
    }

    fn write_usize(&mut self, number: usize) {
        self.take(number as u64 + 1);
    }

    fn write_isize(&mut self, number: isize) {
        self.take(number.unsigned_abs() as u64 + 1);
    }
}

/// The first state from which no way leads to a goal.
fn trap(states: usize, arrivals: &[(u32, u32)], goals: Vec<u32>) -> Option<u32> {
    let mut sorted = arrivals.to_vec();
    sorted.sort_unstable();
    let mut reaches = vec![false; states];
    let mut left = goals;
    while let Some(number) = left.pop() {
        if !std::mem::replace(&mut reaches[number as usize], true) {
            let first = sorted.partition_point(|(to, _)| *to < number);
            let before = sorted[first..].iter().take_while(|(to, _)| *to == number);
            left.extend(before.map(|(_, from)| *from));
        }
    }
    let first = reaches.iter().position(|reaches| !reaches)?;
    Some(u32::try_from(first).unwrap())
}

fn history(origins: &[(u32, Option<Move>)], end: u32) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut number = end;
    while let (from, Some(what)) = origins[number as usize] {
        moves.push(what);
        number = from;
    }
    moves.reverse();
    moves
}
