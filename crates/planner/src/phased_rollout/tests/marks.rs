//! The mark that comes with a partition: whatever is lost in between, a set that we have pinned is released again.

use sts_plus_api::phased_rollout::{Phase, ReleasePolicy};

use super::cluster::{Cluster, NEW, OLD, WEB, given, idle, rollout};
use super::edges::one_replaced;
use super::more_edges::other_set;
use crate::phased_rollout::row::RolloutRow;
use crate::set::Strategy;

/// More writes than it takes a new rollout to manage its set.
const WRITES: usize = 6;

/// A new rollout whose operator dies after so many writes. What it knew is only in the API objects.
fn died_after(writes: usize) -> Cluster {
    let mut cluster = given();
    cluster.native = false;
    cluster.dies_after = Some(writes);
    while cluster.dies_after.is_some() && cluster.status().phase != Some(Phase::Updated) {
        cluster.pass();
    }
    cluster.dies_after = None;
    cluster
}

/// Whether the set is pinned although the status does not know of it.
fn is_forgotten(cluster: &Cluster) -> bool {
    cluster.partition() > 0 && cluster.status().target.is_none()
}

#[test]
fn b_a14_8_a_set_pinned_just_before_a_crash_is_released_when_the_rollout_is_deleted() {
    let mut forgotten = 0;
    for writes in 0..WRITES {
        let mut cluster = died_after(writes);
        forgotten += usize::from(is_forgotten(&cluster));
        cluster.delete_rollout(WEB);
        cluster.quiet();
        assert!(cluster.rollouts.is_empty(), "{writes}");
        assert_eq!((cluster.partition(), &cluster.set().steering.phased_rollout), (0, &None), "{writes}");
    }
    assert_eq!(forgotten, 1, "the crash between pin and status is among them");
}

#[test]
fn b_a10_17_a_set_pinned_just_before_a_crash_is_released_when_another_target_is_named() {
    let mut forgotten = 0;
    for writes in 0..WRITES {
        let mut cluster = died_after(writes);
        forgotten += usize::from(is_forgotten(&cluster));
        cluster.create_set(other_set("other"));
        cluster.respec(|spec| spec.target_ref = "other".to_owned());
        cluster.quiet();
        assert_eq!((cluster.partition(), &cluster.set().steering.phased_rollout), (0, &None), "{writes}");
        let other = cluster.sets.iter().find(|set| &*set.name == "other").unwrap();
        assert_eq!(other.strategy, Strategy::RollingUpdate { partition: 3 }, "{writes}");
        assert_eq!(other.steering.phased_rollout.as_deref(), Some(WEB), "{writes}");
    }
    assert_eq!(forgotten, 1);
}

#[test]
fn b_a14_9_a_set_pinned_just_before_a_crash_is_handed_over_as_it_is() {
    for writes in 0..WRITES {
        let mut cluster = died_after(writes);
        let pinned_at = cluster.partition();
        cluster.create_rollout(rollout("second", WEB));
        cluster.delete_rollout(WEB);
        while cluster.rollouts.iter().any(|rollout| &*rollout.name == WEB) {
            cluster.pass();
        }
        assert_eq!(cluster.partition(), pinned_at, "nothing moves in between: {writes}");
        if pinned_at > 0 {
            assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some("second"), "{writes}");
        }
        // The successor has not done a pass of its own: the mark is all that says it holds the set.
        cluster.rollout_mut("second").finalizers.push("sts.plus/finalizer".to_owned());
        cluster.delete_rollout("second");
        cluster.pass_for("second");
        assert_eq!((cluster.partition(), &cluster.set().steering.phased_rollout), (0, &None), "{writes}");
    }
}

#[test]
fn b_a14_8_every_set_with_the_mark_is_released_one_after_the_other() {
    for (policy, left_at) in [(ReleasePolicy::Resume, 0), (ReleasePolicy::Freeze, 3)] {
        let mut cluster = idle().with(|spec| spec.deletion_policy = policy);
        cluster.quiet();
        let mut stray = other_set("stray");
        stray.strategy = Strategy::RollingUpdate { partition: 3 };
        stray.steering.phased_rollout = Some(WEB.into());
        cluster.create_set(stray);
        cluster.delete_rollout(WEB);
        cluster.pass();
        assert_eq!(cluster.rollouts.len(), 1, "the finalizer is removed last");
        cluster.quiet();
        assert!(cluster.rollouts.is_empty());
        for set in &cluster.sets {
            assert_eq!(set.strategy, Strategy::RollingUpdate { partition: left_at }, "{}", set.name);
            assert_eq!(set.steering.phased_rollout, None, "{}", set.name);
        }
    }
}

#[test]
fn b_a10_17_a_stray_mark_is_released_without_a_word_about_the_rollout_itself() {
    let mut cluster = one_replaced();
    let mut stray = other_set("stray");
    stray.strategy = Strategy::RollingUpdate { partition: 3 };
    stray.steering.phased_rollout = Some(WEB.into());
    cluster.create_set(stray);
    let before = cluster.status().clone();
    cluster.pass();
    assert_eq!(*cluster.status(), before);
    let stray = cluster.sets.iter().find(|set| &*set.name == "stray").unwrap();
    assert_eq!(stray.strategy, Strategy::RollingUpdate { partition: 0 });
    assert_eq!(cluster.partition(), 2, "the target is held as before");
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions(), [NEW; 3]);
}

#[test]
fn a_mark_that_somebody_removed_or_overwrote_is_put_back() {
    for mark in [None, Some("somebody")] {
        for mut cluster in [idle(), one_replaced()] {
            let partition = cluster.partition();
            let version = cluster.version();
            let set = cluster.set_mut();
            (set.steering.phased_rollout, set.resource_version) = (mark.map(Into::into), version);
            cluster.pass();
            assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(WEB));
            assert_eq!(cluster.partition(), partition);
            cluster.quiet();
            assert!(cluster.announced("PartitionRestored").is_empty(), "the partition was not touched");
        }
    }
}

#[test]
fn a_suspended_set_keeps_its_mark_and_gets_it_back() {
    let mut cluster = idle().with(|spec| spec.skip_check = true);
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.set().steering.phased_rollout.as_deref()), (0, Some(WEB)));
    cluster.set_mut().steering.phased_rollout = None;
    cluster.quiet();
    assert_eq!((cluster.partition(), cluster.set().steering.phased_rollout.as_deref()), (0, Some(WEB)));
    cluster.edit(NEW);
    cluster.quiet();
    assert_eq!(cluster.revisions(), [NEW; 3], "it rolls as Kubernetes does it");
    cluster.delete_rollout(WEB);
    cluster.quiet();
    assert_eq!(cluster.set().steering.phased_rollout, None);
}

#[test]
fn a_mark_is_released_by_its_own_rollout_only() {
    let mut cluster = idle();
    cluster.create_set(other_set("other"));
    cluster.create_rollout(RolloutRow { ..rollout("other", "other") });
    cluster.quiet();
    cluster.delete_rollout(WEB);
    cluster.quiet();
    let other = cluster.sets.iter().find(|set| &*set.name == "other").unwrap();
    assert_eq!(other.strategy, Strategy::RollingUpdate { partition: 3 });
    assert_eq!((cluster.partition(), cluster.revisions()), (0, vec![OLD; 3]));
}
