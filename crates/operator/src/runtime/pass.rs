//! One pass over a key: lanes, plan, what it asks for, confirmation, writes, reports.

use std::sync::Arc;

use sts_plus_planner::extended::probe::ProbeRequest;
use sts_plus_planner::phased_rollout::judge::judge;
use sts_plus_planner::phased_rollout::query::{Expressions, Outcome as QueryOutcome, Question};
use sts_plus_planner::phased_rollout::whole_milliseconds;
use sts_plus_planner::plan::{Action, Ask, Note, When};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::scaling::hook::{Call, HookRequest};
use tokio::time::Instant;

use super::controller::{
    Answers, Backoff, Controller, Doubt, End, Key, Lanes, Learned, Learning, Measured, Moment, Next, Pass,
    Planned,
};
use super::{Entry, Runtime, listed, nodes, report};
use crate::outbound;
use crate::shell::api::{ApiError, Kind, Place};
use crate::shell::executor::{Basis, CarriedOut, Halt, Lane, rests_on_marks};
use crate::shell::kinds::{Confirmed, Handling};
use crate::shell::queue::Outcome;

/// Plans made in one pass: one after each read that a plan asks for, one after each confirmation, of which there are three at
/// most, and one for each name of a revision that turns out to be taken, of which the planner itself bears sixteen.
const MAX_PLANS: usize = 24;

/// How a pass ended.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The key is gone.
    Gone {
        /// When to retry to forget it.
        again_at: Option<Instant>,
    },
    /// By what the view shows now it is planned for in other lanes.
    Moved,
    /// Its plan was carried out.
    Ended {
        /// How it ends.
        end: End,
        /// When to look again although nothing has changed.
        wake_at: Option<Instant>,
    },
    /// Its plan was carried out, without what needs a view that could not be confirmed.
    Unconfirmed,
    /// It was not carried out to its end.
    Halted {
        /// Why.
        halt: Halt,
        /// When to look again although nothing has changed.
        wake_at: Option<Instant>,
    },
    /// It was not carried out to its end, and its controller waits by itself before it tries that again.
    Waiting {
        /// When to look again although nothing has changed.
        wake_at: Option<Instant>,
    },
    /// No plan could be carried out, however often one was made.
    Endless,
}

impl Passed {
    fn halted(halt: Halt) -> Self {
        Self::Halted { halt, wake_at: None }
    }

    /// Whether it has succeeded; `None` where it waits for something.
    pub(super) fn success(&self) -> Option<bool> {
        match self {
            Self::Ended { end: End::Settled, .. } => Some(true),
            Self::Ended { end: End::Skipped | End::Blocked(_) | End::Halted(_), .. }
            | Self::Unconfirmed
            | Self::Waiting { .. }
            | Self::Endless
            | Self::Halted {
                halt: Halt::Failed(_) | Halt::Throttled { .. } | Halt::Unconfirmed(_), ..
            } => Some(false),
            Self::Gone { .. }
            | Self::Moved
            | Self::Halted { halt: Halt::Closed | Halt::NotSeenYet { .. } | Halt::Occupied { .. }, .. } => {
                None
            }
        }
    }

    /// What it means for the next one.
    pub(super) fn outcome<K: Key>(self, key: &K) -> Outcome {
        let settled = |wake_at: Option<Instant>| wake_at.map_or(Outcome::Settled, Outcome::WakeAt);
        match self {
            Self::Gone { again_at } => settled(again_at),
            Self::Moved => Outcome::WakeAt(Instant::now()),
            Self::Ended { end: End::Settled, wake_at } | Self::Waiting { wake_at } => settled(wake_at),
            Self::Ended { end: End::Skipped, .. } => Outcome::Settled,
            Self::Ended { end: End::Blocked(why), .. } => {
                if let Some(why) = why {
                    report::log_blocked(key, &why);
                }
                Outcome::Failed
            }
            Self::Unconfirmed => Outcome::Unconfirmed,
            Self::Ended { end: End::Halted(halt), wake_at } | Self::Halted { halt, wake_at } => {
                report::halted(key, halt, wake_at)
            }
            Self::Endless => {
                report::log_endless(key);
                Outcome::Failed
            }
        }
    }
}

/// A plan that was carried out as far as it could be.
struct Done<D> {
    planned: Planned<D>,
    learned: Learned<D>,
    /// What is true of its notes.
    notes: Vec<Note>,
}

