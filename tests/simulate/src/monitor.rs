//! Looks at every state of the cluster and at every write of an operator, and knows what must never be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use sts_plus_cluster::machinery::chronicle::Told;
use sts_plus_cluster::machinery::service::Server;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::absence::Absence;
use crate::call::Call;
use crate::defects::Defects;
use crate::faults::{Fault, Plan};
use crate::gates::Gates;
use crate::prometheus::Heard;
use crate::scaling::{locks, state};
use crate::sight::Sight;
use crate::steps::Steps;
use crate::terms::Terms;
use crate::trace::Trace;
use crate::truth::{BEHIND, Pod, Set, Truth, text};

/// A gate's time is counted in whole seconds, and seen when it is written.
const DEADLINE_SLACK: Duration = Duration::from_secs(5);

/// After so long an operator gives a write up, and decides anew.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(5);

/// How far behind somebody may be once nothing has gone wrong for long.
const BEHIND_AT_REST: Duration = Duration::from_secs(10);

/// The one who looks; clones are the same.
#[derive(Clone)]
pub struct Monitor {
    server: Server,
    pub(super) trace: Trace,
    began: Instant,
    inner: Arc<Mutex<Inner>>,
    taken: Arc<Notify>,
    pub(super) lowered: Arc<Notify>,
}

#[derive(Default)]
pub(crate) struct Inner {
    seen: u64,
    pub(super) truth: Truth,
    /// Where an operator has taken a pod that served, and none has served since.
    emptied: BTreeMap<String, String>,
    /// When each of them was taken.
    emptied_at: BTreeMap<String, Duration>,
    /// Whether a write may arrive long after its operator has given it up: it is fenced by the version of its own object alone.
    has_late_writes: bool,
    /// Pods that an operator has released by lowering a partition and that the StatefulSet controller has not deleted, each
    /// with its set and UID.
    pub(super) released: BTreeMap<String, (String, String)>,
    violations: Vec<String>,
    /// When something other than a lease or a node last changed, and what.
    last_change: (Duration, String),
    /// Versions over time, every few seconds.
    versions: Vec<(Duration, u64)>,
    /// What Prometheus answered.
    pub(super) heard: Vec<Heard>,
    pub(super) steps: Steps,
    /// Claims that a set has given to a pod, as its policy says, by the UID of that set.
    condemned: BTreeMap<String, String>,
    /// How often operators have deleted the pods of each name.
    deletions: BTreeMap<String, u64>,
    gates: Gates,
    defects: Defects,
    /// How long things go wrong.
    chaos: Duration,
    /// Whether the StatefulSet controller runs in a process of its own.
    is_apart: bool,
    pub(super) absence: Absence,
    pub(super) terms: Terms,
    /// Whether the label of the active pod is fenced: not against a write that leaves in the term of another operator.
    pub(super) fences_labels: bool,
}

/// What a write was about when it was sent.
pub struct Sent {
    pod: Option<Pod>,
    partition: Option<(u64, Vec<u64>)>,
    /// The set that it is about, as it was.
    pub(super) set: Option<Set>,
    /// Whether the Service that it is about is one of an ExtendedStatefulSet.
    pub(super) owns_service: bool,
}

impl Monitor {
    /// One who looks at a server from now on.
    pub fn new(server: Server, trace: Trace, plan: &Plan, sight: &Sight) -> Self {
        let inner = Inner {
            seen: server.version(),
            chaos: plan.chaos,
            is_apart: plan.has(Fault::StoppedController),
            absence: Absence::new(plan, sight),
            truth: Truth::new(plan),
            fences_labels: !plan.has(Fault::LateWrite),
            has_late_writes: plan.has(Fault::LateWrite),
            ..Inner::default()
        };
        Self {
            server,
            trace,
            began: Instant::now(),
            inner: Arc::new(Mutex::new(inner)),
            taken: Arc::default(),
            lowered: Arc::default(),
        }
    }

