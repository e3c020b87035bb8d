//! The stage of ExtendedStatefulSets: a watched namespace with an operator under the chart's permissions, and the hands of the
//! user.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;
use sts_plus_harness::wait::{NotYet, until};

use super::seen::{self, Object, Seen};
use crate::cluster::{Account, Cluster, Request};
use crate::gated::stage::install_kinds;
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::stage::Stage;

/// The name of the object of each scenario.
pub const NAME: &str = "db";

/// How the names of scenarios end in which the operator is restarted between the steps.
pub(super) const RESTARTED: &str = "_also_with_a_restart_between_its_steps";

/// Where one scenario about ExtendedStatefulSets plays.
pub struct Extended {
    stage: Stage<Seen>,
    /// The group of its object.
    pub group: Group,
    /// Whether a quota is meant to refuse sets.
    pub has_quota: bool,
    account: Account,
    operator: Mutex<Option<Operator>>,
    /// Whether the operator crashes and another one starts before each thing that the user does.
    restarts: bool,
}

impl Deref for Extended {
    type Target = Stage<Seen>;

    fn deref(&self) -> &Stage<Seen> {
        &self.stage
    }
}

impl Extended {
    /// A fresh namespace in a cluster that knows the kinds, watched from the start, with an operator.
    pub async fn new(cluster: &Arc<dyn Cluster>, name: &str, group: Group) -> Self {
        let mut extended = Self::without_operator(cluster, name, group).await;
        extended.restart().await;
        extended
    }

    /// The same without an operator.
    pub async fn without_operator(cluster: &Arc<dyn Cluster>, name: &str, group: Group) -> Self {
        let granted = [rules::by_default(), rules::secrets(), rules::followed_secrets()].concat();
        Self::granted(cluster, name, group, granted).await
    }

    /// The same with an account that may do this.
    pub async fn granted(
        cluster: &Arc<dyn Cluster>,
        name: &str,
        group: Group,
        granted: Vec<k8s_openapi::api::rbac::v1::PolicyRule>,
    ) -> Self {
        install_kinds(&cluster.user()).await;
        cluster.name_claims().await.unwrap();
        let mut stage = Stage::fresh(cluster, name).await;
        stage.watch::<Pod>().await;
        stage.watch::<StatefulSet>().await;
        stage.watch::<EndpointSlice>().await;
        stage.watch::<PersistentVolumeClaim>().await;
        stage.watch_in(objects(cluster.user(), &stage.namespace, group)).await;
        let account = stage.account_with("operator", granted).await;
        let restarts = name.ends_with(RESTARTED);
        Self { stage, group, has_quota: false, account, operator: Mutex::default(), restarts }
    }

    /// The operator crashes, if there is one, and another one starts.
    pub async fn restart(&mut self) {
        self.stop().await;
        *self.operator.get_mut().unwrap() = Some(self.operator_of(&self.account));
    }

    /// The operator crashes between two steps of the scenario, and another one starts, where the scenario asks for that.
    async fn next_step(&self) {
        let running = if self.restarts { self.operator.lock().unwrap().take() } else { None };
        if let Some(operator) = running {
            operator.crash().await;
            *self.operator.lock().unwrap() = Some(self.operator_of(&self.account));
        }
    }

    /// The operator crashes.
    pub async fn stop(&mut self) {
        let running = self.operator.get_mut().unwrap().take();
        if let Some(operator) = running {
            operator.crash().await;
        }
    }

    /// The account of the operator.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The metrics of the operator.
    pub fn metrics(&self) -> String {
        self.operator.lock().unwrap().as_ref().map(Operator::metrics).unwrap_or_default()
    }

    /// The ExtendedStatefulSets of the namespace in the scenario's group, in the user's hands.
    pub fn objects(&self) -> Api<DynamicObject> {
        objects(self.cluster.user(), &self.namespace, self.group)
    }

