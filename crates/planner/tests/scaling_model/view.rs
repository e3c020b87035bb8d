//! What the real planner makes of what an operator sees.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::Target;
use sts_plus_api::scaling_policy::{
    ClaimName, LockStatus, PodRecord, RecordPhase, ScalingPolicySpec, ScalingPolicyStatus,
};
use sts_plus_planner::health::Member;
use sts_plus_planner::plan::{Action, Ask, Kind, Object, Verb};
use sts_plus_planner::pod::{Phase, PodRow};
use sts_plus_planner::scaling::hook::{Call, HookOutcome, HookRequest, HookResult};
use sts_plus_planner::scaling::lock::LockRow;
use sts_plus_planner::scaling::row::{ParsedSpec, ScalingRow};
use sts_plus_planner::scaling::{Decision, World, plan};
use sts_plus_planner::selector::{Labels, Selector};
use sts_plus_planner::set::{SetRow, Steering, Strategy};

use crate::explore::fingerprint;
use crate::planted::Planted;
use crate::state::{
    Answer, Calling, Fence, Life, Model, ORDINALS, Outcome, Record, Rows, Seen, Status, To, Write,
};

/// Of each object but pods, for whoever reads it and for whoever writes it.
const VERSION: &str = "1";
const WEB: &str = "web";
const NAMESPACE: &str = "prod";
const REVISION: &str = "web-1";
const DEADLINE_SECONDS: i64 = 600;
/// The ConfigMap of the lock.
const LOCK: &str = "web-lock";

/// What stands for the present generation of the set, in a status that is decided on, and for one before.
pub(crate) const IN_PLACE: u8 = 1;
pub(crate) const BEFORE: u8 = 0;
/// The present generation.
const GENERATION: i64 = 2;

/// All that a pass looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact, independent of the others")]
pub(crate) struct Look {
    pub(crate) wanted: u8,
    pub(crate) deleting: bool,
    pub(crate) status: Status,
    pub(crate) replicas: u8,
    pub(crate) leaving: u8,
    pub(crate) deletes: bool,
    /// Whether the template was found to have the lock at the present generation.
    pub(crate) is_in_place: bool,
    /// Whether a read finds the set as it is cached.
    pub(crate) is_set_current: bool,
    pub(crate) keys: u8,
    pub(crate) claims: [Option<u8>; ORDINALS],
    /// The pods as they are cached.
    pub(crate) cached: Rows,
    /// The pods as a read finds them.
    pub(crate) live: Rows,
    pub(crate) outcomes: Vec<Outcome>,
    /// The pods with a call under way.
    pub(crate) calling: Vec<(usize, u8)>,
}

/// What comes of it.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// In order.
    pub(crate) writes: Vec<Write>,
    /// The status as it shall be.
    pub(crate) status: Status,
    pub(crate) calls: Vec<Calling>,
    /// The calls whose outcome counts.
    pub(crate) keep: Vec<(usize, u8, Call)>,
}

/// The real planner, with its answers remembered: what is looked at repeats far more often than states.
pub(crate) struct Planner {
    model: Model,
    planted: Option<Planted>,
    /// By the number of replicas that it asks for.
    specs: Vec<(ParsedSpec, Arc<str>)>,
    names: Arc<Names>,
    answers: BTreeMap<u128, Rc<Decided>>,
}

/// What all rows have in common.
struct Names {
    namespace: Arc<str>,
    web: Arc<str>,
    labels: Arc<Labels>,
    selector: Selector,
}

/// When everything takes place.
fn now() -> Timestamp {
    Timestamp::from_second(1_750_000_000).unwrap()
}

