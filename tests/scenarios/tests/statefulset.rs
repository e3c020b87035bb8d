//! Kubernetes' own StatefulSet controller against ours, on a real etcd, kube-apiserver and kube-controller-manager.

use std::process::ExitCode;

use sts_plus_scenarios::native::{bout, scripts, trials};
use sts_plus_scenarios::theatre;

fn main() -> ExitCode {
    let mut scenarios = trials::all();
    scenarios.extend(scripts::all().into_iter().map(bout::scenario));
    theatre::play_after(Some(bout::prelude), &scenarios, bout::AT_ONCE)
}
