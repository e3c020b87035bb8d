//! Writes that an admission webhook refuses, or never answers: what only informs holds nothing up, what acts is tried again,
//! and both can be seen.

use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use sts_plus_harness::proxy::BlackHole;
use sts_plus_harness::wait::{NotYet, until};

use super::{Place, Scenario, scenarios};
use crate::cluster::{Account, Cluster, Request};
use crate::fixture::{GROUP, Template, Zone, three_zones};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::scene::Scene;

/// The webhook, as refusals name it.
pub(crate) const WEBHOOK: &str = "guard.example.com";

/// The StatefulSet controller, ours on the embedded cluster and Kubernetes' own on the real one.
const NATIVE: &str = "system:serviceaccount:kube-system:statefulset-controller";

/// Refused creations of revisions, of two sets together, after which a status that names one would be there, and pods deleted
/// for it: both follow the first refusal within milliseconds, and each attempt waits longer than the one before.
const ATTEMPTS: usize = 12;

/// Nobody listens there.
pub(crate) fn nobody() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1).into()
}

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        a_failing_webhook_on_sets_holds_up_no_rollout_and_is_reported,
        a_webhook_on_sets_that_never_answers_holds_up_no_rollout_and_is_reported,
        a_deletion_that_a_webhook_refuses_is_the_state_of_its_set_until_it_is_admitted,
        a_revision_that_a_webhook_refuses_costs_no_pod_and_is_rolled_out_once_it_is_admitted,
    ]
}

/// Has a webhook of this address asked about writes to a resource of a namespace.
pub(crate) async fn install(
    cluster: &dyn Cluster,
    namespace: &str,
    address: SocketAddr,
    rule: (&str, &str, &str),
) {
    install_for(cluster, namespace, address, rule, &json!({})).await;
}

/// As [`install`], for objects that a selector selects.
pub(crate) async fn install_for(
    cluster: &dyn Cluster,
    namespace: &str,
    address: SocketAddr,
    (group, resource, operation): (&str, &str, &str),
    selector: &Value,
) {
    let object = json!({
        "metadata": { "name": namespace },
        "webhooks": [{
            "name": WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": { "url": format!("https://{address}/") },
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "objectSelector": selector,
            "rules": [{
                "apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
            }],
        }],
    });
    let object = serde_json::from_value(object).unwrap();
    let configurations = Api::<ValidatingWebhookConfiguration>::all(cluster.user());
    configurations.create(&PostParams::default(), &object).await.unwrap();
}

/// Takes it away again.
pub(crate) async fn remove(cluster: &dyn Cluster, namespace: &str) {
    let configurations = Api::<ValidatingWebhookConfiguration>::all(cluster.user());
    configurations.delete(namespace, &DeleteParams::default()).await.unwrap();
}

/// A real API server asks a webhook, or not any more, only some time after its configuration has been written.
async fn refuses_sets(scene: &Scene, zone: &Zone, refuses: bool) {
    until(DEADLINE, format!("writes to sets to be refused: {refuses}"), || async {
        let parameters = kube::api::PatchParams { dry_run: true, ..kube::api::PatchParams::default() };
        let note = json!({ "metadata": { "annotations": { "example.com/probe": "x" } } });
        let patch = kube::api::Patch::Merge(note);
        let tried = scene.sets().patch(zone.name(), &parameters, &patch).await;
        if tried.is_err() == refuses { Ok(()) } else { Err(NotYet::saw(format!("{:?}", tried.is_err()))) }
    })
    .await;
}

/// Waits until so many sets of the group are shown in a state.
async fn shown(scene: &Scene, operator: &Operator, state: &str, sets: Option<usize>) {
    let labels = format!("namespace=\"{}\",rollout_group=\"{GROUP}\",state=\"{state}\"", scene.namespace);
    let series = format!("sts_plus_rollout_sets{{{labels}}}");
    until(DEADLINE, format!("{series} to be {sets:?}"), || async {
        let page = operator.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(&series)).map(str::trim);
        let is = line == sets.map(|sets| sets.to_string()).as_deref();
        if is { Ok(()) } else { Err(NotYet::saw(page)) }
    })
    .await;
}

/// Waits until all pods are new and the status of each set says so, whatever the annotations say.
async fn replaced(scene: &Scene, zones: &[Zone], version: &str) {
    scene.served(zones, version).await;
    scene
        .until("the revisions to be promoted", |view| {
            zones.iter().try_for_each(|zone| {
                let set = &view.sets[zone.name()];
                if set.current_revision == set.update_revision { Ok(()) } else { Err(format!("{set:?}")) }
            })
        })
        .await;
}

async fn a_failing_webhook_on_sets_holds_up_no_rollout_and_is_reported(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    install(&*scene.cluster, &scene.namespace, nobody(), ("apps", "statefulsets", "UPDATE")).await;
    refuses_sets(&scene, &zones[0], true).await;
    let account = scene.account("operator").await;
    let operator = scene.operator_of(&account);
    replaced(&scene, &zones, "v2").await;
    for zone in &zones {
        let words = scene.event(zone.name(), "Warning", "WriteRefused").await;
        assert!(words.contains(WEBHOOK), "{words}");
        // What happened is reported although it could not be written on the set.
        scene.event(zone.name(), "Normal", "UpToDate").await;
    }
    shown(&scene, &operator, "WriteRefused", Some(zones.len())).await;
    let requests = scene.cluster.requests(&account).unwrap();
    for zone in &zones {
        backs_off(&requests, zone);
    }

    remove(&*scene.cluster, &scene.namespace).await;
    refuses_sets(&scene, &zones[0], false).await;
    scene.rolled(&zones, "v2").await;
    shown(&scene, &operator, "WriteRefused", None).await;
    shown(&scene, &operator, "UpToDate", Some(zones.len())).await;
    operator.stop().await;
    assert_eq!(scene.finish().await, 9);
}

