//! (x) ExtendedStatefulSets: from the edit to the version, one Secret of many objects, memory beside plain sets, and rest, also
//! with probes of the active pod.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour::{READY_DELAY, START_DELAY, STOP_DELAY};
use sts_plus_harness::wait::{NotYet, try_until};
use sts_plus_harness::{Assets, AuditEntry, Identity};

use super::{by_kind, counted};
use crate::bed::{self, Bed, FIELD, FULL_NAMESPACES, FULL_REPLICAS, FULL_SETS, HOME, Size, full_namespace};
use crate::operator::{Operator, elapsed};
use crate::stats::percentile;
use crate::table::{Row, Section, mebibytes, milliseconds};
use crate::workload::pod_spec;
use crate::{say, window};

const EDITS: usize = 20;
/// From the edit to the first write of a version, in the median.
const EDIT_GOAL: Duration = Duration::from_millis(50);
/// Objects that refer to one Secret.
const REFERRING: usize = 200;
/// In KiB: what 1,000 objects of 10 pods may cost more than 1,000 sets of 10 pods.
const MEMORY_GOAL: u64 = 15 * 1024;
/// Several renewals of the lease, and a bookmark.
const REST: Duration = Duration::from_secs(90);
/// Objects with a probe at rest, and the pods of each: every container listens on three ports.
const PROBED: usize = 20;
const PROBED_REPLICAS: usize = 3;
/// Objects created at once.
const PARALLEL_WRITES: usize = 16;
/// Expected within a second or two.
const DEADLINE: Duration = Duration::from_mins(5);

pub(crate) async fn measure(assets: &Assets, binary: &Path) -> Result<Section> {
    let mut rows = Vec::new();
    let bed = Bed::start(assets, Size::Empty).await?;
    let identity = bed.operator_identity("operator").await?;
    let operator = Operator::start(&bed, binary, &identity)?;
    operator.ready().await?;
    for (group, words) in [("sts.plus", "changed in place"), ("fissile.cloudfoundry.org", "blue/green")] {
        rows.push(edits(&bed, &identity, group, words).await?);
    }
    rows.extend(secret(&bed, &identity).await?);
    drop((operator, bed));
    rows.extend(memory(assets, binary).await?);
    rows.push(probed(assets, binary).await?);
    Ok(Section::of("x", rows))
}

/// How long it takes from the answer to an edit to the request that creates or changes a set.
async fn edits(bed: &Bed, identity: &Identity, group: &str, words: &str) -> Result<Row> {
    let objects = objects(&bed.client(), group, FIELD);
    let name = format!("edited-{}", group.split('.').next().unwrap_or_default());
    create(&objects, [object(group, &name, 1, &json!({}))]).await?;
    let mut times = Vec::new();
    for edit in 0..EDITS {
        until_ready(&objects, &name).await?;
        let annotations = json!({ "metadata": { "annotations": { "edit": edit.to_string() } } });
        let patch = json!({ "spec": { "template": { "spec": { "template": annotations } } } });
        objects.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let edited = Timestamp::now();
        let write = try_until(DEADLINE, "the version to be written", || async {
            let entries = bed.plane.requests(identity)?;
            let first = entries.into_iter().find(|entry| entry.timestamp > edited && writes_version(entry));
            first.ok_or_else(|| NotYet::saw("no write"))
        });
        times.push(elapsed(edited, write.await?.timestamp));
    }
    let median = percentile(&times, 50);
    say!("(x) {words}: {median:?}");
    let shown = format!("{} (worst {})", milliseconds(median), milliseconds(percentile(&times, 100)));
    let measure = format!("edit to the first write of a version, {words}, median of {EDITS}");
    Ok(Row::limited(&measure, shown, "at most 50 ms", median <= EDIT_GOAL, ""))
}

