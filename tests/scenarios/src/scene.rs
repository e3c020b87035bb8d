//! A scenario's stage: a namespace, an onlooker, operators, and the hands of the user.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;

use crate::cluster::{Account, Cluster, Request};
use crate::fixture::{Template, Zone, image};
use crate::observer::{DEADLINE, Observer};
use crate::operator::Operator;
use crate::rules;
use crate::view::View;

/// A label value, and so a namespace, is no longer than this; room is left for a number.
const NAMESPACE_CHARACTERS: usize = 50;

/// The HTTP status for what nobody has permitted.
const FORBIDDEN: u16 = 403;

/// Tells namespaces of one run apart.
static SCENES: AtomicUsize = AtomicUsize::new(0);

/// Where one scenario plays.
pub struct Scene {
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The scenario's own namespace.
    pub namespace: String,
    /// Whether the operator is meant to lack a permission.
    pub lacks_permission: bool,
    observer: Observer,
    accounts: Mutex<Vec<Account>>,
}

impl Scene {
    /// A fresh namespace, watched from the start.
    pub async fn new(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        let name: String = name.replace('_', "-").chars().take(NAMESPACE_CHARACTERS).collect();
        let namespace = format!("{}-{}", name.trim_end_matches('-'), SCENES.fetch_add(1, Ordering::Relaxed));
        cluster.make_namespace(&namespace).await.unwrap();
        let observer = Observer::start(&cluster.user(), &namespace).await;
        let (cluster, lacks_permission) = (Arc::clone(cluster), false);
        Self { cluster, namespace, lacks_permission, observer, accounts: Mutex::default() }
    }

    /// Sets with all their pods Ready.
    pub async fn given(&self, zones: &[Zone]) {
        for zone in zones {
            self.create(zone).await;
        }
        self.served(zones, "v1").await;
    }

    /// Creates a set, whether its pods come up or not.
    pub async fn create(&self, zone: &Zone) {
        self.sets().create(&PostParams::default(), &zone.object()).await.unwrap();
    }

    /// Somebody with the chart's permissions in this namespace.
    pub async fn account(&self, name: &str) -> Account {
        self.account_with(name, rules::work()).await
    }

    /// Somebody with these permissions in this namespace.
    pub async fn account_with(&self, name: &str, rules: Vec<PolicyRule>) -> Account {
        let account = self.cluster.newcomer(name).unwrap();
        self.cluster.grant(&account, Some(&self.namespace), rules).await.unwrap();
        self.accounts.lock().unwrap().push(account.clone());
        account
    }

    /// An operator for this namespace with an account of its own.
    pub async fn operator(&self) -> Operator {
        self.operator_of(&self.account("operator").await)
    }

    /// An operator for this namespace with an account that there is already.
    pub fn operator_of(&self, account: &Account) -> Operator {
        self.operator_through(&account.client)
    }

    /// An operator for this namespace that sends its requests through this client.
    pub fn operator_through(&self, client: &Client) -> Operator {
        let scope = Scope::Namespaces(vec![self.namespace.clone()]);
        Operator::start(&self.cluster.outside(), client.clone(), scope, &self.namespace)
    }

