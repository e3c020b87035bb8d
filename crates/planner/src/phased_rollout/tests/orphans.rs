//! A set is deleted without its pods and created again with another template, the usual way to change claim templates. Its
//! status calls the new revision current at once, and all pods are outdated: they are replaced gate by gate.

use std::sync::Arc;

use sts_plus_api::phased_rollout::{GateState, OnFailure, Phase, ReleasePolicy};

use super::cluster::{Cluster, NEW, OLD, WEB, data, empty, idle};
use super::edges::one_replaced;
use super::more_edges::other_set;
use crate::set::SetRow;

/// `kubectl delete --cascade=orphan` and a new set of this template, which adopts the pods. Its controller has not looked.
fn recreate(cluster: &mut Cluster, template: &str) {
    cluster.sets.retain(|set| &*set.name != WEB);
    let version = cluster.version();
    let set = SetRow {
        uid: format!("uid-web-{version}").into(),
        resource_version: version,
        current_revision: None,
        update_revision: None,
        observed_generation: 0,
        ..other_set(WEB)
    };
    cluster.templates.insert(Arc::clone(&set.uid), template.to_owned());
    for pod in &mut cluster.pods {
        pod.owner = Arc::clone(&set.uid);
    }
    cluster.sets.push(set);
}

/// Lets the set's controller and the kubelets do so many things, while no operator looks.
fn work(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        if let Some(work) = cluster.work().into_iter().next() {
            cluster.perform(&work);
        }
    }
}

fn deleted(cluster: &Cluster) -> Vec<&String> {
    cluster.trace.iter().filter(|line| line.starts_with("delete ")).collect()
}

#[test]
fn b_i6_a_set_created_again_over_its_pods_is_rolled_gate_by_gate() {
    for (mut cluster, template) in
        [(idle(), NEW), (one_replaced(), "third"), (one_replaced(), NEW), (one_replaced(), OLD)]
    {
        recreate(&mut cluster, template);
        cluster.trace.clear();
        cluster.announced.clear();
        let before: Vec<_> = cluster.revisions().iter().map(ToString::to_string).collect();
        cluster.pass();
        assert_eq!(cluster.partition(), 3, "pinned before its controller has looked");
        cluster.quiet();
        assert_eq!(cluster.revisions(), before, "every pod waits for its gate: {cluster}");
        assert_eq!(cluster.set().current_revision, cluster.set().update_revision);
        assert_eq!(cluster.status().phase, Some(Phase::Rolling), "{cluster}");
        assert_eq!(cluster.gate().partition, 3);
        cluster.finish();
        assert_eq!(cluster.revisions(), [template; 3]);
        // Where only the highest pod has to change there is nothing left to gate behind it.
        let down: &[_] = if template == OLD { &["3", "2", "3"] } else { &["3", "2", "1", "0", "3"] };
        assert_eq!(cluster.partitions(), down, "{cluster}");
        assert!(deleted(&cluster).is_empty(), "nothing is brought back: {cluster}");
        assert!(cluster.announced("RolledBack").is_empty() && cluster.announced("RollingBack").is_empty());
        assert_eq!(cluster.announced("RolloutStarted").len(), 1);
        assert_eq!(cluster.announced("RolloutCompleted").len(), 1);
        let plan = cluster.pass();
        assert!(plan.plan.steps.is_empty() && plan.plan.wake_at.is_none(), "{plan:?}");
    }
}

#[test]
fn b_i6_pods_replaced_before_the_pin_are_reported_and_the_others_gated() {
    for steps in 0..12 {
        let mut cluster = idle();
        recreate(&mut cluster, NEW);
        work(&mut cluster, steps);
        let lost = cluster.pods.iter().filter(|pod| pod.terminating).map(|pod| pod.name.to_string());
        let lost: Vec<_> = lost.collect();
        cluster.quiet();
        let replaced: Vec<_> = ["web-0", "web-1", "web-2"]
            .into_iter()
            .zip(cluster.revisions())
            .filter_map(|(pod, revision)| (revision == NEW).then_some(pod))
            .collect();
        let mut ungated = cluster.status().ungated_pods.clone();
        ungated.sort();
        assert_eq!(ungated, replaced, "{steps}: {cluster}");
        assert!(lost.iter().all(|pod| replaced.contains(&&**pod)), "{steps}: {cluster}");
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
        assert!(deleted(&cluster).is_empty(), "{steps}: {cluster}");
        assert!(cluster.announced("RolledBack").is_empty());
    }
}

