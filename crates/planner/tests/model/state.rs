//! The state of the model and what can happen in it.

use crate::view::Planner;

/// The size of a model and what may go wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) zones: usize,
    pub(crate) pods_per_zone: usize,
    pub(crate) budget: u8,
    /// How many events of each kind an operator's view may lag behind.
    pub(crate) lag: usize,
    pub(crate) operators: usize,
    pub(crate) faults: Faults,
    /// Whether a pod that fails may also keep running without being Ready.
    pub(crate) unready: bool,
    /// Whether a request may outlive its sender.
    pub(crate) late: bool,
    /// The rule that the executor does not follow.
    pub(crate) without: Option<Rule>,
}

impl Model {
    fn obeys(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

/// How often each thing may still go wrong, or be changed by a user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A zone's template goes back to the old one, or forth again.
    pub(crate) edits: u8,
    /// An operator crashes and starts again.
    pub(crate) crashes: u8,
    /// A pod that serves breaks.
    pub(crate) failures: u8,
    /// A request or its answer is lost.
    pub(crate) losses: u8,
    /// An operator can no longer list or watch pods.
    pub(crate) blindness: u8,
}

/// The rules of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Deletions carry the resourceVersion, not the UID alone.
    Version,
    /// No plan before the view shows our acknowledged deletions.
    OwnWrites,
    /// A start begins with a consistent view.
    ConsistentStart,
    /// After a lost answer comes a consistent read.
    Unknown,
    /// While pods cannot be followed, a consistent read comes before each deletion.
    ConfirmedView,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    Gone,
    Starting,
    Ready,
    Broken,
    Terminating,
    /// Its containers run, and it is not Ready.
    Unready,
}

/// A pod, or the place of one. UIDs and versions are small numbers that differ where they must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pod {
    pub(crate) uid: u8,
    pub(crate) version: u8,
    pub(crate) revision: u8,
    pub(crate) health: Health,
}

impl Pod {
    const GONE: Self = Self { uid: 0, version: 0, revision: 0, health: Health::Gone };
}

/// A deletion on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) slot: usize,
    pub(crate) uid: u8,
    pub(crate) version: u8,
}

/// One running operator.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    pub(crate) pods: Vec<Pod>,
    pub(crate) targets: Vec<u8>,
    pod_events: Vec<(usize, Pod)>,
    set_events: Vec<(usize, u8)>,
    sent: Vec<Request>,
    /// Acknowledged deletions that the view may not show yet, as (slot, UID).
    expected: Vec<(usize, u8)>,
    /// A request was not answered.
    unknown: bool,
    /// Pods cannot be followed.
    blind: bool,
    /// A pod has changed since then, and the view does not show it.
    missed: bool,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) pods: Vec<Pod>,
    pub(crate) targets: Vec<u8>,
    /// Slots that are down because we deleted a pod that served.
    pub(crate) taken: Vec<bool>,
    /// How many requests have landed after their sender had moved on.
    pub(crate) landed_late: u8,
    /// A deletion was sent, on a view that had missed something, which the planner would not have allowed on the pods
    /// as they were.
    pub(crate) unfounded: bool,
    operators: Vec<Operator>,
    /// Requests that outlived their sender.
    late: Vec<Request>,
    left: Faults,
}

/// Something that happens. Numbers are operators, slots (pods, zone by zone), zones or requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    SeePod(usize),
    SeeSet(usize),
    Send(usize),
    ReadConsistently(usize),
    Answered(usize, usize),
    LandedAnswerLost(usize, usize),
    Dropped(usize, usize),
    SenderStopsWaiting(usize, usize),
    LandsLate(usize),
    Crash(usize),
    Kubelet(usize),
    Fail(usize),
    Edit(usize),
    Blinded(usize),
    Sighted(usize),
}

impl Move {
    /// Whether it is a fault or a user's change, which nobody can count on.
    pub(crate) fn optional(self) -> bool {
        use Move::{Blinded, Crash, Dropped, Edit, Fail, LandedAnswerLost, SenderStopsWaiting};
        matches!(
            self,
            LandedAnswerLost(..)
                | Dropped(..)
                | SenderStopsWaiting(..)
                | Crash(_)
                | Fail(_)
                | Edit(_)
                | Blinded(_)
        )
    }
}

impl Operator {
    /// Rule B, where it is in force.
    fn sees_own_writes(&self) -> bool {
        self.expected.iter().all(|(slot, uid)| {
            let seen = self.pods[*slot];
            seen.uid != *uid || matches!(seen.health, Health::Terminating | Health::Gone)
        })
    }

