//! The chart grants what the operator uses, and nothing else: the rules against the API server's own record, over
//! servers that stream lists and servers that do not, lost answers, a repeated event, a standby, the life of a set, those of
//! ExtendedStatefulSets and that of a ScalingPolicy.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

mod extended;
mod scaling;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_harness::Assets;
use sts_plus_harness::faults::{Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{Controllers, Settings, run};
use sts_plus_operator::outbound::{Reach, Tcp};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::lease;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::rights::FIRST_RETRY_AFTER;
use sts_plus_operator::shell::surroundings::Surroundings;
use sts_plus_planner::statefulset::world::Features;
use sts_plus_scenarios::cluster::{Account, Cluster, Request};
use sts_plus_scenarios::fixture::{Template, three_zones};
use sts_plus_scenarios::gated::{Gated, Rollout, Says, Set};
use sts_plus_scenarios::native::act::Kind;
use sts_plus_scenarios::native::{self, Act, manifest, ours, pods};
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::real::RealCluster;
use sts_plus_scenarios::rules;
use sts_plus_scenarios::scene::Scene;
use sts_plus_scenarios::stale::stale;
use sts_plus_scenarios::webhook::Admitted;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A verb on a resource.
type Use = (String, String);

/// A write that the watch does not show is read after 30 s; five times that only bounds hanging.
const READ_DEADLINE: Duration = Duration::from_secs(150);

/// Never asked for by themselves: the admission plugin OwnerReferencesPermissionEnforcement, which this API server does not
/// run, looks for the permission when an object names such an owner.
const LOOKED_FOR_BY_ADMISSION: [&str; 3] =
    ["statefulsets/finalizers", "pods/finalizers", "extendedstatefulsets/finalizers"];

/// Kinds that the default controllers watch and that the least role does not mention.
const UNKNOWN_TO_THE_LEAST: [&str; 4] =
    ["phasedrollouts", "extendedstatefulsets", "scalingpolicies", "services"];

/// What is created first in each of these collections gets lost on its way to the server, so that only a read can tell
/// what became of it.
const LOST: [&str; 3] = ["pods", "persistentvolumeclaims", "controllerrevisions"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    rustls::crypto::ring::default_provider().install_default().ok();
    let name = "the_chart_grants_exactly_the_verbs_that_are_used";
    let trial = Trial::ignorable_test(name, || match Assets::find() {
        Ok(assets) => compare(&assets),
        Err(missing) => missing.verdict(),
    });
    let least =
        Trial::ignorable_test(
            "the_least_role_is_enough_to_roll_a_group_at_full_speed",
            || match Assets::find() {
                Ok(assets) => Ok(roll_with_the_least_role(&assets)),
                Err(missing) => missing.verdict(),
            },
        );
    libtest_mimic::run(&arguments, vec![trial, least]).exit_code()
}

/// The Role that rollout-operator documents, and the least that a cautious administrator grants.
fn least_role() -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    vec![
        rule("", "pods", &["list", "get", "watch", "delete"]),
        rule("apps", "statefulsets", &["list", "get", "watch"]),
        rule("apps", "statefulsets/status", &["update"]),
    ]
}

fn roll_with_the_least_role(assets: &Assets) -> Completion {
    let runtime = Runtime::new().unwrap();
    let cluster: Arc<dyn Cluster> = Arc::new(runtime.block_on(RealCluster::start(assets, true)).unwrap());
    let groups_only = Controllers::named(&["rollout-group"]).unwrap();
    runtime.block_on(least(&cluster, "least-role", groups_only));
    runtime.block_on(least(&cluster, "least-role-by-default", Controllers::default()));
    Completion::Completed
}

