//! Moving from rollout-operator and back, by the commands of the page, with its webhook configurations on a real API server.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams, PostParams};
use libtest_mimic::{Completion, Failed};
use serde_json::json;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, package};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::operator::Operator;
use sts_plus_scenarios::real::{RealCluster, SERVICES};

use crate::shell::{Shell, commands, page, printed, section};
use crate::stand_in::StandIn;

const PAGE: &str = "docs/migrate-from-rollout-operator.md";
const BEFORE: &str = "## Before you begin";
const WITH_HELM: &str = "## With Helm";
const BACK_WITH_HELM: &str = "### Back with Helm";
const WITHOUT_HELM: &str = "## Without Helm";
const BACK_WITHOUT_HELM: &str = "### Back without Helm";
const LOCKED_OUT: &str = "## Locked out";

/// What the page calls the chart that the reader has, and the file in which the reader keeps the configurations.
const CHART: &str = "grafana/mimir-distributed";
const FILE: &str = "rollout-operator-webhooks.yaml";

/// What stops rollout-operator, and what sts-plus begins and ends with.
const STOP: &str = "kubectl scale deployment mimir-rollout-operator --namespace mimir --replicas=0";
const INSTALL: &str = "helm install sts-plus ";
const UNINSTALL: &str = "helm uninstall sts-plus ";

/// What people do every day, each a request that a webhook of rollout-operator covers. `#` is another number each time.
const EVERYDAY: [&str; 5] = [
    "kubectl set env statefulset mimir-ingester-zone-a --namespace mimir PROBE=#",
    "kubectl rollout restart statefulset mimir-ingester-zone-b --namespace mimir",
    "sts-plus pause mimir-ingester-zone-b --namespace mimir",
    "sts-plus resume mimir-ingester-zone-b --namespace mimir",
    "kubectl drain node-c --pod-selector=rollout-group=ingester --timeout=2m",
];

/// The same for who has Helm.
const UPGRADE: &str =
    "helm upgrade mimir grafana/mimir-distributed --namespace mimir --reuse-values --set version=v#";

/// The same for who has not: Helm would not upgrade a set whose replicas are somebody else's.
const SCALE: &str = "kubectl scale statefulset mimir-ingester-zone-c --namespace mimir --replicas=3";

/// What makes good for the drain.
const UNCORDON: &str = "kubectl uncordon node-c";

/// What every name of a webhook of rollout-operator in this namespace ends with.
const WEBHOOK: &str = "-mimir.grafana.com";

/// The first order of the page, and back.
pub(crate) async fn with_helm(assets: &Assets) -> Result<Completion, Failed> {
    let mut stage = Stage::start(assets).await;
    stage.follow(BEFORE).await?;
    stage.follow(WITH_HELM).await?;
    stage.nobody_is_locked_out(&[UPGRADE]).await?;
    stage.rolled().await;
    assert!(!stage.stand_in.runs().await?, "rollout-operator is gone");

    stage.follow(BACK_WITH_HELM).await?;
    stage.rollout_operator_is_asked().await;
    stage.nobody_is_locked_out(&[UPGRADE]).await?;
    Ok(Completion::Completed)
}

/// The second order of the page, and back.
pub(crate) async fn without_helm(assets: &Assets) -> Result<Completion, Failed> {
    let mut stage = Stage::start(assets).await;
    stage.follow(BEFORE).await?;
    stage.follow(WITHOUT_HELM).await?;
    stage.rollout_operator_is_stopped().await;
    stage.nobody_is_locked_out(&[SCALE]).await?;
    stage.rolled().await;

    stage.follow(BACK_WITHOUT_HELM).await?;
    stage.rollout_operator_is_asked().await;
    stage.nobody_is_locked_out(&[SCALE]).await?;
    Ok(Completion::Completed)
}

/// The order that does not work, and the way out of it.
pub(crate) async fn locked_out(assets: &Assets) -> Result<Completion, Failed> {
    let mut stage = Stage::start(assets).await;
    assert!(commands(section(&stage.page, WITHOUT_HELM)).any(|command| command == STOP));
    stage.run(STOP).await?;
    stage.rollout_operator_is_stopped().await;
    let disabling = format!("{UPGRADE} --set rollout_operator.enabled=false");
    for command in EVERYDAY.iter().copied().chain([SCALE, UPGRADE, &disabling]) {
        let words = stage.run(command).await.err().ok_or_else(|| format!("{command} is not refused"))?;
        if !words.contains(WEBHOOK) {
            return Err(format!("{command} is refused for another reason: {words}").into());
        }
    }
    stage.run(UNCORDON).await?;

    stage.follow(LOCKED_OUT).await?;
    stage.nobody_is_locked_out(&[]).await?;
    stage.follow(WITH_HELM).await?;
    stage.nobody_is_locked_out(&[UPGRADE]).await?;
    stage.rolled().await;
    Ok(Completion::Completed)
}

/// A cluster with three zones of ingesters, rollout-operator and a reader of the page.
struct Stage {
    page: String,
    shell: Shell,
    stand_in: StandIn,
    operator: Option<Operator>,
    sets: Api<StatefulSet>,
    pods: Api<Pod>,
    folder: tempfile::TempDir,
    number: usize,
    cluster: Arc<dyn Cluster>,
}

