//! The order of steps: by scenario, over all combinations of numbers, and with failures and edits in between.

use super::*;

/// More steps than any story of at most seven pods takes.
const MAX_STEPS: usize = 400;

fn slot(is_new: bool, is_available: bool) -> Slot {
    Slot { is_new, is_available, change: Change::None }
}

fn pool(slots: Vec<Slot>) -> Pool {
    Pool { is_observed: true, slots }
}

fn rule(wanted: usize) -> Rule {
    Rule { wanted, max_unavailable: 1, max_surge: 0, parallelism: 1, roll_first: false }
}

/// A workload and what was done to it.
#[derive(Clone, Debug)]
struct Workload {
    pools: Vec<Pool>,
    rule: Rule,
    drains: usize,
    creates: usize,
    restarts: usize,
    /// What each step left: how many pods, and how many of them serve.
    passed: Vec<(usize, usize)>,
    story: Vec<Move>,
}

impl Workload {
    fn new(pools: Vec<Pool>, rule: Rule) -> Self {
        Self { pools, rule, drains: 0, creates: 0, restarts: 0, passed: Vec::new(), story: Vec::new() }
    }

    fn total(&self) -> usize {
        self.pools.iter().map(|pool| pool.slots.len()).sum()
    }

    fn available(&self) -> usize {
        self.pools.iter().flat_map(|pool| &pool.slots).filter(|slot| slot.is_available).count()
    }

    fn slot(&mut self, place: Place) -> &mut Slot {
        &mut self.pools[place.pool].slots[place.index]
    }

    /// Begins a step, which takes time. Doomed pods are neither created nor restarted, whatever else is the case.
    fn begin(&mut self, step: Move) {
        let is_doomed = |place: Place| place.pool + 1 < self.pools.len() || place.index >= self.rule.wanted;
        match step {
            Move::Cancel(place) => self.slot(place).change = Change::None,
            Move::Drain(place) => {
                assert!(is_doomed(place), "{place:?} stays: {self:?}");
                let slot = self.slot(place);
                (slot.change, slot.is_available) = (Change::Leaving, false);
                self.drains += 1;
            }
            Move::Create(place) => {
                assert!(!is_doomed(place), "{place:?} leaves: {self:?}");
                assert_eq!(place.index, self.pools[place.pool].slots.len());
                self.pools[place.pool].slots.push(slot(true, false));
                self.creates += 1;
            }
            Move::Restart(place) => {
                assert!(!is_doomed(place), "{place:?} leaves: {self:?}");
                *self.slot(place) = slot(true, false);
                self.restarts += 1;
            }
        }
        self.story.push(step);
        self.passed.push((self.total(), self.available()));
    }

    /// What was begun ends: pods come up, those that leave are gone.
    fn finish(&mut self, comes_up: bool) -> bool {
        let before = self.pools.clone();
        for pool in &mut self.pools {
            while pool.slots.last().is_some_and(|slot| slot.change != Change::None) {
                pool.slots.pop();
            }
            let starting = pool.slots.iter_mut().filter(|slot| slot.is_new && slot.change == Change::None);
            starting.for_each(|slot| slot.is_available |= comes_up);
        }
        self.passed.push((self.total(), self.available()));
        self.pools != before
    }

    /// Until nothing happens any more.
    fn run(&mut self) -> Next {
        for _ in 0..MAX_STEPS {
            match next(&self.pools, &self.rule) {
                Next::Do(step) => self.begin(step),
                other => {
                    if !self.finish(true) {
                        return other;
                    }
                }
            }
        }
        panic!("no end: {self:?}");
    }

    fn costs(&self) -> (usize, usize, usize) {
        (self.restarts, self.drains, self.creates)
    }
}

#[test]
fn a_b9_9_a_new_template_and_fewer_pods_restart_and_drain_each_pod_once() {
    let mut workload = Workload::new(vec![pool(vec![slot(false, true); 5])], rule(3));
    assert_eq!(workload.run(), Next::Converged);
    assert_eq!(workload.costs(), (3, 2, 0));
    assert_eq!(workload.story[..2], [4, 3].map(|index| Move::Drain(Place { pool: 0, index })));
}

