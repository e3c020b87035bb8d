//! Pods that are prepared before they leave: fewer replicas, a version that was replaced, a zone, the end of the object.

use std::sync::Arc;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{broken, template, with};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::fixture::image;
use crate::observer::DEADLINE;
use crate::scaling::app::{App, Says};
use crate::scaling::manifest::{SHUTDOWN, kind, policy};
use crate::scenarios::Scenario;

/// The port that applications listen on.
const PORT: u16 = 3100;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_b9_9_a_new_template_and_fewer_pods_in_one_write_restart_and_drain_each_pod_once,
        a_b9_9_the_same_in_zones_never_disturbs_two_of_them,
        a_b9_11_pods_that_are_added_with_a_new_template_are_born_with_it,
        a_b9_18_a_version_that_crashes_stops_pods_from_leaving_and_from_joining,
        a_b9_26_an_object_that_is_deleted_with_drain_empties_its_zones_in_order,
        a_b9_28_a_phased_rollout_gates_a_new_version_once_the_pods_have_left,
        a_b9_30_a_policy_of_an_object_belongs_to_it,
        a_pods_of_a_version_that_was_replaced_leave_with_their_hook,
        a_hook_that_blocks_is_what_the_object_waits_for,
    ]
}

/// A template whose pods answer the hook.
pub(super) fn answering(version: &str, replicas: u32) -> Value {
    with(template(version, replicas), &containers(version))
}

/// Fields of a template: another version.
pub(super) fn containers(version: &str) -> Value {
    let containers = json!([{ "name": "main", "image": image(version), "ports": [{ "name": "http", "containerPort": PORT }] }]);
    json!({ "spec": { "template": { "spec": { "containers": containers } } } })
}

/// Fields of a spec: the hook.
pub(super) fn hook() -> Value {
    json!({ "scaleDown": { "hook": { "http": { "path": SHUTDOWN, "port": PORT, "cancel": { "path": SHUTDOWN } } } } })
}

/// Fields of a spec: another version, and another number of pods.
fn change(version: &str, replicas: u32) -> Value {
    json!({ "template": with(containers(version), &json!({ "spec": { "replicas": replicas } })) })
}

pub(super) fn policies(stage: &Extended) -> Api<DynamicObject> {
    Api::namespaced_with(stage.cluster.user(), &stage.namespace, &kind())
}

/// Waits until the ScalingPolicies are these.
async fn policies_are(stage: &Extended, names: &[&str]) {
    until(DEADLINE, format!("the ScalingPolicies {names:?}"), || async {
        let all = policies(stage).list(&ListParams::default()).await?;
        let mut found: Vec<_> = all.into_iter().filter_map(|policy| policy.metadata.name).collect();
        found.sort();
        if found == names { Ok(()) } else { Err(NotYet::saw(found)) }
    })
    .await;
}

/// An object with a hook whose pods are Ready, and the applications of its sets.
async fn given<const SETS: usize>(
    stage: &Extended,
    replicas: u32,
    fields: &Value,
    sets: [&str; SETS],
) -> [App; SETS] {
    let apps = sets.map(|set| App::start(&*stage.cluster, &stage.namespace, set));
    stage.create(with(with(json!({ "template": answering("v1", replicas) }), &hook()), fields)).await;
    stage.ready(1, replicas * u32::try_from(SETS).unwrap()).await;
    policies_are(stage, &sets).await;
    apps
}

/// How many pods have had each of these names.
fn lives<const PODS: usize>(stage: &Extended, pods: [&str; PODS]) -> [usize; PODS] {
    let seen = stage.view();
    pods.map(|pod| seen.lives.get(pod).map_or(0, Vec::len))
}

async fn done(stage: Extended, apps: &[App]) {
    for app in apps {
        assert!(app.faults().is_empty(), "{:#?}", app.faults());
    }
    stage.finish().await;
}

async fn a_b9_9_a_new_template_and_fewer_pods_in_one_write_restart_and_drain_each_pod_once(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let apps = given(&stage, 4, &json!({ "updateStrategy": { "type": "InPlace" } }), [NAME]).await;
        stage.edit(change("v2", 2)).await;
        stage.ready(2, 2).await;
        assert_eq!(lives(&stage, ["db-0", "db-1", "db-2", "db-3"]), [2, 2, 1, 1]);
        assert_eq!(apps[0].prepared(), ["db-3", "db-2"]);
        let status = stage.present().status;
        assert_eq!((status.desired_replicas, status.leaving.len()), (Some(2), 0));
        done(stage, &apps).await;
    }
}

