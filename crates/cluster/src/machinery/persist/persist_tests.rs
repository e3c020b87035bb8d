use std::fs;
use std::path::Path;

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use redb::Database;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::Service;

use super::*;
use crate::Clock;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn open(file: &Path) -> Result<Server, OpenError> {
    Server::open(Settings::new(Clock::at("2026-01-02T03:04:05Z".parse().unwrap())), file)
}

async fn ask(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = server.clone().call(request.body(Body::from(body)).unwrap()).await;
    let Ok(answer) = answer;
    let code = answer.status().as_u16();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&text).unwrap())
}

fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "text": "<&>\u{2028}", "long": "x".repeat(300) } })
}

fn definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// A cluster with a bit of everything.
async fn fill(server: &Server) {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(server, "POST", crds, &definition()).await.0, 201);
    let widget =
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "size": 1 });
    assert_eq!(ask(server, "POST", WIDGETS, &widget).await.0, 201);
    for name in ["one", "two", "three"] {
        assert_eq!(ask(server, "POST", MAPS, &config_map(name)).await.0, 201);
    }
    assert_eq!(ask(server, "PATCH", &format!("{MAPS}/one"), &json!({ "data": { "n": "1" } })).await.0, 200);
    assert_eq!(ask(server, "DELETE", &format!("{MAPS}/two"), &Value::Null).await.0, 200);
    let event = json!({
        "metadata": { "name": "e", "namespace": "default" }, "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
        "reason": "Seen", "action": "Look", "type": "Normal", "note": "hm", "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "test/er", "reportingInstance": "one",
    });
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(ask(server, "POST", events, &event).await.0, 201);
    // The other group writes the same event under another name.
    let event = "/api/v1/namespaces/default/events/e";
    assert_eq!(ask(server, "PATCH", event, &json!({ "count": 2 })).await.0, 200);
}

/// All that a client can see.
async fn everything(server: &Server) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
        MAPS,
        WIDGETS,
        "/apis/events.k8s.io/v1/events",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    ] {
        let (code, list) = ask(server, "GET", path, &Value::Null).await;
        assert_eq!(code, 200, "{path}");
        seen.push(list["items"].clone());
    }
    seen
}

async fn filled() -> (TempDir, PathBuf, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.redb");
    let server = open(&file).unwrap();
    fill(&server).await;
    let seen = everything(&server).await;
    (folder, file, seen)
}

#[tokio::test]
async fn what_was_answered_is_there_again() {
    let (_folder, file, seen) = filled().await;
    let server = open(&file).unwrap();
    assert_eq!(everything(&server).await, seen);
    let (_, one) = ask(&server, "GET", &format!("{MAPS}/one"), &Value::Null).await;
    let old = one["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let (code, changed) =
        ask(&server, "PATCH", &format!("{MAPS}/one"), &json!({ "data": { "n": "2" } })).await;
    assert_eq!(code, 200);
    let new = changed["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(new > old + VERSIONS_LEFT_OUT, "{new} is after {old}");
    assert_eq!(changed["metadata"]["uid"], one["metadata"]["uid"]);
    // It goes on from a version that it no longer knows the past of.
    let (_, expired) =
        ask(&server, "GET", &format!("{MAPS}?watch=true&resourceVersion={old}"), &json!(null)).await;
    assert_eq!(expired["object"]["code"], 410, "{expired}");
}

#[tokio::test]
#[cfg(unix)]
async fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, file, _) = filled().await;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn nothing_is_drawn_twice() {
    let (_folder, file, mut seen) = filled().await;
    for round in 0..3 {
        let server = open(&file).unwrap();
        assert_eq!(everything(&server).await, seen);
        let map = json!({ "metadata": { "generateName": "again-" } });
        assert_eq!(ask(&server, "POST", MAPS, &map).await.0, 201, "{round}");
        seen = everything(&server).await;
    }
    let mut uids: Vec<_> = seen.iter().flat_map(|items| items.as_array().unwrap()).map(object::uid).collect();
    let all = uids.len();
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), all);
}

#[tokio::test]
async fn a_kind_that_is_gone_leaves_nothing_behind() {
    let (_folder, file, _) = filled().await;
    let server = open(&file).unwrap();
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(ask(&server, "DELETE", crd, &Value::Null).await.0, 200);
    drop(server);
    let server = open(&file).unwrap();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, "POST", crds, &definition()).await.0, 201);
    assert_eq!(ask(&server, "GET", WIDGETS, &Value::Null).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_file_is_open_once() {
    let (_folder, file, seen) = filled().await;
    let server = open(&file).unwrap();
    let second = open(&file).map(drop).unwrap_err();
    assert!(matches!(second, OpenError::InUse { .. }), "{second}");
    assert_eq!(everything(&server).await, seen);
    drop(server);
    open(&file).unwrap();
}

#[tokio::test]
async fn a_folder_that_is_none_is_named() {
    let (folder, file, _) = filled().await;
    for unusable in [folder.path().join("no/such/folder/cluster.redb"), file.join("cluster.redb")] {
        let error = open(&unusable).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(unusable.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_newer_file_is_left_alone() {
    let (_folder, file, _) = filled().await;
    {
        let database = Database::open(&file).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(file::ABOUT).unwrap().insert("format", 7).unwrap();
        transaction.commit().unwrap();
    }
    let before = fs::read(&file).unwrap();
    let error = open(&file).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 7, known: 1, .. }), "{error}");
    assert!(fs::read(&file).unwrap() == before, "not a byte was changed");
}

/// Damages a file in a way, and looks at what becomes of it.
async fn damaged(file: &Path, bytes: &[u8], seen: &[Value], what: &str) -> bool {
    fs::write(file, bytes).unwrap();
    match open(file) {
        Ok(server) => {
            assert_eq!(everything(&server).await, seen, "{what}: it opens as it was or not at all");
            false
        }
        Err(OpenError::Damaged { copy, .. }) => {
            assert!(fs::read(file).unwrap() == bytes, "{what}: not a byte was changed");
            assert!(fs::read(&copy).unwrap() == bytes, "{what}: the copy is one");
            fs::remove_file(copy).unwrap();
            true
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_kept() {
    let (_folder, file, seen) = filled().await;
    let whole = fs::read(&file).unwrap();
    let mut refused = 0;
    for length in [1, 9, 100, 512, 4096, 5000, whole.len() / 2, whole.len() - 1] {
        refused += usize::from(damaged(&file, &whole[..length], &seen, &format!("cut at {length}")).await);
    }
    assert!(refused >= 6, "{refused} of the 8 cut ones were refused");
    assert!(damaged(&file, b"apiVersion: v1\nkind: List\n", &seen, "something else").await);
    // Most of the file is pages that are no longer used: what matters is its head and where an object is.
    let needle = b"\"name\":\"three\"";
    let text = (0..whole.len()).filter(|at| whole[*at..].starts_with(needle)).map(|at| at + needle.len() / 2);
    refused = 0;
    for at in (0..320).step_by(4).chain(text) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x5a;
        refused += usize::from(damaged(&file, &flipped, &seen, &format!("byte {at}")).await);
    }
    assert!(refused > 10, "{refused} of the flipped ones were refused");
    fs::write(&file, &whole).unwrap();
    assert_eq!(everything(&open(&file).unwrap()).await, seen);
}
