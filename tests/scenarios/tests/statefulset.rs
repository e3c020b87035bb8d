//! Kubernetes' own StatefulSet controller against ours, and what the behaviour catalogue asks of ours, on a real etcd,
//! kube-apiserver and kube-controller-manager.

use std::process::ExitCode;

use sts_plus_scenarios::native::bout;
use sts_plus_scenarios::{repertoire, theatre};

fn main() -> ExitCode {
    let all = repertoire::statefulset(repertoire::Kind::Real);
    theatre::play(&all, bout::AT_ONCE, Some(bout::prelude))
}
