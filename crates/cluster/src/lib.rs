//! Kubernetes without machines.
//!
//! ```text
//! api  <-  planner  <-  operator  <-  cli
//!                          ^           |
//!                       cluster  <-----+
//!                     you are here
//! ```
//!
//! Nothing here knows of the operator. [`machinery`] is an API server in memory, [`kinds`] the table of what it
//! serves, [`controllers`] what goes on around it whether or not anybody asks. [`nodes`] is a client-side stand-in for
//! a scheduler, kubelets and the volume binder: pointed at any API server, it makes pods come up, fail and go away as
//! their annotations ask. Everything runs on one [`Clock`], which a test can pause. With the feature `serve`, a module
//! of that name lets kubectl and friends reach the server over HTTPS.

mod affinity;
mod chance;
mod clock;
pub mod controllers;
pub mod kinds;
pub mod machinery;
pub mod nodes;
#[cfg(feature = "serve")]
pub mod serve;
mod volumes;

pub use clock::Clock;
pub use volumes::standard_class;
