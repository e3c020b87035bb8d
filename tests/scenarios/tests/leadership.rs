//! Replicas of the real binary: whoever leads may stop, die or freeze in the middle of a rollout, and the rollout
//! goes on as if nothing had happened.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use rustix::process::Signal;
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, Process};
use sts_plus_scenarios::cluster::{Account, Cluster, Request};
use sts_plus_scenarios::fixture::{Template, Zone, three_zones};
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::real::RealCluster;
use sts_plus_scenarios::scene::Scene;
use sts_plus_scenarios::{replica, rules};
use tokio::runtime::Runtime;

type Story = fn(Pair) -> BoxFuture<'static, ()>;

const STORIES: [(&str, Story); 4] = [
    ("a_leader_that_is_asked_to_stop_hands_over", |pair| Box::pin(asked_to_stop(pair))),
    ("a_leader_that_is_killed_is_succeeded_when_its_lease_runs_out", |pair| Box::pin(killed(pair))),
    ("a_leader_that_was_frozen_past_its_lease_writes_nothing_more", |pair| Box::pin(frozen(pair))),
    ("a_single_operator_that_is_killed_goes_on_when_it_is_started_again", |pair| Box::pin(restarted(pair))),
];

/// How many pods are gone before the leader is: enough to be in the middle.
const BEFORE: usize = 2;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(STORIES.len());
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = Arc::new(Runtime::new().unwrap());
    let cluster: Result<Arc<dyn Cluster>, _> = Assets::find()
        .map(|assets| Arc::new(runtime.block_on(RealCluster::start(&assets, true)).unwrap()) as _);
    let cluster = Arc::new(cluster);
    let trials = STORIES.map(|(name, story)| {
        let (cluster, runtime) = (Arc::clone(&cluster), Arc::clone(&runtime));
        Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
            match &*cluster {
                Ok(cluster) => runtime.block_on(async { story(Pair::new(cluster, name).await).await }),
                Err(missing) => return missing.verdict(),
            }
            Ok(Completion::Completed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.into());
    drop(cluster);
    conclusion.exit_code()
}

/// A scene with two accounts for two replicas.
struct Pair {
    scene: Scene,
    zones: Vec<Zone>,
    accounts: [Account; 2],
    logs: tempfile::TempDir,
}

/// The names of the replicas' pods.
const PODS: [&str; 2] = ["replica-one", "replica-two"];

impl Pair {
    async fn new(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        let scene = Scene::new(cluster, name).await;
        let zones = three_zones(3);
        scene.given(&zones).await;
        let accounts = [scene.account(PODS[0]).await, scene.account(PODS[1]).await];
        for account in &accounts {
            cluster.grant(account, Some(&scene.namespace), rules::home()).await.unwrap();
        }
        Self { scene, zones, accounts, logs: tempfile::tempdir().unwrap() }
    }

    fn start(&self, replica: usize, elects: bool) -> Process {
        replica::start(&self.scene, &self.accounts[replica], PODS[replica], elects, self.logs.path()).unwrap()
    }

    /// Waits until somebody other than `not` leads, and says who.
    async fn leader(&self, not: Option<usize>) -> usize {
        let leases = Api::<Lease>::namespaced(self.scene.cluster.user(), &self.scene.namespace);
        until(DEADLINE, "a leader", || async {
            let lease = leases.get(keys::LEASE).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let leads = |replica: &usize| holder.starts_with(PODS[*replica]) && Some(*replica) != not;
            (0..PODS.len()).find(leads).ok_or_else(|| NotYet::saw(holder))
        })
        .await
    }

    /// A rollout that is in the middle.
    async fn roll(&self, version: &str) {
        self.scene.change(&self.zones, &Template::new(version).ready_after("100ms")).await;
        self.scene
            .until("the rollout to be in the middle", |view| {
                let gone = view.deletions.len();
                if gone >= BEFORE { Ok(()) } else { Err(format!("{gone} pods are gone")) }
            })
            .await;
    }

    fn pods(&self) -> usize {
        3 * self.zones.len()
    }
}

async fn asked_to_stop(pair: Pair) {
    let mut replicas = [pair.start(0, true), pair.start(1, true)];
    let leader = pair.leader(None).await;
    pair.roll("v2").await;
    replicas[leader].signal(Signal::TERM).unwrap();
    assert!(replicas[leader].wait(DEADLINE).unwrap().success(), "{}", replicas[leader].log_tail());
    pair.scene.rolled(&pair.zones, "v2").await;
    assert_eq!(pair.leader(None).await, 1 - leader);
    replicas[1 - leader].stop();
    let pods = pair.pods();
    pair.scene.finish(pods).await;
}

async fn killed(pair: Pair) {
    let mut replicas = [pair.start(0, true), pair.start(1, true)];
    let leader = pair.leader(None).await;
    pair.roll("v2").await;
    replicas[leader].kill();
    pair.scene.rolled(&pair.zones, "v2").await;
    assert_eq!(pair.leader(None).await, 1 - leader);
    replicas[1 - leader].stop();
    let pods = pair.pods();
    pair.scene.finish(pods).await;
}

async fn frozen(pair: Pair) {
    let mut replicas = [pair.start(0, true), pair.start(1, true)];
    let leader = pair.leader(None).await;
    pair.roll("v2").await;
    replicas[leader].signal(Signal::STOP).unwrap();
    pair.scene.rolled(&pair.zones, "v2").await;
    pair.leader(Some(leader)).await;

    let woken_at = Timestamp::now();
    replicas[leader].signal(Signal::CONT).unwrap();
    until(DEADLINE, "the woken one to look at the lease", || async {
        let requests = pair.scene.cluster.requests(&pair.accounts[leader])?;
        let awake = requests.iter().any(|request| request.at > woken_at && request.resource == "leases");
        awake.then_some(()).ok_or_else(|| NotYet::saw(requests.last().cloned()))
    })
    .await;
    // It is awake and there is work: all of it is done by the other.
    pair.scene.change(&pair.zones, &Template::new("v3")).await;
    pair.scene.rolled(&pair.zones, "v3").await;
    replicas[leader].stop();
    replicas[1 - leader].stop();
    let requests = pair.scene.cluster.settled_requests(&pair.accounts[leader]).await.unwrap();
    let written: Vec<_> =
        requests.iter().filter(|request| request.at > woken_at && request.wrote()).collect();
    // What was on its way to the server when the process froze may arrive when it wakes, once: at the pods its
    // precondition fails, since the other has replaced them.
    let of_pods = |request: &&&Request| request.deleted_pod();
    assert!(written.len() <= 1 && !written.iter().any(|request| of_pods(&request)), "{written:#?}");
    let pods = 2 * pair.pods();
    pair.scene.finish(pods).await;
}

async fn restarted(pair: Pair) {
    let mut operator = pair.start(0, false);
    pair.roll("v2").await;
    operator.kill();
    let mut operator = pair.start(0, false);
    pair.scene.rolled(&pair.zones, "v2").await;
    operator.stop();
    let pods = pair.pods();
    pair.scene.finish(pods).await;
}
