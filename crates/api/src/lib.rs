//! The nouns of sts-plus: every key on the wire, and the shapes that users read and write.
//!
//! ```text
//! api  <-  planner  <-  operator  <-  cli
//!  you are here            ^           |
//!                       cluster  <-----+
//! ```
//!
//! Nothing here decides and nothing here talks to a cluster. A label, an annotation, an environment
//! variable or a field manager is spelt once, in [`keys`], and everybody else names the constant.

pub mod conditions;
#[cfg(feature = "crd")]
pub mod crds;
pub mod keys;
pub mod kinds;
pub mod phased_rollout;
pub mod rollout_status;
