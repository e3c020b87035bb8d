//! The first edge cases (A10), in the order of the table: what we must do where the operator before us did not.

use sts_plus_api::phased_rollout::{GateState, Phase, ReleasePolicy};

use super::cluster::{Cluster, NEW, OLD, WEB, given, idle, rolling, with_replicas};
use crate::health::Health;
use crate::phased_rollout::TARGET_GRACE;
use crate::plan::Action;
use crate::set::Strategy;

/// The fixture with one pod replaced, at the gate behind it.
pub(super) fn one_replaced() -> Cluster {
    let mut cluster = rolling();
    cluster.until(|cluster| cluster.gate().partition == 2 && cluster.revisions()[2] == NEW);
    cluster
}

#[test]
fn b_a10_1_a_missing_target_is_told_after_a_while_and_taken_when_it_comes() {
    let mut cluster = given();
    let (set, pods) = (cluster.sets.remove(0), std::mem::take(&mut cluster.pods));
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::ErrorSTSNotFound));
    assert!(cluster.announced("TargetNotFound").is_empty(), "manifests are applied in any order");
    assert_eq!(cluster.condition("Stalled"), Some(("False", "TargetNotFound")));
    assert_eq!(cluster.wake_at, cluster.status().since.map(|since| since + TARGET_GRACE));
    cluster.wake();
    assert_eq!(cluster.announced("TargetNotFound"), ["StatefulSet web does not exist in this namespace."]);
    assert_eq!(cluster.condition("Stalled"), Some(("True", "TargetNotFound")));
    cluster.let_pass(3600);
    cluster.quiet();
    assert_eq!(cluster.announced("TargetNotFound").len(), 1, "told once");
    cluster.sets.push(set);
    cluster.pods = pods;
    cluster.quiet();
    assert_eq!((cluster.status().phase, cluster.partition()), (Some(Phase::Updated), 3));
}

#[test]
fn b_a10_2_a_wrong_strategy_is_named_and_the_set_is_not_touched() {
    let mut cluster = given();
    cluster.reset(|set| set.strategy = Strategy::OnDelete);
    cluster.quiet();
    assert_eq!(cluster.set().steering.phased_rollout, None);
    let message = cluster.status().message.as_deref().unwrap();
    assert!(message.contains("spec.updateStrategy.type of web is OnDelete, not RollingUpdate"), "{message}");
    cluster.reset(|set| set.strategy = Strategy::RollingUpdate { partition: 0 });
    cluster.quiet();
    assert_eq!((cluster.status().phase, cluster.partition()), (Some(Phase::Updated), 3));
    assert!(cluster.announced("PartitionRestored").is_empty(), "nobody has interfered");
}

#[test]
fn b_a10_3_a_strategy_changed_midway_keeps_the_gate_and_goes_on() {
    let mut cluster = one_replaced().with(|spec| spec.progress_deadline_seconds = Some(600));
    cluster.quiet();
    cluster.reset(|set| set.strategy = Strategy::OnDelete);
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::ErrorCannotManage));
    assert_eq!(cluster.gate().partition, 2, "kept");
    cluster.let_pass(3600);
    cluster.quiet();
    cluster.native = false;
    cluster.reset(|set| set.strategy = Strategy::RollingUpdate { partition: 0 });
    cluster.pass();
    cluster.native = true;
    assert_eq!(cluster.partition(), 2, "held again, and before anybody looked at it");
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::Rolling), "the hour does not count as delay: {cluster}");
    cluster.finish();
    assert_eq!(cluster.partitions(), ["3", "2", "2", "1", "0", "3"]);
    assert!(cluster.announced("PartitionRestored").is_empty());
}