impl<C: Controller> Runtime<C> {
    /// One pass over a key.
    pub(crate) async fn pass(&self, key: &C::Key) -> Passed {
        let entry = self.entries().remove(key);
        let Some(lanes) = self.controller.lanes(self.around.cache.store(), key) else {
            return Passed::Gone { again_at: entry.and_then(|entry| self.forget(key, entry)) };
        };
        let mut entry = entry.unwrap_or_default();
        if entry.own.is_some() && entry.own != lanes.own {
            self.forget(key, entry);
            entry = self.entries().remove(key).unwrap_or_default();
        }
        entry.own.clone_from(&lanes.own);
        self.leave(&mut entry, &lanes.domains);
        self.waiting.begin(key);
        let passed = self.run(key, &mut entry, &lanes).await;
        self.waiting.give_up(key);
        if matches!(passed, Passed::Gone { .. }) {
            return Passed::Gone { again_at: self.forget(key, entry) };
        }
        self.entries().insert(key.clone(), entry);
        passed
    }

    /// The pass in its lanes.
    async fn run(&self, key: &C::Key, entry: &mut Entry<C::Memory>, lanes: &Lanes) -> Passed {
        let waiter = self.queue.waiter(self.name, key);
        let entered = self.around.executor.enter(&lanes.domains, lanes.own.as_ref(), waiter).await;
        let mut lane = match entered {
            Ok(lane) => lane,
            Err(halt) => return Passed::halted(halt),
        };
        let moment = Moment { now: self.around.clock.now(), at: Instant::now(), term: lane.epoch() };
        let rows = self.around.cache.store();
        let reads = self.controller.reads();
        let mut doubt = lane.doubt(reads).cloned().map(Doubt::OwnWrites);
        let (probed, probing) = self.pod_probes.take(key);
        let uninformed = self.informing.refusals(key);
        let (hooked, hooking) = self.hook_calls.take(key);
        let mut answers = Answers { probed, probing, hooked, hooking, uninformed, ..Answers::default() };
        for _ in 0..MAX_PLANS {
            let gate = self.controller.asking(rows, key);
            (answers.outcomes, answers.under_way) = self.probes.look(key, gate.as_ref());
            answers.digests = self.digests.known(key);
            let (memory, answered, doubted) = (&mut entry.memory, &answers, doubt.as_ref());
            let mut pass = Pass { rows, key, memory, answers: answered, doubt: doubted, moment };
            let Some(planned) = self.controller.plan(&mut pass) else {
                return Passed::Gone { again_at: None };
            };
            // An outcome counts once, however often it is planned.
            answers.probed.clear();
            answers.hooked.clear();
            if planned.domains != lanes.domains {
                return Passed::Moved;
            }
            if self.read(key, &planned.plan.asks, &mut answers).await {
                continue;
            }
            if doubt.is_none() && planned.needs_confirmed_view() {
                match confirm(&mut lane, &planned, reads).await {
                    Ok(Basis::Confirmed) => {}
                    Ok(Basis::Renewed) => continue,
                    Err(Halt::Unconfirmed(why)) => {
                        doubt = Some(Doubt::View(why));
                        continue;
                    }
                    Err(halt) => return Passed::halted(halt),
                }
            }
            if !self.controller.voice().is_quiet {
                report::log_deletions(key, planned.plan.acting());
            }
            let mut done =
                self.carry_out(&mut lane, planned, (key, &mut entry.memory), &answers, moment).await;
            match std::mem::replace(&mut done.learned.next, Next::Done) {
                Next::Done => {}
                Next::Again(asks) => {
                    self.announce(key, &done.learned.notes);
                    // What was found before the write is not what made it fail.
                    answers.reads.retain(|object, _| !asks.contains(&Ask::Read(object.clone())));
                    self.read(key, &asks, &mut answers).await;
                    continue;
                }
                Next::Report(report) => {
                    let about = (key, &mut entry.memory);
                    let report = self.carry_out(&mut lane, *report, about, &answers, moment).await;
                    done.learned.notes.extend(report.learned.notes);
                    done.notes.extend(report.notes);
                }
                Next::Instead(instead) => {
                    done.notes.clone_from(&instead.plan.notes);
                    done.planned = *instead;
                }
            }
            drop(lane);
            return self.finish(key, entry, done, (&answers, doubt.is_some(), moment));
        }
        Passed::Endless
    }

    /// Carries a plan out and learns from the answers.
    async fn carry_out(
        &self,
        lane: &mut Lane<'_>,
        planned: Planned<C::Detail>,
        (key, memory): (&C::Key, &mut C::Memory),
        answers: &Answers,
        moment: Moment,
    ) -> Done<C::Detail> {
        let carried = lane.carry_out(&planned.plan.steps).await;
        let refusals = refusals(lane, &carried);
        let learned = self.controller.learn(Learning {
            rows: self.around.cache.store(),
            key,
            memory,
            planned: &planned,
            carried: &carried,
            refusals: &refusals,
            answers,
            moment,
            answered_at: Instant::now(),
            backoff: Backoff(self.around.api.chance()),
        });
        let notes = match &learned.halt {
            None => planned.plan.notes.clone(),
            Some(halt) => {
                let acknowledged = carried.acknowledged();
                let mut notes: Vec<_> = planned.plan.notes_after(&acknowledged).cloned().collect();
                if *halt == Halt::Closed {
                    // The next leader finds the rest as well.
                    notes.retain(is_of_write);
                }
                notes
            }
        };
        Done { planned, learned, notes }
    }

