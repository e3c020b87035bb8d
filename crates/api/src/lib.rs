//! The nouns of sts-plus: labels, annotations and other keys, and the objects that users read and write.
//!
//! ```text
//! api  <-  planner  <-  operator  <-  cli
//!  you are here            ^           |
//!                       cluster  <-----+
//! ```
//!
//! This crate makes no decisions and sends no requests. A label, an annotation, an environment variable or a field manager is
//! defined once, in [`keys`], and all other code refers to the constant.

#![deny(missing_docs, reason = "its doc comments are what users read")]

pub mod conditions;
#[cfg(feature = "crd")]
pub mod crds;
pub mod extended;
pub mod keys;
pub mod kinds;
pub mod phased_rollout;
pub mod remedy;
pub mod rollout_status;
pub mod scaling_policy;
