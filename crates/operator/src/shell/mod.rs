//! What every controller stands on: requests, caches, queues, the executor, the lease, events, metrics and
//! health.

pub mod api;
pub mod lease;
pub mod metrics;
