//! A rollout in each state of a gate, the second one where there is a choice.

use strum::VariantArray;
use sts_plus_api::phased_rollout::{Approval, GateState};

use super::cluster::{Cluster, NEW, broken, data, empty, idle, rolling};
use super::edges::one_replaced;

/// The fixture with its gate in a state.
pub(super) fn at(state: GateState) -> Cluster {
    let mut cluster = match state {
        GateState::WaitForPodToBeUpdated => {
            let mut cluster = let_go(|cluster| cluster.native = false);
            // The set's controller has looked, and not acted.
            cluster.observe();
            cluster
        }
        GateState::WaitForAllPodsToBeAvailable => let_go(|cluster| {
            cluster.stuck.insert("web-2".to_owned());
        }),
        GateState::WaitForInitialDelay => one_replaced(),
        GateState::WaitForChecks => {
            let mut cluster = one_replaced();
            cluster.wake();
            cluster
        }
        GateState::PrometheusError => {
            let mut cluster = one_replaced();
            cluster.say(broken());
            cluster.wake();
            cluster
        }
        GateState::WaitForApproval => {
            let mut cluster = idle().with(|spec| spec.approval = Approval::EveryStep);
            cluster.edit(NEW);
            cluster.quiet();
            cluster.approve(NEW);
            cluster.until(|cluster| {
                cluster
                    .status()
                    .rolling_pod_status
                    .as_ref()
                    .is_some_and(|gate| gate.partition == 2 && gate.status == GateState::WaitForApproval)
            });
            cluster
        }
        GateState::Paused => {
            let mut cluster = one_replaced().with(|spec| spec.paused = true);
            cluster.quiet();
            cluster
        }
        GateState::Passed => {
            let mut cluster = one_replaced();
            cluster.wake();
            cluster.now = cluster.wake_at.unwrap();
            cluster.pass();
            cluster.pass();
            cluster
        }
        GateState::Failed => {
            let mut cluster = one_replaced().checked(|check| check.failure_threshold = Some(2));
            cluster.say(empty());
            cluster.until(|cluster| cluster.gate().status == GateState::Failed);
            cluster
        }
    };
    assert_eq!(cluster.gate().status, state, "{cluster}");
    assert_eq!(cluster.gate().partition, 2);
    cluster.trace.clear();
    cluster.announced.clear();
    cluster
}

/// The first pod has just been let go.
fn let_go(change: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = rolling();
    change(&mut cluster);
    cluster.until(|cluster| cluster.partition() == 2);
    cluster
}

/// All that was held up goes on.
pub(super) fn mend(cluster: &mut Cluster) {
    cluster.native = true;
    cluster.stuck.clear();
    cluster.say(data());
    cluster.respec(|spec| {
        spec.paused = false;
        spec.approval = Approval::Never;
    });
    if cluster.status().failure.is_some() {
        let revision = cluster.set().update_revision.clone().unwrap();
        cluster.approve(&revision);
    }
    cluster.quiet();
}

/// All states of a gate, with their words.
pub(super) fn states() -> impl Iterator<Item = (GateState, &'static str)> {
    GateState::VARIANTS.iter().map(|state| (*state, state.word()))
}