    /// Looks at all that is new.
    pub fn catch_up(&self) {
        let now = self.began.elapsed();
        let mut inner = self.lock();
        if self.server.version() == inner.seen {
            return;
        }
        let Ok(told) = self.server.chronicle(inner.seen) else {
            inner.violations.push("the monitor has lost the thread: the history is too short".to_owned());
            return;
        };
        for one in told {
            inner.seen = one.version;
            self.look(&mut inner, now, &one);
        }
        let version = inner.seen;
        if inner.versions.last().is_none_or(|(at, _)| *at + Duration::from_secs(2) < now) {
            inner.versions.push((now, version));
        }
    }

    fn look(&self, inner: &mut Inner, now: Duration, told: &Told) {
        let Told { plural, name, object, .. } = told;
        if matches!(plural.as_str(), "leases" | "nodes") {
            return;
        }
        let words = describe(told);
        inner.last_change = (now, words.clone());
        self.trace.line(&words);
        if plural == "persistentvolumeclaims" {
            let was_going = told
                .before
                .as_ref()
                .is_some_and(|before| before["metadata"]["deletionTimestamp"].is_string());
            let goes = told.deleted || object["metadata"]["deletionTimestamp"].is_string();
            if goes && !was_going {
                self.claim_goes(inner, now, name);
            } else if !goes {
                claim_is_owned(inner, now, name, object);
            }
        }
        if plural == "pods"
            && let Some(before) = inner.truth.pods.get(name)
            && !told.deleted
            && before.uid != text(&object["metadata"]["uid"])
        {
            let words = format!("I1: {name} lives twice");
            self.violate(inner, words);
        }
        if plural == "phasedrollouts" && !told.deleted {
            self.judge_status(inner, now, name, told);
        }
        if plural == "phasedrollouts" && told.deleted {
            inner.steps.released(now, &inner.truth, &text(&object["spec"]["targetRef"]));
        }
        if plural == "statefulsets" && !told.deleted {
            let named = &object["status"]["updateRevision"];
            let before =
                told.before.as_ref().map_or(&Value::Null, |before| &before["status"]["updateRevision"]);
            if named != before
                && named.as_str().is_some_and(|named| !inner.truth.revisions.contains_key(named))
            {
                self.violate(inner, format!("stored: {name} names revision {named}, which is not stored"));
            }
        }
        let pod = inner.truth.pods.get(name).filter(|_| plural == "pods").cloned();
        if plural == "pods" {
            inner.defects.note(now, &inner.truth, name);
        }
        inner.truth.take(now, plural, name, object, told.deleted);
        inner.absence.note(now, &inner.truth);
        if plural == "statefulsets" && !told.deleted {
            let before = told.before.as_ref().map_or(&Value::Null, |before| &**before);
            if let Some(words) = inner.defects.judge(now, &inner.truth, name, before, object) {
                self.violate(inner, words);
            }
        }
        self.look_at_extended(inner, now, told, pod.as_ref());
        self.look_at_scaling(inner, now, told);
        let Inner { emptied, released, truth, .. } = inner;
        let ordinal_of = |pod: &str| pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        emptied.retain(|pod, set| {
            let wanted = truth.sets.get(set).is_some_and(|set| {
                ordinal_of(pod).is_some_and(|ordinal| ordinal < set.replicas) && !set.deleting
            });
            wanted && !truth.pods.get(pod).is_some_and(Pod::serves)
        });
        released.retain(|name, (set, uid)| {
            let there = truth.pods.get(name).filter(|pod| pod.uid == *uid && !pod.terminating);
            let stays_released = |pod: &Pod, set: &Set| {
                let reached = pod
                    .ordinal()
                    .is_some_and(|ordinal| ordinal < set.replicas && ordinal >= set.partition.unwrap_or(0));
                reached
                    && set.strategy != "OnDelete"
                    && set.object["status"]["updateRevision"] != *pod.revision
            };
            there.zip(truth.sets.get(set)).is_some_and(|(pod, set)| stays_released(pod, set))
        });
    }