    fn take_consistent_view(&mut self, pods: &[Pod], targets: &[u8]) {
        (self.pods, self.targets) = (pods.to_vec(), targets.to_vec());
        self.pod_events.clear();
        self.set_events.clear();
        self.expected.clear();
        self.unknown = false;
        self.missed = false;
    }
}

impl State {
    /// A group whose template has just been changed, all of it seen.
    pub(crate) fn initial(model: &Model) -> Self {
        let slots = model.zones * model.pods_per_zone;
        let pods = vec![Pod { uid: 0, version: 0, revision: 0, health: Health::Ready }; slots];
        let targets = vec![1; model.zones];
        let operator = Operator {
            pods: pods.clone(),
            targets: targets.clone(),
            pod_events: Vec::new(),
            set_events: Vec::new(),
            sent: Vec::new(),
            expected: Vec::new(),
            unknown: false,
            blind: false,
            missed: false,
        };
        Self {
            pods,
            targets,
            taken: vec![false; slots],
            landed_late: 0,
            unfounded: false,
            operators: vec![operator; model.operators],
            late: Vec::new(),
            left: model.faults,
        }
    }

    /// Whether every pod is of its target and serves.
    pub(crate) fn at_goal(&self, model: &Model) -> bool {
        let mut pods = self.pods.iter().enumerate();
        pods.all(|(slot, pod)| {
            pod.health == Health::Ready && pod.revision == self.targets[slot / model.pods_per_zone]
        })
    }

