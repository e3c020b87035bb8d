//! People agree, pause and go on, by hand and from the command line.

use std::process::Command;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;
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
    for stale in [format!("{old}/web-1"), revision.clone()] {
        stage.approve("web", &stale).await;
        stage
            .rollout_is("web", "refused an approval of something else", |seen| {
                let told = format!("The approval that is given, {stale}, is for another step");
                seen.status.message.as_ref().is_some_and(|words| words.contains(&told))
            })
            .await;
    }
    assert_eq!(stage.view().partitions["web"], [0, 2]);
    for partition in [2, 1] {
        let waits = stage.gate_waits_for("web", partition, "Approval").await;
        let approval = format!("{revision}/web-{}", partition - 1);
        assert_eq!(waits.status.awaited_approval.as_deref(), Some(&*approval));
        stage.approve("web", &approval).await;
        stage.set_is("web", "one step on", |set| set.partition == Some(partition - 1)).await;
    }
    let end = stage.updated("web").await;
    assert_eq!(end.status.used_approvals, [1, 0].map(|pod| format!("{revision}/web-{pod}")));
    // What stays in Git does not approve the same step again, should the revision come again.
    stage.change_and_observe("web", &Template::new("v1")).await;
    for pod in [1, 0] {
        stage.gate_waits_for("web", pod + 1, "Approval").await;
        stage.approve("web", &format!("{old}/web-{pod}")).await;
        stage.set_is("web", "one step on", |set| set.partition == Some(pod)).await;
    }
    stage.updated("web").await;
    stage.approve("web", &format!("{revision}/web-1")).await;
    assert_eq!(stage.change_and_observe("web", &Template::new("v2")).await, revision);
    let waits = stage.gate_waits_for("web", 2, "Approval").await;
    assert_eq!(waits.status.awaited_approval, Some(format!("{revision}/web-1/2")));
    stage.approve("web", &format!("{revision}/web-1/2")).await;
    stage.gate_waits_for("web", 1, "Approval").await;
    stage.approve("web", &format!("{revision}/web-0/2")).await;
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
    stage.approve("web", &format!("{revision}/web-1")).await;
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
        let approval = format!("{revision}/web-{}", partition - 1);
        assert_eq!(say("approve").await, format!("phasedrollout/web: {approval} approved\n"));
        stage.set_is("web", "one step on", |set| set.partition == Some(partition - 1)).await;
    }
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}