/// What stands for the number of a time: all are before now, and a second apart.
fn time(number: u8) -> Timestamp {
    ago(300) + SignedDuration::from_secs(number.into())
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

impl Planner {
    pub(crate) fn new(model: &Model) -> Self {
        let specs = (0..=ORDINALS).map(|replicas| spec(model, replicas)).collect();
        let names = Names {
            namespace: NAMESPACE.into(),
            web: WEB.into(),
            labels: Arc::new([("app".into(), WEB.into())].into()),
            selector: Selector::labels([("app", WEB)]),
        };
        Self {
            model: *model,
            planted: model.planted,
            specs,
            names: Arc::new(names),
            answers: BTreeMap::new(),
        }
    }

    pub(crate) fn asked(&self) -> usize {
        self.answers.len()
    }

    /// What is done, in what order.
    pub(crate) fn decide(&mut self, look: &Look) -> Rc<Decided> {
        let key = fingerprint(look);
        if let Some(known) = self.answers.get(&key) {
            return Rc::clone(known);
        }
        let decided = Rc::new(self.ask(look));
        self.answers.insert(key, Rc::clone(&decided));
        decided
    }

    fn ask(&self, look: &Look) -> Decided {
        let mut world = self.world(look);
        let decision = self.plan(&mut world, look);
        let mut decided = decided(look, &decision);
        let is_set = |write: &Write| write.to() == To::Set;
        match self.planted {
            Some(Planted::NotAnnounced) => {
                decided.writes.retain(|write| !matches!(write, Write::Announce(_)));
            }
            Some(Planted::CancelForgotten) => {
                for (record, seen) in decided.status.leaving.iter_mut().zip(&look.status.leaving) {
                    let is_cancelling = |record: &Option<Record>| {
                        record.is_some_and(|record| record.phase == RecordPhase::Cancelling)
                    };
                    if is_cancelling(record) && !is_cancelling(seen) {
                        *record = None;
                    }
                }
                decided.set_status(look);
            }
            Some(Planted::CalledFirst) if !decided.writes.is_empty() && look.outcomes.is_empty() => {
                let second =
                    Look { status: decided.status, leaving: recorded(&decided.status), ..look.clone() };
                let mut world = self.world(&second);
                decided.calls = self::decided(&second, &self.plan(&mut world, &second)).calls;
            }
            Some(Planted::LoweredUnremembered) if !decided.writes.iter().any(is_set) => {
                world.hooked.clear();
                world.row = Arc::new(ScalingRow { status: decision.status, ..(*world.row).clone() });
                let second = self::decided(look, &self.plan(&mut world, look));
                let lowers = |write: &&Write| matches!(write, Write::Scale(_));
                let lowering = second.writes.iter().find(lowers).copied();
                decided.writes.splice(0..0, lowering);
            }
            _ => {}
        }
        decided
    }

    /// Plans; and again, with what is asked for, once it was read.
    fn plan(&self, world: &mut World, look: &Look) -> Decision {
        loop {
            let decision = plan(world, now());
            let asked = decision.plan.asks.iter().filter_map(|ask| match ask {
                Ask::Read(object) if !world.reads.contains_key(object) => Some(object.clone()),
                _ => None,
            });
            let asked: Vec<_> = asked.collect();
            if asked.is_empty() {
                return decision;
            }
            for object in asked {
                let found = self.read(&object, look);
                world.reads.insert(object, found);
            }
        }
    }

    fn read(&self, object: &Object, look: &Look) -> Option<Value> {
        match object.kind {
            Kind::StatefulSet => return Some(self.live_set(look)),
            Kind::Claim => {
                let ordinal = ordinal_of(&object.name);
                let uid = look.claims[ordinal]?.to_string();
                let labels = json!({ "app": WEB });
                return Some(
                    json!({ "metadata": { "uid": uid, "resourceVersion": VERSION, "labels": labels } }),
                );
            }
            _ => {}
        }
        let ordinal = ordinal_of(&object.name);
        let source = if self.planted == Some(Planted::LookedAtCache) { &look.cached } else { &look.live };
        let mut seen = source[ordinal]?;
        let record = look.status.leaving[ordinal].filter(|record| record.uid.is_some());
        match (self.planted, record) {
            (Some(Planted::UidNotCompared), Some(record)) => seen.uid = record.uid.unwrap_or(seen.uid),
            (Some(Planted::RestartsNotCompared), Some(record)) => seen.restarts = record.restarts,
            _ => {}
        }
        let times = match self.planted {
            Some(Planted::ExitTimesNotCompared) => (now(), now()),
            _ => (time(seen.started), time(seen.ended)),
        };
        Some(live(ordinal, seen, times, self.model.fence))
    }

    /// The set as the API server has it.
    fn live_set(&self, look: &Look) -> Value {
        let init = json!({
            "name": keys::LOCK,
            "args": ["lock-check"],
            "env": [{ "name": keys::LOCK_POD_ENV, "valueFrom": {} }],
            "volumeMounts": [{ "name": keys::LOCK, "mountPath": keys::LOCK_PATH }],
        });
        let is_told = look.deletes && self.planted != Some(Planted::ClaimsNotRetained);
        json!({
            "metadata": { "resourceVersion": if look.is_set_current { VERSION } else { "2" } },
            "spec": {
                "selector": { "matchLabels": { "app": WEB } },
                "persistentVolumeClaimRetentionPolicy": { "whenScaled": if is_told { "Delete" } else { "Retain" } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
                "template": { "spec": {
                    "initContainers": [init],
                    "volumes": [{ "name": keys::LOCK, "configMap": { "name": LOCK } }],
                    "containers": [],
                } },
            },
        })
    }

    /// The ConfigMap as it is cached.
    fn lock(&self, look: &Look) -> LockRow {
        let keys = match self.planted {
            // As it shall be, so that nothing is done about it.
            Some(Planted::KeyNotRemoved) => {
                let is_out = |(_, record): &(usize, &Option<Record>)| {
                    record.is_some_and(|record| {
                        record.uid.is_some()
                            && matches!(
                                record.phase,
                                RecordPhase::Requested | RecordPhase::Draining | RecordPhase::Drained
                            )
                    })
                };
                let out = look.status.leaving.iter().enumerate().filter(is_out);
                let announced = out.filter(|(ordinal, _)| look.leaving & 1 << ordinal != 0);
                announced.fold(look.keys, |keys, (ordinal, _)| keys & !(1 << ordinal))
            }
            Some(Planted::KeyNotRestored) if recorded(&look.status) == 0 => {
                look.keys | ((1 << look.wanted.max(look.replicas)) - 1)
            }
            _ => look.keys,
        };
        let keys = bits(keys).map(|ordinal| ordinal.to_string().into());
        LockRow {
            namespace: Arc::clone(&self.names.namespace),
            name: LOCK.into(),
            uid: "lock".into(),
            resource_version: VERSION.into(),
            terminating: false,
            owner: Some("policy".into()),
            keys: keys.collect(),
        }
    }

    fn world(&self, look: &Look) -> World {
        let names = &self.names;
        let (parsed, hash) = &self.specs[usize::from(look.wanted)];
        let rows = look.cached.iter().enumerate();
        let pods = rows.filter_map(|(ordinal, row)| Some(Arc::new(self.pod(ordinal, (*row)?))));
        let status = status(look, hash, &self.model);
        let outcome = |outcome: &Outcome| outcome_of(outcome, hash);
        World {
            row: Arc::new(ScalingRow {
                namespace: Arc::clone(&names.namespace),
                name: Arc::clone(&names.web),
                uid: "policy".into(),
                resource_version: VERSION.into(),
                generation: 1,
                created: ago(3600),
                deleting: look.deleting,
                finalizers: vec![keys::FINALIZER.to_owned()],
                controller: "".into(),
                created_for: None,
                spec: parsed.clone(),
                status,
            }),
            target: Some(Member::new(Arc::new(self.set(look)), pods)),
            others: Vec::new(),
            group_sets: 1,
            neighbours: Vec::new(),
            reads: BTreeMap::new(),
            unread: BTreeSet::new(),
            locks: self.model.is_locked().then(|| Arc::new(self.lock(look))).into_iter().collect(),
            lock_image: Some("sts-plus".into()),
            declared: None,
            hooked: look.outcomes.iter().map(outcome).collect(),
            hooking: look.calling.iter().map(|(ordinal, uid)| uid_of(*ordinal, *uid).into()).collect(),
            polls_at: BTreeMap::new(),
            unconfirmed: None,
            refused: None,
        }
    }

    fn set(&self, look: &Look) -> SetRow {
        let names = &self.names;
        let is_told = self.planted == Some(Planted::NotAnnounced);
        let leaving = if is_told { recorded(&look.status) } else { look.leaving };
        let leaving: Vec<_> = bits(leaving).map(|ordinal| ordinal.to_string()).collect();
        let leaving = (!leaving.is_empty()).then(|| leaving.join(",").into());
        SetRow {
            namespace: Arc::clone(&names.namespace),
            name: Arc::clone(&names.web),
            uid: Arc::clone(&names.web),
            resource_version: VERSION.into(),
            generation: GENERATION,
            observed_generation: GENERATION,
            deleting: false,
            group: None,
            steering: Steering { leaving, ..Steering::default() },
            replicas: look.replicas.into(),
            first_ordinal: 0,
            is_ordered: true,
            min_ready: SignedDuration::ZERO,
            strategy: Strategy::RollingUpdate { partition: 0 },
            selector: names.selector.clone(),
            template_labels: (*names.labels).clone(),
            current_revision: Some(REVISION.into()),
            update_revision: Some(REVISION.into()),
            counted: true,
            child: None,
            controller: None,
        }
    }

    fn pod(&self, ordinal: usize, seen: Seen) -> PodRow {
        let names = &self.names;
        let is_started = !matches!(seen.life, Life::Pending | Life::Again);
        let is_ready = matches!(seen.life, Life::Ready | Life::Terminating);
        PodRow {
            namespace: Arc::clone(&names.namespace),
            name: format!("{WEB}-{ordinal}").into(),
            uid: uid_of(ordinal, seen.uid).into(),
            resource_version: version_of(seen).into(),
            owner: Arc::clone(&names.web),
            revision: Some(REVISION.into()),
            labels: Arc::clone(&names.labels),
            phase: if is_started { Phase::Running } else { Phase::Pending },
            ready_since: is_ready.then(|| ago(3600)),
            terminating: seen.life == Life::Terminating,
            waiting: None,
            terminated_restarts: None,
            running: is_ready || seen.life == Life::Unready,
            named: true,
            numbered: false,
            ip: None,
            zones: None,
            volumes: Arc::default(),
        }
    }
}

impl Decided {
    /// The status is written where it differs from the one that is seen.
    fn set_status(&mut self, look: &Look) {
        self.writes.retain(|write| !matches!(write, Write::Status(_)));
        let is_departing = self.writes.contains(&Write::Depart);
        if self.status != look.status && !is_departing {
            self.writes.insert(0, Write::Status(self.status));
        }
        self.keep = self.status.leaving.iter().enumerate().filter_map(kept).collect();
    }
}

/// The call of a record.
fn kept((ordinal, record): (usize, &Option<Record>)) -> Option<(usize, u8, Call)> {
    let record = (*record)?;
    let call = match record.phase {
        RecordPhase::Requested => Call::Prepare,
        RecordPhase::Draining => Call::Poll,
        RecordPhase::Cancelling => Call::Cancel,
        RecordPhase::Drained | RecordPhase::Failed => return None,
    };
    Some((ordinal, record.uid?, call))
}

fn outcome_of(outcome: &Outcome, hash: &Arc<str>) -> HookOutcome {
    let Outcome { calling, answer, at } = outcome;
    HookOutcome {
        uid: uid_of(calling.ordinal, calling.uid).into(),
        call: calling.call,
        hash: Arc::clone(hash),
        at: if calling.overdue { ago(DEADLINE_SECONDS + 90) } else { ago(5) },
        ended: time(*at),
        result: match answer {
            Answer::Done => HookResult::Done,
            Answer::Pending => HookResult::Pending { message: "".into(), retry_after: None },
            Answer::Broken => HookResult::Broken("connection closed".into()),
            Answer::Failed => HookResult::Failed("answered 500".into()),
        },
    }
}

/// The ordinals of the pods that leave.
fn recorded(status: &Status) -> u8 {
    let leaves = |record: &Record| record.phase != RecordPhase::Failed;
    let records =
        status.leaving.iter().enumerate().filter_map(|(ordinal, record)| Some((ordinal, (*record)?)));
    records.filter(|(_, record)| leaves(record)).fold(0, |mask, (ordinal, _)| mask | 1 << ordinal)
}

fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..ORDINALS).filter(move |ordinal| mask & 1 << ordinal != 0)
}

