//! The cluster that is measured on: a real control plane, hollow nodes, and one observer.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::core::{ObjectList, PartialObjectMeta};
use kube::{Api, Client};
use sts_plus_cluster::nodes::network::{Loopback, Network as PodNetwork};
use sts_plus_cluster::nodes::{Config, HollowNodes, Node, Running};
use sts_plus_harness::wait::{NotYet, try_until, try_until_stable};
use sts_plus_harness::{Assets, ControlPlane, Identity, Options, Scope};

use crate::observer::Observer;
use crate::say;
use crate::timeline::Turn;
use crate::workload::{self, Delays, Group, RolledBy};

/// Where the lease lives.
pub(crate) const HOME: &str = "default";
/// Where groups are rolled.
pub(crate) const FIELD: &str = "rolled";
/// Where nothing looks after pods, so that a write is nothing but a write.
pub(crate) const SCRATCH: &str = "scratch";

/// Who the StatefulSet controller of kube-controller-manager is.
pub(crate) const STATEFULSET_CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";

/// What `sts-plus crds` prints.
const KINDS: &str = include_str!("../../../charts/sts-plus/files/crds.yaml");

/// Where those kinds are served.
const SERVED: [&str; 4] = [
    "/apis/sts.plus/v1alpha1/phasedrollouts",
    "/apis/sts.plus/v1alpha1/extendedstatefulsets",
    "/apis/sts.plus/v1alpha1/scalingpolicies",
    "/apis/fissile.cloudfoundry.org/v1alpha1/extendedstatefulsets",
];

const ZONES: usize = 3;
/// What delays of pods are drawn from.
const SEED: u64 = 20_261_115;

/// The full cluster.
pub(crate) const FULL_SETS: usize = 1_000;
pub(crate) const FULL_REPLICAS: usize = 10;
pub(crate) const FULL_NAMESPACES: usize = 10;
const FULL_PREFIX: &str = "full-";
/// Filling takes one to two minutes on two idle cores.
const FILL_DEADLINE: Duration = Duration::from_mins(10);
/// A controller that has not asked for anything for this long has nothing to do.
const QUIET: Duration = Duration::from_secs(3);

/// How much is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Nothing but what is measured.
    Empty,
    /// 10,000 pods in 1,000 sets besides.
    Full,
}

/// A running cluster.
pub(crate) struct Bed {
    pub(crate) observer: Observer,
    // Stops before the server does.
    _nodes: Running,
    pub(crate) plane: ControlPlane,
    /// Where a measure may answer for pods.
    pub(crate) network: PodNetwork,
}

impl Bed {
    /// Starts a cluster of that size.
    pub(crate) async fn start(assets: &Assets, size: Size) -> Result<Self> {
        let groups = match size {
            Size::Empty => Vec::new(),
            Size::Full => full(),
        };
        Self::filled(assets, &groups).await
    }

    /// Starts a cluster and fills it with these.
    pub(crate) async fn filled(assets: &Assets, groups: &[Group]) -> Result<Self> {
        Self::with(assets, groups, &[], None).await
    }

    /// Starts a cluster for ten thousand pods in these namespaces, which are created by whoever measures.
    pub(crate) async fn roomy(assets: &Assets, namespaces: &[String]) -> Result<Self> {
        Self::with(assets, &[], namespaces, None).await
    }

    /// Starts an empty cluster whose pods answer HTTP on loopback addresses.
    pub(crate) async fn answering(assets: &Assets) -> Result<Self> {
        Self::answering_in(assets, &[]).await
    }

    /// The same with these namespaces besides the usual ones.
    pub(crate) async fn answering_in(assets: &Assets, namespaces: &[String]) -> Result<Self> {
        Self::with(assets, &[], namespaces, Some(Loopback::here())).await
    }