#[test]
fn b_a10_3_paused_after_a_strategy_changed_midway_is_not_an_error() {
    let mut cluster = one_replaced();
    cluster.reset(|set| set.strategy = Strategy::OnDelete);
    cluster.respec(|spec| spec.paused = true);
    cluster.quiet();
    cluster.reset(|set| set.strategy = Strategy::RollingUpdate { partition: 2 });
    cluster.quiet();
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("Paused"));
    assert_eq!(cluster.status().phase, Some(Phase::Rolling));
}

#[test]
fn b_a10_4_one_pod_per_gate_also_where_the_native_controller_would_take_more() {
    let mut cluster = idle();
    cluster.set_ordered(false);
    cluster.edit(NEW);
    cluster.quiet();
    let mut before = cluster.revisions().iter().filter(|revision| **revision == NEW).count();
    while cluster.status().waiting_for.as_deref() != Some("UpToDate") {
        cluster.wake();
        let after = cluster.revisions().iter().filter(|revision| **revision == NEW).count();
        assert!(after <= before + 1, "{cluster}");
        before = after;
    }
    assert_eq!(cluster.partitions(), ["3", "2", "1", "0", "3"]);
}

#[test]
fn b_a10_5_replicas_raised_with_a_template_are_held_as_soon_as_they_are_seen() {
    let mut cluster = idle();
    cluster.edit(NEW);
    cluster.reset(|set| set.replicas = 5);
    cluster.pass();
    assert_eq!(cluster.partition(), 5, "before the native controller has looked");
    cluster.quiet();
    assert_eq!(cluster.revisions(), [OLD; 5], "no pod is born in the new revision");
    cluster.finish();
    assert_eq!(cluster.revisions(), [NEW; 5]);
}

#[test]
fn b_a10_5_pods_born_before_we_saw_it_are_listed() {
    let mut cluster = idle();
    cluster.edit(NEW);
    cluster.reset(|set| set.replicas = 5);
    while cluster.revisions().len() < 5 {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.quiet();
    assert_eq!(cluster.partition(), 3, "held where no further pod moves");
    assert_eq!(cluster.status().ungated_pods, ["web-3", "web-4"]);
    cluster.finish();
}

#[test]
fn b_a10_6_replicas_raised_midway_are_part_of_the_step_and_gated_again() {
    let mut cluster = one_replaced();
    cluster.wake();
    assert_eq!(cluster.gate().consecutive_successful_checks, 1);
    cluster.reset(|set| set.replicas = 4);
    cluster.quiet();
    assert_eq!(cluster.revisions(), [OLD, OLD, NEW, NEW]);
    assert_eq!((cluster.partition(), cluster.gate().consecutive_successful_checks), (2, 0), "gated again");
    cluster.finish();
    assert_eq!(cluster.revisions(), [NEW; 4]);
}

#[test]
fn b_a10_7_replicas_lowered_below_the_partition_leave_no_empty_gates() {
    let mut cluster = with_replicas(5).managed();
    cluster.edit(NEW);
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().partition == 4);
    cluster.reset(|set| set.replicas = 2);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.gate().partition), (2, 2));
    let begun = cluster.partitions().len();
    cluster.finish();
    assert_eq!(cluster.partitions()[begun..], ["1", "0", "2"], "a gate for each pod there is");
}

#[test]
fn b_a10_8_without_replicas_the_partition_is_0_and_pods_come_up_gated_by_nothing() {
    let mut cluster = with_replicas(0).managed();
    assert_eq!((cluster.partition(), cluster.status().phase), (0, Some(Phase::Updated)));
    cluster.edit(NEW);
    cluster.quiet();
    cluster.finish();
    cluster.reset(|set| set.replicas = 3);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.revisions()), (3, vec![NEW; 3]));
    cluster.reset(|set| set.replicas = 0);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.status().phase), (0, Some(Phase::Updated)));
}

