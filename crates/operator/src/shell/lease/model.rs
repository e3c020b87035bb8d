//! Explores what candidates, the server, the network and the clock can do to each other, in every order.
//!
//! A candidate may be slow or paused at any point (its turn just does not come while the time goes on), may
//! crash and start anew, may leave in order, may lose any answer; a request without an answer may still reach
//! the server at any later time. Whoever leads after each step is counted by the same rule that
//! `Leadership::current` uses.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::json;

use super::*;

/// More states than any setup here has: a bound on a mistake, not on the search.
const MAX_STATES: usize = 3_000_000;

/// One way to run the model.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) timing: Timing,
    /// How many seconds pass on each candidate's clock while one tick passes.
    pub(super) rates: Vec<u64>,
    /// How often each misfortune may happen.
    pub(super) faults: Faults,
    /// Whether all candidates go by one name.
    pub(super) same_name: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    /// Answers lost.
    pub(super) losses: u8,
    /// Processes that die and start anew.
    pub(super) crashes: u8,
    /// Processes that leave in order and start anew.
    pub(super) leaves: u8,
    /// Deletions of the lease by a third party, once every candidate has seen it and no request to create it
    /// is adrift. Not together with crashes and leaves: a new process has not seen it.
    pub(super) deletions: u8,
    /// Changes of its labels by a third party.
    pub(super) edits: u8,
}

#[derive(Clone)]
pub(super) struct World {
    server: Option<Lease>,
    candidates: Vec<Candidate>,
    /// Requests of which nobody awaits the answer any more.
    adrift: Vec<Request>,
    faults: Faults,
    /// Counts everything that must be unique: versions, names, moments of writing.
    counter: u32,
    highest_epoch: u64,
    pub(super) epoch_fell: bool,
    trail: Option<Rc<Trail>>,
}

struct Trail {
    action: Action,
    before: Option<Rc<Trail>>,
}

#[derive(Clone)]
struct Candidate {
    name: String,
    now: Moment,
    view: View,
    call: Option<Call>,
    /// It is leaving, and starts anew after the answer.
    leaving: bool,
}

#[derive(Clone)]
struct Call {
    request: Request,
    sent_at: Moment,
    answer: Option<Answer>,
}

#[derive(Clone)]
enum Request {
    Read,
    Create(Lease),
    Replace(Lease),
}

#[derive(Clone)]
enum Answer {
    Found(Option<Lease>),
    Wrote(Lease),
    Conflict,
    NotFound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// Time passes for everybody.
    Tick,
    /// A candidate decides and starts what it decided.
    Decide(usize),
    /// The server carries out a candidate's request.
    Serve(usize),
    /// The answer reaches the candidate.
    Answer(usize),
    /// The candidate stops waiting for the answer.
    Lose(usize),
    /// A change of the lease reaches a candidate that watches.
    Notice(usize),
    Crash(usize),
    Leave(usize),
    /// The server carries out a request that was given up.
    ServeAdrift(usize),
    Delete,
    Edit,
}

