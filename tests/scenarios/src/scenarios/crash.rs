//! The operator dies at every write of a rollout, before it and after it, and starts again.

use futures::future::join_all;
use kube::Client;

use super::{Place, Scenario};
use crate::cluster::Account;
use crate::crash::{Life, enumerate};
use crate::fixture::{Template, Zone, three_zones};
use crate::operator::Operator;
use crate::scene::Scene;

/// Groups that are rolled at once, each in a namespace of its own.
const LANES: usize = 4;

/// Pods of the three zones together.
const PODS: usize = 6;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_crash_before_or_after_any_write_changes_neither_the_end_nor_the_number_of_deletions",
        place: Place::Shared,
        needs_binary: false,
        play: |cluster, _| {
            Box::pin(async move {
                let lanes: Vec<_> = join_all((0..LANES).map(|_| Lane::new(&cluster))).await;
                for lane in enumerate(lanes, "a rollout of 3 x 2 pods").await {
                    lane.scene.finish().await;
                }
            })
        },
    }]
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
}

impl Life for Lane {
    /// The version that is rolled out.
    type Run = String;

    /// All zones get a new template while no operator looks.
    async fn prepare(&mut self, what: &str) -> String {
        self.scene.view().note(what.to_owned());
        self.version += 1;
        let version = format!("v{}", self.version);
        self.scene.change_and_observe(&self.zones, &Template::new(&version)).await;
        version
    }

    fn client(&self, _version: &String) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _version: &String, client: &Client) -> Operator {
        self.scene.operator_through(client)
    }

    async fn live(&self, version: &String) {
        self.scene.rolled(&self.zones, version).await;
        self.scene.requests().await;
    }

    /// Each pod was deleted once, wherever the crash was.
    fn compare(&mut self, _version: String, what: &str) {
        let deletions = self.scene.view().deletions.len() - self.seen;
        assert_eq!(deletions, PODS, "{what}");
        self.seen += deletions;
    }
}
