//! The lock: what keeps a drained pod from coming back before the replicas are lowered.

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Answer, Cluster, LOCK, LOCKED, NEW, OLD, http, untaken, with};
use crate::scaling::hook::Call;
use crate::statefulset::world::Management;

/// A set of so many pods whose policy has added the lock.
fn locked(replicas: u32, declared: bool) -> Cluster {
    let mut cluster = with(replicas, false);
    cluster.declared = declared;
    cluster.respec("/scaleDown/fence", json!("Lock"));
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "{cluster}");
    cluster.forget();
    cluster
}

/// The same with a hook that makes the container exit.
fn exiting(replicas: u32, declared: bool) -> Cluster {
    let mut cluster = locked(replicas, declared);
    cluster.respec("/scaleDown/hook/expectExit", json!(true));
    cluster.answers.insert(Call::Prepare, Answer::Exit);
    cluster.run();
    cluster.forget();
    cluster
}

fn at(cluster: &Cluster, line: &str) -> usize {
    cluster.trace.iter().position(|it| it == line).unwrap_or_else(|| panic!("{line}:\n{cluster}"))
}

#[test]
fn a_b4_1_the_lock_is_added_in_one_rollout_that_is_announced() {
    let mut cluster = with(3, false);
    cluster.respec("/scaleDown/fence", json!("Lock"));
    cluster.run();
    assert_eq!(cluster.created, 3, "each pod is replaced once: {cluster}");
    assert!(at(&cluster, "create web-lock") < at(&cluster, "template web-old-locked"));
    assert_eq!(cluster.trace.iter().filter(|line| line.starts_with("template")).count(), 1);
    assert_eq!(cluster.events("LockAdded").len(), 1);
    let keys: Vec<_> = cluster.locks[0].keys.iter().map(|key| &**key).collect();
    assert_eq!(keys, ["0", "1", "2"]);
    let lock = cluster.status().lock.clone().unwrap();
    assert_eq!((&*lock.config_map, lock.template_generation), (LOCK, Some(cluster.set().generation)));
    let made = cluster.pass();
    assert!(made.plan.steps.is_empty() && made.plan.asks.is_empty(), "I11: {made:?}");
}

#[test]
fn a_b4_1_the_key_is_removed_before_the_call_and_the_pod_before_the_replicas_are_lowered() {
    let mut cluster = locked(3, true);
    cluster.scale(2);
    cluster.run();
    let (key, call) = (at(&cluster, "lock 0,1"), at(&cluster, "call web-2 prepare"));
    let (removed, lowered) = (at(&cluster, "remove web-2"), at(&cluster, "replicas 2"));
    assert!(key < call && call < removed && removed < lowered, "{cluster}");
    assert_eq!(cluster.called(Call::Prepare), 1);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn a_b9_6_a_pod_that_comes_in_the_place_of_a_drained_one_waits_and_is_not_called() {
    for declared in [false, true] {
        let mut cluster = locked(3, declared);
        cluster.scale(2);
        while !cluster.status().leaving.iter().any(|record| record.phase == RecordPhase::Drained) {
            cluster.pass();
            cluster.answer();
        }
        // The operator dies; the drained pod is evicted, and its set creates another one.
        cluster.die();
        cluster.kill("web-2");
        while let Some(work) = cluster.work().first().cloned() {
            cluster.perform(&work);
        }
        assert!(!cluster.pod("web-2").ready(), "it waits for its lock");
        cluster.run();
        assert_eq!(cluster.called(Call::Prepare), 1, "it has never served: {cluster}");
        assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
    }
}

#[test]
fn a_b9_6_a_pod_that_is_lost_before_it_was_drained_runs_again_to_be_called() {
    let mut cluster = locked(3, true);
    cluster.answers.insert(Call::Prepare, Answer::Fail("answered 500"));
    cluster.scale(2);
    cluster.quiet();
    assert!(!cluster.may_run("web-2"));
    cluster.kill("web-2");
    cluster.answers.clear();
    cluster.run();
    assert_eq!(cluster.events("HookRestarted").len(), 1);
    assert!(at(&cluster, "lock 0,1,2") > at(&cluster, "lock 0,1"), "the key comes back: {cluster}");
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
}

#[test]
fn a_b9_7_the_first_exit_after_the_call_is_its_success_and_the_lock_alone_holds() {
    let mut cluster = exiting(3, true);
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 1);
    assert!(at(&cluster, "exit web-2") < at(&cluster, "replicas 2"), "{cluster}");
    assert!(!cluster.trace.contains(&"remove web-2".to_owned()), "the lock alone holds it: {cluster}");
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn a_b9_7_without_the_rule_a_pod_that_has_exited_is_deleted() {
    let mut cluster = exiting(3, false);
    // Its container takes a while to become Ready.
    cluster.stuck.insert("web-2".to_owned());
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 1);
    let (exit, removed) = (at(&cluster, "exit web-2"), at(&cluster, "remove web-2"));
    assert!(exit < removed && removed < at(&cluster, "replicas 2"), "{cluster}");
}

