//! The operator dies at every write of a rollout, before it and after it, and starts again; and somebody writes in
//! between all the time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use sts_plus_harness::faults::{Fault, Faults, Side, crash_at};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::scenarios;
use crate::cluster::{Account, Cluster};
use crate::fixture::Template;
use crate::gated::{Answers, Gated, Rollout, Says, Set};
use crate::scenarios::{Scenario, Stage};

/// Sets that are rolled at once, each in a namespace of its own.
const LANES: usize = 6;

/// How long a status is held so that it comes too late: much longer than a request takes.
const HELD: Duration = Duration::from_millis(300);

pub(super) fn all() -> Vec<Scenario> {
    let mut all = vec![Scenario {
        name: "b_a14_11_a_crash_before_or_after_any_write_changes_nothing_of_the_rollout",
        stage: Stage::Shared,
        needs_binary: false,
        play: |cluster, _| {
            Box::pin(async move {
                let lanes: Vec<_> = join_all((0..LANES).map(|_| Lane::new(&cluster))).await;
                enumerate(lanes).await;
            })
        },
    }];
    all.extend(scenarios![b_a14_12_conflicts_lose_no_answer_and_repeat_no_event]);
    all
}

async fn enumerate(mut lanes: Vec<Lane>) {
    let writes = lanes[0].writes_without_a_crash().await;
    println!("crash enumeration: {writes} writes in a rollout of 2 pods, {} runs", 2 * writes);
    let points = (0..writes).flat_map(|write| [(write, Side::Before), (write, Side::After)]);
    let points = Mutex::new(points.collect::<Vec<_>>().into_iter());
    let reached = join_all(lanes.iter_mut().map(|lane| {
        let points = &points;
        async move {
            let mut reached = 0;
            while let Some((write, side)) = { points.lock().unwrap().next() } {
                reached += usize::from(lane.crash(write, side).await);
            }
            reached
        }
    }))
    .await;
    // Changes that are seen together are told once, so a run may have a few writes less than another.
    let reached: usize = reached.into_iter().sum();
    println!("crash enumeration: {reached} of {} crashes happened before the end", 2 * writes);
    assert!(2 * reached >= 2 * writes, "only {reached} of {} crashes happened", 2 * writes);
    for lane in lanes {
        lane.stage.finish();
    }
}

/// A set that is rolled again and again, each time to a new version.
struct Lane {
    stage: Gated,
    account: Account,
    _answers: Answers,
    version: usize,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>) -> Self {
        let stage = Gated::new(cluster, "phased-crash").await;
        let answers = Answers::start(Says::Nothing).await;
        let account = stage.account("operator").await;
        let operator = stage.operator_of(&account);
        stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
        operator.crash().await;
        Self { stage, account, _answers: answers, version: 1 }
    }

    async fn writes_without_a_crash(&mut self) -> usize {
        let version = self.next_version().await;
        let counted = Faults::new(|_| Fault::None);
        let operator = self.stage.operator_through(&counted.client(&self.account.client));
        self.rolled(&version).await;
        operator.crash().await;
        self.judge("without a crash");
        counted.calls().iter().filter(|call| call.write.is_some()).count()
    }

    /// One rollout with a crash; whether it came to the crash.
    async fn crash(&mut self, write: usize, side: Side) -> bool {
        let version = self.next_version().await;
        let faults = Faults::new(crash_at(write, side));
        let operator = self.stage.operator_through(&faults.client(&self.account.client));
        let reached = tokio::select! {
            () = faults.blocked() => true,
            () = self.rolled(&version) => false,
        };
        operator.crash().await;
        self.stage.view().note(format!("the operator crashed at write {write}, {side:?}: {reached}"));
        let operator = self.stage.operator_of(&self.account);
        self.rolled(&version).await;
        operator.crash().await;
        self.judge(&format!("crash at write {write}, {side:?}"));
        reached
    }

    async fn rolled(&self, version: &str) {
        self.stage.serves("web", version).await;
        self.stage.updated("web").await;
    }

    /// The set gets a new template while no operator looks.
    async fn next_version(&mut self) -> String {
        self.version += 1;
        let version = format!("v{}", self.version);
        self.stage.view().partitions.clear();
        self.stage.change_and_observe("web", &Template::new(&version)).await;
        version
    }

    /// Wherever the crash was, the partition went the same way and each pod was replaced once.
    fn judge(&self, what: &str) {
        assert_eq!(self.stage.view().partitions["web"], [2, 1, 0, 2], "{what}");
        assert_eq!(self.stage.lives(&["web-0", "web-1"]), [self.version, self.version], "{what}");
    }
}

async fn b_a14_12_conflicts_lose_no_answer_and_repeat_no_event(stage: Gated) {
    let answers = Answers::start(Says::Nothing).await;
    let account = stage.account("operator").await;
    let (about_to_write, mut told) = mpsc::unbounded_channel();
    let statuses = AtomicUsize::new(0);
    // Every second status is held until somebody else has written, or has had the time to.
    let faults = Faults::new(move |call| {
        let status = call.write.is_some() && call.path.contains("/phasedrollouts/web/status");
        if status && statuses.fetch_add(1, Ordering::Relaxed) % 2 == 1 && about_to_write.send(()).is_ok() {
            Fault::Delay(HELD)
        } else {
            Fault::None
        }
    });
    let _operator = stage.operator_through(&faults.client(&account.client));
    let mut busy = JoinSet::new();
    let rollouts = stage.rollouts();
    busy.spawn(async move {
        let mut number = 0;
        while told.recv().await.is_some() {
            number += 1;
            let fields = json!({ "metadata": { "annotations": { "number": number.to_string() } } });
            rollouts.patch("web", &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
        }
    });
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    busy.shutdown().await;
    assert_eq!(answers.queries().len(), 4, "each answer was counted");
    stage.event("web", "RolloutCompleted", "").await;
    let requests = stage.requests().await;
    let refused = requests.iter().filter(|request| request.code == 409).count();
    assert!(refused > 0, "there were no conflicts, so this shows nothing");
    let events = Api::<Event>::namespaced(stage.cluster.user(), &stage.namespace);
    let about = ListParams::default().fields("involvedObject.kind=PhasedRollout");
    for event in events.list(&about).await.unwrap() {
        assert_eq!(event.count, Some(1), "told twice: {event:?}");
    }
    stage.finish();
}
