//! The server as a client sees it: a `kube::Client` on the service, under a paused clock.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions, VersionMatch,
    WatchEvent, WatchParams,
};
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};

use super::*;

fn server() -> Server {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    Server::new(Settings { history: 64, ..Settings::new(clock) }).unwrap()
}

fn client(server: &Server) -> Client {
    Client::new(server.clone(), "default")
}

fn config_map(name: &str, labels: &Value) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "data": { "x": "1" } }))
        .unwrap()
}

async fn some_config_maps(client: &Client, count: usize) -> Api<ConfigMap> {
    let api = Api::default_namespaced(client.clone());
    for n in 0..count {
        let map = config_map(&format!("m{n}"), &json!({ "n": n.to_string() }));
        api.create(&PostParams::default(), &map).await.unwrap();
    }
    api
}

fn names<K: ResourceExt>(objects: &[K]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String) {
    match answer.unwrap_err() {
        Error::Api(status) => (status.code, status.reason),
        other => panic!("{other}"),
    }
}

fn seen(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("+{}", map.name_any()),
        WatchEvent::Modified(map) => format!("~{}", map.name_any()),
        WatchEvent::Deleted(map) => format!("-{}", map.name_any()),
        WatchEvent::Bookmark(mark) if mark.metadata.annotations.contains_key("k8s.io/initial-events-end") => {
            "end".to_owned()
        }
        WatchEvent::Bookmark(_) => "mark".to_owned(),
        WatchEvent::Error(status) => format!("!{}", status.code),
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_read_replaced_and_deleted() {
    let api = some_config_maps(&client(&server()), 1).await;
    let created = api.get("m0").await.unwrap();
    assert_eq!(created.metadata.creation_timestamp.as_ref().unwrap().0.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(created.managed_fields().len(), 1);
    let again = api.create(&PostParams::default(), &config_map("m0", &json!({}))).await;
    assert_eq!(code(again), (409, "AlreadyExists".into()));

    let mut changed = created.clone();
    changed.data = Some([("x".to_owned(), "2".to_owned())].into());
    let replaced = api.replace("m0", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    assert_eq!(replaced.uid(), created.uid());
    let stale = api.replace("m0", &PostParams::default(), &changed).await;
    assert_eq!(code(stale), (409, "Conflict".into()));
    let idle = api.replace("m0", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(idle.resource_version(), replaced.resource_version(), "no change, no version");

    let wrong = Preconditions { uid: Some("x".into()), resource_version: None };
    let refused = api.delete("m0", &DeleteParams::default().preconditions(wrong)).await.map(|_| ());
    assert_eq!(code(refused), (409, "Conflict".into()));
    api.delete("m0", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(api.get("m0").await), (404, "NotFound".into()));
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_show_one_moment() {
    let server = server();
    let api = some_config_maps(&client(&server), 5).await;
    let params = ListParams::default().limit(2);
    let first = api.list(&params).await.unwrap();
    assert_eq!(names(&first.items), ["m0", "m1"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    let token = first.metadata.continue_.clone().unwrap();
    api.delete("m2", &DeleteParams::default()).await.unwrap();
    let second = api.list(&params.clone().continue_token(&token)).await.unwrap();
    assert_eq!(names(&second.items), ["m2", "m3"], "as it was when the first page was made");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.clone().unwrap();
    let third = api.list(&params.clone().continue_token(&token)).await.unwrap();
    assert_eq!(names(&third.items), ["m4"]);
    assert_eq!(third.metadata.continue_, None);
    server.compact();
    assert_eq!(code(api.list(&params.continue_token(&token)).await), (410, "Expired".into()));
}

#[tokio::test(start_paused = true)]
async fn lists_select_and_go_back_to_a_version() {
    let api = some_config_maps(&client(&server()), 3).await;
    let then = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    api.delete("m0", &DeleteParams::default()).await.unwrap();
    let listed = async |params: ListParams| names(&api.list(&params).await.unwrap().items);
    assert_eq!(listed(ListParams::default().labels("n in (1,2)")).await, ["m1", "m2"]);
    assert_eq!(listed(ListParams::default().fields("metadata.name=m2")).await, ["m2"]);
    assert_eq!(listed(ListParams::default().at("0")).await, ["m1", "m2"]);
    let exact = ListParams::default().at(&then).matching(VersionMatch::Exact);
    assert_eq!(listed(exact).await, ["m0", "m1", "m2"]);
    let newer = ListParams::default().at(&then).matching(VersionMatch::NotOlderThan);
    assert_eq!(listed(newer).await, ["m1", "m2"]);
    let future = ListParams::default().at("999").matching(VersionMatch::NotOlderThan);
    assert_eq!(code(api.list(&future).await), (504, "Timeout".into()));
    assert_eq!(code(api.list(&ListParams::default().labels("a===b")).await), (400, "BadRequest".into()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_happens_from_a_version_on() {
    let server = server();
    let api = some_config_maps(&client(&server), 2).await;
    let from = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let params = WatchParams::default().timeout(5).labels("n");
    let watch = api.watch(&params, &from).await.unwrap();
    let map = config_map("new", &json!({ "n": "9" }));
    api.create(&PostParams::default(), &map).await.unwrap();
    api.create(&PostParams::default(), &config_map("other", &json!({}))).await.unwrap();
    let unlabel = Patch::Merge(json!({ "metadata": { "labels": { "n": null } } }));
    api.patch("m0", &PatchParams::default(), &unlabel).await.unwrap();
    let touch = Patch::Merge(json!({ "data": { "x": "3" } }));
    api.patch("m1", &PatchParams::default(), &touch).await.unwrap();
    api.delete("m1", &DeleteParams::default()).await.unwrap();
    // It ends by itself after its five seconds.
    let events: Vec<String> = watch.map_ok(|event| seen(&event)).try_collect().await.unwrap();
    assert_eq!(events, ["+new", "-m0", "~m1", "-m1", "mark"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_all_there_is_and_says_where_that_ends() {
    let api = some_config_maps(&client(&server()), 2).await;
    let params = WatchParams { send_initial_events: true, ..WatchParams::default().timeout(130) };
    let watch = api.watch(&params, "").await.unwrap();
    let events: Vec<String> = watch.map_ok(|event| seen(&event)).try_collect().await.unwrap();
    assert_eq!(
        events,
        ["+m0", "+m1", "end", "mark", "mark", "mark"],
        "a mark a minute and one before the end"
    );
    let plain = api.watch(&WatchParams::default().timeout(1).disable_bookmarks(), "0").await.unwrap();
    let events: Vec<String> = plain.map_ok(|event| seen(&event)).try_collect().await.unwrap();
    assert_eq!(events, ["+m0", "+m1"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_what_is_forgotten_is_told_so() {
    let server = server();
    let api = some_config_maps(&client(&server), 2).await;
    let from = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let slow = api.watch(&WatchParams::default(), &from).await.unwrap();
    api.delete("m0", &DeleteParams::default()).await.unwrap();
    server.compact();
    let events: Vec<_> = slow.collect().await;
    assert!(events.is_empty(), "a watcher that fell behind is cut off");
    let mut late = api.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    assert_eq!(seen(&late.next().await.unwrap().unwrap()), "!410");
    assert!(late.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_and_the_last_one_lets_go() {
    let api = some_config_maps(&client(&server()), 1).await;
    let finalizers = |all: Value| Patch::Merge(json!({ "metadata": { "finalizers": all } }));
    api.patch("m0", &PatchParams::default(), &finalizers(json!(["example.com/a"]))).await.unwrap();
    let held = api.delete("m0", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let more = finalizers(json!(["example.com/a", "example.com/b"]));
    let refused = api.patch("m0", &PatchParams::default(), &more).await;
    assert_eq!(code(refused), (422, "Invalid".into()));
    api.patch("m0", &PatchParams::default(), &finalizers(Value::Null)).await.unwrap();
    assert_eq!(code(api.get("m0").await), (404, "NotFound".into()));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_no_trace() {
    let api = some_config_maps(&client(&server()), 1).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let shown = api.create(&dry, &config_map("dry", &json!({}))).await.unwrap();
    assert!(shown.uid().is_some());
    assert_eq!(code(api.get("dry").await), (404, "NotFound".into()));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    api.delete("m0", &dry).await.unwrap();
    api.get("m0").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_metadata_is_shown_to_who_asks_for_it() {
    let api = some_config_maps(&client(&server()), 2).await;
    let one = api.get_metadata("m0").await.unwrap();
    assert_eq!(one.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    assert_eq!(names(&api.list_metadata(&ListParams::default()).await.unwrap().items), ["m0", "m1"]);
}

#[tokio::test(start_paused = true)]
async fn many_are_deleted_by_selector() {
    let api = some_config_maps(&client(&server()), 3).await;
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("n!=1")).await.unwrap();
    assert_eq!(names(&api.list(&ListParams::default()).await.unwrap().items), ["m1"]);
}

#[tokio::test(start_paused = true)]
async fn an_apply_owns_what_it_says_and_conflicts_with_others() {
    let api = some_config_maps(&client(&server()), 0).await;
    let map = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "x": value },
        }))
    };
    api.patch("a", &PatchParams::apply("one"), &map("1")).await.unwrap();
    let Error::Api(conflict) = api.patch("a", &PatchParams::apply("two"), &map("2")).await.unwrap_err()
    else {
        panic!("no answer");
    };
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    assert!(conflict.message.contains("\"one\""), "{}", conflict.message);
    let forced = api.patch("a", &PatchParams::apply("two").force(), &map("2")).await.unwrap();
    assert_eq!(forced.data.unwrap()["x"], "2");
}

fn pod(name: &str) -> Pod {
    let spec = json!({ "containers": [{ "name": "a", "image": "b:1" }] });
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "app": "a" } }, "spec": spec }))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_defaulted_bound_and_given_time_to_end() {
    let server = server();
    let client = client(&server);
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let created = api.create(&PostParams::default(), &pod("p")).await.unwrap();
    let spec = created.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.service_account_name.as_deref(), Some("default"));
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(created.status.unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(created.metadata.generation, Some(1));

    let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } });
    let binding = serde_json::to_vec(&binding).unwrap();
    let bind = || {
        let bind = http::Request::post("/api/v1/namespaces/default/pods/p/binding");
        client.request::<Value>(bind.body(binding.clone()).unwrap())
    };
    let labels = json!({ "topology.kubernetes.io/zone": "z", "other": "o" });
    let node = json!({ "metadata": { "name": "n", "labels": labels } });
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    bind().await.unwrap();
    let bound = api.get("p").await.unwrap();
    assert_eq!(bound.labels().get("topology.kubernetes.io/zone").map(String::as_str), Some("z"));
    assert_eq!(bound.labels().get("other"), None, "only where it is");
    assert_eq!(bound.metadata.generation, Some(1), "a node is nothing that anybody wished");
    assert_eq!(code(bind().await), (409, "Conflict".into()));
    let going = api.delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(going.metadata.deletion_timestamp.unwrap().0.to_string(), "2026-01-02T03:04:35Z");
    api.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(code(api.get("p").await), (404, "NotFound".into()));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_through_its_own_door() {
    let api: Api<Pod> = Api::default_namespaced(client(&server()));
    api.create(&PostParams::default(), &pod("p")).await.unwrap();
    let both = json!({ "spec": { "activeDeadlineSeconds": 5 }, "status": { "phase": "Running" } });
    let through_front = api.patch("p", &PatchParams::default(), &Patch::Merge(&both)).await.unwrap();
    assert_eq!(through_front.status.unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(through_front.metadata.generation, Some(2));
    let both = json!({ "spec": { "activeDeadlineSeconds": 6 }, "status": { "phase": "Running" } });
    let through_status = api.patch_status("p", &PatchParams::default(), &Patch::Merge(&both)).await.unwrap();
    assert_eq!(through_status.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(through_status.spec.unwrap().active_deadline_seconds, Some(5));
    assert_eq!(through_status.metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_budget_stands_between_a_pod_and_its_eviction() {
    let server = server();
    let client = client(&server);
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &pod("p")).await.unwrap();
    let ready =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    api.patch_status("p", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = Api::default_namespaced(client);
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    assert_eq!(code(api.evict("p", &EvictParams::default()).await), (429, "TooManyRequests".into()));
    let allow = json!({ "status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    } });
    budgets.patch_status("b", &PatchParams::default(), &Patch::Merge(&allow)).await.unwrap();
    api.evict("p", &EvictParams::default()).await.unwrap();
    let spent = budgets.get("b").await.unwrap().status.unwrap();
    assert_eq!((spent.disruptions_allowed, spent.disrupted_pods.unwrap().len()), (0, 1));
    assert_eq!(code(api.get("p").await), (404, "NotFound".into()), "no node had taken it on");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_brings_an_account_and_takes_nothing_in_once_it_ends() {
    let server = server();
    let client = client(&server);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let new = serde_json::from_value(json!({ "metadata": { "name": "new" } })).unwrap();
    namespaces.create(&PostParams::default(), &new).await.unwrap();
    Api::<ServiceAccount>::namespaced(client.clone(), "new").get("default").await.unwrap();
    namespaces.delete("new", &DeleteParams::default()).await.unwrap();
    let status = namespaces.get("new").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "new");
    let refused = maps.create(&PostParams::default(), &config_map("a", &json!({}))).await;
    assert_eq!(code(refused), (403, "Forbidden".into()));
    let nowhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    let refused = nowhere.create(&PostParams::default(), &config_map("a", &json!({}))).await;
    assert_eq!(code(refused), (404, "NotFound".into()));
}

#[tokio::test(start_paused = true)]
async fn odd_requests_are_refused_and_never_panic() {
    let server = server();
    let send = async |method: Method, path: &str, content_type: &str, body: &[u8]| {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Body::from(body.to_vec())).unwrap();
        server.clone().answer(request).await.status().as_u16()
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let json = "application/json";
    assert_eq!(send(Method::GET, "/nothing", json, b"").await, 404);
    assert_eq!(send(Method::GET, "/apis/none/v1/things", json, b"").await, 404);
    assert_eq!(send(Method::POST, maps, json, b"{bad").await, 400);
    assert_eq!(send(Method::POST, maps, json, b"[]").await, 400);
    assert_eq!(send(Method::POST, maps, json, b"{\"data\":{\"x\":1}}").await, 400);
    assert_eq!(send(Method::POST, maps, json, b"{\"metadata\":1}").await, 400);
    assert_eq!(send(Method::POST, maps, json, b"{\"metadata\":{\"name\":\"B_\"}}").await, 422);
    assert_eq!(send(Method::POST, maps, "text/plain", b"{}").await, 415);
    assert_eq!(send(Method::PUT, maps, json, b"{}").await, 405);
    assert_eq!(send(Method::POST, "/api/v1/configmaps", json, b"{}").await, 405);
    assert_eq!(send(Method::POST, maps, json, &vec![b' '; MAX_BODY_BYTES + 1]).await, 413);
    assert_eq!(send(Method::PATCH, &format!("{maps}/a"), "application/foo", b"{}").await, 415);
    assert_eq!(send(Method::PATCH, &format!("{maps}/a"), "application/apply-patch+yaml", b"{}").await, 422);
    assert_eq!(send(Method::GET, &format!("{maps}?watch=1&resourceVersion=abc"), json, b"").await, 500);
    assert_eq!(send(Method::GET, &format!("{maps}?watch=1&sendInitialEvents=true"), json, b"").await, 422);
    assert_eq!(send(Method::GET, &format!("{maps}?continue=abc"), json, b"").await, 400);
}

/// As Go does, which whoever compares the bytes of a revision sees.
#[tokio::test(start_paused = true)]
async fn what_could_end_a_script_in_a_page_is_escaped() {
    let client = Client::new(server(), "default");
    let map = json!({ "metadata": { "name": "m" }, "data": { "text": "a<b>&c\u{2028}\u{2029}\u{e9}\"" } });
    let create = http::Request::post("/api/v1/namespaces/default/configmaps");
    let create = create.header("content-type", "application/json");
    let created = client.request_text(create.body(serde_json::to_vec(&map).unwrap()).unwrap()).await.unwrap();
    assert!(created.contains(r#""a\u003cb\u003e\u0026c\u2028\u2029é\"""#), "{created}");
    assert_eq!(serde_json::from_str::<Value>(&created).unwrap()["data"], map["data"]);
}
