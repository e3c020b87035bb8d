//! The embedded API server with the kinds of the chart.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, Result};
use serde_json::{Value, json};

use crate::server;

/// What the chart installs, which is what `sts-plus crds` prints.
const KINDS: &str = include_str!("../../../../charts/sts-plus/files/crds.yaml");

/// The kind that these tests are about.
const NAME: &str = "phasedrollouts.sts.plus";

pub(crate) struct Bed {
    pub(crate) rollouts: Api<DynamicObject>,
    kinds: Api<CustomResourceDefinition>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let client = Client::new(server(), "default");
        Self { rollouts: Api::default_namespaced_with(client.clone(), &resource()), kinds: Api::all(client) }
    }

    pub(crate) async fn install(&self) {
        for kind in kinds() {
            self.write(&kind).await;
        }
    }

    /// Installs a kind of the same name that takes everything, as a former one may have.
    pub(crate) async fn install_anything_goes(&self) {
        let mut kind = kinds().find(|kind| kind["metadata"]["name"] == NAME).unwrap();
        kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.write(&kind).await;
    }

    async fn write(&self, kind: &Value) {
        let name = kind["metadata"]["name"].as_str().unwrap();
        self.kinds.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(kind)).await.unwrap();
    }

    /// What the server would make of an object.
    pub(crate) async fn try_out(&self, object: &DynamicObject) -> Result<DynamicObject> {
        self.rollouts.create(&PostParams { dry_run: true, ..PostParams::default() }, object).await
    }
}

fn kinds() -> impl Iterator<Item = Value> {
    KINDS.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap())
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("sts.plus", "v1alpha1", "PhasedRollout");
    ApiResource::from_gvk_with_plural(&kind, "phasedrollouts")
}

pub(crate) fn object(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &resource()).data(json!({"spec": spec}))
}
