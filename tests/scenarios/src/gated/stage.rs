//! The stage of phased rollouts: a watched namespace in a cluster that knows the kinds, and the hands of the user.

use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{AuthProxy, BlackHole};

use super::answers::{Answers, NOBODY, Says};
use super::manifest::{Rollout, Set, kind};
use super::seen::{self, Seen};
use crate::cluster::{Account, Cluster};
use crate::fixture::{Template, image};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::stage::{Stage, Told};

/// What the chart installs.
const KINDS: &str = include_str!("../../../../charts/sts-plus/files/crds.yaml");

/// Who installs it.
const INSTALLER: &str = "installer";

/// Where one scenario about phased rollouts plays.
pub struct Gated {
    stage: Stage<Seen>,
}

impl Deref for Gated {
    type Target = Stage<Seen>;

    fn deref(&self) -> &Stage<Seen> {
        &self.stage
    }
}

impl Gated {
    /// A fresh namespace in a cluster that knows the kinds, watched from the start.
    pub async fn new(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        install_kinds(&cluster.user()).await;
        let mut stage = Stage::fresh(cluster, name).await;
        stage.watch::<Pod>().await;
        stage.watch::<StatefulSet>().await;
        let rollouts = Api::<DynamicObject>::namespaced_with(cluster.user(), &stage.namespace, &kind());
        stage.watch_in(rollouts).await;
        Self { stage }
    }

    /// Somebody with the chart's permissions in this namespace, Secrets included.
    pub async fn account(&self, name: &str) -> Account {
        self.account_with(name, [rules::by_default(), rules::secrets()].concat()).await
    }

    /// An operator for this namespace with an account of its own.
    pub async fn operator(&self) -> Operator {
        self.operator_of(&self.account("operator").await)
    }

    /// A Prometheus that says the same to every query.
    pub async fn answers(&self, says: Says) -> Answers {
        Answers::start(&self.cluster.outside().network, says).await
    }

    /// A server that never says a word.
    pub async fn hole(&self) -> BlackHole {
        BlackHole::start_on(&self.cluster.outside().network).await.unwrap()
    }

    /// A server that does with requests what it is told to do.
    pub async fn server(&self) -> AuthProxy {
        AuthProxy::start_on(&self.cluster.outside().network, NOBODY, None).await.unwrap()
    }

