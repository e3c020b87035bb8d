//! What a partition and a status look like on the wire.

use serde_json::json;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_planner::disruption::{Allowance, DomainBudget, Gatekeeper};
use sts_plus_planner::plan::{Action, Step};

use super::super::{Domain, Halt};
use super::{Answer, Bench, pod};
use crate::shell::api::Kind;

fn rolling_set() -> String {
    json!({
        "metadata": { "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "3" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "a" } }, "template": {},
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } }
        }
    })
    .to_string()
}

fn rollout(version: &str) -> String {
    let metadata = json!({ "name": "gated", "namespace": "ns", "uid": "uid-r", "resourceVersion": version });
    json!({ "metadata": metadata, "spec": { "targetRef": "a" } }).to_string()
}

/// A set that rolls, its rollout, and the step that a planner would take with its permit.
fn step() -> (Bench, Domain, Action) {
    let bench = Bench::new();
    bench.store.upsert(Kind::StatefulSet, &rolling_set());
    bench.store.upsert(Kind::Pod, &pod(4, "uid-a-0", false));
    bench.store.upsert(Kind::PhasedRollout, &rollout("7"));
    let member = bench.store.member(&"ns".into(), "a").unwrap();
    let now = jiff::Timestamp::from_second(3600).unwrap();
    let domain = DomainBudget::of([&member], Allowance::OnePod, now);
    let permit = Gatekeeper::new(&domain).ask(&"a".into(), member.pods.first().unwrap()).unwrap();
    let action = Action::let_go(&permit, &member.set, "gated", 0);
    (bench, Domain::of(&member.set), action)
}

fn alone(action: Action) -> Vec<Step> {
    vec![Step::one(action)]
}

#[tokio::test(start_paused = true)]
async fn a_partition_and_its_mark_are_applied_as_one_write_with_uid_and_version() {
    let (bench, domain, action) = step();
    assert!(action.disrupts());
    bench.enter(&domain).await.unwrap().perform(&alone(action)).await.unwrap();
    let asked = bench.server.take_asked();
    let [(method, path, body)] = asked.as_slice() else { panic!("one request: {asked:?}") };
    assert_eq!((method.as_str(), path.as_str()), ("PATCH", "/apis/apps/v1/namespaces/ns/statefulsets/a"));
    assert_eq!(
        *body,
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "3",
                "annotations": { "sts.plus/phasedRollout": "gated" },
            },
            "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } },
        })
    );
    let halted = bench.enter(&domain).await.map(|_| ()).unwrap_err();
    assert!(matches!(halted, Halt::NotSeenYet { .. }), "rule B: {halted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_without_an_answer_is_read_back_first() {
    let (bench, domain, action) = step();
    read_back(&bench, &domain, action).await;
    // A raised partition disrupts nothing; but it may be ours now, and then has to be released one day.
    let (bench, domain, _) = step();
    let set = bench.store.set(&"ns".into(), &"a".into()).unwrap();
    read_back(&bench, &domain, Action::pin(&set, "gated", 1)).await;
}

async fn read_back(bench: &Bench, domain: &Domain, action: Action) {
    bench.server.answer(Answer::Lost);
    let halted = bench.enter(domain).await.unwrap().perform(&alone(action)).await.unwrap_err();
    assert!(matches!(halted, Halt::Failed(_)), "{halted:?}");
    bench.server.take_asked();
    bench.server.answer(Answer::Object("uid-a"));
    let halted = bench.enter(domain).await.map(|_| ()).unwrap_err();
    let asked = bench.server.take_asked();
    assert_eq!(asked.first().map(|asked| asked.0.as_str()), Some("GET"), "rule D: {asked:?}");
    assert!(matches!(halted, Halt::NotSeenYet { .. }), "what was read is newer than the view: {halted:?}");
}

#[tokio::test(start_paused = true)]
async fn releasing_a_set_applies_nothing_at_all() {
    let (bench, domain, _) = step();
    let member = bench.store.member(&"ns".into(), "a").unwrap();
    let action = Action::release(&member.set);
    bench.enter(&domain).await.unwrap().perform(&alone(action)).await.unwrap();
    let body = bench.server.take_asked().remove(0).2;
    assert_eq!((body.get("spec"), body.pointer("/metadata/annotations")), (None, None));
    assert_eq!(body.pointer("/metadata/resourceVersion"), Some(&json!("3")));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_replaced_at_the_version_it_was_decided_from() {
    let (bench, domain, _) = step();
    let row = bench.store.rollout(&"ns".into(), &"gated".into()).unwrap();
    let status = PhasedRolloutStatus { partition: Some(1), ..PhasedRolloutStatus::default() };
    bench.server.answer(Answer::Status(409));
    let halted = bench.enter(&domain).await.unwrap().perform(&alone(row.report(&status))).await.unwrap_err();
    assert!(matches!(halted, Halt::NotSeenYet { .. }), "somebody was faster: {halted:?}");
    let (method, path, body) = bench.server.take_asked().remove(0);
    let expected = "/apis/sts.plus/v1alpha1/namespaces/ns/phasedrollouts/gated/status";
    assert_eq!((method.as_str(), path.as_str()), ("PUT", expected));
    assert_eq!(
        body,
        json!({
            "apiVersion": "sts.plus/v1alpha1", "kind": "PhasedRollout",
            "metadata": { "name": "gated", "namespace": "ns", "uid": "uid-r", "resourceVersion": "7" },
            "status": { "partition": 1 },
        })
    );
    assert!(bench.enter(&domain).await.is_err(), "the view must show what was faster");
    bench.store.upsert(Kind::PhasedRollout, &rollout("8"));
    assert!(bench.enter(&domain).await.is_ok());
}
