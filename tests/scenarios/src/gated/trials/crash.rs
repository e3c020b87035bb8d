//! The operator dies at every write of a rollout and of a rollback, before it and after it, and starts again.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{PhasedRolloutStatus, RevisionPods};
use sts_plus_harness::faults::{Faults, crash_at};

use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::fixture::Template;
use crate::gated::{Answers, Gated, Rollout, Says, Set};
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// Sets that are rolled at once, each in a namespace of its own.
const LANES: usize = 4;

/// Writes with which a set is taken: the finalizer, pin and mark, the status; and one more for an event in between.
const TAKING: usize = 4;

const SET: &str = "web";
const REPLICAS: u32 = 2;

/// What is rolled again and again.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// Every check passes.
    Forward,
    /// The first pod turns the check bad, and goes back.
    Back,
}

pub(super) fn all() -> Vec<Scenario> {
    let scenario = |name, play| Scenario { name, place: Place::Shared, needs_binary: false, play };
    vec![
        scenario("b_a14_11_a_crash_at_any_write_of_a_rollout_leaves_its_trace_as_it_is", |cluster, _| {
            Box::pin(enumerate(cluster, Story::Forward))
        }),
        scenario("b_a14_11_a_crash_at_any_write_of_a_rollback_leaves_its_trace_as_it_is", |cluster, _| {
            Box::pin(enumerate(cluster, Story::Back))
        }),
        scenario("b_a14_8_a_crash_at_any_write_of_taking_a_set_leaves_nothing_pinned", |cluster, _| {
            Box::pin(take_and_delete(cluster))
        }),
    ]
}

/// The operator dies at each write with which a new PhasedRollout takes its set; then the PhasedRollout is deleted, and
/// whoever comes next releases the set, whether the status knows of it or not.
async fn take_and_delete(cluster: Arc<dyn Cluster>) {
    let stage = Gated::new(&cluster, "crash-taking").await;
    let answers = stage.answers(Says::Nothing).await;
    let rollout = Rollout::new(SET, &answers.url());
    let account = stage.account("operator").await;
    stage.given(&Set::new(SET, REPLICAS)).await;
    let mut unknown = 0;
    for (write, side) in crash::points(TAKING) {
        let faults = Faults::new(crash_at(write, side));
        let operator = stage.operator_through(&faults.client(&account.client));
        stage.create(&rollout).await;
        tokio::select! {
            () = faults.blocked() => {}
            _ = stage.updated(SET) => {}
        }
        operator.crash().await;
        let seen = stage.rollouts().get(SET).await.unwrap();
        let held = stage.sets().get(SET).await.unwrap();
        let partition = |set: &StatefulSet| {
            set.spec.clone()?.update_strategy?.rolling_update?.partition.filter(|partition| *partition > 0)
        };
        let marked =
            held.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(keys::PHASED_ROLLOUT));
        assert_eq!(partition(&held).is_some(), marked, "pin and mark are one write: {write}, {side:?}");
        unknown += usize::from(marked && seen.data["status"]["target"].is_null());
        stage.rollouts().delete(SET, &DeleteParams::default()).await.unwrap();
        let operator = stage.operator_of(&account);
        stage
            .until("the object to be gone", |seen| match seen.rollouts.get(SET) {
                None => Ok(()),
                Some(seen) => Err(format!("{write}, {side:?}: {seen:?}")),
            })
            .await;
        stage
            .set_is(SET, "released", |set| set.partition.unwrap_or(0) == 0 && set.managed_by.is_none())
            .await;
        operator.crash().await;
    }
    assert!(unknown > 0, "the crash between pin and status is among them");
    stage.finish();
}

async fn enumerate(cluster: Arc<dyn Cluster>, story: Story) {
    let lanes = join_all((0..LANES).map(|_| Lane::new(&cluster, story))).await;
    let lanes = crash::enumerate(lanes, &format!("{story:?}")).await;
    for lane in lanes {
        let deletions = lane.stage.requests().await.iter().filter(|request| request.deletes_pod()).count();
        assert!(matches!(story, Story::Back) || deletions == 0, "{deletions} deletions in a rollout");
        lane.stage.finish();
    }
}

/// A set that is rolled again and again, each time to a new version.
struct Lane {
    stage: Gated,
    story: Story,
    account: Account,
    version: usize,
    _answers: Answers,
}

