//! Measures the embedded cluster: how much memory ten thousand pods take, and how long a simulated hour.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Request;
use http_body_util::BodyStream;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use sts_plus_cluster::machinery::service::{Server, Settings as ServerSettings};
use sts_plus_cluster::nodes::{Config, HollowNodes, Node, Placement};
use sts_plus_cluster::{Clock, controllers};
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{self, Controllers, Settings};
use sts_plus_operator::outbound::{Reach, Tcp};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::surroundings::{Clock as OperatorClock, Surroundings};
use sts_plus_planner::statefulset::world::Features;
use sts_plus_simulate::cast::{Cast, template};
use sts_plus_simulate::faults::{Fault, Plan};
use sts_plus_simulate::hand::Hand;
use sts_plus_simulate::run::Script;
use sts_plus_simulate::trace::Trace;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::Service;

/// Sets of the first part.
const SETS: u64 = 1000;
const PODS: u64 = 10;
/// Who watches all pods meanwhile.
const WATCHERS: usize = 10;
/// How long that may take, in virtual time.
const FILLED: Duration = Duration::from_hours(2);
/// How many seeds the hour is measured with.
const HOURS: u64 = 5;
const HOUR: Duration = Duration::from_hours(1);

fn main() -> ExitCode {
    println!("| what | measured | goal |\n|---|---|---|");
    let (bare, full, pods, took) = match memory() {
        Ok(measured) => measured,
        Err(error) => {
            eprintln!("bench-cluster: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "| resident with {pods} pods in {SETS} sets and {WATCHERS} watchers, operator and nodes included | {full:.0} MiB ({bare:.0} MiB empty, filled in {} s) | 500 MiB |",
        took.as_secs()
    );
    let mut hours: Vec<_> = (1..=HOURS).map(hour).collect();
    hours.sort();
    if let Some((_, seed, failures)) = hours.iter().find(|(.., failures)| !failures.is_empty()) {
        eprintln!("bench-cluster: seed {seed}: {failures:?}");
        return ExitCode::FAILURE;
    }
    let millis = |at: usize| hours.get(at).map_or(0, |hour| hour.0.as_millis());
    println!(
        "| a simulated hour of a 3 x 20 rollout with faults, median of {HOURS} seeds | {} ms ({} to {}) | 2000 ms |",
        millis(hours.len() / 2),
        millis(0),
        millis(hours.len() - 1)
    );
    ExitCode::SUCCESS
}

/// Resident memory of this process in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
    kib / 1024.0
}

/// Memory before and after filling, the pods that are Ready then, and how long it took.
fn memory() -> Result<(f64, f64, usize, Duration), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let began = Instant::now();
    let (bare, full, pods) = runtime.block_on(fill())?;
    Ok((bare, full, pods, began.elapsed()))
}

async fn fill() -> Result<(f64, f64, usize), Box<dyn std::error::Error>> {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse()?);
    let server = Server::new(ServerSettings::new(clock))?;
    let bare = resident();
    let mut tasks = JoinSet::new();
    tasks.spawn(controllers::run(server.clone()));
    for _ in 0..WATCHERS {
        let mut server = server.clone();
        tasks.spawn(async move {
            loop {
                let Ok(request) = Request::get("/api/v1/pods?watch=true").body(Body::empty()) else { return };
                let Ok(answer) = server.call(request).await;
                let mut lines = BodyStream::new(answer.into_body());
                while lines.next().await.is_some() {}
            }
        });
    }
    let client = Client::new(server.clone(), "default");
    let nodes = Config {
        nodes: (0..3).map(|number| Node::new(format!("node-{number}"), format!("zone-{number}"))).collect(),
        placement: Placement::Clusters,
        clock: Some(clock),
        ..Config::default()
    };
    let nodes = HollowNodes::new(client.clone(), nodes).start();
    let settings = Settings {
        scope: Scope::Cluster,
        controllers: Controllers::all(),
        features: Features::default(),
        image: None,
        reach: Reach::default(),
        hooks: Hooks::default(),
        dial: std::sync::Arc::new(Tcp),
        surroundings: Surroundings { clock: OperatorClock::at(clock.timestamp()), ..Surroundings::default() },
        lease: None,
        listener: None,
        webhook: None,
        instance: "bench".to_owned(),
    };
    let (_stop, stopped) = watch::channel(false);
    tasks.spawn(operator::run(client, settings, Metrics::new(), stopped));
    let hand = Hand::new(&server, &Trace::new(false), "bench");
    for number in 0..SETS {
        let name = format!("set-{number}");
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": name },
            "spec": {
                "replicas": PODS,
                "serviceName": name,
                "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": { "app": name } },
                "template": template(&name, 1, None),
            },
        });
        hand.create("statefulsets", &set).await;
    }
    let end = tokio::time::Instant::now() + FILLED;
    let mut ready = 0;
    while ready < SETS * PODS && tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(10)).await;
        ready = 0;
        for number in 0..SETS {
            let set = hand.get("statefulsets", &format!("set-{number}")).await;
            ready += set.pointer("/status/readyReplicas").and_then(serde_json::Value::as_u64).unwrap_or(0);
        }
    }
    let full = resident();
    nodes.stop().await;
    tasks.shutdown().await;
    Ok((bare, full, usize::try_from(ready)?))
}

/// How long a simulated hour takes, and what was wrong with it.
fn hour(seed: u64) -> (Duration, u64, Vec<String>) {
    let on = [
        Fault::Crash,
        Fault::LostAnswer,
        Fault::Error,
        Fault::LaggingWatch,
        Fault::BrokenWatch,
        Fault::SickPods,
    ];
    let mut plan = Plan::of(seed, on.into_iter().collect());
    plan.chaos = HOUR;
    let script = Script { plan, cast: Cast::three_zones(20), ..Script::of(seed) };
    let began = Instant::now();
    let report = script.run();
    // The run goes on until it is at its goal and silent: what the hour takes is its share.
    let share = HOUR.as_secs_f64() / report.took.as_secs_f64().max(HOUR.as_secs_f64());
    (began.elapsed().mul_f64(share), seed, report.failures)
}
