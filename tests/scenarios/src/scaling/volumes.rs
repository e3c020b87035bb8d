//! The volumes of a set's claims. The embedded cluster binds claims and lets volumes grow. The real control plane of these tests
//! does neither, so a scenario plays both.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::manifest::{set, with};

/// The name of the claim template.
pub const CLAIM: &str = "data";

/// A class whose volumes can grow.
pub const EXPANDABLE: &str = "expandable";

/// A class whose volumes cannot.
pub const FIXED: &str = "fixed";

/// The claims of a namespace.
pub struct Volumes {
    client: Client,
    namespace: String,
}

impl Volumes {
    /// Those of a namespace: volumes of a class for a set of this name with at most so many pods.
    pub async fn of(client: Client, namespace: &str, (set, pods): (&str, u32), class: &str) -> Self {
        for (name, grows) in [(EXPANDABLE, true), (FIXED, false)] {
            let class = json!({
                "metadata": { "name": name },
                "provisioner": "kubernetes.io/no-provisioner",
                "allowVolumeExpansion": grows,
            });
            create::<StorageClass>(&Api::all(client.clone()), class).await;
        }
        for pod in 0..pods {
            let volume = json!({
                "metadata": { "name": format!("{namespace}-{pod}") },
                "spec": {
                    "capacity": { "storage": "1Gi" },
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": class,
                    "hostPath": { "path": format!("/tmp/{namespace}-{pod}") },
                    "claimRef": { "namespace": namespace, "name": format!("{CLAIM}-{set}-{pod}") },
                },
            });
            create::<PersistentVolume>(&Api::all(client.clone()), volume).await;
        }
        Self { client, namespace: namespace.to_owned() }
    }

    fn api(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The claims, by name.
    pub async fn claims(&self) -> Vec<PersistentVolumeClaim> {
        let mut claims = self.api().list(&ListParams::default()).await.unwrap().items;
        claims.sort_by_key(ResourceExt::name_any);
        claims
    }

    /// What each claim asks for.
    pub async fn asked(&self) -> Vec<String> {
        let asked = |claim: PersistentVolumeClaim| claim.spec?.resources?.requests?.remove("storage");
        self.claims().await.into_iter().filter_map(asked).map(|Quantity(storage)| storage).collect()
    }

    /// The UID of each claim.
    pub async fn uids(&self) -> Vec<String> {
        self.claims().await.into_iter().filter_map(|claim| claim.uid()).collect()
    }

    /// Binds claims that are bound to nothing, and lets volumes grow to what is asked for.
    pub async fn play(&self) {
        for claim in self.claims().await {
            let status = claim.status.clone().unwrap_or_default();
            let requests = claim.spec.clone().and_then(|spec| spec.resources?.requests).unwrap_or_default();
            if status.phase.as_deref() == Some("Bound") && status.capacity.as_ref() == Some(&requests) {
                continue;
            }
            let status = json!({ "status": { "phase": "Bound", "capacity": requests } });
            // The claim may change at the same time; the next round finds that.
            let _ = self
                .api()
                .patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(status))
                .await;
        }
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    match api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}

/// The usual set with a claim of 1Gi of this class.
pub fn claiming(name: &str, replicas: u32, class: &str) -> Value {
    let claim = json!({
        "metadata": { "name": CLAIM },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let metadata =
        json!({ "labels": { "example.com/by": "user" }, "annotations": { "example.com/note": "kept" } });
    with(set(name, replicas), &json!({ "metadata": metadata, "spec": { "volumeClaimTemplates": [claim] } }))
}

/// A spec of a policy that asks for this size.
pub fn sized(target: &str, storage: &str) -> Value {
    json!({ "targetRef": { "name": target }, "volumeClaims": [{ "name": CLAIM, "storage": storage }] })
}
