//! The life of a ScalingPolicy with everything that makes its controller ask for something.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use sts_plus_harness::faults::{Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_scenarios::cluster::{Cluster, Request};
use sts_plus_scenarios::scaling::manifest::{down, hook, with};
use sts_plus_scenarios::scaling::volumes::{CLAIM, EXPANDABLE, Volumes, claiming};
use sts_plus_scenarios::scaling::{NAME, Scaled};
use sts_plus_scenarios::stale::stale;
use tokio::sync::watch;

use crate::{READ_DEADLINE, Use};

/// A lock, claims that are deleted, claims that grow, a hook with credentials, a number of replicas that somebody else lowers, a write of it that gets lost, a watch that shows
/// nothing, and the end of the policy.
pub(crate) async fn life(cluster: &Arc<dyn Cluster>) -> BTreeSet<Use> {
    let stage = Scaled::without_operator(cluster, "scaling-permissions").await;
    let secrets = Api::<Secret>::namespaced(cluster.user(), &stage.namespace);
    let secret = json!({ "metadata": { "name": "hook" }, "stringData": { "token": "t" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let lost = AtomicBool::new(false);
    let faults = Faults::new(move |call| {
        let lowers = call.method == "PATCH" && String::from_utf8_lossy(&call.body).contains("\"replicas\":2");
        if lowers && !lost.swap(true, Ordering::Relaxed) { Fault::Refuse } else { Fault::None }
    });
    let (flow, flows) = watch::channel(true);
    let client = stale(stage.account().client.clone(), "scalingpolicies", flows);
    let operator = stage.operator_through(&faults.client(&client));
    let authorization = json!({ "secretKeyRef": { "name": "hook", "key": "token" } });
    let hook = with(hook(), &json!({ "http": { "authorization": authorization } }));
    let app = stage.app(NAME);
    let volumes = Volumes::of(cluster.user(), &stage.namespace, (NAME, 4), EXPANDABLE).await;
    stage.create_set(&claiming(NAME, 4, EXPANDABLE)).await;
    stage.serves(NAME, "v1").await;
    stage.create(&down(NAME, &hook)).await;
    stage.settled(4).await;
    stage.edit(json!({ "scaleDown": { "fence": "Lock", "claims": "DeleteAfterDrain" } })).await;
    stage.replaced(&[2, 2, 2, 2]).await;
    stage.settled(4).await;
    stage.scale(3).await;
    stage.settled(3).await;
    stage.edit(json!({ "scaleDown": { "fence": "None", "claims": "Retain" } })).await;
    stage.replaced(&[3, 3, 3]).await;
    stage.policy_is("without a lock", |policy, _| policy.status.lock.is_none()).await;
    stage.settled(3).await;
    stage.scale(2).await;
    stage.settled(2).await;
    let mut prepared = app.prepared();
    // A hollow node runs no init container: a pod that comes in the place of a drained one before the number is lowered starts
    // in spite of its lock, and is called, too.
    prepared.dedup();
    assert_eq!(prepared, ["ingester-3", "ingester-2"]);
    let before = stage.sets().get(NAME).await.unwrap().metadata.uid;
    stage.edit(json!({ "volumeClaims": [{ "name": CLAIM, "storage": "2Gi" }] })).await;
    until(READ_DEADLINE, "the set to be created again", || async {
        volumes.play().await;
        let set = stage.sets().get_opt(NAME).await?.and_then(|set| set.metadata.uid);
        (set.is_some() && set != before).then_some(()).ok_or_else(|| NotYet::saw(set))
    })
    .await;
    stage
        .policy_is("done with it", |policy, _| {
            policy.status.remedy.as_ref().is_some_and(|remedy| remedy.replicas == Some(2))
        })
        .await;
    // What the operator writes about this is not shown by the watch, so it is read in the end.
    flow.send_replace(false);
    stage.write_replicas(NAME, 1, "somebody").await;
    until(READ_DEADLINE, "the policy to be read", || async {
        let requests = cluster.requests(stage.account())?;
        let is_read = |request: &Request| request.verb == "get" && request.resource == "scalingpolicies";
        requests.iter().any(is_read).then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    flow.send_replace(true);
    stage.settled(2).await;
    stage.delete().await;
    stage.gone().await;
    operator.stop().await;
    let requests = stage.requests().await;
    stage.finish(&[&app]).await;
    requests.into_iter().map(|request| (request.verb, request.resource)).collect()
}
