//! The operator's part, the applications, and the rest of the cluster. [`Cluster::pass`] is one pass: plan, read, plan again,
//! write with exact preconditions, call; every write and every call is held against what must always be. [`Cluster::quiet`] lets
//! everything happen that can without time passing, [`Cluster::run`] lets time pass as well, as the plans ask for it.

use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Answer, App, Cluster, LOCKED, WEB};
use crate::forecast::kubelet::PodChange;
use crate::forecast::work::{Work, fate_by_name};
use crate::health::Member;
use crate::plan::{Action, Ask, Kind, Object, Verb};
use crate::scaling::hook::{Call, HookOutcome, HookRequest, HookResult};
use crate::scaling::lock::LockRow;
use crate::scaling::{Decision, World, plan};
use crate::set::SetRow;

/// Passes and pieces of work until a cluster of this size must have come to rest.
const STEPS_TO_REST: usize = 2_000;
/// Wake-ups until a scenario must be at rest, or waits for ever.
const WAKES: usize = 150;

/// The operator.
impl Cluster {
    pub(super) fn world(&self, name: &str) -> World {
        let row = self.policies.iter().find(|row| &*row.name == name).expect("a policy").clone();
        let seen = self.pods.iter().filter(|pod| !self.unseen.contains(&*pod.name));
        let pods: Vec<_> = seen.cloned().map(Arc::new).collect();
        let member = |set: &SetRow| Member::new(Arc::new(set.clone()), pods.iter().cloned());
        let target = self.sets.iter().find(|set| row.target() == Some(&*set.name));
        let in_group = |set: &&SetRow| {
            let group = target.and_then(|target| target.group.as_ref());
            group.is_some() && set.group.as_ref() == group && target.is_some_and(|it| it.uid != set.uid)
        };
        let others =
            self.policies.iter().filter(|other| other.name != row.name && other.target() == row.target());
        World {
            target: target.map(member),
            others: others.cloned().map(Arc::new).collect(),
            group_sets: 1 + self.sets.iter().filter(in_group).count(),
            neighbours: self.sets.iter().filter(in_group).map(member).collect(),
            reads: std::collections::BTreeMap::new(),
            unread: std::collections::BTreeSet::new(),
            locks: self.locks.iter().cloned().map(Arc::new).collect(),
            lock_image: self.lock_image.clone(),
            declared: None,
            hooked: self.outcomes.clone(),
            hooking: self.in_flight.iter().map(|(_, request)| request.uid.clone()).collect(),
            polls_at: self.polls_at.clone(),
            unconfirmed: self.unconfirmed.then(|| "pods cannot be listed".into()),
            refused: None,
            row: Arc::new(row),
        }
    }

    fn answer_read(&self, object: &Object) -> Option<Value> {
        match object.kind {
            Kind::Pod => self.live(&object.name),
            Kind::Claim => self.live_claim(&object.name),
            Kind::Revision => self.storage.revision(&object.name),
            Kind::Other(_) => self.storage.class(&object.name),
            Kind::StatefulSet if !self.sets.iter().any(|set| *set.name == *object.name) => None,
            Kind::ConfigMap => {
                let is_foreign = self.foreign_lock.as_deref() == Some(&*object.name);
                is_foreign.then(|| serde_json::json!({ "metadata": { "name": object.name } }))
            }
            _ => Some(self.live_set()),
        }
    }

    /// Plans for a policy. As in the operator, outcomes are handed over once, and the plan is made again after reads.
    pub(super) fn plan(&mut self, name: &str) -> Decision {
        let mut world = self.world(name);
        self.outcomes.clear();
        loop {
            let made = plan(&world, self.now);
            world.hooked.clear();
            let asked = made.plan.asks.iter().filter_map(|ask| match ask {
                Ask::Read(object) if !world.reads.contains_key(object) => Some(object.clone()),
                _ => None,
            });
            let asked: Vec<_> = asked.collect();
            if world.declared.is_none()
                && made.plan.asks.contains(&Ask::Declared(keys::RESTARTS_ALL_CONTAINERS))
            {
                world.declared = Some(self.declared);
                continue;
            }
            if asked.is_empty() || self.unreadable {
                return made;
            }
            for object in asked {
                let answer = self.answer_read(&object);
                world.reads.insert(object, answer);
            }
        }
    }