    /// Pods of the other sets of a set's group that are down, or about to be, by an operator's own doing.
    pub(super) fn disturbed_elsewhere(inner: &Inner, name: &str, set: &Set) -> Vec<String> {
        let Inner { emptied, released, truth, .. } = inner;
        let is_neighbour = |other: &str| {
            other != name
                && set.group.is_some()
                && truth.sets.get(other).is_some_and(|other| other.group == set.group)
        };
        let down = emptied.iter().filter(|(_, other)| is_neighbour(other)).map(|(pod, _)| pod);
        let going = released.iter().filter(|(_, (other, _))| is_neighbour(other)).map(|(pod, _)| pod);
        let leaving = truth.sets.iter().filter(|(other, _)| is_neighbour(other));
        let leaving = leaving.flat_map(|(other, set)| state::leaving(other, set));
        let leaving = leaving.filter(|pod| truth.pods.contains_key(pod));
        down.chain(going).cloned().chain(leaving).collect()
    }

    /// What a rollout says of itself: it cannot go back to a revision that its set never had, and a gate that says that its
    /// time is over has had it, whatever the clocks of the operators show.
    fn judge_status(&self, inner: &mut Inner, now: Duration, name: &str, told: &Told) {
        let (object, status) = (&told.object, &told.object["status"]);
        let before = told.before.as_ref().map_or(&Value::Null, |before| &before["status"]);
        let counted = inner.gates.counted(now, name, before);
        let set = inner.truth.sets.get(&text(&status["target"]["name"]));
        let set = set.filter(|set| set.uid == text(&status["target"]["uid"]));
        let mut broken: Vec<_> = inner.gates.take(now, name, status).into_iter().collect();
        if is_back(status)
            && before["phase"] != status["phase"]
            && set.is_some_and(|set| set.template.never_changed())
        {
            broken.push(format!("I6: {name} rolls back although its set never had another template"));
        }
        let failed = |status: &Value| status["failure"]["reason"] == "ProgressDeadlineExceeded";
        let limit = object["spec"]["progressDeadlineSeconds"].as_u64().map(Duration::from_secs);
        if failed(status)
            && before["failure"].is_null()
            && let (Some(counted), Some(limit)) = (counted, limit)
            && counted + DEADLINE_SLACK < limit
        {
            let (limit, counted) = (limit.as_secs(), counted.as_secs());
            broken.push(format!("deadline: {name} has failed by one of {limit} s after {counted} s"));
        }
        if before["failure"].is_null() && !status["failure"].is_null() {
            inner.steps.failed(now, &inner.truth, &text(&object["spec"]["targetRef"]));
        }
        for words in broken {
            self.violate(inner, words);
        }
    }

    /// A claim begins to go.
    fn claim_goes(&self, inner: &mut Inner, now: Duration, claim: &str) {
        let Some((set, ordinal)) = of_claim(claim) else { return };
        let condemned = inner.condemned.remove(claim);
        if inner.truth.scaling.deletable.remove(claim) {
            return;
        }
        let permitted = match inner.truth.sets.get(set) {
            // What a former set of the name has given to a pod goes with that pod, however late the pod ends.
            Some(known) => known.condemns_claim(now, ordinal) || condemned.is_some_and(|by| by != known.uid),
            None => {
                let ended = inner.truth.ended.get(set);
                ended.is_some_and(|set| set.retention.0 == "Delete" || set.condemns_claim(now, ordinal))
                    || condemned.is_some()
            }
        };
        if !permitted {
            self.violate(inner, format!("I4: claim {claim} goes although no policy says so"));
        }
    }

    /// A write is about to arrive.
    pub fn sending(&self, _who: &str, call: &Call) -> Sent {
        self.catch_up();
        let inner = self.lock();
        let pod = inner.truth.pods.get(&call.name).filter(|_| call.plural == "pods").cloned();
        let set = inner.truth.sets.get(&call.name).filter(|_| call.plural == "statefulsets").cloned();
        let owner = inner.truth.extended.services.get(&call.name).filter(|_| call.plural == "services");
        let owns_service = owner.is_some_and(|owner| inner.truth.extended.objects.contains_key(owner));
        let partition = set.as_ref().and_then(|set| {
            let partition = set.partition?;
            let update = set.object["status"]["updateRevision"].as_str()?;
            let outdated =
                inner.truth.pods_of(&call.name).filter(|pod| pod.revision != update).filter_map(Pod::ordinal);
            Some((partition, outdated.filter(|ordinal| *ordinal < set.replicas).collect()))
        });
        Sent { pod, partition, set, owns_service }
    }

