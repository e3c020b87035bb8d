//! Kubernetes without machines.
//!
//! ```text
//! api  <-  planner  <-  operator  <-  cli
//!                          ^           |
//!                       cluster  <-----+
//!                     you are here
//! ```
//!
//! Nothing here knows of the operator. [`nodes`] is a client-side stand-in for a scheduler, kubelets and the
//! volume binder: pointed at any API server, it makes pods come up, fail and go away as their annotations ask.

pub mod nodes;