#[test]
fn b_a10_9_a_revision_changed_midway_starts_from_the_top_and_pods_are_counted_by_revision() {
    let mut cluster = one_replaced();
    cluster.edit("third");
    cluster.quiet();
    let status = cluster.status();
    assert_eq!((cluster.gate().partition, status.update_revision.as_deref()), (3, Some("third")));
    let pods: Vec<_> = status.pods.iter().map(|pods| (&*pods.revision, pods.pods, pods.ready)).collect();
    assert!(pods.contains(&(OLD, 2, 2)), "{pods:?}");
    assert_eq!(pods.iter().map(|pods| pods.1).sum::<i32>(), 3);
    let told = cluster.announced("RolloutStarted");
    assert!(told[1].contains("replaces the one being rolled out"), "{told:?}");
    cluster.finish();
    assert_eq!(cluster.revisions(), ["third"; 3]);
}

#[test]
fn b_a10_9_outdated_pods_of_a_revision_that_never_worked_do_not_block_the_next() {
    let mut cluster = idle();
    cluster.edit("second-bad");
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 2);
    assert_eq!(cluster.gate().status, GateState::WaitForAllPodsToBeAvailable);
    cluster.edit("third");
    cluster.quiet();
    assert_eq!(cluster.announced("StuckPodReplaced").len(), 1, "{cluster}");
    cluster.finish();
    assert_eq!(cluster.revisions(), ["third"; 3]);
}

#[test]
fn what_no_later_plan_would_announce_is_announced_with_its_own_write() {
    let mut cluster = idle();
    cluster.interfere(0);
    let (_, plan) = cluster.plan(WEB);
    let actions: Vec<_> = plan.plan.steps.iter().flat_map(|step| &step.writes).collect();
    let [pin, status] = &actions[..] else { panic!("{actions:?}") };
    let reasons = |acknowledged: &[&Action]| -> Vec<_> {
        plan.plan.notes_after(acknowledged).map(|announcement| announcement.reason).collect()
    };
    assert_eq!(reasons(&[pin]), ["PartitionRestored"]);
    assert_eq!(reasons(&[status]), [""; 0], "one write of several");
    assert_eq!(reasons(&[]), [""; 0]);
}

#[test]
fn b_a10_10_a_revert_midway_brings_the_changed_pods_back_and_says_so() {
    let mut cluster = one_replaced();
    cluster.until(|cluster| cluster.gate().partition == 1);
    assert_eq!(cluster.revisions(), [OLD, NEW, NEW]);
    cluster.edit(OLD);
    // We are faster than the native controller's pods: it has reported, and not rolled.
    cluster.native = false;
    cluster.observe();
    cluster.pass();
    assert_eq!(cluster.partition(), 3, "pinned first");
    let deleted = |cluster: &Cluster| cluster.trace.iter().any(|line| line.starts_with("delete"));
    assert!(!deleted(&cluster), "the set's controller must know of it before a pod goes");
    cluster.native = true;
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions(), [OLD; 3]);
    assert_eq!(cluster.announced("RolledBack"), ["All pods are back on revision web-old."]);
    assert_eq!(cluster.announced("RollingBack").len(), 1);
    let deleted: Vec<_> = cluster.trace.iter().filter(|line| line.starts_with("delete")).collect();
    assert_eq!(deleted, ["delete web-1", "delete web-2"], "the newest first, one at a time: {cluster}");
    assert_eq!(cluster.status().phase, Some(Phase::Updated));
}

#[test]
fn b_a10_10_a_revert_that_the_native_controller_has_done_already_is_told_too() {
    let mut cluster = one_replaced();
    cluster.edit(OLD);
    while let Some(work) = cluster.work().into_iter().next() {
        cluster.perform(&work);
    }
    assert_eq!(cluster.revisions(), [OLD; 3], "it was faster");
    cluster.finish();
    assert_eq!(cluster.announced("RolledBack").len(), 1);
    assert!(!cluster.trace.iter().any(|line| line.starts_with("delete")));
}

#[test]
fn b_a10_10_a_revert_from_pods_that_never_worked_comes_through() {
    let mut cluster = idle();
    cluster.edit("second-bad");
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 2);
    cluster.edit(OLD);
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions(), [OLD; 3]);
}

