//! A place: what there is, what the operator has seen of it, and everything that can happen next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sts_plus_planner::extended::ranges::{self, Next, Occupant, Place, Pool, State as Health};

/// The rules that the promise rests on.
#[expect(clippy::struct_excessive_bools, reason = "each rule is taken away by itself")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// An ordinal is taken after a consistent list of the pods.
    pub(crate) lists: bool,
    /// And after the other controllers have observed their ranges.
    pub(crate) waits_for_observation: bool,
    /// And when no pod of it exists elsewhere.
    pub(crate) waits_for_pods: bool,
    /// A write insists on the version of its set.
    pub(crate) preconditions: bool,
    /// Every set is written to before another one takes ordinals.
    pub(crate) appoints: bool,
}

impl Rules {
    pub(crate) const ALL: Self = Self {
        lists: true,
        waits_for_observation: true,
        waits_for_pods: true,
        preconditions: true,
        appoints: true,
    };
}

/// How many ordinals there are at most.
const MOST: u32 = 2;

const SETS: usize = 3;

type Span = (u32, u32);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Set {
    range: Span,
    /// Counts changes of the set.
    version: u8,
    /// Counts changes of the range.
    generation: u8,
    observed: u8,
    taker: Option<usize>,
    /// What its controller acts on, and of which generation that is.
    acts_on: (Span, u8),
}

/// What is cached of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    range: Span,
    version: u8,
    generation: u8,
    is_observed: bool,
    taker: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pod {
    Starting,
    Ready,
    Terminating,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    set: usize,
    version: u8,
    what: Change,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Range(Span),
    Taker(usize),
}

type Pods = BTreeMap<(u32, usize), Pod>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    sets: Vec<Option<Set>>,
    pods: Pods,
    target: usize,
    wanted: u32,
    seen_sets: Vec<Option<Row>>,
    seen_pods: Pods,
    /// The list of this pass, and the generations that it was made under.
    listed: Option<(Vec<Option<u8>>, BTreeSet<Occupant>)>,
    /// The own write that the cache has to show before the next pass.
    awaited: Option<(usize, u8)>,
    /// A write whose operator has crashed.
    flying: Option<Write>,
    /// How much may still go wrong, or change.
    edits: u8,
    accidents: u8,
    crashes: u8,
}

/// Takes in what may happen next, and how that changes a state.
type Add<'a> = dyn FnMut(Step, &dyn Fn(&mut State)) + 'a;

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    SeeSets,
    SeePods,
    List,
    PassEnds,
    Write,
    Crash,
    CrashWithAWrite,
    Lands,
    Observe(usize),
    Report(usize),
    Create(usize, u32),
    Delete(usize, u32),
    Start(usize, u32),
    End(usize, u32),
    AskFor(usize),
    Scale(u32),
    KillPod(usize, u32),
    KillSet(usize),
}

impl Step {
    /// Whether it happens by itself, sooner or later.
    pub(crate) fn is_progress(&self) -> bool {
        !matches!(
            self,
            Self::Crash
                | Self::CrashWithAWrite
                | Self::AskFor(_)
                | Self::Scale(_)
                | Self::KillPod(..)
                | Self::KillSet(_)
        )
    }
}

fn range((start, end): Span) -> Range<u32> {
    start..end
}

impl State {
    pub(crate) fn new() -> Self {
        let set = |range: Span| Set {
            range,
            version: 1,
            generation: 1,
            observed: 1,
            taker: Some(0),
            acts_on: (range, 1),
        };
        let sets = vec![Some(set((0, MOST))), Some(set((0, 0))), Some(set((0, 0)))];
        let pods: Pods = (0..MOST).map(|ordinal| ((ordinal, 0), Pod::Ready)).collect();
        let mut state = Self {
            sets,
            seen_pods: pods.clone(),
            pods,
            target: 1,
            wanted: MOST,
            seen_sets: Vec::new(),
            listed: None,
            awaited: None,
            flying: None,
            edits: 1,
            accidents: 1,
            crashes: 1,
        };
        state.see_sets();
        state
    }

    pub(crate) fn has_two_writers(&self) -> bool {
        (0..MOST).any(|ordinal| self.pods.keys().filter(|(known, _)| *known == ordinal).count() > 1)
    }

    /// Whether everything is as asked for; a set that somebody has deleted is created anew elsewhere.
    pub(crate) fn is_done(&self) -> bool {
        let Some(target) = &self.sets[self.target] else { return true };
        let pods = |ordinal| self.pods.get(&(ordinal, self.target)) == Some(&Pod::Ready);
        (target.range == (0, self.wanted) || self.wanted == 0 && target.range.0 == target.range.1)
            && (0..self.wanted).all(pods)
    }