    async fn with(
        assets: &Assets,
        groups: &[Group],
        others: &[String],
        loopback: Option<Loopback>,
    ) -> Result<Self> {
        say!("starting a control plane");
        let mut options = Options::default();
        if !groups.is_empty() || !others.is_empty() {
            // Ten thousand pods at its usual 20 requests a second would take an hour.
            let fast = ["--kube-api-qps=5000", "--kube-api-burst=10000", "--concurrent-statefulset-syncs=20"];
            options.controller_manager_flags = fast.map(str::to_owned).to_vec();
        }
        let plane = ControlPlane::start(assets, options).await?;
        define_kinds(plane.admin()).await?;
        let mut namespaces = BTreeSet::from([FIELD.to_owned()]);
        namespaces.extend(groups.iter().map(|group| group.namespace.clone()));
        namespaces.extend(others.iter().cloned());
        for namespace in namespaces.iter().map(String::as_str).chain([SCRATCH]) {
            plane.create_namespace(namespace).await?;
        }
        let nodes = (0..ZONES).map(|zone| Node::new(format!("node-{zone}"), format!("zone-{zone}")));
        let network = PodNetwork::new();
        let config = Config {
            namespaces,
            nodes: nodes.collect(),
            seed: SEED,
            network: Some(network.clone()),
            loopback,
            ..Config::default()
        };
        let nodes = HollowNodes::new(plane.admin(), config).start();
        if !groups.is_empty() {
            fill(&plane, groups).await?;
        }
        // Only now: a watch that falls behind while the cluster fills would be closed by the server.
        let observer = Observer::start(plane.admin()).await?;
        Ok(Self { observer, _nodes: nodes, plane, network })
    }

    pub(crate) fn client(&self) -> Client {
        self.plane.admin()
    }

    /// Creates a group and waits until all of its pods are Ready.
    pub(crate) async fn create(&mut self, group: &Group) -> Result<()> {
        let mark = self.observer.mark();
        group.create(&self.client()).await?;
        self.observer.until(mark, &group.namespace, Turn::Ready, group.pods(), FILL_DEADLINE).await
    }

    /// An identity that may do what the chart grants, and no more.
    pub(crate) async fn operator_identity(&self, name: &str) -> Result<Identity> {
        let identity = self.plane.identity(name)?;
        let work = vec![
            rule("apps", "statefulsets", &["get", "list", "watch", "create", "update", "patch", "delete"]),
            rule("apps", "statefulsets/status", &["patch"]),
            rule("", "pods", &["get", "list", "watch", "patch", "delete"]),
            rule("", "events", &["create", "patch"]),
            rule("", "services", &["get", "list", "watch", "create", "patch", "delete"]),
            rule("", "configmaps", &["list", "watch"]),
            rule("", "secrets", &["list", "watch"]),
            rule("sts.plus", "phasedrollouts", &["get", "list", "watch", "patch"]),
            rule("sts.plus", "phasedrollouts/status", &["update"]),
            rule("sts.plus", "extendedstatefulsets", &["get", "list", "watch"]),
            rule("sts.plus", "extendedstatefulsets/status", &["update"]),
            rule("fissile.cloudfoundry.org", "extendedstatefulsets", &["get", "list", "watch"]),
            rule("fissile.cloudfoundry.org", "extendedstatefulsets/status", &["update"]),
            rule("sts.plus", "scalingpolicies", &["get", "list", "watch", "patch"]),
            rule("sts.plus", "scalingpolicies/status", &["update"]),
        ];
        let home = vec![rule("coordination.k8s.io", "leases", &["create", "get", "watch", "update"])];
        self.plane.grant(&identity, Scope::Cluster, work).await?;
        self.plane.grant(&identity, Scope::Namespace(HOME), home).await?;
        Ok(identity)
    }

    /// An identity that may do what the chart grants to the StatefulSet controller, and no more.
    pub(crate) async fn controller_identity(&self, name: &str) -> Result<Identity> {
        let identity = self.plane.identity(name)?;
        let work = vec![
            rule("apps", "statefulsets", &["get", "list", "watch", "patch"]),
            rule("apps", "statefulsets/status", &["patch"]),
            rule("apps", "statefulsets/finalizers", &["update"]),
            rule("apps", "controllerrevisions", &["get", "list", "watch", "create", "patch", "delete"]),
            rule("", "pods", &["get", "list", "watch", "create", "patch", "delete"]),
            rule("", "persistentvolumeclaims", &["get", "list", "watch", "create", "patch"]),
            rule("", "events", &["create", "patch"]),
        ];
        self.plane.grant(&identity, Scope::Cluster, work).await?;
        Ok(identity)
    }

