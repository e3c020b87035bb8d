//! (p) ScalingPolicies: from the answer of a hook to the lower number of replicas, what policies cost at rest, and whether hooks
//! that hang hold up another policy.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use http::Response;
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour::{READY_DELAY, START_DELAY, STOP_DELAY};
use sts_plus_cluster::nodes::network::handler;
use sts_plus_harness::wait::{NotYet, try_until};
use sts_plus_harness::{Assets, AuditEntry, Identity};

use super::{by_kind, counted, number};
use crate::bed::{Bed, FIELD, HOME};
use crate::operator::{Operator, elapsed};
use crate::stats::percentile;
use crate::table::{Row, Section, milliseconds};
use crate::{say, window};

/// The set whose pods answer at once, and how many of them are removed, one after the other.
const BRISK: &str = "brisk";
const REMOVED: usize = 20;
/// From the answer of the hook to the request that lowers the replicas, in the median.
const LOWERED_GOAL: Duration = Duration::from_millis(30);
/// Policies of one pod each, in namespaces of their own: one alone may not take all slots of calls.
const HANGING: usize = 200;
const HANGING_NAMESPACES: usize = 4;
/// Several renewals of the lease, and a bookmark.
const REST: Duration = Duration::from_secs(90);
/// How often another policy removes a pod, alone and beside them.
const STEPS: usize = 10;
/// What that may take longer beside them, in the median.
const HELD_UP_GOAL: Duration = Duration::from_millis(30);
/// Objects created at once.
const PARALLEL_WRITES: usize = 16;
/// Expected within seconds.
const DEADLINE: Duration = Duration::from_mins(5);

pub(crate) async fn measure(assets: &Assets, binary: &Path) -> Result<Section> {
    let namespaces: Vec<_> = (0..HANGING_NAMESPACES).map(|index| format!("hanging-{index}")).collect();
    let bed = Bed::answering_in(assets, &namespaces).await?;
    let identity = bed.operator_identity("scaling").await?;
    let operator =
        Operator::start_with(&bed, binary, &identity, &["--lease-namespace", HOME, "--allow-loopback"])?;
    operator.ready().await?;
    let field = Field { client: bed.client(), bed: &bed, identity: &identity };
    let mut rows = vec![lowered(&field).await?];
    rows.extend(hanging(&field, &namespaces).await?);
    drop(operator);
    Ok(Section::of("p", rows))
}

/// What all measures use.
struct Field<'a> {
    client: Client,
    bed: &'a Bed,
    identity: &'a Identity,
}

/// How long it takes from the moment at which a pod answers the hook to the request that lowers the replicas.
async fn lowered(field: &Field<'_>) -> Result<Row> {
    say!("(p) {REMOVED} pods of one set, one after the other");
    let answers = Arc::<Mutex<Vec<Timestamp>>>::default();
    let stamped = Arc::clone(&answers);
    let answer = handler(move |request: http::Request<_>| {
        if request.method() == http::Method::POST {
            stamped.lock().unwrap_or_else(PoisonError::into_inner).push(Timestamp::now());
        }
        async { Ok(Response::new("".into())) }
    });
    field.bed.network.answer_for_set(FIELD, BRISK, answer);
    field.create(FIELD, [BRISK.to_owned()], REMOVED + 1).await?;
    field.scale(FIELD, BRISK, 1).await?;
    field.until_scaled(FIELD, BRISK, 1).await?;
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(answers.len() == REMOVED, "{} calls for {REMOVED} pods", answers.len());
    let writes = field.writes_to_sets()?;
    let times: Vec<_> = answers
        .iter()
        .map(|answered| {
            let lowered = writes.iter().find(|write| write.timestamp > *answered);
            lowered.map(|write| elapsed(*answered, write.timestamp)).context("a pod that was not removed")
        })
        .collect::<Result<_>>()?;
    let median = percentile(&times, 50);
    let shown = format!("{} (worst {})", milliseconds(median), milliseconds(percentile(&times, 100)));
    let measure = format!("hook answered to replicas lowered, median of {REMOVED}");
    Ok(Row::limited(&measure, shown, "at most 30 ms", median <= LOWERED_GOAL, ""))
}

/// Many policies: at rest, and then with a hook each that never answers.
async fn hanging(field: &Field<'_>, namespaces: &[String]) -> Result<Vec<Row>> {
    say!("(p) {HANGING} policies at rest");
    let calls = Arc::<AtomicUsize>::default();
    for (index, namespace) in namespaces.iter().enumerate() {
        let sets: Vec<_> =
            (index..HANGING).step_by(namespaces.len()).map(|set| format!("hangs-{set}")).collect();
        for set in &sets {
            let called = Arc::clone(&calls);
            let silent = handler(move |_: http::Request<_>| {
                called.fetch_add(1, Ordering::Relaxed);
                std::future::pending()
            });
            field.bed.network.answer_for_set(namespace, set, silent);
        }
        field.create(namespace, sets, 1).await?;
    }
    field.bed.settled(field.identity).await?;
    let began = Timestamp::now();
    window(REST).await;
    let requests = counted(field.bed.plane.settled_requests(field.identity).await?);
    let requests: Vec<_> = requests.into_iter().filter(|entry| entry.timestamp > began).collect();
    let calls_at_rest = calls.load(Ordering::Relaxed);

    let alone = steps(field).await?;
    say!("(p) {HANGING} hooks that hang");
    for (index, namespace) in namespaces.iter().enumerate() {
        for set in (index..HANGING).step_by(namespaces.len()) {
            field.scale(namespace, &format!("hangs-{set}"), 0).await?;
        }
    }
    let under_way = try_until(DEADLINE, format!("{HANGING} calls under way"), || {
        let count = calls.load(Ordering::Relaxed);
        async move { if count >= HANGING { Ok(()) } else { Err(NotYet::saw(count)) } }
    });
    under_way.await?;
    let beside = steps(field).await?;
    let longer = beside.saturating_sub(alone);
    Ok(vec![
        Row::limited(
            &format!(
                "requests of {HANGING} policies at rest in {} s, without the lease and watches, and calls",
                REST.as_secs()
            ),
            format!("{} {}, {calls_at_rest} calls", requests.len(), by_kind(requests.iter(), number(1))),
            "none",
            requests.is_empty() && calls_at_rest == 0,
            "",
        ),
        Row::plain(
            &format!("a pod removed, from the edit to the lower number, median of {STEPS}"),
            milliseconds(alone),
            "",
        ),
        Row::limited(
            &format!("the same beside {HANGING} hooks that hang, in {HANGING_NAMESPACES} other namespaces"),
            milliseconds(beside),
            "at most 30 ms more",
            longer <= HELD_UP_GOAL,
            "",
        ),
    ])
}

