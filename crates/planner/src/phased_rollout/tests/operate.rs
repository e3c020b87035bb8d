//! The operator's part. [`Cluster::pass`] is one pass: plan, hold the plan against the invariants, write with exact
//! preconditions, ask. [`Cluster::quiet`] lets the operator, the StatefulSet controller and the kubelets do all they can
//! without time passing; [`Cluster::wake`] lets time pass until the plan wants to look again. The clock moves by a
//! millisecond with each pass, so that a plan that depends on the time in a way it should not never comes to rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::cluster::{Cluster, WEB};
use super::invariants;
use crate::health::Member;
use crate::phased_rollout::judge::judge;
use crate::phased_rollout::query::Outcome;
use crate::phased_rollout::{Decision, World, plan};
use crate::plan::Ask;
use crate::set::SetRow;

/// Passes and pieces of work until a cluster of this size must have come to rest; far above what any run needs.
const STEPS_TO_REST: usize = 3_000;
/// Wake-ups until a scenario must be where it wants to be; far above what any needs.
const WAKES: usize = 500;

/// The operator's part.
impl Cluster {
    pub(super) fn world(&self, name: &str) -> World {
        let rollout = Arc::new(self.rollout(name).clone());
        let pods: Vec<_> = self.pods.iter().cloned().map(Arc::new).collect();
        let member = |set: &SetRow| Member::new(Arc::new(set.clone()), pods.iter().cloned());
        let find = |name: &str| self.sets.iter().find(|set| &*set.name == name);
        let target = rollout.target().and_then(find);
        let held = |set: &&SetRow| rollout.holds(set);
        let mut held: Vec<_> = self.sets.iter().filter(held).cloned().map(Arc::new).collect();
        held.sort_by_key(|set| rollout.release_order(set));
        let in_group = |set: &&SetRow| {
            target.is_some_and(|target| {
                target.group.is_some() && set.group == target.group && set.uid != target.uid
            })
        };
        let others = self.rollouts.iter().filter(|other| &*other.name != name);
        World {
            target: target.map(member),
            held,
            others: others.cloned().map(Arc::new).collect(),
            group_sets: 1 + self.sets.iter().filter(in_group).count(),
            neighbours: self.sets.iter().filter(in_group).map(member).collect(),
            outcomes: self.outcomes.clone(),
            under_way: BTreeSet::new(),
            partition_manager: None,
            syntax: Vec::new(),
            unobserved_since: self.unobserved_since,
            stretch: self.stretches.get(name).map(|(kept, since)| kept.after(self.elapsed() - *since)),
            unconfirmed: None,
            rollout,
        }
    }

    /// Plans for a rollout as things are, and holds the plan against the invariants.
    #[track_caller]
    pub(super) fn plan(&self, name: &str) -> (World, Decision) {
        let mut world = self.world(name);
        let mut plan_now = plan(&world, self.now);
        if plan_now.plan.asks.iter().any(|ask| matches!(ask, Ask::Read(_))) {
            world.partition_manager.clone_from(&self.foreign);
            plan_now = plan(&world, self.now);
        }
        if self.unconfirmed && plan_now.needs_confirmed_view() {
            world.unconfirmed = Some("pods cannot be listed".into());
            plan_now = plan(&world, self.now);
        }
        invariants::check(&world, &plan_now, self.now);
        (world, plan_now)
    }

    /// One pass of the operator for the rollout of the fixture.
    #[track_caller]
    pub(super) fn pass(&mut self) -> Decision {
        self.pass_for(WEB)
    }

    #[track_caller]
    pub(super) fn pass_for(&mut self, name: &str) -> Decision {
        self.tick();
        let (world, plan) = self.plan(name);
        let planned = plan.plan.steps.iter().map(|step| step.writes.len()).sum::<usize>();
        if let Some(left) = self.dies_after.take_if(|left| *left < planned) {
            // It starts again with what the API server has.
            self.write(&world, &plan, left).unwrap();
            self.die();
            return plan;
        }
        self.dies_after = self.dies_after.map(|left| left - planned);
        let conflict = self.conflict_after.take_if(|left| *left == 0).is_some();
        if conflict {
            let version = self.version();
            self.rollout_mut(name).resource_version = version;
        }
        self.conflict_after = self.conflict_after.map(|left| left - 1);
        let done = self.write(&world, &plan, usize::MAX);
        if done.is_err() && conflict {
            return plan;
        }
        assert_eq!(done, Ok(()), "the plan was made for this very state:\n{self}");
        if planned > 0 && self.answers_lost {
            return plan;
        }
        self.follow(name, &plan);
        plan
    }