    pub(super) fn pass(&mut self) -> Decision {
        self.pass_for(WEB)
    }

    /// One pass.
    #[track_caller]
    pub(super) fn pass_for(&mut self, name: &str) -> Decision {
        self.now += jiff::SignedDuration::from_millis(1);
        let made = self.plan(name);
        let writes: Vec<_> = made.plan.writes().cloned().collect();
        for (number, write) in writes.iter().enumerate() {
            if self.dies_after == Some(number) {
                self.die();
                return made;
            }
            self.apply(write);
            if self.dies_after.is_some_and(|after| after == number + 1 && after == writes.len()) {
                self.die();
                return made;
            }
        }
        self.dies_after = self.dies_after.map(|after| after - writes.len());
        self.writes_made += writes.len();
        self.announced.extend(made.plan.notes.iter().cloned());
        self.polls_at.clone_from(&made.polls_at);
        self.removed += made.removed;
        self.wake_at = made.plan.wake_at;
        for ask in &made.plan.asks {
            if let Ask::Hook(request) = ask {
                self.call(request);
            }
        }
        made
    }

    /// All that the operator had in memory is gone.
    pub(super) fn die(&mut self) {
        self.dies_after = None;
        self.in_flight.clear();
        self.outcomes.clear();
        self.polls_at.clear();
    }

    #[track_caller]
    fn apply(&mut self, action: &Action) {
        let creates = matches!(action.verb(), Verb::Create { .. });
        assert!(creates || action.precondition().resource_version.is_some(), "I5: {action:?}");
        match action.object().kind {
            Kind::ConfigMap => return self.write_lock(action),
            Kind::Claim if !action.is_deletion() => return self.grow(action),
            Kind::Revision => return self.write_revision(action),
            Kind::StatefulSet if matches!(action.verb(), Verb::Create { .. } | Verb::Orphan) => {
                return self.replace_set(action);
            }
            Kind::Claim => return self.delete_claim(action),
            Kind::Pod => self.before_pod(action),
            _ => {}
        }
        if action.object().kind == Kind::StatefulSet {
            self.before_set(action);
        }
        if let Verb::Merge { body, .. } = action.verb() {
            if body.pointer("/spec/template").is_some() {
                let revision = self.templated(body);
                self.trace.push(format!("template {revision}"));
                self.edit(&revision);
                return;
            }
            if let Some(when) = body.pointer("/spec/persistentVolumeClaimRetentionPolicy/whenScaled") {
                self.when_scaled = when.as_str().map(str::to_owned);
                self.trace.push(format!("whenScaled {when}"));
                self.change_set(WEB, |set| set.generation += 1);
                return;
            }
        }
        let applied = self.objects.apply(action);
        assert_eq!(applied, Ok(()), "the plan was made for this very state: {action:?}\n{self}");
    }

    #[track_caller]
    fn before_set(&mut self, action: &Action) {
        let Verb::Merge { body, manager, disrupts } = action.verb() else { panic!("{action:?}") };
        assert_eq!(*manager, keys::MANAGER_SCALING);
        if let Some(replicas) = body.pointer("/spec/replicas").and_then(Value::as_u64) {
            let (replicas, now) = (u32::try_from(replicas).unwrap(), self.set().replicas);
            assert_eq!(*disrupts, replicas < now, "{action:?}");
            self.trace.push(format!("replicas {replicas}"));
            let first = self.set().first_ordinal;
            for ordinal in first + replicas..first + now {
                self.may_remove(ordinal);
            }
        } else if body.pointer("/metadata/annotations").is_some() {
            let value = &body["metadata"]["annotations"][keys::LEAVING];
            self.trace.push(format!("leaving {}", value.as_str().unwrap_or_default()));
        }
    }

