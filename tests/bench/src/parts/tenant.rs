//! (t) What one tenant can do to the operator's memory: many sets of one group, many rollouts of one set, and a Prometheus
//! that answers with more than anybody asked for.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_harness::Identity;
use sts_plus_harness::wait::{NotYet, try_until, try_until_stable};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::bed::{Bed, FIELD, HOME};
use crate::operator::Operator;
use crate::say;
use crate::table::{Row, Section, mebibytes, milliseconds};

/// In KiB: the memory limit of the chart, beyond which the container is killed.
const LIMIT: u64 = 128 * 1024;
const SETS: usize = 2_000;
const ROLLOUTS: usize = 10_000;
/// Rollouts that ask at the same time.
const ASKING: usize = 16;
/// In bytes: what the answers would be if they were read to their end.
const ANSWER: usize = 4 * 1024 * 1024;
/// Requests that the tenant makes at once.
const PARALLEL_WRITES: usize = 32;
/// An operator that has not asked for anything for this long has nothing to do.
const QUIET: Duration = Duration::from_secs(3);
/// Creating ten thousand objects takes two or three minutes on two idle cores.
const DEADLINE: Duration = Duration::from_mins(20);

pub(crate) async fn measure(bed: &mut Bed, binary: &Path) -> Result<Section> {
    let client = bed.client();
    let identity = bed.operator_identity("tenants").await?;
    let arguments = ["--lease-namespace", HOME, "--allow-loopback"];
    let operator = Operator::start_with(bed, binary, &identity, &arguments)?;
    operator.ready().await?;
    let mut rows = Vec::new();

    say!("(t) {SETS} sets of one group");
    create(&sets(&client), (0..SETS).map(empty_set)).await?;
    at_rest(bed, &identity).await?;
    rows.push(peak(&format!("{SETS} sets without replicas, one group, equal labels"), &operator)?);

    say!("(t) {ROLLOUTS} rollouts of one set");
    let nobody = "http://127.0.0.1:9/";
    let many = (0..ROLLOUTS).map(|number| rollout(&format!("many-{number}"), "set-0", nobody));
    create(&rollouts(&client), many).await?;
    at_rest(bed, &identity).await?;
    rows.push(peak(&format!("besides, {ROLLOUTS} rollouts that name one set"), &operator)?);

    say!("(t) the deletion of those rollouts");
    let began = Instant::now();
    delete_all(&rollouts(&client)).await?;
    let took = milliseconds(began.elapsed());
    rows.push(Row::plain("their deletion, until the last is gone", took, ""));
    rows.push(peak("until the last of them is gone", &operator)?);

    say!("(t) {ASKING} rollouts with answers of {ANSWER} bytes");
    create(&sets(&client), (0..ASKING).map(asking_set)).await?;
    let mut servers = JoinSet::new();
    for (round, answer) in answers().into_iter().enumerate() {
        until_ready(&sets(&client)).await?;
        let url = serve(&mut servers, answer).await?;
        let all = (0..ASKING).map(|number| rollout(&asking(number), &asking(number), &url));
        create(&rollouts(&client), all).await?;
        until_all(&rollouts(&client), "status/waitingFor").await?;
        for number in 0..ASKING {
            let image = json!([{ "name": "main", "image": format!("app:{round}") }]);
            let patch = json!({ "spec": { "template": { "spec": { "containers": image } } } });
            sets(&client).patch(&asking(number), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        until_all(&rollouts(&client), "status/rollingPodStatus/lastCheckTime").await?;
        delete_all(&rollouts(&client)).await?;
    }
    rows.push(peak(&format!("besides, {ASKING} checks at once with answers of 4 MiB"), &operator)?);
    Ok(Section::of("t", rows))
}

/// Waits until the operator has asked for nothing for a while but its lease and events, which are paced: ten thousand of them
/// take a quarter of an hour.
async fn at_rest(bed: &Bed, identity: &Identity) -> Result<()> {
    let rest = try_until_stable(DEADLINE, QUIET, "the operator to be at rest", || async {
        let requests = bed.plane.requests(identity)?;
        let counted = |resource: &str| !matches!(resource, "leases" | "events");
        Ok(requests.iter().filter(|request| counted(&request.resource)).count())
    });
    rest.await?;
    Ok(())
}

fn peak(measure: &str, operator: &Operator) -> Result<Row> {
    let peak = operator.memory()?.peak;
    let measure = format!("peak resident memory: {measure}");
    say!("(t) {measure}: {}", mebibytes(peak));
    let goal = "at most 128 MiB, the chart's limit";
    Ok(Row::limited(&measure, mebibytes(peak), goal, peak <= LIMIT, ""))
}

fn kind(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), FIELD, &kind)
}

