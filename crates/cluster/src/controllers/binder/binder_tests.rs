use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::super::tests::{cluster, create, settle};
use super::*;

struct Setup {
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
    client: Client,
}

impl Setup {
    fn new() -> Self {
        let client = cluster();
        Setup { claims: Api::default_namespaced(client.clone()), volumes: Api::all(client.clone()), client }
    }

    async fn claim(&self, name: &str, more: Value) {
        let mut spec =
            json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(&self.claims, json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    async fn class(&self, name: &str, more: Value) {
        let mut class = json!({ "metadata": { "name": name }, "provisioner": "p" });
        class.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(&Api::<StorageClass>::all(self.client.clone()), class).await;
    }

    async fn volume(&self, name: &str, more: Value) {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "2Gi" }, "hostPath": { "path": "/x" },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(&self.volumes, json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    /// Phase, volume, class and capacity of a claim.
    async fn shown(&self, name: &str) -> [String; 4] {
        settle().await;
        let claim = self.claims.get(name).await.unwrap();
        let (spec, status) = (claim.spec.unwrap(), claim.status.unwrap_or_default());
        let capacity = status.capacity.and_then(|capacity| Some(capacity.get("storage")?.0.clone()));
        [status.phase, spec.volume_name, spec.storage_class_name, capacity].map(Option::unwrap_or_default)
    }

    async fn phase(&self, volume: &str) -> Option<String> {
        settle().await;
        self.volumes
            .get_opt(volume)
            .await
            .unwrap()
            .map(|volume| volume.status.unwrap().phase.unwrap_or_default())
    }

    async fn delete_claim(&self, name: &str) {
        self.claims.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_a_volume_that_goes_with_it() {
    let setup = Setup::new();
    setup.claim("c", json!({})).await;
    let [phase, volume, class, capacity] = setup.shown("c").await;
    let uid = setup.claims.get("c").await.unwrap().uid().unwrap();
    assert_eq!([phase, volume.clone(), class, capacity], ["Bound", &format!("pvc-{uid}"), "standard", "1Gi"]);
    assert_eq!(setup.phase(&volume).await.as_deref(), Some("Bound"));
    setup.delete_claim("c").await;
    assert_eq!(setup.phase(&volume).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_newest_default_class_counts_also_for_claims_that_waited() {
    let setup = Setup::new();
    settle().await;
    let classes = Api::<StorageClass>::all(setup.client.clone());
    classes.delete("standard", &DeleteParams::default()).await.unwrap();
    setup.claim("c", json!({})).await;
    assert_eq!(setup.shown("c").await, ["Pending", "", "", ""]);
    let default = |name: &str| json!({ "metadata": { "name": name, "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } });
    setup.class("old", default("old")).await;
    assert_eq!(setup.shown("c").await[2], "old");
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    setup.class("a-new", default("a-new")).await;
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    setup.class("z-plain", json!({})).await;
    setup.claim("d", json!({})).await;
    assert_eq!(setup.shown("d").await[2], "a-new");
    setup.claim("none", json!({ "storageClassName": "" })).await;
    assert_eq!(setup.shown("none").await, ["Pending", "", "", ""], "no class is a choice, too");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_there_is_bound_kept_and_given_to_nobody_else() {
    let setup = Setup::new();
    setup.claim("c", json!({ "storageClassName": "" })).await;
    assert_eq!(setup.shown("c").await[0], "Pending");
    setup.volume("static", json!({ "persistentVolumeReclaimPolicy": "Retain" })).await;
    assert_eq!(setup.shown("c").await, ["Bound", "static", "", "2Gi"]);
    setup.claim("late", json!({ "storageClassName": "" })).await;
    assert_eq!(setup.shown("late").await[0], "Pending");
    setup.delete_claim("c").await;
    assert_eq!(setup.phase("static").await.as_deref(), Some("Released"));
    assert_eq!(setup.shown("late").await[0], "Pending", "what was somebody's is nobody else's");
    let free = Patch::Merge(json!({ "spec": { "claimRef": null } }));
    setup.volumes.patch("static", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(setup.shown("late").await[..2], ["Bound", "static"]);
}

#[tokio::test(start_paused = true)]
async fn volumes_reserve_claims_and_claims_volumes() {
    let setup = Setup::new();
    setup.volume("mine", json!({ "claimRef": { "namespace": "default", "name": "c" } })).await;
    setup.volume("wanted", json!({})).await;
    assert_eq!(setup.phase("mine").await.as_deref(), Some("Available"));
    setup.claim("other", json!({ "storageClassName": "" })).await;
    assert_eq!(setup.shown("other").await[1], "wanted");
    setup.claim("c", json!({ "storageClassName": "" })).await;
    assert_eq!(setup.shown("c").await[1], "mine");
    setup.claim("picky", json!({ "storageClassName": "", "volumeName": "later" })).await;
    assert_eq!(setup.shown("picky").await[0], "Pending");
    setup.volume("later", json!({})).await;
    assert_eq!(setup.shown("picky").await[..2], ["Bound", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_grows_where_its_class_lets_it() {
    let setup = Setup::new();
    setup.class("fixed", json!({})).await;
    setup.claim("c", json!({})).await;
    setup.claim("f", json!({ "storageClassName": "fixed" })).await;
    let grow = Patch::Merge(json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } }));
    let volume = setup.shown("c").await[1].clone();
    setup.claims.patch("c", &PatchParams::default(), &grow).await.unwrap();
    assert_eq!(setup.shown("c").await[3], "3Gi");
    let capacity = setup.volumes.get(&volume).await.unwrap().spec.unwrap().capacity.unwrap();
    assert_eq!(capacity["storage"].0, "3Gi");
    if setup.claims.patch("f", &PatchParams::default(), &grow).await.is_ok() {
        assert_eq!(setup.shown("f").await[3], "1Gi");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_is_gone_is_lost() {
    let setup = Setup::new();
    setup.claim("c", json!({})).await;
    let volume = setup.shown("c").await[1].clone();
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    setup.volumes.patch(&volume, &PatchParams::default(), &free).await.unwrap();
    setup.volumes.delete(&volume, &DeleteParams::default()).await.unwrap();
    assert_eq!(setup.shown("c").await[0], "Lost");
}
