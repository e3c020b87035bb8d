//! Servers that want to know who asks: a real Prometheus behind a proxy, and Secrets that come, change and are wrong.

use std::net::SocketAddr;

use http::StatusCode;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::Api;
use kube::api::{ListParams, ObjectList, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_api::conditions::{self, Truth};
use sts_plus_harness::proxy::Conduct;
use sts_plus_harness::{Assets, AuthProxy, Credential, Prometheus, Target};

use super::process::{ALLOW_LOOPBACK, Binary};
use super::trials;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set, seen};
use crate::scenarios::Scenario;

/// The Secret that the rollout names.
const SECRET: &str = "prom-secret";

/// What must be found nowhere.
const TOKEN: &str = "canary-token-9f3b";
const USER: &str = "canary-user-c41d";
const PASSWORD: &str = "canary-password-77aa";

pub(super) fn all() -> Vec<Scenario> {
    trials![
        needs_binary: true;
        b_a14_3_credentials_come_rotate_and_are_shown_nowhere,
        a_loopback_address_is_refused_unless_a_flag_allows_it,
    ]
}

async fn b_a14_3_credentials_come_rotate_and_are_shown_nowhere(stage: Gated) {
    let target = Target::start().await.unwrap();
    target.set("app_errors", &[], 0.0);
    let prometheus = Prometheus::start(&Assets::find().unwrap(), &[target.address()]).await.unwrap();
    prometheus.until_data("app_errors").await;
    let proxy = AuthProxy::start(prometheus.address(), Some(Credential::bearer(TOKEN))).await.unwrap();

    let account = stage.account("operator").await;
    let binary = Binary::start(&stage, &account, &[ALLOW_LOOPBACK]);
    let rollout = Rollout::new("web", &proxy.url()).check(&json!({
        "query": { "expr": "app_errors > 0", "secretRef": SECRET },
        "requireData": "app_errors",
    }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    stage.change_and_observe("web", &Template::new("v2").held_at(1)).await;

    // Without the Secret, and with one that says too little or too much, nothing is asked and it is told why.
    refused(&stage, 2, "Secret prom-secret does not exist").await;
    write(&stage, &[("username", USER)]).await;
    refused(&stage, 2, "Secret prom-secret holds username but no password").await;
    write(&stage, &[("password", PASSWORD)]).await;
    refused(&stage, 2, "Secret prom-secret holds password but no username").await;
    write(&stage, &[("token", TOKEN), ("username", USER), ("password", PASSWORD)]).await;
    refused(&stage, 2, "Secret prom-secret holds both token and username or password").await;
    assert!(proxy.calls().is_empty(), "{:?}", proxy.calls());
    assert_eq!(stage.view().lives_of("web-1"), 1);

    // Editors leave a line break behind.
    write(&stage, &[("token", &format!("{TOKEN}\n"))]).await;
    stage.gate_waits_for("web", 1, "PodsToBeAvailable").await;
    let calls = proxy.calls();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.authorised), "{calls:?}");

    // In the middle of the rollout the server wants something else; it even repeats what it was shown.
    let other = Credential::basic(USER, PASSWORD);
    proxy.require(Some(other.clone()));
    stage.afflict("web-1", None).await;
    refused(&stage, 1, "the server refused the credentials with 401: Unauthorized").await;
    let repeated = format!("who is {TOKEN}?");
    proxy.conduct(move |_| Conduct::answer(StatusCode::SERVICE_UNAVAILABLE, repeated.clone()));
    let told = stage.gate_waits_for("web", 1, "PrometheusError").await;
    assert!(message(&told).contains("the server answered 503: who is ***?"), "{}", message(&told));
    proxy.conduct(|_| Conduct::Forward);
    write(&stage, &[("username", USER), ("password", &format!("{PASSWORD}\n"))]).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 2, 1, 0, 2]);
    assert!(proxy.calls().last().unwrap().authorised);

    let told = everything_told(&stage, &binary).await;
    let header = other.header();
    let encoded = header.strip_prefix("Basic ").unwrap();
    for secret in [TOKEN, USER, PASSWORD, encoded] {
        let found: Vec<_> =
            told.iter().filter(|(_, text)| text.contains(secret)).map(|found| found.0).collect();
        assert!(found.is_empty(), "{secret} is found in {found:?}");
    }
    drop(binary);
    stage.finish();
}

