//! Every decision that sts-plus takes, as pure functions of a world and a time.
//!
//! ```text
//!            world, now                      Plan { batches, reports, wake_at }
//! operator ------------->  rollout_group  ------------------------------------>  operator
//!                               |  "may this pod go?"
//!                               v
//!                          disruption         the one gatekeeper: a Permit or a Denial
//!                               |
//!                               v
//!                            health           what is down, judged from spec and pods
//! ```
//!
//! [`forecast`] runs all of it forward over copied rows, to say what would happen.
//!
//! There is no clock, no client, no logging and no randomness here. A deletion can be written down only
//! with a [`disruption::Permit`], which carries the UID and the resourceVersion it was decided under, so a
//! plan without preconditions cannot be expressed.

pub mod admission;
pub mod amount;
mod conditions;
mod contest;
pub mod disruption;
pub mod extended;
pub mod forecast;
pub mod health;
pub mod metadata;
pub mod ordinal;
pub mod phased_rollout;
pub mod plan;
pub mod pod;
pub mod quantity;
pub mod reason;
pub mod remedy;
pub mod revision;
pub mod rollout_group;
pub mod scaling;
pub mod selector;
pub mod set;
pub mod statefulset;

#[cfg(test)]
mod example;