    /// The server has acted on it.
    pub fn sent(&self, who: &str, call: &Call, sent: Sent, accepted: bool) {
        self.catch_up();
        let now = self.began.elapsed();
        let mut inner = self.lock();
        if call.is_about_lease() && accepted {
            inner.terms.lease_written(now, who, call);
        }
        if accepted && who.starts_with("operator-") {
            self.judge_extended(&mut inner, now, who, call, &sent);
            self.judge_scaling(&mut inner, now, who, call, &sent);
        }
        if call.takes_a_pod() {
            self.judge_preconditions(&mut inner, who, call);
            if let Some(pod) = sent.pod.filter(|_| accepted) {
                self.taken.notify_waiters();
                self.judge_deletion(&mut inner, now, who, call, &pod);
            }
        }
        if call.plural == "statefulsets"
            && accepted
            && let Some((before, outdated)) = sent.partition
        {
            self.judge_step(&mut inner, now, who, call, before, &outdated);
        }
    }

    /// A request that changes nothing was answered well.
    pub fn answered(&self, who: &str, call: &Call) {
        let now = self.began.elapsed();
        self.lock().terms.answered(now, who, call);
    }

    fn judge_preconditions(&self, inner: &mut Inner, who: &str, call: &Call) {
        let body = call.json();
        let options = if call.subresource == "eviction" { &body["deleteOptions"] } else { &body };
        let conditions = &options["preconditions"];
        if !(conditions["uid"].is_string() && conditions["resourceVersion"].is_string()) {
            self.violate(inner, format!("I5: {who} deletes {} without preconditions: {body}", call.name));
        }
        if options["gracePeriodSeconds"] == 0 {
            self.violate(inner, format!("I1: {who} deletes {} by force", call.name));
        }
    }