    fn see_sets(&mut self) {
        let row = |set: &Set| Row {
            range: set.range,
            version: set.version,
            generation: set.generation,
            is_observed: set.observed >= set.generation,
            taker: set.taker,
        };
        self.seen_sets = self.sets.iter().map(|set| set.as_ref().map(row)).collect();
        let is_seen =
            |set: usize, version: u8| self.seen_sets[set].as_ref().is_none_or(|row| row.version >= version);
        self.awaited = self.awaited.filter(|(set, version)| !is_seen(*set, *version));
    }

    fn basis(&self) -> Vec<Option<u8>> {
        self.seen_sets.iter().map(|row| row.as_ref().map(|row| row.generation)).collect()
    }

    /// What the operator does next by what it has seen: a list, or a write.
    fn decide(&self, rules: Rules) -> Option<Result<Write, ()>> {
        if self.awaited.is_some() {
            return None;
        }
        self.seen_sets[self.target].as_ref()?;
        let mut at = Vec::new();
        let mut pools = Vec::new();
        for (set, row) in self.seen_sets.iter().enumerate() {
            let Some(row) = row else { continue };
            let pods = self.seen_pods.iter().filter(|((ordinal, of), pod)| {
                *of == set && **pod != Pod::Terminating && range(row.range).contains(ordinal)
            });
            let health = |pod: &Pod| if *pod == Pod::Ready { Health::Available } else { Health::Unavailable };
            at.push(set);
            pools.push(Pool {
                range: range(row.range),
                is_observed: row.is_observed || !rules.waits_for_observation,
                pods: pods.map(|((ordinal, _), pod)| (*ordinal, health(pod))).collect(),
            });
        }
        let pool_of = |set: usize| at.iter().position(|known| *known == set);
        let occupants = |pods: &mut dyn Iterator<Item = (u32, usize)>| -> BTreeSet<Occupant> {
            pods.map(|(ordinal, set)| (ordinal, pool_of(set))).collect()
        };
        let present = occupants(&mut self.seen_pods.keys().copied());
        let none = BTreeSet::new();
        let listed = self.listed.as_ref().filter(|(basis, _)| *basis == self.basis());
        let listed: Option<BTreeSet<Occupant>> = listed
            .map(|(_, pods)| pods.iter().map(|(ordinal, set)| (*ordinal, set.and_then(pool_of))).collect());
        let listed = if rules.lists { listed } else { Some(BTreeSet::new()) };
        let target = pool_of(self.target)?;
        let next = ranges::next(&Place {
            wanted: &(0..self.wanted),
            pools: &pools,
            target,
            present: if rules.waits_for_pods { &present } else { &none },
            listed: if rules.waits_for_pods { listed.as_ref() } else { Some(&none) },
            has_claims: &|_| true,
            may_give: true,
            max_unavailable: 1,
            reverts: pools.iter().skip(target + 1).any(|pool| !pool.range.is_empty()),
        });
        let write = |pool: usize, what: Change| {
            let set = at[pool];
            let version = self.seen_sets[set].as_ref().map_or(0, |row| row.version);
            Some(Ok(Write { set, version, what }))
        };
        if let Next::List { pool } | Next::Take { pool, .. } = next
            && rules.appoints
        {
            let taker = at[pool];
            let other = at
                .iter()
                .position(|set| self.seen_sets[*set].as_ref().is_some_and(|row| row.taker != Some(taker)));
            if let Some(other) = other {
                return write(other, Change::Taker(taker));
            }
        }
        match next {
            Next::List { .. } => Some(Err(())),
            Next::Cut { pool, range } | Next::Take { pool, range } | Next::Give { pool, range, .. } => {
                write(pool, Change::Range((range.start, range.end)))
            }
            Next::Wait(_) | Next::Done => None,
        }
    }

    fn apply(&mut self, write: &Write, rules: Rules) -> Option<u8> {
        let set = self.sets[write.set].as_mut()?;
        if rules.preconditions && set.version != write.version {
            return None;
        }
        set.version += 1;
        match write.what {
            Change::Range(range) => {
                set.range = range;
                set.generation += 1;
            }
            Change::Taker(taker) => set.taker = Some(taker),
        }
        Some(set.version)
    }