    /// The ConfigMap of the lock.
    #[track_caller]
    fn write_lock(&mut self, action: &Action) {
        let (name, version) = (action.object().name.clone(), self.objects.next_version());
        let known = self.locks.iter().position(|lock| *lock.name == *name);
        let keys =
            |body: &Value| body["data"].as_object().unwrap().keys().map(|key| (**key).into()).collect();
        match (action.verb(), known) {
            (Verb::Create { body, .. }, None) => {
                assert_eq!(self.foreign_lock, None);
                self.trace.push(format!("create {name}"));
                self.locks.push(LockRow {
                    namespace: Arc::clone(&action.object().namespace),
                    name: (*name).into(),
                    uid: "uid-lock".into(),
                    resource_version: version,
                    terminating: false,
                    owner: body
                        .pointer("/metadata/ownerReferences/0/uid")
                        .and_then(Value::as_str)
                        .map(Into::into),
                    keys: keys(body),
                });
            }
            (Verb::Replace { body, .. }, Some(at)) => {
                let lock = &mut self.locks[at];
                (lock.keys, lock.resource_version) = (keys(body), version);
                let keys: Vec<_> = lock.keys.iter().map(|key| &**key).collect();
                self.trace.push(format!("lock {}", keys.join(",")));
            }
            (Verb::Delete, Some(at)) => {
                self.locks.remove(at);
                self.trace.push(format!("delete {name}"));
                let mounts =
                    |pod: &&crate::pod::PodRow| pod.revision.as_deref().is_some_and(|it| it.contains(LOCKED));
                assert_eq!(self.pods.iter().find(mounts), None, "no pod mounts it:\n{self}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// I4: only claims of a pod that was drained, and is gone.
    #[track_caller]
    fn delete_claim(&mut self, action: &Action) {
        assert_eq!(*action.verb(), Verb::Delete);
        let name = &action.object().name;
        let uid = self.claims.remove(&**name).unwrap();
        assert_eq!(*action.precondition().uid, *uid);
        let pod = name.strip_prefix("data-").unwrap();
        assert!(self.drained.contains(pod), "{pod} is not drained:\n{self}");
        assert!(self.pods.iter().all(|row| *row.name != *pod), "{pod} is gone first:\n{self}");
        self.trace.push(format!("delete {name}"));
    }

    /// Only a drained pod is deleted, and its lock has no key.
    #[track_caller]
    fn before_pod(&mut self, action: &Action) {
        assert_eq!(*action.verb(), Verb::Delete);
        let name = action.object().name.clone();
        assert!(self.drained.contains(&*name), "{name} is not drained:\n{self}");
        assert!(!self.may_run(&name), "{name} has no key:\n{self}");
        self.trace.push(format!("remove {name}"));
    }

    /// Whether the lock has a key for a pod.
    pub(super) fn may_run(&self, pod: &str) -> bool {
        let ordinal = self.ordinal(pod).unwrap();
        self.locks.iter().any(|lock| lock.allows(ordinal))
    }

    /// I4, I8: no pod is removed that is not drained, as it is now.
    #[track_caller]
    fn may_remove(&self, ordinal: u32) {
        let name = format!("{WEB}-{ordinal}");
        let policy = self.row().spec.policy.as_ref().unwrap();
        let pod = self.pods.iter().find(|pod| *pod.name == *name);
        let is_held = |pod: &crate::pod::PodRow| {
            self.is_locked(&name) && (!pod.running || pod.terminating) && self.drained.contains(&name)
        };
        let is_done =
            pod.is_none_or(|pod| is_held(pod) || self.apps.get(&pod.uid).is_some_and(|app| app.done));
        assert!(is_done || self.forced || policy.down.is_none(), "{name} is not drained:\n{self}");
        let record = self.record(ordinal);
        assert_eq!(record.phase, RecordPhase::Drained, "remembered first:\n{self}");
    }

    #[track_caller]
    fn call(&mut self, request: &HookRequest) {
        let name = format!("{WEB}-{}", request.ordinal);
        assert_eq!(*request.pod.name, *name);
        assert_eq!((request.ip.as_deref(), &request.port), (Some("10.0.0.7"), &Ok(8080)));
        let is_under_way = self.in_flight.iter().any(|(_, other)| other.uid == request.uid);
        assert!(!is_under_way, "one call at a time:\n{self}");
        let status = self.status();
        let records = if request.call == Call::Join { &status.joining } else { &status.leaving };
        let records = records.iter().chain(&status.joining);
        assert!(
            records.into_iter().any(|record| *record.pod_uid == *request.uid),
            "remembered first:\n{self}"
        );
        if request.call == Call::Prepare {
            assert!(self.set().leaving().contains(&request.ordinal), "said first:\n{self}");
            assert!(!self.is_locked(&name) || !self.may_run(&name), "its key is removed first:\n{self}");
            let most = self.row().spec.policy.as_ref().unwrap().max_concurrent as usize;
            assert!(self.leaving() <= most, "never more than {most} leave:\n{self}");
        }
        self.trace.push(format!("call {name} {}", request.call.word()));
        *self.calls.entry(request.call).or_default() += 1;
        self.in_flight.push((self.now, request.clone()));
    }

    /// How many pods of the set are being prepared or removed.
    pub(super) fn leaving(&self) -> usize {
        let set = self.set();
        let announced = set.leaving();
        let is_leaving = |pod: &&crate::pod::PodRow| {
            let Some(ordinal) = self.ordinal(&pod.name) else { return false };
            let called = self.apps.get(&pod.uid).is_some_and(|app| app.called);
            let is_removed = pod.terminating && ordinal >= set.first_ordinal + set.replicas;
            is_removed
                || announced.contains(&ordinal)
                || (called && self.status().leaving.iter().any(|it| it.ordinal == ordinal))
        };
        self.pods.iter().filter(is_leaving).count()
    }
}

/// The applications.
impl Cluster {
    /// Lets every call be answered that is.
    pub(super) fn answer(&mut self) -> bool {
        let calls = std::mem::take(&mut self.in_flight);
        let mut has_answered = false;
        for (at, request) in calls {
            match self.result(&request) {
                None => self.in_flight.push((at, request)),
                Some(result) => {
                    has_answered = true;
                    let (uid, call, hash) =
                        (request.uid.clone(), request.call, Arc::clone(&request.hook.hash));
                    self.outcomes.push(HookOutcome { uid, call, hash, at, ended: self.now, result });
                }
            }
        }
        has_answered
    }

    /// What an application answers; nothing while it does not.
    fn result(&mut self, request: &HookRequest) -> Option<HookResult> {
        let answer = self.answers.get(&request.call).cloned().unwrap_or(Answer::Done);
        if !self.pods.iter().any(|pod| pod.uid == request.uid) {
            return Some(HookResult::Failed("connection refused".into()));
        }
        let name = request.pod.name.to_string();
        if answer == Answer::Exit {
            self.drained.insert(name.clone());
            self.exit(&name);
            return Some(HookResult::Broken("the connection broke".into()));
        }
        let app = self.apps.entry(request.uid.clone()).or_default();
        let pending =
            |left: u32| HookResult::Pending { message: format!("{left} to go").into(), retry_after: None };
        Some(match (answer, request.call) {
            (Answer::Hang, _) => return None,
            (Answer::Fail(error), _) => HookResult::Failed(error.into()),
            (_, Call::Cancel) => {
                *app = App { restarts: app.restarts, exited: app.exited, ..App::default() };
                self.drained.remove(&name);
                HookResult::Done
            }
            (Answer::Exit, _) => unreachable!("answered above"),
            (Answer::Done, call) => {
                if call != Call::Join {
                    self.drained.insert(name);
                }
                (app.called, app.done) = (true, true);
                HookResult::Done
            }
            (Answer::After(polls), Call::Prepare | Call::Join) => {
                (app.called, app.polls) = (true, 0);
                pending(polls)
            }
            (Answer::After(polls), Call::Poll) => {
                app.polls += 1;
                app.done = app.called && app.polls >= polls;
                if app.done {
                    self.drained.insert(name);
                }
                if app.done { HookResult::Done } else { pending(polls.saturating_sub(app.polls)) }
            }
        })
    }
}

/// Everything together.
impl Cluster {
    /// Whether a pod has the lock.
    pub(super) fn is_locked(&self, pod: &str) -> bool {
        let pod = self.pods.iter().find(|row| *row.name == *pod);
        pod.is_some_and(|pod| pod.revision.as_deref().is_some_and(|revision| revision.contains(LOCKED)))
    }

    pub(super) fn work(&self) -> Vec<Work> {
        let mut work = self.pod_work(fate_by_name);
        let is_stuck = |work: &Work| matches!(work, Work::Change(pod, PodChange::Finish, _) if self.stuck.contains(&*pod.name));
        work.retain(|work| !is_stuck(work));
        let is_held = |work: &Work| {
            let Work::Change(pod, PodChange::Start, _) = work else { return false };
            self.is_locked(&pod.name) && !self.may_run(&pod.name) && !self.unruly.contains(&*pod.name)
        };
        work.retain(|work| !is_held(work));
        work.extend(self.sets.iter().flat_map(|set| self.control_work(set, self.now)));
        work
    }

    pub(super) fn perform(&mut self, work: &Work) {
        let now = self.now;
        if let Work::Change(pod, PodChange::Finish, _) = work {
            // It serves again.
            let served = self.drained.remove(&*pod.name);
            let is_unruly = self.unruly.contains(&*pod.name);
            let is_removed = |record: &sts_plus_api::scaling_policy::PodRecord| {
                record.phase == RecordPhase::Drained && *record.pod_name == *pod.name
            };
            assert!(
                !served
                    || is_unruly
                    || !self.is_locked(&pod.name)
                    || !self.status().leaving.iter().any(is_removed),
                "a drained pod is never Ready again:\n{self}"
            );
        }
        self.objects.perform(work, now);
        if let Work::Write(action) = work
            && work.writes_pod()
        {
            let name = &action.object().name;
            let what = if action.is_deletion() { "delete" } else { "create" };
            self.created += usize::from(what == "create");
            self.trace.push(format!("{what} {name}"));
        }
    }

    /// Lets everything happen that can without time passing.
    #[track_caller]
    pub(super) fn quiet(&mut self) {
        for _ in 0..STEPS_TO_REST {
            let mut moved = false;
            if self.policies.iter().any(|row| &*row.name == WEB) {
                let before = self.in_flight.len();
                let made = self.pass();
                moved |= made.plan.writes().next().is_some() || self.in_flight.len() > before;
                moved |= self.wake_at.is_some_and(|at| at <= self.now);
            }
            moved |= self.answer();
            moved |= self.release() || self.resize();
            if let Some(work) = self.work().first().cloned() {
                self.perform(&work);
                moved = true;
            }
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest:\n{self}");
    }

    /// Lets time pass until the plan wants to look again; whether it does.
    #[track_caller]
    pub(super) fn wake(&mut self) -> bool {
        let is_there = self.policies.iter().any(|row| &*row.name == WEB);
        let Some(at) = self.wake_at.filter(|_| is_there) else { return false };
        self.now = self.now.max(at);
        self.quiet();
        true
    }

    /// Lets everything happen, and time pass, until nothing does any more, or it waits for ever.
    #[track_caller]
    pub(super) fn run(&mut self) {
        self.quiet();
        for _ in 0..WAKES {
            if !self.wake() {
                return;
            }
        }
    }
}