#[test]
fn b_i6_a_failed_gate_of_such_a_set_can_only_pause() {
    for action in [OnFailure::Pause, OnFailure::Rollback] {
        for partition in [3, 2, 1, 0] {
            let mut cluster = idle().with(|spec| spec.on_failure = action);
            recreate(&mut cluster, NEW);
            cluster.quiet();
            cluster.until(|cluster| cluster.gate().partition == partition);
            cluster.recheck(|check| check.failure_threshold = Some(2));
            cluster.say(empty());
            cluster.quiet();
            cluster.until(|cluster| cluster.status().failure.is_some());
            cluster.quiet();
            let failure = cluster.status().failure.clone().unwrap();
            assert_eq!((&*failure.revision, failure.action), (NEW, OnFailure::Pause), "{cluster}");
            assert_eq!(cluster.status().phase, Some(Phase::Failed));
            let message = cluster.status().message.clone().unwrap();
            assert!(message.contains("the revision to restore is web-old"), "{message}");
            let held = if partition == 0 { 3 } else { u32::try_from(partition).unwrap() };
            assert_eq!(cluster.partition(), held, "{cluster}");
            let old = cluster.revisions().iter().filter(|revision| **revision == OLD).count();
            assert_eq!(old, usize::try_from(partition).unwrap(), "nothing moves: {cluster}");
            assert!(deleted(&cluster).is_empty());
            // Going back is a rollout of its own, with gates.
            cluster.say(data());
            cluster.edit(OLD);
            cluster.quiet();
            cluster.finish();
            assert_eq!(cluster.revisions(), [OLD; 3], "{cluster}");
        }
    }
}

#[test]
fn b_i6_a_crash_at_any_write_does_not_turn_it_into_a_rollback() {
    let mut crashes = 0;
    for writes in 0..60 {
        let mut cluster = idle();
        recreate(&mut cluster, NEW);
        cluster.trace.clear();
        cluster.dies_after = Some(writes);
        cluster.quiet();
        cluster.finish();
        crashes += usize::from(cluster.dies_after.is_none());
        assert_eq!(cluster.revisions(), [NEW; 3]);
        assert_eq!(cluster.partitions(), ["3", "2", "1", "0", "3"], "died after {writes}: {cluster}");
        assert!(deleted(&cluster).is_empty(), "died after {writes}: {cluster}");
    }
    assert!(crashes > 20, "{crashes}");
}

#[test]
fn b_i6_a_foreign_partition_does_not_let_such_pods_go_unseen() {
    for foreign in [0, 1, 3, 9] {
        let mut cluster = idle();
        recreate(&mut cluster, NEW);
        cluster.quiet();
        cluster.until(|cluster| {
            cluster.gate().partition == 2 && cluster.gate().status == GateState::WaitForInitialDelay
        });
        cluster.interfere(foreign);
        cluster.pass();
        cluster.quiet();
        assert_eq!(
            (cluster.partition(), cluster.revisions()),
            (2, vec![OLD, OLD, NEW]),
            "{foreign}: {cluster}"
        );
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
        assert!(deleted(&cluster).is_empty(), "{foreign}: {cluster}");
    }
}

#[test]
fn b_i6_a_pod_of_such_a_set_that_never_worked_does_not_hold_the_gates_up() {
    let mut cluster = idle();
    cluster.edit("second-bad");
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 2);
    recreate(&mut cluster, NEW);
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions(), [NEW; 3]);
    assert_eq!(cluster.announced("StuckPodReplaced").len(), 1, "{cluster}");
}

#[test]
fn b_i6_an_adopted_pod_that_is_not_ready_for_a_moment_is_not_replaced_without_its_gate() {
    let mut cluster = idle();
    recreate(&mut cluster, NEW);
    cluster.quiet();
    cluster.stuck.insert("web-1".to_owned());
    cluster.pod("web-1", |pod| pod.ready_since = None);
    cluster.quiet();
    assert_eq!((cluster.revisions(), deleted(&cluster).len()), (vec![OLD; 3], 0), "{cluster}");
    cluster.stuck.clear();
    cluster.quiet();
    cluster.finish();
    assert!(cluster.status().ungated_pods.is_empty());
}

#[test]
fn b_i6_a_pod_whose_label_was_taken_waits_for_a_gate_too() {
    let mut cluster = idle();
    cluster.pod("web-1", |pod| pod.revision = Some("stolen".into()));
    cluster.quiet();
    assert!(deleted(&cluster).is_empty(), "no rollout was under way: {cluster}");
    cluster.finish();
    assert_eq!(cluster.revisions(), [OLD; 3]);
    assert!(cluster.announced("RolledBack").is_empty());
}

/// A set created again over three pods of another revision, at its first gate.
fn adopting() -> Cluster {
    let mut cluster = idle();
    recreate(&mut cluster, NEW);
    cluster.quiet();
    cluster.trace.clear();
    cluster
}

