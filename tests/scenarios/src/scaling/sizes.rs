//! Claims that grow, and the set that is created again around its pods.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_api::remedy::RemedyKind;
use sts_plus_harness::wait::{NotYet, until};

use super::app::App;
use super::manifest::{down, hook, pods, with};
use super::scenarios;
use super::seen::Policy;
use super::stage::{NAME, Scaled};
use super::volumes::{CLAIM, EXPANDABLE, FIXED, Volumes, claiming, sized};
use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// Pods of a set.
const PODS: u32 = 3;

/// Sets that grow at once, each in a namespace of its own.
const LANES: usize = 2;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_b9_20_claims_grow_in_place_and_the_set_is_created_again_around_its_pods,
        a_b9_20_a_set_that_was_created_again_still_rolls_scales_and_grows,
        a_b7_a_class_that_cannot_grow_and_a_size_that_shrinks_change_nothing,
    ]
}

/// Played on the embedded cluster only.
pub(super) fn enumerations() -> Vec<Scenario> {
    let scenario = |name, play| Scenario { name, place: Place::Shared, needs_binary: false, play };
    vec![scenario("a_b9_20_a_crash_at_any_write_of_a_set_that_grows_loses_nothing", |cluster, _| {
        Box::pin(enumerate(cluster))
    })]
}

/// A set with claims that are bound, and its application.
async fn given(stage: &Scaled, class: &str) -> (App, Volumes) {
    let volumes = Volumes::of(stage.cluster.user(), &stage.namespace, (NAME, PODS), class).await;
    let app = stage.app(NAME);
    stage.create_set(&claiming(NAME, PODS, class)).await;
    until(DEADLINE, "its claims to be bound", || async {
        volumes.play().await;
        let claims = volumes.claims().await;
        let phases: Vec<_> = claims.iter().filter_map(|claim| claim.status.as_ref()?.phase.clone()).collect();
        let is_bound = phases.len() == PODS as usize && phases.iter().all(|phase| phase == "Bound");
        is_bound.then_some(()).ok_or_else(|| NotYet::saw(&phases))
    })
    .await;
    stage.serves(NAME, "v1").await;
    (app, volumes)
}

/// Waits until the set has this size, its claims have it, and the policy is content; meanwhile volumes grow.
async fn has_grown(stage: &Scaled, volumes: &Volumes, storage: &str) -> Policy {
    until(DEADLINE, format!("{NAME} to have {storage}"), || async {
        volumes.play().await;
        let set = stage.sets().get_opt(NAME).await?;
        let has_size = set.as_ref().is_some_and(|set| size_of(set) == storage);
        let policy = stage.view().policies.get(NAME).cloned();
        let is_content = policy.as_ref().is_some_and(|policy| {
            let remedy = policy.status.remedy.as_ref();
            policy.observed
                && policy.reason() == "AsRequested"
                && remedy.is_some_and(|remedy| remedy.kind == RemedyKind::None && remedy.replicas.is_some())
        });
        if has_size && is_content {
            policy.ok_or_else(|| NotYet::saw("no policy"))
        } else {
            Err(NotYet::saw((policy, set.map(|set| size_of(&set)))))
        }
    })
    .await
}

fn size_of(set: &StatefulSet) -> String {
    let templates = set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref());
    let requests =
        templates.and_then(|all| all.first()?.spec.as_ref()?.resources.as_ref()?.requests.as_ref());
    requests
        .and_then(|requests| requests.get("storage"))
        .map(|Quantity(size)| size.clone())
        .unwrap_or_default()
}

/// The records of sets that are created again.
async fn records(stage: &Scaled) -> usize {
    let revisions = Api::<ControllerRevision>::namespaced(stage.cluster.user(), &stage.namespace);
    let ours = format!("{}={}", keys::MANAGED_BY, keys::MANAGED_BY_STS_PLUS);
    revisions.list(&ListParams::default().labels(&ours)).await.unwrap().items.len()
}

async fn a_b9_20_claims_grow_in_place_and_the_set_is_created_again_around_its_pods(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let (app, volumes) = given(&stage, EXPANDABLE).await;
    let (before, claims) = (stage.sets().get(NAME).await.unwrap(), volumes.uids().await);
    stage.create(&sized(NAME, "2Gi")).await;
    has_grown(&stage, &volumes, "2Gi").await;
    stage.settled(PODS).await;
    let told = stage.event("RemedyChosen").await;
    assert!(told.starts_with("Grow 3 claims") && told.ends_with("No pod is restarted."), "{told}");
    let announced = stage.view().history[NAME]
        .iter()
        .find_map(|policy| policy.status.remedy.clone().filter(|remedy| remedy.kind == RemedyKind::Recreate));
    let announced = announced.expect("it is announced");
    assert_eq!((announced.restarts, announced.moves_data, announced.message), (0, false, told));
    let after = stage.sets().get(NAME).await.unwrap();
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.labels(), before.labels());
    assert_eq!(after.annotations(), before.annotations());
    assert_eq!(after.spec.as_ref().unwrap().template, before.spec.as_ref().unwrap().template);
    assert_eq!(stage.lives(0..PODS), [1, 1, 1], "no pod was replaced");
    assert_eq!(volumes.uids().await, claims);
    assert_eq!(records(&stage).await, 0);
    let set = stage.view().sets[NAME].clone();
    assert_eq!(set.current_revision, set.update_revision);
    stage.finish(&[&app]).await;
}

