//! Whom to ask: a real Prometheus, several checks, servers that are slow.

use serde_json::json;
use sts_plus_harness::{Assets, Prometheus, Target};

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

const BASIC: &str = include_str!("../../../../../examples/phased-rollout/basic.yaml");
const SEVERAL: &str = include_str!("../../../../../examples/phased-rollout/several-checks.yaml");

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_real_prometheus_stops_a_rollout_and_lets_it_go_on,
        nothing_scraped_does_not_pass_where_data_is_required,
        several_checks_must_all_pass,
        the_basic_example_works_as_it_stands,
    ]
}

async fn a_real_prometheus_stops_a_rollout_and_lets_it_go_on(stage: Gated) {
    let target = Target::start().await.unwrap();
    for pod in ["web-0", "web-1", "web-2"] {
        target.set("errors", &[("pod", pod)], 0.0);
    }
    let prometheus = Prometheus::start(&Assets::find().unwrap(), &[target.address()]).await.unwrap();
    prometheus.until_data("errors").await;
    let _operator = stage.operator().await;
    let check = json!({ "successThreshold": 2, "requireData": "up == 1" });
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &prometheus.url()).check(&check)).await;
    target.set("errors", &[("pod", "web-2")], 7.0);
    prometheus.until_data("errors > 0").await;

    stage.change("web", &Template::new("v2")).await;
    let seen = stage.gate_waits_for("web", 2, "ChecksFailing").await;
    let check = seen.status.rolling_pod_status.unwrap().checks.remove(0);
    assert_eq!(check.last_value.as_deref(), Some("1 or more series: 7"));
    assert_eq!(stage.lives(&["web-0", "web-1"]), [1, 1]);
    target.set("errors", &[("pod", "web-2")], 0.0);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    stage.finish();
}

async fn nothing_scraped_does_not_pass_where_data_is_required(stage: Gated) {
    let target = Target::start().await.unwrap();
    let prometheus = Prometheus::start(&Assets::find().unwrap(), &[target.address()]).await.unwrap();
    prometheus.until_data("up == 1").await;
    let _operator = stage.operator().await;
    let check = json!({ "requireData": "up == 1" });
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &prometheus.url()).check(&check)).await;
    prometheus.scrape(&[]).await.unwrap();
    // A scrape that fails has this series, too: it ends with the target.
    prometheus.until_no_data("up").await;

    stage.change("web", &Template::new("v2")).await;
    let seen = stage
        .rollout_is("web", "asked", |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.checks.iter().any(|check| check.last_check_time.is_some()))
        })
        .await;
    let gate = seen.status.rolling_pod_status.unwrap();
    assert_eq!((gate.partition, gate.consecutive_successful_checks), (2, 0), "{gate:?}");
    prometheus.scrape(&[target.address()]).await.unwrap();
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    let passed = stage.view().history["web"]
        .iter()
        .filter_map(|past| past.status.rolling_pod_status.clone())
        .find(|gate| gate.consecutive_successful_checks > 0);
    assert!(passed.unwrap().last_check_time > gate.last_check_time);
    stage.finish();
}

async fn several_checks_must_all_pass(stage: Gated) {
    let answers = stage.answers(Says::something()).await;
    answers.say_to("replication_lag", Says::Values(vec![0.1, 7.5, f64::NAN]));
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::example(SEVERAL, &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    let seen = stage.gate_waits_for("web", 2, "ChecksFailing").await;
    assert!(seen.status.message.as_ref().unwrap().starts_with("lag has failed"), "{seen:?}");
    stage
        .rollout_is("web", "with a quorum", |seen| {
            let checks = seen.status.rolling_pod_status.iter().flat_map(|gate| &gate.checks);
            checks.into_iter().any(|check| check.name == "quorum" && check.consecutive_successful_checks > 0)
        })
        .await;
    answers.say_to("replication_lag", Says::Values(vec![0.1, 4.9]));
    answers.say_to("sum(up", Says::Nothing);
    stage
        .rollout_is("web", "without a quorum", |seen| {
            seen.status.message.as_ref().is_some_and(|words| words.starts_with("quorum has failed"))
        })
        .await;
    answers.say_to("sum(up", Says::something());
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn the_basic_example_works_as_it_stands(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.say_to("up{", Says::something());
    let _operator = stage.operator().await;
    let set = BASIC.split("\n---\n").next().unwrap();
    let set: k8s_openapi::api::apps::v1::StatefulSet = serde_saphyr::from_str(set).unwrap();
    stage.sets().create(&kube::api::PostParams::default(), &set).await.unwrap();
    stage.serves("web", "v1").await;
    stage.create(&Rollout::example(BASIC, &answers.url())).await;
    stage.updated("web").await;
    let container = json!([{ "name": "web", "image": "app:v2" }]);
    stage.patch_set("web", &json!({ "spec": { "template": { "spec": { "containers": container } } } })).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    let namespace = &stage.namespace;
    let asked = answers.queries();
    let with = |text: &str| asked.iter().any(|query| query.contains(text));
    assert!(with(&format!("up{{namespace=\"{namespace}\", pod=~\"web-.*\"}}")), "{asked:?}");
    assert!(with(&format!("errors_total{{namespace=\"{namespace}\", pod=~\"web-1|web-2\"}}")), "{asked:?}");
    stage.finish();
}
