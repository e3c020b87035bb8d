//! The lives of ExtendedStatefulSets with everything that makes their controller ask for something.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_harness::faults::{Call, Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_scenarios::cluster::{Cluster, Request};
use sts_plus_scenarios::extended::Extended;
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::rules;
use sts_plus_scenarios::stale::stale;
use tokio::sync::watch;

use crate::{READ_DEADLINE, Use};

/// Of each of these the first write gets lost on its way to the server, so that only a read can tell what became of it.
const LOST: [(&str, &str); 8] = [
    ("DELETE", "/persistentvolumeclaims/"),
    ("POST", "/statefulsets"),
    ("PUT", "/statefulsets/"),
    ("DELETE", "/statefulsets/"),
    ("POST", "/services"),
    ("PATCH", "/services/"),
    ("PUT", "/extendedstatefulsets/"),
    ("PATCH", "/pods/"),
];

/// What an object of each group asks for: versions in place and beside each other, zones, Services, configuration and an
/// active pod.
pub(crate) async fn lives(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let mut used = BTreeSet::new();
    for group in Group::ALL {
        used.extend(life(cluster, group).await);
    }
    used.extend(commands(cluster).await);
    used.extend(claims(cluster).await);
    used
}

/// Loses the first of each of these writes.
fn losing() -> Faults {
    let lost = Mutex::new(BTreeSet::new());
    Faults::new(move |call: &Call| {
        let path = call.path.split('?').next().unwrap_or_default();
        let is = |(method, part): &&(&str, &str)| {
            call.method == *method
                && if part.ends_with('/') { path.contains(part) } else { path.ends_with(part) }
        };
        let first = LOST.iter().find(is).is_some_and(|write| lost.lock().unwrap().insert(*write));
        if first { Fault::Refuse } else { Fault::None }
    })
}

/// Versions that share claims, which are created, get an owner, and are deleted with their ordinals.
async fn claims(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let stage = Extended::granted(cluster, "claim-permissions", Group::Fissile, rules::by_default()).await;
    stage.view().deletes_claims = true;
    let operator = stage.operator_through(&losing().client(&stage.account().client));
    let spec = |image: &str, replicas: u32, when_deleted: &str| {
        json!({ "template": { "spec": {
            "replicas": replicas,
            "template": { "spec": { "containers": [{ "name": "main", "image": image }] } },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
            "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": when_deleted },
        } } })
    };
    stage.create(spec("app:v1", 2, "Retain")).await;
    stage.ready(1, 2).await;
    stage.edit(spec("app:v1", 1, "Delete")).await;
    stage.ready(2, 1).await;
    stage
        .until("one claim to be left", |seen| match seen.claims.len() {
            1 => Ok(()),
            _ => Err(format!("{:?}", seen.claims)),
        })
        .await;
    operator.stop().await;
    let requests = stage.requests().await;
    stage.finish().await;
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

fn spec(image: &str, port: u16) -> Value {
    json!({
        "template": { "spec": {
            "replicas": 2,
            "template": { "spec": {
                "containers": [{
                    "name": "main", "image": image, "ports": [{ "containerPort": port }],
                    "envFrom": [{ "configMapRef": { "name": "settings" } }],
                }],
                "volumes": [{ "name": "key", "secret": { "secretName": "key" } }],
            } },
        } },
        "zones": ["a", "b"],
        "updateOnConfigChange": true,
        "services": { "headless": "db-all", "active": "db-active" },
        "activeProbe": { "main": { "exec": { "command": ["/check"] }, "periodSeconds": 1 } },
        "activeFallback": "FirstRunning",
    })
}

