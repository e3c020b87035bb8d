//! The stage of ScalingPolicies: a watched namespace with an operator under the chart's permissions, and the hands of the user.

use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sts_plus_api::conditions::Truth;
use sts_plus_api::scaling_policy::RecordPhase;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::app::App;
use super::manifest::{kind, policy, set};
use super::seen::{self, Policy, Seen};
use crate::cluster::{Account, Cluster};
use crate::fixture::image;
use crate::gated::stage::{drop_nulls, install_kinds};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::stage::Stage;

/// The name of the set and of the policy of each scenario.
pub const NAME: &str = "ingester";

/// Where one scenario about ScalingPolicies plays.
pub struct Scaled {
    stage: Stage<Seen>,
    account: Account,
    operator: Option<Operator>,
}

impl Deref for Scaled {
    type Target = Stage<Seen>;

    fn deref(&self) -> &Stage<Seen> {
        &self.stage
    }
}

impl Scaled {
    /// A fresh namespace in a cluster that knows the kinds, watched from the start, with an operator.
    pub async fn new(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        let mut scaled = Self::without_operator(cluster, name).await;
        scaled.restart().await;
        scaled
    }

    /// The same without an operator.
    pub async fn without_operator(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        install_kinds(&cluster.user()).await;
        let mut stage = Stage::fresh(cluster, name).await;
        stage.watch::<Pod>().await;
        stage.watch::<StatefulSet>().await;
        stage.watch_in(policies(cluster.user(), &stage.namespace)).await;
        let granted = [rules::by_default(), rules::secrets()].concat();
        let account = stage.account_with("operator", granted).await;
        stage.cluster.grant(&account, None, rules::nodes()).await.unwrap();
        Self { stage, account, operator: None }
    }

