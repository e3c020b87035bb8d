//! The operator's part: passes, what becomes of their writes, and crashes. The rules of the executor are here.

use sts_plus_api::scaling_policy::{OnFailure, RecordPhase};
use sts_plus_planner::scaling::hook::Call;

use crate::guarantees::{Broken, Guarantee};
use crate::moves::{Move, Next};
use crate::planted::Planted;
use crate::state::{App, Life, Model, ORDINALS, Record, Request, Seen, State, Status, Then, To, Write, rows};
use crate::view::{self, Look, Planner};

impl State {
    pub(crate) fn passes(&self, model: &Model, planner: &mut Planner, next: &mut Next) {
        match self.operator.sent.first() {
            None => next.extend(self.pass(model, planner).map(|state| (Move::Pass, state))),
            Some(request) => self.deliver(*request, model, next),
        }
        for index in 0..self.late.len() {
            let request = self.late[index];
            let landed = self.after(|state| {
                state.late.remove(index);
                state.land(request, model);
            });
            next.push((Move::Late(request.write), landed));
        }
        if self.left.crashes > 0 {
            next.push((Move::Crash, self.after(|state| state.crash(model))));
        }
    }

    /// A pass: what is looked at, and the plan. `None` where the executor lets none begin, or nothing comes of it.
    fn pass(&self, model: &Model, planner: &mut Planner) -> Option<Self> {
        let operator = &self.operator;
        let is_behind = operator.awaits_set
            || operator.awaits_policy
            || operator.awaits_lock
            || operator.awaits_pod.is_some();
        if is_behind && !model.has(Planted::OwnWritesUnseen)
            || operator.unknown && !model.has(Planted::NoReadAfterUnknown)
        {
            return None;
        }
        let policy = operator.policy?;
        let is_in_place = model.is_locked() && policy.status.template == operator.set.generation;
        let template = if is_in_place { view::IN_PLACE } else { view::BEFORE };
        let look = Look {
            wanted: policy.wanted,
            deleting: policy.deleting,
            status: Status { template, ..policy.status },
            replicas: operator.set.replicas,
            leaving: operator.set.leaving,
            deletes: operator.set.deletes,
            is_in_place,
            is_set_current: operator.set == self.set,
            keys: operator.lock.keys,
            claims: self.claims,
            cached: operator.pods,
            live: rows(&self.pods),
            outcomes: operator.outcomes.clone(),
            calling: operator.calls.iter().map(|calling| (calling.ordinal, calling.uid)).collect(),
        };
        let decided = planner.decide(&look);
        let status = |status: Status| match status.template {
            view::IN_PLACE => Status { template: operator.set.generation, ..status },
            _ => Status { template: policy.status.template, ..status },
        };
        let mut state = self.clone();
        let version = |write: &Write| match write.to() {
            To::Set => operator.set.version,
            To::Policy => policy.version,
            To::Lock => operator.lock.version,
            To::Pod | To::Claim => 0,
        };
        let filled = |write: &Write| match write {
            Write::Status(meant) => Write::Status(status(*meant)),
            other => *other,
        };
        let request = |write: &Write| Request {
            version: version(write),
            write: filled(write),
            breaks: self.judge(write, (&policy.status, &decided.status), policy.wanted, model),
        };
        state.operator.sent = decided.writes.iter().map(request).collect();
        let then = Then { begin: decided.calls.clone(), keep: decided.keep.clone() };
        if model.has(Planted::CalledFirst) {
            state.finish(then, model);
            state.operator.then = None;
        } else {
            state.operator.then = Some(then);
        }
        if state.operator.sent.is_empty() {
            state.finish_all(model);
        }
        (state != *self).then_some(state)
    }

    /// What a write breaks, by the pods as they are at the last look.
    fn judge(&self, write: &Write, (seen, planned): (&Status, &Status), wanted: u8, model: &Model) -> Broken {
        let mut broken = Broken::default();
        let Write::Scale(replicas) = write else { return broken };
        let is_ours = self.operator.set.replicas > *replicas;
        if is_ours && *replicas < wanted && self.policy.is_some_and(|policy| !policy.deleting) {
            broken.add(Guarantee::Wanted);
        }
        if *replicas > self.operator.set.replicas && *replicas > wanted && model.faults.foreign == 0 {
            broken.add(Guarantee::OwnWrite);
        }
        for ordinal in usize::from(*replicas)..usize::from(self.operator.set.replicas) {
            let record = seen.leaving[ordinal].or(planned.leaving[ordinal]);
            let is_given_up = record.is_some_and(|record| record.exceeded);
            if is_given_up && model.on_failure == OnFailure::Force {
                continue;
            }
            if self.holds_of(ordinal) != App::Done {
                let is_there = self.pods[ordinal].is_some();
                broken.add(if is_there { Guarantee::Drained } else { Guarantee::DrainedWhenGone });
            }
        }
        broken
    }

