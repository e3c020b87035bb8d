//! What comes next for the pods of a workload that change, leave and join at the same time.
//!
//! A *pool* is one set of pods with ordinals from 0. The last pool is the current one; all pods of the others are *doomed*, and so
//! are those of the current one whose index is not below the number that is asked for. The others are *survivors*. A doomed pod
//! is never restarted and never created. So a change of the template together with a lower number restarts each survivor once
//! and drains each doomed pod once, which is the least that there is to do.
//!
//! ```text
//!   cancel ──> drain what is too many ──> replace old pools ──> create ──> restart survivors
//!              (`roll_first`: after the restarts)
//! ```
//!
//! [`due`] says what is next in this order; [`next`] also says whether it may be done now.

/// A pod of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether it has the template that is asked for.
    pub is_new: bool,
    /// Whether it serves.
    pub is_available: bool,
    /// How it is being changed, if it is.
    pub change: Change,
}

/// How a pod is being changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// It is not.
    #[default]
    None,
    /// It is being prepared for its removal, which can be taken back.
    Leaving,
    /// It is being deleted.
    Terminating,
}

/// Pods with the indexes from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Whether its own controller has observed its spec.
    pub is_observed: bool,
    /// Its pods by index. One that its spec asks for and that does not exist is neither new nor available.
    pub slots: Vec<Slot>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How many pods.
    pub wanted: usize,
    /// How many of them may be unavailable because of us.
    pub max_unavailable: usize,
    /// How many there may be beyond, while pools are replaced.
    pub max_surge: usize,
    /// How many may be changed at the same time.
    pub parallelism: usize,
    /// Whether survivors are restarted before doomed pods leave: the new template is what makes fewer pods sufficient. No kind has
    /// a field for it. The other order is right wherever doomed pods can be told to leave before the survivors are restarted; this
    /// one is for an embedder whose old pods cannot do with fewer, and costs the same.
    pub roll_first: bool,
}

/// A pod, by its pool and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub pool: usize,
    pub index: usize,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Take back the preparation of a pod that is wanted again.
    Cancel(Place),
    /// Prepare a pod for its removal, and remove it.
    Drain(Place),
    /// Create a pod with the new template.
    Create(Place),
    /// Replace a pod by one with the new template.
    Restart(Place),
}

/// Why nothing may be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The controller of a pool has not observed its spec.
    Unobserved { pool: usize },
    /// As many pods are being changed as may be; this is one of them.
    Busy(Place),
    /// A pod with the new template does not serve: nothing else is given up for that template, and nothing is created from it.
    NewUnavailable(Place),
    /// Too few pods would be available.
    Floor { available: usize, floor: usize },
}

/// What [`next`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Do this.
    Do(Move),
    /// Wait.
    Wait(Pause),
    /// Everything is as it is asked for.
    Converged,
}

impl Slot {
    fn is_leaving(self) -> bool {
        self.change == Change::Leaving
    }
}

/// The step that comes next, whether or not it may be done now. `None` where everything is as it is asked for.
pub fn due(pools: &[Pool], rule: &Rule) -> Option<Move> {
    let (current, old) = pools.split_last()?;
    let own = old.len();
    let place = |index| Place { pool: own, index };
    let survivors = || current.slots.iter().enumerate().take(rule.wanted);
    if let Some((index, _)) = survivors().find(|(_, slot)| slot.is_leaving()) {
        return Some(Move::Cancel(place(index)));
    }
    let total: usize = pools.iter().map(|pool| pool.slots.len()).sum();
    let is_too_many = total > rule.wanted;
    // Of those that may go, one that does not serve anyway is the first; a set removes its highest ordinal first.
    let restart = || {
        let mut outdated = survivors().rev().filter(|(_, slot)| !slot.is_new);
        let down = outdated.clone().find(|(_, slot)| !slot.is_available);
        down.or_else(|| outdated.next()).map(|(index, _)| Move::Restart(place(index)))
    };
    if rule.roll_first
        && is_too_many
        && let Some(restart) = restart()
    {
        return Some(restart);
    }
    if is_too_many && let Some(victim) = victim(pools, rule) {
        return Some(Move::Drain(victim));
    }
    let next = current.slots.len();
    if old.iter().any(|pool| !pool.slots.is_empty()) {
        let has_room = total < rule.wanted.saturating_add(rule.max_surge) && next < rule.wanted;
        return if has_room { Some(Move::Create(place(next))) } else { victim(pools, rule).map(Move::Drain) };
    }
    if next < rule.wanted {
        return Some(Move::Create(place(next)));
    }
    restart()
}

