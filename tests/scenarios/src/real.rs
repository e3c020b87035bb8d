//! The trait over a real control plane, with hollow nodes instead of machines.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;
use kube::{Api, Client};
use sts_plus_cluster::nodes::network::{Loopback, Network as PodNetwork};
use sts_plus_cluster::nodes::{Config, Delay, HollowNodes, Node, Running};
use sts_plus_harness::control_plane::{ControlPlaneError, HOLLOW_NODE_CONTROLLERS};
use sts_plus_harness::{Assets, AuditEntry, ControlPlane, Identity, Options, Process, Scope};
use sts_plus_operator::outbound::{Dial, Dialled, Stream, Tcp};

use crate::admission;
use crate::cluster::{Account, Answer, Cluster, ClusterError, Outside, Request};

/// How long each step of a pod's life takes where the scenario says nothing: long enough to be a step.
pub(crate) const STEP: Duration = Duration::from_millis(5);

/// The zones, with a node in each.
pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];

/// The zones of manifests that are applied as they are, with a node in each, too.
const DOCUMENTED_ZONES: [&str; 2] = ["dal10", "dal13"];

/// Lets a quota refuse pods, as one does in production.
const QUOTAS: &str = "resourcequota-controller";

/// It writes where the pods of a Service answer.
const ENDPOINTS: &str = "endpointslice-controller";

/// The controller of kube-controller-manager that ours can replace.
const NATIVE: &str = "statefulset-controller";

/// It works on so many sets at once: more than its default of 5, or scenarios that run together would wait for each
/// other.
const NATIVE_SYNCS: &str = "--concurrent-statefulset-syncs=30";

/// Where the Services of [`RealCluster::start_with_services`] are: the first address of a range of loopback addresses, which
/// the API server calls and a test can listen at.
pub const SERVICES: Ipv4Addr = Ipv4Addr::new(127, 96, 0, 0);

/// They run the pods of Deployments.
const DEPLOYMENTS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// etcd, kube-apiserver and kube-controller-manager, and hollow nodes in three zones.
pub struct RealCluster {
    // Nodes stop before what they talk to.
    _nodes: Running,
    // Kubernetes' own StatefulSet controller, where it is a process of its own and runs.
    native: Mutex<Option<Process>>,
    control_plane: ControlPlane,
    pods: PodNetwork,
    assets: Assets,
    identities: Mutex<Vec<Identity>>,
}

impl RealCluster {
    /// Starts one; `streaming_lists` as servers from 1.34 on have them.
    pub async fn start(assets: &Assets, streaming_lists: bool) -> Result<Self, ControlPlaneError> {
        Self::start_with(assets, streaming_lists, &[]).await
    }

    /// The same with features that are off by default, such as `MaxUnavailableStatefulSet`.
    pub async fn start_with(
        assets: &Assets,
        streaming_lists: bool,
        features: &[&str],
    ) -> Result<Self, ControlPlaneError> {
        let controllers = HOLLOW_NODE_CONTROLLERS.iter().chain(&[QUOTAS, ENDPOINTS]).map(|&name| name.into());
        Self::launch(assets, streaming_lists, gates(features), features, controllers.collect(), None).await
    }

    /// One whose pods answer over sockets at loopback addresses, for operators that are processes.
    pub async fn start_with_sockets(assets: &Assets) -> Result<Self, ControlPlaneError> {
        let controllers = HOLLOW_NODE_CONTROLLERS.map(str::to_owned).to_vec();
        Self::launch(assets, true, Vec::new(), &[], controllers, Some(Loopback::here())).await
    }

    /// One with Deployments, and with Services at loopback addresses: the API server reaches what a test listens at there,
    /// and nobody where it does not, as with a Service that has no endpoints.
    pub async fn start_with_services(assets: &Assets) -> Result<Self, ControlPlaneError> {
        let controllers = HOLLOW_NODE_CONTROLLERS.iter().chain(&DEPLOYMENTS).map(|&name| name.into());
        let range = vec![format!("--service-cluster-ip-range={SERVICES}/16")];
        Self::launch(assets, true, range, &[], controllers.collect(), None).await
    }

    /// One without a StatefulSet controller, until [`Cluster::start_native`] is asked for Kubernetes' own. The features are
    /// those of the API server; the controllers of kube-controller-manager have the usual ones.
    pub async fn start_without_native(assets: &Assets, features: &[&str]) -> Result<Self, ControlPlaneError> {
        Self::launch(assets, true, gates(features), &[], all_but_native(), None).await
    }

    /// The same with lists that are not streamed.
    pub async fn start_without_native_and_streaming(assets: &Assets) -> Result<Self, ControlPlaneError> {
        Self::launch(assets, false, Vec::new(), &[], all_but_native(), None).await
    }