/// In one namespace and without a lease: every pod is deleted once, the status names the new revision, and what is not
/// permitted is asked for once for each set and then as often as a denied right is tried again, not in each pass or for each
/// pod. The kinds that may not be listed keep nobody waiting.
async fn least(cluster: &Arc<dyn Cluster>, name: &str, controllers: Controllers) {
    let is_default = controllers.registrations().iter().any(|one| one.name() == "phased-rollout");
    let mut scene = Scene::new(cluster, name).await;
    scene.lacks_permission = true;
    let zones = three_zones(3);
    scene.given(&zones).await;
    let account = scene.account_with("operator", least_role()).await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings =
        Settings { controllers, lease: None, listener: Some(listener), ..settings(&scene.namespace) };
    let (stop, stopped) = watch::channel(false);
    let metrics = Metrics::new();
    let begin = Instant::now();
    let operator = tokio::spawn(run(account.client.clone(), settings, metrics.clone(), stopped));
    scene.change(&zones, &Template::new("v2")).await;
    scene.served(&zones, "v2").await;
    scene
        .until("the revisions to be promoted", |view| {
            zones.iter().try_for_each(|zone| {
                let set = view.sets.get(zone.name());
                let promoted = set.is_some_and(|set| set.current_revision == set.update_revision);
                if promoted { Ok(()) } else { Err(format!("{set:?}")) }
            })
        })
        .await;
    assert_eq!(ready(address).await, "leading");
    let mut missing = vec![("patch", "statefulsets"), ("patch", "statefulsets/status"), ("create", "events")];
    if is_default {
        missing.extend(UNKNOWN_TO_THE_LEAST.map(|kind| ("watch", kind)));
    }
    for (verb, resource) in missing {
        let labels = format!("verb=\"{verb}\",resource=\"{resource}\",namespace=\"{}\"", scene.namespace);
        let line = format!("sts_plus_missing_permissions{{{labels}}} 1");
        // Events are sent beside the rollout.
        until(DEADLINE, &line, || async {
            let page = metrics.encode();
            let is_there = page.lines().any(|known| known == line);
            is_there.then_some(()).ok_or_else(|| NotYet::saw(page))
        })
        .await;
    }
    stop.send_replace(true);
    operator.await.unwrap();
    let retries = retries_within(begin.elapsed());

    let requests = scene.requests().await;
    let mut forbidden: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // A kind that may not be listed is asked for in a rhythm of its own.
    let written = |request: &&Request| {
        request.code == 403 && !UNKNOWN_TO_THE_LEAST.contains(&request.resource.as_str())
    };
    for request in requests.iter().filter(written) {
        *forbidden.entry((&request.verb, &request.resource)).or_default() += 1;
    }
    for (right, times) in &forbidden {
        let at_most = zones.len() + retries;
        assert!(
            *times <= at_most,
            "{right:?} was asked for {times} times, at most {at_most} are right: {requests:#?}"
        );
    }
    let promoted = requests.iter().filter(|request| request.verb == "update" && request.wrote()).count();
    assert_eq!(promoted, zones.len(), "{requests:#?}");
    assert_eq!(scene.finish().await, 9);
}

/// How often a right that is denied from the start is tried again within this time: after a pause that doubles.
fn retries_within(time: Duration) -> usize {
    let pauses = std::iter::successors(Some(FIRST_RETRY_AFTER), |pause| Some(*pause * 2));
    let due = pauses.scan(Duration::ZERO, |due, pause| {
        *due += pause;
        Some(*due)
    });
    due.take_while(|due| *due <= time).count()
}

/// What `/ready` says, which must be a success.
async fn ready(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.lines().last().unwrap_or_default().to_owned()
}

fn compare(assets: &Assets) -> Result<Completion, Failed> {
    let granted = [
        rules::by_default(),
        rules::nodes(),
        rules::exec(),
        rules::statefulset(),
        rules::home(),
        rules::secrets(),
        rules::followed_secrets(),
        rules::webhook(),
        rules::webhook_secret(),
    ]
    .concat();
    let granted = granted.iter().flat_map(uses);
    let granted: BTreeSet<Use> =
        granted.filter(|(_, resource)| !LOOKED_FOR_BY_ADMISSION.contains(&resource.as_str())).collect();
    let mut used = BTreeSet::new();
    for streaming_lists in [true, false] {
        let runtime = Runtime::new().unwrap();
        let cluster: Arc<dyn Cluster> =
            Arc::new(runtime.block_on(RealCluster::start(assets, streaming_lists)).unwrap());
        used.extend(runtime.block_on(gated_rollout(&cluster)));
        used.extend(runtime.block_on(extended::lives(&cluster)));
        used.extend(runtime.block_on(scaling::life(&cluster)));
        used.extend(runtime.block_on(admission(&cluster)));
        used.extend(runtime.block_on(group_rollout(cluster)));
    }
    let runtime = Runtime::new().unwrap();
    let cluster = runtime.block_on(RealCluster::start_without_native_and_streaming(assets)).unwrap();
    used.extend(runtime.block_on(controlled_set(&(Arc::new(cluster) as _))));
    let unused: Vec<_> = granted.difference(&used).collect();
    let missing: Vec<_> = used.difference(&granted).collect();
    if unused.is_empty() && missing.is_empty() {
        return Ok(Completion::Completed);
    }
    Err(format!("granted and never used: {unused:?}; used and not granted: {missing:?}").into())
}