    fn judge_deletion(&self, inner: &mut Inner, now: Duration, who: &str, call: &Call, pod: &Pod) {
        *inner.deletions.entry(pod.name.clone()).or_default() += 1;
        let Some((name, set)) =
            pod.set.as_ref().and_then(|name| Some((name.clone(), inner.truth.sets.get(name)?.clone())))
        else {
            return;
        };
        let surplus = pod
            .ordinal()
            .is_none_or(|ordinal| set.replicas_past.within(now, BEHIND).any(|replicas| ordinal >= *replicas));
        if surplus || set.deleting || pod.terminating || locks::may_delete(&inner.truth, call, pod) {
            return;
        }
        let emptied = &inner.emptied;
        let elsewhere = Self::disturbed_elsewhere(inner, &name, &set);
        // What a partition has released was judged when it did.
        let is_released = set.strategy != "OnDelete" && pod.ordinal() >= set.partition.or(Some(0));
        // The StatefulSet controller goes from the last pod down and waits only for those after the one it is at.
        let rolls_by_itself = set.strategy != "OnDelete" && set.partition.unwrap_or(0) < set.replicas;
        let counts = |down: &str| {
            let ordinal = down.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<u64>().ok());
            !rolls_by_itself || ordinal > pod.ordinal()
        };
        let is_given_up = inner.has_late_writes && call.left + GIVEN_UP_AFTER < now;
        let could_know = |down: &str| {
            let taken = inner.emptied_at.get(down);
            !is_given_up || taken.is_none_or(|taken| *taken <= call.left)
        };
        let down: Vec<_> = emptied
            .iter()
            .filter(|(down, other)| **other == name && **down != pod.name && counts(down) && could_know(down))
            .map(|(pod, _)| pod.clone())
            .collect();
        let budget = set.budget.within(now, BEHIND).max().copied().unwrap_or(1).max(1);
        let mut broken = Vec::new();
        if !elsewhere.is_empty() && !is_released && !pod.is_dead() {
            broken.push(format!(
                "I3: {who} deletes {} while {} of another zone are down by its own doing, or about to be",
                pod.name,
                elsewhere.join(", ")
            ));
        }
        if pod.serves() && down.len() as u64 + 1 > budget {
            broken.push(format!(
                "I2: {who} deletes {} while {} are down by its own doing; {budget} may be",
                pod.name,
                down.join(", ")
            ));
        }
        let status = &set.object["status"];
        let is_below = |behind: Duration| {
            pod.ordinal().is_some_and(|ordinal| {
                set.partition_past
                    .within(now, behind)
                    .all(|partition| partition.is_some_and(|from| ordinal < from))
            })
        };
        let protected = is_below(BEHIND);
        // What an operator deletes of a rolling set that another process rolls is brought back by a phased rollout.
        let brings_back = inner.is_apart && set.strategy != "OnDelete" && who.starts_with("operator-");
        let is_known = inner.truth.revisions.contains_key(&pod.revision);
        let kept = is_below(if now > inner.chaos + BEHIND { BEHIND_AT_REST } else { BEHIND });
        if pod.serves() && (kept || brings_back) && is_known && !set.update.has_been(&pod.revision) {
            broken.push(format!(
                "I6: {who} deletes {}, whose revision {} no rollout of the set has rolled out",
                pod.name, pod.revision
            ));
        }
        if pod.serves() && protected && status["currentRevision"] == pod.revision.as_str() {
            broken.push(format!("I6: {who} deletes {}, which is below the partition", pod.name));
        }
        // Whoever goes serving must be outdated, as far as anybody could know, or be on the way back.
        let wanted = set.update.within(now, BEHIND).collect::<Vec<_>>();
        let observed = status["observedGeneration"].as_u64() >= Some(set.template_generation);
        let settled = observed && set.template.since() + BEHIND < now && wanted.len() == 1;
        let goes_back = inner.truth.rollouts_of(&name).any(goes_back)
            && pod.ordinal() < set.partition
            && status["currentRevision"] != pod.revision.as_str();
        let is_updated = wanted.first().is_some_and(|update| **update == pod.revision);
        if pod.serves() && settled && is_updated && !goes_back {
            broken.push(format!("I13: {who} deletes {}, which serves and is up to date", pod.name));
        }
        if pod.serves() && inner.absence.is_blind() {
            broken.push(format!("I14: {who} deletes {} although nobody can see what there is", pod.name));
        }
        if pod.serves() && set.strategy == "OnDelete" && inner.terms.is_unread(who, call) {
            broken.push(format!("rule C: {who} deletes {} before it has read pods in its term", pod.name));
        }
        if pod.serves()
            && set.strategy == "OnDelete"
            && let Some(other) = inner.absence.long_elsewhere(now, &inner.truth, &name, &set)
        {
            broken.push(format!(
                "I14: {who} deletes {} although {other} of another zone has long not served",
                pod.name
            ));
        }
        for words in broken {
            self.violate(inner, words);
        }
        if pod.serves() {
            inner.emptied_at.insert(pod.name.clone(), now);
            inner.emptied.insert(pod.name.clone(), name);
        }
    }

    /// Prometheus has answered.
    pub fn heard(&self, heard: Heard) {
        self.trace.line(&format!(
            "prometheus answers {} about {}: {}",
            heard.who,
            heard.rollout,
            if heard.passed { "good" } else { "not good" }
        ));
        self.lock().heard.push(heard);
    }

    /// The version of the server this long ago.
    pub fn version_ago(&self, ago: Duration) -> u64 {
        let from = self.began.elapsed().saturating_sub(ago);
        let inner = self.lock();
        let known =
            inner.versions.iter().rev().find(|(at, _)| *at <= from).or_else(|| inner.versions.first());
        known.map_or_else(|| self.server.version(), |(_, version)| *version)
    }

    /// Since the run began.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// When something other than a lease or a node last changed, and what.
    pub fn last_change(&self) -> (Duration, String) {
        self.lock().last_change.clone()
    }

    /// What there is.
    pub fn look_at<T>(&self, look: impl FnOnce(&Truth) -> T) -> T {
        self.catch_up();
        look(&self.lock().truth)
    }

    /// Waits until an operator takes a pod away.
    pub async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Waits until an operator lowers a partition.
    pub async fn lowered(&self) {
        self.lowered.notified().await;
    }

    /// How many pods operators have deleted.
    pub fn deletions(&self) -> u64 {
        self.lock().deletions.values().sum()
    }

    /// How often operators have deleted the pods of these names.
    pub fn deletions_of(&self, pods: &[String]) -> u64 {
        let inner = self.lock();
        pods.iter().filter_map(|pod| inner.deletions.get(pod)).sum()
    }

    /// What should never have been.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    pub(super) fn violate(&self, inner: &mut Inner, words: String) {
        self.trace.line(&format!("!!!! {words}"));
        inner.violations.push(words);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a status says that pods are brought back to an earlier revision, or were.
