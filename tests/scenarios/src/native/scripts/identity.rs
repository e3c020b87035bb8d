//! Whose pods these are.

use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, PropagationPolicy};
use serde_json::{Value, json};

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::containers;
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_when_a_user_deletes_pods,
        same_when_pods_fail_and_succeed,
        same_when_many_pods_fail_at_once,
        same_when_a_pod_has_a_finalizer,
        same_when_matching_orphans_are_there,
        same_when_a_pod_is_released_and_taken_back,
        same_when_a_set_is_deleted_without_its_pods_and_made_again,
        same_when_a_set_is_deleted,
        same_when_a_set_waits_for_its_deletion,
        same_when_pods_lose_labels,
        same_with_a_selector_of_expressions,
        same_without_a_service_name,
    ]
}

/// A pod that somebody makes by hand.
pub fn pod(name: &str, labels: &Value, owners: &[Value]) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
        "spec": { "automountServiceAccountToken": false, "containers": containers("v0") },
    })
}

fn deleting(how: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(how), ..DeleteParams::default() }
}

async fn same_when_a_user_deletes_pods(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("one deleted", pods("web-0 web-1 web-2")).await;
    // The order in which both are seen is chance, their order of coming back is not.
    act.delete(Kind::Pod, "web-2").await;
    act.settled("the last deleted", pods("web-0 web-1 web-2")).await;
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    act.delete_with(Kind::Pod, "web-0", &at_once).await;
    act.object_is(Kind::Set, "web", "complete", |set| set.data["status"]["readyReplicas"] == 3).await;
    act.settled("the first deleted without grace", pods("web-0 web-1 web-2")).await;
}

async fn same_when_pods_fail_and_succeed(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.end("web-1", "Failed").await;
    act.settled("one failed", pods("web-0 web-1 web-2")).await;
    act.end("web-0", "Succeeded").await;
    act.settled("one succeeded", pods("web-0 web-1 web-2")).await;
}

async fn same_when_many_pods_fail_at_once(act: &Act) {
    act.in_any_order("the pods are deleted and created together");
    act.create_set(&Set::new("web", 4).parallel()).await;
    act.settled("created", pods("web-0 web-1 web-2 web-3")).await;
    for (pod, phase) in [("web-0", "Failed"), ("web-2", "Failed"), ("web-3", "Succeeded")] {
        act.end(pod, phase).await;
    }
    act.settled("replaced", pods("web-0 web-1 web-2 web-3")).await;
}

