//! Which StatefulSet of a place runs which ordinals, and what changes next.
//!
//! ```text
//!   v1 0 1 2          v1 0 1            v1 0 1
//!   v2 .       ──>    v2 .       ──>    v2     2      ──> ...
//!              give              take
//! ```
//!
//! The sets of a place share its ordinals: each runs one range, and no two ranges overlap. An ordinal goes from one set to
//! another in two writes. It is taken only when every other set has observed its range and a consistent list, made after that,
//! shows no pod of the ordinal outside the set that takes it: two pods of an ordinal would write to one claim. Everything is
//! decided from the ranges and the pods, so a crash between the two writes leaves nothing to remember.
//!
//! A write of an operator that has crashed may land late. Each carries the version of its set, so before another set takes
//! ordinals than the one that did, every set of the place is written to: then nothing that was sent for it before succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How many ordinals are taken in one write: a place of more pods takes several.
const MAX_TAKEN: u32 = 1_000;

/// A set of the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The ordinals that it asks for; empty for a set that is being deleted.
    pub range: Range<u32>,
    /// Whether its controller has observed that.
    pub is_observed: bool,
    /// Its pods in the range that are not being deleted.
    pub pods: BTreeMap<u32, State>,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Available,
    /// It may become available by itself.
    Unavailable,
    /// It will not become available by itself.
    Broken,
}

/// A pod by its ordinal and its set; `None` where its set is none of the place.
pub type Occupant = (u32, Option<usize>);

/// What is known of a place.
#[derive(Clone, Copy)]
pub struct Place<'p> {
    /// The ordinals that are asked for.
    pub wanted: &'p Range<u32>,
    /// The sets, the oldest version first.
    pub pools: &'p [Pool],
    /// The set that shall run all of them.
    pub target: usize,
    /// Every pod that exists, on its way out or not, as the cache has it.
    pub present: &'p BTreeSet<Occupant>,
    /// The same by a consistent list that was made when the pools were as they are; `None` where none was made.
    pub listed: Option<&'p BTreeSet<Occupant>>,
    /// Whether the claims of an ordinal exist.
    pub has_claims: &'p dyn Fn(u32) -> bool,
    /// Whether a pod that serves may be given up.
    pub may_give: bool,
    /// How many pods may be unavailable.
    pub max_unavailable: u32,
    /// Whether the target is an older version than the one that it replaces.
    pub reverts: bool,
}

/// What is done next in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A set gives up ordinals that are not asked for, or that another set runs.
    Cut {
        pool: usize,
        range: Range<u32>,
    },
    /// The pods are listed, so that a set can take ordinals.
    List {
        pool: usize,
    },
    /// A set takes ordinals that no set has.
    Take {
        pool: usize,
        range: Range<u32>,
    },
    /// A set gives up an ordinal for the target.
    Give {
        pool: usize,
        ordinal: u32,
        range: Range<u32>,
    },
    Wait(Pause),
    /// The target runs all ordinals, and all its pods are available.
    Done,
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The controller of a set has not observed its range.
    Unobserved(usize),
    /// Pods that exist keep ordinals from being taken.
    Occupied(Vec<Occupant>),
    /// An ordinal has no claims.
    NoClaims(u32),
    /// Pods of the target are not available.
    Starting,
    /// Pods of another set are not available, so that this ordinal is not given up.
    Unavailable { pool: usize, ordinal: u32 },
    /// Nothing may be given up.
    Held,
}

impl Pool {
    fn has(&self, ordinal: u32) -> bool {
        self.range.contains(&ordinal)
    }

    fn len(&self) -> u32 {
        length(&self.range)
    }

    /// How many of its pods are not available, or do not exist. Broken ones are counted where that is asked for.
    fn unavailable(&self, counts_broken: bool) -> u32 {
        let is_counted =
            |state: State| state == State::Unavailable || counts_broken && state == State::Broken;
        let others = self.pods.iter().filter(|(ordinal, state)| self.has(**ordinal) && !is_counted(**state));
        self.len().saturating_sub(u32::try_from(others.count()).unwrap_or(u32::MAX))
    }

    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

fn length(range: &Range<u32>) -> u32 {
    range.end.saturating_sub(range.start)
}

/// What is done next.
pub fn next(place: &Place<'_>) -> Next {
    let Some(target) = place.pools.get(place.target) else { return Next::Done };
    if let Some(cut) = cut(place, target) {
        return cut;
    }
    let taken = take(place);
    if let Some(Ok(next)) = &taken {
        return next.clone();
    }
    let (given, missing) = (give(place, target), place.missing());
    match (taken, given) {
        // What is in the way of an ordinal that nobody runs comes first, unless the budget has room for another one.
        (Some(Err(pause)), Next::Done | Next::Wait(_)) => Next::Wait(pause),
        (_, Next::Done) if missing > 0 => Next::Wait(Pause::Held),
        (_, given) => given,
    }
}

impl Place<'_> {
    /// How many ordinals no set has.
    fn missing(&self) -> u32 {
        let covered = self.pools.iter().map(|pool| {
            let start = pool.range.start.max(self.wanted.start);
            pool.range.end.min(self.wanted.end).saturating_sub(start)
        });
        length(self.wanted).saturating_sub(covered.fold(0, u32::saturating_add))
    }