fn uid_of(ordinal: usize, uid: u8) -> String {
    format!("{ordinal}:{uid}")
}

fn ordinal_of(pod: &str) -> usize {
    pod.rsplit('-').next().unwrap().parse().unwrap()
}

/// The version of a pod: each change of it is another one.
fn version_of(seen: Seen) -> String {
    format!("{}.{}.{}", seen.uid, seen.restarts, seen.life as u8)
}

fn number_of(uid: &str) -> u8 {
    uid.rsplit(':').next().unwrap().parse().unwrap()
}

fn spec(model: &Model, replicas: usize) -> (ParsedSpec, Arc<str>) {
    let mut http = json!({ "path": "/shutdown", "port": 8080 });
    if model.cancel {
        http["cancel"] = json!({ "path": "/shutdown" });
    }
    if model.polled {
        http["status"] = json!({ "path": "/state" });
    }
    let hook = json!({ "http": http, "deadlineSeconds": DEADLINE_SECONDS, "onFailure": model.on_failure, "expectExit": model.exits });
    let fence = if model.fence == Fence::None { "None" } else { "Lock" };
    let claims = if model.deletes_claims { "DeleteAfterDrain" } else { "Retain" };
    let spec = json!({
        "targetRef": { "name": WEB },
        "replicas": replicas,
        "scaleDown": { "hook": hook, "maxConcurrent": model.concurrent, "fence": fence, "claims": claims },
        "deletionPolicy": if model.drains { "Drain" } else { "Release" },
    });
    let parsed = ParsedSpec::of(&serde_json::from_value::<ScalingPolicySpec>(spec).unwrap());
    let hash = Arc::clone(&parsed.policy.as_ref().unwrap().down.as_ref().unwrap().hash);
    (parsed, hash)
}

