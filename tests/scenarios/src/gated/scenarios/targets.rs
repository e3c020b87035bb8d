//! Which set is managed, and what it must be like.

use serde_json::json;
use sts_plus_api::conditions::{STALLED, Truth};

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::{Place, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios![
        b_a10_1_a_target_that_stays_missing_is_worth_an_event,
        b_a10_1_a_missing_target_is_taken_once_it_is_created,
        b_a10_2_a_wrong_strategy_is_named_and_the_set_left_alone,
        b_a10_3_a_strategy_that_is_switched_midway_stops_the_rollout_until_it_is_back,
        b_a10_16_of_two_rollouts_the_older_has_the_set_and_the_other_inherits_it,
        b_a10_17_another_target_lets_the_former_go_first,
        b_a10_19_a_set_that_is_created_anew_is_another_one,
        b_a10_22_pods_are_named_from_the_first_ordinal_on,
    ];
    let of_a_gate = scenarios![b_a10_4_max_unavailable_2_still_means_one_pod_per_gate];
    let elsewhere = |scenario| Scenario { place: Place::OwnWithMaxUnavailable, ..scenario };
    all.extend(of_a_gate.into_iter().map(elsewhere));
    all
}

async fn b_a10_1_a_target_that_stays_missing_is_worth_an_event(stage: Gated) {
    let _operator = stage.operator().await;
    stage.create(&Rollout::new("web", "prom:9090")).await;
    stage.event("web", "TargetNotFound", "StatefulSet web does not exist").await;
    let seen = stage.phase("web", "ErrorSTSNotFound").await;
    assert_eq!(seen.truth(STALLED), Some((Truth::True, "TargetNotFound")));
    stage.finish();
}

async fn b_a10_1_a_missing_target_is_taken_once_it_is_created(stage: Gated) {
    let _operator = stage.operator().await;
    stage.create(&Rollout::new("web", "prom:9090")).await;
    stage.phase("web", "ErrorSTSNotFound").await;
    stage.given(&Set::new("web", 2)).await;
    stage.updated("web").await;
    let events = stage.events("PhasedRollout", "web").await.unwrap();
    assert!(events.iter().all(|event| event.1 != "TargetNotFound"), "it was not long: {events:?}");
    stage.finish();
}

async fn b_a10_2_a_wrong_strategy_is_named_and_the_set_left_alone(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given(&Set::new("web", 2).spec(&json!({ "updateStrategy": { "type": "OnDelete" } }))).await;
    stage.create(&Rollout::new("web", "prom:9090")).await;
    let seen = stage.phase("web", "ErrorCannotManage").await;
    let stalled = seen.condition(STALLED).unwrap();
    assert_eq!(stalled.status, Truth::True);
    assert!(stalled.message.contains("spec.updateStrategy.type of web is OnDelete"), "{stalled:?}");
    assert_eq!(stage.view().sets["web"].managed_by, None);
    stage.patch_set("web", &json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })).await;
    stage.updated("web").await;
    stage.finish();
}

async fn b_a10_3_a_strategy_that_is_switched_midway_stops_the_rollout_until_it_is_back(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-3"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 4), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 3, "ChecksFailing").await;

    let on_delete = json!({ "type": "OnDelete", "rollingUpdate": null });
    stage.patch_set("web", &json!({ "spec": { "updateStrategy": on_delete } })).await;
    let seen = stage.phase("web", "ErrorCannotManage").await;
    assert_eq!(seen.status.rolling_pod_status.unwrap().partition, 3, "the gate is kept");

    // Whoever writes the strategy leaves the partition out, so that the set may be faster with a pod or two.
    stage.patch_set("web", &json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })).await;
    stage.rollout_is("web", "at work again", |seen| seen.phase() == "Rolling").await;
    answers.release(&["web-3"]);
    let end = stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(end.status.phase.unwrap().word(), "Updated");
    stage.finish();
}

async fn b_a10_4_max_unavailable_2_still_means_one_pod_per_gate(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let strategy = json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 2 } } });
    stage.given_managed(&Set::new("web", 4).spec(&strategy), &Rollout::new("web", &answers.url())).await;
    let set = serde_json::to_value(stage.sets().get("web").await.unwrap()).unwrap();
    let kept = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").is_some();
    assert!(kept, "without the field this shows nothing: {set}");
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.updated("web").await;
    assert_eq!(stage.view().partitions["web"], [0, 4, 3, 2, 1, 0, 4]);
    let set = serde_json::to_value(stage.sets().get("web").await.unwrap()).unwrap();
    assert_eq!(set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), Some(&json!(2)));
    stage.finish();
}

async fn b_a10_16_of_two_rollouts_the_older_has_the_set_and_the_other_inherits_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    let first = Rollout::new("web", &answers.url()).named("a-first");
    stage.given_managed(&Set::new("web", 3), &first).await;
    stage.create(&first.clone().named("b-second")).await;
    let seen = stage.phase("b-second", "ErrorCannotManage").await;
    assert!(seen.status.message.as_ref().unwrap().contains("a-first"), "{seen:?}");
    stage.event("b-second", "CannotManage", "a-first").await;

    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("a-first", 2, "ChecksFailing").await;
    stage.delete("a-first").await;
    stage.gate_waits_for("b-second", 2, "ChecksFailing").await;
    stage.set_is("web", "taken over", |set| set.managed_by.as_deref() == Some("b-second")).await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2], "nothing moved at the handover");
    answers.release(&["web-2"]);
    stage.updated("b-second").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a10_17_another_target_lets_the_former_go_first(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", "prom:9090")).await;
    stage.given(&Set::new("other", 1)).await;
    stage.patch_spec("web", &json!({ "targetRef": "other" })).await;
    stage.set_is("web", "let go", |set| set.partition.unwrap_or(0) == 0 && set.managed_by.is_none()).await;
    stage.updated("web").await;
    assert_eq!(stage.view().sets["other"].managed_by.as_deref(), Some("web"));
    stage.finish();
}

async fn b_a10_19_a_set_that_is_created_anew_is_another_one(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    let set = Set::new("web", 3);
    stage.given_managed(&set, &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    let before = stage.gate_waits_for("web", 2, "ChecksFailing").await;
    stage.delete_set("web").await;
    stage.phase("web", "ErrorSTSNotFound").await;
    stage.given(&set).await;
    let after = stage.updated("web").await;
    assert_ne!(before.status.target, after.status.target);
    assert_eq!(after.status.rolling_pod_status, None);
    stage.finish();
}

async fn b_a10_22_pods_are_named_from_the_first_ordinal_on(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-7"]);
    let _operator = stage.operator().await;
    let set = Set::new("web", 3).first_ordinal(5);
    stage.given_managed(&set, &Rollout::new("web", &answers.url())).await;
    assert_eq!(stage.view().sets["web"].partition, Some(3), "an index, not an ordinal");
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    let seen: Vec<_> = (0..3).map(|index| stage.view().lives_of(&set.pod(index))).collect();
    assert_eq!(seen, [1, 1, 2]);
    answers.release(&["web-7"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    stage.finish();
}
