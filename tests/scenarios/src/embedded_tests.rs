use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
use kube::client::Body;
use tokio::time::timeout;

use super::{Asked, EmbeddedCluster, NATIVE, Shape};
use crate::cluster::Cluster;
use futures::TryStreamExt;

const SHAPE: Shape = Shape { native: false, streaming_lists: true, keeps_max_unavailable: false };

fn asked(method: &Method, uri: &str) -> Option<(&'static str, String, String, String)> {
    let request = http::Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    Asked::read(&request).map(|asked| (asked.verb, asked.resource, asked.namespace, asked.name))
}

#[test]
fn requests_are_written_down_as_an_audit_log_has_them() {
    let rows = [
        (Method::GET, "/api/v1/namespaces/a/pods", ("list", "pods", "a", "")),
        (Method::GET, "/api/v1/pods?watch=true", ("watch", "pods", "", "")),
        (Method::GET, "/api/v1/namespaces/a/pods/p?watch=1", ("get", "pods", "a", "p")),
        (Method::POST, "/api/v1/namespaces/a/pods/p/eviction", ("create", "pods/eviction", "a", "p")),
        (
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/statefulsets/s/status",
            ("patch", "statefulsets/status", "a", "s"),
        ),
        (Method::PUT, "/apis/apps/v1/namespaces/a/statefulsets/s", ("update", "statefulsets", "a", "s")),
        (Method::DELETE, "/api/v1/namespaces/a/pods", ("deletecollection", "pods", "a", "")),
        (Method::DELETE, "/api/v1/namespaces/a/pods/p", ("delete", "pods", "a", "p")),
        (Method::GET, "/api/v1/nodes/n", ("get", "nodes", "", "n")),
        (Method::GET, "/api/v1/namespaces/a", ("get", "namespaces", "a", "a")),
        (Method::PUT, "/api/v1/namespaces/a/finalize", ("update", "namespaces/finalize", "a", "a")),
    ];
    for (method, uri, (verb, resource, namespace, name)) in rows {
        let expected = (verb, resource.to_owned(), namespace.to_owned(), name.to_owned());
        assert_eq!(asked(&method, uri), Some(expected), "{method} {uri}");
    }
    assert_eq!(asked(&Method::GET, "/version"), None);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_stopped_nobody_is_answered_and_watches_break_off() {
    let cluster = EmbeddedCluster::start(SHAPE);
    let account = cluster.newcomer("somebody").unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(account.client.clone(), "default");
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let watch = maps.watch(&WatchParams::default(), &version).await.unwrap();
    let mut watch = Box::pin(watch);
    let quiet = timeout(Duration::from_secs(10), watch.try_next()).await;
    assert!(quiet.is_err(), "nothing happens yet");

    cluster.stop_api_server().await.unwrap();
    // An error, or the end: what there is not is another minute of silence.
    let broken = timeout(Duration::from_secs(10), watch.try_next()).await;
    assert!(matches!(broken, Ok(Err(_) | Ok(None))), "{broken:?}");
    maps.list(&ListParams::default()).await.unwrap_err();
    let before = cluster.requests(&account).unwrap().len();
    assert_eq!(before, 2, "what was not answered is not written down");

    cluster.start_api_server().await.unwrap();
    let map = serde_json::from_value(serde_json::json!({ "metadata": { "name": "m" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    maps.get("m").await.unwrap_err();
    let requests = cluster.settled_requests(&account).await.unwrap();
    let told: Vec<_> = requests.iter().map(|one| (one.verb.as_str(), one.code)).collect();
    assert_eq!(told, [("list", 200), ("watch", 200), ("create", 201), ("delete", 200), ("get", 404)]);
    let others = cluster.newcomer("somebody").unwrap();
    assert!(cluster.requests(&others).unwrap().is_empty(), "everybody has a record of his own");
}

#[tokio::test(start_paused = true)]
async fn sets_are_controlled_only_while_somebody_does() {
    let cluster = EmbeddedCluster::start(SHAPE);
    cluster.make_namespace("a").await.unwrap();
    let user = cluster.user();
    let sets = Api::namespaced(user, "a");
    let set = crate::fixture::Zone::new("web", 2).object();
    sets.create(&PostParams::default(), &set).await.unwrap();
    assert!(cluster.makers_of_pods("a").await.unwrap().is_empty());
    cluster.start_native().await.unwrap();
    assert_eq!(cluster.makers_of_pods("a").await.unwrap(), [NATIVE, NATIVE]);
    cluster.stop_native().await.unwrap();
    sets.delete("web", &DeleteParams::default()).await.unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    assert_eq!(cluster.makers_of_pods("a").await.unwrap().len(), 2);
}