fn status(look: &Look, hash: &Arc<str>, model: &Model) -> ScalingPolicyStatus {
    let status = &look.status;
    let counts_forced = model.has(Planted::ForcedAsDrained);
    let has_drained = |record: &Record| {
        record.drained || counts_forced && record.exceeded && record.phase == RecordPhase::Drained
    };
    let kept = model.is_locked().then(|| LockStatus {
        config_map: LOCK.to_owned(),
        template_generation: Some(if look.is_in_place { GENERATION } else { GENERATION - 1 }),
        ..LockStatus::default()
    });
    let record = |(ordinal, record): (usize, &Option<Record>)| {
        let record = (*record)?;
        let restarts = record.uid.map(|_| ("app".to_owned(), i32::from(record.restarts)));
        Some(PodRecord {
            ordinal: u32::try_from(ordinal).unwrap(),
            pod_name: format!("{WEB}-{ordinal}"),
            pod_uid: record.uid.map(|uid| uid_of(ordinal, uid)).unwrap_or_default(),
            container_restarts: restarts.into_iter().collect(),
            hook_hash: hash.to_string(),
            phase: record.phase,
            attempts: 0,
            message: String::new(),
            last_error: String::new(),
            start_time: if record.overdue { ago(DEADLINE_SECONDS + 100) } else { ago(20) },
            deadline_exceeded: record.exceeded,
            accepted_time: record.accepted.map(time),
            drained_time: has_drained(&record).then(|| ago(3)),
            claims: record.claim.map(|claim| {
                let named =
                    |uid: u8| ClaimName { name: format!("data-{WEB}-{ordinal}"), uid: uid.to_string() };
                claim.map(named).into_iter().collect()
            }),
            last_attempt_time: None,
        })
    };
    ScalingPolicyStatus {
        observed_generation: Some(i64::from(status.observed)),
        desired_replicas: Some(status.desired.into()),
        held_replicas: Some(status.held.into()),
        lock: kept,
        claim_retention: status.retention.then(|| "Delete".to_owned()),
        target: Some(Target { name: WEB.to_owned(), uid: WEB.to_owned() }),
        leaving: status.leaving.iter().enumerate().filter_map(record).collect(),
        ..ScalingPolicyStatus::default()
    }
}

