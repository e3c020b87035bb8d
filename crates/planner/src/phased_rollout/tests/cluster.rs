//! A cluster reduced to what a PhasedRollout touches: sets, pods, rollouts, versions, one clock, and a Prometheus that
//! answers as the scenario says.
//!
//! The operator's part of it is in [`super::operate`], that of the API server, the StatefulSet controller and the
//! kubelets in [`super::native`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{
    Approval, Check, GateStatus, OnFailure, PassWhen, PhasedRolloutSpec, PhasedRolloutStatus, Query,
    ReleasePolicy,
};

use crate::example;
use crate::forecast::Objects;
use crate::phased_rollout::answer::{Answer, Data, QueryError};
use crate::phased_rollout::query::{Outcome, Question};
use crate::phased_rollout::row::{ParsedSpec, RolloutRow};
use crate::phased_rollout::{Note, Stretch};
use crate::pod::{Phase as PodPhase, PodRow};
use crate::set::{SetRow, Strategy};
use crate::statefulset::world::Management;

/// The revision that pods have before a rollout.
pub(super) const OLD: &str = "web-old";
/// The revision that a rollout is for.
pub(super) const NEW: &str = "web-new";
/// The name of the rollout, and of its set.
pub(super) const WEB: &str = "web";
/// Seconds of the fixture's initial delay and period.
pub(super) const SECONDS: i32 = 10;
/// Passes that the fixture's check needs.
pub(super) const SUCCESSES: i32 = 2;
/// When the fixture's pods became Ready; scenarios take place an hour later.
const READY_SINCE: i64 = 1_750_000_000;
/// What came back from the server.
pub(super) type Reply = Result<Answer, QueryError>;
/// The scripted server: what it says to a check at a time.
pub(super) type Script = Arc<dyn Fn(&Question, &Cluster) -> Reply + Send + Sync>;

/// API objects, the operator's memory, and the time.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) now: Timestamp,
    objects: Objects,
    /// What the user has changed in the spec of a rollout, by its name.
    pub(super) specs: BTreeMap<Arc<str>, PhasedRolloutSpec>,
    /// Whether the sets' controller does anything.
    pub(super) native: bool,
    /// Pods that do not get Ready.
    pub(super) stuck: BTreeSet<String>,
    pub(super) prometheus: Script,
    /// Answers that have not been counted.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) unobserved_since: Option<Timestamp>,
    /// Monotonic time that has passed up to when the wall clock was last looked at, and what it showed then.
    pub(super) monotonic: (SignedDuration, Timestamp),
    /// The open stretch of each rollout: what was planned, and when by monotonic time.
    pub(super) stretches: BTreeMap<Arc<str>, (Stretch, SignedDuration)>,
    /// Whether the answers to all writes are lost.
    pub(super) answers_lost: bool,
    /// Whether the view cannot be confirmed.
    pub(super) unconfirmed: bool,
    /// Who has written the partition, other than us.
    pub(super) foreign: Option<String>,
    /// What happened, one line each.
    pub(super) trace: Vec<String>,
    pub(super) announced: Vec<Note>,
    /// Gates whose step was taken: revision, partition and when each began.
    pub(super) spent: BTreeSet<(String, i32, Timestamp)>,
    /// The answers that reached the status, in order, with the number of questions by then: clocks may go back.
    pub(super) counted: Vec<(usize, Outcome)>,
    /// The number of questions when a status was last written while not every pod was available.
    pub(super) disturbed_at: usize,
    /// Pods, by name, that we deleted while they served and that have not come back.
    pub(super) deleted: BTreeSet<Box<str>>,
    pub(super) questions: usize,
    /// Writes until the operator dies.
    pub(super) dies_after: Option<usize>,
    /// Passes until somebody else writes to the rollout between plan and write.
    pub(super) conflict_after: Option<usize>,
    pub(super) wake_at: Option<Timestamp>,
}