    /// All that the operator had in memory is gone.
    pub(super) fn die(&mut self) {
        (self.outcomes, self.unobserved_since) = (Vec::new(), None);
        self.stretches.clear();
    }

    /// Monotonic time that has passed.
    pub(super) fn elapsed(&self) -> SignedDuration {
        let (elapsed, seen) = self.monotonic;
        elapsed + self.now.duration_since(seen).max(SignedDuration::ZERO)
    }

    /// Somebody sets the wall clock, while no time passes.
    pub(super) fn set_clock(&mut self, seconds: i64) {
        self.monotonic.0 = self.elapsed();
        self.now += SignedDuration::from_secs(seconds);
        self.monotonic.1 = self.now;
    }

    /// Time passes, and what is unobserved is noted.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_millis(1);
        self.monotonic = (self.elapsed(), self.now);
        let unobserved = self.sets.iter().any(|set| set.target().is_none());
        self.unobserved_since = self.unobserved_since.or(Some(self.now)).filter(|_| unobserved);
    }

    /// What comes after the writes of a plan: it is told, and its questions are asked.
    pub(super) fn follow(&mut self, name: &str, plan: &Decision) {
        match plan.stretch {
            Some(kept) => self.stretches.insert(name.into(), (kept, self.elapsed())),
            None => self.stretches.remove(name),
        };
        for told in &plan.plan.notes {
            self.trace.push(format!("tell {}", told.reason));
            self.announced.push(told.clone());
        }
        self.outcomes.clear();
        self.wake_at = plan.plan.wake_at;
        for question in plan.questions() {
            self.questions += 1;
            let answer = (self.prometheus)(question, self);
            let guard = question.check.guard.as_ref().map(|_| answer.clone());
            self.outcomes.push(Outcome {
                check: question.check.name.clone(),
                gate: question.gate.clone(),
                asked_at: self.now,
                judgement: judge(&question.check, &answer, guard.as_ref()),
            });
        }
    }

    /// Lets everybody do all they can at this time. Answers with the last plan, which wants nothing.
    #[track_caller]
    pub(super) fn quiet(&mut self) -> Decision {
        for _ in 0..STEPS_TO_REST {
            let mut busy = false;
            let mut last = Decision::default();
            let mut wakes: Option<Timestamp> = None;
            let names: Vec<_> = self.rollouts.iter().map(|rollout| Arc::clone(&rollout.name)).collect();
            for name in names {
                let plan = self.pass_for(&name);
                busy |= !plan.plan.steps.is_empty() || !plan.questions().is_empty();
                wakes = [wakes, plan.plan.wake_at].into_iter().flatten().min();
                if &*name == WEB {
                    last = plan;
                }
            }
            self.wake_at = wakes;
            if let Some(work) = self.work().into_iter().next() {
                self.perform(&work);
            } else if !busy {
                return last;
            }
        }
        panic!("no rest after {STEPS_TO_REST} steps:\n{self}");
    }

    /// Time passes until the operator wants to look again; then everybody does all they can.
    #[track_caller]
    pub(super) fn wake(&mut self) -> Decision {
        let at = self.wake_at.unwrap_or_else(|| panic!("nothing would wake the operator:\n{self}"));
        self.now = self.now.max(at);
        self.quiet()
    }

    /// Lets time pass until it is so.
    #[track_caller]
    pub(super) fn until(&mut self, so: impl Fn(&Self) -> bool) {
        for _ in 0..WAKES {
            if so(self) {
                return;
            }
            self.wake();
        }
        panic!("not so after {WAKES} wake-ups:\n{self}");
    }

    /// Lets everything happen until the rollout is up to date.
    #[track_caller]
    pub(super) fn finish(&mut self) {
        self.until(|cluster| cluster.status().waiting_for.as_deref() == Some("UpToDate"));
    }

    pub(super) fn let_pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }
}
