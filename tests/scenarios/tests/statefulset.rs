//! Kubernetes' own StatefulSet controller against ours, and what the behaviour catalogue asks of ours, on a real etcd,
//! kube-apiserver and kube-controller-manager.

use std::process::ExitCode;

use sts_plus_scenarios::native::compare::Rival;
use sts_plus_scenarios::native::{bout, ids, scripts, trials};
use sts_plus_scenarios::theatre;

fn main() -> ExitCode {
    let mut scenarios = trials::all();
    scenarios.extend(scripts::all().into_iter().map(bout::scenario));
    // Theirs is stopped before the second half only if that half is ours.
    if bout::rival() == Rival::Ours {
        scenarios.extend(ids::all());
    }
    theatre::play_after(Some(bout::prelude), &scenarios, bout::AT_ONCE)
}