fn sets(client: &Client) -> Api<DynamicObject> {
    kind(client, "apps", "v1", "StatefulSet")
}

fn rollouts(client: &Client) -> Api<DynamicObject> {
    kind(client, "sts.plus", "v1alpha1", "PhasedRollout")
}

/// A set that selects what all the others select.
fn empty_set(number: usize) -> Value {
    set(&format!("set-{number}"), 0, "same", &json!({ keys::ROLLOUT_GROUP: "one" }))
}

fn asking(number: usize) -> String {
    format!("asks-{number}")
}

fn asking_set(number: usize) -> Value {
    set(&asking(number), 1, &asking(number), &json!({}))
}

fn set(name: &str, replicas: usize, app: &str, labels: &Value) -> Value {
    let selected = json!({ "app": app });
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": replicas,
            "serviceName": app,
            "selector": { "matchLabels": selected },
            "template": {
                "metadata": { "labels": selected },
                "spec": { "containers": [{ "name": "main", "image": "app:v1" }] },
            },
        },
    })
}

/// A rollout whose first gate asks at once.
fn rollout(name: &str, set: &str, url: &str) -> Value {
    json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "PhasedRollout",
        "metadata": { "name": name },
        "spec": {
            "targetRef": set,
            "check": { "periodSeconds": 1, "successThreshold": 1, "query": { "url": url, "expr": "up" } },
        },
    })
}

/// Answers that cost a parser many times their size, and one that never comes to an end.
fn answers() -> [Vec<u8>; 3] {
    let series = |series: &str| {
        let all = vec![series; ANSWER / (series.len() + 1)].join(",");
        format!(r#"{{"status":"success","data":{{"result":[{all}],"resultType":"vector"}}}}"#).into_bytes()
    };
    [series("[0]"), series(r#"{"metric":{"a":"b"},"value":[0,"1"]}"#), vec![b'['; ANSWER]]
}

/// Answers every request with this; its address.
async fn serve(servers: &mut JoinSet<()>, answer: Vec<u8>) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    servers.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            // Who goes away before the end is whom we measure.
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    Ok(url)
}

async fn create(api: &Api<DynamicObject>, objects: impl Iterator<Item = Value>) -> Result<()> {
    let created = objects.map(|object| async move {
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("create an object of the tenant")?;
        anyhow::Ok(())
    });
    futures::stream::iter(created).buffer_unordered(PARALLEL_WRITES).try_collect().await
}

async fn delete_all(api: &Api<DynamicObject>) -> Result<()> {
    // One by one: the server gives up on a whole collection of ten thousand after a minute.
    let all = api.list_metadata(&ListParams::default()).await?;
    let names = all.items.into_iter().filter_map(|object| object.metadata.name);
    let deleted =
        names.map(|name| async move { api.delete(&name, &DeleteParams::default()).await.map(|_| ()) });
    futures::stream::iter(deleted).buffer_unordered(PARALLEL_WRITES).try_collect::<()>().await?;
    let left = try_until(DEADLINE, "all rollouts to be gone", || async {
        let page = api.list_metadata(&ListParams::default().limit(1)).await?;
        let others = page.metadata.remaining_item_count.unwrap_or_default();
        if page.items.is_empty() { Ok(()) } else { Err(NotYet::saw(others + 1)) }
    });
    Ok(left.await?)
}

/// Waits until the sets whose rollouts ask have their pods: what changes before that is no rollout.
async fn until_ready(sets: &Api<DynamicObject>) -> Result<()> {
    for number in 0..ASKING {
        let ready = try_until(DEADLINE, format!("the pod of {}", asking(number)), || async {
            let set = sets.get(&asking(number)).await?;
            let status = |field: &str| set.data.pointer(&format!("/status/{field}"));
            let observed = status("observedGeneration").and_then(Value::as_i64) == set.metadata.generation;
            let updated = status("currentRevision") == status("updateRevision");
            let ready = status("readyReplicas") == Some(&json!(1));
            if observed && updated && ready { Ok(()) } else { Err(NotYet::saw(&set.data)) }
        });
        ready.await?;
    }
    Ok(())
}

/// Waits until all rollouts have this in their status.
async fn until_all(api: &Api<DynamicObject>, field: &str) -> Result<()> {
    let there = try_until(DEADLINE, format!("{field} of all rollouts"), || async {
        let all = api.list(&ListParams::default()).await?;
        let pointer = format!("/{field}");
        let without = all.iter().find(|rollout| rollout.data.pointer(&pointer).is_none());
        without.map_or(Ok(()), |rollout| Err(NotYet::saw(&rollout.data)))
    });
    Ok(there.await?)
}