    async fn launch(
        assets: &Assets,
        streaming_lists: bool,
        api_server_flags: Vec<String>,
        manager_features: &[&str],
        controllers: Vec<String>,
        loopback: Option<Loopback>,
    ) -> Result<Self, ControlPlaneError> {
        let limits = ["--kube-api-qps=2000", "--kube-api-burst=4000"].map(str::to_owned);
        let options = Options {
            streaming_lists,
            api_server_flags,
            controllers,
            // Its own limiter would make every scenario wait for it: it allows 20 requests a second by default.
            controller_manager_flags: limits.into_iter().chain(gates(manager_features)).collect(),
            ..Options::default()
        };
        let control_plane = ControlPlane::start(assets, options).await?;
        let class = serde_json::from_value(sts_plus_cluster::standard_class()).expect("a class");
        let classes = Api::<StorageClass>::all(control_plane.admin());
        let made = classes.create(&PostParams::default(), &class).await;
        made.map_err(|source| ControlPlaneError::Request {
            what: "make the storage class".to_owned(),
            source: Box::new(source),
        })?;
        let pods = PodNetwork::new();
        let zones = ZONES.iter().chain(&DOCUMENTED_ZONES);
        let config = Config {
            network: Some(pods.clone()),
            nodes: zones.map(|zone| Node::new(format!("node-{zone}"), *zone)).collect(),
            start_delay: Delay::fixed(STEP),
            ready_delay: Delay::fixed(STEP),
            stop_delay: Delay::fixed(STEP),
            loopback,
            config_maps: true,
            ..Config::default()
        };
        let nodes = HollowNodes::new(control_plane.admin(), config).start();
        let (native, assets, identities) = (Mutex::default(), assets.clone(), Mutex::default());
        Ok(Self { _nodes: nodes, native, control_plane, pods, assets, identities })
    }

    fn identity(&self, account: &Account) -> Result<Identity, ClusterError> {
        let identities = self.identities.lock().unwrap();
        let known = identities.iter().find(|identity| identity.user() == account.user);
        known.cloned().ok_or_else(|| ClusterError(format!("{} is not ours", account.user).into()))
    }
}

impl Cluster for RealCluster {
    fn user(&self) -> Client {
        self.control_plane.admin()
    }

    fn outside(&self) -> Outside {
        Outside { dial: Arc::new(Wires { pods: self.pods.clone() }), ..Outside::machine() }
    }

    fn pod_network(&self) -> PodNetwork {
        self.pods.clone()
    }

    fn make_namespace<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.control_plane.create_namespace(name).await.map_err(failed) })
    }

    fn name_claims(&self) -> Answer<'_, ()> {
        Box::pin(admission::install(self.user(), admission::policy()))
    }

    fn newcomer(&self, name: &str) -> Result<Account, ClusterError> {
        let identity = self.control_plane.identity(name).map_err(failed)?;
        let client = self.control_plane.client(&identity).map_err(failed)?;
        let account = Account { user: identity.user().to_owned(), client };
        self.identities.lock().unwrap().push(identity);
        Ok(account)
    }

    fn grant<'a>(
        &'a self,
        account: &'a Account,
        namespace: Option<&'a str>,
        rules: Vec<PolicyRule>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let identity = self.identity(account)?;
            let scope = namespace.map_or(Scope::Cluster, Scope::Namespace);
            self.control_plane.grant(&identity, scope, rules).await.map_err(failed)
        })
    }

    fn requests(&self, account: &Account) -> Result<Vec<Request>, ClusterError> {
        let requests = self.control_plane.requests_of(&account.user).map_err(failed)?;
        Ok(requests.into_iter().map(request).collect())
    }

    fn settled_requests<'a>(&'a self, account: &'a Account) -> Answer<'a, Vec<Request>> {
        Box::pin(async move {
            let identity = self.identity(account)?;
            let requests = self.control_plane.settled_requests(&identity).await.map_err(failed)?;
            Ok(requests.into_iter().map(request).collect())
        })
    }

    fn makers_of_pods<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move { self.control_plane.settled_creators(namespace, "pods").await.map_err(failed) })
    }

    fn kubeconfig(&self, account: &Account) -> Result<PathBuf, ClusterError> {
        self.control_plane.kubeconfig_for(&self.identity(account)?).map_err(failed)
    }

    fn stop_api_server(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.control_plane.stop_api_server().await;
            Ok(())
        })
    }

    fn start_api_server(&self) -> Answer<'_, ()> {
        Box::pin(async move { self.control_plane.start_api_server().await.map_err(failed) })
    }

    fn start_native(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let (controllers, flags) = ([NATIVE.to_owned()], [NATIVE_SYNCS.to_owned()]);
            let started =
                self.control_plane.start_another_controller_manager(&self.assets, &controllers, &flags);
            let process = started.await.map_err(failed)?;
            *self.native.lock().unwrap() = Some(process);
            Ok(())
        })
    }

    fn stop_native(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let running = self.native.lock().unwrap().take();
            // Stopping blocks; this way no task of the test waits for it. Dropped is stopped.
            tokio::task::spawn_blocking(move || drop(running)).await.map_err(failed)
        })
    }
}

/// The ways out of an operator: pods are reached in memory, as hollow nodes run them there, and all else over sockets.
#[derive(Debug)]
struct Wires {
    pods: PodNetwork,
}

impl Dial for Wires {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Tcp.lookup(host, port)
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        if address.ip().is_loopback() {
            // A future of `Tcp` borrows it, and this one is as good as any.
            const MACHINE: &Tcp = &Tcp;
            return MACHINE.connect(address);
        }
        Box::pin(async move { Ok(Box::new(self.pods.connect(address).await?) as Box<dyn Stream>) })
    }
}

fn gates(features: &[&str]) -> Vec<String> {
    features.iter().map(|feature| format!("--feature-gates={feature}=true")).collect()
}

fn all_but_native() -> Vec<String> {
    let controllers = HOLLOW_NODE_CONTROLLERS.iter().chain(&[QUOTAS]).filter(|&&name| name != NATIVE);
    controllers.map(|&name| name.into()).collect()
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> ClusterError {
    ClusterError(Box::new(error))
}

fn request(entry: AuditEntry) -> Request {
    let resource = match entry.subresource.as_str() {
        "" => entry.resource,
        subresource => format!("{}/{subresource}", entry.resource),
    };
    Request {
        verb: entry.verb,
        resource,
        namespace: entry.namespace,
        name: entry.name,
        code: entry.code,
        at: entry.timestamp,
    }
}
