//! What a scenario may know of the cluster it runs on.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use sts_plus_cluster::nodes::network::Network as PodNetwork;
use sts_plus_harness::Network;
use sts_plus_operator::outbound::{Dial, Tcp};
use sts_plus_operator::shell::surroundings::Surroundings;

/// A Kubernetes cluster with hollow nodes at work in every namespace, whatever it is made of.
pub trait Cluster: Send + Sync {
    /// A client for the user of the story, who may do everything.
    fn user(&self) -> Client;

    /// What there is besides the API server.
    fn outside(&self) -> Outside;

    /// The network of the pods, where a scenario answers for them.
    fn pod_network(&self) -> PodNetwork;

    /// Makes a namespace in which pods can be created.
    fn make_namespace<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// Lets admission give pods the claims of their ordinals.
    fn name_claims(&self) -> Answer<'_, ()>;

    /// Somebody new, who may do nothing yet.
    fn newcomer(&self, name: &str) -> Result<Account, ClusterError>;

    /// Lets an account do what the rules say, in one namespace or everywhere, besides what it may already do.
    fn grant<'a>(
        &'a self,
        account: &'a Account,
        namespace: Option<&'a str>,
        rules: Vec<PolicyRule>,
    ) -> Answer<'a, ()>;

    /// What an account has asked for so far; what was answered just now may still be missing.
    fn requests(&self, account: &Account) -> Result<Vec<Request>, ClusterError>;

    /// What an account that is at rest has asked for: every answered request is there.
    fn settled_requests<'a>(&'a self, account: &'a Account) -> Answer<'a, Vec<Request>>;

    /// Who has created the pods of a namespace that is at rest, one entry for each pod.
    fn makers_of_pods<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<String>>;

    /// A kubeconfig for an account, for programs that want a file.
    fn kubeconfig(&self, account: &Account) -> Result<PathBuf, ClusterError>;

    /// Takes the API server away; its data stays.
    fn stop_api_server(&self) -> Answer<'_, ()>;

    /// Brings the API server back and waits until it answers.
    fn start_api_server(&self) -> Answer<'_, ()>;

    /// Starts Kubernetes' own StatefulSet controller, where the cluster was started without it.
    fn start_native(&self) -> Answer<'_, ()>;

    /// Stops it, as a crash would; nothing of it runs when this returns.
    fn stop_native(&self) -> Answer<'_, ()>;
}

/// What a cluster comes back with.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ClusterError>>;

/// The cluster could not do what the scenario needs.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ClusterError(pub Box<dyn std::error::Error + Send + Sync>);

/// What there is around an operator besides the API server.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Where servers listen that operators are to ask.
    pub network: Network,
    /// How operators reach them.
    pub dial: Arc<dyn Dial>,
    /// The cluster's time of day, and what operators draw from.
    pub surroundings: Surroundings,
}

impl Outside {
    /// What the machine has.
    pub fn machine() -> Self {
        Self { network: Network::Loopback, dial: Arc::new(Tcp), surroundings: Surroundings::default() }
    }

    /// The time of day.
    pub fn now(&self) -> jiff::Timestamp {
        self.surroundings.clock.now()
    }
}

/// Somebody who calls the API server.
#[derive(Clone)]
pub struct Account {
    /// What the API server calls it.
    pub user: String,
    /// Its client, which tries nothing twice.
    pub client: Client,
}

/// One request that the API server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// Plural resource name, with the subresource if there is one: `statefulsets/status`.
    pub resource: String,
    /// Empty for requests that span namespaces.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// When it arrived.
    pub at: jiff::Timestamp,
}

impl Request {
    /// Whether it changed something.
    pub fn wrote(&self) -> bool {
        self.attempts_write() && (200..300).contains(&self.code)
    }

    /// Whether it would have changed something.
    pub fn attempts_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it asked for the deletion of a pod.
    pub fn deletes_pod(&self) -> bool {
        self.verb == "delete" && self.resource == "pods"
    }

    /// Whether it deleted a pod, as far as the server's record tells.
    pub fn deleted_pod(&self) -> bool {
        self.deletes_pod() && self.wrote()
    }

    /// Whether whoever asked was gone before the answer, so that the record does not tell what became of it.
    pub fn abandoned(&self) -> bool {
        !(200..500).contains(&self.code)
    }
}