impl Stage {
    async fn start(assets: &Assets) -> Self {
        let page = page(PAGE);
        let known = [BEFORE, WITH_HELM, BACK_WITH_HELM, WITHOUT_HELM, BACK_WITHOUT_HELM, LOCKED_OUT];
        let followed: usize = known.iter().map(|heading| commands(section(&page, heading)).count()).sum();
        assert_eq!(followed, commands(&page).count(), "a command of the page belongs to no order");

        let cluster: Arc<dyn Cluster> = Arc::new(RealCluster::start_with_services(assets).await.unwrap());
        cluster.make_namespace("mimir").await.unwrap();
        let shell = crate::reader(assets, &*cluster).await;
        let [a, b, _, _] = SERVICES.octets();
        let address = Ipv4Addr::new(a, b, 7, 7);
        let stand_in = StandIn::start(cluster.user(), address, "mimir-rollout-operator.mimir.svc").await;
        let mut stage = Stage {
            sets: Api::namespaced(cluster.user(), "mimir"),
            pods: Api::namespaced(cluster.user(), "mimir"),
            folder: tempfile::tempdir().unwrap(),
            operator: None,
            number: 0,
            page,
            shell,
            stand_in,
            cluster,
        };
        let address = stage.stand_in.address();
        let value = |name: &str, value: String| format!("--set rollout_operator.{name}={value}");
        let values = [value("address", address.ip().to_string()), value("port", address.port().to_string())];
        let install = format!("helm install mimir {CHART} --namespace mimir {}", values.join(" "));
        stage.run(&install).await.unwrap();
        stage
            .run("kubectl rollout status deployment mimir-rollout-operator --namespace mimir")
            .await
            .unwrap();
        stage.rollout_operator_is_asked().await;
        stage
    }

    /// Runs the commands under a heading of the page.
    async fn follow(&mut self, heading: &str) -> Result<(), String> {
        let page = self.page.clone();
        for command in commands(section(&page, heading)) {
            self.run(command).await?;
        }
        Ok(())
    }

    /// Runs a command, and what a cluster would do on it by itself; what it has printed if it fails.
    async fn run(&mut self, command: &str) -> Result<(), String> {
        self.number += 1;
        let chart = package().join("tests/readme/mimir");
        let spoken = command
            .replace(CHART, &chart.display().to_string())
            .replace(FILE, &self.folder.path().join(FILE).display().to_string())
            .replace('#', &self.number.to_string());
        let output = self.shell.run(&spoken);
        if !output.status.success() {
            return Err(format!("{command}\n{}", printed(&output)));
        }
        // The chart's own pods cannot run here: hollow nodes run no containers. This one does their work.
        if command.starts_with(INSTALL) {
            let scope = Scope::Namespaces(vec!["mimir".to_owned()]);
            let (outside, user) = (self.cluster.outside(), self.cluster.user());
            self.operator = Some(Operator::start(&outside, user, scope, "migration"));
        }
        if command.starts_with(UNINSTALL)
            && let Some(operator) = self.operator.take()
        {
            operator.stop().await;
        }
        self.stand_in.inject_ca().await;
        Ok(())
    }

    /// What people do every day is allowed, each thing at the first attempt.
    async fn nobody_is_locked_out(&mut self, besides: &[&str]) -> Result<(), String> {
        until(DEADLINE, "the API server to allow updates and evictions", || async {
            self.update_without_effect().await?;
            Ok::<_, NotYet>(self.evict_without_effect().await?)
        })
        .await;
        for command in EVERYDAY.iter().chain(besides).chain(&[UNCORDON]) {
            self.run(command).await?;
        }
        Ok(())
    }

    /// Waits until the webhooks are in effect and answer.
    async fn rollout_operator_is_asked(&self) {
        until(DEADLINE, "the API server to ask rollout-operator", || async {
            for asks in ["update", "evict"] {
                let before = self.stand_in.asked();
                match asks {
                    "update" => self.update_without_effect().await?,
                    _ => self.evict_without_effect().await?,
                }
                if self.stand_in.asked() == before {
                    return Err(NotYet::saw(format!("{asks} without asking")));
                }
            }
            Ok(())
        })
        .await;
    }

    async fn rollout_operator_is_stopped(&self) {
        until(DEADLINE, "rollout-operator to stop", || async {
            let runs = self.stand_in.runs().await?;
            if runs { Err(NotYet::saw("it runs")) } else { Ok(()) }
        })
        .await;
    }

    async fn update_without_effect(&self) -> kube::Result<()> {
        let fields = json!({ "metadata": { "annotations": { "probe": "dry" } } });
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        self.sets.patch("mimir-ingester-zone-a", &parameters, &Patch::Merge(fields)).await.map(|_| ())
    }

    async fn evict_without_effect(&self) -> kube::Result<()> {
        let post_options = PostParams { dry_run: true, ..PostParams::default() };
        let parameters = EvictParams { post_options, ..EvictParams::default() };
        self.pods.evict("mimir-ingester-zone-a-0", &parameters).await.map(|_| ())
    }

    /// Waits until sts-plus has rolled everything.
    async fn rolled(&self) {
        until(DEADLINE, "sts-plus to roll the group", || async {
            let status = printed(&self.shell.run("sts-plus status --namespace mimir"));
            let done = status.matches("UpToDate").count() == 3;
            done.then_some(()).ok_or_else(|| NotYet::saw(status))
        })
        .await;
    }
}
