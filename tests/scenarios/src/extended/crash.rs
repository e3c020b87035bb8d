//! The operator dies at every write of a new version, before it and after it, and starts again: by each strategy.

use std::sync::Arc;

use futures::future::join_all;
use kube::Client;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::leaving::{answering, containers, hook};
use super::manifest::{claims, healthy, scaled, template, with};
use super::stage::{Extended, NAME};
use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::operator::Operator;
use crate::scaling::app::App;
use crate::scenarios::{Place, Scenario};

/// Objects that go through versions at once, each in a namespace of its own.
const LANES: usize = 2;

pub(super) fn all() -> Vec<Scenario> {
    let scenario = |name, play| Scenario { name, place: Place::Shared, needs_binary: false, play };
    vec![
        scenario("d_v17_a_crash_at_any_write_of_a_version_in_place_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, "InPlace", json!([]), 2))
        }),
        scenario("d_v17_a_crash_at_any_write_of_a_version_in_zones_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, "InPlace", json!(["a", "b"]), 1))
        }),
        scenario("a_b9_6_a_crash_at_any_write_of_a_version_with_fewer_pods_changes_nothing", |cluster, _| {
            Box::pin(leaving(cluster))
        }),
        scenario("d_v17_a_crash_at_any_write_of_a_blue_green_version_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, "BlueGreen", json!(["a", "b"]), 2))
        }),
        scenario("d_v17_a_crash_at_any_write_of_a_handover_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, "Handover", json!([]), 2))
        }),
    ]
}

async fn leaving(cluster: Arc<dyn Cluster>) {
    let lanes = join_all((0..LANES).map(|_| Leaving::new(&cluster))).await;
    for lane in crash::enumerate(lanes, "a version with fewer pods").await {
        let faults = lane.app.faults();
        assert!(faults.is_empty(), "{faults:#?}");
        lane.stage.finish().await;
    }
}

/// An object that gets a new version and fewer pods in one write, and then as many pods as before, again and again.
struct Leaving {
    stage: Extended,
    app: App,
    account: Account,
    version: u32,
    lives: Vec<usize>,
}

impl Leaving {
    async fn new(cluster: &Arc<dyn Cluster>) -> Self {
        let mut stage = Extended::new(cluster, "a-crash-leaving", Group::StsPlus).await;
        let app = App::start(&*stage.cluster, &stage.namespace, NAME);
        stage.create(with(json!({ "template": answering("v1", 3) }), &hook())).await;
        stage.ready(1, 3).await;
        stage.stop().await;
        let account = stage.account().clone();
        Self { stage, app, account, version: 1, lives: Vec::new() }
    }

    /// How many pods have had each name.
    fn lives(&self) -> Vec<usize> {
        let seen = self.stage.view();
        let lives = |ordinal| seen.lives.get(&format!("{NAME}-{ordinal}")).map_or(0, Vec::len);
        (0..3).map(lives).collect()
    }
}

impl Life for Leaving {
    /// The number of the version.
    type Run = u32;

    async fn prepare(&mut self, what: &str) -> u32 {
        self.stage.view().note(what.to_owned());
        self.version += 1;
        self.lives = self.lives();
        let template = with(containers(&format!("v{}", self.version)), &json!({ "spec": { "replicas": 2 } }));
        self.stage.edit(json!({ "template": template })).await;
        self.version
    }

    fn client(&self, _version: &u32) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _version: &u32, client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, version: &u32) {
        self.stage.ready(*version, 2).await;
        self.stage.edit(scaled(3)).await;
        self.stage.ready(*version, 3).await;
        self.stage.requests().await;
    }

    /// Those that stay are restarted once, and the one that leaves is prepared, removed and born again with the new version,
    /// wherever the crash was.
    fn compare(&mut self, version: u32, what: &str) {
        let lives: Vec<_> = self.lives().iter().zip(&self.lives).map(|(now, before)| now - before).collect();
        assert_eq!(lives, [1, 1, 1], "{what}");
        let versions = self.stage.view().versions(NAME);
        assert_eq!(versions, (1..=version).collect::<Vec<_>>(), "{what}");
        let prepared = self.app.prepared();
        assert!(prepared.iter().all(|pod| *pod == format!("{NAME}-2")), "{what}: {prepared:?}");
        assert!(prepared.len() + 1 >= version as usize, "{what}: {prepared:?}");
    }
}

