//! sts-plus as its users have it: installed with the chart, in pods of its own, under its own account.

use std::{collections::BTreeSet, path::Path};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectList},
};
use serde_json::{Value, json};
use sts_plus_harness::{
    RealNode, checkout,
    output::output,
    wait::{NotYet, until},
};

use crate::{
    DEADLINE,
    fleet::{Fleet, REPLICAS, ZONES, is_ready},
    stages::Stages,
    workload::{CONTAINER, fetch, image_name, set, versions},
};

pub(crate) const IMAGE: &str = "localhost/sts-plus:test";
const CHART: &str = "charts/sts-plus";
pub(crate) const HOME: &str = "sts-plus";
/// The kind that the chart brings along.
pub(crate) const KIND: &str = "phasedrollouts.sts.plus";
const DEMO: &str = "demo";
const METRICS_PORT: u16 = 8001;
const COPIES: usize = 2;
/// The reasons of the events on a set that is rolled after others.
const STORY: [&str; 3] = ["WaitingForTurn", "Rolling", "UpToDate"];
const STATUS: &str = "sts.plus/rollout-status";

pub(crate) async fn three_zones(node: &RealNode, sts_plus: &Path) {
    let mut stages = Stages::begin("sts-plus");
    install(node).await;
    stages.end("installed with the chart, both copies Ready");
    create_zones(node).await;
    stages.end("three zones of two pods Ready");

    roll_to(node, "v2").await;
    stages.end("rolled to v2, one zone at a time");
    annotations_and_status_agree(node, sts_plus).await;
    stages.end("annotations and `sts-plus status` say UpToDate");
    events_tell_the_story(node).await;
    let leader = leader(node).await;
    stages.end("events and metrics show it");

    node.kubectl(&["-n", HOME, "delete", "pod", &leader, "--wait=false"]).await.unwrap();
    roll_to(node, "v1").await;
    let successor = self::leader(node).await;
    assert_ne!(successor, leader);
    stages.end("rolled back to v1 under another leader");
}

/// Installs the chart; where it is installed already, nothing changes.
pub(crate) async fn install(node: &RealNode) {
    install_with(node, &[]).await;
}

/// The same with these settings besides, as helm takes them; where it is installed with others, they change.
pub(crate) async fn install_with(node: &RealNode, settings: &[&str]) {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        // The server itself refuses pods that may more than they need.
        "metadata": {"name": HOME, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    node.kubectl_with(&["apply", "-f", "-"], &namespace.to_string()).await.unwrap();
    let (repository, tag) = IMAGE.rsplit_once(':').unwrap();
    let mut helm = node.program("helm");
    helm.args(["template", "sts-plus"])
        .arg(checkout().join(CHART))
        .args(["--namespace", HOME])
        .args(["--set", &format!("image.repository={repository},image.tag={tag},image.pullPolicy=Never")])
        .args(["--set", &format!("replicas={COPIES}")])
        .args(settings.iter().flat_map(|setting| ["--set", setting]));
    let manifests = output(helm, "").await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &manifests).await.unwrap();
    node.kubectl(&["wait", "--for=condition=Established", "--timeout=2m", "crd", KIND]).await.unwrap();
    node.kubectl(&["-n", HOME, "rollout", "status", "deployment", "sts-plus", "--timeout=4m"]).await.unwrap();
    ready_pods(node, HOME, COPIES).await;
}

async fn create_zones(node: &RealNode) {
    node.control_plane().create_namespace(DEMO).await.unwrap();
    let sets = ZONES.map(|zone| set(DEMO, zone, REPLICAS, &json!({"rollout-group": DEMO})));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sets});
    node.kubectl_with(&["apply", "-f", "-"], &list.to_string()).await.unwrap();
    ready_pods(node, DEMO, ZONES.len() * REPLICAS).await;
}

/// Changes all templates at once and follows the rollout to its end.
async fn roll_to(node: &RealNode, version: &str) {
    let mut fleet = Fleet::watch(&pods(node, DEMO)).await;
    let image = format!("{CONTAINER}={}", image_name(version));
    node.kubectl(&["-n", DEMO, "set", "image", "statefulset", "--all", &image]).await.unwrap();
    fleet.roll_to(version).await;
    let found = ready_pods(node, DEMO, ZONES.len() * REPLICAS).await;
    assert_eq!(versions(&found.items).await, [version; ZONES.len() * REPLICAS]);
}