/// How long it takes from the answer to an edit until the replicas are lowered, by one each time; the median.
async fn steps(field: &Field<'_>) -> Result<Duration> {
    field.scale(FIELD, BRISK, STEPS + 1).await?;
    field.until_scaled(FIELD, BRISK, STEPS + 1).await?;
    let mut times = Vec::new();
    for replicas in (1..=STEPS).rev() {
        field.bed.settled(field.identity).await?;
        field.scale(FIELD, BRISK, replicas).await?;
        let edited = Timestamp::now();
        field.until_scaled(FIELD, BRISK, replicas).await?;
        let writes = field.writes_to_sets()?;
        let mut since = writes.iter().filter(|write| write.timestamp > edited);
        // The first one records on the set that the pod leaves, the second one lowers the number.
        let lowered = since.nth(1).context("the number was not lowered")?;
        times.push(elapsed(edited, lowered.timestamp));
    }
    Ok(percentile(&times, 50))
}

impl Field<'_> {
    /// Creates sets of so many pods, each with its policy, and waits until all policies are content.
    async fn create(
        &self,
        namespace: &str,
        sets: impl IntoIterator<Item = String>,
        replicas: usize,
    ) -> Result<()> {
        let sets: Vec<_> = sets.into_iter().collect();
        let (all, policies) = (self.sets(namespace), self.policies(namespace));
        let create = |name: String| {
            let (all, policies) = (all.clone(), policies.clone());
            async move {
                let (set, policy) = (set(&name, replicas), policy(&name));
                all.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
                policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
                anyhow::Ok(())
            }
        };
        let created = futures::stream::iter(sets.iter().cloned().map(create));
        created.buffer_unordered(PARALLEL_WRITES).try_collect::<()>().await?;
        for name in &sets {
            self.until_scaled(namespace, name, replicas).await?;
        }
        Ok(())
    }

    async fn scale(&self, namespace: &str, name: &str, replicas: usize) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        let policies = self.policies(namespace);
        policies.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Waits until a policy is content with so many pods.
    async fn until_scaled(&self, namespace: &str, name: &str, replicas: usize) -> Result<()> {
        let policies = self.policies(namespace);
        let scaled = try_until(DEADLINE, format!("{name} to have {replicas} pods"), || async {
            let policy = policies.get(name).await?;
            let status = |field: &str| policy.data.pointer(&format!("/status/{field}"));
            let is_observed =
                status("observedGeneration").and_then(Value::as_i64) == policy.metadata.generation;
            let is_ready = status("conditions/0/status") == Some(&json!("True"));
            let is_scaled = status("replicas") == Some(&json!(replicas));
            if is_observed && is_ready && is_scaled { Ok(()) } else { Err(NotYet::saw(&policy.data)) }
        });
        Ok(scaled.await?)
    }

    /// The requests of the operator that changed the spec or the annotations of a set of [`FIELD`], in order.
    fn writes_to_sets(&self) -> Result<Vec<AuditEntry>> {
        let entries = self.bed.plane.requests(self.identity)?;
        let is_write = |entry: &AuditEntry| {
            matches!(entry.verb.as_str(), "update" | "patch")
                && (entry.resource.as_str(), entry.subresource.as_str()) == ("statefulsets", "")
                && entry.namespace == FIELD
                && entry.code < 300
        };
        let mut writes: Vec<_> = entries.into_iter().filter(is_write).collect();
        writes.sort_by_key(|entry| entry.timestamp);
        Ok(writes)
    }

    fn sets(&self, namespace: &str) -> Api<DynamicObject> {
        kind(&self.client, &GroupVersionKind::gvk("apps", "v1", "StatefulSet"), namespace)
    }

    fn policies(&self, namespace: &str) -> Api<DynamicObject> {
        kind(&self.client, &GroupVersionKind::gvk("sts.plus", "v1alpha1", "ScalingPolicy"), namespace)
    }
}

fn kind(client: &Client, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(kind))
}

/// A set whose pods are there at once and answer on one port.
fn set(name: &str, replicas: usize) -> Value {
    let labels = json!({ "app": name });
    let delays = json!({ START_DELAY: "0s", READY_DELAY: "0s", STOP_DELAY: "0s" });
    let ports = json!([{ "name": "http", "containerPort": 8080 }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": delays },
                "spec": { "containers": [{ "name": "main", "image": "app:v1", "ports": ports }] },
            },
        },
    })
}

fn policy(name: &str) -> Value {
    let hook = json!({ "http": { "path": "/shutdown", "port": "http" }, "timeoutSeconds": 60 });
    json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": { "name": name },
        "spec": { "targetRef": { "name": name }, "scaleDown": { "hook": hook } },
    })
}
