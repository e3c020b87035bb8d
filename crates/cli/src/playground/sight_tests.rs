use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};

use super::*;

fn api(client: &kube::Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::default_namespaced_with(client.clone(), &resource)
}

async fn create(api: &Api<DynamicObject>, object: Value) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn revision(name: &str, number: i64) -> Value {
    let metadata = json!({ "name": name });
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
        "data": {}, "revision": number,
    })
}

fn pod(name: &str) -> Value {
    let metadata = json!({ "name": name, "finalizers": ["sts.plus/test"] });
    let spec = json!({ "containers": [{ "name": "main", "image": "main" }] });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// What a watch of the pods shows next, in short.
async fn next(received: &mut mpsc::Receiver<Change>) -> String {
    match received.recv().await.unwrap() {
        Change::Revisions(Shown::Seen(revision)) => format!("revision {}", revision.name().1),
        Change::Pods(Shown::Seen(pod)) => format!("pod {} {:?}", pod.name().1, pod.state()),
        Change::Pods(Shown::Only(names)) => format!("{} pods", names.len()),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn the_revisions_are_read_before_a_pod_that_appears_or_stops_is_shown() {
    let server = Server::new(Settings::new(Clock::at(Timestamp::UNIX_EPOCH))).unwrap();
    let client = kube::Client::new(server, "default");
    let (stored, pods) = (api(&client, "apps", "ControllerRevision"), api(&client, "", "Pod"));
    create(&stored, revision("web-1", 1)).await;
    create(&pods, pod("web-0")).await;
    let (changes, mut received) = mpsc::channel(MAX_WAITING_CHANGES);
    // Nobody watches the revisions: what is known of them comes with the pods.
    let _watch = tokio::spawn({
        let (pods, revisions) = (pods.clone(), revisions(&client));
        async move { watch(&pods, |shown| decoded(shown).map(Change::Pods), Some(&revisions), &changes).await }
    });
    for expected in ["revision web-1", "pod web-0 NotPlaced", "1 pods"] {
        assert_eq!(next(&mut received).await, expected);
    }
    create(&stored, revision("web-2", 2)).await;
    pods.delete("web-0", &DeleteParams::default()).await.unwrap();
    for expected in ["revision web-1", "revision web-2", "pod web-0 Stopping"] {
        assert_eq!(next(&mut received).await, expected);
    }
    create(&stored, revision("web-3", 3)).await;
    create(&pods, pod("web-1")).await;
    for expected in ["revision web-1", "revision web-2", "revision web-3", "pod web-1 NotPlaced"] {
        assert_eq!(next(&mut received).await, expected);
    }
}