async fn same_when_a_pod_has_a_finalizer(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.merge(Kind::Pod, "web-1", json!({ "metadata": { "finalizers": ["example.com/hold"] } })).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("on its way out", pods("web-0 web-1~ web-2")).await;
    act.scale("web", 4).await;
    act.settled("scaled up, but blocked", pods("web-0 web-1~ web-2")).await;
    act.update("web", "v2").await;
    act.settled("updated, but blocked", pods("web-0:v1 web-1:v1~ web-2:v1")).await;
    act.merge(Kind::Pod, "web-1", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("let go", pods("web-0:v2 web-1:v2 web-2:v2 web-3:v2")).await;
}

async fn same_when_matching_orphans_are_there(act: &Act) {
    for name in ["web-1", "web-7", "web", "web-x"] {
        act.create(Kind::Pod, pod(name, &json!({ "app": "web" }), &[])).await;
    }
    act.settled("orphans", pods("web-1? web-7? web? web-x?")).await;
    act.create_set(&Set::new("web", 3)).await;
    act.settled("adopted", pods("web-0:v1 web-1:v1 web-2:v1 web? web-x?")).await;
}

async fn same_when_a_pod_is_released_and_taken_back(act: &Act) {
    let label = |value: &str| json!({ "metadata": { "labels": { "app": value } } });
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.merge(Kind::Pod, "web-1", label("other")).await;
    act.settled("released", pods("web-0 web-1? web-2")).await;
    act.merge(Kind::Pod, "web-1", label("web")).await;
    act.settled("taken back", pods("web-0 web-1 web-2")).await;
    act.merge(Kind::Pod, "web-2", label("other")).await;
    act.settled("another released", pods("web-0 web-1 web-2?")).await;
    act.delete(Kind::Pod, "web-2").await;
    act.settled("and deleted", pods("web-0 web-1 web-2")).await;
}

async fn same_when_a_set_is_deleted_without_its_pods_and_made_again(act: &Act) {
    let set = Set::new("web", 2).claims(&["data"]).retention("Retain", "Delete");
    act.create_set(&set).await;
    act.settled("created", pods("web-0:v1 web-1:v1").claims("data-web-0@web data-web-1@web")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2").revisions(2)).await;
    act.delete_with(Kind::Set, "web", &deleting(PropagationPolicy::Orphan)).await;
    act.absent(Kind::Set, "web").await;
    act.settled("orphaned", pods("web-0:v2? web-1:v2?").claims("data-web-0 data-web-1").revisions(2)).await;
    act.create_set(&set).await;
    let claims = "data-web-0@web data-web-1@web";
    act.settled("made again, of the first template", pods("web-0:v1 web-1:v1").claims(claims).revisions(2))
        .await;
    act.delete_with(Kind::Set, "web", &deleting(PropagationPolicy::Orphan)).await;
    act.absent(Kind::Set, "web").await;
    act.settled("orphaned again", pods("web-0:v1? web-1:v1?").claims("data-web-0 data-web-1").revisions(2))
        .await;
    act.create_set(&set).await;
    act.settled("made again, unchanged", pods("web-0:v1 web-1:v1").claims(claims).revisions(2)).await;
}

async fn same_when_a_set_is_deleted(act: &Act) {
    act.in_any_order("the garbage collector removes pods in any order");
    act.create_set(&Set::new("web", 3).claims(&["data"])).await;
    let claims = "data-web-0 data-web-1 data-web-2";
    act.settled("created", pods("web-0 web-1 web-2").claims(claims)).await;
    act.delete(Kind::Set, "web").await;
    act.settled("deleted", pods("").claims(claims).revisions(0)).await;
    act.create_set(&Set::new("web", 1).claims(&["data"])).await;
    act.settled("made again", pods("web-0").claims(claims).revisions(1)).await;
}

async fn same_when_a_set_waits_for_its_deletion(act: &Act) {
    act.in_any_order("the garbage collector removes pods in any order");
    act.create_set(
        &Set::new("web", 3).fields(&json!({ "metadata": { "finalizers": ["example.com/hold"] } })),
    )
    .await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.delete(Kind::Set, "web").await;
    act.settled("on its way out", pods("web-0 web-1 web-2")).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("no pod comes back", pods("web-0 web-2")).await;
    act.update("web", "v2").await;
    act.settled("an update is noted, no more", pods("web-0:v1 web-2:v1").revisions(2)).await;
    act.scale("web", 1).await;
    act.settled("so is a scale", pods("web-0:v1 web-2:v1").revisions(2)).await;
    act.merge(Kind::Set, "web", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("gone", pods("").revisions(0)).await;
}

async fn same_when_pods_lose_labels(act: &Act) {
    let without = |label: &str| json!({ "metadata": { "labels": { label: null } } });
    let name = "statefulset.kubernetes.io/pod-name";
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0 web-1")).await;
    act.merge(Kind::Pod, "web-0", without(name)).await;
    let repaired = |pod: &DynamicObject| pod.labels().contains_key(name);
    act.object_is(Kind::Pod, "web-0", "repaired", repaired).await;
    act.settled("the name is put back", pods("web-0 web-1")).await;
    act.merge(Kind::Pod, "web-1", without("apps.kubernetes.io/pod-index")).await;
    act.nudge("web", Kind::Pod, "web-1", |_| true).await;
    act.settled("the index is not", pods("web-0 web-1")).await;
    act.merge(Kind::Pod, "web-1", without("controller-revision-hash")).await;
    let complete = |set: &DynamicObject| set.data["status"]["updatedReplicas"] == 2;
    act.object_is(Kind::Pod, "web-1", "made again", |pod| {
        pod.labels().contains_key("controller-revision-hash")
    })
    .await;
    act.object_is(Kind::Set, "web", "complete", complete).await;
    act.settled("without a revision it is outdated", pods("web-0 web-1")).await;
}

async fn same_with_a_selector_of_expressions(act: &Act) {
    let selector = json!({
        "matchLabels": null,
        "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["web", "other"] },
            { "key": "gone", "operator": "DoesNotExist" },
        ],
    });
    act.create_set(&Set::new("web", 2).spec(json!({ "selector": selector })).claims(&["data"])).await;
    act.settled("created", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "labels": { "gone": "no" } } })).await;
    act.settled("released", pods("web-0? web-1")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "labels": { "gone": null, "app": "other" } } }))
        .await;
    act.settled("taken back", pods("web-0 web-1")).await;
}

async fn same_without_a_service_name(act: &Act) {
    act.create_set(&Set::new("web", 2).spec(json!({ "serviceName": "" }))).await;
    act.settled("created", pods("web-0 web-1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2")).await;
}