/// What is refused is tried again later and later: at least half of 50 ms, doubled each time; the server keeps microseconds,
/// so one millisecond is lost.
fn backs_off(requests: &[Request], zone: &Zone) {
    let refused = requests.iter().filter(|request| {
        request.verb == "patch" && request.resource == "statefulsets" && request.name == zone.name()
    });
    let attempts: Vec<_> = refused.map(|request| request.at).collect();
    assert!(!attempts.is_empty(), "{}", zone.name());
    for (number, pair) in (0_u32..).zip(attempts.windows(2)) {
        let least = jiff::SignedDuration::from_millis((25 << number.min(9)) - 1);
        assert!(pair[1].duration_since(pair[0]) >= least, "attempt {number}: {attempts:?}");
    }
}

async fn a_webhook_on_sets_that_never_answers_holds_up_no_rollout_and_is_reported(scene: Scene) {
    let zones = three_zones(2);
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let hole = BlackHole::start_on(&scene.cluster.outside().network).await.unwrap();
    install(&*scene.cluster, &scene.namespace, hole.address(), ("apps", "statefulsets", "UPDATE")).await;
    refuses_sets(&scene, &zones[0], true).await;
    let operator = scene.operator().await;
    replaced(&scene, &zones, "v2").await;
    for zone in &zones {
        scene.event(zone.name(), "Warning", "WriteRefused").await;
    }
    shown(&scene, &operator, "WriteRefused", Some(zones.len())).await;
    remove(&*scene.cluster, &scene.namespace).await;
    refuses_sets(&scene, &zones[0], false).await;
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    assert_eq!(scene.finish().await, 6);
}

async fn a_deletion_that_a_webhook_refuses_is_the_state_of_its_set_until_it_is_admitted(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    install(&*scene.cluster, &scene.namespace, nobody(), ("", "pods", "DELETE")).await;
    until(DEADLINE, "deletions to be refused", || async {
        let parameters = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let tried = scene.pods().delete("zone-a-0", &parameters).await;
        if tried.is_err() { Ok(()) } else { Err(NotYet::saw("admitted")) }
    })
    .await;
    let operator = scene.operator().await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let words = scene.says("zone-a", "WriteRefused").await;
    assert!(words.contains(WEBHOOK), "{words}");
    scene.says("zone-b", "WaitingForTurn").await;
    assert_eq!(scene.event("zone-a", "Warning", "WriteRefused").await, words);
    shown(&scene, &operator, "WriteRefused", Some(1)).await;
    assert!(scene.view().deletions.is_empty());

    remove(&*scene.cluster, &scene.namespace).await;
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    let events = scene.events("zone-a").await.unwrap();
    let refused = events.iter().filter(|event| event.1 == "WriteRefused").count();
    assert_eq!(refused, 1, "a transition is reported once: {events:?}");
    assert_eq!(scene.finish().await, 4);
}

/// Waits until the StatefulSet controller has been refused revisions several times.
async fn is_refused_revisions(scene: &Scene) {
    let native = Account { user: NATIVE.to_owned(), client: scene.cluster.user() };
    until(DEADLINE, "the StatefulSet controller to be refused revisions", || async {
        let requests = scene.cluster.requests(&native)?;
        let refused = requests.iter().filter(|request| {
            request.verb == "create"
                && request.resource == "controllerrevisions"
                && request.namespace == scene.namespace
                && !request.wrote()
        });
        let refused = refused.count();
        if refused >= ATTEMPTS { Ok(()) } else { Err(NotYet::saw(refused)) }
    })
    .await;
}

async fn a_revision_that_a_webhook_refuses_costs_no_pod_and_is_rolled_out_once_it_is_admitted(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let operator = scene.operator().await;
    for zone in &zones {
        scene.says(zone.name(), "UpToDate").await;
    }
    install(&*scene.cluster, &scene.namespace, nobody(), ("apps", "controllerrevisions", "CREATE")).await;
    until(DEADLINE, "revisions to be refused", || async {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let probe = json!({ "metadata": { "name": "probe" }, "revision": 1 });
        let revisions = Api::<ControllerRevision>::namespaced(scene.cluster.user(), &scene.namespace);
        let tried = revisions.create(&parameters, &serde_json::from_value(probe)?).await;
        if tried.is_err() { Ok(()) } else { Err(NotYet::saw("admitted")) }
    })
    .await;
    let named = || -> Vec<_> {
        let view = scene.view();
        zones.iter().map(|zone| view.sets[zone.name()].update_revision.clone()).collect()
    };
    let before = named();
    scene.change(&zones, &Template::new("v2")).await;
    is_refused_revisions(&scene).await;
    assert_eq!(named(), before, "no status names a revision that is not stored");
    assert!(scene.view().deletions.is_empty(), "nobody could create the pod again");

    remove(&*scene.cluster, &scene.namespace).await;
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    assert_eq!(scene.finish().await, 4);
}