async fn annotations_and_status_agree(node: &RealNode, sts_plus: &Path) {
    let written = until(DEADLINE, "every set to be annotated as UpToDate", || async {
        let sets: Value =
            serde_json::from_str(&node.kubectl(&["-n", DEMO, "get", "statefulsets", "-o", "json"]).await?)?;
        let states: Vec<Value> = sets["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|set| {
                let status = set["metadata"]["annotations"][STATUS].as_str().unwrap_or("{}");
                let status: Value = serde_json::from_str(status).unwrap();
                json!({"name": set["metadata"]["name"], "state": status["state"], "message": status["message"]})
            })
            .collect();
        let done = states.len() == ZONES.len() && states.iter().all(|set| set["state"] == "UpToDate");
        if done { Ok(states) } else { Err(NotYet::saw(states)) }
    })
    .await;

    let status = |format: &'static str| {
        let mut command = node.program(sts_plus);
        command.args(["status", "--namespace", DEMO, "--output", format]);
        output(command, "")
    };
    let groups: Value = serde_json::from_str(&status("json").await.unwrap()).unwrap();
    let told: Vec<_> = groups[0]["sets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| json!({"name": set["name"], "state": set["state"], "message": set["message"]}))
        .collect();
    assert_eq!(told, written);
    let page = status("table").await.unwrap();
    for set in &written {
        let (name, message) = (set["name"].as_str().unwrap(), set["message"].as_str().unwrap());
        let mut lines = page.lines().map(str::trim).skip_while(|line| !line.starts_with(name));
        assert!(lines.next().unwrap().contains(" UpToDate "), "{page}");
        assert_eq!(lines.next(), Some(message), "{page}");
    }
}

async fn events_tell_the_story(node: &RealNode) {
    // The first zone has its turn at once.
    let story = |zone| if zone == ZONES[0] { &STORY[1..] } else { &STORY };
    until(DEADLINE, format!("the events {STORY:?}"), || async {
        let events = node.kubectl(&["-n", DEMO, "get", "events", "-o", "json"]).await?;
        let events: ObjectList<Event> = serde_json::from_str(&events)?;
        let told = ZONES.map(|zone| reasons(&events.items, zone));
        let whole = |(zone, told): (_, &BTreeSet<_>)| story(zone).iter().all(|&reason| told.contains(reason));
        if ZONES.into_iter().zip(&told).all(whole) { Ok(()) } else { Err(NotYet::saw(told)) }
    })
    .await;
}

/// The reasons of our events on a set.
fn reasons(events: &[Event], set: &str) -> BTreeSet<String> {
    let ours = events.iter().filter(|event| {
        let source = event.source.as_ref().and_then(|source| source.component.as_deref());
        let object = &event.involved_object;
        (source, object.kind.as_deref(), object.name.as_deref())
            == (Some("sts-plus"), Some("StatefulSet"), Some(set))
    });
    ours.filter_map(|event| event.reason.clone()).collect()
}

/// The copy that leads, by what the copies themselves say; and that one has worked on the group.
async fn leader(node: &RealNode) -> String {
    let copies = ready_pods(node, HOME, COPIES).await;
    let work =
        format!("rollout_operator_group_reconciles_total{{namespace=\"{DEMO}\",rollout_group=\"{DEMO}\"}}");
    until(DEADLINE, "one copy to lead and to have worked", || async {
        let mut leaders = Vec::new();
        for copy in &copies.items {
            let metrics = fetch(copy, METRICS_PORT, "/metrics").await?;
            if value(&metrics, "sts_plus_leader") == Some(1.0) {
                leaders.push((copy.name_any(), value(&metrics, &work)));
            }
        }
        match &*leaders {
            [(name, Some(passes))] if *passes > 0.0 => Ok(name.clone()),
            _ => Err(NotYet::saw(leaders)),
        }
    })
    .await
}

/// The value of a series in a page of metrics.
fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// The pods of a namespace, once there are so many and all are Ready.
pub(crate) async fn ready_pods(node: &RealNode, namespace: &str, count: usize) -> ObjectList<Pod> {
    let pods = pods(node, namespace);
    until(DEADLINE, format!("{count} pods Ready in {namespace}"), || async {
        let found = pods.list(&ListParams::default()).await?;
        let ready = |pod: &&Pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
        let ready = found.items.iter().filter(ready).count();
        if (ready, found.items.len()) == (count, count) {
            Ok(found)
        } else {
            Err(NotYet::saw(format!("{ready} Ready of {}", found.items.len())))
        }
    })
    .await
}

pub(crate) fn pods(node: &RealNode, namespace: &str) -> Api<Pod> {
    Api::namespaced(node.control_plane().admin(), namespace)
}
