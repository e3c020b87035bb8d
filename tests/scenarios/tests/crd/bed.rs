//! An API server, the kind and a place for its objects.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};
use sts_plus_harness::output::{OutputError, output};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, ControlPlane, Options};

/// The kind's name.
pub(crate) const NAME: &str = "phasedrollouts.sts.plus";

/// What the chart installs, which is what `sts-plus crds` prints.
const KINDS: &str = include_str!("../../../../charts/sts-plus/files/crds.yaml");

/// The server learns a kind within a second.
const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct Bed {
    pub(crate) server: ControlPlane,
    pub(crate) rollouts: Api<DynamicObject>,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Bed {
    pub(crate) async fn start(assets: &Assets) -> Self {
        let options = Options { controllers: Vec::new(), ..Options::default() };
        let server = ControlPlane::start(assets, options).await.unwrap();
        let rollouts = Api::default_namespaced_with(server.admin(), &resource());
        let kubectl = assets.binary("kubectl").unwrap();
        let kubeconfig = server.admin_kubeconfig().unwrap();
        Self { server, rollouts, kubectl, kubeconfig }
    }

    /// Installs the kind, as often as wanted, and waits until its rules hold.
    pub(crate) async fn install(&self) {
        self.kubectl_with(&["apply", "--filename", "-"], KINDS).await;
        self.established().await;
        let nothing = object("probe", json!({}));
        until(DEADLINE, "the schema to hold", || async {
            match self.try_out(&nothing).await {
                Err(kube::Error::Api(status)) if status.message.contains("spec.targetRef") => Ok(()),
                other => Err(NotYet::saw(other)),
            }
        })
        .await;
    }

    /// Installs a kind of the same name that takes everything, as a former one may have.
    pub(crate) async fn install_anything_goes(&self) {
        let mut kind: Value = rollout_kind();
        kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.kubectl_with(&["apply", "--filename", "-"], &kind.to_string()).await;
        self.established().await;
    }

    async fn established(&self) {
        let kinds = Api::<CustomResourceDefinition>::all(self.server.admin());
        until(DEADLINE, "the kind to be established", || async {
            let conditions = kinds.get(NAME).await?.status.and_then(|status| status.conditions);
            let conditions: Vec<_> = conditions
                .into_iter()
                .flatten()
                .map(|condition| (condition.type_, condition.status))
                .collect();
            let holds = |kind: &str| conditions.contains(&(kind.to_owned(), "True".to_owned()));
            assert!(!holds("NonStructuralSchema"), "{conditions:?}");
            let served = holds("Established") && self.rollouts.list(&ListParams::default()).await.is_ok();
            served.then_some(()).ok_or_else(|| NotYet::saw(&conditions))
        })
        .await;
    }

    /// What the server would make of an object.
    pub(crate) async fn try_out(&self, object: &DynamicObject) -> kube::Result<DynamicObject> {
        self.rollouts.create(&PostParams { dry_run: true, ..PostParams::default() }, object).await
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "").await
    }

    /// Asks again until all of this is in the answer: the server publishes names and schema of a kind some time after it
    /// serves the kind itself.
    pub(crate) async fn kubectl_shows(&self, arguments: &[&str], words: &[&str]) {
        until(DEADLINE, format!("kubectl {} to show {words:?}", arguments.join(" ")), || async {
            let shown = self.try_kubectl(arguments, "").await?;
            let missing: Vec<_> = words.iter().filter(|words| !shown.contains(**words)).collect();
            if missing.is_empty() { Ok(()) } else { Err(NotYet::saw((missing, shown))) }
        })
        .await;
    }

    async fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        self.try_kubectl(arguments, input).await.unwrap()
    }

    async fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, OutputError> {
        let mut command = Command::new(&self.kubectl);
        let cache = self.server.folder().join("kubectl-cache");
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(cache).args(arguments);
        output(command, input).await
    }
}

fn rollout_kind() -> Value {
    let mut kinds = KINDS.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    kinds.find(|kind| kind["metadata"]["name"] == NAME).unwrap()
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("sts.plus", "v1alpha1", "PhasedRollout");
    ApiResource::from_gvk_with_plural(&kind, "phasedrollouts")
}

pub(crate) fn object(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &resource()).data(json!({"spec": spec}))
}