/// The doomed pod that leaves next: the highest one of a pool, of the oldest pool unless that of another one does not serve.
fn victim(pools: &[Pool], rule: &Rule) -> Option<Place> {
    let own = pools.len().saturating_sub(1);
    let highest = |(number, pool): (usize, &Pool)| {
        let staying = if number == own { rule.wanted } else { 0 };
        let index = pool.slots.len().checked_sub(1).filter(|index| *index >= staying)?;
        Some((Place { pool: number, index }, *pool.slots.get(index)?))
    };
    let candidates = || pools.iter().enumerate().filter_map(highest);
    let down = candidates().find(|(_, slot)| !slot.is_available);
    down.or_else(|| candidates().next()).map(|(place, _)| place)
}

/// The next step, if it may be done now.
pub fn next(pools: &[Pool], rule: &Rule) -> Next {
    let Some(step) = due(pools, rule) else { return Next::Converged };
    if let Some(pool) = pools.iter().position(|pool| !pool.is_observed) {
        return Next::Wait(Pause::Unobserved { pool });
    }
    if matches!(step, Move::Cancel(_)) {
        return Next::Do(step);
    }
    if let Some(busy) = busy(pools, rule) {
        return Next::Wait(busy);
    }
    let available = pools.iter().flat_map(|pool| &pool.slots).filter(|slot| slot.is_available).count();
    let floor = rule.wanted.saturating_sub(rule.max_unavailable);
    let costs = match step {
        Move::Drain(place) | Move::Restart(place) => {
            let slot = pools.get(place.pool).and_then(|pool| pool.slots.get(place.index));
            slot.is_some_and(|slot| slot.is_available)
        }
        Move::Cancel(_) | Move::Create(_) => false,
    };
    if costs && available <= floor {
        return Next::Wait(Pause::Floor { available, floor });
    }
    Next::Do(step)
}

/// Why no further pod may be changed because of those that are. A survivor with the new template that does not serve has not
/// come up, or has broken: both stop everything that would rest on it.
fn busy(pools: &[Pool], rule: &Rule) -> Option<Pause> {
    let own = pools.len().saturating_sub(1);
    let all = || {
        let of = |(pool, slots): (usize, &'_ Pool)| {
            slots
                .slots
                .clone()
                .into_iter()
                .enumerate()
                .map(move |(index, slot)| (Place { pool, index }, slot))
        };
        pools.iter().enumerate().flat_map(of)
    };
    let is_starting = |(place, slot): &(Place, Slot)| {
        place.pool == own && place.index < rule.wanted && slot.is_new && !slot.is_available
    };
    let is_changing = |(_, slot): &(Place, Slot)| slot.change != Change::None;
    let starting: Vec<_> = all().filter(is_starting).collect();
    let changing: Vec<_> = all().filter(|it| is_changing(it) && !is_starting(it)).collect();
    if starting.len().saturating_add(changing.len()) < rule.parallelism {
        return None;
    }
    let changing = changing.first().map(|(place, _)| Pause::Busy(*place));
    changing.or_else(|| starting.first().map(|(place, _)| Pause::NewUnavailable(*place)))
}

#[cfg(test)]
#[path = "tests/pools.rs"]
mod tests;
