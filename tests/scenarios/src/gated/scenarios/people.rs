//! People agree, pause and go on, by hand and from the command line.

use std::process::Command;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_harness::output::output;

use super::scenarios;
use crate::binary;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

const APPROVAL: &str = include_str!("../../../../../examples/phased-rollout/approval.yaml");

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios![
        b_a14_14_each_step_is_approved_once_and_for_its_revision,
        b_a14_14_the_first_pod_alone_is_approved,
        a_paused_rollout_asks_nothing_and_moves_nothing,
    ];
    let by_command = scenarios![b_a14_14_people_steer_from_the_command_line];
    all.extend(by_command.into_iter().map(|scenario| Scenario { needs_binary: true, ..scenario }));
    all
}

async fn b_a14_14_each_step_is_approved_once_and_for_its_revision(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::example(APPROVAL, &answers.url())).await;
    let old = stage.view().sets["web"].update.clone();
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "Approval").await;
    stage.approve("web", &old).await;
    stage
        .rollout_is("web", "told that the approval is an old one", |seen| {
            seen.status.message.as_ref().is_some_and(|words| words.contains(&format!("is for {old}")))
        })
        .await;
    assert_eq!(stage.view().partitions["web"], [0, 2]);
    for partition in [2, 1] {
        stage.gate_waits_for("web", partition, "Approval").await;
        stage.approve("web", &revision).await;
        stage.set_is("web", "one step on", |set| set.partition == Some(partition - 1)).await;
        let annotations = stage.rollouts().get("web").await.unwrap().metadata.annotations.unwrap_or_default();
        assert!(!annotations.contains_key(keys::APPROVE), "used: {annotations:?}");
    }
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a14_14_the_first_pod_alone_is_approved(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let rollout = Rollout::example(APPROVAL, &answers.url()).spec(&json!({ "approval": "FirstPod" }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "Approval").await;
    stage.approve("web", &revision).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn a_paused_rollout_asks_nothing_and_moves_nothing(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
    stage.patch_spec("web", &json!({ "paused": true })).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "Paused").await;
    assert_eq!(answers.queries().len(), 0);
    stage.patch_spec("web", &json!({ "paused": false })).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a14_14_people_steer_from_the_command_line(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let person = stage.cluster.newcomer("person").unwrap();
    let rule = PolicyRule {
        api_groups: Some(vec!["sts.plus".to_owned()]),
        resources: Some(vec!["phasedrollouts".to_owned()]),
        verbs: ["get", "patch"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    };
    stage.cluster.grant(&person, Some(&stage.namespace), vec![rule]).await.unwrap();
    let kubeconfig = stage.cluster.kubeconfig(&person).unwrap();
    let say = async |verb: &str| {
        stage.view().note(format!("sts-plus {verb} phasedrollout/web"));
        let mut command = Command::new(binary::find().unwrap());
        command.arg("--kubeconfig").arg(&kubeconfig).args([verb, "phasedrollout/web"]);
        command.args(["--namespace", &stage.namespace]);
        output(command, "").await.unwrap()
    };
    stage.given_managed(&Set::new("web", 2), &Rollout::example(APPROVAL, &answers.url())).await;
    assert_eq!(say("pause").await, "phasedrollout/web paused\n");
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "Paused").await;
    assert_eq!(say("resume").await, "phasedrollout/web resumed\n");
    for partition in [2, 1] {
        stage.gate_waits_for("web", partition, "Approval").await;
        assert_eq!(say("approve").await, format!("phasedrollout/web: revision {revision} approved\n"));
        stage.set_is("web", "one step on", |set| set.partition == Some(partition - 1)).await;
    }
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}