impl Candidate {
    fn leads(&self, timing: &Timing) -> bool {
        self.view.term().is_some_and(|term| self.now < term.sent_at + timing.give_up)
    }
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            server: None,
            candidates: Vec::new(),
            adrift: Vec::new(),
            faults: setup.faults,
            counter: 0,
            highest_epoch: 0,
            epoch_fell: false,
            trail: None,
        };
        for _ in &setup.rates {
            let fresh = world.fresh(setup);
            world.candidates.push(fresh);
        }
        world
    }

    fn next(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn fresh(&mut self, setup: &Setup) -> Candidate {
        let name = if setup.same_name { "same".to_owned() } else { self.next().to_string() };
        Candidate { name, now: Moment::ZERO, view: View::default(), call: None, leaving: false }
    }

    fn decision(&self, index: usize, setup: &Setup) -> Decision {
        let Candidate { name, now, view, .. } = &self.candidates[index];
        decide(view, name, *now, &setup.timing)
    }

    /// Everything that can happen next.
    pub(super) fn possible(&self, setup: &Setup) -> Vec<Action> {
        let mut actions = vec![Action::Tick];
        for (index, candidate) in self.candidates.iter().enumerate() {
            match &candidate.call {
                Some(call) if call.answer.is_some() => actions.push(Action::Answer(index)),
                Some(_) => actions.push(Action::Serve(index)),
                None => match self.decision(index, setup) {
                    Decision::Lead { .. } => {}
                    Decision::Follow { .. } => {
                        let version = candidate.view.lease().map(Lease::resource_version);
                        if version != self.server.as_ref().map(Lease::resource_version) {
                            actions.push(Action::Notice(index));
                        }
                    }
                    _ => actions.push(Action::Decide(index)),
                },
            }
            if candidate.call.is_some() && self.faults.losses > 0 {
                actions.push(Action::Lose(index));
            }
            if self.faults.crashes > 0 {
                actions.push(Action::Crash(index));
            }
            let holds =
                candidate.view.lease().is_some_and(|lease| lease.record().holder() == Some(&candidate.name));
            if self.faults.leaves > 0 && candidate.call.is_none() && holds {
                actions.push(Action::Leave(index));
            }
        }
        actions.extend((0..self.adrift.len()).map(Action::ServeAdrift));
        let seen_by_all = self.candidates.iter().all(|candidate| candidate.view.seen.is_some());
        let creating = |request: &Request| matches!(request, Request::Create(_));
        if self.faults.deletions > 0
            && self.server.is_some()
            && seen_by_all
            && !self.adrift.iter().any(creating)
        {
            actions.push(Action::Delete);
        }
        if self.faults.edits > 0 && self.server.is_some() {
            actions.push(Action::Edit);
        }
        actions
    }

    pub(super) fn apply(&mut self, action: Action, setup: &Setup) {
        self.trail = Some(Rc::new(Trail { action, before: self.trail.take() }));
        match action {
            Action::Tick => {
                for (candidate, rate) in self.candidates.iter_mut().zip(&setup.rates) {
                    candidate.now += Duration::from_secs(*rate);
                }
            }
            Action::Decide(index) => self.decide(index, setup),
            Action::Serve(index) => {
                let request = self.candidates[index].call.as_ref().unwrap().request.clone();
                let answer = self.serve(request);
                self.candidates[index].call.as_mut().unwrap().answer = Some(answer);
            }
            Action::Answer(index) => {
                let call = self.candidates[index].call.take().unwrap();
                self.answer(index, call, setup);
                self.start_anew_if_leaving(index, setup);
            }
            Action::Lose(index) => {
                self.faults.losses -= 1;
                self.abandon_call(index);
                let candidate = &mut self.candidates[index];
                candidate.view.failed(Failure::Unknown, candidate.now);
                self.start_anew_if_leaving(index, setup);
            }
            Action::Notice(index) => {
                let candidate = &mut self.candidates[index];
                match self.server.clone() {
                    Some(lease) => candidate.view.found(lease, candidate.now),
                    None => candidate.view.found_none(candidate.now),
                }
            }
            Action::Crash(index) => {
                self.faults.crashes -= 1;
                self.abandon_call(index);
                self.candidates[index] = self.fresh(setup);
            }
            Action::Leave(index) => {
                self.faults.leaves -= 1;
                let clock = self.clock();
                let candidate = &mut self.candidates[index];
                candidate.view.step_down();
                candidate.leaving = true;
                let request = Request::Replace(candidate.view.lease().unwrap().released(clock));
                candidate.call = Some(Call { request, sent_at: candidate.now, answer: None });
            }
            Action::ServeAdrift(index) => {
                let request = self.adrift.remove(index);
                self.serve(request);
            }
            Action::Delete => {
                self.faults.deletions -= 1;
                self.server = None;
            }
            Action::Edit => {
                self.faults.edits -= 1;
                let version = self.next().to_string();
                self.server = self.server.take().map(|lease| lease.at_version(version));
            }
        }
        let adrift = std::mem::take(&mut self.adrift);
        self.adrift = adrift.into_iter().filter(|request| !self.doomed(request)).collect();
    }

    /// Whether a write can never succeed any more: versions do not come back.
    fn doomed(&self, request: &Request) -> bool {
        match (request, &self.server) {
            (Request::Read, _) => false,
            (Request::Create(_), stored) => stored.is_some() && self.faults.deletions == 0,
            (Request::Replace(_), None) => true,
            (Request::Replace(lease), Some(stored)) => lease.resource_version() != stored.resource_version(),
        }
    }

    fn decide(&mut self, index: usize, setup: &Setup) {
        let decision = self.decision(index, setup);
        let seconds = setup.timing.lease.as_secs();
        let clock = self.clock();
        let candidate = &mut self.candidates[index];
        let lease = || candidate.view.lease().cloned().unwrap();
        let request = match decision {
            Decision::Read => Request::Read,
            Decision::Create => Request::Create(unheld().taken(&candidate.name, seconds, clock)),
            Decision::Acquire(_) => Request::Replace(lease().taken(&candidate.name, seconds, clock)),
            Decision::Renew => Request::Replace(lease().renewed(seconds, clock)),
            Decision::StepDown(_) => return candidate.view.step_down(),
            Decision::Lead { .. } | Decision::Follow { .. } => return,
        };
        candidate.call = Some(Call { request, sent_at: candidate.now, answer: None });
    }

    fn serve(&mut self, request: Request) -> Answer {
        let version = self.next().to_string();
        match (request, &self.server) {
            (Request::Read, found) => Answer::Found(found.clone()),
            (Request::Create(_), Some(_)) => Answer::Conflict,
            (Request::Replace(_), None) => Answer::NotFound,
            (Request::Replace(lease), Some(stored))
                if lease.resource_version() != stored.resource_version() =>
            {
                Answer::Conflict
            }
            (Request::Create(lease) | Request::Replace(lease), _) => {
                let stored = lease.at_version(version);
                self.server = Some(stored.clone());
                Answer::Wrote(stored)
            }
        }
    }

    fn answer(&mut self, index: usize, call: Call, setup: &Setup) {
        let Candidate { name, now, view, .. } = &mut self.candidates[index];
        let before = view.term();
        match call.answer.unwrap() {
            Answer::Found(Some(lease)) => view.found(lease, *now),
            Answer::Found(None) => view.found_none(*now),
            Answer::Wrote(lease) => view.wrote(lease, name, call.sent_at, *now, &setup.timing),
            Answer::Conflict => view.failed(Failure::Unknown, *now),
            Answer::NotFound => view.failed(Failure::Absent, *now),
        }
        if let (None, Some(term)) = (before, view.term()) {
            self.epoch_fell |= term.epoch.number() <= self.highest_epoch;
            self.highest_epoch = term.epoch.number();
        }
    }

    fn abandon_call(&mut self, index: usize) {
        let call = self.candidates[index].call.take();
        if let Some(Call {
            request: request @ (Request::Create(_) | Request::Replace(_)),
            answer: None,
            ..
        }) = call
        {
            self.adrift.push(request);
        }
    }

    fn start_anew_if_leaving(&mut self, index: usize, setup: &Setup) {
        if self.candidates[index].leaving {
            self.candidates[index] = self.fresh(setup);
        }
    }

    fn clock(&mut self) -> Timestamp {
        Timestamp::from_microsecond(self.next().into()).unwrap()
    }

    pub(super) fn leaders(&self, timing: &Timing) -> Vec<usize> {
        (0..self.candidates.len()).filter(|index| self.candidates[*index].leads(timing)).collect()
    }

    pub(super) fn story(&self) -> String {
        let mut actions = Vec::new();
        let mut trail = self.trail.as_deref();
        while let Some(Trail { action, before }) = trail {
            actions.push(*action);
            trail = before.as_deref();
        }
        actions.iter().rev().fold(String::new(), |mut story, action| {
            write!(story, "{action:?} ").unwrap();
            story
        })
    }

    /// All that the future depends on: candidates up to their order, versions up to renaming, moments as ages
    /// up to where they stop to matter, and nothing of what can no longer have an effect.
    fn key(&self, setup: &Setup) -> Vec<u8> {
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        if setup.rates.iter().all(|rate| Some(rate) == setup.rates.first()) {
            order.sort_by_cached_key(|index| self.key_in(&[*index], &setup.timing));
        }
        self.key_in(&order, &setup.timing)
    }

    fn key_in(&self, order: &[usize], timing: &Timing) -> Vec<u8> {
        let mut key = Key { bytes: Vec::with_capacity(64), versions: Vec::new(), renewals: Vec::new() };
        let holder = self.server.as_ref().and_then(|lease| lease.record().holder());
        key.lease(self.server.as_ref(), "");
        key.index(order.iter().position(|index| Some(self.candidates[*index].name.as_str()) == holder));
        for index in order {
            let Candidate { name, now, view, call, leaving } = &self.candidates[*index];
            let age = |moment: Moment, limit: Duration| {
                u8::try_from(now.saturating_sub(moment).min(limit).as_secs()).unwrap()
            };
            match view.known {
                Known::InDoubt => key.bytes.push(255),
                Known::Absent { since } => key.bytes.push(age(since, timing.lease)),
                Known::Present => key.bytes.push(254),
            }
            let seen = view.seen.as_ref();
            key.lease(seen.map(|seen| &seen.lease), name);
            // Only the silence of another is ever measured.
            let silent =
                seen.filter(|seen| seen.lease.record().holder().is_some_and(|holder| holder != name));
            let silent = silent.filter(|_| !matches!(view.known, Known::Absent { .. }));
            key.bytes.push(silent.map_or(255, |seen| age(seen.at, timing.lease)));
            key.bytes.push(view.term().map_or(255, |term| age(term.sent_at, timing.give_up)));
            key.bytes.push(u8::from(*leaving));
            let Some(Call { request, sent_at, answer }) = call else {
                key.bytes.push(255);
                continue;
            };
            match answer {
                None => {
                    key.request(request, self.doomed(request), name);
                    key.bytes.push(age(*sent_at, timing.give_up));
                }
                Some(Answer::Found(found)) => {
                    key.bytes.push(10);
                    key.lease(found.as_ref(), name);
                }
                Some(Answer::Wrote(lease)) => {
                    key.bytes.extend([11, age(*sent_at, timing.give_up)]);
                    key.lease(Some(lease), name);
                }
                Some(Answer::Conflict) => key.bytes.push(12),
                Some(Answer::NotFound) => key.bytes.push(13),
            }
        }
        for request in &self.adrift {
            let author =
                order.iter().position(|index| request.holder() == Some(&self.candidates[*index].name));
            key.index(author);
            key.request(request, false, "");
        }
        let Faults { losses, crashes, leaves, deletions, edits } = self.faults;
        key.bytes.extend([losses, crashes, leaves, deletions, edits]);
        key.bytes
    }
}