    /// Reports what was done, and hands over what goes on beside the lane.
    fn finish(
        &self,
        key: &C::Key,
        entry: &mut Entry<C::Memory>,
        done: Done<C::Detail>,
        (answers, is_doubted, moment): (&Answers, bool, Moment),
    ) -> Passed {
        let Done { planned, learned, notes } = done;
        self.announce(key, &learned.notes);
        let before = std::mem::take(&mut entry.reported);
        self.announce(key, notes.iter().filter(|note| !before.contains(note)));
        let wake_at = planned.plan.wake_at.map(|at| moment.instant_of(at));
        let wake_at = [wake_at, learned.retry_at].into_iter().flatten().min();
        if learned.halt.is_some() {
            entry.reported = notes.into_iter().filter(is_of_write).collect();
        }
        if learned.halt == Some(Halt::Closed) {
            return Passed::halted(Halt::Closed);
        }
        let is_done = learned.halt.is_none();
        let measured = Measured::Planned { planned: &planned, memory: &mut entry.memory, is_done };
        self.controller.measure(&self.around.metrics, key, measured);
        self.informing.submit(key, moment.term, planned.plan.informing());
        let is_missed = self.waiting.end(key, &planned.plan.waits_on);
        if is_missed {
            self.queue.add(key.clone());
        }
        // What a write that has failed is about is no reason to know less of pods and of configuration.
        self.follow_configs(key, &planned.plan.asks);
        let (mut questions, mut calls) = (Vec::new(), Vec::new());
        for ask in planned.plan.asks {
            match ask {
                Ask::Query(question) => questions.push(question),
                // It is remembered before it is called.
                Ask::Hook(request) => calls.push(request),
                Ask::Probe(request) => self.probe(key, *request),
                // Answered before the plan was carried out, or followed from now on.
                Ask::Read(_) | Ask::Pods(_) | Ask::Declared(_) | Ask::Digest(_) => {}
            }
        }
        match learned.halt {
            Some(_) if learned.waits_by_itself => return Passed::Waiting { wake_at },
            Some(halt) => return Passed::Halted { halt, wake_at },
            None => {}
        }
        if planned.counts_answers {
            self.probes.counted(key, &answers.outcomes);
        }
        for question in questions {
            self.ask(key, *question);
        }
        if let Some(calling) = &planned.calling {
            let is_wanted = |uid: &str, call: &Call| calling.contains(&(uid.into(), *call));
            // What the plan did not ask for because of them is asked for in the next one.
            if self.hook_calls.retain(key, is_wanted) {
                self.queue.add(key.clone());
            }
        }
        for request in calls {
            self.call_hook(key, *request);
        }
        match planned.end {
            End::Settled | End::Skipped if is_doubted => Passed::Unconfirmed,
            end => Passed::Ended { end, wake_at },
        }
    }

    /// Reads the objects that are asked for and have not been read in this pass; whether there was any.
    async fn read(&self, key: &C::Key, asks: &[Ask], answers: &mut Answers) -> bool {
        let mut has_read = false;
        for ask in asks {
            if let Ask::Declared(feature) = ask
                && !answers.declared.contains_key(feature)
            {
                let is_declared = nodes::declare(&self.around.api, feature).await;
                answers.declared.insert(*feature, is_declared);
                has_read = true;
            }
            if let Ask::Pods(question) = ask
                && !answers.listed.contains_key(question)
                && !answers.unlisted.contains(question)
            {
                match listed::names(&self.around.api, question).await {
                    Ok(names) => drop(answers.listed.insert(question.clone(), names)),
                    Err(error) => {
                        report::log_unlisted(key, question, &error);
                        answers.unlisted.insert(question.clone());
                    }
                }
                has_read = true;
            }
            let Ask::Read(object) = ask else { continue };
            if answers.reads.contains_key(object) {
                continue;
            }
            let place = Place::object(object.kind, &object.namespace, &object.name);
            let answer = match self.around.api.get(place).await {
                Ok(found) => Ok(Some(found)),
                Err(ApiError::NotFound(_)) => Ok(None),
                Err(error) => {
                    report::log_unread(key, object, &error);
                    Err(error)
                }
            };
            answers.reads.insert(object.clone(), answer);
            has_read = true;
        }
        has_read
    }