async fn a_b9_9_the_same_in_zones_never_disturbs_two_of_them(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = given(&stage, 3, &json!({ "zones": ["a", "b"] }), ["db-z0", "db-z1"]).await;
    stage.edit(change("v2", 2)).await;
    stage.ready(2, 4).await;
    assert_eq!(lives(&stage, ["db-z0-0", "db-z0-1", "db-z0-2"]), [2, 2, 1]);
    assert_eq!(lives(&stage, ["db-z1-0", "db-z1-1", "db-z1-2"]), [2, 2, 1]);
    assert_eq!((apps[0].prepared(), apps[1].prepared()), (vec!["db-z0-2".into()], vec!["db-z1-2".into()]));
    done(stage, &apps).await;
}

async fn a_b9_11_pods_that_are_added_with_a_new_template_are_born_with_it(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = given(&stage, 1, &json!({}), [NAME]).await;
    stage.edit(change("v2", 3)).await;
    stage.ready(2, 3).await;
    assert_eq!(lives(&stage, ["db-0", "db-1", "db-2"]), [2, 1, 1]);
    assert!(apps[0].prepared().is_empty());
    done(stage, &apps).await;
}

async fn a_b9_18_a_version_that_crashes_stops_pods_from_leaving_and_from_joining(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = given(&stage, 3, &json!({}), [NAME]).await;
    let annotations = broken("v2")["template"]["spec"]["template"]["metadata"].clone();
    stage
        .edit(with(
            change("v2", 3),
            &json!({ "template": { "spec": { "template": { "metadata": annotations } } } }),
        ))
        .await;
    stage
        .object_is("stuck", |object, seen| {
            let ready =
                object.condition("Ready").is_some_and(|ready| ready.message.contains("CrashLoopBackOff"));
            ready && seen.pods.values().filter(|pod| pod.pod.serves()).count() == 2
        })
        .await;
    stage.edit(json!({ "template": { "spec": { "replicas": 5 } } })).await;
    stage.object_is("stuck all the same", |object, _| object.status.desired_replicas == Some(5)).await;
    stage.edit(json!({ "template": { "spec": { "replicas": 1 } } })).await;
    stage.reports("Scaling").await;
    assert_eq!((apps[0].prepared().len(), stage.view().pods.len()), (0, 3));
    // A template that works does not wait for pods that cannot be called.
    let mut next = change("v3", 1);
    next["template"]["spec"]["template"]["metadata"]["annotations"][behaviour::FAULT] = Value::Null;
    stage.edit(next).await;
    stage.ready(3, 1).await;
    assert_eq!(apps[0].prepared(), ["db-2", "db-1"]);
    done(stage, &apps).await;
}

async fn a_b9_26_an_object_that_is_deleted_with_drain_empties_its_zones_in_order(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let fields = json!({ "zones": ["a", "b"], "deletionPolicy": "Drain" });
    let apps = given(&stage, 2, &fields, ["db-z0", "db-z1"]).await;
    apps[1].say("POST", SHUTDOWN, &[Says::Code(500)]);
    let background =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    stage.view().note("user: deletes the object".to_owned());
    stage.objects().delete(NAME, &background).await.unwrap();
    // The second zone is next once the first one is empty, and blocks.
    let what = "emptied in its first zone";
    stage
        .object_is(what, |object, seen| {
            let says =
                |condition: &sts_plus_api::conditions::Condition| condition.message.contains("db-z1-1");
            object.condition("Ready").is_some_and(says)
                && seen.pods.keys().all(|pod| pod.starts_with("db-z1"))
                && seen.pods.len() == 2
        })
        .await;
    assert_eq!(apps[0].prepared(), ["db-z0-1", "db-z0-0"]);
    apps[1].say("POST", SHUTDOWN, &[Says::Code(200)]);
    stage
        .until("everything to be gone", |seen| {
            let is_gone = seen.objects.is_empty() && seen.sets.is_empty() && seen.pods.is_empty();
            is_gone.then_some(()).ok_or_else(|| format!("{:?} {:?}", seen.objects, seen.sets))
        })
        .await;
    policies_are(&stage, &[]).await;
    done(stage, &apps).await;
}

async fn a_b9_28_a_phased_rollout_gates_a_new_version_once_the_pods_have_left(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = given(&stage, 3, &json!({}), [NAME]).await;
    let rollout = sts_plus_api::kinds::Kind::PhasedRollout.definition();
    let gvk = kube::api::GroupVersionKind::gvk("sts.plus", "v1alpha1", rollout.kind);
    let kind = kube::api::ApiResource::from_gvk_with_plural(&gvk, rollout.plural);
    let rollouts: Api<DynamicObject> = Api::namespaced_with(stage.cluster.user(), &stage.namespace, &kind);
    // It is never asked: nobody approves the first step.
    let check = json!({ "query": { "expr": "up", "url": "http://prometheus.example:9090" } });
    let spec = json!({ "targetRef": NAME, "approval": "EveryStep", "check": check });
    let gate = DynamicObject::new("gate", &kind).data(json!({ "spec": spec }));
    rollouts.create(&PostParams::default(), &gate).await.unwrap();
    until(DEADLINE, "the partition to be held", || async {
        let set = stage.sets().get(NAME).await?;
        let held = set.metadata.annotations.unwrap_or_default();
        held.contains_key(sts_plus_api::keys::PHASED_ROLLOUT).then_some(()).ok_or_else(|| NotYet::saw(held))
    })
    .await;
    stage.edit(change("v2", 2)).await;
    let held = stage.reports("PartitionHeld").await;
    assert!(held.contains("gate"), "{held}");
    assert_eq!(apps[0].prepared(), ["db-2"]);
    assert_eq!(lives(&stage, ["db-0", "db-1", "db-2"]), [1, 1, 1], "no pod has passed a gate");
    rollouts.delete("gate", &DeleteParams::default()).await.unwrap();
    stage.ready(2, 2).await;
    assert_eq!(lives(&stage, ["db-0", "db-1", "db-2"]), [2, 2, 1]);
    done(stage, &apps).await;
}