/// Without names, to be cheap to copy.
fn unheld() -> Lease {
    serde_json::from_value(json!({ "metadata": {} })).unwrap()
}

struct Key<'a> {
    bytes: Vec<u8>,
    versions: Vec<&'a str>,
    renewals: Vec<&'a str>,
}

impl<'a> Key<'a> {
    fn lease(&mut self, lease: Option<&'a Lease>, reader: &str) {
        let Some(lease) = lease else { return self.bytes.push(255) };
        let record = lease.record();
        self.bytes.push(rank(&mut self.versions, lease.resource_version()));
        self.bytes.push(rank(&mut self.renewals, record.renew_time.as_deref().unwrap_or_default()));
        self.bytes.push(record.holder().map_or(0, |holder| if holder == reader { 1 } else { 2 }));
    }

    fn request(&mut self, request: &'a Request, doomed: bool, reader: &str) {
        match request {
            Request::Read => self.bytes.push(0),
            Request::Create(_) | Request::Replace(_) if doomed => self.bytes.push(1),
            Request::Create(lease) | Request::Replace(lease) => {
                self.bytes.push(2);
                self.lease(Some(lease), reader);
            }
        }
    }

    fn index(&mut self, index: Option<usize>) {
        self.bytes.push(index.map_or(255, |index| u8::try_from(index).unwrap()));
    }
}

fn rank<'a>(known: &mut Vec<&'a str>, text: &'a str) -> u8 {
    let place = known.iter().position(|known| *known == text).unwrap_or_else(|| {
        known.push(text);
        known.len() - 1
    });
    u8::try_from(place).unwrap()
}

impl Request {
    fn holder(&self) -> Option<&str> {
        match self {
            Self::Read => None,
            Self::Create(lease) | Self::Replace(lease) => lease.record().holder(),
        }
    }
}

/// Visits every state; returns how many, or the story of two leaders.
pub(super) fn explore(setup: &Setup, mut visit: impl FnMut(&World)) -> Result<usize, String> {
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    let mut open = vec![World::new(setup)];
    while let Some(world) = open.pop() {
        for action in world.possible(setup) {
            let mut next = world.clone();
            next.apply(action, setup);
            if known.insert(next.key(setup)) {
                if next.leaders(&setup.timing).len() > 1 {
                    return Err(next.story());
                }
                assert!(known.len() < MAX_STATES, "the model does not end");
                visit(&next);
                open.push(next);
            }
        }
    }
    Ok(known.len())
}