async fn life(cluster: &Arc<dyn Cluster>, group: Group) -> BTreeSet<Use> {
    let granted = [rules::by_default(), rules::exec(), rules::followed_secrets()].concat();
    let stage = Extended::granted(cluster, "extended-permissions", group, granted).await;
    let faults = losing();
    let (flow, flows) = watch::channel(true);
    let client = stale(stage.account().client.clone(), "extendedstatefulsets", flows);
    let operator = stage.operator_through(&faults.client(&client));
    stage.make::<ConfigMap>(json!({ "metadata": { "name": "settings" }, "data": { "key": "one" } })).await;
    stage.make::<Secret>(json!({ "metadata": { "name": "key" }, "stringData": { "key": "one" } })).await;
    stage.create(spec("app:v1", 80)).await;
    stage.ready(1, 4).await;
    stage
        .object_is("active", |object, seen| object.status.active_pod.is_some() && seen.active_pod().is_some())
        .await;
    stage.edit(spec("app:v2", 81)).await;
    stage.ready(2, 4).await;
    // What the operator writes about the next version is not shown by the watch, so it is read in the end.
    flow.send_replace(false);
    stage.merge::<Secret>("key", json!({ "stringData": { "key": "two" } })).await;
    until(READ_DEADLINE, "the object to be read", || async {
        let requests = cluster.requests(stage.account())?;
        let is_read = |request: &Request| request.verb == "get" && request.resource == "extendedstatefulsets";
        requests.iter().any(is_read).then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    flow.send_replace(true);
    stage.ready(3, 4).await;
    // A finalizer, and a ScalingPolicy for each set, which are both taken away again.
    for (deletion, policies) in [("Drain", 2), ("Delete", 0)] {
        stage.edit(json!({ "deletionPolicy": deletion })).await;
        let kind = sts_plus_scenarios::scaling::manifest::kind();
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.user(), &stage.namespace, &kind);
        until(DEADLINE, format!("{policies} ScalingPolicies"), || async {
            let found = api.list(&ListParams::default()).await?.items.len();
            if found == policies { Ok(()) } else { Err(NotYet::saw(found)) }
        })
        .await;
        stage.ready(3, 4).await;
    }
    // Zones of both strategies lose a set that is deleted by us.
    let set = if group == Group::Fissile { "db-z1-v3" } else { "db-z1" };
    stage.view().excuse_set(set);
    stage.edit(json!({ "zones": ["a"], "services": { "headless": "db-all", "active": null } })).await;
    stage.ready(3, 2).await;
    let services = stage.api::<Service>();
    until(DEADLINE, "one Service to be left", || async {
        let left = services.list(&ListParams::default()).await?.items.len();
        if left == 1 { Ok(()) } else { Err(NotYet::saw(left)) }
    })
    .await;
    operator.stop().await;
    let requests = stage.requests().await;
    stage.finish().await;
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}

/// Since Kubernetes 1.35 a command over a WebSocket needs two verbs, of which the audit log shows the one of the request. That
/// the other one is asked for, too, shows where it is not granted.
async fn commands(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let mut codes = Vec::new();
    for verbs in [vec!["get"], vec!["get", "create"]] {
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["pods/exec".to_owned()]),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        };
        let granted = [rules::by_default(), vec![rule], rules::followed_secrets()].concat();
        let stage = Extended::granted(cluster, "exec-permissions", Group::StsPlus, granted).await;
        let operator = stage.operator_of(stage.account());
        let probe = json!({ "main": { "exec": { "command": ["/check"] }, "periodSeconds": 1 } });
        let containers = json!([{ "name": "main", "image": "app:v1" }]);
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        stage.create(json!({ "template": template, "activeProbe": probe })).await;
        stage.ready(1, 1).await;
        stage.reports("NoneChosen").await;
        operator.stop().await;
        let requests = stage.requests().await;
        let asked = requests.into_iter().filter(|request: &Request| request.resource == "pods/exec");
        codes.push(asked.map(|request| request.code).collect::<BTreeSet<_>>());
    }
    let [with_one, with_both] = <[_; 2]>::try_from(codes).unwrap();
    assert_eq!(with_one, BTreeSet::from([403]), "one verb is not enough");
    assert!(!with_both.is_empty() && !with_both.contains(&403), "{with_both:?}");
    BTreeSet::from([("create".to_owned(), "pods/exec".to_owned())])
}