    fn announce<'n>(&self, key: &C::Key, notes: impl IntoIterator<Item = &'n Note>) {
        let voice = self.controller.voice();
        for note in notes {
            report::announce(&self.around.recorder, voice, key, note);
        }
    }

    /// Follows the ConfigMaps and Secrets that a plan asks for, and no others.
    fn follow_configs(&self, key: &C::Key, asks: &[Ask]) {
        let objects = asks.iter().filter_map(|ask| match ask {
            Ask::Digest(object) => Some(object.clone()),
            _ => None,
        });
        let queue = Arc::clone(&self.queue);
        let wake = move |key: C::Key| queue.add(key);
        self.digests.follow(key, &objects.collect(), &self.around.configs, &wake);
    }

    /// Probes a pod beside everything else; the outcome brings the next pass.
    fn probe(&self, key: &C::Key, request: ProbeRequest) {
        let (prober, prober_for) = (self.around.prober.clone(), Arc::from(key.label().text()));
        let (queue, key_then) = (Arc::clone(&self.queue), key.clone());
        let uid = request.uid.clone();
        let probe = async move { prober.probe(&prober_for, &request).await };
        self.pod_probes.start(key, (&*uid, ()), probe, move || queue.add(key_then));
    }

    /// Calls a hook for a pod beside everything else; the outcome brings the next pass.
    fn call_hook(&self, key: &C::Key, request: HookRequest) {
        let (hooks, metrics) = (self.around.hooks.clone(), self.around.metrics.clone());
        let (controller, caller) = (Arc::clone(&self.controller), key.clone());
        let called_for = Arc::from(key.label().text());
        let (queue, key_then) = (Arc::clone(&self.queue), key.clone());
        let (uid, call) = (request.uid.clone(), request.call);
        let hook = async move {
            let (outcome, took) = hooks.call(&called_for, &request).await;
            let measured = Measured::Hooked { call: outcome.call, result: &outcome.result, took };
            controller.measure(&metrics, &caller, measured);
            outcome
        };
        self.hook_calls.start(key, (&*uid, call), hook, move || queue.add(key_then));
    }

    /// Sends a query beside everything else; its answer brings the next pass.
    fn ask(&self, key: &C::Key, question: Question) {
        let (prometheus, metrics) = (self.around.prometheus.clone(), self.around.metrics.clone());
        let (controller, asker) = (Arc::clone(&self.controller), key.clone());
        let (name, gate) = (question.check.name.clone(), question.gate.clone());
        let ask = async move {
            let Question { check, gate, .. } = &question;
            let fill = || {
                let Expressions { query: expr, guard } = question.fill()?;
                let (query, extent) = (check.query.clone(), check.rule.extent());
                Ok(outbound::Question { query, expr, extent, guard })
            };
            let response = prometheus.ask((asker.namespace(), &check.query.url), fill).await;
            let judgement = judge(check, &response.answer, response.guard.as_ref());
            let verdict = judgement.verdict;
            let measured = Measured::Queried { check: &check.name, verdict, took: response.took };
            controller.measure(&metrics, &asker, measured);
            QueryOutcome {
                check: check.name.clone(),
                gate: gate.clone(),
                asked_at: whole_milliseconds(response.asked_at),
                judgement,
            }
        };
        let (queue, key_then) = (Arc::clone(&self.queue), key.clone());
        self.probes.start(key, (name, gate), ask, move |_| queue.add(key_then));
    }
}

/// Confirms what a plan rests on: the domains for what disrupts, and for the removal of our finalizer which sets carry a mark.
async fn confirm<D>(lane: &mut Lane<'_>, planned: &Planned<D>, reads: &[Kind]) -> Result<Basis, Halt> {
    let mut basis = Basis::Confirmed;
    let actions = || planned.plan.writes();
    if let Some(removal) = actions().find(|action| rests_on_marks(action)) {
        basis = lane.confirm_marks(removal.object()).await?;
    }
    let is_of_domain = |action: &Action| action.needs_confirmed_view() && !rests_on_marks(action);
    if planned.must_be_confirmed || actions().any(is_of_domain) {
        let reads: Vec<_> =
            reads.iter().copied().filter(|kind| Handling::of(*kind).confirmed != Confirmed::Never).collect();
        if lane.confirm(&reads).await? == Basis::Renewed {
            basis = Basis::Renewed;
        }
    }
    Ok(basis)
}

/// The writes of a plan that were refused, or have not been answered several times, and what to report of each.
fn refusals<'p>(lane: &Lane<'_>, carried: &CarriedOut<'p>) -> Vec<(&'p Action, Refusal)> {
    let failed = carried.answered().filter_map(|(action, answer)| Some((action, answer.as_ref().err()?)));
    failed.filter_map(|(action, error)| Some((action, lane.refusal(action, error)?))).collect()
}

/// Whether a note is about a write: no later plan has it once that is acknowledged.
fn is_of_write(note: &Note) -> bool {
    matches!(note.when, When::Written(_))
}
