//! The operator under test, in this process.

use std::sync::Arc;

use kube::Client;
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{Controllers, Settings, run};
use sts_plus_operator::outbound::Reach;
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::lease;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_planner::statefulset::world::Features;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::Outside;

/// A running operator. Dropping it is a crash: all of its tasks end where they are.
#[derive(Debug)]
pub struct Operator {
    work: JoinSet<()>,
    stop: watch::Sender<bool>,
    metrics: Metrics,
}

impl Operator {
    /// Starts one without leader election.
    pub fn start(outside: &Outside, client: Client, scope: Scope, instance: &str) -> Self {
        Self::start_with(outside, client, scope, instance, None)
    }

    /// Starts one that does nothing but control StatefulSets.
    pub fn start_native(
        outside: &Outside,
        client: Client,
        scope: Scope,
        instance: &str,
        features: Features,
    ) -> Self {
        let controllers = Controllers::named(&["statefulset"]).unwrap();
        Self::launch(client, Settings { controllers, features, ..settings(outside, scope, instance) })
    }

    /// Starts one that controls StatefulSets and rolls their groups, on a cluster that has nobody else for either.
    pub fn start_with_native(outside: &Outside, client: Client, scope: Scope, instance: &str) -> Self {
        let controllers = Controllers::named(&["rollout-group", "statefulset"]).unwrap();
        Self::launch(client, Settings { controllers, ..settings(outside, scope, instance) })
    }

    /// Starts one that runs ExtendedStatefulSets and rolls groups.
    pub fn start_extended(outside: &Outside, client: Client, scope: Scope, instance: &str) -> Self {
        let controllers = Controllers::named(&["rollout-group", "extended-statefulset"]).unwrap();
        Self::launch(client, Settings { controllers, ..settings(outside, scope, instance) })
    }

    /// Starts one that writes only while it holds the lease of a namespace.
    pub fn start_elected(
        outside: &Outside,
        client: Client,
        scope: Scope,
        instance: &str,
        namespace: &str,
    ) -> Self {
        Self::start_with(outside, client, scope, instance, Some(lease::Config::new(namespace, instance)))
    }

    fn start_with(
        outside: &Outside,
        client: Client,
        scope: Scope,
        instance: &str,
        lease: Option<lease::Config>,
    ) -> Self {
        Self::launch(client, Settings { lease, ..settings(outside, scope, instance) })
    }

    fn launch(client: Client, settings: Settings) -> Self {
        let (stop, stopped) = watch::channel(false);
        let metrics = Metrics::new();
        let mut work = JoinSet::new();
        work.spawn(run(client, settings, metrics.clone(), stopped));
        Self { work, stop, metrics }
    }

    /// Its metrics page.
    pub fn metrics(&self) -> String {
        self.metrics.encode()
    }

    /// Ends it without warning, and waits until nothing of it runs.
    pub async fn crash(mut self) {
        self.work.shutdown().await;
    }

    /// Asks it to stop, as SIGTERM does, and waits until it has.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.work.join_next().await {
            ended.unwrap();
        }
    }
}

/// The image of the init container of a lock. Hollow nodes pull nothing.
const IMAGE: &str = "sts-plus:test";

fn settings(outside: &Outside, scope: Scope, instance: &str) -> Settings {
    Settings {
        scope,
        controllers: Controllers::default(),
        features: Features::default(),
        image: Some(IMAGE.into()),
        // The servers that scenarios ask listen on loopback.
        reach: Reach { loopback: true, link_local: false },
        hooks: Hooks::default(),
        dial: Arc::clone(&outside.dial),
        surroundings: outside.surroundings.clone(),
        lease: None,
        listener: None,
        webhook: None,
        instance: instance.to_owned(),
    }
}