#[test]
fn a_b9_7_an_exit_before_the_call_was_accepted_is_no_success() {
    let mut cluster = exiting(3, true);
    cluster.answers.insert(Call::Prepare, Answer::Fail("connection refused"));
    cluster.scale(2);
    cluster.quiet();
    cluster.exit("web-2");
    cluster.quiet();
    assert_eq!(cluster.set().replicas, 3, "{cluster}");
    cluster.answers.insert(Call::Prepare, Answer::Exit);
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
}

#[test]
fn a_b9_7_an_exit_between_the_last_look_and_the_accepted_answer_is_no_success() {
    let mut cluster = exiting(3, false);
    // The container that is started again serves its port before it is Ready.
    cluster.stuck.insert("web-2".to_owned());
    cluster.answers.insert(Call::Prepare, Answer::After(3));
    cluster.scale(2);
    while cluster.in_flight.is_empty() {
        cluster.pass();
    }
    cluster.exit("web-2");
    cluster.pass_time(3);
    assert!(cluster.answer(), "it is accepted by what runs now");
    cluster.quiet();
    assert_eq!(cluster.set().replicas, 3, "what has accepted the call has not exited: {cluster}");
    let again = "web-2 may have exited before its hook was accepted. Its hook runs again.";
    assert_eq!(cluster.events("HookRestarted"), [again], "{cluster}");
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining);
    // It exits when it is done.
    cluster.drained.insert("web-2".to_owned());
    cluster.exit("web-2");
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 2);
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"), "{cluster}");
}

#[test]
fn a_b9_7_another_pod_is_no_exit() {
    let mut cluster = exiting(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(3));
    cluster.scale(2);
    cluster.quiet();
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining);
    cluster.kill("web-2");
    cluster.quiet();
    assert_ne!(cluster.record(2).phase, RecordPhase::Drained);
    assert_eq!(cluster.set().replicas, 3, "{cluster}");
}

#[test]
fn a_b9_7_a_pod_that_ignores_its_lock_is_called_again() {
    let mut cluster = exiting(3, true);
    cluster.unruly.insert("web-2".to_owned());
    cluster.scale(2);
    for _ in 0..40 {
        cluster.pass();
        cluster.answer();
        if let Some(work) = cluster.work().first().cloned() {
            cluster.perform(&work);
        }
    }
    cluster.unruly.clear();
    cluster.run();
    assert!(cluster.called(Call::Prepare) >= 1);
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
}

#[test]
fn a_b9_8_keys_are_whole_ordinals_of_two_digits() {
    let mut cluster = locked(13, true);
    cluster.scale(9);
    cluster.run();
    assert_eq!(cluster.set().replicas, 9);
    let mut lock: Vec<u32> = cluster.locks[0].keys.iter().map(|key| key.parse().unwrap()).collect();
    lock.sort_unstable();
    assert_eq!(lock, (0..9).collect::<Vec<_>>());
    assert!(cluster.trace.contains(&"lock 0,1,10,11,2,3,4,5,6,7,8,9".to_owned()), "12 goes first: {cluster}");
}

#[test]
fn a_b9_5_a_pod_that_is_wanted_again_gets_its_key_back_before_its_call_is_taken_back() {
    let mut cluster = locked(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(5));
    cluster.scale(2);
    cluster.quiet();
    let uid = cluster.pod("web-2").uid.clone();
    cluster.scale(3);
    cluster.run();
    assert!(at(&cluster, "lock 0,1,2") < at(&cluster, "call web-2 cancel"), "{cluster}");
    assert_eq!((cluster.pod("web-2").uid.clone(), cluster.state().0), (uid, "AsRequested"));
}