    /// What may become of a write that is under way.
    fn deliver(&self, request: Request, model: &Model, next: &mut Next) {
        let lands = self.holds(request, model);
        let answered = self.after(|state| {
            state.operator.sent.remove(0);
            if !state.land(request, model) {
                return state.give_up();
            }
            match request.write.to() {
                To::Set => state.operator.awaits_set = true,
                To::Policy => state.operator.awaits_policy = true,
                To::Lock => state.operator.awaits_lock = true,
                To::Claim => {}
                To::Pod => {
                    if let Write::DeletePod(ordinal, seen) = request.write {
                        state.operator.awaits_pod = Some((ordinal, seen.uid));
                    }
                }
            }
            if matches!(request.write, Write::Status(_)) {
                state.operator.outcomes.clear();
            }
            if state.operator.sent.is_empty() {
                state.finish_all(model);
            }
        });
        let what = if lands { Move::Written } else { Move::Refused };
        next.push((what(request.write), answered));
        if self.left.losses == 0 {
            return;
        }
        let lost = |land: bool, delay: bool| {
            self.after(|state| {
                state.left.losses -= 1;
                if land {
                    state.land(request, model);
                }
                if delay {
                    state.late.push(request);
                }
                state.give_up();
                state.operator.unknown = true;
            })
        };
        if lands {
            next.push((Move::AnswerLost(request.write), lost(true, false)));
            if model.late {
                next.push((Move::Delayed(request.write), lost(false, true)));
            }
        }
        next.push((Move::Dropped(request.write), lost(false, false)));
    }

    /// The rest of the plan is not carried out.
    fn give_up(&mut self) {
        self.operator.sent.clear();
        self.operator.then = None;
    }

    /// Whether the object is as a write insists on.
    fn holds(&self, request: Request, model: &Model) -> bool {
        let version = match request.write {
            Write::DeletePod(ordinal, seen) => {
                let is_it = |found: Seen| found == seen || model.has(Planted::DeletedUnchecked);
                return self.pods[ordinal].is_some_and(|pod| is_it(pod.seen));
            }
            Write::DeleteClaim(ordinal, claim) => return self.claims[ordinal] == Some(claim),
            other if other.to() == To::Set => Some(self.set.version),
            other if other.to() == To::Lock => Some(self.lock.version),
            _ => self.policy.map(|policy| policy.version),
        };
        let is_unchecked = request.write.to() == To::Set && model.has(Planted::NoPrecondition);
        version.is_some_and(|version| version == request.version || is_unchecked)
    }

    /// The API server gets a write; whether it was done.
    fn land(&mut self, request: Request, model: &Model) -> bool {
        if !self.holds(request, model) {
            return false;
        }
        match request.write {
            Write::Announce(leaving) => self.set.leaving = leaving,
            Write::Retention(deletes) => {
                self.set.generation += u8::from(model.is_locked());
                self.set.deletes = deletes;
            }
            Write::Keys(keys) => {
                self.lock.keys = keys;
                if !model.stale_mounts {
                    let pods = self.pods.iter_mut().enumerate();
                    pods.filter_map(|(ordinal, pod)| Some((ordinal, pod.as_mut()?)))
                        .for_each(|(ordinal, pod)| pod.mounted = keys & 1 << ordinal != 0);
                }
            }
            Write::DeletePod(ordinal, _) => {
                if self.holds_of(ordinal) != App::Done {
                    self.broken.add(Guarantee::Drained);
                }
                if let Some(pod) = &mut self.pods[ordinal] {
                    pod.seen.life = Life::Terminating;
                }
            }
            Write::DeleteClaim(ordinal, _) => {
                if self.holds_of(ordinal) != App::Done || self.pods[ordinal].is_some() {
                    self.broken.add(Guarantee::ClaimsKept);
                }
                self.claims[ordinal] = None;
            }
            Write::Scale(replicas) => {
                self.broken.add_all(request.breaks);
                self.judge_scale(replicas);
                self.scale_to(replicas, model);
            }
            Write::Status(status) => {
                self.judge_status(&status, model);
                if let Some(policy) = &mut self.policy {
                    policy.status = status;
                }
            }
            Write::Depart => {
                let prepared = |(pod, stays): (&Option<crate::state::Pod>, &bool)| {
                    !stays && pod.is_some_and(crate::state::Pod::is_prepared)
                };
                if self.pods.iter().zip(&self.stays_prepared).any(prepared) {
                    self.broken.add(Guarantee::TakenBack);
                }
                self.policy = None;
            }
        }
        match request.write.to() {
            To::Set => self.set.version += 1,
            To::Lock => self.lock.version += 1,
            To::Policy => self.policy.iter_mut().for_each(|policy| policy.version += 1),
            To::Pod | To::Claim => {}
        }
        true
    }