    fn is_free(&self, ordinal: u32) -> bool {
        self.wanted.contains(&ordinal) && !self.pools.iter().any(|pool| pool.has(ordinal))
    }

    /// Whether a pod that is not of this set exists for an ordinal.
    fn is_occupied(&self, ordinal: u32, taker: usize) -> bool {
        let is_other = |known: &BTreeSet<Occupant>| {
            let of_ordinal = known.range((ordinal, None)..).take_while(|(known, _)| *known == ordinal);
            of_ordinal.into_iter().any(|(_, pool)| *pool != Some(taker))
        };
        is_other(self.present) || self.listed.is_some_and(is_other)
    }

    fn may_take(&self, ordinal: u32, taker: usize) -> bool {
        self.is_free(ordinal) && !self.is_occupied(ordinal, taker) && (self.has_claims)(ordinal)
    }

    /// The range of a set with the ordinals beside it that it may take.
    fn grown(&self, taker: usize, range: &Range<u32>) -> Range<u32> {
        let Range { mut start, mut end } = range.clone();
        let mut count = 0;
        while count < MAX_TAKEN && end < self.wanted.end && self.may_take(end, taker) {
            (end, count) = (end.saturating_add(1), count.saturating_add(1));
        }
        while count < MAX_TAKEN
            && let Some(below) = start.checked_sub(1).filter(|below| self.may_take(*below, taker))
        {
            (start, count) = (below, count.saturating_add(1));
        }
        start..end
    }

    /// The highest ordinal that no set has, and that a set without ordinals may begin with.
    fn beginning(&self, taker: usize) -> Option<u32> {
        let mut end = self.wanted.end;
        // Below each pool lies at most one stretch of ordinals that nobody has.
        for _ in 0..=self.pools.len() {
            let mut tried = 0;
            while tried < MAX_TAKEN
                && let Some(below) = end.checked_sub(1).filter(|below| self.is_free(*below))
            {
                if self.may_take(below, taker) {
                    return Some(below);
                }
                (end, tried) = (below, tried.saturating_add(1));
            }
            let above = end.checked_sub(1)?;
            let holder = self.pools.iter().find(|pool| pool.has(above))?;
            end = holder.range.start;
        }
        None
    }
}

