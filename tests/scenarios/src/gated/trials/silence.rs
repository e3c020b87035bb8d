//! A server that never answers keeps nobody else waiting.

use futures::future::join_all;
use serde_json::json;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::phased_rollout::Verdict;
use sts_plus_harness::wait::{NotYet, until};

use super::trials;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;

/// Rollouts of servers that answer.
const OTHERS: usize = 9;

/// The longest that a query may take: longer than the other rollouts need.
const LONGEST_SECONDS: u32 = 60;

pub(super) fn all() -> Vec<Scenario> {
    trials![needs_binary: false; b_a14_10_nine_rollouts_end_while_the_server_of_the_tenth_is_silent]
}

async fn b_a14_10_nine_rollouts_end_while_the_server_of_the_tenth_is_silent(stage: Gated) {
    let (answers, hole) = (stage.answers(Says::Nothing).await, stage.hole().await);
    let _operator = stage.operator().await;
    let others: Vec<_> = (0..OTHERS).map(|number| format!("web{number}")).collect();
    // More checks than one server has slots for.
    let checks: Vec<_> = (0..8)
        .map(|number| {
            let query = json!({ "expr": "errors > 0", "url": hole.url(), "timeoutSeconds": LONGEST_SECONDS });
            json!({
                "name": format!("check-{number}"), "initialDelaySeconds": 0, "periodSeconds": 0,
                "successThreshold": 1, "query": query,
            })
        })
        .collect();
    let stuck = Rollout::new("stuck", &hole.url()).spec(&json!({ "check": null, "checks": checks }));
    stage.given_managed(&Set::new("stuck", 2), &stuck).await;
    join_all(others.iter().map(async |name| {
        stage.given_managed(&Set::new(name, 2), &Rollout::new(name, &answers.url())).await;
    }))
    .await;

    stage.change_and_observe("stuck", &Template::new("v2")).await;
    until(DEADLINE, "the tenth to ask", || async {
        (hole.accepted() > 0).then_some(()).ok_or_else(|| NotYet::saw("nobody asks"))
    })
    .await;
    join_all(others.iter().map(async |name| {
        stage.change_and_observe(name, &Template::new("v2")).await;
        stage.serves(name, "v2").await;
        stage.updated(name).await;
    }))
    .await;
    assert_eq!(stage.view().partitions["stuck"], [0, 2], "its queries hang");
    assert_eq!(stage.view().lives_of("stuck-1"), 1);

    // With a shorter time limit, what is the matter is told.
    let query = json!({ "expr": "errors > 0", "url": hole.url(), "timeoutSeconds": 1 });
    let check =
        json!({ "initialDelaySeconds": 0, "periodSeconds": 0, "successThreshold": 1, "query": query });
    stage.patch_spec("stuck", &json!({ "checks": null, "check": check })).await;
    let told = stage.gate_waits_for("stuck", 2, "PrometheusError").await;
    let words = "check gets no verdict: the query got no answer: no answer within 1 s. Continues when check gets an answer.";
    assert_eq!(told.status.message.as_deref(), Some(words));
    let ready = told.condition(conditions::READY).unwrap();
    assert_eq!((ready.status, &*ready.reason, &*ready.message), (Truth::False, "PrometheusError", words));
    assert_eq!(told.truth(conditions::STALLED), Some((Truth::False, "PrometheusError")));
    let check = &told.status.rolling_pod_status.as_ref().unwrap().checks[0];
    assert_eq!(check.last_verdict, Some(Verdict::Error));
    assert_eq!((check.consecutive_successful_checks, check.consecutive_failed_checks), (0, 0));
    assert!(check.consecutive_errors > 0);

    stage.patch_spec("stuck", &json!({ "check": { "query": { "url": answers.url() } } })).await;
    stage.updated("stuck").await;
    stage.serves("stuck", "v2").await;
    assert_eq!(stage.view().partitions["stuck"], [0, 2, 1, 0, 2]);
    stage.finish();
}
