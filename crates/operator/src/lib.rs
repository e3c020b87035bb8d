//! The shell of sts-plus: watch, build the world, plan, act, report.
//!
//! ```text
//!   API server --watch--> shell::cache --world--> planner --plan--> shell::executor --write--> API server
//!                              |                                         ^
//!                              +--- changed keys ---> shell::queue ------+ one lane per disruption domain
//! ```
//!
//! Every request to the API server leaves through [`shell::api`], every request to anybody else through
//! [`outbound`], and every write through [`shell::executor`], which holds the four safety rules in one place.
//! A controller is a file under [`controllers`]: world in, plan out. [`runtime`] runs any of them. What people see is made
//! from the same rows by the same planner, in [`view`]. Admission requests are answered by [`webhook`], in every replica.
//!
//! # An operator of your own
//!
//! A ScalingPolicy calls an application over HTTP. Where that does not fit, such as an application whose
//! coordinator decides which member leaves, write a hook in Rust and build an operator around it:
//!
//! 1. Implement [`hooks::ScaleDown`] or [`hooks::ScaleUp`]; [`hooks`] says what they have to hold to.
//! 2. Register the implementation under a name in [`hooks::Hooks`].
//! 3. Pass that to `command_line::main`, with the feature `command-line` of this crate: the program then takes the
//!    flags of `sts-plus run`, and the chart of sts-plus installs it. A program that has a command line of its own,
//!    or a runtime, passes [`operator::Settings`] to [`operator::run`] instead.
//! 4. Name it in a ScalingPolicy: `scaleDown: {hook: {named: drain-broker}}`.
//!
//! `examples/custom-scaling` in the repository is such an operator, and `docs/scaling.md` has a section on it.

#[cfg(feature = "command-line")]
pub mod command_line;
pub mod controllers;
pub mod hooks;
pub mod operator;
pub mod outbound;
pub mod runtime;
pub mod shell;
pub mod view;
pub mod webhook;
