//! What can happen next.

use sts_plus_api::scaling_policy::RecordPhase;
use sts_plus_planner::scaling::hook::Call;

use crate::guarantees::Guarantee;
use crate::planted::Planted;
use crate::state::{
    Answer, App, Calling, Fence, Life, Model, ORDINALS, Outcome, Pod, Record, Seen, State, Write, rows,
};
use crate::view::Planner;

/// Something that happens. Numbers are ordinals where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    SeeSet,
    SeePolicy,
    SeePods,
    SeeLock,
    /// The operator reads everything consistently.
    Read,
    /// The operator looks, plans, and begins to carry the plan out.
    Pass,
    /// The next write arrives and is answered.
    Written(Write),
    /// The same, and its precondition does not hold.
    Refused(Write),
    /// It arrives, and the answer is lost.
    AnswerLost(Write),
    /// It is lost.
    Dropped(Write),
    /// Its sender stops waiting, and it is still on its way.
    Delayed(Write),
    Late(Write),
    Crash,
    /// A call finds nobody who could answer it.
    Unreachable(usize, Call),
    /// A call is answered like this; `true` where the application does something.
    Answered(usize, Call, Answer, bool),
    ControllerSees,
    Create(usize),
    Delete(usize),
    Start(usize),
    /// Its container is Ready.
    Readied(usize),
    Gone(usize),
    /// Its containers are started again, init containers first.
    Reset(usize),
    Restarted(usize),
    /// Its container exits because of the call.
    Exits(usize),
    /// Its node shows it the lock as it is.
    Synced(usize),
    /// It is created on a node that shows it a key that is not in the lock any more.
    CreateBehind(usize),
    /// A container ends.
    Ends(usize),
    Evict(usize),
    /// The user asks for so many pods.
    Scale(u8),
    DeletePolicy,
    /// Somebody else sets the replicas of the set.
    Foreign(u8),
    /// Every deadline is over.
    Deadline,
}

impl Move {
    /// Whether it is a fault, or a change by somebody, on which nobody can count.
    pub(crate) fn optional(self) -> bool {
        use Move::{
            AnswerLost, Answered, Crash, CreateBehind, Deadline, Delayed, DeletePolicy, Dropped, Ends, Evict,
            Foreign, Scale,
        };
        match self {
            AnswerLost(_) | Dropped(_) | Delayed(_) | Crash | Ends(_) | Evict(_) | Scale(_)
            | DeletePolicy | Foreign(_) | Deadline | CreateBehind(_) => true,
            Answered(_, _, answer, _) => answer == Answer::Failed,
            _ => false,
        }
    }
}

pub(crate) type Next = Vec<(Move, State)>;

impl State {
    /// All that can happen next, and what comes of it.
    pub(crate) fn moves(&self, model: &Model, planner: &mut Planner) -> Next {
        let mut next = Vec::new();
        self.views(model, &mut next);
        self.passes(model, planner, &mut next);
        self.answers(model, &mut next);
        self.pod_moves(model, &mut next);
        self.people(model, &mut next);
        for (_, state) in &mut next {
            state.rename();
        }
        next
    }

