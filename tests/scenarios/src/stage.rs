//! What the stages of all scenarios have in common: a namespace that is watched from the start, accounts and operators in
//! it, and the hands of the user. Each kind of scenario extends it: [`Scene`](crate::scene::Scene) for rollout groups,
//! [`Gated`](crate::gated::Gated) for PhasedRollouts, [`Act`](crate::native::Act) for the StatefulSet controller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour;
use sts_plus_operator::shell::cache::Scope;

use crate::cluster::{Account, Cluster, Request};
use crate::observer::{Followed, Observer, Onlooking};
use crate::operator::Operator;
use crate::view;

/// A namespace is no longer than a label value: 63 characters. Room is left for a number.
const NAMESPACE_CHARACTERS: usize = 60;

/// Of those, the ones that a scenario's name may have where a number follows.
const NUMBERED_CHARACTERS: usize = 50;

/// The HTTP status for what nobody has permitted.
const FORBIDDEN: u16 = 403;

/// Tells namespaces of one run apart.
static STAGES: AtomicUsize = AtomicUsize::new(0);

/// An event about an object: type, reason and message.
pub type Told = (String, String, String);

/// A namespace of a scenario's own, and one who watches it.
pub struct Stage<V: Onlooking> {
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    observer: Observer<V>,
    accounts: Mutex<Vec<Account>>,
}

/// Whoever sees pods by name.
pub trait SeesPods: Onlooking {
    /// The pod of this name.
    fn pod(&self, name: &str) -> Option<&view::Pod>;

    /// The user is about to ask for so many replicas of a set.
    fn expect_replicas(&mut self, set: &str, replicas: u32);
}

impl<V: Onlooking> Stage<V> {
    /// A namespace that is named after a scenario and unlike any other, of which nothing is watched yet.
    pub async fn fresh(cluster: &Arc<dyn Cluster>, scenario: &str) -> Self {
        let name = shortened(scenario, NUMBERED_CHARACTERS);
        Self::of(cluster, format!("{name}-{}", STAGES.fetch_add(1, Ordering::Relaxed))).await
    }

    /// A namespace of this name, of which nothing is watched yet.
    pub async fn named(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        Self::of(cluster, shortened(name, NAMESPACE_CHARACTERS)).await
    }

    async fn of(cluster: &Arc<dyn Cluster>, namespace: String) -> Self {
        cluster.make_namespace(&namespace).await.unwrap();
        Self {
            cluster: Arc::clone(cluster),
            namespace,
            observer: Observer::new(),
            accounts: Mutex::default(),
        }
    }

    /// Watches the objects of a kind from now on; what there is by now is seen when this returns.
    pub async fn watch<K>(&mut self)
    where
        K: Followed<V> + Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let api = Api::<K>::namespaced(self.cluster.user(), &self.namespace);
        self.observer.follow(api).await;
    }

    /// The same for a kind that needs more than its type to be known.
    pub async fn watch_in<K: Followed<V>>(&mut self, api: Api<K>) {
        self.observer.follow(api).await;
    }

    /// Somebody with these permissions in this namespace.
    pub async fn account_with(&self, name: &str, rules: Vec<PolicyRule>) -> Account {
        let account = self.cluster.newcomer(name).unwrap();
        self.cluster.grant(&account, Some(&self.namespace), rules).await.unwrap();
        self.accounts.lock().unwrap().push(account.clone());
        account
    }

    /// An operator for this namespace with an account that there is already.
    pub fn operator_of(&self, account: &Account) -> Operator {
        self.operator_through(&account.client)
    }

    /// An operator for this namespace that sends its requests through this client.
    pub fn operator_through(&self, client: &Client) -> Operator {
        self.view().note("an operator starts".to_owned());
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

    /// Lets the hollow nodes do something wrong with a live pod, or with `None` no longer.
    pub async fn set_fault(&self, pod: &str, fault: Option<&str>) {
        self.view().note(format!("user: {pod} is now {fault:?}"));
        let fields =
            json!({ "metadata": { "annotations": { behaviour::FAULT: fault.unwrap_or_default() } } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
    }

    /// What has been seen so far.
    pub fn view(&self) -> MutexGuard<'_, V> {
        self.observer.view()
    }

    /// Waits until what is seen is as asked for; `look` says what it sees instead.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&V) -> Result<T, String>) -> T {
        self.observer.until(what, look).await
    }

    /// The events about an object that the operator has written so far.
    pub async fn events_about(&self, kind: &str, name: &str) -> Result<Vec<Told>, kube::Error> {
        let about = format!("involvedObject.name={name},involvedObject.kind={kind}");
        let events = Api::<Event>::namespaced(self.cluster.user(), &self.namespace);
        let events = events.list(&ListParams::default().fields(&about)).await?;
        let ours = events.into_iter().filter(|event| {
            event.source.as_ref().is_some_and(|source| source.component.as_deref() == Some("sts-plus"))
        });
        let text = Option::unwrap_or_default;
        Ok(ours.map(|event| (text(event.type_), text(event.reason), text(event.message))).collect())
    }

    /// What the operators of this stage have asked for. They must be at rest.
    pub async fn requests(&self) -> Vec<Request> {
        let accounts = self.accounts.lock().unwrap().clone();
        let mut requests = Vec::new();
        for account in accounts {
            requests.extend(self.cluster.settled_requests(&account).await.unwrap());
        }
        requests
    }

    /// The requests that were forbidden, of those that are recorded by now.
    pub fn forbidden(&self) -> Vec<Request> {
        let accounts = self.accounts.lock().unwrap();
        let requests = accounts.iter().flat_map(|account| self.cluster.requests(account).unwrap());
        requests.filter(|request| request.code == FORBIDDEN).collect()
    }
}

impl<V: SeesPods> Stage<V> {
    /// Somebody changes something of a set, under the name of this field manager; answers the set.
    pub async fn change_set_as(&self, set: &str, fields: &Value, manager: &str) -> StatefulSet {
        self.view().note(format!("{manager}: {set} {fields}"));
        if let Some(replicas) = fields.pointer("/spec/replicas").and_then(Value::as_u64) {
            self.view().expect_replicas(set, u32::try_from(replicas).unwrap());
        }
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        self.sets().patch(set, &parameters, &Patch::Merge(fields)).await.unwrap()
    }

    /// Waits until a pod is as asked for.
    pub async fn pod_is(&self, pod: &str, what: &str, is: impl Fn(&view::Pod) -> bool) {
        self.until(&format!("{pod} to be {what}"), |view| match view.pod(pod) {
            Some(seen) if is(seen) => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    }
}

impl<V: Onlooking> Drop for Stage<V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- what happened in {}\n{}----", self.namespace, self.view().timeline());
        }
    }
}

fn shortened(name: &str, characters: usize) -> String {
    let name: String = name.replace('_', "-").chars().take(characters).collect();
    name.trim_end_matches('-').to_owned()
}