async fn a_loopback_address_is_refused_unless_a_flag_allows_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let account = stage.account("operator").await;
    let binary = Binary::start(&stage, &account, &[]);
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    let words = "127.0.0.1 is at 127.0.0.1: a loopback address, refused unless the operator runs with --allow-loopback";
    refused(&stage, 2, words).await;
    let address: SocketAddr = answers.url().strip_prefix("http://").unwrap().parse().unwrap();
    for disguised in
        [format!("localhost:{}", address.port()), format!("http://[::ffff:127.0.0.1]:{}", address.port())]
    {
        stage.patch_spec("web", &json!({ "check": { "query": { "url": disguised } } })).await;
        refused(&stage, 2, "refused unless the operator runs with --allow-loopback").await;
    }
    stage.patch_spec("web", &json!({ "check": { "query": { "url": "http://169.254.169.254/" } } })).await;
    refused(&stage, 2, "refused unless the operator runs with --allow-link-local").await;
    assert!(answers.queries().is_empty());

    binary.kill();
    let binary = Binary::start(&stage, &account, &[ALLOW_LOOPBACK]);
    refused(&stage, 2, "refused unless the operator runs with --allow-link-local").await;
    stage.patch_spec("web", &json!({ "check": { "query": { "url": answers.url() } } })).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    drop(binary);
    stage.finish();
}

/// Waits until the gate at this partition says that it cannot ask, with these words, in message and conditions.
async fn refused(stage: &Gated, partition: i32, words: &str) {
    let told = stage
        .rollout_is("web", words, |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.partition == partition) && message(seen).contains(words)
        })
        .await;
    assert_eq!(told.status.waiting_for.as_deref(), Some("PrometheusConfigError"));
    assert_eq!(told.truth(conditions::STALLED), Some((Truth::True, "PrometheusConfigError")));
    let ready = told.condition(conditions::READY).unwrap();
    assert_eq!((ready.status, &*ready.reason), (Truth::False, "PrometheusConfigError"));
    assert!(ready.message.contains(words), "{ready:?}");
}

fn message(rollout: &seen::Rollout) -> &str {
    rollout.status.message.as_deref().unwrap_or_default()
}

/// The user writes these keys of the Secret, and no others.
async fn write(stage: &Gated, keys: &[(&str, &str)]) {
    let secrets = Api::<Secret>::namespaced(stage.cluster.user(), &stage.namespace);
    let data: serde_json::Map<_, _> =
        keys.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET }, "stringData": data });
    let named: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
    stage.view().note(format!("user: the Secret holds {named:?}"));
    // What is written as text is not taken back by another text, so it is made anew.
    if secrets.get_opt(SECRET).await.unwrap().is_some() {
        let absent = ["token", "username", "password"].iter().filter(|key| !named.contains(key));
        let gone: serde_json::Map<_, _> = absent.map(|key| ((*key).to_owned(), Value::Null)).collect();
        let change = json!({ "data": gone, "stringData": data });
        secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    } else {
        secrets
            .create(&kube::api::PostParams::default(), &serde_json::from_value(secret).unwrap())
            .await
            .unwrap();
    }
}

/// All that the operator has said anywhere, by place.
async fn everything_told(stage: &Gated, binary: &Binary) -> Vec<(&'static str, String)> {
    // At rest, so that the last events are there.
    stage.event("web", "RolloutCompleted", "").await;
    stage.requests().await;
    let user = || stage.cluster.user();
    let events = list(&Api::<Event>::namespaced(user(), &stage.namespace)).await;
    assert!(events.contains("PrometheusConfigError"), "{events}");
    let log = binary.log();
    assert!(log.contains("DEBUG") && log.contains("PrometheusConfigError"), "{log}");
    vec![
        ("the log", log),
        ("the metrics", binary.metrics().await),
        ("the events", events),
        ("the rollouts", list(&stage.rollouts()).await),
        ("the history of the rollout", format!("{:?}", stage.view().history)),
        ("the sets", list(&stage.sets()).await),
        ("the pods", list(&stage.pods()).await),
    ]
}

async fn list<K>(api: &Api<K>) -> String
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let found: ObjectList<K> = api.list(&ListParams::default()).await.unwrap();
    serde_json::to_string(&found).unwrap()
}