#[test]
fn a_b9_10_survivors_can_be_restarted_first_at_the_same_cost() {
    let rule = Rule { roll_first: true, ..rule(3) };
    let mut workload = Workload::new(vec![pool(vec![slot(false, true); 5])], rule);
    assert_eq!(workload.run(), Next::Converged);
    assert_eq!(workload.costs(), (3, 2, 0));
    assert_eq!(workload.story[..3], [2, 1, 0].map(|index| Move::Restart(Place { pool: 0, index })));
}

#[test]
fn a_b9_11_new_pods_are_born_with_the_new_template() {
    let mut workload = Workload::new(vec![pool(vec![slot(false, true); 2])], rule(4));
    assert_eq!(workload.run(), Next::Converged);
    assert_eq!(workload.costs(), (2, 0, 2));
}

#[test]
fn a_b9_18_nothing_leaves_and_nothing_is_created_while_a_new_pod_does_not_come_up() {
    for pools in
        [vec![pool(vec![slot(false, true); 4]), pool(vec![])], vec![pool(vec![slot(false, true); 3])]]
    {
        let mut workload = Workload::new(pools, Rule { max_surge: 1, ..rule(5) });
        let Next::Do(first) = next(&workload.pools, &workload.rule) else { panic!("a step is due") };
        workload.begin(first);
        assert!(matches!(first, Move::Create(_)), "{first:?}");
        for _ in 0..10 {
            workload.finish(false);
            let waits = next(&workload.pools, &workload.rule);
            assert!(matches!(waits, Next::Wait(Pause::NewUnavailable(_))), "{waits:?}");
        }
        // It comes up after all.
        assert_eq!(workload.run(), Next::Converged);
    }
}

#[test]
fn a_b9_19_an_old_pod_that_does_not_serve_leaves_first() {
    let down = |is_available| vec![slot(false, true), slot(false, is_available)];
    let workload = Workload::new(vec![pool(down(true)), pool(down(false)), pool(vec![])], rule(4));
    let expected = Move::Drain(Place { pool: 1, index: 1 });
    assert_eq!(next(&workload.pools, &workload.rule), Next::Do(expected));
    let mut workload = workload;
    assert_eq!(workload.run(), Next::Converged);
    assert_eq!(workload.costs(), (0, 4, 4), "no pool is given up while it has pods");
}

#[test]
fn a_b9_5_a_pod_that_is_wanted_again_is_called_off_before_anything_else() {
    let mut slots = vec![slot(true, true); 4];
    slots[3].change = Change::Leaving;
    let workload = Workload::new(vec![pool(slots)], rule(4));
    let expected = Move::Cancel(Place { pool: 0, index: 3 });
    assert_eq!(next(&workload.pools, &workload.rule), Next::Do(expected));
}

#[test]
fn nothing_is_decided_on_a_spec_that_is_not_observed() {
    let mut pools = vec![pool(vec![slot(false, true); 3])];
    pools[0].is_observed = false;
    assert_eq!(next(&pools, &rule(2)), Next::Wait(Pause::Unobserved { pool: 0 }));
    assert_eq!(next(&[], &rule(2)), Next::Converged);
}

/// The changes of the catalogue: which pools there are at first, for so many pods.
const CHANGES: [fn(usize) -> Vec<Pool>; 4] = [
    |pods| vec![pool(vec![slot(true, true); pods])],
    |pods| vec![pool(vec![slot(false, true); pods])],
    |pods| vec![pool(vec![slot(false, true); pods]), pool(vec![])],
    |pods| {
        let newer = pods / 2;
        [pods - newer, newer, 0].map(|pods| pool(vec![slot(false, true); pods])).into()
    },
];

/// How many may be unavailable and how many there may be beyond.
const BUDGETS: [(usize, usize); 5] = [(1, 0), (0, 1), (1, 1), (2, 0), (2, 2)];

#[test]
fn every_change_of_numbers_template_and_pools_converges_at_the_least_cost_within_floor_and_ceiling() {
    let mut combinations = 0;
    for before in 0..8_usize {
        for wanted in 0..8_usize {
            for (max_unavailable, max_surge) in BUDGETS {
                for (number, change) in CHANGES.iter().enumerate() {
                    for roll_first in [false, true] {
                        combinations += 1;
                        let rule = Rule { wanted, max_unavailable, max_surge, parallelism: 1, roll_first };
                        check(before, number, change(before), rule);
                    }
                }
            }
        }
    }
    assert_eq!(combinations, 2_560);
}

