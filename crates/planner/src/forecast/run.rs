//! The rounds of a forecast.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::kubelet::{Fate, PodChange};
use super::objects::Objects;
use super::{
    Actor, Assumptions, End, Entry, Forecast, Happening, MAX_HORIZON, MAX_LOOKS, MAX_PODS, MAX_ROUNDS, check,
};
use crate::health::Member;
use crate::phased_rollout::query::Outcome;
use crate::phased_rollout::row::RolloutRow;
use crate::phased_rollout::{self, Stretch};
use crate::plan::{Action, Kind, Object, Plan, Verb, object_of};
use crate::pod::PodRow;
use crate::rollout_group;
use crate::set::{SetRow, Strategy};

/// The time that a round takes, so that what follows from something is later than it.
const ROUND: SignedDuration = SignedDuration::from_millis(1);

/// A namespace and a name in it.
type Name = (Arc<str>, Arc<str>);

/// A forecast in the making.
pub(super) struct Run<'a> {
    objects: Objects,
    assumptions: &'a Assumptions,
    now: Timestamp,
    entries: Vec<Entry>,
    /// Since when a pod, by UID, has had this change before it.
    pending: BTreeMap<(Box<str>, PodChange), Timestamp>,
    /// The state of each set or PhasedRollout that was entered last.
    states: BTreeMap<Object, String>,
    /// Since when the spec of a set, by UID, has been unobserved.
    unobserved_since: BTreeMap<Arc<str>, Timestamp>,
    /// What the controller of PhasedRollouts has in memory of each.
    memory: BTreeMap<Name, Memory>,
}

#[derive(Default)]
struct Memory {
    outcomes: Vec<Outcome>,
    stretch: Option<(Stretch, Timestamp)>,
}

/// What a round has come to.
#[derive(Default)]
struct Round {
    /// Something was written or asked, so that there is more to do.
    busy: bool,
    /// When to look again although nothing has changed.
    wake_at: Option<Timestamp>,
}

