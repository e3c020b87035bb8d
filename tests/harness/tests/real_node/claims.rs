//! A volume that outlives the version that wrote on it.

use serde_json::{Value, json};
use sts_plus_harness::RealNode;
use tempfile::TempDir;

use crate::{
    extended::{CLAIMS, FISSILE_KIND, apply, install, ready},
    stages::Stages,
};

const NAME: &str = "ledger";
/// A class without a provisioner, so that no claim of another test takes the volume.
const CLASS: &str = "ledgers";
const WRITES: &str = "echo written by version 1 >/data/file";
const PRINTS: &str = "cat /data/file";

pub(crate) async fn outlive_a_version(node: &RealNode) {
    let mut stages = Stages::begin("a volume of two versions");
    install(node).await;
    name_claims(node).await;
    let folder = TempDir::new().unwrap();
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": NAME},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": folder.path()},
        },
    });
    apply(node, CLAIMS, &volume.to_string()).await;
    apply(node, CLAIMS, &object(WRITES).to_string()).await;
    ready(node, (CLAIMS, FISSILE_KIND, NAME), 1, 1).await;
    stages.end("version 1 has written");

    apply(node, CLAIMS, &object(PRINTS).to_string()).await;
    ready(node, (CLAIMS, FISSILE_KIND, NAME), 2, 1).await;
    let logs = node.kubectl(&["-n", CLAIMS, "logs", &format!("{NAME}-v2-0")]).await.unwrap();
    assert_eq!(logs.trim_end(), "written by version 1");
    let claims = node.kubectl(&["-n", CLAIMS, "get", "pvc", "-o", "name"]).await.unwrap();
    assert_eq!(claims.trim_end(), format!("persistentvolumeclaim/data-volume-management-{NAME}-0"));
    stages.end("version 2 has printed it");
    node.kubectl(&["-n", CLAIMS, "delete", FISSILE_KIND, NAME, "--wait=false"]).await.unwrap();
}

/// What gives pods the claims of their ordinals, as the chart's admission does.
pub(crate) async fn name_claims(node: &RealNode) {
    let claim = "volume.persistentVolumeClaim";
    let expression = format!(
        "Object{{spec: Object.spec{{volumes: object.spec.volumes.filter(volume, has({claim}) && \
         {claim}.claimName.endsWith('.ordinal')).map(volume, Object.spec.volumes{{name: volume.name, \
         persistentVolumeClaim: Object.spec.volumes.persistentVolumeClaim{{claimName: \
         {claim}.claimName.replace('.ordinal', '-' + object.metadata.labels['apps.kubernetes.io/pod-index'])}}}})}}}}"
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "claims-by-ordinal"},
        "spec": {
            "matchConstraints": {
                "objectSelector": {"matchLabels": {"sts.plus/stable-claims": "true"}},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
                ],
            },
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}},
            ],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "claims-by-ordinal"},
        "spec": {"policyName": "claims-by-ordinal"},
    });
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    node.kubectl_with(&["apply", "-f", "-"], &both.to_string()).await.unwrap();
}

fn object(first: &str) -> Value {
    json!({
        "apiVersion": "fissile.cloudfoundry.org/v1alpha1",
        "kind": "ExtendedStatefulSet",
        "metadata": {"name": NAME},
        "spec": {"template": {"spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{
                "name": "main",
                "image": "busybox:1.36",
                "imagePullPolicy": "Never",
                // So that what comes first is done when the pod is Ready.
                "command": ["sh", "-c", format!("{first} && touch /done; exec sleep 1000000")],
                "readinessProbe": {"exec": {"command": ["test", "-e", "/done"]}, "periodSeconds": 1},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "storageClassName": CLASS,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        }}},
    })
}