fn check(before: usize, change: usize, pools: Vec<Pool>, rule: Rule) {
    let mut workload = Workload::new(pools, rule);
    let end = workload.run();
    let wanted = rule.wanted;
    let (stayed, fewer, more) =
        (before.min(wanted), before.saturating_sub(wanted), wanted.saturating_sub(before));
    let what = format!("{before} pods, change {change}, {rule:?}: {workload:?}");
    let rolls_in_place = change == 1 && stayed > 0;
    // The one pair that cannot work, which a spec may not ask for.
    if rolls_in_place && rule.max_unavailable == 0 && !(rule.roll_first && fewer > 0) {
        assert!(matches!(end, Next::Wait(Pause::Floor { .. })), "{what}");
    } else if rolls_in_place && rule.max_unavailable == 0 {
        // Those that are to leave make room for a while, and no longer.
        assert!(matches!(end, Next::Wait(_) | Next::Converged), "{what}");
    } else {
        assert_eq!(end, Next::Converged, "{what}");
        let costs = match change {
            0 => (0, fewer, more),
            1 => (stayed, fewer, more),
            _ => (0, before, wanted),
        };
        assert_eq!(workload.costs(), costs, "{what}");
    }
    let floor = stayed.saturating_sub(rule.max_unavailable);
    let ceiling = before.max(wanted + rule.max_surge);
    assert!(workload.passed.iter().all(|(total, serving)| *total <= ceiling && *serving >= floor), "{what}");
}

/// A random number generator that needs no crate: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

#[test]
fn failures_and_edits_in_between_cost_no_floor_and_no_convergence() {
    for seed in 1..=3_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (max_unavailable, max_surge) = BUDGETS[random.below(BUDGETS.len())];
        let rule = Rule {
            wanted: random.below(8),
            max_unavailable: max_unavailable.max(1),
            max_surge,
            parallelism: 1,
            roll_first: random.below(2) == 0,
        };
        let mut workload = Workload::new(CHANGES[random.below(CHANGES.len())](random.below(8)), rule);
        for _ in 0..60 {
            disturb(&mut workload, &mut random);
            if let Next::Do(step) = next(&workload.pools, &workload.rule) {
                act_within_budget(&mut workload, step, seed);
            }
            if random.below(2) == 0 {
                workload.finish(random.below(4) > 0);
            }
        }
        // The failures end, and so do the edits. What has failed comes back where somebody else repairs it.
        let slots = workload.pools.iter_mut().flat_map(|pool| &mut pool.slots);
        slots.filter(|slot| slot.change == Change::None).for_each(|slot| slot.is_available = true);
        assert_eq!(workload.run(), Next::Converged, "seed {seed}: {workload:?}");
        assert_eq!(workload.total(), workload.rule.wanted, "seed {seed}");
        let current = workload.pools.last().unwrap();
        assert!(current.slots.iter().all(|slot| slot.is_new && slot.is_available), "seed {seed}");
    }
}

/// Something happens that nobody here has decided.
fn disturb(workload: &mut Workload, random: &mut Random) {
    match random.below(12) {
        0 => workload.rule.wanted = random.below(8),
        1 => {
            let current = workload.pools.last_mut().unwrap();
            current.slots.iter_mut().for_each(|slot| slot.is_new = false);
        }
        2 => {
            let slots = workload.pools.iter_mut().flat_map(|pool| &mut pool.slots);
            slots.for_each(|slot| slot.is_new = false);
            workload.pools.retain(|pool| !pool.slots.is_empty());
            workload.pools.push(pool(vec![]));
        }
        3 | 4 => {
            let number = random.below(workload.pools.len());
            let slots = &mut workload.pools[number].slots;
            if !slots.is_empty() {
                let index = random.below(slots.len());
                slots[index].is_available = false;
            }
        }
        _ => {}
    }
}

/// No step takes a pod that serves where that leaves too few, and none goes beyond the ceiling.
fn act_within_budget(workload: &mut Workload, step: Move, seed: u64) {
    let floor = workload.rule.wanted.saturating_sub(workload.rule.max_unavailable);
    let (serving, total) = (workload.available(), workload.total());
    workload.begin(step);
    let lost = serving.saturating_sub(workload.available());
    assert!(lost == 0 || workload.available() >= floor, "seed {seed}: {step:?} {workload:?}");
    let ceiling = workload.rule.wanted + workload.rule.max_surge;
    assert!(workload.total() <= total || workload.total() <= ceiling, "seed {seed}: {step:?} {workload:?}");
}