/// A status as far as decisions depend on it.
fn reduced(status: &ScalingPolicyStatus) -> Status {
    let small = |number: Option<u32>| u8::try_from(number.unwrap()).unwrap();
    let mut leaving = [None; ORDINALS];
    for record in &status.leaving {
        let restarts = record.container_restarts.get("app").copied().unwrap_or_default();
        leaving[record.ordinal as usize] = Some(Record {
            uid: (!record.pod_uid.is_empty()).then(|| number_of(&record.pod_uid)),
            restarts: u8::try_from(restarts).unwrap(),
            phase: record.phase,
            exceeded: record.deadline_exceeded,
            accepted: record
                .accepted_time
                .map(|at| u8::try_from(at.as_second() - time(0).as_second()).unwrap()),
            drained: record.drained_time.is_some(),
            claim: record
                .claims
                .as_ref()
                .map(|claims| claims.first().map(|claim| claim.uid.parse().unwrap())),
            overdue: record.start_time < ago(DEADLINE_SECONDS),
        });
    }
    Status {
        observed: status.observed_generation == Some(1),
        desired: small(status.desired_replicas),
        held: small(status.held_replicas),
        template: match status.lock.as_ref().and_then(|lock| lock.template_generation) {
            Some(GENERATION) => IN_PLACE,
            _ => BEFORE,
        },
        retention: status.claim_retention.is_some(),
        leaving,
    }
}

