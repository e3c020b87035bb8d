//! The playground as a person meets it: in a terminal, in a pipe, and when something is wrong.
#![cfg(feature = "playground")]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy recognises only inside test functions"
)]

mod bad_input;
mod piped;
mod pty;
mod screen;
mod steer;

use std::process::Command;

/// The playground, with nothing of the machine's own configuration.
fn playground(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sts-plus"));
    command.env_clear().env("HOME", "/nonexistent").env("TERM", "xterm-256color");
    command.arg("playground").args(arguments);
    command
}
