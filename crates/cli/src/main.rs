//! `sts-plus`: the operator, and what a user asks and tells it from a terminal. Also works as a kubectl
//! plugin under the name `kubectl-sts_plus`.
//!
//! This file parses and calls; each subcommand is a file of its own.

mod connect;
mod crds;
#[cfg(feature = "playground")]
mod playground;
mod run;
mod status;
mod steer;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use connect::Connection;

/// Gives StatefulSets what they lack: rollouts across zones, one at a time, and rollouts that wait for Prometheus.
#[derive(Debug, Parser)]
#[command(name = "sts-plus", version, about, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a cluster of its own, with something to roll, and watch it: the default.
    #[cfg(feature = "playground")]
    Playground(playground::Arguments),
    /// Run the operator.
    Run(run::Arguments),
    /// Show every rollout group and every PhasedRollout, their pods per revision and what is awaited.
    Status(status::Arguments),
    /// Keep sets, or PhasedRollouts, from being rolled.
    Pause(steer::Arguments),
    /// Let paused sets be rolled again; a PhasedRollout that has failed is tried again.
    Resume(steer::Arguments),
    /// Approve the waiting step of a PhasedRollout, or retry a failed one.
    Approve(steer::Approval),
    /// Print the kinds that sts-plus brings along, for kubectl apply.
    Crds,
}

/// The exit code for a request that could not be carried out; clap uses 2 for one it could not understand.
const FAILED: u8 = 1;

/// What the command line asks for. Where it names no subcommand, it is about the playground, if there is one.
fn arguments() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    let error = match Arguments::try_parse_from(&words) {
        Ok(arguments) => return arguments,
        Err(error) => error,
    };
    let is_about_playground = match words.get(1) {
        None => true,
        // A flag is the playground's own, or nobody's.
        Some(first) => error.kind() == ErrorKind::UnknownArgument && first.to_string_lossy().starts_with('-'),
    };
    if !(cfg!(feature = "playground") && is_about_playground) {
        error.exit();
    }
    let (program, flags) = words.split_at(words.len().min(1));
    let words = program.iter().cloned().chain(["playground".into()]).chain(flags.iter().cloned());
    Arguments::parse_from(words)
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = arguments();
    // Fails only if a provider is installed already, and then there is one.
    rustls::crypto::ring::default_provider().install_default().ok();
    let done = match arguments.command {
        #[cfg(feature = "playground")]
        Command::Playground(playground) => playground::run(playground).await,
        Command::Run(run) => run::run(&arguments.connection, run).await,
        Command::Status(status) => status::status(&arguments.connection, &status).await,
        Command::Pause(sets) => steer::steer(&arguments.connection, &sets, steer::Wish::Pause).await,
        Command::Resume(sets) => steer::steer(&arguments.connection, &sets, steer::Wish::Resume).await,
        Command::Approve(rollouts) => steer::approve(&arguments.connection, &rollouts).await,
        Command::Crds => crds::print(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, causes included, no backtrace: this is for a person.
            eprintln!("sts-plus: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}