/// A pod as the API server has it.
fn live(ordinal: usize, seen: Seen, (started, ended): (Timestamp, Timestamp), fence: Fence) -> Value {
    let is_waiting = matches!(seen.life, Life::Pending | Life::Again);
    let runs = matches!(seen.life, Life::Ready | Life::Unready | Life::Terminating);
    let ended = json!({ "terminated": { "finishedAt": ended } });
    let state = if runs { json!({ "running": { "startedAt": started } }) } else { json!({ "waiting": {} }) };
    let has_run = seen.restarts > 0 || seen.life == Life::Again;
    let last = if has_run { ended.clone() } else { json!({}) };
    let state = if seen.life == Life::Down { ended } else { state };
    let lock = if is_waiting { json!({ "waiting": {} }) } else { json!({ "terminated": { "exitCode": 0 } }) };
    let locks = if fence == Fence::None { json!([]) } else { json!([{ "name": keys::LOCK }]) };
    let rule = |operator: &str| json!({ "action": "RestartAllContainers", "exitCodes": { "operator": operator, "values": [0] } });
    let rules =
        if fence == (Fence::Lock { rule: true }) { json!([rule("In"), rule("NotIn")]) } else { Value::Null };
    let ready = if seen.life == Life::Ready { "True" } else { "False" };
    let mut pod = json!({
        "spec": { "initContainers": locks, "containers": [{ "name": "app", "restartPolicyRules": rules }] },
        "metadata": {
            "resourceVersion": version_of(seen),
            "uid": uid_of(ordinal, seen.uid),
            "ownerReferences": [{ "controller": true, "uid": WEB }],
        },
        "status": {
            "podIP": "10.0.0.7",
            "containerStatuses": [{ "name": "app", "restartCount": seen.restarts, "state": state, "lastState": last }],
            "initContainerStatuses": [{ "name": keys::LOCK, "state": lock }],
            "conditions": [{ "type": "Ready", "status": ready }],
        },
    });
    if seen.life == Life::Terminating {
        pod["metadata"]["deletionTimestamp"] = json!(now().to_string());
    }
    pod
}