    /// The PhasedRollouts of the namespace, in the user's hands.
    pub fn rollouts(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.user(), &self.namespace, &kind())
    }

    /// A set with all its pods Ready.
    pub async fn given(&self, set: &Set) {
        self.create_set(set).await;
        self.serves(set.name(), "v1").await;
    }

    /// A set with all its pods Ready that a PhasedRollout has taken.
    pub async fn given_managed(&self, set: &Set, rollout: &Rollout) {
        self.given(set).await;
        self.create(rollout).await;
        self.updated(rollout.name()).await;
    }

    /// Creates a set, whether its pods come up or not.
    pub async fn create_set(&self, set: &Set) {
        self.view().welcome(set.name());
        let object: StatefulSet = serde_json::from_value(drop_nulls(set.object())).unwrap();
        let created = self.sets().create(&PostParams::default(), &object).await.unwrap();
        self.set_seen(&created).await;
    }

    /// Creates a PhasedRollout.
    pub async fn create(&self, rollout: &Rollout) {
        self.view().note(format!("user: creates PhasedRollout {}", rollout.name()));
        let created = self.rollouts().create(&PostParams::default(), &rollout.object()).await.unwrap();
        self.rollout_seen(&created).await;
    }

    /// The user gives a set a new template.
    pub async fn change(&self, set: &str, template: &Template) {
        self.patch_set(set, &json!({ "spec": { "template": template.patch() } })).await;
    }

    /// The same, and returns the name of the new revision once the StatefulSet controller has given it one.
    pub async fn change_and_observe(&self, set: &str, template: &Template) -> String {
        let before = self.view().sets[set].update.clone();
        self.change(set, template).await;
        self.set_is(set, "of a new revision", |set| set.observed && set.update != before).await.update
    }

    /// The user changes something of a set.
    pub async fn patch_set(&self, set: &str, fields: &Value) {
        self.patch_set_as(set, fields, "user").await;
    }

    /// Somebody changes something of a set, under the name of this field manager.
    pub async fn patch_set_as(&self, set: &str, fields: &Value, manager: &str) {
        let patched = self.change_set_as(set, fields, manager).await;
        self.set_seen(&patched).await;
    }

    /// Waits until the onlooker has seen a set as it was answered, so that nothing older is taken for the present.
    pub async fn set_seen(&self, set: &StatefulSet) {
        let (name, version) = (set.name_any(), seen::version(set.resource_version()));
        self.set_is(&name, "seen", |set| set.version >= version).await;
    }

    /// The same of a PhasedRollout.
    pub async fn rollout_seen(&self, rollout: &DynamicObject) {
        let (name, version) = (rollout.name_any(), seen::version(rollout.resource_version()));
        self.until(&format!("{name} to be seen"), |seen| match seen.rollouts.get(&name) {
            Some(seen) if seen.version >= version => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    }

    /// Somebody sets the partition, under the name of this field manager.
    pub async fn partition(&self, set: &str, partition: u32, manager: &str) {
        let fields = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": partition } } } });
        self.patch_set_as(set, &fields, manager).await;
    }

    /// The user deletes a set and everything of it is gone when this returns.
    pub async fn delete_set(&self, set: &str) {
        self.view().note(format!("user: deletes {set}"));
        self.view().dismiss(set);
        self.sets().delete(set, &DeleteParams::foreground()).await.unwrap();
        self.until(&format!("{set} to be gone"), |seen| match seen.sets.get(set) {
            None => Ok(()),
            Some(set) => Err(format!("{set:?}")),
        })
        .await;
    }

    /// The user deletes a set and leaves its pods where they are; it is gone when this returns.
    pub async fn orphan_set(&self, set: &str) {
        self.view().note(format!("user: deletes {set} without its pods"));
        self.sets().delete(set, &DeleteParams::orphan()).await.unwrap();
        self.until(&format!("{set} to be gone"), |seen| match seen.sets.get(set) {
            None => Ok(()),
            Some(set) => Err(format!("{set:?}")),
        })
        .await;
    }

    /// The user changes something of a PhasedRollout.
    pub async fn patch(&self, rollout: &str, fields: &Value) {
        self.view().note(format!("user: PhasedRollout {rollout} {fields}"));
        let patch = Patch::Merge(fields);
        let patched = self.rollouts().patch(rollout, &PatchParams::default(), &patch).await.unwrap();
        self.rollout_seen(&patched).await;
    }

    /// The user changes the spec of a PhasedRollout.
    pub async fn patch_spec(&self, rollout: &str, fields: &Value) {
        self.patch(rollout, &json!({ "spec": fields })).await;
    }

    /// The user approves a step of a revision, or one more attempt.
    pub async fn approve(&self, rollout: &str, approval: &str) {
        self.patch(rollout, &json!({ "metadata": { "annotations": { keys::APPROVE: approval } } })).await;
    }

    /// The user deletes a PhasedRollout, and it is gone when this returns.
    pub async fn delete(&self, rollout: &str) {
        self.view().note(format!("user: deletes PhasedRollout {rollout}"));
        self.rollouts().delete(rollout, &DeleteParams::default()).await.unwrap();
        self.until(&format!("{rollout} to be gone"), |seen| match seen.rollouts.get(rollout) {
            None => Ok(()),
            Some(rollout) => Err(format!("{rollout:?}")),
        })
        .await;
    }

    /// Something goes wrong with a live pod, or with `None` no longer does.
    pub async fn afflict(&self, pod: &str, fault: Option<&str>) {
        self.view().excuse(pod);
        self.set_fault(pod, fault).await;
    }

    /// Somebody other than the operator deletes a pod.
    pub async fn kill(&self, pod: &str) {
        self.view().note(format!("user: deletes {pod}"));
        self.view().excuse(pod);
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }

    /// How many pods have had each of these names.
    pub fn lives(&self, pods: &[&str]) -> Vec<usize> {
        let seen = self.view();
        pods.iter().map(|pod| seen.lives_of(pod)).collect()
    }

    /// Waits until a PhasedRollout, whose status speaks of its present spec, is as asked for.
    pub async fn rollout_is(
        &self,
        rollout: &str,
        what: &str,
        is: impl Fn(&seen::Rollout) -> bool,
    ) -> seen::Rollout {
        // Every state from now on is looked at: one that is over before anybody wakes up has been there all the same.
        let from = {
            let seen = self.view();
            let past = seen.history.get(rollout).map_or(0, Vec::len);
            past - usize::from(seen.rollouts.contains_key(rollout))
        };
        self.until(&format!("{rollout} to be {what}"), |seen| {
            let states = seen.history.get(rollout).and_then(|states| states.get(from..)).unwrap_or_default();
            let found = states.iter().find(|state| state.observed && is(state));
            found.cloned().ok_or_else(|| format!("{:?}", seen.rollouts.get(rollout)))
        })
        .await
    }

    /// Waits until a PhasedRollout is in a phase.
    pub async fn phase(&self, rollout: &str, phase: &str) -> seen::Rollout {
        self.rollout_is(rollout, phase, |seen| seen.phase() == phase).await
    }

    /// Waits until a PhasedRollout waits for this, in one word.
    pub async fn waits_for(&self, rollout: &str, word: &str) -> seen::Rollout {
        self.rollout_is(rollout, word, |seen| seen.status.waiting_for.as_deref() == Some(word)).await
    }

    /// Waits until the gate at this partition waits for this, in one word.
    pub async fn gate_waits_for(&self, rollout: &str, partition: i32, word: &str) -> seen::Rollout {
        self.rollout_is(rollout, &format!("at {partition} for {word}"), |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.partition == partition)
                && seen.status.waiting_for.as_deref() == Some(word)
        })
        .await
    }

    /// Waits until nothing rolls: the PhasedRollout is Updated to the revision of its set and holds the partition.
    pub async fn updated(&self, rollout: &str) -> seen::Rollout {
        self.until(&format!("{rollout} to be up to date"), |seen| {
            let known = seen.rollouts.get(rollout).ok_or("it is not there")?;
            let set = known.spec.as_ref().and_then(|spec| seen.sets.get(&spec.target_ref));
            let done = set.is_some_and(|set| {
                known.observed
                    && known.phase() == "Updated"
                    && known.status.update_revision.as_deref() == Some(&set.update)
                    && set.observed
                    && set.current == set.update
                    && u32::try_from(set.partition.unwrap_or(0)) == Ok(set.replicas)
                    && set.managed_by.as_deref() == Some(rollout)
            });
            if done { Ok(known.clone()) } else { Err(format!("{known:?} of {set:?}")) }
        })
        .await
    }

    /// Waits until a set is as asked for.
    pub async fn set_is(&self, set: &str, what: &str, is: impl Fn(&seen::Set) -> bool) -> seen::Set {
        self.until(&format!("{set} to be {what}"), |seen| match seen.sets.get(set) {
            Some(seen) if is(seen) => Ok(seen.clone()),
            seen => Err(format!("{seen:?}")),
        })
        .await
    }

    /// Waits until all pods of a set serve this version, as many as it shall have.
    pub async fn serves(&self, set: &str, version: &str) {
        self.until(&format!("{set} to serve {version}"), |seen| {
            let row = seen.sets.get(set).ok_or("it is not there")?;
            let pods: Vec<_> = seen.pods_of(set).collect();
            let good = pods.iter().filter(|pod| pod.serves() && pod.image == image(version)).count();
            let all = row.replicas as usize;
            let done = row.observed && good == all && pods.len() == all;
            if done { Ok(()) } else { Err(format!("{row:?} with {pods:?}")) }
        })
        .await;
    }

    /// The events about an object that the operator has written so far.
    pub async fn events(&self, kind: &str, name: &str) -> Result<Vec<Told>, kube::Error> {
        self.events_about(kind, name).await
    }

    /// Waits for an event about a PhasedRollout whose words contain a text, and returns them.
    pub async fn event(&self, rollout: &str, reason: &str, text: &str) -> String {
        until(DEADLINE, format!("an event {reason} about {rollout} with {text:?}"), || async {
            let events = self.events("PhasedRollout", rollout).await?;
            let found = events.iter().find(|event| event.1 == reason && event.2.contains(text));
            found.map(|event| event.2.clone()).ok_or_else(|| NotYet::saw(&events))
        })
        .await
    }

    /// The end of every scenario: no guarantee was broken and nothing was forbidden.
    pub fn finish(self) {
        let forbidden = self.forbidden();
        assert!(forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let mut seen = self.view();
        seen.conclude();
        assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    }
}

