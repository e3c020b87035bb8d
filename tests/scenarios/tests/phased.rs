//! The scenarios of phased rollouts on a real etcd, kube-apiserver, kube-controller-manager and Prometheus.

use std::process::ExitCode;

use sts_plus_scenarios::{repertoire, theatre};

/// Scenarios at once: each waits for a period of a second most of its time.
const AT_ONCE: usize = 12;

fn main() -> ExitCode {
    theatre::play(&repertoire::phased(repertoire::Kind::Real), AT_ONCE, None)
}