fn decided(look: &Look, decision: &Decision) -> Decided {
    let writes = decision.plan.writes().filter_map(|action| write(look, action)).collect();
    let calls = decision.plan.asks.iter().filter_map(|ask| match ask {
        Ask::Hook(request) => Some(calling(request)),
        _ => None,
    });
    let mut decided =
        Decided { writes, status: reduced(&decision.status), calls: calls.collect(), keep: Vec::new() };
    decided.set_status(look);
    let pair = |(uid, call): &(Box<str>, Call)| (uid.to_string(), *call);
    let wanted: BTreeSet<_> = decision.calling.iter().map(pair).collect();
    let kept = decided.keep.iter().map(|(ordinal, uid, call)| (uid_of(*ordinal, *uid), *call));
    assert!(kept.collect::<BTreeSet<_>>().is_subset(&wanted), "the calls of records count");
    decided
}

fn calling(request: &HookRequest) -> Calling {
    let ordinal = request.ordinal as usize;
    Calling { ordinal, uid: number_of(&request.uid), call: request.call, overdue: false }
}

/// A write as the model has it; that of the status follows from the status itself.
fn write(look: &Look, action: &Action) -> Option<Write> {
    assert!(action.precondition().resource_version.is_some(), "I5: {action:?}");
    match (action.object().kind, action.verb()) {
        (Kind::StatefulSet, Verb::Merge { body, .. }) => {
            if let Some(replicas) = body.pointer("/spec/replicas").and_then(Value::as_u64) {
                return Some(Write::Scale(u8::try_from(replicas).unwrap()));
            }
            if let Some(retention) = body.pointer("/spec/persistentVolumeClaimRetentionPolicy/whenScaled") {
                return Some(Write::Retention(retention == "Delete"));
            }
            let leaving = body["metadata"]["annotations"][keys::LEAVING].as_str().unwrap_or_default();
            let ordinals = leaving.split(',').filter_map(|ordinal| ordinal.parse::<u8>().ok());
            Some(Write::Announce(ordinals.fold(0_u8, |mask, ordinal| mask | 1 << ordinal)))
        }
        (Kind::ScalingPolicy, Verb::ReplaceStatus { .. }) => None,
        (Kind::ScalingPolicy, Verb::Merge { .. }) => Some(Write::Depart),
        (Kind::ConfigMap, Verb::Replace { body, .. }) => {
            let ordinals = body["data"].as_object().unwrap().keys().map(|key| key.parse::<u8>().unwrap());
            Some(Write::Keys(ordinals.fold(0_u8, |mask, ordinal| mask | 1 << ordinal)))
        }
        (Kind::Pod, Verb::Delete) => {
            let ordinal = ordinal_of(&action.object().name);
            let seen = look.cached[ordinal].unwrap();
            assert_eq!(action.precondition().resource_version.as_deref(), Some(&*version_of(seen)));
            Some(Write::DeletePod(ordinal, seen))
        }
        (Kind::Claim, Verb::Delete) => {
            let claim = action.precondition().uid.parse().unwrap();
            Some(Write::DeleteClaim(ordinal_of(&action.object().name), claim))
        }
        _ => panic!("not a write of this model: {action:?}"),
    }
}
