//! Measures the embedded API server beside the real one, both over HTTPS by the same client: writes in a second, and how
//! long a change takes to those who watch.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};
use sts_plus_cluster::serve::{self, Identity};
use sts_plus_harness::wait::try_until;
use sts_plus_harness::{Assets, ControlPlane, Options};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Objects that are created and updated in one go.
const OBJECTS: u32 = 2_000;
/// Who writes them at the same time.
const WRITERS: usize = 16;
/// How often both servers have their turn; the median counts.
const ROUNDS: usize = 5;
/// Who watches.
const WATCHERS: usize = 10;
/// Changes that are watched.
const CHANGES: usize = 1_000;
/// A change begins this long after the one before it: a busy cluster, not a flood.
const PACE: Duration = Duration::from_millis(5);
/// How long everything that is on its way may take.
const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::ring::default_provider().install_default().ok();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("server-speed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is written, in the order of the figures.
const WRITTEN: [&str; 4] = ["config maps created", "config maps updated", "pods created", "pods updated"];

async fn run() -> Result<()> {
    let plane = ControlPlane::start(&Assets::find()?, Options::default()).await?;
    let (stop, stopped) = watch::channel(false);
    let (ours, serving) = embedded(stopped).await?;
    let theirs = plane.admin();
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        // The one that goes first has the colder caches: they take turns.
        let (ours, theirs) = if round % 2 == 0 {
            (writes(&ours, round).await?, writes(&theirs, round).await?)
        } else {
            let theirs = writes(&theirs, round).await?;
            (writes(&ours, round).await?, theirs)
        };
        eprintln!("round {round}: {ours:.0?} and {theirs:.0?} a second");
        rounds.push((ours, theirs));
    }
    println!("| what | embedded | kube-apiserver and etcd | ratio | goal |\n|---|---|---|---|---|");
    for (at, what) in WRITTEN.iter().enumerate() {
        let of = |figure: fn(f64, f64) -> f64| {
            let pairs = rounds.iter().filter_map(|(ours, theirs)| Some((*ours.get(at)?, *theirs.get(at)?)));
            median(pairs.map(|(ours, theirs)| figure(ours, theirs)).collect())
        };
        println!(
            "| {what} a second by {WRITERS} writers, median of {ROUNDS} rounds | {:.0} | {:.0} | {:.1} | at least 3 |",
            of(|ours, _| ours),
            of(|_, theirs| theirs),
            of(|ours, theirs| ours / theirs)
        );
    }
    let (ours, theirs) = (delivery(&ours).await?, delivery(&theirs).await?);
    println!(
        "| from asking for a change until each of {WATCHERS} watchers has it, p99 (median) | {} | {} | | under 10 ms |",
        shown(ours),
        shown(theirs)
    );
    stop.send_replace(true);
    serving.await??;
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn shown(mut delays: Vec<Duration>) -> String {
    delays.sort_unstable();
    let at = |percent: usize| {
        let delay = delays.get((delays.len() * percent / 100).min(delays.len().saturating_sub(1)));
        delay.copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    format!("{:.1} ms ({:.1})", at(99), at(50))
}

/// An embedded server behind HTTPS and a client to it.
async fn embedded(
    stop: watch::Receiver<bool>,
) -> Result<(Client, tokio::task::JoinHandle<Result<(), serve::ServeError>>)> {
    let server = Server::new(Settings::new(Clock::at(Timestamp::now())))?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let identity = Identity::generate(&[])?;
    let kubeconfig = Kubeconfig::from_yaml(&serve::kubeconfig(&url, &identity))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let serving = tokio::spawn(async move { serve::serve(server, listener, &identity, stop).await });
    Ok((Client::try_from(config)?, serving))
}

/// A namespace of its own, in which pods can be made.
async fn namespace(client: &Client, name: String) -> Result<String> {
    let space = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &space).await?;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &name);
    try_until(DEADLINE, "an account for pods", || async { Ok(accounts.get("default").await?) }).await?;
    Ok(name)
}