fn freeze_for_a_while(cluster: &mut Cluster) {
    cluster.respec(|spec| (spec.skip_check, spec.suspend_policy) = (true, ReleasePolicy::Freeze));
    cluster.quiet();
    cluster.respec(|spec| spec.skip_check = false);
    cluster.quiet();
}

#[test]
fn b_i6_such_a_set_that_was_frozen_resumes_at_its_gate() {
    for partition in [3, 2, 1] {
        let mut cluster = adopting();
        cluster.until(|cluster| cluster.gate().partition == partition);
        freeze_for_a_while(&mut cluster);
        let old = cluster.revisions().iter().filter(|revision| **revision == OLD).count();
        assert_eq!(old, usize::try_from(partition).unwrap(), "{cluster}");
        assert_eq!(cluster.gate().partition, partition, "{cluster}");
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
        assert!(deleted(&cluster).is_empty() && cluster.announced("RolledBack").is_empty(), "{cluster}");
    }
}

#[test]
fn b_i6_such_a_set_whose_revision_has_failed_keeps_its_pods_when_it_was_frozen() {
    let mut cluster = adopting();
    cluster.recheck(|check| check.failure_threshold = Some(2));
    cluster.say(empty());
    cluster.until(|cluster| cluster.status().failure.is_some());
    freeze_for_a_while(&mut cluster);
    assert_eq!((cluster.revisions(), cluster.status().phase), (vec![OLD; 3], Some(Phase::Failed)));
    assert!(deleted(&cluster).is_empty(), "{cluster}");
    cluster.say(data());
    cluster.approve(NEW);
    cluster.quiet();
    cluster.finish();
    assert_eq!((cluster.revisions(), deleted(&cluster).len()), (vec![NEW; 3], 0), "{cluster}");
}

#[test]
fn b_i6_a_third_template_that_is_taken_back_leaves_the_adopted_pods_to_their_gates() {
    for replaced in [0, 1] {
        let mut cluster = adopting();
        cluster.edit("third");
        cluster.quiet();
        cluster.until(|cluster| cluster.gate().partition == 3 - replaced);
        cluster.edit(NEW);
        cluster.quiet();
        let old = cluster.revisions().iter().filter(|revision| **revision == OLD).count();
        assert_eq!(old, 3 - usize::try_from(replaced).unwrap(), "{cluster}");
        assert!(cluster.revisions().iter().all(|revision| *revision != "third"), "{cluster}");
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3]);
        assert_eq!(deleted(&cluster).len(), usize::try_from(replaced).unwrap(), "{cluster}");
    }
}

#[test]
fn b_i6_a_third_template_that_fails_leaves_the_adopted_pods_where_they_are() {
    let mut cluster = adopting();
    cluster.respec(|spec| spec.on_failure = OnFailure::Rollback);
    cluster.edit("third");
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().partition == 2);
    cluster.recheck(|check| check.failure_threshold = Some(2));
    cluster.say(empty());
    cluster.until(|cluster| cluster.status().failure.is_some());
    cluster.quiet();
    let failure = cluster.status().failure.clone().unwrap();
    assert_eq!(failure.action, OnFailure::Pause, "no gate has let the current revision through");
    assert_eq!((cluster.revisions(), deleted(&cluster).len()), (vec![OLD, OLD, "third"], 0), "{cluster}");
}

#[test]
fn b_i6_an_adopted_pod_that_is_not_ready_for_a_moment_stays_under_a_third_template_too() {
    let mut cluster = adopting();
    cluster.edit("third");
    cluster.quiet();
    cluster.stuck.insert("web-1".to_owned());
    cluster.pod("web-1", |pod| pod.ready_since = None);
    cluster.quiet();
    assert_eq!((cluster.revisions(), deleted(&cluster).len()), (vec![OLD; 3], 0), "{cluster}");
}

#[test]
fn b_i6_a_set_rolled_while_no_operator_ran_is_verified_and_its_pods_are_reported() {
    let mut cluster = idle();
    recreate(&mut cluster, NEW);
    while cluster.work().into_iter().next().is_some() {
        work(&mut cluster, 1);
    }
    assert_eq!(cluster.revisions(), [NEW; 3], "replaced by the set's own controller alone");
    cluster.recheck(|check| check.failure_threshold = Some(2));
    cluster.say(empty());
    cluster.quiet();
    assert_eq!(cluster.status().ungated_pods, ["web-0", "web-1", "web-2"], "{cluster}");
    assert_eq!((cluster.status().phase, cluster.partition()), (Some(Phase::Rolling), 3), "{cluster}");
    cluster.until(|cluster| cluster.status().failure.is_some());
    cluster.say(data());
    cluster.approve(NEW);
    cluster.quiet();
    cluster.finish();
    assert!(deleted(&cluster).is_empty(), "{cluster}");
}
