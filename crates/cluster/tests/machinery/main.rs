//! Patches, apply and schemas, each asked of our functions and of the real API server.
//!
//! A sequence writes to one object, step by step. Before each step our functions are asked what will become of the
//! object as it is; the server then does the step and both answers are compared, managed fields included. What the
//! server adds on its own (defaults that are code, allocated addresses) it also adds to our answer, which it gets as
//! a dry run.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

mod applies;
mod invalid;
mod patches;
mod server;
mod steps;

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::{Assets, AssetsMissing, ControlPlane, Options, schemas::schemas};
use tokio::runtime::Runtime;

use server::Server;
use steps::Sequence;

/// Owned by `main`, so that it is stopped at the end.
struct Cluster {
    server: Server,
    // Dropped after what uses it.
    _control_plane: ControlPlane,
    runtime: Runtime,
}

type Shared = Arc<Result<Cluster, Unavailable>>;

enum Unavailable {
    Assets(AssetsMissing),
    Start,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cluster: Shared = Arc::new(if arguments.list { Err(Unavailable::Start) } else { start() });
    let sequences = patches::sequences().into_iter().chain(applies::sequences());
    let mut trials: Vec<_> = sequences.map(|sequence| of_sequence(sequence, &cluster)).collect();
    trials.push(trial("custom_resources_are_refused_for_the_same_causes", &cluster, async |server| {
        invalid::compare(server).await;
    }));
    trials
        .push(trial("unknown_fields_are_the_same", &cluster, async |server| invalid::unknown(server).await));
    trials.push(trial("objects_are_written_the_same", &cluster, async |server| {
        invalid::normalized(server).await;
    }));
    trials.push(trial("the_schemas_are_those_of_this_server", &cluster, async |server| {
        let theirs = schemas(&server.client).await.unwrap();
        assert!(theirs == include_str!("../../src/kinds/schemas.json"), "`make schemas` has not been run");
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(cluster);
    conclusion.exit_code()
}

fn start() -> Result<Cluster, Unavailable> {
    let assets = Assets::find().map_err(Unavailable::Assets)?;
    let runtime = Runtime::new().unwrap();
    let started = runtime.block_on(async {
        let options =
            Options { controllers: vec!["serviceaccount-controller".to_owned()], ..Options::default() };
        let control_plane = ControlPlane::start(&assets, options).await?;
        let server = Server::prepare(&control_plane).await?;
        Ok::<_, Box<dyn std::error::Error>>((control_plane, server))
    });
    match started {
        Ok((control_plane, server)) => Ok(Cluster { server, _control_plane: control_plane, runtime }),
        Err(error) => {
            eprintln!("{error}");
            Err(Unavailable::Start)
        }
    }
}

fn of_sequence(sequence: Sequence, cluster: &Shared) -> Trial {
    trial(sequence.name, cluster, async move |server| sequence.run(server).await)
}

fn trial<F>(name: &'static str, cluster: &Shared, test: F) -> Trial
where
    F: AsyncFnOnce(&Server) + Send + 'static,
{
    let cluster = cluster.clone();
    Trial::ignorable_test(name, move || match &*cluster {
        Err(Unavailable::Assets(missing)) => missing.verdict(),
        Err(Unavailable::Start) => Err(Failed::from("the control plane did not start, see above")),
        Ok(Cluster { server, runtime, .. }) => {
            runtime.block_on(test(server));
            Ok(Completion::Completed)
        }
    })
}
