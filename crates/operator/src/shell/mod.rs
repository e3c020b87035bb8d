//! What every controller stands on: requests, caches, queues, the executor, the lease, events, metrics and
//! health.

pub mod api;
pub mod backoff;
pub mod cache;
pub mod confirmation;
pub mod events;
mod exec;
pub mod executor;
pub mod expectations;
pub mod extended_metrics;
pub mod informing;
pub mod kinds;
pub mod lease;
mod ledger;
pub mod metrics;
pub mod phased_metrics;
pub mod queue;
pub mod rights;
pub mod scaling_metrics;
pub mod serve;
pub mod statefulset_metrics;
pub mod surroundings;
pub mod webhook_metrics;
