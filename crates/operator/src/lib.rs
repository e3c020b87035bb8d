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
//! from the same rows by the same planner, in [`view`].

pub mod controllers;
pub mod operator;
pub mod outbound;
pub mod runtime;
pub mod shell;
pub mod view;
