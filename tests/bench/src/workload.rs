//! The StatefulSets that are measured on.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour::{READY_DELAY, START_DELAY, STOP_DELAY};
use sts_plus_harness::wait::{NotYet, try_until};

/// Changing its value is a new revision.
const ROUND: &str = "bench.sts.plus/round";
/// Sets created or changed at once.
const PARALLEL_WRITES: usize = 16;
/// The set's own controller observes a change within milliseconds.
const OBSERVED_WITHIN: Duration = Duration::from_mins(1);

/// How long the steps of a pod's life take, in the words of the hollow nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub(crate) start: &'static str,
    pub(crate) ready: &'static str,
    pub(crate) stop: &'static str,
}

impl Delays {
    /// Pods that are there at once.
    pub(crate) const NONE: Self = Self { start: "0s", ready: "0s", stop: "0s" };
    /// Pods of 50 ms: as long to start and as long to stop.
    pub(crate) const SHORT: Self = Self { start: "50ms", ready: "0s", stop: "50ms" };
    /// Pods of 2 to 5 s, each its own.
    pub(crate) const LONG: Self = Self { start: "50ms", ready: "2s..5s", stop: "50ms" };
}

/// Who rolls a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RolledBy {
    /// sts-plus, across the sets of the group.
    Us,
    /// The StatefulSet controller, each set for itself.
    ItsController,
}

/// Sets of the same kind, one per zone.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) zones: usize,
    pub(crate) replicas: usize,
    pub(crate) delays: Delays,
    pub(crate) rolled_by: RolledBy,
}

impl Group {
    pub(crate) fn pods(&self) -> usize {
        self.zones * self.replicas
    }

    fn sets(&self) -> impl Iterator<Item = String> {
        (0..self.zones).map(|zone| format!("{}-zone-{zone}", self.name))
    }

    fn set(&self, name: &str) -> Value {
        let labels = json!({ "name": name, "app.kubernetes.io/part-of": self.name });
        let (label, strategy, order) = match self.rolled_by {
            RolledBy::Us => (keys::ROLLOUT_GROUP, "OnDelete", "Parallel"),
            RolledBy::ItsController => ("no-group", "RollingUpdate", "OrderedReady"),
        };
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "namespace": self.namespace, "name": name,
                "labels": { label: self.name },
            },
            "spec": {
                "replicas": self.replicas,
                "serviceName": self.name,
                "podManagementPolicy": order,
                "updateStrategy": { "type": strategy },
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels, "annotations": {
                        START_DELAY: self.delays.start,
                        READY_DELAY: self.delays.ready,
                        STOP_DELAY: self.delays.stop,
                        ROUND: "0",
                    } },
                    "spec": pod_spec(),
                },
            },
        })
    }

    fn api(&self, client: &Client) -> Api<StatefulSet> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    /// Creates the sets.
    pub(crate) async fn create(&self, client: &Client) -> Result<()> {
        create_all(client, std::slice::from_ref(self)).await
    }

    /// Gives the sets a new template.
    pub(crate) async fn change(&self, client: &Client, round: &str) -> Result<()> {
        let api = &self.api(client);
        let annotations = json!({ ROUND: round });
        let patch = &json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        let changes = self.sets().map(|set| async move {
            api.patch(&set, &PatchParams::default(), &Patch::Merge(patch)).await.context("change a set")?;
            Ok(())
        });
        futures::stream::iter(changes).buffer_unordered(PARALLEL_WRITES).try_collect().await
    }

    /// Waits until the sets' own controller has observed their templates.
    pub(crate) async fn observed(&self, client: &Client) -> Result<()> {
        let api = &self.api(client);
        for set in self.sets() {
            try_until(OBSERVED_WITHIN, format!("{set} to be observed"), || async {
                let set = api.get(&set).await?;
                let observed = set.status.as_ref().and_then(|status| status.observed_generation);
                if observed >= set.metadata.generation { Ok(()) } else { Err(NotYet::saw(observed)) }
            })
            .await?;
        }
        Ok(())
    }
}

/// Creates the sets of many groups.
pub(crate) async fn create_all(client: &Client, groups: &[Group]) -> Result<()> {
    let sets = groups.iter().flat_map(|group| group.sets().map(move |name| (group, name)));
    let created = sets.map(|(group, name)| async move {
        let set: StatefulSet = serde_json::from_value(group.set(&name))?;
        group
            .api(client)
            .create(&PostParams::default(), &set)
            .await
            .with_context(|| format!("create set {name}"))?;
        Ok(())
    });
    futures::stream::iter(created).buffer_unordered(PARALLEL_WRITES).try_collect().await
}

/// A pod of the size that pods of databases and metric stores have.
pub(crate) fn pod_spec() -> Value {
    let environment: Vec<_> = (0..6)
        .map(|index| json!({ "name": format!("SETTING_{index}"), "value": format!("value-{index}") }))
        .collect();
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "http" }, "periodSeconds": 10, "timeoutSeconds": 3 });
    json!({
        "terminationGracePeriodSeconds": 30,
        "securityContext": { "runAsNonRoot": true, "runAsUser": 10001, "fsGroup": 10001 },
        "containers": [{
            "name": "store",
            "image": "registry.example/metrics/store:v2.14.1",
            "args": ["-target=store", "-config.file=/etc/store/store.yaml", "-log.level=info"],
            "env": environment,
            "ports": [
                { "name": "http", "containerPort": 8080 },
                { "name": "grpc", "containerPort": 9095 },
                { "name": "gossip", "containerPort": 7946 },
            ],
            "readinessProbe": probe("/ready"),
            "livenessProbe": probe("/live"),
            "resources": {
                "requests": { "cpu": "500m", "memory": "2Gi" },
                "limits": { "memory": "4Gi" },
            },
            "volumeMounts": [
                { "name": "config", "mountPath": "/etc/store" },
                { "name": "data", "mountPath": "/data" },
            ],
        }],
        "volumes": [
            { "name": "config", "configMap": { "name": "store" } },
            { "name": "data", "emptyDir": {} },
        ],
    })
}
