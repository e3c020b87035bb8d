//! The ValidatingAdmissionPolicy of the chart on a real API server: only sts-plus lowers the replicas of a set with a policy.

use std::process::Stdio;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, checkout};
use tokio::process::Command;

use super::manifest::{down, hook, pods};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::kubectl::Kubectl;
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;

/// The namespace that the chart is rendered for; its service account there has the name of the release.
const HOME: &str = "operators";

/// Whom the chart lets through.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:operators:sts-plus";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![a_guard_refuses_others_who_lower_the_replicas_and_names_the_policy]
}

/// The guard as the chart has it, for one namespace and one operator.
struct Guard {
    policy: ValidatingAdmissionPolicy,
    binding: ValidatingAdmissionPolicyBinding,
}

impl Guard {
    async fn render(stage: &Scaled) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut helm = Command::new(Assets::find().unwrap().binary("helm").unwrap());
        helm.current_dir(checkout());
        helm.args(["template", "sts-plus", "charts/sts-plus", "--namespace", HOME]);
        helm.arg("--set").arg(format!("namespaces={{{}}}", stage.namespace));
        helm.args(["--show-only", "templates/scalingguard.yaml"]);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            helm.env(variable, home.path().join(folder));
        }
        let output = helm.stdin(Stdio::null()).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(SERVICE_ACCOUNT), "{text}");
        let text = text.replace(SERVICE_ACCOUNT, &stage.account().user);
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).cloned().unwrap();
        Self {
            policy: serde_json::from_value(of("ValidatingAdmissionPolicy")).unwrap(),
            binding: serde_json::from_value(of("ValidatingAdmissionPolicyBinding")).unwrap(),
        }
    }

    async fn install(&self, stage: &Scaled) {
        let user = stage.cluster.user();
        Api::all(user.clone()).create(&PostParams::default(), &self.policy).await.unwrap();
        Api::all(user).create(&PostParams::default(), &self.binding).await.unwrap();
    }

    async fn remove(&self, stage: &Scaled) {
        let user = stage.cluster.user();
        let (policies, bindings) = (
            Api::<ValidatingAdmissionPolicy>::all(user.clone()),
            Api::<ValidatingAdmissionPolicyBinding>::all(user),
        );
        bindings.delete(&self.binding.name_any(), &DeleteParams::default()).await.unwrap();
        policies.delete(&self.policy.name_any(), &DeleteParams::default()).await.unwrap();
    }
}

/// Waits until a foreign write that changes nothing is refused, or admitted: the API server heeds a policy some time after it
/// was written.
async fn heeded(stage: &Scaled, refused: bool) {
    let what = if refused { "the guard to refuse" } else { "the guard to be gone" };
    until(DEADLINE, what, || async {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let lowered = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
        let answer = stage.sets().patch(NAME, &dry, &lowered).await;
        (answer.is_err() == refused).then_some(()).ok_or_else(|| NotYet::saw(answer.map(|_| "admitted")))
    })
    .await;
}

async fn a_guard_refuses_others_who_lower_the_replicas_and_names_the_policy(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    let guard = Guard::render(&stage).await;
    guard.install(&stage).await;
    heeded(&stage, true).await;
    let kubectl = Kubectl::new(&*cluster, &stage.namespace).await;
    // Through the subresource.
    let refused = kubectl.attempt(&["scale", "statefulset", NAME, "--replicas", "2"]).await.unwrap_err();
    let words = "ScalingPolicy ingester";
    assert!(refused.contains(words) && refused.contains("kubectl scale scalingpolicy ingester"), "{refused}");
    let refused = kubectl.attempt(&["scale", "statefulset", NAME, "--replicas", "0"]).await.unwrap_err();
    assert!(refused.contains(words), "{refused}");
    // By a plain update, and by an administrator.
    let mut set = stage.sets().get(NAME).await.unwrap();
    set.spec.as_mut().unwrap().replicas = Some(2);
    let refused = stage.sets().replace(NAME, &PostParams::default(), &set).await.unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    // Of a manifest without a number the API server makes 1.
    set.spec.as_mut().unwrap().replicas = None;
    let refused = stage.sets().replace(NAME, &PostParams::default(), &set).await.unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    assert_eq!(stage.numbers(), [3]);

    // Everything else is admitted: another template, more pods, and what the operator does.
    stage.change(NAME, &pods("v2")).await;
    stage.serves(NAME, "v2").await;
    kubectl.run(&["scale", "statefulset", NAME, "--replicas", "4"]).await;
    stage.had_replicas(NAME, 1, 4).await;
    stage.settled(3).await;
    assert_eq!(app.prepared(), ["ingester-3"]);
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(stage.numbers(), [3, 4, 3, 2]);
    assert!(stage.present().status.removed_without_drain.is_empty());
    // A set without a policy is nobody's business.
    stage.create_set(&super::manifest::set("other", 2)).await;
    kubectl.run(&["scale", "statefulset", "other", "--replicas", "1"]).await;

    // Without the guard the write is undone and recorded.
    guard.remove(&stage).await;
    heeded(&stage, false).await;
    stage.write_replicas(NAME, 1, "somebody").await;
    let recorded = stage
        .policy_is("recording what was removed", |policy, _| policy.status.removed_without_drain.len() == 1)
        .await;
    assert_eq!(recorded.status.removed_without_drain[0].by, "somebody");
    stage.settled(2).await;
    stage.finish(&[&app]).await;
}