    fn restart(&mut self) {
        self.crashes -= 1;
        self.listed = None;
        self.awaited = None;
        self.see_sets();
        self.seen_pods = self.pods.clone();
    }

    pub(crate) fn steps(&self, rules: Rules) -> Vec<(Step, Self)> {
        let mut steps = Vec::new();
        let mut add = |step: Step, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            if next != *self {
                steps.push((step, next));
            }
        };
        add(Step::SeeSets, &Self::see_sets);
        add(Step::SeePods, &|state| state.seen_pods = state.pods.clone());
        match self.decide(rules) {
            Some(Err(())) => add(Step::List, &|state| {
                let pods = state.pods.keys().map(|(ordinal, set)| (*ordinal, Some(*set))).collect();
                state.listed = Some((state.basis(), pods));
            }),
            Some(Ok(write)) => {
                add(Step::Write, &|state| {
                    state.listed = None;
                    match state.apply(&write, rules) {
                        Some(version) => state.awaited = Some((write.set, version)),
                        // A conflict: what is there is seen first.
                        None => state.see_sets(),
                    }
                });
                if self.crashes > 0 {
                    add(Step::CrashWithAWrite, &|state| {
                        state.restart();
                        state.flying = Some(write.clone());
                    });
                }
            }
            None => {}
        }
        add(Step::PassEnds, &|state| state.listed = None);
        if self.listed.is_some() && self.crashes > 0 {
            add(Step::Crash, &Self::restart);
        }
        if let Some(write) = &self.flying {
            add(Step::Lands, &|state| {
                state.flying = None;
                state.apply(write, rules);
            });
        }
        self.cluster(&mut add);
        self.people(&mut add);
        steps
    }

    /// What the StatefulSet controllers and the kubelets do.
    fn cluster(&self, add: &mut Add<'_>) {
        for (at, set) in self.sets.iter().enumerate() {
            let Some(set) = set else {
                for (ordinal, _) in self.pods.keys().filter(|(_, of)| *of == at) {
                    add(Step::Delete(at, *ordinal), &|state| {
                        state.pods.insert((*ordinal, at), Pod::Terminating);
                    });
                }
                continue;
            };
            add(Step::Observe(at), &|state| {
                if let Some(set) = &mut state.sets[at] {
                    set.acts_on = (set.range, set.generation);
                }
            });
            add(Step::Report(at), &|state| {
                if let Some(set) = &mut state.sets[at] {
                    set.observed = set.acts_on.1;
                }
            });
            for ordinal in 0..MOST {
                let pod = self.pods.get(&(ordinal, at));
                let is_wanted = range(set.acts_on.0).contains(&ordinal);
                if is_wanted && pod.is_none() {
                    add(Step::Create(at, ordinal), &|state| {
                        state.pods.insert((ordinal, at), Pod::Starting);
                    });
                }
                if !is_wanted && pod.is_some() {
                    add(Step::Delete(at, ordinal), &|state| {
                        state.pods.insert((ordinal, at), Pod::Terminating);
                    });
                }
            }
        }
        for ((ordinal, set), pod) in &self.pods {
            let key = (*ordinal, *set);
            match pod {
                Pod::Starting => add(Step::Start(*set, *ordinal), &|state| {
                    state.pods.insert(key, Pod::Ready);
                }),
                Pod::Terminating => add(Step::End(*set, *ordinal), &|state| {
                    state.pods.remove(&key);
                }),
                Pod::Ready => {}
            }
        }
    }

    fn people(&self, add: &mut Add<'_>) {
        if self.edits > 0 {
            for target in (0..SETS).filter(|target| self.sets[*target].is_some()) {
                if target != self.target {
                    add(Step::AskFor(target), &|state| {
                        state.target = target;
                        state.edits -= 1;
                    });
                }
            }
            for wanted in (0..=MOST).filter(|wanted| *wanted != self.wanted) {
                add(Step::Scale(wanted), &|state| {
                    state.wanted = wanted;
                    state.edits -= 1;
                });
            }
        }
        if self.accidents > 0 {
            for (ordinal, set) in self.pods.keys().filter(|key| self.pods[*key] != Pod::Terminating) {
                add(Step::KillPod(*set, *ordinal), &|state| {
                    state.pods.insert((*ordinal, *set), Pod::Terminating);
                    state.accidents -= 1;
                });
            }
            for set in (0..SETS).filter(|set| *set != self.target && self.sets[*set].is_some()) {
                add(Step::KillSet(set), &|state| {
                    state.sets[set] = None;
                    state.accidents -= 1;
                });
            }
        }
    }
}
