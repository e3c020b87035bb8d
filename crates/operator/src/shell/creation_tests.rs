//! Creations: what each answer means for the next plan.

use http::Method;
use serde_json::json;
use sts_plus_planner::plan::{Action, Kind, Object, Step};
use tokio::time::Instant;

use super::super::Halt;
use super::super::lane::LOOK_AGAIN;
use super::{Answer, Bench, pod};
use crate::shell::api::ApiError;

fn creation(name: &str) -> Action {
    let body = json!({ "metadata": { "labels": { "app": "a" } }, "spec": {} });
    let object = Object { kind: Kind::Pod, namespace: "ns".into(), name: name.into() };
    Action::create(object, "uid-a", body, "m")
}

async fn create(bench: &Bench) -> Result<(), Halt> {
    bench.perform(&[Step::one(creation("a-1"))]).await
}

fn created(version: u32) -> String {
    pod(version, "uid-a-1", false).replace("\"a-0\"", "\"a-1\"")
}

#[tokio::test]
async fn a_creation_says_what_it_creates_and_where() {
    let bench = Bench::new();
    create(&bench).await.expect("done");
    let asked = bench.server.take_asked();
    let [(method, path, body)] = &asked[..] else { panic!("one request: {asked:?}") };
    assert_eq!((method, path.as_str()), (&Method::POST, "/api/v1/namespaces/ns/pods"));
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!("v1"), &json!("Pod")));
    let metadata = json!({ "name": "a-1", "namespace": "ns", "labels": { "app": "a" } });
    assert_eq!(body["metadata"], metadata);
}

#[tokio::test]
async fn rule_b_nobody_plans_before_the_view_shows_what_we_created() {
    let bench = Bench::new();
    create(&bench).await.expect("done");
    assert!(!bench.may_plan().await, "it is not there yet");
    bench.store.upsert(Kind::Pod, &created(5));
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn rule_b_what_was_created_and_deleted_at_once_does_not_block() {
    let bench = Bench::new();
    create(&bench).await.expect("done");
    bench.store.reach(Kind::Pod, None, "4");
    assert!(!bench.may_plan().await, "created at 5");
    bench.store.reach(Kind::Claim, None, "9");
    assert!(!bench.may_plan().await, "that is another kind");
    bench.store.reach(Kind::Pod, None, "6");
    assert!(bench.may_plan().await, "it came and went");
}

#[tokio::test]
async fn rule_d_an_unanswered_creation_is_read_back_and_then_awaited() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    let halt = create(&bench).await.expect_err("no answer");
    assert!(matches!(halt, Halt::Failed(ApiError::Unanswered(_))), "{halt:?}");
    bench.server.take_asked();
    assert!(!bench.may_plan().await, "it was created, and the view must show that first");
    let asked = bench.server.take_asked();
    assert_eq!((&asked[0].0, asked[0].1.as_str()), (&Method::GET, "/api/v1/namespaces/ns/pods/a-1"));
    bench.store.upsert(Kind::Pod, &created(5));
    assert!(bench.may_plan().await);
    assert!(bench.server.take_asked().is_empty(), "read once");
}

#[tokio::test]
async fn rule_d_an_unanswered_creation_that_did_not_happen_is_forgotten() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    create(&bench).await.expect_err("no answer");
    bench.server.answer(Answer::Status(503));
    assert!(!bench.may_disrupt().await, "still unknown");
    bench.server.answer(Answer::Status(404));
    assert!(bench.may_disrupt().await);
}

#[tokio::test]
async fn rule_d_an_unanswered_creation_that_the_view_shows_is_not_read() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    create(&bench).await.expect_err("no answer");
    bench.server.take_asked();
    bench.store.upsert(Kind::Pod, &created(5));
    assert!(bench.may_plan().await);
    assert!(bench.server.take_asked().is_empty());
}

#[tokio::test]
async fn a_name_that_is_taken_is_a_failure_and_is_told_from_other_conflicts() {
    let bench = Bench::new();
    bench.server.answer(Answer::Refusal(409, "AlreadyExists"));
    let halt = create(&bench).await.expect_err("taken");
    assert!(matches!(halt, Halt::Failed(ApiError::AlreadyExists(_))), "{halt:?}");
    bench.server.answer(Answer::Refusal(409, "Conflict"));
    let halt = create(&bench).await.expect_err("a quota that somebody else was writing to");
    assert!(matches!(halt, Halt::Failed(ApiError::Conflict(_))), "{halt:?}");
    assert!(bench.may_plan().await, "nothing is awaited");
}

#[tokio::test]
async fn all_of_a_batch_is_tried_and_answered_in_its_order() {
    let bench = Bench::new();
    let actions: Vec<_> = (1..=100).map(|ordinal| creation(&format!("a-{ordinal}"))).collect();
    bench.server.answer(Answer::Status(200));
    bench.server.answer(Answer::Refusal(403, "Forbidden"));
    let mut lane = bench.enter(&Bench::domain()).await.expect("open");
    let performed = lane.perform_batch(&actions).await;
    assert!(matches!(performed.halt, Some(Halt::Failed(ApiError::Forbidden(_)))), "{:?}", performed.halt);
    assert_eq!(performed.answers.len(), 100);
    for (number, answer) in performed.answers.iter().enumerate() {
        let answer = answer.as_ref().expect("asked");
        assert_eq!(answer.is_err(), number == 1, "{number}: {answer:?}");
    }
    assert_eq!(bench.server.take_asked().len(), 100);
}

#[tokio::test]
async fn what_is_not_sent_has_no_answer() {
    let bench = Bench::new();
    let mut lane = bench.enter(&Bench::domain()).await.expect("open");
    bench.consistent.send_replace(None);
    let performed = lane.perform_batch(&[creation("a-1")]).await;
    assert_eq!((performed.answers, performed.halt), (vec![None], Some(Halt::Closed)));
}

#[tokio::test]
async fn a_lane_that_waits_is_looked_at_again_soon_since_others_share_it() {
    let bench = Bench::new();
    create(&bench).await.expect("done");
    let halt = bench.enter(&Bench::domain()).await.map(|_| ()).expect_err("not seen yet");
    let Halt::NotSeenYet { until } = halt else { panic!("{halt:?}") };
    assert!(until <= Instant::now() + LOOK_AGAIN);
}
