//! The scenarios of ScalingPolicies on a real etcd, kube-apiserver and kube-controller-manager, with hollow nodes.

use std::process::ExitCode;

use sts_plus_scenarios::{repertoire, theatre};

/// Scenarios at once: each mostly waits, but all share one API server and two cores.
const AT_ONCE: usize = 5;

fn main() -> ExitCode {
    theatre::play(&repertoire::scaling(repertoire::Kind::Real), AT_ONCE, None)
}
