//! Others write the partition too, and what the server knows of who owns it.

use std::process::Command;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sts_plus_api::conditions::{CONFLICT, Truth};
use sts_plus_api::keys;
use sts_plus_harness::Assets;
use sts_plus_harness::output::output;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a10_15_a_fighter_is_told_and_answered_ever_more_slowly,
        b_a10_13_a_partition_that_is_overwritten_at_rest_is_restored,
        b_a10_14_a_partition_that_is_overwritten_midway_is_restored,
        b_a10_14_a_partition_that_is_raised_midway_is_restored,
        the_server_knows_that_the_partition_and_its_mark_and_nothing_else_are_ours,
        kubectl_apply_without_a_partition_leaves_ours_alone,
    ]
}

async fn b_a10_13_a_partition_that_is_overwritten_at_rest_is_restored(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", "prom:9090")).await;
    stage.partition("web", 1, "gitops").await;
    let words = stage.event("web", "PartitionRestored", "gitops").await;
    assert_eq!(words, "gitops has set the partition to 1. It is restored to 3.");
    stage.updated("web").await;
    let seen = stage.rollout_is("web", "in conflict", |seen| seen.condition(CONFLICT).is_some()).await;
    assert_eq!(seen.truth(CONFLICT), Some((Truth::True, "PartitionContested")));
    assert_eq!(seen.status.contest.unwrap().manager, "gitops");
    assert_eq!(stage.view().partitions["web"], [0, 3, 1, 3]);
    stage.finish();
}

async fn b_a10_14_a_partition_that_is_overwritten_midway_is_restored(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-3"]);
    answers.hold(&["web-2", "web-3"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 4), &Rollout::new("web", &answers.url())).await;
    // Should the set be faster than the operator, no more than one pod is replaced.
    stage.change("web", &Template::new("v2").ready_after("3s")).await;
    stage.gate_waits_for("web", 3, "ChecksFailing").await;
    stage.partition("web", 0, "gitops").await;
    stage.event("web", "PartitionRestored", "gitops").await;
    let seen = stage.gate_waits_for("web", 3, "ChecksFailing").await;
    stage.set_is("web", "restored", |set| set.partition == Some(3)).await;
    // A pod that was deleted by then and came back as it was has not.
    let slipped = stage.view().pods.get("web-2").is_some_and(|pod| pod.image == "app:v2");
    assert!(seen.status.ungated_pods.len() <= 1, "{seen:?}");
    assert_eq!(stage.lives(&["web-0", "web-1"]), [1, 1]);
    answers.release(&["web-3"]);
    answers.release(&["web-2", "web-3"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    if slipped {
        let history = stage.view().history["web"].clone();
        assert!(
            history.iter().any(|past| past.status.ungated_pods == ["web-2"]),
            "who slipped through is told"
        );
    }
    stage.finish();
}

async fn b_a10_14_a_partition_that_is_raised_midway_is_restored(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    stage.partition("web", 9, "gitops").await;
    stage.event("web", "PartitionRestored", "gitops has set the partition to 9. It is restored to 2.").await;
    answers.release(&["web-2"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 9, 2, 1, 0, 3]);
    stage.finish();
}

async fn b_a10_15_a_fighter_is_told_and_answered_ever_more_slowly(stage: Gated) {
    const ROUNDS: i32 = 8;
    let account = stage.account("operator").await;
    let _operator = stage.operator_of(&account);
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", "prom:9090")).await;
    let fight = async {
        loop {
            stage.set_is("web", "restored", |set| set.partition != Some(1)).await;
            stage.partition("web", 1, "gitops").await;
        }
    };
    let watch = async {
        let contested = stage.waits_for("web", "PartitionContested").await;
        assert_eq!(contested.truth(CONFLICT), Some((Truth::True, "PartitionContested")));
        let words = &contested.condition(CONFLICT).unwrap().message;
        assert!(words.starts_with("gitops has written the partition"), "{words}");
        stage
            .rollout_is("web", "in the last round", |seen| {
                seen.status.contest.as_ref().is_some_and(|contest| contest.times >= ROUNDS)
            })
            .await
    };
    tokio::select! {
        () = fight => {}
        _ = watch => {}
    }
    // Once to pin and mark, once for each round; and the one that may be under way.
    let requests = stage.cluster.requests(&account).unwrap();
    let writes =
        requests.iter().filter(|request| request.resource == "statefulsets" && request.wrote()).count();
    assert!(writes <= usize::try_from(ROUNDS).unwrap() + 2, "{writes} writes: {requests:#?}");
    stage.updated("web").await;
    assert_eq!(stage.view().lives_of("web-2"), 1);
    stage.finish();
}

async fn the_server_knows_that_the_partition_and_its_mark_and_nothing_else_are_ours(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", "prom:9090")).await;
    let set = stage.sets().get("web").await.unwrap();
    let managed = set.metadata.managed_fields.unwrap();
    let ours = managed.iter().filter(|entry| entry.manager.as_deref() == Some(keys::MANAGER_PHASED_ROLLOUT));
    let ours: Vec<_> =
        ours.map(|entry| (entry.operation.clone().unwrap(), entry.fields_v1.clone().unwrap().0)).collect();
    let fields = json!({
        "f:metadata": { "f:annotations": { "f:sts.plus/phasedRollout": {} } },
        "f:spec": { "f:updateStrategy": { "f:rollingUpdate": { "f:partition": {} } } },
    });
    assert_eq!(ours, [("Apply".to_owned(), fields)]);

    // Somebody else who applies the field is told whose it is.
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" },
        "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } },
    });
    let applied = stage.sets().patch("web", &PatchParams::apply("gitops"), &Patch::Apply(&foreign)).await;
    let refused = applied.unwrap_err().to_string();
    assert!(refused.contains("conflict with \"sts-plus/phased-rollout\""), "{refused}");
    assert!(refused.contains(".spec.updateStrategy.rollingUpdate.partition"), "{refused}");
    stage.finish();
}

