//! Lowering a partition that somebody else has raised, also of a suspended set that is frozen: what it releases needs a permit.

use sts_plus_api::phased_rollout::{GateStatus, OnFailure, Phase, ReleasePolicy};

use super::cluster::{Cluster, NEW, OLD, WEB, empty, given, idle};
use super::edges::one_replaced;

fn freeze(cluster: &mut Cluster) {
    cluster.respec(|spec| (spec.skip_check, spec.suspend_policy) = (true, ReleasePolicy::Freeze));
    cluster.quiet();
}

/// Somebody raises the partition to 3 while no operator runs, and web-2 is rebuilt from the current revision.
fn raised_and_rebuilt(cluster: &mut Cluster) {
    cluster.interfere(3);
    cluster.observe();
    cluster.pod("web-2", |pod| {
        pod.uid = "uid-rebuilt".into();
        pod.revision = Some(OLD.into());
    });
}

fn neighbour_is_ready(cluster: &mut Cluster, ready: bool) {
    if ready {
        cluster.stuck.clear();
    } else {
        cluster.stuck.insert("other-0".to_owned());
        cluster.pod("other-0", |pod| pod.ready_since = None);
    }
}

#[test]
fn b_i3_a_raised_partition_is_not_lowered_again_while_a_pod_of_another_zone_is_down() {
    for frozen in [false, true] {
        let mut cluster = one_replaced().with_neighbour();
        if frozen {
            freeze(&mut cluster);
        }
        raised_and_rebuilt(&mut cluster);
        neighbour_is_ready(&mut cluster, false);
        cluster.quiet();
        assert_eq!(cluster.partition(), 3, "web-2 would be replaced: {cluster}");
        assert_eq!(cluster.status().waiting_for.as_deref(), Some("OtherSetNotReady"), "frozen: {frozen}");
        assert_eq!(cluster.status().phase == Some(Phase::Suspended), frozen, "{cluster}");
        neighbour_is_ready(&mut cluster, true);
        cluster.quiet();
        assert_eq!((cluster.partition(), cluster.revisions()[2]), (2, NEW), "{cluster}");
    }
}

#[test]
fn b_i9_a_raised_partition_is_lowered_again_where_that_replaces_a_dead_pod() {
    let mut cluster = one_replaced().with_neighbour();
    raised_and_rebuilt(&mut cluster);
    neighbour_is_ready(&mut cluster, false);
    cluster.pod("web-2", |pod| (pod.ready_since, pod.running) = (None, false));
    cluster.stuck.insert("web-2".to_owned());
    cluster.pass();
    assert_eq!(cluster.partition(), 2, "nothing that serves is lost: {cluster}");
}

#[test]
fn b_i3_a_dead_pod_does_not_release_those_above_it() {
    let mut cluster = one_replaced().with_neighbour();
    cluster.interfere(3);
    cluster.observe();
    // Two pods would be released: one that is dead, and one that serves.
    let gate = cluster.gate().clone();
    let rollout = cluster.rollout_mut(WEB);
    rollout.status.rolling_pod_status = Some(GateStatus { partition: 1, ..gate });
    rollout.status.partition = Some(1);
    cluster.pod("web-2", |pod| pod.revision = Some(OLD.into()));
    cluster.pod("web-1", |pod| (pod.ready_since, pod.running) = (None, false));
    cluster.stuck.insert("web-1".to_owned());
    neighbour_is_ready(&mut cluster, false);
    cluster.pass();
    assert_eq!(cluster.partition(), 3, "web-2 serves: {cluster}");
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("OtherSetNotReady"));
}

#[test]
fn b_a10_12_a_set_frozen_at_its_first_gate_lets_no_new_pod_be_of_the_new_revision() {
    for rolled_back in [false, true] {
        let mut cluster = idle();
        if rolled_back {
            cluster.respec(|spec| spec.on_failure = OnFailure::Rollback);
            cluster.recheck(|check| check.failure_threshold = Some(1));
            cluster.say(empty());
        }
        cluster.edit(NEW);
        cluster.quiet();
        if rolled_back {
            cluster.until(|cluster| cluster.status().phase == Some(Phase::RolledBack));
        }
        freeze(&mut cluster);
        cluster.reset(|set| set.replicas = 5);
        // The operator is faster than the set's own controller here; what matters is where the partition stays.
        cluster.pass();
        cluster.quiet();
        assert_eq!((cluster.partition(), cluster.revisions()), (5, vec![OLD; 5]), "{cluster}");
        let plan = cluster.pass();
        assert!(plan.plan.steps.is_empty(), "{plan:?}");
    }
}

#[test]
fn b_a10_12_a_set_frozen_in_the_middle_keeps_its_partition_when_it_is_scaled() {
    let mut cluster = one_replaced();
    freeze(&mut cluster);
    cluster.reset(|set| set.replicas = 5);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.revisions()), (2, vec![OLD, OLD, NEW, NEW, NEW]), "{cluster}");
}

#[test]
fn b_a10_12_a_set_taken_while_frozen_is_held_whole_from_the_first_write_on() {
    let mut cluster = given();
    cluster.respec(|spec| (spec.skip_check, spec.suspend_policy) = (true, ReleasePolicy::Freeze));
    cluster.native = false;
    while cluster.status().target.is_none() {
        cluster.pass();
    }
    assert_eq!(cluster.partitions(), ["3"], "{cluster}");
    assert_eq!(cluster.status().partition, Some(3));
}