/// Installs the kinds, as often as wanted, and waits until they are served.
pub(crate) async fn install_kinds(user: &Client) {
    let kinds = Api::<CustomResourceDefinition>::all(user.clone());
    for document in KINDS.split("\n---\n") {
        let wanted: CustomResourceDefinition = serde_saphyr::from_str(document).unwrap();
        let name = wanted.name_any();
        kinds.patch(&name, &PatchParams::apply(INSTALLER).force(), &Patch::Apply(&wanted)).await.unwrap();
        let names = (&wanted.spec.group, &wanted.spec.names);
        let served = GroupVersionKind::gvk(names.0, "v1alpha1", &names.1.kind);
        let served = ApiResource::from_gvk_with_plural(&served, &names.1.plural);
        let objects = Api::<DynamicObject>::all_with(user.clone(), &served);
        until(DEADLINE, format!("{name} to be served"), || async {
            let conditions = kinds.get(&name).await?.status.and_then(|status| status.conditions);
            let holds = |kind: &str| {
                let mut all = conditions.iter().flatten();
                all.any(|condition| condition.type_ == kind && condition.status == "True")
            };
            let served = holds("Established") && objects.list(&ListParams::default()).await.is_ok();
            served.then_some(()).ok_or_else(|| NotYet::saw(&conditions))
        })
        .await;
    }
}

/// A template says null for what it does not ask for.
pub(crate) fn drop_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
        for field in fields.values_mut() {
            *field = drop_nulls(field.take());
        }
    }
    value
}