    /// The sets of the namespace, in the user's hands.
    pub fn sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.cluster.user(), &self.namespace)
    }

    /// The pods of the namespace, in the user's hands.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.user(), &self.namespace)
    }

    /// The user gives zones a new template, one after the other.
    pub async fn change(&self, zones: &[Zone], template: &Template) {
        for zone in zones {
            self.patch_set(zone.name(), &json!({ "spec": { "template": template.patch() } })).await;
        }
    }

    /// The same, and the StatefulSet controller has named the new revisions when this returns.
    pub async fn change_and_observe(&self, zones: &[Zone], template: &Template) {
        let revision = |view: &View, zone: &Zone| view.sets[zone.name()].update_revision.clone();
        let before: Vec<_> = zones.iter().map(|zone| revision(&self.view(), zone)).collect();
        self.change(zones, template).await;
        self.until("the new revisions to be known", |view| {
            let known = zones.iter().zip(&before).all(|(zone, before)| revision(view, zone) != *before);
            if known { Ok(()) } else { Err(format!("{:?}", view.sets)) }
        })
        .await;
    }

    /// The user changes something of a set.
    pub async fn patch_set(&self, set: &str, fields: &Value) {
        self.observer.view().note(format!("user: {set} {fields}"));
        if let Some(replicas) = fields.pointer("/spec/replicas").and_then(Value::as_u64) {
            self.observer.view().expect_replicas(set, u32::try_from(replicas).unwrap());
        }
        self.sets().patch(set, &PatchParams::default(), &Patch::Merge(fields)).await.unwrap();
    }

    /// The user writes an annotation on a set, or with `None` removes it.
    pub async fn annotate_set(&self, set: &str, key: &str, value: Option<&str>) {
        self.patch_set(set, &json!({ "metadata": { "annotations": { key: value } } })).await;
    }

    /// Something goes wrong with a live pod, or with `None` no longer does.
    pub async fn afflict(&self, pod: &str, fault: Option<&str>) {
        self.observer.view().note(format!("user: {pod} is now {fault:?}"));
        let fields =
            json!({ "metadata": { "annotations": { behaviour::FAULT: fault.unwrap_or_default() } } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
    }

    /// Somebody other than the operator deletes a pod.
    pub async fn delete_pod(&self, pod: &str, parameters: &DeleteParams) {
        self.observer.view().announce_deletion(pod);
        self.pods().delete(pod, parameters).await.unwrap();
    }

    /// What has been seen so far.
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.observer.view()
    }

    /// Waits until the view is as asked for; `look` says what it sees instead.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&View) -> Result<T, String>) -> T {
        self.observer.until(what, look).await
    }

    /// Waits until all pods of the zones are of this version and serve.
    pub async fn served(&self, zones: &[Zone], version: &str) {
        self.until(&format!("all pods to serve {version}"), |view| {
            zones.iter().try_for_each(|zone| serves(view, zone.name(), version))
        })
        .await;
    }

    /// Waits for the end of a rollout: all pods of the zones are of this version and serve, and the sets say so.
    pub async fn rolled(&self, zones: &[Zone], version: &str) {
        self.until(&format!("the rollout to {version} to end"), |view| {
            zones.iter().try_for_each(|zone| {
                serves(view, zone.name(), version)?;
                let set = &view.sets[zone.name()];
                let told = set.told.as_ref().map(|told| (told.state.as_str(), told.subject.as_deref()));
                let done = told == Some(("UpToDate", Some(&set.update_revision)))
                    && set.current_revision == set.update_revision;
                if done { Ok(()) } else { Err(format!("{set:?}")) }
            })
        })
        .await;
    }

    /// Waits until a set says that it is in this state, and returns its words.
    pub async fn says(&self, set: &str, state: &str) -> String {
        self.until(&format!("{set} to say {state}"), |view| {
            let told = view.state_of(set).ok_or("nothing")?;
            if told.state == state { Ok(told.message.clone()) } else { Err(format!("{told:?}")) }
        })
        .await
    }

    /// Waits until a pod is as asked for.
    pub async fn pod_is(&self, pod: &str, what: &str, is: impl Fn(&crate::view::Pod) -> bool) {
        self.until(&format!("{pod} to be {what}"), |view| match view.pods.get(pod) {
            Some(seen) if is(seen) => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    }

    /// The events about a set that the operator has written so far, as (type, reason, message).
    pub async fn events(&self, set: &str) -> Result<Vec<(String, String, String)>, kube::Error> {
        let about = format!("involvedObject.name={set},involvedObject.kind=StatefulSet");
        let events = Api::<Event>::namespaced(self.cluster.user(), &self.namespace);
        let events = events.list(&ListParams::default().fields(&about)).await?;
        let ours = events.into_iter().filter(|event| {
            event.source.as_ref().is_some_and(|source| source.component.as_deref() == Some("sts-plus"))
        });
        let text = Option::unwrap_or_default;
        Ok(ours.map(|event| (text(event.type_), text(event.reason), text(event.message))).collect())
    }

    /// Waits for an event about a set, and returns its words.
    pub async fn event(&self, set: &str, kind: &str, reason: &str) -> String {
        until(DEADLINE, format!("a {kind} event {reason} about {set}"), || async {
            let events = self.events(set).await?;
            let found = events.iter().find(|event| event.0 == kind && event.1 == reason);
            found.map(|event| event.2.clone()).ok_or_else(|| NotYet::saw(&events))
        })
        .await
    }

    /// What the operators of this scene have asked for. They must be at rest.
    pub async fn requests(&self) -> Vec<Request> {
        let accounts = self.accounts.lock().unwrap().clone();
        let mut requests = Vec::new();
        for account in accounts {
            requests.extend(self.cluster.settled_requests(&account).await.unwrap());
        }
        requests
    }

    /// The end of every scenario: no guarantee was broken, and the onlooker has seen as many deletions as the API
    /// server's own record has of the operators. Returns how many that were.
    pub async fn finish(self) -> usize {
        let requests = self.requests().await;
        let forbidden: Vec<_> = requests.iter().filter(|request| request.code == FORBIDDEN).collect();
        assert!(self.lacks_permission || forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let recorded = requests.iter().filter(|request| request.deleted_pod()).count();
        let abandoned =
            requests.iter().filter(|request| request.deletes_pod() && request.abandoned()).count();
        let view = self.view();
        assert!(view.violations.is_empty(), "{:#?}", view.violations);
        if view.gaps > 0 {
            return recorded;
        }
        let seen = view.deletions.len();
        assert!(
            (recorded..=recorded + abandoned).contains(&seen),
            "{seen} deletions seen, {recorded} recorded and perhaps {abandoned} more: {requests:#?}"
        );
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- what happened in {}\n{}----", self.namespace, self.view().timeline());
        }
    }
}

fn serves(view: &View, set: &str, version: &str) -> Result<(), String> {
    let row = view.sets.get(set).ok_or_else(|| format!("no set {set}"))?;
    let pods: Vec<_> = view.pods_of(set).collect();
    let good = pods.iter().filter(|pod| {
        pod.serves()
            && pod.image == image(version)
            && pod.revision.as_deref() == Some(row.update_revision.as_str())
    });
    let all = row.replicas as usize;
    let done = row.observed && good.count() == all && pods.len() == all;
    if done { Ok(()) } else { Err(format!("{row:?} with {pods:?}")) }
}
