//! What servers may answer instead of a result, from end to end: verdict, counters, next query and words.

use std::time::Duration;

use futures::future::join_all;
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde_json::json;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::phased_rollout::Verdict;
use sts_plus_harness::proxy::Conduct;

use super::trials;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    trials![
        needs_binary: false;
        b_a14_1_answers_without_a_result_are_neither_pass_nor_fail,
        b_a14_1_warnings_of_the_server_are_surfaced,
    ]
}

/// An answer, and what is made of it.
struct Row {
    name: &'static str,
    answer: Conduct,
    verdict: Verdict,
    waits_for: &'static str,
    words: &'static str,
}

/// How long a query that was refused is left alone, in seconds.
const REJECTED_SECONDS: i64 = 300;

fn rows() -> Vec<Row> {
    let envelope =
        r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end of input"}"#;
    let mut moved = Conduct::answer(StatusCode::MOVED_PERMANENTLY, "");
    if let Conduct::Answer(answer) = &mut moved {
        answer
            .headers_mut()
            .insert(LOCATION, HeaderValue::from_static("http://user:pw@elsewhere/prom?key=1"));
    }
    let row = |name, answer, verdict, words| {
        let permanent = matches!(verdict, Verdict::Rejected | Verdict::ConfigError);
        let waits_for = if permanent { "PrometheusConfigError" } else { "PrometheusError" };
        Row { name, answer, verdict, waits_for, words }
    };
    vec![
        row(
            "bad-request",
            Conduct::answer(StatusCode::BAD_REQUEST, envelope),
            Verdict::Rejected,
            "the server refuses the query (400): bad_data: parse error: unexpected end of input",
        ),
        row(
            "unprocessable",
            Conduct::answer(StatusCode::UNPROCESSABLE_ENTITY, "many-to-many matching"),
            Verdict::Rejected,
            "the server refuses the query (422): many-to-many matching",
        ),
        row(
            "error-envelope",
            Conduct::answer(StatusCode::OK, r#"{"status":"error","errorType":"timeout","error":"too slow"}"#),
            Verdict::Error,
            "the server answered 200 with an error: timeout: too slow",
        ),
        row(
            "unavailable",
            Conduct::answer(StatusCode::SERVICE_UNAVAILABLE, "no healthy upstream"),
            Verdict::Error,
            "the server answered 503: no healthy upstream",
        ),
        row(
            "not-found",
            Conduct::answer(StatusCode::NOT_FOUND, ""),
            Verdict::ConfigError,
            "there is no Prometheus API at http://127.0.0.1:",
        ),
        row(
            "garbage",
            Conduct::answer(StatusCode::OK, "<html>welcome</html>"),
            Verdict::Error,
            "the answer is not one of the Prometheus API: it is not JSON",
        ),
        row(
            "no-content",
            Conduct::answer(StatusCode::NO_CONTENT, ""),
            Verdict::Error,
            "the server answered 204 without a result",
        ),
        row(
            "moved",
            moved,
            Verdict::Error,
            "the server redirects (301) to http://elsewhere/prom, which is not followed",
        ),
    ]
}

async fn b_a14_1_answers_without_a_result_are_neither_pass_nor_fail(stage: Gated) {
    let _operator = stage.operator().await;
    join_all(rows().into_iter().map(|row| judged(&stage, row))).await;
    stage.finish();
}

/// The server passes the check once, and then gives the answer.
async fn judged(stage: &Gated, row: Row) {
    let Row { name, answer, verdict, waits_for, words } = row;
    let proxy = stage.server().await;
    let good = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    proxy.conduct(move |call| match call.index {
        0 => Conduct::answer(StatusCode::OK, good),
        _ => answer.clone(),
    });
    let check = json!({ "successThreshold": 2, "failureThreshold": 1 });
    stage.given_managed(&Set::new(name, 2), &Rollout::new(name, &proxy.url()).check(&check)).await;
    stage.change_and_observe(name, &Template::new("v2")).await;
    let told = stage.gate_waits_for(name, 2, waits_for).await;

    let message = told.status.message.clone().unwrap();
    assert!(message.contains(words), "{name}: {message}");
    assert!(!message.contains("pw") && !message.contains("key=1"), "{name}: {message}");
    let ready = told.condition(conditions::READY).unwrap();
    assert_eq!((ready.status, &*ready.reason, &ready.message), (Truth::False, waits_for, &message), "{name}");
    let permanent = matches!(verdict, Verdict::Rejected | Verdict::ConfigError);
    let stalled = if permanent { Truth::True } else { Truth::False };
    assert_eq!(told.truth(conditions::STALLED), Some((stalled, waits_for)), "{name}");

    let gate = told.status.rolling_pod_status.unwrap();
    let check = &gate.checks[0];
    assert_eq!(check.last_verdict, Some(verdict), "{name}");
    assert_eq!(check.consecutive_successful_checks, 0, "{name}: the row of successes is broken");
    assert_eq!((check.consecutive_failed_checks, check.total_failed_checks), (0, 0), "{name}");
    assert!(check.consecutive_errors >= 1, "{name}");
    assert!(check.last_error.as_ref().is_some_and(|error| error.contains(words)), "{name}: {check:?}");
    let pause = gate.next_check_time.unwrap().duration_since(check.last_check_time.unwrap());
    let seconds = if verdict == Verdict::Rejected { REJECTED_SECONDS } else { 1 };
    assert_eq!(pause.unsigned_abs(), Duration::from_secs(seconds.unsigned_abs()), "{name}");
    assert_eq!(stage.view().lives_of(&format!("{name}-1")), 1, "{name}: no pod was let go");
    if verdict == Verdict::Rejected {
        assert_eq!(proxy.calls().len(), 2, "{name}: it is left alone");
    }

    // Whatever it was, another address in the spec, or an answer, ends it.
    proxy.conduct(move |_| Conduct::answer(StatusCode::OK, good));
    let reworded = json!({ "check": { "query": { "expr": "errors > 1" } } });
    stage.patch_spec(name, &reworded).await;
    stage.updated(name).await;
    stage.serves(name, "v2").await;
}

async fn b_a14_1_warnings_of_the_server_are_surfaced(stage: Gated) {
    let _operator = stage.operator().await;
    let proxy = stage.server().await;
    let partial = json!({
        "status": "success",
        "data": { "resultType": "vector", "result": [] },
        "warnings": ["store 10.0.0.7 did not answer: partial result"],
    });
    proxy.conduct(move |_| Conduct::answer(StatusCode::OK, partial.to_string()));
    let rollout = Rollout::new("web", &proxy.url()).check(&json!({ "successThreshold": 3 }));
    stage.given_managed(&Set::new("web", 1), &rollout).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    let warned = stage
        .rollout_is("web", "warned", |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.checks.iter().any(|check| !check.warnings.is_empty()))
        })
        .await;
    let gate = warned.status.rolling_pod_status.unwrap();
    assert_eq!(gate.checks[0].warnings, ["store 10.0.0.7 did not answer: partial result"]);
    assert_eq!(gate.checks[0].last_verdict, Some(Verdict::Error), "nobody knows what is missing");
    assert_eq!(gate.checks[0].consecutive_successful_checks, 0);
    stage.patch_spec("web", &json!({ "check": { "onWarnings": "Ignore" } })).await;
    stage.updated("web").await;
    stage.finish();
}