async fn enumerate(cluster: Arc<dyn Cluster>, strategy: &'static str, zones: Value, replicas: u32) {
    let lanes = join_all((0..LANES).map(|_| Lane::new(&cluster, strategy, &zones, replicas))).await;
    let what = format!("{strategy} with {} zones", zones.as_array().map_or(0, Vec::len));
    for lane in crash::enumerate(lanes, &what).await {
        lane.stage.finish().await;
    }
}

/// An object that goes from one version to the next again and again. One of its pods is active meanwhile, and the judgement of
/// its stage is over all runs.
struct Lane {
    stage: Extended,
    account: Account,
    /// Whether each version has sets of its own.
    versioned: bool,
    pods: u32,
    version: u32,
    lives: usize,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>, strategy: &str, zones: &Value, replicas: u32) -> Self {
        let mut stage = Extended::new(cluster, "d-crash", Group::StsPlus).await;
        stage.view().min_ready = replicas as usize;
        let places = u32::try_from(zones.as_array().map_or(0, Vec::len)).unwrap().max(1);
        let mut given = template("v1", replicas);
        if strategy == "Handover" {
            given = with(given, &claims());
        }
        given["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 8080 }]);
        let spec = json!({
            "template": given, "zones": zones, "updateStrategy": { "type": strategy },
            "activeProbe": { "main": { "tcpSocket": { "port": 8080 }, "periodSeconds": 3600 } },
        });
        stage.create(spec).await;
        let pods = places * replicas;
        stage.ready(1, pods).await;
        stage
            .object_is("active", |object, seen| {
                object.status.active_pod.is_some() && seen.active_pod().is_some()
            })
            .await;
        stage.stop().await;
        let account = stage.account().clone();
        let versioned = strategy != "InPlace";
        Self { stage, account, versioned, pods, version: 1, lives: 0 }
    }

    fn lives(&self) -> usize {
        self.stage.view().lives.values().map(Vec::len).sum()
    }
}

impl Life for Lane {
    /// The number of the version.
    type Run = u32;

    /// The object gets a new template while no operator looks.
    async fn prepare(&mut self, what: &str) -> u32 {
        self.stage.view().note(what.to_owned());
        self.version += 1;
        self.lives = self.lives();
        let mut fields = healthy(&format!("v{}", self.version));
        fields["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{ "containerPort": 8080 }]);
        self.stage.edit(fields).await;
        self.version
    }

    fn client(&self, _version: &u32) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _version: &u32, client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, version: &u32) {
        self.stage.ready(*version, self.pods).await;
        self.stage
            .object_is("active again", |object, seen| {
                let told = object.status.active_pod.as_ref().map(|active| active.name.as_str());
                told.is_some() && told == seen.active_pod().map(|active| active.pod.name.as_str())
            })
            .await;
        self.stage.requests().await;
    }

    /// The version is the next one, each pod was made once for it, and only its sets are left, wherever the crash was.
    fn compare(&mut self, version: u32, what: &str) {
        let present = self.stage.present();
        assert_eq!(present.status.current_version, Some(version), "{what}");
        assert_eq!(present.status.versions.len(), 1, "{what}: {:?}", present.status.versions);
        assert_eq!(self.lives() - self.lives, self.pods as usize, "{what}: pods made for this version");
        let numbers = self.stage.view().versions(NAME);
        assert_eq!(
            numbers,
            (1..=version).collect::<Vec<_>>(),
            "{what}: no number is left out or comes twice"
        );
        let names = self.stage.names();
        let suffix = format!("-v{version}");
        assert!(!self.versioned || names.iter().all(|name| name.ends_with(&suffix)), "{what}: {names:?}");
    }
}