impl Deref for Cluster {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

/// The fixture: the set `web` of three pods, all well and of one revision, and a rollout that has just been created.
pub(super) fn given() -> Cluster {
    with_replicas(3)
}

/// The fixture with this many pods.
pub(super) fn with_replicas(replicas: u32) -> Cluster {
    let start = Timestamp::from_second(READY_SINCE).unwrap();
    let set = SetRow {
        replicas,
        strategy: Strategy::RollingUpdate { partition: 0 },
        current_revision: Some(OLD.into()),
        update_revision: Some(OLD.into()),
        ..example::set(WEB)
    };
    let mut cluster = Cluster {
        now: start.saturating_add(SignedDuration::from_hours(1)).unwrap(),
        objects: Objects::default(),
        specs: BTreeMap::new(),
        native: true,
        stuck: BTreeSet::new(),
        prometheus: Arc::new(|_, _| data()),
        outcomes: Vec::new(),
        unobserved_since: None,
        monotonic: (SignedDuration::ZERO, start),
        stretches: BTreeMap::new(),
        answers_lost: false,
        unconfirmed: false,
        foreign: None,
        trace: Vec::new(),
        announced: Vec::new(),
        spent: BTreeSet::new(),
        counted: Vec::new(),
        disturbed_at: 0,
        deleted: BTreeSet::new(),
        questions: 0,
        dies_after: None,
        conflict_after: None,
        wake_at: None,
    };
    cluster.rollouts.push(rollout(WEB, WEB));
    cluster.create_set(set);
    cluster
}

/// A fixture whose rollout manages the set and has nothing to do.
pub(super) fn idle() -> Cluster {
    given().managed()
}

/// A fixture with a new template, at the first gate.
pub(super) fn rolling() -> Cluster {
    let mut cluster = idle();
    cluster.edit(NEW);
    cluster.quiet();
    cluster
}

pub(super) fn spec(target: &str) -> PhasedRolloutSpec {
    PhasedRolloutSpec {
        target_ref: target.to_owned(),
        skip_check: false,
        standard_rolling_update: false,
        suspend_policy: ReleasePolicy::Resume,
        deletion_policy: ReleasePolicy::Resume,
        paused: false,
        approval: Approval::Never,
        verify_last: true,
        on_failure: OnFailure::Pause,
        progress_deadline_seconds: None,
        check: Some(check()),
        checks: Vec::new(),
    }
}

pub(super) fn check() -> Check {
    Check {
        initial_delay_seconds: SECONDS,
        period_seconds: SECONDS,
        success_threshold: SUCCESSES,
        failure_threshold: None,
        pass_when: PassWhen::Data,
        compare: None,
        require_data: None,
        no_data_policy: None,
        error_policy: sts_plus_api::phased_rollout::ErrorPolicy::Wait,
        on_warnings: sts_plus_api::phased_rollout::WarningPolicy::Error,
        consecutive_error_limit: None,
        query: Query {
            expr: "up{}".to_owned(),
            url: "http://prom:9090".to_owned(),
            secret_ref: None,
            insecure_skip_verify: false,
            ca_secret_ref: None,
            client_cert_secret_ref: None,
            headers: Vec::new(),
            timeout_seconds: 5,
        },
    }
}

pub(super) fn rollout(name: &str, target: &str) -> RolloutRow {
    RolloutRow {
        namespace: "prod".into(),
        name: name.into(),
        uid: format!("uid-rollout-{name}").into(),
        resource_version: "1".into(),
        generation: 1,
        created: Timestamp::from_second(READY_SINCE).unwrap(),
        deleting: false,
        finalizers: Vec::new(),
        approve: None,
        spec: ParsedSpec::of(&spec(target)),
        status: PhasedRolloutStatus::default(),
    }
}

pub(super) fn data() -> Reply {
    series(&[1.0])
}

pub(super) fn empty() -> Reply {
    series(&[])
}

#[expect(clippy::unnecessary_wraps, reason = "a reply like the others")]
pub(super) fn series(values: &[f64]) -> Reply {
    Ok(Answer::new(Data::Series(values.to_vec())))
}

pub(super) fn broken() -> Reply {
    Err(QueryError::Failed("connection refused".to_owned()))
}

/// Given: changes to the fixture.
impl Cluster {
    /// Lets the rollout take the set.
    pub(super) fn managed(mut self) -> Self {
        self.quiet();
        self
    }

    /// Puts the set into a group with another one.
    pub(super) fn with_neighbour(mut self) -> Self {
        self.set_mut().group = Some("shop".into());
        self.create_set(SetRow {
            group: Some("shop".into()),
            strategy: Strategy::OnDelete,
            current_revision: Some(OLD.into()),
            update_revision: Some(OLD.into()),
            ..example::set("other")
        });
        self
    }

