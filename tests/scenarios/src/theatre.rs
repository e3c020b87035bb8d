//! Plays scenarios, as the main function of a test: on a real etcd, kube-apiserver and kube-controller-manager, or on
//! embedded clusters.

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::control_plane::ControlPlaneError;
use sts_plus_harness::{Assets, AssetsMissing, must_run};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use crate::binary;
use crate::cluster::Cluster;
use crate::embedded::{EmbeddedCluster, Shape};
use crate::real::RealCluster;
use crate::repertoire::Repertoire;
use crate::scenarios::{Place, Scenario};

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

/// Plays scenarios on a real cluster as the command line asks for it, so many at once unless it says otherwise.
pub fn play(repertoire: &Repertoire, at_once: usize, prelude: Option<Prelude>) -> ExitCode {
    let Repertoire { scenarios, native } = repertoire;
    let mut arguments = arguments();
    arguments.test_threads.get_or_insert(at_once);
    rustls::crypto::ring::default_provider().install_default().ok();
    let theatre = Arc::new(Theatre::open(&arguments, *native));
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

/// Plays scenarios each on an embedded cluster of its own, under a paused clock.
pub fn play_embedded(repertoire: &Repertoire) -> ExitCode {
    let native = repertoire.native;
    let trials = repertoire.scenarios.iter().map(|&Scenario { name, place, play, .. }| {
        Trial::test(name, move || {
            on_embedded(shape(place, native), |cluster| play(cluster, name));
            Ok(())
        })
    });
    libtest_mimic::run(&arguments(), trials.collect()).exit_code()
}

/// What an embedded cluster has to be like for a scenario.
pub fn shape(place: Place, native: bool) -> Shape {
    let usual = Shape { native: true, streaming_lists: true, keeps_max_unavailable: false };
    let without_native = Shape { native: false, keeps_max_unavailable: true, ..usual };
    match place {
        Place::Shared if native => usual,
        Place::Own | Place::OwnWithSockets => usual,
        Place::OwnWithoutStreaming => Shape { streaming_lists: false, ..usual },
        Place::OwnWithMaxUnavailable => Shape { keeps_max_unavailable: true, ..usual },
        Place::Shared | Place::OwnWithoutNative => without_native,
    }
}

/// Plays on an embedded cluster in a runtime of its own. It has no sockets, which would keep its clock from being paused.
pub fn on_embedded<T>(shape: Shape, play: impl FnOnce(Arc<dyn Cluster>) -> BoxFuture<'static, T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { play(Arc::new(EmbeddedCluster::start(shape))).await })
}

fn arguments() -> Arguments {
    // The operators' own words, for whoever looks for a fault.
    if let Ok(filter) = EnvFilter::try_from_env("STS_PLUS_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    Arguments::from_args()
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
        let cluster = match scenario.place {
            Place::Shared => self.shared.clone().unwrap(),
            Place::Own => start(&self.runtime, assets, true),
            Place::OwnWithoutStreaming => start(&self.runtime, assets, false),
            Place::OwnWithMaxUnavailable => {
                let cluster = RealCluster::start_with(assets, true, &[MAX_UNAVAILABLE]);
                opened(self.runtime.block_on(cluster))
            }
            Place::OwnWithoutNative => start_without_native(&self.runtime, assets),
            Place::OwnWithSockets => opened(self.runtime.block_on(RealCluster::start_with_sockets(assets))),
        };
        self.runtime.block_on((scenario.play)(cluster.map_err(Failed::from)?, scenario.name));
        Ok(Completion::Completed)
    }
}

fn start(runtime: &Runtime, assets: &Assets, streaming_lists: bool) -> Result<Arc<dyn Cluster>, String> {
    opened(runtime.block_on(RealCluster::start(assets, streaming_lists)))
}

fn start_without_native(runtime: &Runtime, assets: &Assets) -> Result<Arc<dyn Cluster>, String> {
    opened(runtime.block_on(RealCluster::start_without_native(assets, &[MAX_UNAVAILABLE])))
}

fn opened(cluster: Result<RealCluster, ControlPlaneError>) -> Result<Arc<dyn Cluster>, String> {
    cluster.map(|cluster| Arc::new(cluster) as _).map_err(|error| error.to_string())
}