    pub(crate) fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut state = self.clone();
        change(&mut state);
        state
    }

    fn views(&self, model: &Model, next: &mut Next) {
        let operator = &self.operator;
        if operator.set != self.set {
            next.push((Move::SeeSet, self.after(State::see_set)));
        }
        if operator.policy != self.policy {
            next.push((Move::SeePolicy, self.after(State::see_policy)));
        }
        if operator.pods != rows(&self.pods) {
            next.push((Move::SeePods, self.after(State::see_pods)));
        }
        if operator.lock != self.lock {
            next.push((Move::SeeLock, self.after(State::see_lock)));
        }
        if operator.unknown && !model.has(Planted::NoReadAfterUnknown) {
            next.push((Move::Read, self.after(State::see_all)));
        }
    }

    fn see_set(&mut self) {
        self.operator.set = self.set;
        self.operator.awaits_set = false;
    }

    fn see_policy(&mut self) {
        self.operator.policy = self.policy;
        self.operator.awaits_policy = false;
    }

    fn see_lock(&mut self) {
        self.operator.lock = self.lock;
        self.operator.awaits_lock = false;
    }

    fn see_pods(&mut self) {
        self.operator.pods = rows(&self.pods);
        let is_awaited = |(ordinal, uid): &(usize, u8)| {
            let seen = self.operator.pods[*ordinal];
            seen.is_some_and(|seen| seen.uid == *uid && seen.life != Life::Terminating)
        };
        self.operator.awaits_pod = self.operator.awaits_pod.filter(is_awaited);
    }

    pub(crate) fn see_all(&mut self) {
        self.see_set();
        self.see_policy();
        self.see_pods();
        self.see_lock();
        self.operator.unknown = false;
    }

    /// What applications do with the calls that are under way.
    fn answers(&self, model: &Model, next: &mut Next) {
        for (index, calling) in self.operator.calls.iter().enumerate() {
            let reached = self.pods[calling.ordinal].filter(|pod| {
                matches!(pod.seen.life, Life::Ready | Life::Unready)
                    && (pod.seen.uid == calling.uid || model.reuses_addresses)
            });
            let mut answered = |answer: Answer, app: Option<App>| {
                let state = self.after(|state| {
                    let calling = state.operator.calls.remove(index);
                    let at = state.next_time(calling.ordinal, model);
                    let outcome = Outcome { calling, answer, at };
                    state.operator.outcomes.push(outcome);
                    state
                        .operator
                        .outcomes
                        .sort_by_key(|outcome| (outcome.calling.ordinal, outcome.calling.uid));
                    if let (Some(app), Some(pod)) = (app, &mut state.pods[calling.ordinal]) {
                        pod.app = app;
                        state.stays_prepared[calling.ordinal] &= app.is_prepared();
                    }
                });
                next.push((Move::Answered(calling.ordinal, calling.call, answer, app.is_some()), state));
            };
            answered(Answer::Failed, None);
            let Some(pod) = reached else {
                if let Some((what, _)) = next.last_mut() {
                    *what = Move::Unreachable(calling.ordinal, calling.call);
                }
                continue;
            };
            match (calling.call, pod.app) {
                (Call::Prepare, App::Serving | App::Unstarted) if model.exits => {
                    answered(Answer::Broken, Some(App::Called));
                    answered(Answer::Failed, Some(App::Called));
                }
                (Call::Prepare, App::Called) if model.exits => answered(Answer::Broken, None),
                (Call::Prepare, App::Done) => answered(Answer::Done, Some(App::Done)),
                (Call::Prepare, _) if model.polled => {
                    answered(Answer::Pending, Some(App::Called));
                    answered(Answer::Failed, Some(App::Called));
                }
                (Call::Prepare, _) => {
                    answered(Answer::Done, Some(App::Done));
                    answered(Answer::Failed, Some(App::Done));
                }
                (Call::Poll, App::Serving | App::Unstarted) => answered(Answer::Pending, None),
                (Call::Poll, App::Called) if model.exits => answered(Answer::Pending, None),
                (Call::Poll, App::Called) => {
                    answered(Answer::Pending, None);
                    answered(Answer::Done, Some(App::Done));
                }
                (Call::Poll, App::Done) => answered(Answer::Done, None),
                (Call::Cancel | Call::Join, _) => {
                    answered(Answer::Done, Some(App::Serving));
                    answered(Answer::Failed, Some(App::Serving));
                }
            }
        }
    }

    /// What the StatefulSet controller, kubelets and accidents do to pods.
    fn pod_moves(&self, model: &Model, next: &mut Next) {
        if self.controller != self.set.replicas {
            next.push((Move::ControllerSees, self.after(|state| state.controller = state.set.replicas)));
        }
        for ordinal in 0..ORDINALS {
            let is_wanted = ordinal < usize::from(self.controller);
            let Some(pod) = self.pods[ordinal] else {
                if is_wanted {
                    let is_allowed = self.lock.keys & 1 << ordinal != 0;
                    next.push((Move::Create(ordinal), self.after(|state| state.create(ordinal, is_allowed))));
                    if !is_allowed && self.left.stale_nodes > 0 {
                        let behind = self.after(|state| {
                            state.left.stale_nodes -= 1;
                            state.create(ordinal, true);
                        });
                        next.push((Move::CreateBehind(ordinal), behind));
                    }
                }
                continue;
            };
            let lives = |life: Life| {
                self.after(|state| {
                    state.pods[ordinal] = Some(Pod { seen: Seen { life, ..pod.seen }, ..pod });
                })
            };
            match pod.seen.life {
                Life::Terminating => {
                    let gone = self.after(|state| state.end(ordinal, pod));
                    next.push((Move::Gone(ordinal), gone));
                    continue;
                }
                Life::Pending | Life::Again if model.is_locked() && !pod.mounted => {}
                Life::Pending => {
                    next.push((Move::Start(ordinal), self.after(|state| state.start(ordinal, pod, model))));
                }
                Life::Again => {
                    next.push((
                        Move::Restarted(ordinal),
                        self.after(|state| state.start(ordinal, pod, model)),
                    ));
                }
                Life::Down if model.fence == (Fence::Lock { rule: true }) => {
                    next.push((Move::Reset(ordinal), lives(Life::Again)));
                }
                Life::Down => {
                    next.push((
                        Move::Restarted(ordinal),
                        self.after(|state| state.start(ordinal, pod, model)),
                    ));
                }
                Life::Ready | Life::Unready if model.exits && pod.app == App::Called => {
                    let exited = self.after(|state| {
                        let ended = state.next_time(ordinal, model);
                        let seen = Seen { life: Life::Down, ended, ..pod.seen };
                        state.pods[ordinal] = Some(Pod { seen, app: App::Done, ..pod });
                    });
                    next.push((Move::Exits(ordinal), exited));
                }
                Life::Ready if self.left.restarts > 0 => {
                    let ended = self.after(|state| {
                        state.left.restarts -= 1;
                        let ended = state.next_time(ordinal, model);
                        let seen = Seen { life: Life::Down, ended, ..pod.seen };
                        state.pods[ordinal] = Some(Pod { seen, ..pod });
                    });
                    next.push((Move::Ends(ordinal), ended));
                }
                Life::Ready | Life::Unready => {}
            }
            if pod.seen.life == Life::Unready {
                let mut ready = lives(Life::Ready);
                if let Some(pod) = ready.pods[ordinal].as_mut().filter(|pod| pod.app == App::Unstarted) {
                    pod.app = App::Serving;
                }
                next.push((Move::Readied(ordinal), ready));
            }
            if model.is_locked() && pod.mounted != (self.lock.keys & 1 << ordinal != 0) {
                let synced = self.after(|state| {
                    if let Some(pod) = &mut state.pods[ordinal] {
                        pod.mounted = !pod.mounted;
                    }
                });
                next.push((Move::Synced(ordinal), synced));
            }
            if !is_wanted {
                next.push((Move::Delete(ordinal), lives(Life::Terminating)));
            } else if self.left.evictions > 0 {
                let mut evicted = lives(Life::Terminating);
                evicted.left.evictions -= 1;
                next.push((Move::Evict(ordinal), evicted));
            }
        }
    }

    fn create(&mut self, ordinal: usize, mounted: bool) {
        let uid = self.fresh_uid(ordinal);
        let seen = Seen { uid, restarts: 0, life: Life::Pending, started: 0, ended: 0 };
        self.pods[ordinal] = Some(Pod { seen, app: App::Unstarted, mounted });
        if self.claims[ordinal].is_none() {
            self.claims[ordinal] = Some(self.fresh_claim(ordinal));
        }
    }

    /// The containers of a pod start.
    fn start(&mut self, ordinal: usize, pod: Pod, model: &Model) {
        let is_first = pod.seen.life == Life::Pending;
        let restarts = pod.seen.restarts + u8::from(!is_first);
        // One whose call ends it is called while it is not Ready, too. Before it is it has nothing to lose but what was left.
        let (life, app) = match pod.app {
            _ if !model.exits => (Life::Ready, App::Serving),
            App::Done => {
                self.left_behind[ordinal] = App::Done;
                (Life::Unready, App::Unstarted)
            }
            App::Unstarted => (Life::Unready, App::Unstarted),
            App::Serving | App::Called => (Life::Unready, App::Serving),
        };
        let started = self.next_time(ordinal, model);
        let seen = Seen { restarts, life, started, ..pod.seen };
        self.pods[ordinal] = Some(Pod { seen, app, ..pod });
        self.stays_prepared[ordinal] = false;
        let record = self.policy.and_then(|policy| policy.status.leaving[ordinal]);
        let is_fenced = |record: Record| {
            let is_drained = record.phase == RecordPhase::Drained && record.drained;
            // Without the rule nothing holds the container of the pod itself.
            is_drained && (record.uid != Some(pod.seen.uid) || model.fence == (Fence::Lock { rule: true }))
        };
        if model.is_locked() && record.is_some_and(is_fenced) {
            self.broken.add(Guarantee::Fenced);
        }
    }

    /// A pod is gone.
    fn end(&mut self, ordinal: usize, pod: Pod) {
        // One that has never run leaves what was there before.
        if pod.app != App::Unstarted {
            self.left_behind[ordinal] = pod.app;
        }
        self.pods[ordinal] = None;
        self.stays_prepared[ordinal] = false;
        if self.set.deletes && ordinal >= usize::from(self.set.replicas) {
            if self.left_behind[ordinal] != App::Done {
                self.broken.add(Guarantee::ClaimsKept);
            }
            self.claims[ordinal] = None;
        }
    }

    /// What people and the clock do.
    fn people(&self, model: &Model, next: &mut Next) {
        if let Some(policy) = self.policy.filter(|policy| !policy.deleting) {
            let edits = model.edits.iter().filter(|wanted| self.left.edits > 0 && **wanted != policy.wanted);
            for wanted in edits {
                let edited = self.after(|state| {
                    state.left.edits -= 1;
                    state.change_policy(|policy| policy.wanted = *wanted);
                });
                next.push((Move::Scale(*wanted), edited));
            }
            if self.left.deletions > 0 {
                let deleted = self.after(|state| {
                    state.left.deletions -= 1;
                    state.change_policy(|policy| policy.deleting = true);
                });
                next.push((Move::DeletePolicy, deleted));
            }
        }
        let others = (0..=model.replicas).filter(|replicas| *replicas != self.set.replicas);
        for replicas in others.filter(|_| self.left.foreign > 0) {
            let written = self.after(|state| {
                state.left.foreign -= 1;
                state.set.version += 1;
                state.scale_to(replicas, model);
            });
            next.push((Move::Foreign(replicas), written));
        }
        let runs = |record: &Record| !record.overdue && record.phase != RecordPhase::Failed;
        let mut records = self.policy.iter().flat_map(|policy| policy.status.leaving.iter().flatten());
        if self.left.deadlines > 0 && records.any(runs) {
            next.push((Move::Deadline, self.after(State::pass_deadlines)));
        }
    }

    fn change_policy(&mut self, change: impl FnOnce(&mut crate::state::Policy)) {
        let Some(policy) = &mut self.policy else { return };
        change(policy);
        policy.version += 1;
        policy.status.observed = false;
    }

    pub(crate) fn scale_to(&mut self, replicas: u8, model: &Model) {
        if model.is_locked() && replicas != self.set.replicas {
            self.set.generation += 1;
        }
        self.set.replicas = replicas;
        if !model.controller_lags {
            self.controller = replicas;
        }
    }

    /// The deadline of everything that has begun is over.
    fn pass_deadlines(&mut self) {
        self.left.deadlines -= 1;
        let policies = [&mut self.policy, &mut self.operator.policy].into_iter().flatten();
        let statuses = policies.map(|policy| &mut policy.status);
        let requests = self.operator.sent.iter_mut().chain(&mut self.late);
        let written = requests.filter_map(|request| match &mut request.write {
            Write::Status(status) => Some(status),
            _ => None,
        });
        let records = statuses.chain(written).flat_map(|status| status.leaving.iter_mut().flatten());
        records.for_each(|record| record.overdue = true);
        let late = |calling: &mut Calling| calling.overdue = true;
        self.operator.calls.iter_mut().for_each(late);
        self.operator.outcomes.iter_mut().for_each(|outcome| late(&mut outcome.calling));
        self.operator.then.iter_mut().flat_map(|then| &mut then.begin).for_each(late);
    }
}
