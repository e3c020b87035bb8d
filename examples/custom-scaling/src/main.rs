//! An operator with a hook of its own, built around the library of sts-plus.
//!
//! The brokers of this example do not drain themselves: one coordinator knows which partitions are on which broker, and moves
//! them. An HTTP hook is sent to the pod that leaves, so it cannot reach the coordinator; a hook in Rust can.
//!
//! ```text
//!   ScalingPolicy                         this program                      coordinator
//!   scaleDown: {hook: {named: drain-broker}} ──> DrainBroker ── "drain broker-2" ──> moves partitions
//!                                                            <── "left 7" ──────────
//! ```
//!
//! The program takes the flags of `sts-plus run`, and is installed with the chart of sts-plus: put it into an image in the
//! place of `/sts-plus`, and set the variable `COORDINATOR` with the chart's value `env`. `policy.yaml` is for kubectl.

mod coordinator;
mod drain_broker;

use std::process::ExitCode;

use sts_plus_operator::command_line;
use sts_plus_operator::hooks::Hooks;

use coordinator::Coordinator;
use drain_broker::DrainBroker;

/// The host and port of the coordinator.
const ADDRESS: &str = "COORDINATOR";

fn main() -> ExitCode {
    let Ok(address) = std::env::var(ADDRESS) else {
        eprintln!("custom-scaling: set {ADDRESS} to the host and port of the coordinator");
        return ExitCode::FAILURE;
    };
    let hook = DrainBroker::new(Coordinator::new(address));
    command_line::main(Hooks::default().scale_down("drain-broker", hook))
}