    /// What a change of the replicas breaks by what is remembered.
    fn judge_scale(&mut self, replicas: u8) {
        let Some(policy) = &self.policy else { return };
        let is_drained =
            |record: Option<Record>| record.is_some_and(|record| record.phase == RecordPhase::Drained);
        for ordinal in usize::from(replicas)..usize::from(self.set.replicas) {
            let record = policy.status.leaving[ordinal];
            if !is_drained(record) {
                self.broken.add(Guarantee::Remembered);
            }
            let is_bound = record.is_none_or(|record| record.uid.is_some());
            if is_bound && self.set.leaving & 1 << ordinal == 0 {
                self.broken.add(Guarantee::Named);
            }
        }
    }

    /// What a status breaks: a record that ends while its pod stays prepared.
    fn judge_status(&mut self, status: &Status, model: &Model) {
        let Some(policy) = self.policy else { return };
        for ordinal in 0..usize::from(self.set.replicas).min(ORDINALS) {
            let ended = status.leaving[ordinal].is_none_or(|record| record.phase == RecordPhase::Failed);
            let Some(before) = policy.status.leaving[ordinal].filter(|_| ended) else { continue };
            if self.pods[ordinal].is_none_or(|pod| !pod.is_prepared()) {
                continue;
            }
            let is_excused = !model.cancel || before.overdue || before.phase == RecordPhase::Failed;
            if is_excused {
                self.stays_prepared[ordinal] = true;
            } else if !self.stays_prepared[ordinal] {
                self.broken.add(Guarantee::TakenBack);
            }
        }
    }

    fn finish_all(&mut self, model: &Model) {
        // A plan that needed no status for them has counted them all the same.
        self.operator.outcomes.clear();
        if let Some(then) = self.operator.then.take() {
            self.finish(then, model);
        }
    }

    /// Gives up the calls that are not wanted any more, and begins others.
    fn finish(&mut self, then: Then, model: &Model) {
        let operator = &mut self.operator;
        operator.calls.retain(|it| then.keep.contains(&(it.ordinal, it.uid, it.call)));
        for calling in then.begin {
            if operator.calls.iter().any(|it| (it.ordinal, it.uid) == (calling.ordinal, calling.uid)) {
                continue;
            }
            operator.calls.push(calling);
            operator.calls.sort_by_key(|calling| (calling.ordinal, calling.uid));
            if calling.call != Call::Prepare {
                continue;
            }
            let records = self.policy.map(|policy| policy.status.leaving);
            let is_it = |record: &Record| record.uid == Some(calling.uid);
            let is_remembered =
                records.is_some_and(|records| records[calling.ordinal].as_ref().is_some_and(is_it));
            if !is_remembered || self.set.leaving & 1 << calling.ordinal == 0 {
                self.broken.add(Guarantee::Announced);
            }
            let most = usize::from(model.concurrent);
            let prepared = |(ordinal, pod): (usize, &Option<crate::state::Pod>)| {
                let is_called = pod.is_some_and(crate::state::Pod::is_prepared);
                is_called && !self.stays_prepared[ordinal] || ordinal == calling.ordinal
            };
            if self.pods.iter().enumerate().filter(|it| prepared(*it)).count() > most {
                self.broken.add(Guarantee::Concurrency);
            }
        }
    }

    fn crash(&mut self, model: &Model) {
        self.left.crashes -= 1;
        let sent = std::mem::take(&mut self.operator.sent);
        if model.late {
            self.late.extend(sent.first());
        }
        let operator = &mut self.operator;
        operator.then = None;
        operator.calls.clear();
        operator.outcomes.clear();
        (operator.awaits_set, operator.awaits_policy, operator.awaits_lock) = (false, false, false);
        operator.awaits_pod = None;
        if model.has(Planted::StaleStart) {
            operator.unknown = false;
        } else {
            self.see_all();
        }
    }
}