    /// All that can happen next, and what comes of it.
    pub(crate) fn moves(&self, model: &Model, planner: &mut Planner) -> Vec<(Move, Self)> {
        let mut next = Vec::new();
        for operator in 0..self.operators.len() {
            self.operator_moves(operator, model, planner, &mut next);
        }
        let room = self.operators.iter().all(|operator| operator.pod_events.len() < model.lag);
        if room {
            self.pod_moves(model, &mut next);
        }
        let room = self.operators.iter().all(|operator| operator.set_events.len() < model.lag);
        if room && self.left.edits > 0 {
            for zone in 0..self.targets.len() {
                let mut state = self.clone();
                state.left.edits -= 1;
                state.targets[zone] ^= 1;
                let target = state.targets[zone];
                state.operators.iter_mut().for_each(|operator| operator.set_events.push((zone, target)));
                next.push((Move::Edit(zone), state));
            }
        }
        for (_, state) in &mut next {
            state.rename();
        }
        next
    }

    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut state = self.clone();
        change(&mut state);
        state
    }

    fn operator_moves(
        &self,
        number: usize,
        model: &Model,
        planner: &mut Planner,
        next: &mut Vec<(Move, Self)>,
    ) {
        let operator = &self.operators[number];
        if !operator.pod_events.is_empty() {
            let seen = self.after(|state| {
                let operator = &mut state.operators[number];
                let (slot, pod) = operator.pod_events.remove(0);
                operator.pods[slot] = pod;
                if operator.sees_own_writes() {
                    operator.expected.clear();
                }
            });
            next.push((Move::SeePod(number), seen));
        }
        if !operator.set_events.is_empty() {
            let seen = self.after(|state| {
                let operator = &mut state.operators[number];
                let (zone, target) = operator.set_events.remove(0);
                operator.targets[zone] = target;
            });
            next.push((Move::SeeSet(number), seen));
        }
        if operator.unknown && model.obeys(Rule::Unknown) {
            let read = self.after(|state| {
                state.operators[number].take_consistent_view(&state.pods, &state.targets);
            });
            next.push((Move::ReadConsistently(number), read));
        } else if operator.sent.is_empty() {
            next.extend(self.send(number, model, planner).map(|sent| (Move::Send(number), sent)));
        }
        if self.left.blindness > 0 && !operator.blind {
            let blinded = self.after(|state| {
                state.left.blindness -= 1;
                let operator = &mut state.operators[number];
                (operator.blind, operator.missed) = (true, !operator.pod_events.is_empty());
                operator.pod_events.clear();
            });
            next.push((Move::Blinded(number), blinded));
        }
        if operator.blind {
            let sighted = self.after(|state| {
                let operator = &mut state.operators[number];
                operator.take_consistent_view(&state.pods, &state.targets);
                operator.blind = false;
            });
            next.push((Move::Sighted(number), sighted));
        }
        for request in 0..operator.sent.len() {
            self.answers(number, request, model, next);
        }
        if self.left.crashes > 0 {
            next.push((Move::Crash(number), self.after(|state| state.crash(number, model))));
        }
    }

    /// An operator plans and sends what it decided; `None` where it may not plan, or has nothing to delete.
    fn send(&self, number: usize, model: &Model, planner: &mut Planner) -> Option<Self> {
        let mut state = self.clone();
        let operator = &mut state.operators[number];
        if operator.blind && model.obeys(Rule::ConfirmedView) {
            operator.take_consistent_view(&self.pods, &self.targets);
        }
        if !operator.sees_own_writes() && model.obeys(Rule::OwnWrites) {
            return None;
        }
        let deletions = planner.deletions(operator);
        if deletions.is_empty() {
            return None;
        }
        if operator.missed {
            let truth = Operator { pods: self.pods.clone(), ..operator.clone() };
            let allowed = planner.deletions(&truth);
            // What is not as it was decided on, its precondition refuses.
            let lands = |request: &&Request| {
                let pod = self.pods[request.slot];
                pod.health == Health::Ready && (pod.uid, pod.version) == (request.uid, request.version)
            };
            state.unfounded |= deletions.iter().filter(lands).any(|request| !allowed.contains(request));
        }
        state.operators[number].sent = deletions;
        Some(state)
    }

    fn crash(&mut self, number: usize, model: &Model) {
        self.left.crashes -= 1;
        let operator = &mut self.operators[number];
        let sent = std::mem::take(&mut operator.sent);
        if model.late {
            self.late.extend(sent);
        }
        operator.expected.clear();
        operator.unknown = false;
        if model.obeys(Rule::ConsistentStart) {
            operator.take_consistent_view(&self.pods, &self.targets);
            operator.blind = false;
        }
    }

    /// What may come of a request that is under way.
    fn answers(&self, number: usize, request: usize, model: &Model, next: &mut Vec<(Move, Self)>) {
        let take = |state: &mut Self| state.operators[number].sent.remove(request);
        let lose = |state: &mut Self| {
            state.left.losses -= 1;
            state.operators[number].unknown = true;
            take(state)
        };
        let may_be_lost = self.left.losses > 0;
        if self.operators.iter().all(|operator| operator.pod_events.len() < model.lag) {
            let answered = self.after(|state| {
                let request = take(state);
                if state.land(request, model) {
                    state.operators[number].expected.push((request.slot, request.uid));
                }
            });
            next.push((Move::Answered(number, request), answered));
            if may_be_lost {
                let unheard = self.after(|state| {
                    let request = lose(state);
                    state.land(request, model);
                });
                next.push((Move::LandedAnswerLost(number, request), unheard));
            }
        }
        if may_be_lost {
            let dropped = self.after(|state| {
                lose(state);
            });
            next.push((Move::Dropped(number, request), dropped));
        }
        if may_be_lost && model.late {
            let delayed = self.after(|state| {
                let request = lose(state);
                state.late.push(request);
            });
            next.push((Move::SenderStopsWaiting(number, request), delayed));
        }
    }

    /// What kubelets, the StatefulSet controller, accidents and late requests do to pods.
    fn pod_moves(&self, model: &Model, next: &mut Vec<(Move, Self)>) {
        for slot in 0..self.pods.len() {
            let mut state = self.clone();
            let mut pod = self.pods[slot];
            pod.version += 1;
            match pod.health {
                Health::Terminating => pod = Pod::GONE,
                Health::Gone => {
                    let target = self.targets[slot / model.pods_per_zone];
                    let uid = state.fresh_uid(slot);
                    pod = Pod { uid, version: 0, revision: target, health: Health::Starting };
                }
                Health::Starting | Health::Broken | Health::Unready => pod.health = Health::Ready,
                Health::Ready if self.left.failures == 0 => continue,
                Health::Ready => {
                    if model.unready {
                        next.push((Move::Fail(slot), self.after(|state| state.fail(slot, Health::Unready))));
                    }
                    next.push((Move::Fail(slot), self.after(|state| state.fail(slot, Health::Broken))));
                    continue;
                }
            }
            state.write(slot, pod);
            next.push((Move::Kubelet(slot), state));
        }
        for request in 0..self.late.len() {
            let mut state = self.clone();
            let late = state.late.remove(request);
            let served = state.taken.clone();
            state.land(late, model);
            state.landed_late += u8::from(state.taken != served);
            next.push((Move::LandsLate(request), state));
        }
    }

    /// A pod that serves stops doing so.
    fn fail(&mut self, slot: usize, health: Health) {
        self.left.failures -= 1;
        let pod = self.pods[slot];
        self.write(slot, Pod { version: pod.version + 1, health, ..pod });
    }

    /// The API server gets a deletion; answers whether it did it.
    fn land(&mut self, request: Request, model: &Model) -> bool {
        let mut pod = self.pods[request.slot];
        let same = pod.health != Health::Gone && pod.uid == request.uid;
        if !same || (model.obeys(Rule::Version) && pod.version != request.version) {
            return false;
        }
        if pod.health != Health::Terminating {
            self.taken[request.slot] |= pod.health == Health::Ready;
            (pod.health, pod.version) = (Health::Terminating, pod.version + 1);
            self.write(request.slot, pod);
        }
        true
    }

    /// A pod changes, and every watch will tell.
    fn write(&mut self, slot: usize, pod: Pod) {
        self.pods[slot] = pod;
        self.taken[slot] &= pod.health != Health::Ready;
        for operator in &mut self.operators {
            if operator.blind {
                operator.missed = true;
            } else {
                operator.pod_events.push((slot, pod));
            }
        }
    }

    /// A UID that nobody remembers.
    fn fresh_uid(&mut self, slot: usize) -> u8 {
        let mut fresh = 0;
        self.each_name(slot, &mut |uid, _| fresh = fresh.max(*uid + 1));
        fresh
    }

    /// Hands out every UID of a slot's pods that anybody remembers, with the version where there is one.
    fn each_name(&mut self, slot: usize, name: &mut dyn FnMut(&mut u8, Option<&mut u8>)) {
        let mut of_pod = |pod: &mut Pod| {
            if pod.health != Health::Gone {
                name(&mut pod.uid, Some(&mut pod.version));
            }
        };
        of_pod(&mut self.pods[slot]);
        for operator in &mut self.operators {
            of_pod(&mut operator.pods[slot]);
            let events = operator.pod_events.iter_mut().filter(|(of, _)| *of == slot);
            events.for_each(|(_, pod)| of_pod(pod));
        }
        let sent = self.operators.iter_mut().flat_map(|operator| &mut operator.sent);
        for request in self.late.iter_mut().chain(sent).filter(|request| request.slot == slot) {
            name(&mut request.uid, Some(&mut request.version));
        }
        let expected = self.operators.iter_mut().flat_map(|operator| &mut operator.expected);
        expected.filter(|(of, _)| *of == slot).for_each(|(_, uid)| name(uid, None));
    }

    /// Renumbers UIDs and versions, of which only equality matters, so that states that differ in nothing
    /// else are one state and there are finitely many.
    fn rename(&mut self) {
        let bit = |number: u8| 1_u32 << number;
        let rank = |used: u32, number: u8| u8::try_from((used & (bit(number) - 1)).count_ones()).unwrap();
        for slot in 0..self.pods.len() {
            let (mut uids, mut versions) = (0, 0);
            self.each_name(slot, &mut |uid, version| {
                uids |= bit(*uid);
                versions |= version.map_or(0, |version| bit(*version));
            });
            self.each_name(slot, &mut |uid, version| {
                *uid = rank(uids, *uid);
                if let Some(version) = version {
                    *version = rank(versions, *version);
                }
            });
        }
    }

    /// The state as bytes, to tell whether it was visited.
    pub(crate) fn key(&self) -> Box<[u8]> {
        let small = |number: usize| u8::try_from(number).unwrap();
        let pod = |pod: &Pod| [pod.uid << 4 | pod.version, pod.revision << 3 | pod.health as u8];
        let request = |request: &Request| [small(request.slot), request.uid << 4 | request.version];
        let mut key = Vec::with_capacity(64);
        key.extend(self.pods.iter().flat_map(pod));
        key.extend(&self.targets);
        key.extend(self.taken.iter().map(|taken| u8::from(*taken)));
        let left = self.left;
        key.extend([left.edits << 4 | left.crashes, left.failures << 4 | left.losses, self.landed_late]);
        key.push(left.blindness << 1 | u8::from(self.unfounded));
        key.push(small(self.late.len()));
        key.extend(self.late.iter().flat_map(request));
        for operator in &self.operators {
            key.extend(operator.pods.iter().flat_map(pod));
            key.extend(&operator.targets);
            let lengths = [operator.pod_events.len(), operator.set_events.len(), operator.sent.len()];
            key.extend(lengths.map(small));
            let flags = [operator.unknown, operator.blind, operator.missed].map(u8::from);
            key.push(small(operator.expected.len()) << 3 | flags[0] << 2 | flags[1] << 1 | flags[2]);
            for (slot, event) in &operator.pod_events {
                key.push(small(*slot));
                key.extend(pod(event));
            }
            key.extend(operator.set_events.iter().flat_map(|(zone, target)| [small(*zone), *target]));
            key.extend(operator.sent.iter().flat_map(request));
            key.extend(operator.expected.iter().flat_map(|(slot, uid)| [small(*slot), *uid]));
        }
        key.into()
    }
}