#[test]
fn replicas_are_raised_once_the_lock_has_the_keys() {
    let mut cluster = locked(2, true);
    cluster.scale(4);
    cluster.run();
    assert!(at(&cluster, "lock 0,1,2,3") < at(&cluster, "replicas 4"), "{cluster}");
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn several_pods_leave_under_ordered_ready_although_those_in_their_place_never_become_ready() {
    let mut cluster = locked(5, true);
    cluster.respec("/scaleDown/maxConcurrent", json!(3));
    let uid = std::sync::Arc::clone(&cluster.set().uid);
    cluster.management.insert(uid, Management::OrderedReady);
    cluster.answers.insert(Call::Prepare, Answer::Exit);
    cluster.respec("/scaleDown/hook/expectExit", json!(true));
    cluster.scale(2);
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"), "{cluster}");
    assert_eq!(cluster.story().iter().filter(|line| line.starts_with("replicas")).count(), 1);
}

#[test]
fn a_lock_that_is_edited_or_deleted_by_hand_is_repaired() {
    let mut cluster = locked(3, true);
    cluster.locks[0].keys.insert("7".into());
    cluster.run();
    assert_eq!(cluster.locks[0].keys.len(), 3, "{cluster}");
    cluster.locks.clear();
    cluster.run();
    assert_eq!(cluster.locks[0].keys.len(), 3, "{cluster}");
    assert_eq!(cluster.created, 0, "no pod is restarted");
}

#[test]
fn a_config_map_of_somebody_else_is_a_condition_and_stays() {
    let mut cluster = with(3, false);
    cluster.foreign_lock = Some(LOCK.to_owned());
    cluster.respec("/scaleDown/fence", json!("Lock"));
    cluster.quiet();
    let message = "ConfigMap web-lock exists and does not belong to this ScalingPolicy, so that it cannot be the lock. Delete it.";
    assert_eq!(cluster.state(), ("LockForeign", message));
    assert_eq!(cluster.created, 0);
    cluster.foreign_lock = None;
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn an_operator_that_does_not_know_its_image_says_so_and_no_pod_leaves() {
    let mut cluster = with(3, false);
    cluster.lock_image = None;
    cluster.respec("/scaleDown/fence", json!("Lock"));
    cluster.scale(2);
    cluster.run();
    assert_eq!((cluster.state().0, cluster.set().replicas), ("LockUnavailable", 3));
    assert!(cluster.is_stalled());
}

#[test]
fn the_lock_is_removed_in_one_rollout_and_the_config_map_last() {
    for deletes in [false, true] {
        let mut cluster = locked(3, true);
        if deletes {
            cluster.delete_policy();
        } else {
            cluster.respec("/scaleDown/fence", json!("None"));
        }
        cluster.run();
        assert_eq!(cluster.created, 3, "each pod is replaced once: {cluster}");
        assert_eq!(cluster.objects.template_of(cluster.set()), OLD);
        assert!(cluster.locks.is_empty());
        assert_eq!(cluster.policies.is_empty(), deletes, "{cluster}");
        if !deletes {
            assert_eq!((cluster.state().0, cluster.status().lock.clone()), ("AsRequested", None));
        }
    }
}

#[test]
fn a_template_without_the_lock_is_restored_ever_more_slowly() {
    let mut cluster = locked(3, true);
    let mut restored = 0;
    for _ in 0..12 {
        cluster.edit(NEW);
        cluster.quiet();
        restored += usize::from(cluster.objects.template_of(cluster.set()).contains(LOCKED));
    }
    assert!((5..12).contains(&restored), "{restored} times");
    assert_eq!(cluster.state().0, "LockContested");
    assert!(cluster.is_stalled());
    cluster.run();
    assert!(cluster.objects.template_of(cluster.set()).contains(LOCKED));
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn pods_that_have_begun_to_leave_without_the_lock_finish_without_it() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(3));
    cluster.answers.insert(Call::Poll, Answer::After(3));
    cluster.scale(2);
    cluster.quiet();
    cluster.respec("/scaleDown/fence", json!("Lock"));
    cluster.quiet();
    assert!(!cluster.trace.iter().any(|line| line.starts_with("template")), "{cluster}");
    cluster.run();
    assert!(at(&cluster, "replicas 2") < at(&cluster, "template web-old-locked"), "{cluster}");
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn pods_that_have_begun_to_leave_with_the_lock_finish_with_it() {
    let mut cluster = locked(3, true);
    cluster.answers.insert(Call::Prepare, Answer::Hang);
    cluster.scale(2);
    cluster.quiet();
    cluster.respec("/scaleDown/fence", json!("None"));
    cluster.quiet();
    assert!(!cluster.trace.iter().any(|line| line.starts_with("template")), "{cluster}");
    cluster.answers.clear();
    cluster.run();
    assert!(at(&cluster, "replicas 2") < at(&cluster, "template web-old"), "{cluster}");
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn the_claims_of_a_drained_pod_are_deleted_once_it_is_gone() {
    for fence in ["None", "Lock"] {
        let mut cluster = with(3, false);
        cluster.claim();
        cluster.respec("/scaleDown/fence", json!(fence));
        cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
        cluster.run();
        cluster.forget();
        cluster.scale(1);
        cluster.run();
        assert!(at(&cluster, "replicas 2") < at(&cluster, "delete data-web-2"), "{cluster}");
        assert_eq!(cluster.claims.keys().collect::<Vec<_>>(), ["data-web-0"]);
        assert_eq!(cluster.events("ClaimsDeleted").len(), 2);
        assert!(cluster.status().leaving.is_empty());
    }
}

#[test]
fn a_deleted_claim_is_looked_at_again_since_nothing_else_says_what_became_of_it() {
    let mut cluster = with(3, false);
    cluster.claim();
    cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
    cluster.run();
    cluster.scale(2);
    while cluster.claims.len() > 2 {
        cluster.pass();
        cluster.answer();
        if let Some(work) = cluster.work().first().cloned() {
            cluster.perform(&work);
        }
    }
    assert_eq!(cluster.status().leaving.len(), 1, "{cluster}");
    assert!(cluster.wake_at.is_some(), "no watch shows it: {cluster}");
    cluster.run();
    assert_eq!((cluster.status().leaving.len(), cluster.state().0), (0, "AsRequested"));
}

#[test]
fn the_claims_of_a_drained_pod_are_kept_while_there_is_a_pod_that_the_cache_lacks() {
    let mut cluster = with(3, false);
    cluster.claim();
    cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
    cluster.run();
    cluster.scale(2);
    while cluster.set().replicas > 2 {
        cluster.pass();
        cluster.answer();
    }
    cluster.unseen.insert("web-2".to_owned());
    for _ in 0..3 {
        cluster.pass();
    }
    assert_eq!((cluster.claims.len(), cluster.status().leaving.len()), (3, 1), "{cluster}");
    assert!(cluster.wake_at.is_some());
    cluster.unseen.clear();
    cluster.run();
    assert_eq!((cluster.claims.len(), cluster.state().0), (2, "AsRequested"), "{cluster}");
}

#[test]
fn the_claims_of_a_pod_that_is_removed_by_force_are_kept_whatever_the_set_says() {
    let mut cluster = with(3, false);
    cluster.claim();
    cluster.when_scaled = Some("Delete".to_owned());
    cluster.forced = true;
    cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
    cluster.respec("/scaleDown/hook/onFailure", json!("Force"));
    cluster.answers.insert(Call::Prepare, Answer::Fail("answered 500"));
    cluster.scale(2);
    cluster.run();
    let retained = at(&cluster, "whenScaled \"Retain\"");
    assert!(retained < at(&cluster, "replicas 2"), "{cluster}");
    assert!(at(&cluster, "replicas 2") < at(&cluster, "whenScaled \"Delete\""), "{cluster}");
    assert_eq!(cluster.claims.len(), 3);
    assert_eq!((cluster.state().0, cluster.status().claim_retention.clone()), ("AsRequested", None));
}

#[test]
fn the_claims_of_an_ordinal_that_is_wanted_again_are_kept() {
    let mut cluster = with(3, false);
    cluster.claim();
    cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
    cluster.run();
    cluster.scale(2);
    while cluster.pods.len() > 2 {
        cluster.pass();
        cluster.answer();
        if let Some(work) = cluster.work().first().cloned() {
            cluster.perform(&work);
        }
    }
    cluster.scale(3);
    cluster.run();
    assert_eq!((cluster.claims.len(), cluster.state().0), (3, "AsRequested"), "{cluster}");
}

#[test]
fn expect_exit_without_the_lock_and_claims_without_a_hook_are_faults() {
    let mut hook = http(false);
    hook["expectExit"] = json!(true);
    let mut cluster = untaken(3, json!({ "scaleDown": { "hook": hook }, "replicas": 3 }));
    cluster.run();
    assert_eq!(cluster.state().0, "InvalidSpec");
    assert!(cluster.state().1.contains("scaleDown.hook.expectExit"), "{:?}", cluster.state());
    let mut cluster = untaken(3, json!({ "scaleDown": { "claims": "DeleteAfterDrain" }, "replicas": 3 }));
    cluster.run();
    assert!(cluster.state().1.contains("scaleDown.claims"), "{:?}", cluster.state());
}

#[test]
fn a_b9_5_a_call_that_expects_an_exit_is_taken_back_without_one() {
    let mut cluster = exiting(3, true);
    cluster.answers.insert(Call::Prepare, Answer::Done);
    cluster.respec("/scaleDown/hook/deadlineSeconds", json!(4800));
    cluster.scale(2);
    cluster.quiet();
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining, "it waits for the exit: {cluster}");
    cluster.scale(3);
    cluster.quiet();
    assert_eq!(cluster.called(Call::Cancel), 1);
    assert_eq!((cluster.events("Cancelled").len(), cluster.events("CancelFailed").len()), (1, 0));
    assert_eq!((cluster.state().0, cluster.status().leaving.len()), ("AsRequested", 0), "{cluster}");
}

#[test]
fn a_b9_7_a_container_that_is_ready_again_before_it_is_deleted_is_called_again() {
    let mut cluster = exiting(3, false);
    cluster.scale(2);
    while cluster.events("HookRestarted").is_empty() {
        cluster.pass();
        cluster.answer();
        if let Some(work) = cluster.work().first().cloned() {
            cluster.perform(&work);
        }
    }
    assert_eq!(cluster.set().replicas, 3, "{cluster}");
    cluster.stuck.insert("web-2".to_owned());
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
}

#[test]
fn a_b9_6_a_pod_that_comes_before_the_replicas_are_lowered_and_is_not_seen_gets_no_key() {
    let mut cluster = locked(3, true);
    cluster.scale(2);
    while !cluster.status().leaving.iter().any(|record| record.phase == RecordPhase::Drained) {
        cluster.pass();
        cluster.answer();
    }
    cluster.kill("web-2");
    while let Some(work) = cluster.work().first().cloned() {
        cluster.perform(&work);
    }
    cluster.unseen.insert("web-2".to_owned());
    for _ in 0..6 {
        cluster.pass();
        assert!(!cluster.may_run("web-2"), "{cluster}");
    }
    assert!(!cluster.pod("web-2").ready());
    assert_eq!((cluster.set().replicas, cluster.status().leaving.len()), (2, 0), "{cluster}");
    cluster.unseen.clear();
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested");
}

/// A crash before and after each write of a drain under the lock changes nothing of what must hold.
#[test]
fn a_b9_6_the_operator_may_die_before_and_after_each_write() {
    for declared in [false, true] {
        for exits in [false, true] {
            for writes in 0..40 {
                let mut cluster = if exits { exiting(3, declared) } else { locked(3, declared) };
                cluster.claim();
                cluster.respec("/scaleDown/claims", json!("DeleteAfterDrain"));
                cluster.run();
                cluster.stuck.extend(["web-1".to_owned(), "web-2".to_owned()]);
                cluster.dies_after = Some(writes);
                cluster.scale(1);
                cluster.run();
                assert_eq!(
                    (cluster.set().replicas, cluster.state().0),
                    (1, "AsRequested"),
                    "{writes}: {cluster}"
                );
                assert_eq!(cluster.claims.len(), 1, "{writes}: {cluster}");
            }
        }
    }
}
