//! ExtendedStatefulSets of real containers: how sts-plus is installed for them, and what their status says.

use k8s_openapi::api::{core::v1::Namespace, rbac::v1::Role};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::Value;
use sts_plus_harness::{
    Image, RealNode,
    wait::{NotYet, until},
};

use crate::{DEADLINE, operator::install_with};

/// Namespaces whose Secrets sts-plus may follow: the chart makes a Role in each, so they must be there before it.
pub(crate) const ACTIVE: &str = "active";
pub(crate) const CLAIMS: &str = "claims";
pub(crate) const CONFIG: &str = "config";
pub(crate) const EXAMPLES: &str = "examples";
const NAMESPACES: [&str; 4] = [ACTIVE, CLAIMS, CONFIG, EXAMPLES];

pub(crate) const KIND: &str = "extendedstatefulsets.sts.plus";
pub(crate) const FISSILE_KIND: &str = "extendedstatefulsets.fissile.cloudfoundry.org";

/// BusyBox under the names that documented manifests know it by. The first process of a container ignores SIGTERM, and would
/// be waited for.
pub(crate) fn images() -> [Image; 2] {
    ["latest", "1.36"].map(|tag| {
        Image::new(&format!("docker.io/library/busybox:{tag}"), &[], &["sh"])
            .busybox(&["sh", "sleep", "httpd", "mkdir", "touch", "rm", "cat", "test", "ps", "date"])
            .unwrap()
            .stop_signal("SIGKILL")
    })
}

/// Installs the chart for ExtendedStatefulSets with commands and Secrets.
pub(crate) async fn install(node: &RealNode) {
    let namespaces = Api::<Namespace>::all(node.control_plane().admin());
    let there = namespaces.list(&ListParams::default()).await.unwrap();
    for name in NAMESPACES {
        if !there.iter().any(|namespace| namespace.name_any() == name) {
            node.control_plane().create_namespace(name).await.unwrap();
        }
    }
    let secrets = format!("secrets.namespaces={{{}}}", NAMESPACES.join(","));
    install_with(node, &["execProbes.enabled=true", &secrets]).await;
    for kind in [KIND, FISSILE_KIND] {
        node.kubectl(&["wait", "--for=condition=Established", "--timeout=2m", "crd", kind]).await.unwrap();
    }
    for name in NAMESPACES {
        let roles = Api::<Role>::namespaced(node.control_plane().admin(), name);
        assert_eq!(roles.list(&ListParams::default()).await.unwrap().items.len(), 1, "{name}");
    }
}

pub(crate) async fn apply(node: &RealNode, namespace: &str, manifest: &str) {
    node.kubectl_with(&["-n", namespace, "apply", "-f", "-"], manifest).await.unwrap();
}

/// Waits until the object is Ready in this version with so many pods.
pub(crate) async fn ready(
    node: &RealNode,
    (namespace, kind, name): (&str, &str, &str),
    version: u64,
    pods: u64,
) {
    until(DEADLINE, format!("{name} to be Ready in version {version} with {pods} pods"), || async {
        let object = node.kubectl(&["-n", namespace, "get", kind, name, "-o", "json"]).await?;
        let object: Value = serde_json::from_str(&object)?;
        let status = &object["status"];
        let conditions = status["conditions"].as_array();
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        let is_ready = ready.is_some_and(|condition| condition["status"] == "True")
            && status["observedGeneration"] == object["metadata"]["generation"]
            && status["currentVersion"] == version
            && status["readyReplicas"] == pods;
        if is_ready { Ok(()) } else { Err(NotYet::saw(status)) }
    })
    .await;
}

/// What a command prints in the first container of a pod.
pub(crate) async fn run(node: &RealNode, namespace: &str, pod: &str, command: &str) -> String {
    let arguments = ["-n", namespace, "exec", pod, "--", "sh", "-c", command];
    node.kubectl(&arguments).await.unwrap().trim_end().to_owned()
}

/// Asks for the deletion of a namespace, so that its containers take no time from what follows.
pub(crate) async fn leave(node: &RealNode, namespace: &str) {
    node.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await.unwrap();
}
