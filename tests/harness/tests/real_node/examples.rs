//! The manifests of `examples/extended-statefulset`, as files.

use std::{fs, path::Path};

use kube::Api;
use serde_json::{Value, json};
use sts_plus_harness::{
    RealNode, checkout,
    wait::{NotYet, until},
};
use tempfile::TempDir;

use crate::{
    DEADLINE,
    active::{Active, designated},
    extended::{EXAMPLES, FISSILE_KIND, KIND, apply, install, leave, ready, run},
    stages::Stages,
};

const FOLDER: &str = "examples/extended-statefulset";
const NODE: &str = "node";
const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The zone of the node for all other tests.
const HOME_ZONE: &str = "a";

pub(crate) async fn run_as_described(node: &RealNode) {
    let mut stages = Stages::begin("the examples");
    install(node).await;
    never_pull(node).await;
    crate::claims::name_claims(node).await;
    let volumes = TempDir::new().unwrap();
    apply(node, EXAMPLES, &volumes_in(volumes.path()).to_string()).await;
    stages.end("volumes, and images that are not pulled");

    leader(node).await;
    stages.end("active-passive: the pod that answers, and the Service");
    configs(node).await;
    stages.end("quarks-configs: updated");
    azs(node).await;
    stages.end("quarks-azs: two zones");
    pvcs(node).await;
    stages.end("quarks-pvcs: the same volumes in the next version");
    active_probe(node).await;
    stages.end("quarks-active-probe: the pod whose command passes, and the Service");
    zones(node).await;
    stages.end("zones: three zones, one after the other");
    leave(node, EXAMPLES).await;
}

async fn apply_file(node: &RealNode, file: &str) {
    let manifest = fs::read_to_string(checkout().join(FOLDER).join(file)).unwrap();
    apply(node, EXAMPLES, &manifest).await;
}

/// There is no registry. The manifests are taken as they are, so pods are told where they are created.
async fn never_pull(node: &RealNode) {
    let expression = "Object{spec: Object.spec{containers: object.spec.containers.map(container, \
                      Object.spec.containers{name: container.name, imagePullPolicy: \"Never\"})}}";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "never-pull"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": EXAMPLES}},
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
        "metadata": {"name": "never-pull"},
        "spec": {"policyName": "never-pull"},
    });
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    node.kubectl_with(&["apply", "-f", "-"], &both.to_string()).await.unwrap();
    until(DEADLINE, "the policy to be in effect", || async {
        let pod = ["-n", EXAMPLES, "run", "trial", "--image=busybox", "--dry-run=server", "-o"];
        let policy = [&pod[..], &["jsonpath={.spec.containers[0].imagePullPolicy}"]].concat();
        let policy = node.kubectl(&policy).await?;
        if policy == "Never" { Ok(()) } else { Err(NotYet::saw(policy)) }
    })
    .await;
}

/// Volumes for claims that name no class.
fn volumes_in(folder: &Path) -> Value {
    let volume = |number: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("{EXAMPLES}-{number}")},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": folder.join(number.to_string()), "type": "DirectoryOrCreate"},
            },
        })
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [volume(0), volume(1)]})
}

/// An HTTP probe: the pod that answers is active.
async fn leader(node: &RealNode) {
    let mut labelled =
        Active::watch(Api::namespaced(node.control_plane().admin(), EXAMPLES), designated).await;
    apply_file(node, "active-passive.yaml").await;
    ready(node, (EXAMPLES, KIND, "leader"), 1, 3).await;
    // Which one is the first depends on which one serves first.
    let first = labelled.until_other(None).await;
    for service in ["leader", "leader-active"] {
        leads_to(node, service, &first).await;
    }
    run(node, EXAMPLES, &first, "rm /www/leader").await;
    let second = labelled.until_other(Some(&first)).await;
    for service in ["leader", "leader-active"] {
        leads_to(node, service, &second).await;
    }
    assert_eq!(labelled.course, [None, Some(first), None, Some(second)]);
    delete(node, KIND, "leader").await;
}

async fn leads_to(node: &RealNode, service: &str, pod: &str) {
    until(DEADLINE, format!("Service {service} to lead to {pod}"), || async {
        let selector = format!("kubernetes.io/service-name={service}");
        let names = "jsonpath={.items[*].endpoints[*].targetRef.name}";
        let slices = ["-n", EXAMPLES, "get", "endpointslices", "-l", &selector, "-o", names];
        let found = node.kubectl(&slices).await?;
        if found == pod { Ok(()) } else { Err(NotYet::saw(found)) }
    })
    .await;
}

async fn configs(node: &RealNode) {
    let name = "example-with-configs";
    let look = "echo $SPECIAL_KEY $(cat /etc/example/username)";
    apply_file(node, "quarks-configs.yaml").await;
    ready(node, (EXAMPLES, FISSILE_KIND, name), 1, 2).await;
    assert_eq!(run(node, EXAMPLES, "example-with-configs-v1-1", look).await, "value1 someone");
    apply_file(node, "quarks-configs-updated.yaml").await;
    ready(node, (EXAMPLES, FISSILE_KIND, name), 2, 2).await;
    for ordinal in 0..2 {
        let pod = format!("example-with-configs-v2-{ordinal}");
        assert_eq!(run(node, EXAMPLES, &pod, look).await, "value2 someone");
    }
    until(DEADLINE, "version 1 to be gone", || async {
        let sets = node.kubectl(&["-n", EXAMPLES, "get", "statefulsets", "-o", "name"]).await?;
        let left: Vec<_> = sets.lines().filter(|set| set.contains(name)).collect();
        if left == ["statefulset.apps/example-with-configs-v2"] { Ok(()) } else { Err(NotYet::saw(left)) }
    })
    .await;
    delete(node, FISSILE_KIND, name).await;
}

