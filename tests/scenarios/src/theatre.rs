//! Plays scenarios on a real etcd, kube-apiserver and kube-controller-manager, as the main function of a test.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::{Assets, AssetsMissing, must_run};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::binary;
use crate::cluster::Cluster;
use crate::real::RealCluster;
use crate::scenarios::{Scenario, Stage};

/// Owned by [`play`], so that processes are stopped at the end.
struct Theatre {
    assets: Result<Assets, AssetsMissing>,
    shared: Option<Result<Arc<dyn Cluster>, String>>,
    runtime: Runtime,
}

/// Plays scenarios as the command line asks for it, so many at once unless it says otherwise.
pub fn play(scenarios: Vec<Scenario>, at_once: usize) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_once);
    // The operators' own words, for whoever looks for a fault.
    if let Ok(filter) = EnvFilter::try_from_env("STS_PLUS_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    rustls::crypto::ring::default_provider().install_default().ok();
    let theatre = Arc::new(Theatre::open(&arguments));
    let trials = scenarios.into_iter().map(|scenario| {
        let theatre = Arc::clone(&theatre);
        Trial::ignorable_test(scenario.name, move || theatre.play(scenario))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(theatre);
    conclusion.exit_code()
}

impl Theatre {
    fn open(arguments: &Arguments) -> Self {
        let runtime = Runtime::new().unwrap();
        let assets = Assets::find();
        let shared = match &assets {
            Ok(assets) if !arguments.list => Some(start(&runtime, assets, true)),
            _ => None,
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
        };
        self.runtime.block_on((scenario.play)(cluster.map_err(Failed::from)?, scenario.name));
        Ok(Completion::Completed)
    }
}

fn start(runtime: &Runtime, assets: &Assets, streaming_lists: bool) -> Result<Arc<dyn Cluster>, String> {
    let cluster = runtime.block_on(RealCluster::start(assets, streaming_lists));
    cluster.map(|cluster| Arc::new(cluster) as _).map_err(|error| error.to_string())
}
