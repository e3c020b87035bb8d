//! Plays scenarios on a real etcd, kube-apiserver and kube-controller-manager, as the main function of a test.

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::{Assets, AssetsMissing, must_run};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::binary;
use crate::cluster::Cluster;
use crate::real::RealCluster;
use crate::scenarios::{Scenario, Stage};

/// Lets the API server keep `maxUnavailable` of a set; a controller heeds it only where it has this switch on, too.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

/// Owned by [`play`], so that processes are stopped at the end.
struct Theatre {
    assets: Result<Assets, AssetsMissing>,
    shared: Option<Result<Arc<dyn Cluster>, String>>,
    runtime: Runtime,
}

/// What happens on the shared cluster before the scenarios of these names are played there.
pub type Prelude = fn(Arc<dyn Cluster>, Vec<&'static str>) -> BoxFuture<'static, ()>;

/// Plays scenarios as the command line asks for it, so many at once unless it says otherwise.
pub fn play(scenarios: &[Scenario], at_once: usize) -> ExitCode {
    play_after(None, scenarios, at_once)
}

/// The same after a prelude, on a cluster without a StatefulSet controller.
pub fn play_after(prelude: Option<Prelude>, scenarios: &[Scenario], at_once: usize) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_once);
    // The operators' own words, for whoever looks for a fault.
    if let Ok(filter) = EnvFilter::try_from_env("STS_PLUS_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    rustls::crypto::ring::default_provider().install_default().ok();
    let native = prelude.is_none();
    let theatre = Arc::new(Theatre::open(&arguments, native));
    let trials = scenarios.iter().map(|&scenario| {
        let theatre = Arc::clone(&theatre);
        Trial::ignorable_test(scenario.name, move || theatre.play(scenario))
    });
    let trials: Vec<_> = trials.collect();
    if let (Some(prelude), Some(Ok(cluster))) = (prelude, &theatre.shared) {
        let chosen = scenarios.iter().zip(&trials).filter(|(_, trial)| !arguments.is_filtered_out(trial));
        let names = chosen.map(|(scenario, _)| scenario.name).collect();
        theatre.runtime.block_on(prelude(Arc::clone(cluster), names));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(theatre);
    conclusion.exit_code()
}

impl Theatre {
    fn open(arguments: &Arguments, native: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let assets = Assets::find();
        let shared = match &assets {
            Ok(_) if arguments.list => None,
            Ok(assets) if native => Some(start(&runtime, assets, true)),
            Ok(assets) => Some(start_without_native(&runtime, assets)),
            Err(_) => None,
        };
        Self { assets, shared, runtime }
    }

    fn play(&self, scenario: Scenario) -> Result<Completion, Failed> {
        let assets = match &self.assets {
            Ok(assets) => assets,
            Err(missing) => return missing.verdict(),
        };
        if let Err(reason) = binary::find()
            && scenario.needs_binary
        {
            return if must_run() { Err(reason.into()) } else { Ok(Completion::ignored_with(reason)) };
        }
        let cluster = match scenario.stage {
            Stage::Shared => self.shared.clone().unwrap(),
            Stage::Own { streaming_lists } => start(&self.runtime, assets, streaming_lists),
            Stage::OwnWithoutNative => start_without_native(&self.runtime, assets),
        };
        self.runtime.block_on((scenario.play)(cluster.map_err(Failed::from)?, scenario.name));
        Ok(Completion::Completed)
    }
}

fn start(runtime: &Runtime, assets: &Assets, streaming_lists: bool) -> Result<Arc<dyn Cluster>, String> {
    let cluster = runtime.block_on(RealCluster::start(assets, streaming_lists));
    cluster.map(|cluster| Arc::new(cluster) as _).map_err(|error| error.to_string())
}

fn start_without_native(runtime: &Runtime, assets: &Assets) -> Result<Arc<dyn Cluster>, String> {
    let cluster = runtime.block_on(RealCluster::start_without_native(assets, &[MAX_UNAVAILABLE]));
    cluster.map(|cluster| Arc::new(cluster) as _).map_err(|error| error.to_string())
}