    /// The operator crashes, if there is one, and another one starts.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.operator = Some(self.operator_of(&self.account));
    }

    /// The operator crashes, if there is one, and another one starts that sends its requests through this client.
    pub async fn restart_through(&mut self, client: &Client) {
        self.stop().await;
        self.operator = Some(self.operator_through(client));
    }

    /// The operator crashes.
    pub async fn stop(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.crash().await;
        }
    }

    /// The account of the operator.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The metrics of the operator.
    pub fn metrics(&self) -> String {
        self.operator.as_ref().map(Operator::metrics).unwrap_or_default()
    }

    /// The policies of the namespace, in the user's hands.
    pub fn policies(&self) -> Api<DynamicObject> {
        policies(self.cluster.user(), &self.namespace)
    }

    /// The application of a set.
    pub fn app(&self, set: &str) -> App {
        App::start(&*self.cluster, &self.namespace, set)
    }

    /// The usual set with so many pods, all of them Ready, and its application.
    pub async fn given(&self, replicas: u32) -> App {
        let app = self.app(NAME);
        self.create_set(&set(NAME, replicas)).await;
        self.serves(NAME, "v1").await;
        app
    }

    /// The same with a policy that has taken it.
    pub async fn given_scaled(&self, replicas: u32, spec: &Value) -> App {
        let app = self.given(replicas).await;
        self.create(spec).await;
        self.settled(replicas).await;
        app
    }

    /// Creates a set, whether its pods come up or not.
    pub async fn create_set(&self, set: &Value) {
        let object: StatefulSet = serde_json::from_value(drop_nulls(set.clone())).unwrap();
        let created = self.sets().create(&PostParams::default(), &object).await.unwrap();
        self.until(&format!("{} to be seen", created.name_any()), |seen| {
            let is_seen = seen.sets.contains_key(&created.name_any());
            is_seen.then_some(()).ok_or_else(|| "nothing".to_owned())
        })
        .await;
    }

    /// Creates the policy of the scenario.
    pub async fn create(&self, spec: &Value) {
        self.create_named(NAME, spec).await;
    }

    /// Creates another policy.
    pub async fn create_named(&self, name: &str, spec: &Value) {
        self.view().note(format!("user: creates policy {name} {spec}"));
        let created = self.policies().create(&PostParams::default(), &policy(name, spec)).await.unwrap();
        self.is_seen(&created).await;
    }

    /// The user changes the spec of the policy.
    pub async fn edit(&self, fields: Value) {
        self.view().note(format!("user: policy {fields}"));
        let patch = Patch::Merge(json!({ "spec": fields }));
        let patched = self.policies().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
        self.is_seen(&patched).await;
    }

    /// The user asks for so many pods.
    pub async fn scale(&self, replicas: u32) {
        self.edit(json!({ "replicas": replicas })).await;
    }

    /// The user deletes the policy.
    pub async fn delete(&self) {
        self.view().note("user: deletes the policy".to_owned());
        self.policies().delete(NAME, &DeleteParams::default()).await.unwrap();
    }

    /// The same, and it is gone when this returns.
    pub async fn gone(&self) {
        self.until("the policy to be gone", |seen| match seen.policies.get(NAME) {
            None => Ok(()),
            Some(policy) => Err(format!("{policy:?}")),
        })
        .await;
    }

    /// Somebody else writes another number of replicas, under the name of this field manager, and the onlooker has seen it when
    /// this returns.
    pub async fn write_replicas(&self, set: &str, replicas: u32, manager: &str) {
        let before = self.view().replicas[set].len();
        self.change_set_as(set, &json!({ "spec": { "replicas": replicas } }), manager).await;
        self.had_replicas(set, before, replicas).await;
    }

    /// Waits until a set has had this number of replicas, after so many others.
    pub async fn had_replicas(&self, set: &str, after: usize, replicas: u32) {
        self.until(&format!("{set} to have had {replicas} replicas"), |seen| {
            let numbers = &seen.replicas[set];
            let is_there = numbers.iter().skip(after).any(|number| *number == replicas);
            if is_there { Ok(()) } else { Err(format!("{numbers:?}")) }
        })
        .await;
    }

    /// The user gives a set a new template.
    pub async fn change(&self, set: &str, template: &Value) {
        self.change_set_as(set, &json!({ "spec": { "template": template } }), "user").await;
    }

    /// Waits until the onlooker has seen a policy as it was answered, so that nothing older is taken for the present.
    async fn is_seen(&self, policy: &DynamicObject) {
        let (name, version) = (policy.name_any(), seen::version(policy.metadata.resource_version.as_ref()));
        self.until(&format!("{name} to be seen"), |seen| match seen.policies.get(&name) {
            Some(seen) if seen.version >= version => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    }

    /// The policy as it was seen last.
    pub fn present(&self) -> Policy {
        self.view().policies[NAME].clone()
    }

    /// Waits until a policy, whose status speaks of its present spec, is as asked for.
    pub async fn named_is(&self, name: &str, what: &str, is: impl Fn(&Policy, &Seen) -> bool) -> Policy {
        self.until(&format!("{name} to be {what}"), |seen| match seen.policies.get(name) {
            Some(policy) if policy.observed && is(policy, seen) => Ok(policy.clone()),
            policy => Err(format!("{policy:?} of {:?}", seen.sets)),
        })
        .await
    }

    /// The same of the policy of the scenario.
    pub async fn policy_is(&self, what: &str, is: impl Fn(&Policy, &Seen) -> bool) -> Policy {
        self.named_is(NAME, what, is).await
    }

    /// Waits until the record of a pod that leaves is in this phase.
    pub async fn leaves(&self, ordinal: u32, phase: RecordPhase) -> Policy {
        let what = format!("at {phase:?} with {ordinal}");
        self.policy_is(&what, |policy, _| policy.leaving(ordinal).is_some_and(|record| record.phase == phase))
            .await
    }

    /// Waits until the set has this many pods, all Ready, and the policy is content with it.
    pub async fn settled(&self, replicas: u32) -> Policy {
        self.policy_is(&format!("settled with {replicas} pods"), |policy, seen| {
            let (status, ready) = (&policy.status, policy.condition("Ready"));
            let target = policy.spec.as_ref().map_or("", |spec| &spec.target_ref.name);
            ready.is_some_and(|ready| ready.status == Truth::True)
                && (status.replicas, status.ready_replicas, status.desired_replicas)
                    == (Some(replicas), Some(replicas), Some(replicas))
                && status.leaving.is_empty()
                && status.joining.is_empty()
                && seen.sets.get(target).is_some_and(|set| set.replicas == replicas && set.leaving.is_none())
                && seen.pods_of(target).count() == replicas as usize
                && seen.pods_of(target).all(|pod| pod.pod.serves())
        })
        .await
    }

    /// Waits until a condition of the policy has this reason, now or at any time from now on; its message.
    pub async fn reports(&self, reason: &str) -> String {
        // Every state from now on is looked at: one that is over before anybody wakes up has been there all the same.
        let from = self.view().history.get(NAME).map_or(0, |past| past.len().saturating_sub(1));
        self.until(&format!("the reason {reason}"), |seen| {
            let states = seen.history.get(NAME).and_then(|states| states.get(from..)).unwrap_or_default();
            let states = states.iter().filter(|policy| policy.observed);
            let mut conditions = states.flat_map(|policy| &policy.status.conditions);
            let found = conditions.find(|condition| condition.reason == reason);
            found.map(|found| found.message.clone()).ok_or_else(|| format!("{:?}", seen.policies.get(NAME)))
        })
        .await
    }

    /// Waits until all pods of a set serve this version, as many as it shall have.
    pub async fn serves(&self, set: &str, version: &str) {
        self.until(&format!("{set} to serve {version}"), |seen| {
            let row = seen.sets.get(set).ok_or("it is not there")?;
            let pods: Vec<_> = seen.pods_of(set).collect();
            let good = pods.iter().filter(|pod| pod.pod.serves() && pod.pod.image == image(version)).count();
            let all = row.replicas as usize;
            let done = row.observed && good == all && pods.len() == all;
            if done { Ok(()) } else { Err(format!("{row:?} with {pods:?}")) }
        })
        .await;
    }

    /// The numbers of replicas that the set of the scenario has had.
    pub fn numbers(&self) -> Vec<u32> {
        self.view().replicas[NAME].clone()
    }

    /// How many pods have had the name with each of these ordinals.
    pub fn lives(&self, ordinals: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let seen = self.view();
        let lives = |ordinal| seen.lives.get(&format!("{NAME}-{ordinal}")).map_or(0, Vec::len);
        ordinals.into_iter().map(lives).collect()
    }

    /// Waits until so many pods have had the name with each ordinal, from 0 on.
    pub async fn replaced(&self, expected: &[usize]) {
        self.until(&format!("lives {expected:?}"), |seen| {
            let lives = |ordinal| seen.lives.get(&format!("{NAME}-{ordinal}")).map_or(0, Vec::len);
            let lives: Vec<_> = (0..expected.len()).map(lives).collect();
            if lives == expected { Ok(()) } else { Err(format!("{lives:?}")) }
        })
        .await;
    }

    /// The container of a pod ends, and is started again in it; that has been seen when this returns.
    pub async fn restart_container(&self, pod: &str) {
        let before: i32 = self.view().pods[pod].restarts.values().sum();
        self.set_fault(pod, Some("exit-after=5ms")).await;
        self.until(&format!("{pod} to restart"), |seen| match seen.pods.get(pod) {
            Some(pod) if pod.restarts.values().sum::<i32>() > before => Ok(()),
            pod => Err(format!("{pod:?}")),
        })
        .await;
        self.set_fault(pod, None).await;
        self.pod_is(pod, "Ready again", |pod| pod.ready).await;
    }

    /// Deletes a pod with the user's hands; its successor is Ready when this returns.
    pub async fn replace(&self, pod: &str) {
        self.view().note(format!("user: deletes {pod}"));
        let before = self.view().pods[pod].pod.uid.clone();
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
        self.pod_is(pod, "replaced", |pod| pod.uid != before && pod.ready).await;
    }

    /// Changes what a pod of the hollow nodes answers.
    pub async fn annotate(&self, pod: &str, answers: &str) {
        let fields = json!({ "metadata": { "annotations": { behaviour::HTTP: answers } } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
    }

    /// Waits until the operator has written an event about the policy with this reason; its message.
    pub async fn event(&self, reason: &str) -> String {
        until(DEADLINE, format!("an event {reason}"), || async {
            let events = self.events_about("ScalingPolicy", NAME).await?;
            let found = events.iter().find(|event| event.1 == reason).map(|event| event.2.clone());
            found.ok_or_else(|| NotYet::saw(&events))
        })
        .await
    }

    /// The end of every scenario: no guarantee was broken and nothing was forbidden.
    pub async fn finish(mut self, apps: &[&App]) {
        self.stop().await;
        let forbidden = self.forbidden();
        assert!(forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let called: Vec<_> = apps.iter().flat_map(|app| app.faults()).collect();
        assert!(called.is_empty(), "called before that was remembered: {called:#?}");
        let mut seen = self.view();
        seen.conclude();
        assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    }
}

/// The policies of a namespace.
pub(super) fn policies(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &kind())
}
