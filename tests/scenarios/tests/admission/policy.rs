//! The policy of the chart on a real API server, compared with what the admission server decides.

use std::process::Command;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use sts_plus_api::keys::{POD_INDEX, STABLE_CLAIMS};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, checkout};
use sts_plus_planner::admission::claims::decide;
use sts_plus_planner::admission::{Edit, Operation, Request, World};
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::observer::DEADLINE;

const NAMESPACE: &str = "claims-by-policy";

/// Replicas of the StatefulSet: two digits.
const REPLICAS: usize = 12;

pub(crate) async fn compare(cluster: &Arc<dyn Cluster>) {
    cluster.make_namespace(NAMESPACE).await.unwrap();
    for object in rendered() {
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let (group, version) = version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::<DynamicObject>::all_with(cluster.user(), &resource);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    let pods = Api::<Pod>::namespaced(cluster.user(), NAMESPACE);
    let simple = pod("db-1", Some("1"), "true", &["d.ordinal"]);
    until(DEADLINE, "the policy to be heeded", || async {
        let claims = created(&pods, &simple).await;
        if claims == ["d-1"] { Ok(()) } else { Err(NotYet::saw(claims)) }
    })
    .await;
    for (name, index, label, volumes) in cases() {
        let pod = pod(name, index, label, &volumes);
        assert_eq!(created(&pods, &pod).await, decided(&pod), "{pod}");
    }
    set(cluster, &pods).await;
}

fn rendered() -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let mut helm = Command::new(Assets::find().unwrap().binary("helm").unwrap());
    helm.current_dir(checkout());
    helm.args(["template", "sts-plus", "charts/sts-plus", "--show-only", "templates/stableclaims.yaml"]);
    helm.args(["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]);
    for (variable, folder) in
        [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
    {
        helm.env(variable, home.path().join(folder));
    }
    let output = helm.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// Name, label of the ordinal, label of ours, claims of volumes.
type Case = (&'static str, Option<&'static str>, &'static str, Vec<&'static str>);

fn cases() -> Vec<Case> {
    let one = || vec!["data-volume-management-db-z0.ordinal"];
    let mut cases = vec![
        ("db-v1-0", Some("0"), "true", vec!["data-volume-management-db.ordinal", "plain", "wal.ordinal"]),
        ("db-v1-11", None, "true", one()),
        (
            "db-v1-3",
            Some("7"),
            "true",
            vec![".ordinal", "ordinal", "x.ordinal-y", "a.ordinal.ordinal", "xordinal"],
        ),
        ("other-1", Some("1"), "false", one()),
        ("none-1", Some("1"), "true", vec![]),
    ];
    let labels = ["00", "01", "", "x", "1.5", "1-2", "9999999999", "4294967295", "4294967296", "99999999999"];
    cases.extend(labels.map(|label| ("db-v1-5", Some(label), "true", one())));
    let names = ["db-v1-00", "db-v1-05", "db5", "7", "db-x", "db.5", "db-v1-4294967296", "a-b-12"];
    cases.extend(names.map(|name| (name, None, "true", one())));
    cases
}

fn pod(name: &str, index: Option<&str>, label: &str, claims: &[&str]) -> Value {
    let mut labels = json!({ STABLE_CLAIMS: label });
    if let Some(index) = index {
        labels[POD_INDEX] = index.into();
    }
    let volume = |(at, claim): (usize, &&str)| json!({ "name": format!("v{at}"), "persistentVolumeClaim": { "claimName": claim, "readOnly": at % 2 == 1 } });
    let tmp = json!({ "name": "tmp", "emptyDir": {} });
    let volumes: Vec<_> = [tmp].into_iter().chain(claims.iter().enumerate().map(volume)).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [{ "name": "db", "image": "db" }], "volumes": volumes },
    })
}

/// The claims that the API server would create the pod with.
async fn created(pods: &Api<Pod>, pod: &Value) -> Vec<String> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let created = pods.create(&dry, &serde_json::from_value(pod.clone()).unwrap()).await.unwrap();
    claims(&serde_json::to_value(created).unwrap())
}

/// The claims that the admission server would give it.
fn decided(pod: &Value) -> Vec<String> {
    let text = pod.to_string();
    let request = Request {
        operation: Operation::Create,
        group: "".into(),
        resource: "pods".into(),
        subresource: "".into(),
        object: Some(&text),
    };
    let mut pod = pod.clone();
    for Edit { path, value } in decide(&request, &World::default()).unwrap().patch {
        *pod.pointer_mut(&path).unwrap() = value;
    }
    claims(&pod)
}

/// The names of claims, each with whether it is read only.
fn claims(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
    let claims = volumes.filter_map(|volume| volume.get("persistentVolumeClaim"));
    let shown = claims.map(|claim| {
        let only = if claim["readOnly"] == true { " read only" } else { "" };
        format!("{}{only}", claim["claimName"].as_str().unwrap())
    });
    shown.collect()
}

/// A StatefulSet whose template has a placeholder and no claim templates: Kubernetes' own controller makes its pods.
async fn set(cluster: &Arc<dyn Cluster>, pods: &Api<Pod>) {
    let mut template = pod("x", None, "true", &["data-volume-management-db.ordinal"]);
    template["metadata"]["labels"]["app"] = "db".into();
    let mount = json!([{ "name": "v0", "mountPath": "/data" }]);
    template["spec"]["containers"][0]["volumeMounts"] = mount;
    let set = json!({
        "metadata": { "name": "db-v1" },
        "spec": {
            "replicas": REPLICAS,
            "podManagementPolicy": "Parallel",
            "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": { "metadata": { "labels": template["metadata"]["labels"] }, "spec": template["spec"] },
        },
    });
    let sets = Api::<StatefulSet>::namespaced(cluster.user(), NAMESPACE);
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    until(DEADLINE, "every pod with its claim", || async {
        let mut seen = Vec::new();
        for ordinal in 0..REPLICAS {
            let pod = pods.get(&format!("db-v1-{ordinal}")).await?;
            seen.push((ordinal, claims(&serde_json::to_value(pod)?)));
        }
        let is_right = |(ordinal, claims): &(usize, Vec<String>)| {
            *claims == [format!("data-volume-management-db-{ordinal}")]
        };
        if seen.iter().all(is_right) { Ok(()) } else { Err(NotYet::saw(seen)) }
    })
    .await;
}