    /// Changes what the user wrote in the rollout.
    pub(super) fn respec(&mut self, change: impl FnOnce(&mut PhasedRolloutSpec)) {
        self.respec_of(WEB, change);
    }

    pub(super) fn respec_of(&mut self, name: &str, change: impl FnOnce(&mut PhasedRolloutSpec)) {
        let version = self.version();
        let target = self.rollout(name).target().unwrap_or_default().to_owned();
        let spec = self.specs.entry(name.into()).or_insert_with(|| spec(&target));
        change(spec);
        let parsed = ParsedSpec::of(spec);
        let rollout = self.rollout_mut(name);
        rollout.spec = parsed;
        rollout.generation += 1;
        rollout.resource_version = version;
    }

    pub(super) fn recheck(&mut self, change: impl FnOnce(&mut Check)) {
        self.respec(|spec| change(spec.check.as_mut().unwrap()));
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut PhasedRolloutSpec)) -> Self {
        self.respec(change);
        self
    }

    pub(super) fn checked(mut self, change: impl FnOnce(&mut Check)) -> Self {
        self.recheck(change);
        self
    }

    /// The server says so from now on.
    pub(super) fn say(&mut self, reply: Reply) {
        self.prometheus = Arc::new(move |_, _| reply.clone());
    }

    /// Somebody approves what is awaited, where it is of this revision; otherwise the revision as such, which is no step.
    pub(super) fn approve(&mut self, revision: &str) {
        let awaited = self.status().awaited_approval.clone();
        let awaited = awaited.filter(|awaited| awaited.starts_with(&format!("{revision}/")));
        self.approve_as(&awaited.unwrap_or_else(|| revision.to_owned()));
    }

    pub(super) fn approve_as(&mut self, approval: &str) {
        let version = self.version();
        let rollout = self.rollout_mut(WEB);
        rollout.approve = Some(approval.into());
        rollout.resource_version = version;
    }

    pub(super) fn delete_rollout(&mut self, name: &str) {
        let version = self.version();
        let rollout = self.rollout_mut(name);
        rollout.deleting = true;
        rollout.resource_version = version;
        self.rollouts.retain(|rollout| !rollout.deleting || !rollout.finalizers.is_empty());
    }

    pub(super) fn create_rollout(&mut self, row: RolloutRow) {
        let created = self.now;
        self.rollouts.push(RolloutRow { created, ..row });
    }

    pub(super) fn create_set(&mut self, row: SetRow) {
        self.templates.insert(Arc::clone(&row.uid), OLD.to_owned());
        self.populate(&row);
        self.sets.push(row);
    }

    /// Changes what somebody else wrote in the set's spec.
    pub(super) fn reset(&mut self, change: impl FnOnce(&mut SetRow)) {
        let version = self.version();
        let set = self.set_mut();
        change(set);
        set.generation += 1;
        set.resource_version = version;
    }

    /// The set's controller reports the present template, and does nothing else.
    pub(super) fn observe(&mut self) {
        let version = self.version();
        let template = self.templates[&self.set().uid].clone();
        let set = self.set_mut();
        (set.observed_generation, set.update_revision) = (set.generation, Some(template.into()));
        set.resource_version = version;
    }

    /// Gives the set another template.
    pub(super) fn edit(&mut self, revision: &str) {
        self.edit_of(WEB, revision);
    }

    /// Gives a set another template.
    pub(super) fn edit_of(&mut self, name: &str, revision: &str) {
        let version = self.version();
        let set = self.sets.iter_mut().find(|set| &*set.name == name).expect("a set");
        set.generation += 1;
        set.resource_version = version;
        let uid = Arc::clone(&set.uid);
        self.templates.insert(uid, revision.to_owned());
    }

    /// Somebody else writes the partition.
    pub(super) fn interfere(&mut self, partition: u32) {
        self.foreign = Some("argocd".to_owned());
        self.reset(|set| set.strategy = Strategy::RollingUpdate { partition });
    }

    /// All the pods of a set, as if they had been there for long.
    fn populate(&mut self, set: &SetRow) {
        for ordinal in set.ordinals() {
            let mut pod = self.new_pod(set, ordinal, OLD);
            (pod.phase, pod.running) = (PodPhase::Running, true);
            pod.ready_since = Timestamp::from_second(READY_SINCE).ok();
            self.pods.push(pod);
        }
    }