#[test]
fn b_a10_11_created_midway_it_pins_first_where_nothing_more_moves() {
    let mut cluster = given();
    cluster.edit(NEW);
    cluster.native = true;
    while cluster.revisions() != [OLD, OLD, NEW] || !cluster.pods.iter().all(crate::pod::PodRow::ready) {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.pass();
    let plan = cluster.pass();
    assert_eq!(cluster.partition(), 2, "{plan:?}");
    cluster.quiet();
    assert_eq!(cluster.revisions(), [OLD, OLD, NEW]);
    assert_eq!(cluster.status().ungated_pods, ["web-2"]);
    cluster.finish();
    assert_eq!(cluster.partitions(), ["2", "1", "0", "3"]);
}

#[test]
fn b_a10_12_enabled_again_midway_it_pins_where_the_pods_are() {
    let mut cluster = one_replaced();
    cluster.respec(|spec| spec.skip_check = true);
    cluster.pass();
    assert_eq!(cluster.partition(), 0);
    assert_eq!(cluster.status().rolling_pod_status, None, "no gate is shown while suspended");
    cluster.native = true;
    while cluster.revisions() != [OLD, NEW, NEW] || !cluster.pods.iter().all(crate::pod::PodRow::ready) {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.respec(|spec| spec.skip_check = false);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.revisions()), (1, vec![OLD, NEW, NEW]));
    assert_eq!(cluster.status().ungated_pods, ["web-1", "web-2"]);
    cluster.finish();
}

#[test]
fn b_a10_12_a_frozen_suspension_keeps_its_place() {
    let mut cluster = one_replaced().with(|spec| {
        spec.skip_check = true;
        spec.suspend_policy = ReleasePolicy::Freeze;
    });
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.revisions()), (2, vec![OLD, OLD, NEW]));
    cluster.respec(|spec| spec.skip_check = false);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.gate().partition), (2, 2));
    assert!(cluster.status().ungated_pods.is_empty(), "web-2 has passed its gate");
    cluster.finish();
}

/// A rollout that is suspended in the middle, and frozen there.
fn frozen() -> Cluster {
    let mut cluster = one_replaced().with(|spec| {
        spec.skip_check = true;
        spec.suspend_policy = ReleasePolicy::Freeze;
    });
    cluster.quiet();
    cluster.trace.clear();
    cluster
}

#[test]
fn b_a10_12_a_frozen_partition_is_held_against_whoever_writes_it() {
    for foreign in [0, 1, 3] {
        let mut cluster = frozen();
        cluster.interfere(foreign);
        // Before the set's own controller has looked at it.
        cluster.pass();
        assert_eq!(cluster.partition(), 2, "{foreign}");
        cluster.quiet();
        assert_eq!((cluster.partition(), cluster.revisions()), (2, vec![OLD, OLD, NEW]), "{foreign}");
        assert_eq!(cluster.announced("PartitionRestored").len(), 1, "{foreign}");
        assert_eq!(cluster.status().phase, Some(Phase::Suspended));
        assert_eq!(cluster.condition("Conflict"), Some(("True", "PartitionContested")));
        cluster.respec(|spec| spec.skip_check = false);
        cluster.quiet();
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
    }
}