async fn a_b9_20_a_set_that_was_created_again_still_rolls_scales_and_grows(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let (app, volumes) = given(&stage, EXPANDABLE).await;
    stage.create(&with(down(NAME, &hook()), &sized(NAME, "2Gi"))).await;
    has_grown(&stage, &volumes, "2Gi").await;
    stage.change(NAME, &pods("v2")).await;
    stage.serves(NAME, "v2").await;
    stage.replaced(&[2, 2, 2]).await;
    stage.scale(2).await;
    stage.settled(2).await;
    // Asked for in the middle of a rollout, it waits for its end.
    stage.change(NAME, &pods("v3")).await;
    stage.edit(json!({ "volumeClaims": [{ "name": CLAIM, "storage": "3Gi" }] })).await;
    has_grown(&stage, &volumes, "3Gi").await;
    stage.serves(NAME, "v3").await;
    assert_eq!(stage.lives(0..PODS), [3, 3, 2], "each was replaced once for each version");
    assert_eq!(volumes.asked().await, ["3Gi", "3Gi", "2Gi"], "the claim of the pod that left is not touched");
    // The pod comes back with the claim that it had.
    stage.scale(3).await;
    has_grown(&stage, &volumes, "3Gi").await;
    until(DEADLINE, "the claim of the pod that came back to grow", || async {
        volumes.play().await;
        let asked = volumes.asked().await;
        asked.iter().all(|size| size == "3Gi").then_some(()).ok_or_else(|| NotYet::saw(&asked))
    })
    .await;
    has_grown(&stage, &volumes, "3Gi").await;
    stage.finish(&[&app]).await;
}

async fn a_b7_a_class_that_cannot_grow_and_a_size_that_shrinks_change_nothing(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let (app, volumes) = given(&stage, FIXED).await;
    let before = stage.sets().get(NAME).await.unwrap();
    stage.create(&sized(NAME, "2Gi")).await;
    let words = stage.reports("ClaimCannotGrow").await;
    assert!(words.contains(FIXED), "{words}");
    stage.edit(json!({ "volumeClaims": [{ "name": CLAIM, "storage": "512Mi" }] })).await;
    let words = stage.reports("SizeRefused").await;
    assert!(words.contains("cannot shrink"), "{words}");
    stage.edit(json!({ "volumeClaims": [{ "name": "dta", "storage": "2Gi" }] })).await;
    let words = stage.reports("SizeRefused").await;
    assert!(words.contains("no volumeClaimTemplate dta"), "{words}");
    stage.edit(json!({ "volumeClaims": null })).await;
    stage.settled(PODS).await;
    assert_eq!(volumes.asked().await, ["1Gi", "1Gi", "1Gi"]);
    assert_eq!(stage.sets().get(NAME).await.unwrap().uid(), before.uid());
    stage.finish(&[&app]).await;
}

async fn enumerate(cluster: Arc<dyn Cluster>) {
    let lanes = join_all((0..LANES).map(|_| Lane::new(&cluster))).await;
    for lane in crash::enumerate(lanes, "a set that grows").await {
        lane.stage.finish(&[&lane.app]).await;
    }
}

/// A set that grows again and again.
struct Lane {
    stage: Scaled,
    app: App,
    account: Account,
    volumes: Volumes,
    /// The size of its claims, in gibibytes.
    size: u32,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>) -> Self {
        let mut stage = Scaled::new(cluster, "a-grown").await;
        let (app, volumes) = given(&stage, EXPANDABLE).await;
        stage.create(&sized(NAME, "1Gi")).await;
        stage.settled(PODS).await;
        stage.stop().await;
        let account = stage.account().clone();
        Self { stage, app, account, volumes, size: 1 }
    }

    fn storage(&self) -> String {
        format!("{}Gi", self.size)
    }
}

impl Life for Lane {
    type Run = ();

    async fn prepare(&mut self, what: &str) {
        self.stage.view().note(what.to_owned());
        self.size += 1;
    }

    fn client(&self, (): &()) -> Client {
        self.account.client.clone()
    }

    fn start(&self, (): &(), client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, (): &()) {
        let storage = self.storage();
        self.stage.edit(json!({ "volumeClaims": [{ "name": CLAIM, "storage": storage }] })).await;
        has_grown(&self.stage, &self.volumes, &storage).await;
        assert_eq!(records(&self.stage).await, 0);
        self.stage.requests().await;
    }

    /// Wherever the crash was: no pod was replaced.
    fn compare(&mut self, (): (), what: &str) {
        assert_eq!(self.stage.lives(0..PODS), [1, 1, 1], "{what}");
        assert_eq!(self.stage.numbers(), [PODS], "{what}");
    }
}