    pub(super) fn version(&mut self) -> Box<str> {
        self.next_version()
    }

    /// The API objects, whose own `perform` is hidden by that of the fixture.
    pub(super) fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }

    /// Whether the controller of every set waits for each pod before the next.
    pub(super) fn set_ordered(&mut self, ordered: bool) {
        let management = if ordered { Management::OrderedReady } else { Management::Parallel };
        let uids: Vec<_> = self.sets.iter().map(|set| Arc::clone(&set.uid)).collect();
        self.management.extend(uids.into_iter().map(|uid| (uid, management)));
    }
}

/// What there is.
impl Cluster {
    pub(super) fn set(&self) -> &SetRow {
        self.sets.iter().find(|set| &*set.name == WEB).expect("the set")
    }

    pub(super) fn set_mut(&mut self) -> &mut SetRow {
        self.sets.iter_mut().find(|set| &*set.name == WEB).expect("the set")
    }

    pub(super) fn rollout_mut(&mut self, name: &str) -> &mut RolloutRow {
        self.rollouts.iter_mut().find(|rollout| &*rollout.name == name).expect("a rollout")
    }

    pub(super) fn rollout(&self, name: &str) -> &RolloutRow {
        self.rollouts.iter().find(|rollout| &*rollout.name == name).expect("a rollout")
    }

    pub(super) fn status(&self) -> &PhasedRolloutStatus {
        &self.rollout(WEB).status
    }

    pub(super) fn gate(&self) -> &GateStatus {
        self.status().rolling_pod_status.as_ref().unwrap_or_else(|| panic!("a gate: {self}"))
    }

    pub(super) fn partition(&self) -> u32 {
        partition_of(self.set())
    }

    pub(super) fn pod(&mut self, name: &str, change: impl FnOnce(&mut PodRow)) {
        let version = self.version();
        let pod = self.pods.iter_mut().find(|pod| &*pod.name == name).expect("a pod");
        change(pod);
        pod.resource_version = version;
    }

    /// The revision of each pod, in order.
    pub(super) fn revisions(&self) -> Vec<&str> {
        let mut pods: Vec<_> = self.pods.iter().filter(|pod| pod.owner == self.set().uid).collect();
        pods.sort_by(|left, right| crate::ordinal::natural(&left.name, &right.name));
        pods.iter().map(|pod| pod.revision.as_deref().unwrap_or("none")).collect()
    }

    /// The announcements of a kind.
    pub(super) fn announced(&self, reason: &str) -> Vec<&str> {
        let told = self.announced.iter().filter(|told| told.reason == reason);
        told.map(|told| &*told.message).collect()
    }

    /// What the partition was made, in order.
    pub(super) fn partitions(&self) -> Vec<&str> {
        self.trace.iter().filter_map(|line| line.strip_prefix("partition ")).collect()
    }

    pub(super) fn condition(&self, kind: &str) -> Option<(&'static str, &str)> {
        let found = self.status().conditions.iter().find(|condition| condition.kind == kind)?;
        let truth = match found.status {
            sts_plus_api::conditions::Truth::True => "True",
            sts_plus_api::conditions::Truth::False => "False",
            sts_plus_api::conditions::Truth::Unknown => "Unknown",
        };
        Some((truth, &found.reason))
    }
}

pub(super) fn partition_of(set: &SetRow) -> u32 {
    match set.strategy {
        Strategy::RollingUpdate { partition } => partition,
        _ => 0,
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for set in &self.sets {
            let (current, update) = (set.current_revision.as_deref(), set.update_revision.as_deref());
            write!(f, "  {} x{} {} {current:?} {update:?}", set.name, set.replicas, partition_of(set))?;
            writeln!(f, " generation {} of {}", set.observed_generation, set.generation)?;
        }
        for pod in &self.pods {
            let state = match (pod.terminating, pod.ready(), pod.defect()) {
                (true, ..) => "terminating",
                (_, true, _) => "Ready",
                (_, _, Some(_)) => "broken",
                _ => "not Ready",
            };
            writeln!(f, "  {} {:?} {state}", pod.name, pod.revision)?;
        }
        for rollout in &self.rollouts {
            writeln!(f, "  {} {:?}", rollout.name, rollout.status.message)?;
            writeln!(f, "    {:?}", rollout.status.rolling_pod_status)?;
        }
        write!(f, "  {}", self.trace.join(", "))
    }
}