#[test]
fn b_a10_12_whoever_keeps_writing_a_frozen_partition_is_answered_ever_more_slowly() {
    let mut cluster = frozen();
    cluster.native = false;
    let mut delays = Vec::new();
    for time in 1..=20 {
        cluster.interfere(0);
        let begun = cluster.now;
        cluster.pass();
        if cluster.partition() == 0 {
            assert_eq!(cluster.status().waiting_for.as_deref(), Some("PartitionContested"), "{time}");
            assert_eq!(cluster.status().phase, Some(Phase::Suspended), "{time}");
            assert_eq!(cluster.condition("Ready"), Some(("False", "PartitionContested")));
            cluster.now = cluster.wake_at.unwrap();
            cluster.pass();
        }
        assert_eq!(cluster.partition(), 2, "restored in the end, {time}:\n{cluster}");
        delays.push(cluster.now.duration_since(begun).as_secs());
    }
    assert_eq!(delays[..5], [0; 5], "the first ones at once");
    assert!(delays[5..].is_sorted() && delays[19] >= 59 && delays[19] <= 60, "{delays:?}");
    cluster.native = true;
    cluster.quiet();
    cluster.until(|cluster| cluster.wake_at.is_none());
    assert_eq!((cluster.status().phase, &cluster.status().contest), (Some(Phase::Suspended), &None));
    assert_eq!(cluster.condition("Ready"), Some(("True", "Suspended")));
}

#[test]
fn b_a10_12_a_set_frozen_at_rest_lets_no_new_template_through_however_it_scales() {
    let mut cluster = idle().with(|spec| {
        spec.skip_check = true;
        spec.suspend_policy = ReleasePolicy::Freeze;
    });
    cluster.quiet();
    cluster.reset(|set| set.replicas = 5);
    cluster.quiet();
    assert_eq!(cluster.partition(), 5);
    cluster.edit(NEW);
    cluster.quiet();
    assert_eq!(cluster.revisions(), [OLD; 5]);
    assert!(cluster.announced("PartitionRestored").is_empty(), "nobody has interfered");
}

#[test]
fn b_a10_13_a_partition_overwritten_when_idle_is_restored_and_the_writer_named() {
    let mut cluster = idle();
    cluster.interfere(0);
    cluster.quiet();
    assert_eq!(cluster.partition(), 3);
    let told = cluster.announced("PartitionRestored");
    assert_eq!(told, ["argocd has set the partition to 0. It is restored to 3."]);
    assert_eq!(cluster.condition("Conflict"), Some(("True", "PartitionContested")));
    cluster.until(|cluster| cluster.wake_at.is_none());
    assert_eq!(cluster.condition("Conflict"), None, "over after a while");
}

#[test]
fn b_a10_14_a_partition_overwritten_midway_is_restored() {
    for foreign in [0, 1, 3, 9] {
        let mut cluster = one_replaced();
        cluster.interfere(foreign);
        cluster.pass();
        cluster.quiet();
        assert_eq!((cluster.partition(), cluster.gate().partition), (2, 2), "{foreign}");
        assert_eq!(cluster.announced("PartitionRestored").len(), 1, "{foreign}");
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
    }
}

#[test]
fn b_a10_14_pods_that_slipped_through_meanwhile_are_listed() {
    let mut cluster = one_replaced();
    cluster.interfere(0);
    while cluster.revisions() != [OLD, NEW, NEW] {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.quiet();
    assert_eq!(cluster.status().ungated_pods, ["web-1"]);
    assert_eq!(cluster.partition(), 2);
    cluster.finish();
}

#[test]
fn held_while_a_pod_of_another_set_of_the_group_is_down() {
    let mut cluster = idle().with_neighbour();
    cluster.stuck.insert("other-0".to_owned());
    cluster.edit(NEW);
    cluster.quiet();
    cluster.pod("other-0", |pod| pod.ready_since = None);
    cluster.until(|cluster| cluster.status().waiting_for.as_deref() == Some("OtherSetNotReady"));
    assert_eq!(cluster.partition(), 3);
    assert_eq!(cluster.gate().status, GateState::Passed);
    assert_eq!(cluster.announced("OtherSetNotReady").len(), 1);
    let world = cluster.world(WEB);
    assert!(Health::of(world.target.as_ref().unwrap(), cluster.now).all_ready());
    cluster.wake();
    assert_ne!(cluster.gate().status, GateState::Passed, "the row has got old: {cluster}");
    cluster.stuck.clear();
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions()[..3], [NEW; 3]);
}