/// Many objects of one Secret, which changes once: each makes one version, and each set is written once.
async fn secret(bed: &Bed, identity: &Identity) -> Result<Vec<Row>> {
    say!("(x) {REFERRING} objects that refer to one Secret");
    let client = bed.client();
    let secrets = kind(&client, "", "v1", "Secret", FIELD);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "shared" }, "stringData": { "key": "one" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let objects = objects(&client, "sts.plus", FIELD);
    let refers = json!({ "updateOnConfigChange": true });
    let name = |number: usize| format!("refers-{number}");
    create(&objects, (0..REFERRING).map(|number| object("sts.plus", &name(number), 0, &refers))).await?;
    for number in 0..REFERRING {
        until_ready(&objects, &name(number)).await?;
    }
    bed.settled(identity).await?;
    let changed = Timestamp::now();
    let patch = json!({ "stringData": { "key": "two" } });
    secrets.patch("shared", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let written = try_until(DEADLINE, "all versions to be written", || async {
        let entries = versions_since(bed, identity, changed).map_err(NotYet::saw)?;
        if entries.len() >= REFERRING { Ok(entries) } else { Err(NotYet::saw(entries.len())) }
    });
    let last = written.await?.iter().map(|entry| entry.timestamp).max().unwrap_or(changed);
    bed.settled(identity).await?;
    let writes = versions_since(bed, identity, changed)?.len();
    let requests = counted(bed.plane.settled_requests(identity).await?);
    let requests: Vec<_> = requests.into_iter().filter(|entry| entry.timestamp > changed).collect();
    Ok(vec![
        Row::limited(
            &format!("a change of one Secret of {REFERRING} objects: versions written"),
            writes.to_string(),
            "one each",
            writes == REFERRING,
            "",
        ),
        Row::plain(
            "from the change to the last of them, of which 1 s is waited for further changes",
            milliseconds(elapsed(changed, last)),
            "",
        ),
        Row::plain("requests per object", by_kind(requests.iter(), super::number(REFERRING)), ""),
    ])
}

/// What an operator holds beside 10,000 pods: of plain sets, and of ExtendedStatefulSets, which then are left alone.
async fn memory(assets: &Assets, binary: &Path) -> Result<Vec<Row>> {
    let plain = {
        let bed = Bed::start(assets, Size::Full).await?;
        resident(&bed, binary).await?
    };
    say!("(x) {FULL_SETS} ExtendedStatefulSets of {FULL_REPLICAS} pods");
    let namespaces: Vec<_> = (0..FULL_NAMESPACES).map(full_namespace).collect();
    let bed = Bed::roomy(assets, &namespaces).await?;
    let identity = bed.operator_identity("filler").await?;
    let operator = Operator::start(&bed, binary, &identity)?;
    operator.ready().await?;
    for (index, namespace) in namespaces.iter().enumerate() {
        let numbers = (index..FULL_SETS).step_by(FULL_NAMESPACES);
        let created =
            numbers.map(|number| object("sts.plus", &format!("store-{number}"), FULL_REPLICAS, &json!({})));
        create(&objects(&bed.client(), "sts.plus", namespace), created).await?;
    }
    bed::full_of(&bed.plane, FULL_SETS * FULL_REPLICAS).await?;
    bed.settled(&identity).await?;
    drop(operator);
    let extended = resident(&bed, binary).await?;
    let more = extended.saturating_sub(plain);
    let shown = format!("{} ({} and {})", mebibytes(more), mebibytes(extended), mebibytes(plain));
    let operator = Operator::start(&bed, binary, &identity)?;
    operator.ready().await?;
    bed.settled(&identity).await?;
    let began = Timestamp::now();
    window(REST).await;
    let requests = counted(bed.plane.settled_requests(&identity).await?);
    let requests: Vec<_> = requests.into_iter().filter(|entry| entry.timestamp > began).collect();
    Ok(vec![
        Row::limited(
            "resident memory of 1,000 objects of 10 pods beyond that of 1,000 sets of 10 pods",
            shown,
            "at most 15 MiB",
            more <= MEMORY_GOAL,
            "",
        ),
        Row::limited(
            &format!("requests of those in {} s of rest, without the lease and watches", REST.as_secs()),
            format!("{} {}", requests.len(), by_kind(requests.iter(), 1.0)),
            "none",
            requests.is_empty(),
            "",
        ),
    ])
}

/// What objects of which every pod is probed ask of the API server once nothing changes.
async fn probed(assets: &Assets, binary: &Path) -> Result<Row> {
    say!("(x) {PROBED} objects of {PROBED_REPLICAS} pods with an HTTP probe");
    let bed = Bed::answering(assets).await?;
    let identity = bed.operator_identity("probing").await?;
    let flags = ["--lease-namespace", HOME, "--allow-loopback"];
    let operator = Operator::start_with(&bed, binary, &identity, &flags)?;
    operator.ready().await?;
    let probe = json!({ "activeProbe": { "store": { "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 1 } } });
    let objects = objects(&bed.client(), "sts.plus", FIELD);
    let name = |number: usize| format!("probed-{number}");
    let created = (0..PROBED).map(|number| object("sts.plus", &name(number), PROBED_REPLICAS, &probe));
    create(&objects, created).await?;
    for number in 0..PROBED {
        until_active(&objects, &name(number)).await?;
    }
    bed.settled(&identity).await?;
    let began = Timestamp::now();
    window(REST).await;
    let requests = counted(bed.plane.settled_requests(&identity).await?);
    let requests: Vec<_> = requests.into_iter().filter(|entry| entry.timestamp > began).collect();
    let pods = PROBED * PROBED_REPLICAS;
    Ok(Row::limited(
        &format!(
            "requests of {PROBED} objects whose {pods} pods are probed each second, in {} s, without the lease and watches",
            REST.as_secs()
        ),
        format!("{} {}", requests.len(), by_kind(requests.iter(), 1.0)),
        "none",
        requests.is_empty(),
        "",
    ))
}

/// What a fresh operator holds once it has nothing to do.
async fn resident(bed: &Bed, binary: &Path) -> Result<u64> {
    let identity = bed.operator_identity("weighed").await?;
    super::start::introduce(bed, binary, &identity).await?;
    let mut operator = Operator::start(bed, binary, &identity)?;
    operator.synced().await?;
    bed.settled(&identity).await?;
    Ok(operator.memory()?.resident)
}

fn writes_version(entry: &AuditEntry) -> bool {
    let writes = matches!(entry.verb.as_str(), "create" | "update");
    writes && entry.resource == "statefulsets" && entry.subresource.is_empty() && entry.code < 300
}

fn versions_since(bed: &Bed, identity: &Identity, since: Timestamp) -> Result<Vec<AuditEntry>> {
    let entries = bed.plane.requests(identity)?;
    Ok(entries.into_iter().filter(|entry| entry.timestamp > since && writes_version(entry)).collect())
}

fn kind(client: &Client, group: &str, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &kind)
}

fn objects(client: &Client, group: &str, namespace: &str) -> Api<DynamicObject> {
    kind(client, group, "v1alpha1", "ExtendedStatefulSet", namespace)
}

fn object(group: &str, name: &str, replicas: usize, more: &Value) -> Value {
    let delays = json!({ START_DELAY: "0s", READY_DELAY: "0s", STOP_DELAY: "0s" });
    let mut pod = pod_spec();
    if let Some(volumes) = pod.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.push(json!({ "name": "secret", "secret": { "secretName": "shared" } }));
    }
    // Only a Secret is referred to that exists.
    if let Some(config) = pod.pointer_mut("/volumes/0") {
        *config = json!({ "name": "config", "emptyDir": {} });
    }
    let template = json!({ "metadata": { "annotations": delays, "labels": { "app": name } }, "spec": pod });
    let mut spec = json!({ "template": { "spec": { "replicas": replicas, "template": template } } });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    let version = format!("{group}/v1alpha1");
    json!({ "apiVersion": version, "kind": "ExtendedStatefulSet", "metadata": { "name": name }, "spec": spec })
}

async fn create(api: &Api<DynamicObject>, objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let created = objects.into_iter().map(|object| async move {
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("create an ExtendedStatefulSet")?;
        anyhow::Ok(())
    });
    futures::stream::iter(created).buffer_unordered(PARALLEL_WRITES).try_collect().await
}

/// Waits until a pod of an object is active, which has passed its probe.
async fn until_active(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    until_ready(api, name).await?;
    let active = try_until(DEADLINE, format!("a pod of {name} to be active"), || async {
        let object = api.get(name).await?;
        if object.data.pointer("/status/activePod").is_some() {
            Ok(())
        } else {
            Err(NotYet::saw(&object.data))
        }
    });
    Ok(active.await?)
}

/// Waits until an object has observed its spec and is Ready.
async fn until_ready(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    let ready = try_until(DEADLINE, format!("{name} to be Ready"), || async {
        let object = api.get(name).await?;
        let status = |pointer: &str| object.data.pointer(&format!("/status/{pointer}")).cloned();
        let is_observed =
            status("observedGeneration").and_then(|at| at.as_i64()) == object.metadata.generation;
        let is_ready = status("conditions/0/status") == Some(json!("True"));
        if is_observed && is_ready { Ok(()) } else { Err(NotYet::saw(&object.data)) }
    });
    Ok(ready.await?)
}
