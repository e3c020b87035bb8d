//! The scenarios of rollout groups on a real etcd, kube-apiserver and kube-controller-manager.

use std::process::ExitCode;

use sts_plus_scenarios::{repertoire, theatre};

/// Scenarios at once: each mostly waits, but all share one API server and two cores.
const AT_ONCE: usize = 5;

fn main() -> ExitCode {
    theatre::play(&repertoire::groups(repertoire::Kind::Real), AT_ONCE, None)
}
