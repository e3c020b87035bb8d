//! A group of three zones, from its creation to the end of a rollout.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, ObjectList, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use sts_plus_cluster::controllers;
use sts_plus_cluster::nodes::{Config, HollowNodes, Node, Placement};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_scenarios::cluster::Outside;
use sts_plus_scenarios::fixture::{Template, Zone, three_zones};
use sts_plus_scenarios::operator::Operator;
use tokio::time::timeout;

use crate::server;

/// Far more virtual time than three zones take.
const DEADLINE: Duration = Duration::from_mins(30);
/// How long nobody may write anything at the end, in virtual time.
const SILENCE: Duration = Duration::from_mins(10);
const REPLICAS: u32 = 2;
const PODS: usize = 6;

/// A pod as the test looks at it.
#[derive(Clone, Debug)]
struct Seen {
    zone: String,
    image: String,
    ready: bool,
}

/// Follows pods from a list on, through every state they were in, until it is told to stop.
async fn follow(
    pods: &Api<Pod>,
    listed: ObjectList<Pod>,
    mut on_change: impl FnMut(&BTreeMap<String, Seen>) -> bool,
) {
    let mut all: BTreeMap<_, _> = listed.items.iter().map(|pod| (pod.name_any(), seen(pod))).collect();
    if on_change(&all) {
        return;
    }
    let watched = async {
        let mut version = listed.metadata.resource_version.unwrap();
        loop {
            // A watch ends from time to time.
            let mut events = Box::pin(pods.watch(&WatchParams::default(), &version).await.unwrap());
            while let Some(event) = events.try_next().await.unwrap() {
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        version = pod.resource_version().unwrap();
                        all.insert(pod.name_any(), seen(&pod));
                    }
                    WatchEvent::Deleted(pod) => {
                        version = pod.resource_version().unwrap();
                        all.remove(&pod.name_any());
                    }
                    WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                    WatchEvent::Error(error) => panic!("{error:?}"),
                }
                if on_change(&all) {
                    return;
                }
            }
        }
    };
    timeout(DEADLINE, watched).await.unwrap();
}

fn seen(pod: &Pod) -> Seen {
    let name = pod.name_any();
    let (zone, _) = name.rsplit_once('-').unwrap();
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    Seen { zone: zone.to_owned(), image, ready: ready && pod.metadata.deletion_timestamp.is_none() }
}

fn all_ready(pods: &BTreeMap<String, Seen>, image: &str) -> bool {
    pods.len() == PODS && pods.values().all(|pod| pod.ready && pod.image == image)
}

#[tokio::test(start_paused = true)]
async fn three_zones_are_created_rolled_one_at_a_time_and_fall_silent() {
    let server = server();
    tokio::spawn(controllers::run(server.clone()));
    let client = Client::new(server, "default");
    let nodes = vec![Node::new("node", "zone")];
    let nodes = Config { nodes, placement: Placement::Clusters, ..Config::default() };
    let nodes = HollowNodes::new(client.clone(), nodes).start();
    let operator =
        Operator::start_with_native(&Outside::machine(), client.clone(), Scope::Cluster, "embedded");

    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let zones = three_zones(REPLICAS);
    for zone in &zones {
        sets.create(&PostParams::default(), &zone.object()).await.unwrap();
    }
    let (old, new) = (Template::new("v1"), Template::new("v2"));
    let list = async || pods.list(&ListParams::default()).await.unwrap();
    follow(&pods, list().await, |pods| all_ready(pods, &old.image())).await;

    let before = list().await;
    for zone in &zones {
        let template = Patch::Merge(json!({ "spec": { "template": new.patch() } }));
        sets.patch(zone.name(), &PatchParams::default(), &template).await.unwrap();
    }
    let mut order: Vec<String> = Vec::new();
    follow(&pods, before, |pods| {
        let is_down = |zone: &str| {
            let up = pods.values().filter(|pod| pod.zone == zone && pod.ready).count();
            up < usize::try_from(REPLICAS).unwrap()
        };
        let down: Vec<_> = zones.iter().map(Zone::name).filter(|zone| is_down(zone)).collect();
        assert!(down.len() <= 1, "{down:?} are down at once: {pods:#?}");
        if let [zone] = down.as_slice()
            && order.last().is_none_or(|last| last != zone)
        {
            order.push((*zone).to_owned());
        }
        all_ready(pods, &new.image())
    })
    .await;
    assert_eq!(order, ["zone-a", "zone-b", "zone-c"], "each once");

    // What is left are reports; then nobody writes.
    let quiet = async {
        loop {
            let version = list().await.metadata.resource_version;
            tokio::time::sleep(SILENCE).await;
            if list().await.metadata.resource_version == version {
                return;
            }
        }
    };
    timeout(DEADLINE, quiet).await.unwrap();
    operator.stop().await;
    nodes.stop().await;
}