fn is_back(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("RollingBack" | "RolledBack"))
}

/// Whether a rollout may bring pods of its update revision back.
fn goes_back(rollout: &Value) -> bool {
    !rollout["status"]["failure"].is_null() || is_back(&rollout["status"])
}

/// The set and the ordinal of a claim: those of the run are named `data-<set>-<ordinal>`.
fn of_claim(claim: &str) -> Option<(&str, u64)> {
    let (set, ordinal) = claim.strip_prefix("data-")?.rsplit_once('-')?;
    Some((set, ordinal.parse().ok()?))
}

/// Remembers which set has given a claim to its pod, if its policy said so: from then on the claim goes with the pod. A
/// claim that is taken back is condemned no more.
fn claim_is_owned(inner: &mut Inner, now: Duration, claim: &str, object: &Value) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let by_pod = owners.into_iter().flatten().any(|owner| owner["kind"] == "Pod");
    if !by_pod {
        inner.condemned.remove(claim);
        return;
    }
    let Some((set, ordinal)) = of_claim(claim).filter(|_| !inner.condemned.contains_key(claim)) else {
        return;
    };
    let condemning = inner.truth.sets.get(set).filter(|set| set.condemns_claim(now, ordinal));
    if let Some(uid) = condemning.map(|set| set.uid.clone()) {
        inner.condemned.insert(claim.to_owned(), uid);
    }
}

/// A change in one line.
fn describe(told: &Told) -> String {
    let Told { plural, name, object, .. } = told;
    if told.deleted {
        return format!("{plural}/{name} is gone");
    }
    let verb = if told.before.is_some() { "changes" } else { "is created" };
    let more = match plural.as_str() {
        "pods" => {
            let pod = Pod::read(name, object);
            let state = match (pod.terminating, pod.ready) {
                (true, _) => "terminating",
                (_, true) => "Ready",
                _ => "not Ready",
            };
            let active = if pod.active { ", active" } else { "" };
            format!(
                ": {} {} {state}{active}",
                pod.image,
                object["status"]["phase"].as_str().unwrap_or_default()
            )
        }
        "statefulsets" => {
            let (spec, status) = (&object["spec"], &object["status"]);
            format!(
                ": {} x {} to {} from {}, partition {}, {} ready",
                text(&spec["template"]["spec"]["containers"][0]["image"]),
                spec["replicas"],
                text(&status["updateRevision"]),
                text(&status["currentRevision"]),
                spec["updateStrategy"]["rollingUpdate"]["partition"],
                status["readyReplicas"]
            )
        }
        "phasedrollouts" => {
            format!(": {} waits for {}", object["status"]["phase"], object["status"]["waitingFor"])
        }
        "extendedstatefulsets" => {
            let status = &object["status"];
            let ready =
                status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Ready");
            format!(
                ": version {} of {}, active {}, {}",
                status["updateVersion"],
                status["currentVersion"],
                status["activePod"]["name"],
                ready.map(|ready| text(&ready["message"])).unwrap_or_default()
            )
        }
        "configmaps" => format!(": {}", object["data"]),
        "events" => format!(": {} {}", text(&object["reason"]), text(&object["message"])),
        _ => String::new(),
    };
    format!("{plural}/{name} {verb}{more}")
}