async fn a_b9_30_a_policy_of_an_object_belongs_to_it(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = given(&stage, 2, &json!({}), [NAME]).await;
    // A policy of a user names the set, and one that the object owns is edited and deleted.
    let own = policy("mine", &json!({ "targetRef": { "name": NAME }, "replicas": 1 }));
    policies(&stage).create(&PostParams::default(), &own).await.unwrap();
    until(DEADLINE, "the reason TargetControlled", || async {
        let mine = policies(&stage).get("mine").await?;
        let reason = mine.data["status"]["conditions"][0]["reason"].clone();
        if reason == "TargetControlled" { Ok(()) } else { Err(NotYet::saw(reason)) }
    })
    .await;
    for patch in [json!({ "spec": { "replicas": 1 } }), json!({ "spec": { "scaleDown": { "hook": null } } })]
    {
        let patch = Patch::Merge(patch);
        policies(&stage).patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    }
    until(DEADLINE, "the policy to be as it was", || async {
        let found = policies(&stage).get(NAME).await?;
        let spec = &found.data["spec"];
        let is_restored = spec["replicas"] == 2 && spec["scaleDown"]["hook"]["http"]["path"] == SHUTDOWN;
        is_restored.then_some(()).ok_or_else(|| NotYet::saw(spec))
    })
    .await;
    stage.ready(1, 2).await;
    policies(&stage).delete("mine", &DeleteParams::default()).await.unwrap();
    policies(&stage).delete(NAME, &DeleteParams::default()).await.unwrap();
    policies_are(&stage, &[NAME]).await;
    // Without rules the object scales by itself again.
    stage.edit(json!({ "scaleDown": null })).await;
    policies_are(&stage, &[]).await;
    stage.edit(json!({ "template": { "spec": { "replicas": 3 } } })).await;
    stage.ready(1, 3).await;
    done(stage, &apps).await;
}

async fn a_pods_of_a_version_that_was_replaced_leave_with_their_hook(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let fields = json!({ "zones": ["a", "b"], "updateStrategy": { "type": "BlueGreen" } });
    let apps = given(&stage, 2, &fields, ["db-z0-v1", "db-z1-v1"]).await;
    stage.edit(change("v2", 2)).await;
    stage.ready(2, 4).await;
    assert_eq!(apps[0].prepared(), ["db-z0-v1-1", "db-z0-v1-0"]);
    assert_eq!(apps[1].prepared(), ["db-z1-v1-1", "db-z1-v1-0"]);
    policies_are(&stage, &["db-z0-v2", "db-z1-v2"]).await;
    done(stage, &apps).await;
}

async fn a_hook_that_blocks_is_what_the_object_waits_for(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let deadline = json!({ "scaleDown": { "hook": { "deadlineSeconds": 1 } } });
    let apps = given(&stage, 2, &deadline, [NAME]).await;
    apps[0].say("POST", SHUTDOWN, &[Says::Text(503, "busy")]);
    stage.edit(change("v2", 1)).await;
    let blocked = stage.reports("ScalingBlocked").await;
    assert!(blocked.contains("db-1") && blocked.contains("DeadlineExceeded"), "{blocked}");
    stage.event("ScalingBlocked").await;
    let metrics = stage.metrics();
    let is_shown = |line: &str| line.contains("state=\"ScalingBlocked\"") && line.ends_with(" 1");
    assert!(metrics.lines().any(is_shown), "{metrics}");
    // The new version may be what repairs the hook, so it does not wait any longer.
    stage
        .object_is("at its new version", |_, seen| {
            let pods = || seen.pods.values();
            pods().count() == 2 && pods().all(|pod| pod.pod.serves() && pod.pod.image == image("v2"))
        })
        .await;
    let leaving = stage.present().status.leaving;
    assert!(leaving.iter().any(|record| record.pod_name == "db-1"), "{leaving:?}");
    apps[0].say("POST", SHUTDOWN, &[Says::Code(200)]);
    stage.ready(2, 1).await;
    done(stage, &apps).await;
}