/// Ordinals that are not asked for are given up at once, and so are those that two sets ask for, by the target or else the newer
/// one: the pods of the other one were there before.
fn cut(place: &Place<'_>, target: &Pool) -> Option<Next> {
    for (pool, known) in place.pools.iter().enumerate().filter(|(_, known)| !known.is_empty()) {
        let range = known.range.start.max(place.wanted.start)..known.range.end.min(place.wanted.end);
        if range != known.range {
            return Some(Next::Cut { pool, range: or_empty(range, known) });
        }
    }
    let others = place.pools.iter().enumerate().filter(|(pool, _)| *pool != place.target);
    let mut sets: Vec<_> = others.collect();
    sets.push((place.target, target));
    for (at, (pool, known)) in sets.iter().enumerate() {
        let mut before = sets.iter().take(at).map(|(_, before)| before);
        if let Some(before) = before.find(|before| overlap(&before.range, &known.range)) {
            let range = if before.range.start <= known.range.start {
                before.range.end.min(known.range.end)..known.range.end
            } else {
                known.range.start..before.range.start
            };
            return Some(Next::Cut { pool: *pool, range: or_empty(range, known) });
        }
    }
    None
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

/// A range, or an empty one where the set would have none of its ordinals.
fn or_empty(range: Range<u32>, pool: &Pool) -> Range<u32> {
    if range.is_empty() { pool.range.start..pool.range.start } else { range }
}

/// What can be done for ordinals that no set has; `None` where there are none.
fn take(place: &Place<'_>) -> Option<Result<Next, Pause>> {
    if place.missing() == 0 {
        return None;
    }
    let mut takers = vec![place.target];
    if !place.may_give {
        // Meanwhile those that are there are scaled, so that nobody waits for a rollout that does not go on.
        takers.extend((0..place.pools.len()).filter(|pool| *pool != place.target));
    }
    for taker in takers {
        let Some(pool) = place.pools.get(taker) else { continue };
        let begins = taker == place.target && (place.may_give || place.pools.iter().all(Pool::is_empty));
        let range = match pool.is_empty() {
            false => pool.range.clone(),
            true if begins => match place.beginning(taker) {
                Some(first) => first..first.saturating_add(1),
                None => continue,
            },
            true => continue,
        };
        let grown = place.grown(taker, &range);
        if grown == pool.range {
            continue;
        }
        let mut others = place.pools.iter().enumerate().filter(|(other, _)| *other != taker);
        if let Some((other, _)) = others.find(|(_, other)| !other.is_observed) {
            return Some(Err(Pause::Unobserved(other)));
        }
        if place.listed.is_none() {
            return Some(Ok(Next::List { pool: taker }));
        }
        return Some(Ok(Next::Take { pool: taker, range: grown }));
    }
    in_the_way(place).map(Err)
}

/// What keeps the highest ordinal that no set has from being taken.
fn in_the_way(place: &Place<'_>) -> Option<Pause> {
    let occupied = || {
        let all = place.present.iter().chain(place.listed.into_iter().flatten());
        let is_in_the_way =
            |(ordinal, pool): &&Occupant| place.is_free(*ordinal) && *pool != Some(place.target);
        all.filter(is_in_the_way).copied().collect::<BTreeSet<_>>()
    };
    let occupied: Vec<_> = occupied().into_iter().collect();
    if !occupied.is_empty() {
        return Some(Pause::Occupied(occupied));
    }
    let mut free =
        place.wanted.clone().rev().take(MAX_TAKEN as usize).filter(|ordinal| place.is_free(*ordinal));
    free.find(|ordinal| !(place.has_claims)(*ordinal)).map(Pause::NoClaims)
}

/// Which ordinal the target gets next, and whether its set may give it up now.
fn give(place: &Place<'_>, target: &Pool) -> Next {
    let held_by = |ordinal: u32| {
        let is_other = |(pool, known): &(usize, &Pool)| *pool != place.target && known.has(ordinal);
        place.pools.iter().enumerate().find(is_other).map(|(pool, known)| (pool, known, ordinal))
    };
    let ends = if target.is_empty() {
        [place.wanted.end.checked_sub(1), Some(place.wanted.start)]
    } else {
        let (below, above) = (target.range.start.checked_sub(1), Some(target.range.end));
        if place.reverts { [above, below] } else { [below, above] }
    };
    let candidates = ends.into_iter().flatten().filter(|ordinal| place.wanted.contains(ordinal));
    let rank = |(_, known, ordinal): &(usize, &Pool, u32)| match known.pods.get(ordinal) {
        Some(State::Broken) => 0,
        None | Some(State::Unavailable) => 1,
        Some(State::Available) => 2,
    };
    let Some((pool, known, ordinal)) = candidates.filter_map(held_by).min_by_key(rank) else {
        // A pod of the target that has been given up elsewhere is not waited for.
        let is_whole = target.unavailable(true) == 0;
        return if is_whole { Next::Done } else { Next::Wait(Pause::Starting) };
    };
    if let Some(other) = place.pools.iter().position(|other| !other.is_observed) {
        return Next::Wait(Pause::Unobserved(other));
    }
    if !place.may_give {
        return Next::Wait(Pause::Held);
    }
    let on_their_way = place.missing().saturating_add(target.unavailable(true));
    if on_their_way >= place.max_unavailable {
        return Next::Wait(Pause::Starting);
    }
    let state = known.pods.get(&ordinal);
    // Two broken pods must not wait for each other, and a broken version must not keep an older one from coming back.
    let counts_broken = state != Some(&State::Broken) && !place.reverts;
    let others = place.pools.iter().enumerate().filter(|(other, _)| *other != place.target);
    let unavailable = others.map(|(_, other)| other.unavailable(counts_broken)).fold(0, u32::saturating_add);
    let is_counted = match state {
        Some(State::Available) => false,
        Some(State::Broken) => counts_broken,
        Some(State::Unavailable) | None => true,
    };
    let besides = unavailable.saturating_sub(u32::from(is_counted));
    if on_their_way.saturating_add(besides) >= place.max_unavailable {
        return Next::Wait(Pause::Unavailable { pool, ordinal });
    }
    let range = if ordinal == known.range.start {
        ordinal.saturating_add(1)..known.range.end
    } else {
        known.range.start..ordinal
    };
    Next::Give { pool, ordinal, range: or_empty(range, known) }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
