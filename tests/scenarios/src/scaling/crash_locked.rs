//! The operator dies at every write of a drain behind a lock whose claims are deleted, before it and after it, and starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::app::App;
use super::manifest::{SHUTDOWN, down, hook, set, with};
use super::stage::{NAME, Scaled};
use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// Sets that are scaled at once, each in a namespace of its own.
const LANES: usize = 2;

/// From so many pods down to one, and back.
const MOST: u32 = 2;

/// What the names of the claims begin with.
const CLAIM: &str = "data-ingester-";

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_b9_6_i4_a_crash_at_any_write_of_a_drain_behind_a_lock_lets_nothing_start_in_its_place_and_keeps_other_claims",
        place: Place::Shared,
        needs_binary: false,
        play: |cluster, _| Box::pin(enumerate(cluster)),
    }]
}

async fn enumerate(cluster: Arc<dyn Cluster>) {
    let lanes = join_all((0..LANES).map(|_| Lane::new(&cluster))).await;
    for lane in crash::enumerate(lanes, "scaling behind a lock").await {
        lane.stage.finish(&[&lane.app]).await;
    }
}

/// A set that is scaled down and up again and again. The judgement of its stage is over all runs: a pod that comes in the place
/// of a drained one is never Ready.
struct Lane {
    stage: Scaled,
    app: App,
    account: Account,
}

/// What there was before a run.
struct Before {
    lives: Vec<usize>,
    claims: BTreeMap<String, String>,
    /// How often the application had been called.
    calls: usize,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>) -> Self {
        let mut stage = Scaled::new(cluster, "a-crash-locked").await;
        let app = stage.app(NAME);
        let claim = json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        // The nodes obey the lock.
        let metadata = json!({ "annotations": { behaviour::INIT_KEY: keys::LOCK } });
        let spec = json!({ "template": { "metadata": metadata }, "volumeClaimTemplates": [claim] });
        stage.create_set(&with(set(NAME, MOST), &json!({ "spec": spec }))).await;
        stage.serves(NAME, "v1").await;
        let fence = json!({ "scaleDown": { "fence": "Lock", "claims": "DeleteAfterDrain" } });
        stage.create(&with(down(NAME, &hook()), &fence)).await;
        stage
            .policy_is("locked", |policy, _| {
                policy.status.lock.as_ref().is_some_and(|lock| lock.template_generation.is_some())
            })
            .await;
        stage.replaced(&[2; MOST as usize]).await;
        stage.settled(MOST).await;
        stage.stop().await;
        let account = stage.account().clone();
        Self { stage, app, account }
    }

    fn lives(&self) -> Vec<usize> {
        self.stage.lives(0..MOST)
    }

    /// The claims that are not on their way out, by name, with their UIDs.
    async fn claims(&self) -> kube::Result<BTreeMap<String, String>> {
        let claims =
            Api::<PersistentVolumeClaim>::namespaced(self.stage.cluster.user(), &self.stage.namespace);
        let found = claims.list(&ListParams::default()).await?.items.into_iter();
        let stays = |claim: &PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_none();
        Ok(found.filter(stays).map(|claim| (claim.name_any(), claim.uid().unwrap_or_default())).collect())
    }

    /// Waits until so many pods have claims, and no others.
    async fn has_claims(&self, replicas: u32) -> BTreeMap<String, String> {
        let expected: BTreeSet<_> = (0..replicas).map(|ordinal| format!("{CLAIM}{ordinal}")).collect();
        until(DEADLINE, format!("{replicas} claims"), || async {
            let claims = self.claims().await?;
            if claims.keys().eq(&expected) { Ok(claims) } else { Err(NotYet::saw(claims)) }
        })
        .await
    }
}

impl Life for Lane {
    type Run = Before;

    async fn prepare(&mut self, what: &str) -> Before {
        self.stage.view().note(what.to_owned());
        let claims = self.has_claims(MOST).await;
        Before { lives: self.lives(), claims, calls: self.app.made().len() }
    }

    fn client(&self, _: &Before) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _: &Before, client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, before: &Before) {
        self.stage.scale(1).await;
        self.stage.settled(1).await;
        let left = self.has_claims(1).await;
        let kept = format!("{CLAIM}0");
        assert_eq!(left.get(&kept), before.claims.get(&kept), "the claim of a pod that stays is kept");
        self.stage.scale(MOST).await;
        self.stage.settled(MOST).await;
        self.has_claims(MOST).await;
        self.stage.requests().await;
    }

    /// Wherever the crash was: only the pod that was to leave was called, and whatever came in its place was not.
    fn compare(&mut self, before: Before, what: &str) {
        let lives: Vec<usize> =
            self.lives().iter().zip(&before.lives).map(|(now, before)| now - before).collect();
        // One that was created before the number was lowered has waited for the lock, and another one has come at last.
        assert!(lives[0] == 0 && (1..=2).contains(&lives[1]), "{what}: {lives:?}");
        let made = self.app.made().split_off(before.calls);
        let called = made.iter().filter(|made| made.path == SHUTDOWN);
        let called: BTreeSet<_> = called.map(|made| (&*made.pod, &*made.uid)).collect();
        let called: Vec<_> = called.into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(called, ["ingester-1"], "{what}: {made:?}");
        let present = self.stage.present();
        assert!(present.status.removed_without_drain.is_empty(), "{what}: {present:?}");
    }
}