    /// Waits until a user has asked for nothing but its lease for a while; how many requests it has made.
    pub(crate) async fn settled(&self, identity: &Identity) -> Result<usize> {
        self.silent(identity.user(), QUIET).await
    }

    /// The same for any user and any while.
    pub(crate) async fn silent(&self, user: &str, quiet: Duration) -> Result<usize> {
        let settled = try_until_stable(FILL_DEADLINE, quiet, format!("{user} to be at rest"), || async {
            let requests = self.plane.requests_of(user)?;
            Ok(requests.iter().filter(|request| request.resource != "leases").count())
        });
        Ok(settled.await?)
    }

    /// The process id of kube-controller-manager, for figures beside ours.
    pub(crate) fn controller_manager(&self) -> Result<u32> {
        self.plane.controller_manager_pid().context("kube-controller-manager does not run")
    }

    /// Where logs go; gone with the cluster.
    pub(crate) fn folder(&self) -> &Path {
        self.plane.folder()
    }
}

/// 1,000 sets of 10 pods, three to a group.
fn full() -> Vec<Group> {
    let groups = (0..FULL_SETS.div_ceil(ZONES)).map(|index| Group {
        namespace: full_namespace(index % FULL_NAMESPACES),
        name: format!("store-{index}"),
        zones: ZONES.min(FULL_SETS - index * ZONES),
        replicas: FULL_REPLICAS,
        delays: Delays::NONE,
        rolled_by: RolledBy::Us,
    });
    groups.collect()
}

/// Fills a cluster through the StatefulSet controller and the hollow nodes, as any other cluster is filled.
async fn fill(plane: &ControlPlane, groups: &[Group]) -> Result<()> {
    let pods: usize = groups.iter().map(Group::pods).sum();
    say!("filling it with {pods} pods");
    workload::create_all(&plane.admin(), groups).await?;
    full_of(plane, pods).await
}

/// Waits until a cluster has so many pods, all of them Ready.
pub(crate) async fn full_of(plane: &ControlPlane, pods: usize) -> Result<()> {
    for share in 1..=4 {
        let wanted = pods * share / 4;
        try_until(FILL_DEADLINE, format!("{wanted} pods"), || async {
            let request = http::Request::get("/api/v1/pods?limit=1").body(Vec::new())?;
            let listed: ObjectList<PartialObjectMeta> = plane.admin().request(request).await?;
            let others = listed.metadata.remaining_item_count.unwrap_or_default();
            let there = listed.items.len() + usize::try_from(others)?;
            if there >= wanted { Ok(()) } else { Err(NotYet::saw(there)) }
        })
        .await?;
        say!("{wanted} pods are there");
    }
    let what = "the StatefulSet controller to be done";
    try_until_stable(FILL_DEADLINE, QUIET, what, || async {
        Ok(plane.requests_of(STATEFULSET_CONTROLLER)?.len())
    })
    .await?;
    let sets = Api::<StatefulSet>::all(plane.admin()).list(&ListParams::default()).await?;
    let ready = sets.iter().filter_map(|set| set.status.as_ref()?.ready_replicas);
    let ready: usize = ready.map(|ready| usize::try_from(ready).unwrap_or_default()).sum();
    ensure!(ready == pods, "only {ready} of {pods} pods are Ready");
    Ok(())
}

pub(crate) fn full_namespace(index: usize) -> String {
    format!("{FULL_PREFIX}{index}")
}

/// The kinds that the chart installs: without them the operator would ask for them again and again.
async fn define_kinds(user: Client) -> Result<()> {
    let kinds = Api::<CustomResourceDefinition>::all(user.clone());
    for kind in serde_saphyr::from_multiple::<CustomResourceDefinition>(KINDS)? {
        kinds.create(&PostParams::default(), &kind).await?;
    }
    for served in SERVED {
        try_until(FILL_DEADLINE, format!("{served} to be served"), || async {
            let request = http::Request::get(served).body(Vec::new()).map_err(NotYet::saw)?;
            user.request_text(request).await.map(|_| ()).map_err(NotYet::saw)
        })
        .await?;
    }
    Ok(())
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}