/// Writes in a second, as [`WRITTEN`] has them.
async fn writes(client: &Client, round: usize) -> Result<[f64; 4]> {
    let namespace = namespace(client, format!("speed-{round}")).await?;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let map = json!({ "data": { "text": "x".repeat(500) } });
    let container = json!({
        "name": "main", "image": "store:1", "ports": [{ "containerPort": 80 }],
        "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
        "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
        "readinessProbe": { "httpGet": { "port": 80 } },
    });
    // To a node that is not there, so that nobody schedules or starts it.
    let pod = json!({ "spec": { "nodeName": "nowhere", "containers": [container] } });
    let [created, updated] = [create(&maps, &map).await?, update(&maps).await?];
    let [pods_created, pods_updated] = [create(&pods, &pod).await?, update(&pods).await?];
    Ok([created, updated, pods_created, pods_updated])
}

/// Has all objects written by all writers; returns how many in a second.
async fn all<F: Future<Output = Result<()>>>(write: impl Fn(u32) -> F) -> Result<f64> {
    let next = AtomicU32::new(0);
    let began = Instant::now();
    try_join_all((0..WRITERS).map(|_| async {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= OBJECTS {
                return anyhow::Ok(());
            }
            write(number).await?;
        }
    }))
    .await?;
    Ok(f64::from(OBJECTS) / began.elapsed().as_secs_f64())
}

async fn create<K>(api: &Api<K>, object: &Value) -> Result<f64>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    all(|number| async move {
        let metadata = json!({ "name": format!("object-{number}"), "labels": { "app": "speed" } });
        let mut object = object.clone();
        object.as_object_mut().context("an object")?.insert("metadata".to_owned(), metadata);
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    })
    .await
}

async fn update<K>(api: &Api<K>) -> Result<f64>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    all(|number| async move {
        let patch = json!({ "metadata": { "annotations": { "touched": number.to_string() } } });
        api.patch(&format!("object-{number}"), &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    })
    .await
}

/// How long each change took to each watcher, from before it was asked for.
async fn delivery(client: &Client) -> Result<Vec<Duration>> {
    let namespace = namespace(client, "delivery".to_owned()).await?;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let map =
        |number: usize| json!({ "metadata": { "name": "watched" }, "data": { "n": number.to_string() } });
    maps.create(&PostParams::default(), &serde_json::from_value(map(0))?).await?;
    let from = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let (maps, from) = (maps.clone(), from.clone());
        watchers.spawn(async move {
            let mut arrivals = Vec::with_capacity(CHANGES);
            let mut events = maps.watch(&WatchParams::default(), &from).await?.boxed();
            while arrivals.len() < CHANGES {
                let event = events.try_next().await?.context("a watch ended")?;
                if matches!(&event, WatchEvent::Modified(map) if map.name_any() == "watched") {
                    arrivals.push(Instant::now());
                }
            }
            anyhow::Ok(arrivals)
        });
    }
    // A watch may begin only after the first changes: those are left out below.
    let mut asked = Vec::with_capacity(CHANGES);
    let mut pace = tokio::time::interval(PACE);
    for number in 1..=CHANGES {
        pace.tick().await;
        asked.push(Instant::now());
        maps.patch("watched", &PatchParams::default(), &Patch::Merge(map(number))).await?;
    }
    let arrivals = tokio::time::timeout(DEADLINE, watchers.join_all()).await.context("watchers lag")?;
    let mut delays = Vec::new();
    for arrivals in arrivals {
        let arrivals = arrivals?;
        ensure!(arrivals.len() == asked.len(), "a watcher has seen {} changes", arrivals.len());
        let each = asked.iter().zip(&arrivals).map(|(asked, arrived)| arrived.duration_since(*asked));
        delays.extend(each.skip(CHANGES / 10));
    }
    Ok(delays)
}