fn uses(rule: &PolicyRule) -> Vec<Use> {
    let resources = rule.resources.iter().flatten();
    resources
        .flat_map(|resource| rule.verbs.iter().map(move |verb| (verb.clone(), resource.clone())))
        .collect()
}

/// A phased rollout with everything that makes the operator ask for something: a Secret, an approval that is used up, a
/// partition that somebody else writes, a watch that shows nothing, a lowered partition that gets lost, the way back, and
/// the end of the rollout object.
async fn gated_rollout(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let stage = Gated::new(cluster, "gated-permissions").await;
    let answers = stage.answers(Says::Nothing).await;
    let secrets = Api::<Secret>::namespaced(cluster.user(), &stage.namespace);
    let secret = json!({ "metadata": { "name": "prom-secret" }, "stringData": { "token": "t" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let account = stage.account("operator").await;
    let (flow, flows) = watch::channel(true);
    let lost = AtomicBool::new(false);
    let faults = Faults::new(move |call| {
        let body = String::from_utf8_lossy(&call.body);
        let lowers = call.method == "PATCH" && body.contains("\"partition\":1");
        if lowers && !lost.swap(true, Ordering::Relaxed) { Fault::Refuse } else { Fault::None }
    });
    let client = faults.client(&stale(account.client.clone(), "phasedrollouts", flows));
    let operator = stage.operator_through(&client);
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({
        "approval": "FirstPod",
        "onFailure": "Rollback",
        "check": { "failureThreshold": 1, "query": { "secretRef": "prom-secret" } },
    }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    stage.partition("web", 1, "somebody").await;
    stage.event("web", "PartitionRestored", "somebody has set the partition to 1").await;

    // What the operator writes about the new revision is not shown by the watch, so it is read in the end.
    flow.send_replace(false);
    let revision = stage.change_and_observe("web", &Template::new("v2").held_at(1)).await;
    until(READ_DEADLINE, "the PhasedRollout to be read", || async {
        let requests = cluster.requests(&account)?;
        let read =
            requests.iter().any(|request| request.verb == "get" && request.resource == "phasedrollouts");
        read.then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    flow.send_replace(true);
    stage.waits_for("web", "Approval").await;
    stage.approve("web", &format!("{revision}/web-1")).await;
    stage.gate_waits_for("web", 1, "PodsToBeAvailable").await;
    answers.say(Says::something());
    stage.afflict("web-1", None).await;
    stage.phase("web", "RolledBack").await;
    stage.delete("web").await;
    operator.stop().await;
    let requests = stage.requests().await;
    stage.finish();
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

/// A certificate of the admission server that is made, announced and renewed.
async fn admission(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let stage = Admitted::new(cluster, "admission-permissions", 1).await;
    stage.trusted().await;
    let first = stage.certificates().await;
    until(DEADLINE, "another certificate", || async {
        let found = stage.certificates().await;
        if found.is_some() && found != first { Ok(()) } else { Err(NotYet::saw(found)) }
    })
    .await;
    let account = stage.account.clone();
    stage.finish().await;
    let requests = cluster.settled_requests(&account).await.unwrap();
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

/// A rollout of a group with everything that makes the operator ask for something.
async fn group_rollout(cluster: Arc<dyn Cluster>) -> BTreeSet<Use> {
    let scene = Scene::new(&cluster, "permissions").await;
    let zones = three_zones(2);
    scene.given(&zones).await;
    let account = scene.account("operator").await;
    cluster.grant(&account, Some(&scene.namespace), rules::home()).await.unwrap();

    let lost = AtomicBool::new(false);
    let faults = Faults::new(move |call| {
        let deletion = call.method == "DELETE" && call.path.contains("/pods/");
        if deletion && !lost.swap(true, Ordering::Relaxed) { Fault::Refuse } else { Fault::None }
    });
    let mut operators = JoinSet::new();
    let (stop, stopped) = watch::channel(false);
    start(&mut operators, faults.client(&account.client), &scene.namespace, &stopped);
    scene.says("zone-a", "UpToDate").await;
    start(&mut operators, account.client.clone(), &scene.namespace, &stopped);
    until(DEADLINE, "the standby to watch the lease", || async {
        let requests = cluster.requests(&account)?;
        let watched = requests.iter().any(|request| request.verb == "watch" && request.resource == "leases");
        watched.then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;

    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    for _ in 0..2 {
        scene.annotate_set("zone-b", keys::PAUSED, Some("true")).await;
        scene.says("zone-b", "Paused").await;
        scene.annotate_set("zone-b", keys::PAUSED, None).await;
        scene.says("zone-b", "UpToDate").await;
    }
    until(DEADLINE, "the repeated event to be counted", || async {
        let requests = cluster.requests(&account)?;
        let counted = requests.iter().any(|request| request.verb == "patch" && request.resource == "events");
        counted.then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    // The lease is not given up within a minute of an answer that was lost, so its renewal has to be seen.
    until(DEADLINE, "the lease to be renewed", || async {
        let requests = cluster.requests(&account)?;
        let renewed = requests.iter().any(|request| request.verb == "update" && request.resource == "leases");
        renewed.then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    stop.send_replace(true);
    while operators.join_next().await.is_some() {}
    let requests = cluster.settled_requests(&account).await.unwrap();
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

/// The life of a set with everything that makes its controller ask for something: a pod that leaves and comes
/// back, answers that get lost, claims that change hands, a template that comes back, and history that is not kept.
async fn controlled_set(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let act = Act::new(cluster, "o", "permissions", None).await;
    let account = ours::account(cluster, &act.namespace).await;
    let lost = Mutex::new(BTreeSet::new());
    let faults = Faults::new(move |call| {
        let collection = call.path.split(['?', '/']).find(|part| LOST.contains(part));
        let created = collection.filter(|_| call.method == "POST");
        let first = created.is_some_and(|kind| lost.lock().unwrap().insert(kind.to_owned()));
        if first { Fault::Refuse } else { Fault::None }
    });
    let client = faults.client(&account.client);
    let operator =
        ours::start_as(cluster, &Account { client, ..account.clone() }, &act.namespace, Features::default());
    act.create_set(&native::Set::new("web", 2).claims(&["data"])).await;
    act.settled("created", pods("web-0:v1 web-1:v1").claims("data-web-0 data-web-1")).await;
    for (app, expected) in [("other", "web-0 web-1?"), ("web", "web-0 web-1")] {
        act.merge(Kind::Pod, "web-1", json!({ "metadata": { "labels": { "app": app } } })).await;
        act.settled(app, pods(expected)).await;
    }
    let retention = manifest::retention("Retain", "Delete");
    act.respec("web", json!({ "persistentVolumeClaimRetentionPolicy": retention })).await;
    act.settled("claims owned", pods("web-0 web-1").claims("data-web-0@web data-web-1@web")).await;
    for (version, revisions) in [("v2", 2), ("v1", 2)] {
        act.update("web", version).await;
        let expected = format!("web-0:{version} web-1:{version}");
        act.settled(version, pods(&expected).revisions(revisions)).await;
    }
    act.respec("web", json!({ "revisionHistoryLimit": 0 })).await;
    act.settled("no history", pods("web-0 web-1").revisions(1)).await;
    operator.stop().await;
    let requests = cluster.settled_requests(&account).await.unwrap();
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

fn start(operators: &mut JoinSet<()>, client: Client, namespace: &str, stop: &watch::Receiver<bool>) {
    operators.spawn(run(client, settings(namespace), Metrics::new(), stop.clone()));
}

fn settings(namespace: &str) -> Settings {
    Settings {
        scope: Scope::Namespaces(vec![namespace.to_owned()]),
        controllers: Controllers::default(),
        features: Features::default(),
        image: Some("localhost/sts-plus".into()),
        reach: Reach { loopback: true, link_local: false },
        hooks: Hooks::default(),
        dial: Arc::new(Tcp),
        surroundings: Surroundings::default(),
        lease: Some(lease::Config::new(namespace, "permissions")),
        listener: None,
        webhook: None,
        instance: "permissions".to_owned(),
    }
}