/// The node is in both zones, by one label each.
async fn azs(node: &RealNode) {
    let name = "example-with-azs";
    label(node, BETA_ZONE, Some("dal10")).await;
    label(node, ZONE, Some("dal13")).await;
    apply_file(node, "quarks-azs.yaml").await;
    ready(node, (EXAMPLES, FISSILE_KIND, name), 1, 4).await;
    for (pod, zone) in [("example-with-azs-z0-v1-1", "dal10 1"), ("example-with-azs-z1-v1-1", "dal13 2")] {
        assert_eq!(run(node, EXAMPLES, pod, "echo $KUBE_AZ $AZ_INDEX").await, zone);
    }
    label(node, BETA_ZONE, None).await;
    label(node, ZONE, Some(HOME_ZONE)).await;
    delete(node, FISSILE_KIND, name).await;
}

async fn pvcs(node: &RealNode) {
    let name = "example-with-pvcs";
    apply_file(node, "quarks-pvcs.yaml").await;
    ready(node, (EXAMPLES, FISSILE_KIND, name), 1, 2).await;
    for ordinal in 0..2 {
        let pod = format!("{name}-v1-{ordinal}");
        run(node, EXAMPLES, &pod, "echo written by $HOSTNAME >/etc/data/file").await;
    }
    let next =
        json!({"spec": {"template": {"spec": {"template": {"metadata": {"labels": {"next": "version"}}}}}}});
    let next = next.to_string();
    node.kubectl(&["-n", EXAMPLES, "patch", FISSILE_KIND, name, "--type=merge", "-p", &next]).await.unwrap();
    ready(node, (EXAMPLES, FISSILE_KIND, name), 2, 2).await;
    for ordinal in 0..2 {
        let pod = format!("{name}-v2-{ordinal}");
        let written = format!("written by {name}-v1-{ordinal}");
        assert_eq!(run(node, EXAMPLES, &pod, "cat /etc/data/file").await, written);
    }
    delete(node, FISSILE_KIND, name).await;
}

/// A command as a probe, which every pod passes.
async fn active_probe(node: &RealNode) {
    let name = "example-with-active-probe";
    let [first, second] = [0, 1].map(|ordinal| format!("{name}-v1-{ordinal}"));
    apply_file(node, "quarks-active-probe.yaml").await;
    ready(node, (EXAMPLES, FISSILE_KIND, name), 1, 2).await;
    let active = async || {
        let selector = "fissile.cloudfoundry.org/pod-designation=active";
        let names = "jsonpath={.items[*].metadata.name}";
        node.kubectl(&["-n", EXAMPLES, "get", "pods", "-l", selector, "-o", names]).await
    };
    let is_active = async |pod: &str| {
        until(DEADLINE, format!("{pod} to be active"), || async {
            let active = active().await?;
            if active == pod { Ok(()) } else { Err(NotYet::saw(active)) }
        })
        .await;
        leads_to(node, name, pod).await;
    };
    // Which one is the first depends on which one is Ready first.
    let before = until(DEADLINE, "one pod to be active", || async {
        let active = active().await?;
        if active == first || active == second { Ok(active) } else { Err(NotYet::saw(active)) }
    })
    .await;
    is_active(&before).await;
    node.kubectl(&["-n", EXAMPLES, "delete", "pod", &before, "--wait=false"]).await.unwrap();
    is_active(if before == first { &second } else { &first }).await;
    delete(node, FISSILE_KIND, name).await;
}

/// The node moves from zone to zone: pods wait for theirs, and those that run stay.
async fn zones(node: &RealNode) {
    apply_file(node, "zones.yaml").await;
    for (index, zone) in ["a", "b", "c"].into_iter().enumerate() {
        label(node, ZONE, Some(zone)).await;
        let set = format!("store-z{index}");
        until(DEADLINE, format!("two pods of {set} to be Ready"), || async {
            let ready =
                ["-n", EXAMPLES, "get", "statefulset", &set, "-o", "jsonpath={.status.readyReplicas}"];
            let ready = node.kubectl(&ready).await?;
            if ready == "2" { Ok(()) } else { Err(NotYet::saw(ready)) }
        })
        .await;
        let logs = node.kubectl(&["-n", EXAMPLES, "logs", &format!("{set}-1")]).await.unwrap();
        assert_eq!(logs.trim_end(), format!("in zone {zone}"));
    }
    ready(node, (EXAMPLES, KIND, "store"), 1, 6).await;
    label(node, ZONE, Some(HOME_ZONE)).await;
}

/// Sets or removes a label of the node.
async fn label(node: &RealNode, key: &str, value: Option<&str>) {
    let label = value.map_or_else(|| format!("{key}-"), |value| format!("{key}={value}"));
    node.kubectl(&["label", "node", NODE, "--overwrite", &label]).await.unwrap();
}

/// Deletes an object, and does not wait for its pods.
async fn delete(node: &RealNode, kind: &str, name: &str) {
    node.kubectl(&["-n", EXAMPLES, "delete", kind, name, "--wait=false"]).await.unwrap();
}
