//! `sts-plus`: the operator, and the commands by which users watch and steer it. Also works as a kubectl plugin under the
//! name `kubectl-sts_plus`.
//!
//! This file parses and calls; each subcommand is a file of its own.

mod crds;
mod lock_check;
#[cfg(feature = "playground")]
mod playground;
mod resize;
mod status;
mod steer;
mod table;
mod table_extended;
mod table_scaling;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use sts_plus_operator::command_line::{self, Connection};
use sts_plus_operator::hooks::Hooks;

/// Roll StatefulSets one zone at a time and in steps that wait for Prometheus, scale them with hooks, and run them in versions.
#[derive(Debug, Parser)]
#[command(name = "sts-plus", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a local demo cluster with workloads to roll (default command).
    #[cfg(feature = "playground")]
    Playground(playground::Arguments),
    /// Run the operator.
    Run(command_line::Arguments),
    /// Show rollout groups, PhasedRollouts, ExtendedStatefulSets and ScalingPolicies: their state, their pods and what they
    /// wait for.
    Status(status::Arguments),
    /// Pause StatefulSets of a rollout group, PhasedRollouts, ExtendedStatefulSets or ScalingPolicies.
    Pause(steer::Arguments),
    /// Resume what was paused, and retry what has failed.
    Resume(steer::Arguments),
    /// Approve the waiting step of a PhasedRollout or the promotion of a version, or retry what has failed.
    Approve(steer::Approval),
    /// Grow the claims of a StatefulSet in place, without restarting its pods.
    Resize(resize::Arguments),
    /// Wait until a lock allows the pod to run (the init container of a lock).
    LockCheck(lock_check::Arguments),
    /// Print the CustomResourceDefinitions of sts-plus, for kubectl apply.
    Crds,
}

/// The exit code of a command that has failed; clap uses 2 for one that it cannot parse.
const FAILED: u8 = 1;

/// The parsed command line. Without a subcommand it is that of the playground, in a build with one.
fn arguments() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    let error = match Arguments::try_parse_from(&words) {
        Ok(arguments) => return arguments,
        Err(error) => error,
    };
    let is_about_playground = match words.get(1) {
        None => true,
        // A flag before any subcommand that clap does not know may be one of the playground.
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
    // Fails only where a provider is installed already.
    rustls::crypto::ring::default_provider().install_default().ok();
    let result = match arguments.command {
        #[cfg(feature = "playground")]
        Command::Playground(playground) => playground::run(playground).await,
        Command::Run(run) => {
            command_line::run(&arguments.connection, run, Hooks::default()).await.map_err(Into::into)
        }
        Command::Status(status) => status::status(&arguments.connection, &status).await,
        Command::Pause(sets) => steer::steer(&arguments.connection, &sets, steer::Change::Pause).await,
        Command::Resume(sets) => steer::steer(&arguments.connection, &sets, steer::Change::Resume).await,
        Command::Approve(rollouts) => steer::approve(&arguments.connection, &rollouts).await,
        Command::Resize(sizes) => resize::resize(&arguments.connection, &sizes).await,
        Command::LockCheck(pod) => lock_check::check(&pod).await,
        Command::Crds => crds::print(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for people: with all causes, without a backtrace.
            eprintln!("sts-plus: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}