/// A run: its revision, and how far the trace had come before it.
struct Mark {
    revision: String,
    partitions: usize,
    states: usize,
    lives: Vec<usize>,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>, story: Story) -> Self {
        let stage = Gated::new(cluster, &format!("crash-{story:?}").to_lowercase()).await;
        let set = Set::new(SET, REPLICAS);
        let answers = stage.answers(Says::Nothing).await;
        let mut rollout = Rollout::new(SET, &answers.url());
        if matches!(story, Story::Back) {
            answers.say_to(&set.pod(1), Says::something());
            rollout = rollout.spec(&json!({
                "onFailure": "Rollback",
                "check": {"failureThreshold": 1, "query": {"expr": "errors{pod=~\"${updatedPods}\"} > 0"}},
            }));
        }
        let account = stage.account("operator").await;
        let operator = stage.operator_of(&account);
        stage.given_managed(&set, &rollout).await;
        operator.crash().await;
        Self { stage, story, account, version: 1, _answers: answers }
    }

    async fn ended(&self, revision: &str) {
        let version = match self.story {
            Story::Forward => {
                self.stage.updated(SET).await;
                self.version
            }
            Story::Back => {
                let back = |status: &PhasedRolloutStatus| {
                    status.failure.as_ref().is_some_and(|failure| failure.revision == revision)
                };
                self.stage
                    .rollout_is(SET, "rolled back", |seen| seen.phase() == "RolledBack" && back(&seen.status))
                    .await;
                1
            }
        };
        self.stage.serves(SET, &format!("v{version}")).await;
        self.stage.set_is(SET, "held", |set| set.partition == Some(2)).await;
    }
}

impl Life for Lane {
    type Run = Mark;

    /// The set gets a new template while no operator looks.
    async fn prepare(&mut self, what: &str) -> Mark {
        self.stage.view().note(what.to_owned());
        self.version += 1;
        let template = Template::new(&format!("v{}", self.version));
        let revision = self.stage.change_and_observe(SET, &template).await;
        let seen = self.stage.view();
        Mark {
            revision,
            partitions: seen.partitions[SET].len(),
            states: seen.history[SET].len(),
            lives: lives(&seen),
        }
    }

    fn client(&self, _mark: &Mark) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _mark: &Mark, client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, mark: &Mark) {
        self.ended(&mark.revision).await;
        self.stage.requests().await;
    }

    /// The trace is the same wherever the crash was.
    fn compare(&mut self, mark: Mark, what: &str) {
        let seen = self.stage.view();
        // The partition starts and ends at the replicas; pods come anew, the first of them twice where it goes back.
        let (partitions, lives_since): (&[_], [_; 2]) = match self.story {
            Story::Forward => (&[1, 0, 2], [1, 1]),
            Story::Back => (&[1, 2], [0, 2]),
        };
        assert_eq!(seen.partitions[SET][mark.partitions..], *partitions, "{what}");
        let since: Vec<_> = lives(&seen).iter().zip(&mark.lives).map(|(now, then)| now - then).collect();
        assert_eq!(since, lives_since, "{what}");

        let states = &seen.history[SET][mark.states..];
        // Our own writes, seen late, are not taken for somebody else's.
        assert!(states.iter().all(|past| past.status.contest.is_none()), "{what}: contested");
        assert!(states.iter().all(|past| past.status.ungated_pods.is_empty()), "{what}: ungated");
        let end = &seen.rollouts[SET].status;
        assert_eq!(end.rolling_pod_status, None, "{what}");
        assert_eq!(end.update_revision.as_deref(), Some(mark.revision.as_str()), "{what}");
        assert_eq!(end.partition, Some(2), "{what}");
        let pods: Vec<_> = end.pods.iter().map(|RevisionPods { pods, ready, .. }| (*pods, *ready)).collect();
        assert_eq!(pods, [(2, 2)], "{what}");
        assert_eq!(end.failure.is_some(), matches!(self.story, Story::Back), "{what}");
        let all_of_one = end.pods.iter().all(|pods| pods.revision == seen.sets[SET].current);
        assert!(all_of_one, "{what}: {end:?}");
    }
}

fn lives(seen: &crate::gated::Seen) -> Vec<usize> {
    (0..REPLICAS).map(|index| seen.lives_of(&format!("{SET}-{index}"))).collect()
}
