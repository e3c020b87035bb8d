//! Rows of the table through a client: defaults, rules, custom resources.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::machinery::service::{Server, Settings};

fn client() -> Client {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    Client::new(Server::new(Settings::new(clock)).unwrap(), "default")
}

fn set(change: &Value) -> Value {
    let mut set = json!({
        "metadata": { "name": "s" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } }, "serviceName": "s",
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{
                    "name": "c", "image": "i:1", "volumeMounts": [{ "name": "data", "mountPath": "/d" }],
                }] },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
        },
    });
    set = crate::machinery::patch::merge(&set, change);
    set
}

async fn create(client: &Client, set: &Value) -> Result<Value, Error> {
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(set.to_string().into_bytes()).unwrap()).await
}

fn message(answer: Result<impl std::fmt::Debug, Error>) -> String {
    match answer.unwrap_err() {
        Error::Api(status) => format!("{} {}", status.code, status.message),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_completed_as_kubernetes_does() {
    let created = create(&client(), &set(&json!({}))).await.unwrap();
    assert_eq!(
        created["spec"],
        json!({
            "replicas": 1, "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": {
                    "containers": [{
                        "name": "c", "image": "i:1", "resources": {},
                        "volumeMounts": [{ "name": "data", "mountPath": "/d" }],
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }],
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                    "securityContext": {}, "schedulerName": "default-scheduler",
                },
            },
            "volumeClaimTemplates": [{
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                    "volumeMode": "Filesystem",
                },
                "status": { "phase": "Pending" },
            }],
            "serviceName": "s", "podManagementPolicy": "OrderedReady",
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
        })
    );
    assert_eq!(created["status"], json!({ "replicas": 0, "availableReplicas": 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_breaks_the_rules_is_refused() {
    let client = client();
    for (change, said) in [
        (
            json!({ "metadata": { "name": "a.b" } }),
            "metadata.name: Invalid value: \"a.b\": must not contain dots",
        ),
        (
            json!({ "spec": { "replicas": -1 } }),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (json!({ "spec": { "selector": null } }), "spec.selector: Required value"),
        (
            json!({ "spec": { "selector": { "matchLabels": null } } }),
            "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
        ),
        (
            json!({ "spec": { "selector": { "matchLabels": { "app": "b" } } } }),
            "`selector` does not match template",
        ),
        (json!({ "spec": { "podManagementPolicy": "Odd" } }), "must be 'OrderedReady' or 'Parallel'"),
        (json!({ "spec": { "updateStrategy": { "type": "Odd" } } }), "spec.updateStrategy"),
        (
            json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "partition": 1 } } } }),
            "only allowed",
        ),
        (json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": -1 } } } }), "partition"),
        (json!({ "spec": { "ordinals": { "start": -1 } } }), "spec.ordinals.start"),
        (json!({ "spec": { "serviceName": "A" } }), "spec.serviceName"),
        (json!({ "spec": { "volumeClaimTemplates": null } }), "volumeMounts[0].name: Not found: \"data\""),
        (
            json!({ "spec": { "template": { "spec": { "restartPolicy": "Never" } } } }),
            "supported values: \"Always\"",
        ),
        (
            json!({ "spec": { "template": { "spec": { "activeDeadlineSeconds": 1 } } } }),
            "activeDeadlineSeconds",
        ),
        (
            json!({ "spec": { "template": { "spec": { "containers": null } } } }),
            "spec.template.spec.containers: Required",
        ),
    ] {
        let message = message(create(&client, &set(&change)).await);
        assert!(message.starts_with("422 ") && message.contains(said), "{change}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_changes_only_where_it_may_and_counts_it() {
    let client = client();
    create(&client, &set(&json!({}))).await.unwrap();
    let sets: Api<StatefulSet> = Api::default_namespaced(client);
    let patch = async |patch: Value| sets.patch("s", &PatchParams::default(), &Patch::Merge(patch)).await;
    let generation = |set: StatefulSet| set.metadata.generation;
    assert_eq!(generation(patch(json!({ "spec": { "replicas": 3 } })).await.unwrap()), Some(2));
    assert_eq!(generation(patch(json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap()), Some(2));
    assert_eq!(generation(patch(json!({ "spec": { "ordinals": { "start": 2 } } })).await.unwrap()), Some(3));
    for frozen in [
        json!({ "serviceName": "t" }),
        json!({ "podManagementPolicy": "Parallel" }),
        json!({ "volumeClaimTemplates": null, "template": { "spec": { "containers": [{ "name": "c", "image": "i" }] } } }),
    ] {
        let message = message(patch(json!({ "spec": frozen })).await);
        assert!(message.contains("spec: Forbidden: updates to statefulset spec"), "{message}");
    }
    let seven = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    let scale = sets.patch_scale("s", &PatchParams::default(), &seven).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(7));
    let scaled = sets.get("s").await.unwrap();
    assert_eq!((scaled.spec.unwrap().replicas, scaled.metadata.generation), (Some(7), Some(4)));
    let status = json!({ "status": { "replicas": 1, "readyReplicas": 2 } });
    let refused = sets.patch_status("s", &PatchParams::default(), &Patch::Merge(status)).await;
    assert!(message(refused).contains("status.readyReplicas: Invalid value: 2: cannot be greater than"));
}

#[tokio::test(start_paused = true)]
async fn a_definition_adds_a_kind_with_its_schema_status_and_scale() {
    let client = client();
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count" },
                },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "required": ["color"], "properties": {
                        "color": { "type": "string", "enum": ["red", "blue"] },
                        "count": { "type": "integer", "default": 2 },
                    } },
                    "status": { "type": "object", "properties": { "count": { "type": "integer" } } },
                } } },
            }],
        },
    });
    let definition: DynamicObject = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let established = definitions.get("things.example.com").await.unwrap();
    assert_eq!(established.data["status"]["conditions"][1]["type"], "Established");

    let things = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"));
    let things: Api<DynamicObject> = Api::default_namespaced_with(client, &things);
    let thing = |spec: Value| -> DynamicObject {
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "t" }, "spec": spec,
            "status": { "count": 9 },
        });
        serde_json::from_value(thing).unwrap()
    };
    let refused = things.create(&PostParams::default(), &thing(json!({ "color": "green" }))).await;
    assert!(
        message(refused).starts_with("422 Thing.example.com \"t\" is invalid: spec.color: Unsupported value")
    );
    let made =
        things.create(&PostParams::default(), &thing(json!({ "color": "red", "odd": 1 }))).await.unwrap();
    assert_eq!(
        made.data,
        json!({ "spec": { "color": "red", "count": 2 } }),
        "completed, and nothing unknown"
    );
    assert_eq!(made.metadata.generation, Some(1));
    let status = Patch::Merge(json!({ "status": { "count": 5 }, "spec": { "color": "blue" } }));
    let told = things.patch_status("t", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(told.data["status"]["count"], 5);
    assert_eq!((&told.data["spec"]["color"], told.metadata.generation), (&json!("red"), Some(1)));
    let scale = things.get_scale("t").await.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, scale.status.unwrap().replicas), (Some(2), 5));
    let strategic = Patch::Strategic(json!({ "spec": { "color": "blue" } }));
    let refused = things.patch("t", &PatchParams::default(), &strategic).await;
    assert!(message(refused).starts_with("415 "));

    definitions.delete("things.example.com", &DeleteParams::default()).await.unwrap();
    assert!(message(things.get("t").await).starts_with("404 "));
    assert_eq!(established.name_any(), "things.example.com");
}