    /// Objects of another kind, in the user's hands.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.cluster.user(), &self.namespace)
    }

    /// Creates an object of a kind that is built in.
    pub async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + DeserializeOwned + Serialize + Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Changes an object of a kind that is built in.
    pub async fn merge<K>(&self, name: &str, fields: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        self.view().note(format!("user: {name} {fields}"));
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(fields)).await.unwrap()
    }

    /// An object with this spec, as its user writes it.
    pub fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        object(self.group, name, spec)
    }

    /// Creates the object of the scenario.
    pub async fn create(&self, spec: Value) {
        self.create_named(NAME, spec).await;
    }

    /// Creates another object.
    pub async fn create_named(&self, name: &str, spec: Value) {
        self.view().note(format!("user: creates {name}"));
        let created = self.objects().create(&PostParams::default(), &self.object(name, &spec)).await.unwrap();
        self.is_seen(&created).await;
    }

    /// The user changes the spec of the object.
    pub async fn edit(&self, fields: Value) {
        self.patch(NAME, json!({ "spec": fields })).await;
    }

    /// The user approves what waits for approval, with this value.
    pub async fn approve(&self, value: &str) {
        self.patch(NAME, json!({ "metadata": { "annotations": { keys::APPROVE: value } } })).await;
    }

    /// The user changes something of an object, and the onlooker has seen it when this returns.
    pub async fn patch(&self, name: &str, fields: Value) {
        self.next_step().await;
        self.view().note(format!("user: {name} {fields}"));
        let patched =
            self.objects().patch(name, &PatchParams::default(), &Patch::Merge(fields)).await.unwrap();
        self.is_seen(&patched).await;
    }

    /// Waits until the onlooker has seen an object as it was answered, so that nothing older is taken for the present.
    pub async fn is_seen(&self, object: &DynamicObject) {
        let (name, version) = (object.name_any(), seen::version(object.metadata.resource_version.as_ref()));
        self.until(&format!("{name} to be seen"), |seen| match seen.objects.get(&name) {
            Some(seen) if seen.version >= version => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    }

    /// The object of the scenario as it was seen last.
    pub fn present(&self) -> Object {
        self.view().objects[NAME].clone()
    }

    /// Waits until the object, whose status speaks of its present spec, is as asked for.
    pub async fn object_is(&self, what: &str, is: impl Fn(&Object, &Seen) -> bool) -> Object {
        self.until(&format!("{NAME} to be {what}"), |seen| match seen.objects.get(NAME) {
            Some(object) if object.observed && is(object, seen) => Ok(object.clone()),
            object => Err(format!("{object:?}")),
        })
        .await
    }

    /// Waits until a version runs everywhere, so many pods exist and all are Ready.
    pub async fn ready(&self, version: u32, pods: u32) -> Object {
        self.object_is(&format!("at version {version} with {pods} Ready pods"), |object, seen| {
            let (status, ready) = (&object.status, object.condition("Ready"));
            ready.is_some_and(|ready| ready.status == Truth::True && ready.reason == "AsRequested")
                && (status.current_version, status.update_version) == (Some(version), Some(version))
                && status.ready_replicas == Some(pods)
                && seen.pods.len() == pods as usize
                && seen.pods.values().all(|pod| pod.pod.serves())
        })
        .await
    }

    /// Waits until a condition has this reason, now or at any time from now on; its message.
    pub async fn reports(&self, reason: &str) -> String {
        // Every state from now on is looked at: one that is over before anybody wakes up has been there all the same.
        let from = self.view().history.get(NAME).map_or(0, |past| past.len().saturating_sub(1));
        self.until(&format!("the reason {reason}"), |seen| {
            let states = seen.history.get(NAME).and_then(|states| states.get(from..)).unwrap_or_default();
            let states = states.iter().filter(|object| object.observed);
            let mut conditions = states.flat_map(|object| &object.status.conditions);
            let found = conditions.find(|condition| condition.reason == reason);
            found
                .map(|condition| condition.message.clone())
                .ok_or_else(|| format!("{:?}", seen.objects.get(NAME)))
        })
        .await
    }

    /// The names of the sets.
    pub fn names(&self) -> BTreeSet<String> {
        self.view().sets.keys().cloned().collect()
    }

    /// Waits until the sets are these: they are watched apart from everything else that is waited for.
    pub async fn sets_are(&self, names: BTreeSet<String>) {
        self.until(&format!("the sets {names:?}"), |seen| {
            let present = seen.set_names();
            let is_same = present.iter().copied().eq(names.iter().map(String::as_str));
            if is_same { Ok(()) } else { Err(format!("{present:?}")) }
        })
        .await;
    }

    /// Waits until the operator that runs now has planned for the object.
    pub async fn planned(&self) {
        let (namespace, state) =
            (format!("namespace=\"{}\"", self.namespace), "sts_plus_extended_statefulset_state{");
        until(DEADLINE, "the operator to have planned", || async {
            let page = self.metrics();
            let mut lines = page.lines();
            let has = lines
                .any(|line| line.starts_with(state) && line.contains(&namespace) && line.ends_with(" 1"));
            if has { Ok(()) } else { Err(NotYet::saw(page)) }
        })
        .await;
    }

    /// Waits until every set of a rollout group has been reported as up to date, which comes after its pods are Ready.
    pub async fn groups_are_up_to_date(&self) {
        self.until("every zone to be up to date", |seen| {
            let zones = seen.sets.values().filter(|set| set.labels.contains_key(keys::ROLLOUT_GROUP));
            let mut told = zones.map(|set| set.annotations.get(keys::ROLLOUT_STATUS));
            let is_up_to_date = |told: Option<&String>| {
                told.and_then(|told| RolloutStatus::parse(told))
                    .is_some_and(|status| status.state == "UpToDate")
            };
            if told.all(is_up_to_date) { Ok(()) } else { Err(format!("{:?}", seen.sets)) }
        })
        .await;
    }

    /// The UIDs of the pods.
    pub fn uids(&self) -> BTreeSet<String> {
        self.view().uids()
    }

    /// Deletes a pod with the user's hands.
    pub async fn kill(&self, pod: &str) {
        self.next_step().await;
        self.view().note(format!("user: deletes {pod}"));
        self.view().excuse_pod(pod);
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a set with the user's hands.
    pub async fn delete_set(&self, set: &str) {
        self.next_step().await;
        self.view().note(format!("user: deletes {set}"));
        self.view().excuse_set(set);
        self.sets().delete(set, &DeleteParams::background()).await.unwrap();
    }

    /// Lets pods become Ready that did not.
    pub async fn heal(&self, pods: &[&str]) {
        for pod in pods {
            self.set_fault(pod, None).await;
        }
    }

    /// Waits until the operator has written an event about the object with this reason; its message.
    pub async fn event(&self, reason: &str) -> String {
        until(DEADLINE, format!("an event {reason}"), || async {
            let events = self.events_about("ExtendedStatefulSet", NAME).await?;
            let found = events.iter().find(|event| event.1 == reason).map(|event| event.2.clone());
            found.ok_or_else(|| NotYet::saw(&events))
        })
        .await
    }

    /// How many events with this reason the operator has written about the object.
    pub async fn events(&self, reason: &str) -> usize {
        let events = self.events_about("ExtendedStatefulSet", NAME).await.unwrap();
        events.iter().filter(|event| event.1 == reason).count()
    }

    /// The end of every scenario: no guarantee was broken and nothing was forbidden.
    pub async fn finish(mut self) {
        self.stop().await;
        // A quota refuses with the same code as a missing permission.
        let is_lacking = |request: &Request| !(self.has_quota && request.resource == "statefulsets");
        let forbidden: Vec<_> = self.forbidden().into_iter().filter(is_lacking).collect();
        assert!(forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let mut seen = self.view();
        seen.conclude();
        assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    }
}

/// The ExtendedStatefulSets of a namespace, by group.
pub fn objects(client: Client, namespace: &str, group: Group) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group.name(), "v1alpha1", "ExtendedStatefulSet");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

/// An object with this spec, as its user writes it.
pub fn object(group: Group, name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": group.api_version(), "kind": "ExtendedStatefulSet", "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap()
}
