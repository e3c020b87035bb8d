//! The lock: it is added, pods leave by it, it is repaired, and it is removed.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{down, hook};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;

/// The ConfigMap of the lock.
const LOCK: &str = "ingester-lock";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![a_b4_1_a_lock_is_added_has_the_keys_of_the_pods_and_is_removed]
}

async fn a_b4_1_a_lock_is_added_has_the_keys_of_the_pods_and_is_removed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    stage.edit(json!({ "scaleDown": { "fence": "Lock" } })).await;
    let told = stage.event("LockAdded").await;
    assert!(told.contains("replaces each of its pods once"), "{told}");
    stage.replaced(&[2, 2, 2]).await;
    stage.settled(3).await;
    has_keys(&stage, &["0", "1", "2"]).await;
    assert_eq!(first_init(&stage).await.as_deref(), Some(keys::LOCK));

    stage.scale(2).await;
    stage.settled(2).await;
    let mut prepared = app.prepared();
    // A hollow node runs no init container: a pod that comes in the place of a drained one before the number is lowered starts
    // in spite of its lock, and is called, too.
    prepared.dedup();
    assert_eq!(prepared, ["ingester-2"]);
    has_keys(&stage, &["0", "1"]).await;

    let locks = locks(&stage);
    locks.delete(LOCK, &DeleteParams::default()).await.unwrap();
    has_keys(&stage, &["0", "1"]).await;
    let edit = Patch::Merge(json!({ "data": { "0": null, "7": "may run" } }));
    locks.patch(LOCK, &PatchParams::default(), &edit).await.unwrap();
    has_keys(&stage, &["0", "1"]).await;

    stage.scale(3).await;
    stage.settled(3).await;
    has_keys(&stage, &["0", "1", "2"]).await;
    assert_eq!(stage.lives(0..2), [2, 2], "nobody else was restarted");

    stage.edit(json!({ "scaleDown": { "fence": "None" } })).await;
    stage.replaced(&[3, 3]).await;
    until(DEADLINE, "the ConfigMap to be gone", || async {
        match locks.get_opt(LOCK).await? {
            None => Ok(()),
            Some(lock) => Err(NotYet::saw(lock.data)),
        }
    })
    .await;
    stage.settled(3).await;
    assert_eq!(first_init(&stage).await, None);
    stage.finish(&[&app]).await;
}

fn locks(stage: &Scaled) -> Api<ConfigMap> {
    Api::namespaced(stage.cluster.user(), &stage.namespace)
}

/// Waits until the lock has these keys and no others.
async fn has_keys(stage: &Scaled, expected: &[&str]) {
    let locks = locks(stage);
    until(DEADLINE, format!("a lock with the keys {expected:?}"), || async {
        let lock = locks.get_opt(LOCK).await?;
        let keys: Vec<_> = lock.and_then(|lock| lock.data).unwrap_or_default().into_keys().collect();
        if keys == expected { Ok(()) } else { Err(NotYet::saw(keys)) }
    })
    .await;
}

/// The name of the first init container of the template.
async fn first_init(stage: &Scaled) -> Option<String> {
    let set = stage.sets().get(NAME).await.unwrap();
    let spec = set.spec?.template.spec?;
    spec.init_containers?.into_iter().next().map(|container| container.name)
}
