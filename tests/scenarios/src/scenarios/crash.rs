//! The operator dies at every write of a rollout, before it and after it, and starts again.

use std::sync::Mutex;

use futures::future::join_all;
use sts_plus_harness::faults::{Fault, Faults, Side, crash_at};

use super::{Scenario, Stage};
use crate::cluster::Account;
use crate::fixture::{Template, Zone, three_zones};
use crate::scene::Scene;

/// Groups that are rolled at once, each in a namespace of its own.
const LANES: usize = 4;

/// Pods of the three zones together.
const PODS: usize = 6;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_crash_before_or_after_any_write_changes_neither_the_end_nor_the_number_of_deletions",
        stage: Stage::Shared,
        needs_binary: false,
        play: |cluster, _| {
            Box::pin(async move {
                let lanes: Vec<_> = join_all((0..LANES).map(|_| Lane::new(&cluster))).await;
                enumerate(lanes).await;
            })
        },
    }]
}

async fn enumerate(mut lanes: Vec<Lane>) {
    let writes = lanes[0].writes_without_a_crash().await;
    println!("crash enumeration: {writes} writes in a rollout of 3 x 2 pods, {} runs", 2 * writes);
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
    // Two changes that are seen together are told once, so a run may have a few writes less than another.
    let reached: usize = reached.into_iter().sum();
    println!("crash enumeration: {reached} of {} crashes happened before the end", 2 * writes);
    assert!(4 * reached >= 3 * 2 * writes, "only {reached} of {} crashes happened", 2 * writes);
    for lane in lanes {
        lane.scene.finish().await;
    }
}

/// A group that is rolled again and again, each time to a new version.
struct Lane {
    scene: Scene,
    account: Account,
    zones: Vec<Zone>,
    version: usize,
    seen: usize,
}

impl Lane {
    async fn new(cluster: &std::sync::Arc<dyn crate::cluster::Cluster>) -> Self {
        let scene = Scene::new(cluster, "crash").await;
        let zones = three_zones(2);
        scene.given(&zones).await;
        let account = scene.account("operator").await;
        let operator = scene.operator_of(&account);
        scene.rolled(&zones, "v1").await;
        operator.crash().await;
        Self { scene, account, zones, version: 1, seen: 0 }
    }

    async fn writes_without_a_crash(&mut self) -> usize {
        let version = self.next_version().await;
        let counted = Faults::new(|_| Fault::None);
        let operator = self.scene.operator_through(&counted.client(&self.account.client));
        self.rolled_and_told(&version).await;
        operator.crash().await;
        self.assert_deletions("without a crash");
        counted.calls().iter().filter(|call| call.write.is_some()).count()
    }

    /// One rollout with a crash; whether it came to the crash.
    async fn crash(&mut self, write: usize, side: Side) -> bool {
        let version = self.next_version().await;
        let faults = Faults::new(crash_at(write, side));
        let operator = self.scene.operator_through(&faults.client(&self.account.client));
        let reached = tokio::select! {
            () = faults.blocked() => true,
            () = self.rolled_and_told(&version) => false,
        };
        operator.crash().await;
        self.scene.view().note(format!("the operator crashed at write {write}, {side:?}: {reached}"));
        let operator = self.scene.operator_of(&self.account);
        self.scene.rolled(&self.zones, &version).await;
        operator.crash().await;
        self.assert_deletions(&format!("crash at write {write}, {side:?}"));
        reached
    }

    /// The rollout has ended, and the operator writes nothing more; events come last.
    async fn rolled_and_told(&self, version: &str) {
        self.scene.rolled(&self.zones, version).await;
        self.scene.requests().await;
    }

    /// All zones get a new template while no operator looks.
    async fn next_version(&mut self) -> String {
        self.version += 1;
        let version = format!("v{}", self.version);
        self.scene.change_and_observe(&self.zones, &Template::new(&version)).await;
        version
    }

    /// Each pod was deleted once, wherever the crash was.
    fn assert_deletions(&mut self, what: &str) {
        let deletions = self.scene.view().deletions.len() - self.seen;
        assert_eq!(deletions, PODS, "{what}");
        self.seen += deletions;
    }
}