async fn kubectl_apply_without_a_partition_leaves_ours_alone(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let user = stage.cluster.newcomer("user").unwrap();
    let everything = PolicyRule {
        api_groups: Some(vec!["apps".to_owned()]),
        resources: Some(vec!["statefulsets".to_owned()]),
        verbs: ["get", "create", "patch"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    };
    stage.cluster.grant(&user, Some(&stage.namespace), vec![everything]).await.unwrap();
    let kubeconfig = stage.cluster.kubeconfig(&user).unwrap();
    let kubectl = Assets::find().unwrap().binary("kubectl").unwrap();
    let apply = async |object: Value| {
        let mut command = Command::new(&kubectl);
        let cache = kubeconfig.with_extension("cache");
        command.arg("--kubeconfig").arg(&kubeconfig).arg("--cache-dir").arg(cache);
        command.args(["--namespace", &stage.namespace, "apply", "--validate=false", "--filename", "-"]);
        output(command, &object.to_string()).await.unwrap();
    };
    let object = |version: &str| {
        let set = Set::new("web", 2).template(Template::new(version)).object();
        serde_json::to_value(serde_json::from_value::<StatefulSet>(without_nulls(set)).unwrap()).unwrap()
    };
    apply(object("v1")).await;
    stage.serves("web", "v1").await;
    stage.create(&Rollout::new("web", &answers.url())).await;
    stage.updated("web").await;
    apply(object("v2")).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    assert_eq!(stage.view().partitions["web"], [0, 2, 1, 0, 2]);
    let contested = stage.view().history["web"].iter().any(|past| past.status.contest.is_some());
    assert!(!contested, "an apply that does not name the partition does not write it");
    stage.finish();
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
        for field in fields.values_mut() {
            *field = without_nulls(field.take());
        }
    }
    value
}