impl Round {
    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = [self.wake_at, at].into_iter().flatten().min();
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(objects: Objects, assumptions: &'a Assumptions, now: Timestamp) -> Self {
        Self {
            objects,
            assumptions,
            now,
            entries: Vec::new(),
            pending: BTreeMap::new(),
            states: BTreeMap::new(),
            unobserved_since: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
    }

    pub(super) fn finish(mut self) -> Forecast {
        let horizon = self.now.saturating_add(self.assumptions.horizon.min(MAX_HORIZON));
        let horizon = horizon.unwrap_or(Timestamp::MAX);
        let (mut end, mut looks) = (End::TooLarge, 0);
        for _ in 0..MAX_ROUNDS {
            looks += self.objects.pods.len() + self.objects.sets.len();
            if self.objects.pods.len() > MAX_PODS || looks > MAX_LOOKS {
                break;
            }
            let round = self.round();
            let soon = self.now.saturating_add(ROUND).unwrap_or(Timestamp::MAX);
            let next = match round.wake_at {
                _ if round.busy => soon,
                Some(at) => at.max(soon),
                None => {
                    end = End::AtRest;
                    break;
                }
            };
            if next > horizon {
                (end, self.now) = (End::OutOfTime, horizon);
                break;
            }
            self.now = next;
        }
        Forecast { entries: self.entries, end, ends_at: self.now, objects: self.objects }
    }

    /// Everybody looks once, and does what there is to do.
    fn round(&mut self) -> Round {
        let mut round = Round::default();
        self.observe();
        self.roll_groups(&mut round);
        self.roll_gated(&mut round);
        self.control(&mut round);
        self.run_pods(&mut round);
        round
    }

    fn observe(&mut self) {
        for set in &self.objects.sets {
            if set.target().is_some() {
                self.unobserved_since.remove(&set.uid);
            } else {
                self.unobserved_since.entry(Arc::clone(&set.uid)).or_insert(self.now);
            }
        }
    }

    fn roll_groups(&mut self, round: &mut Round) {
        let groups: BTreeSet<Name> = self.objects.sets.iter().filter_map(group_of).collect();
        for name in groups {
            let decision = rollout_group::plan(&self.group_world(&name), self.now);
            for report in &decision.reports {
                let subject = report.reason.subject().unwrap_or_default();
                let state = format!("{} {subject}", report.reason.kind());
                let set = object_of(&report.set);
                self.enter_state(set.clone(), state, Happening::Set { set, reason: report.reason.clone() });
            }
            self.carry_out(&decision.plan, Actor::RolloutGroup, round);
        }
    }

    fn group_world(&self, name: &Name) -> rollout_group::World {
        let in_group = |set: &&SetRow| group_of(set).as_ref() == Some(name);
        let members: Vec<_> = self.objects.sets.iter().filter(in_group).map(|set| self.member(set)).collect();
        let in_namespace = |set: &&SetRow| set.namespace == name.0;
        let others: Vec<_> = self.objects.sets.iter().filter(in_namespace).cloned().map(Arc::new).collect();
        rollout_group::World {
            group: Arc::clone(&name.1),
            overlaps: rollout_group::overlaps(&members, &others),
            members,
            unobserved_since: self.unobserved_since.clone(),
            memory: rollout_group::Memory::default(),
            unconfirmed: None,
        }
    }

    fn roll_gated(&mut self, round: &mut Round) {
        for rollout in self.objects.rollouts.clone() {
            let name = (Arc::clone(&rollout.namespace), Arc::clone(&rollout.name));
            let object = Object {
                kind: Kind::PhasedRollout,
                namespace: Arc::clone(&rollout.namespace),
                name: (*rollout.name).into(),
            };
            let decision = phased_rollout::plan(&self.gated_world(&rollout, &name), self.now);
            let waiting_for = decision.status.waiting_for.clone().unwrap_or_default();
            if !waiting_for.is_empty() {
                let message = decision.status.message.clone().unwrap_or_default();
                let state = waiting_for.clone();
                let what = Happening::Rollout { rollout: object.clone(), waiting_for, message };
                self.enter_state(object, state, what);
            }
            self.carry_out(&decision.plan, Actor::PhasedRollout, round);
            let questions = decision.questions();
            round.busy |= !questions.is_empty();
            let asked_at = phased_rollout::whole_milliseconds(self.now);
            let outcomes = questions.into_iter().map(|question| {
                let fails_at = self.assumptions.failing_checks.get(&question.check.name);
                let passes = fails_at.is_none_or(|partition| question.gate.partition > *partition);
                check::outcome(question, passes, asked_at)
            });
            let outcomes = outcomes.collect();
            let stretch = decision.stretch.map(|stretch| (stretch, self.now));
            self.memory.insert(name, Memory { outcomes, stretch });
        }
    }

    fn gated_world(&self, rollout: &RolloutRow, name: &Name) -> phased_rollout::World {
        let sets = || self.objects.sets.iter().filter(|set| set.namespace == rollout.namespace);
        let target = rollout.target().and_then(|target| sets().find(|set| *set.name == *target));
        let group = target.and_then(|target| target.group.as_ref());
        let neighbours = || {
            sets().filter(|set| {
                group.is_some()
                    && set.group.as_ref() == group
                    && target.is_none_or(|mine| mine.uid != set.uid)
            })
        };
        let mut held: Vec<_> = sets().filter(|set| rollout.holds(set)).cloned().map(Arc::new).collect();
        held.sort_by_key(|set| rollout.release_order(set));
        let others = self.objects.rollouts.iter();
        let others = others.filter(|other| other.namespace == rollout.namespace && other.uid != rollout.uid);
        let memory = self.memory.get(name);
        let stretch = memory.and_then(|memory| memory.stretch);
        phased_rollout::World {
            target: target.map(|set| self.member(set)),
            held,
            others: others.cloned().map(Arc::new).collect(),
            group_sets: 1 + neighbours().count(),
            neighbours: neighbours().map(|set| self.member(set)).collect(),
            outcomes: memory.map(|memory| memory.outcomes.clone()).unwrap_or_default(),
            under_way: BTreeSet::new(),
            // Nobody else writes in a forecast.
            partition_manager: None,
            syntax: Vec::new(),
            unobserved_since: target.and_then(|set| self.unobserved_since.get(&set.uid)).copied(),
            stretch: stretch.map(|(stretch, since)| stretch.after(self.now.duration_since(since))),
            unconfirmed: None,
            rollout: Arc::new(rollout.clone()),
        }
    }

    fn member(&self, set: &SetRow) -> Member {
        let pods = self.objects.pods.iter().filter(|pod| pod.owner == set.uid);
        Member::new(Arc::new(set.clone()), pods.cloned().map(Arc::new))
    }

    /// The StatefulSet controller, for every set.
    fn control(&mut self, round: &mut Round) {
        for set in self.objects.sets.clone() {
            let decision = self.objects.control(&set, self.now);
            self.carry_out(&decision.plan, Actor::StatefulSet, round);
        }
    }

    fn carry_out(&mut self, plan: &Plan, actor: Actor, round: &mut Round) {
        round.wake(plan.wake_at);
        for action in plan.writes() {
            let partition = self.partition_of(action.object());
            // One that is refused is planned again, as after any write.
            let done = self.objects.apply(action).is_ok();
            round.busy = true;
            if done {
                self.enter_write(action, actor, partition);
            }
        }
    }

    fn enter_write(&mut self, action: &Action, by: Actor, before: Option<u32>) {
        let object = action.object().clone();
        let pod = |pod: &&PodRow| pod.name == object.name && pod.namespace == object.namespace;
        match (object.kind, action.verb()) {
            (Kind::Pod, Verb::Delete) => self.enter(Happening::Deleted { pod: object, by }),
            (Kind::Pod, Verb::Create { .. }) => {
                let revision = self.objects.pods.iter().find(pod).and_then(|pod| pod.revision.clone());
                self.enter(Happening::Created { pod: object, revision: revision.unwrap_or_default() });
            }
            (Kind::StatefulSet, Verb::Apply { .. }) => {
                let now = self.partition_of(&object);
                if let Some(partition) = now.filter(|_| now != before) {
                    self.enter(Happening::Partition { set: object, partition });
                }
            }
            _ => {}
        }
    }

    fn partition_of(&self, object: &Object) -> Option<u32> {
        let found = |set: &&SetRow| *set.name == *object.name && set.namespace == object.namespace;
        let set = self.objects.sets.iter().find(found).filter(|_| object.kind == Kind::StatefulSet)?;
        match set.strategy {
            Strategy::RollingUpdate { partition } => Some(partition),
            Strategy::OnDelete | Strategy::Other(_) => None,
        }
    }

    /// The kubelets, for every pod.
    fn run_pods(&mut self, round: &mut Round) {
        let before = std::mem::take(&mut self.pending);
        for pod in self.objects.pods.clone() {
            let fate = self.assumptions.fate(&pod);
            let Some(change) = PodChange::of(&pod, fate) else { continue };
            let key = (pod.uid.clone(), change);
            let since = before.get(&key).copied().unwrap_or(self.now);
            let due = since.saturating_add(self.delay(change)).unwrap_or(Timestamp::MAX);
            if due > self.now {
                self.pending.insert(key, since);
                round.wake(Some(due));
                continue;
            }
            self.objects.advance(&pod.namespace, &pod.name, (change, fate), self.now);
            round.busy = true;
            if change == PodChange::Finish {
                let pod = Object { kind: Kind::Pod, namespace: pod.namespace, name: pod.name };
                match fate {
                    Fate::Ready => self.enter(Happening::Ready { pod }),
                    Fate::Crashes => self.enter(Happening::Crashed { pod }),
                    Fate::Hangs => {}
                }
            }
        }
    }

    fn delay(&self, change: PodChange) -> SignedDuration {
        match change {
            PodChange::Remove => self.assumptions.stops_after,
            PodChange::Start => self.assumptions.starts_after,
            PodChange::Finish => self.assumptions.ready_after,
        }
    }

    fn enter(&mut self, what: Happening) {
        self.entries.push(Entry { at: self.now, what });
    }

    /// Enters a state that differs from the one before.
    fn enter_state(&mut self, object: Object, state: String, what: Happening) {
        if self.states.get(&object) != Some(&state) {
            self.states.insert(object, state);
            self.enter(what);
        }
    }
}

fn group_of(set: &SetRow) -> Option<Name> {
    Some((Arc::clone(&set.namespace), Arc::clone(set.group.as_ref()?)))
}
