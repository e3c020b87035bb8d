//! The scenarios that the catalogue asks for besides those of the peer (A14): how gates are counted, disturbed, crashed
//! through and left.

use sts_plus_api::phased_rollout::{GateState, Phase, PhasedRolloutSpec, ReleasePolicy};

use super::cluster::{Cluster, NEW, OLD, SUCCESSES, WEB, idle, rolling, rollout, spec, with_replicas};
use super::states::{at, mend, states};
use crate::phased_rollout::Note;
use crate::phased_rollout::row::ParsedSpec;

#[test]
fn b_a14_5_n_pods_have_n_gates_and_one_more_to_verify_the_last() {
    for replicas in [0, 1, 2, 3, 5] {
        for verify_last in [true, false] {
            let mut cluster = with_replicas(replicas).with(|spec| spec.verify_last = verify_last).managed();
            cluster.edit(NEW);
            cluster.quiet();
            cluster.finish();
            let down = (0..replicas).rev().map(|partition| partition.to_string());
            let pinned = (replicas > 0).then(|| replicas.to_string());
            let expected: Vec<_> = pinned.clone().into_iter().chain(down).chain(pinned).collect();
            assert_eq!(cluster.partitions(), expected, "{replicas} {verify_last}");
            // Without pods the new revision is current at once, and there is nothing to gate.
            let gates = if replicas == 0 { 0 } else { replicas + u32::from(verify_last) };
            assert_eq!(cluster.questions, gates as usize * SUCCESSES as usize, "{replicas} {verify_last}");
            assert_eq!(cluster.announced("GatePassed").len(), replicas as usize);
            assert_eq!(cluster.announced("RolloutStarted").len(), usize::from(replicas > 0));
            assert_eq!(cluster.announced("RolloutCompleted").len(), usize::from(replicas > 0));
            assert_eq!(cluster.status().rollout_end_time.is_some(), replicas > 0);
            assert_eq!(cluster.revisions(), vec![NEW; replicas as usize]);
        }
    }
}

/// What comes in between, how, and the revision and the replicas that the set ends with.
type Disturbance = (&'static str, fn(&mut Cluster), &'static str, u32);

/// What may come in between, at any state of a gate.
const DISTURBANCES: [Disturbance; 10] = [
    ("replicas up", |cluster| cluster.reset(|set| set.replicas = 5), NEW, 5),
    ("replicas down", |cluster| cluster.reset(|set| set.replicas = 1), NEW, 1),
    ("replicas to 0", |cluster| cluster.reset(|set| set.replicas = 0), NEW, 0),
    ("partition to 0", |cluster| cluster.interfere(0), NEW, 3),
    ("partition to 3", |cluster| cluster.interfere(3), NEW, 3),
    ("partition to 99", |cluster| cluster.interfere(99), NEW, 3),
    ("another template", |cluster| cluster.edit("third"), "third", 3),
    ("revert", |cluster| cluster.edit(OLD), OLD, 3),
    ("suspend and resume", |cluster| suspend_and_resume(cluster, ReleasePolicy::Resume), NEW, 3),
    ("freeze and resume", |cluster| suspend_and_resume(cluster, ReleasePolicy::Freeze), NEW, 3),
];

fn suspend_and_resume(cluster: &mut Cluster, policy: ReleasePolicy) {
    let partition = cluster.partition();
    cluster.respec(|spec| {
        spec.skip_check = true;
        spec.suspend_policy = policy;
    });
    cluster.pass();
    let left = if policy == ReleasePolicy::Resume { 0 } else { partition };
    assert_eq!((cluster.status().phase, cluster.partition()), (Some(Phase::Suspended), left));
    cluster.respec(|spec| spec.skip_check = false);
}

#[test]
fn b_a14_6_every_disturbance_at_every_state_of_a_gate_ends_well() {
    for (state, word) in states() {
        for (what, disturb, revision, replicas) in DISTURBANCES {
            let mut cluster = at(state);
            disturb(&mut cluster);
            cluster.quiet();
            mend(&mut cluster);
            cluster.finish();
            let told = format!("{what} at {word}:\n{cluster}");
            assert_eq!(cluster.revisions(), vec![revision; replicas as usize], "{told}");
            assert_eq!(cluster.partition(), replicas, "{told}");
            let restored = cluster.announced("PartitionRestored").len();
            assert_eq!(restored, usize::from(what.starts_with("partition")), "{told}");
        }
    }
}

/// The last pod was let go, and the operator sleeps while its successor comes and the revision is promoted.
fn promoted_and_not_pinned() -> Cluster {
    let mut cluster = rolling();
    cluster.until(|cluster| cluster.gate().partition == 1);
    cluster.native = false;
    cluster.until(|cluster| cluster.partition() == 0);
    cluster.native = true;
    while let Some(work) = cluster.work().into_iter().next() {
        cluster.perform(&work);
    }
    cluster
}

#[test]
fn b_a14_7_a_revision_between_all_updated_and_the_pin_does_not_slip_through_unseen() {
    let mut cluster = promoted_and_not_pinned();
    assert_eq!(cluster.set().current_revision.as_deref(), Some(NEW));
    assert_eq!(cluster.partition(), 0, "not pinned yet");
    cluster.edit("third");
    while cluster.revisions() != [NEW, NEW, "third"] {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.quiet();
    assert_eq!(
        (cluster.partition(), cluster.revisions()),
        (2, vec![NEW, NEW, "third"]),
        "held as soon as seen"
    );
    assert_eq!(cluster.status().ungated_pods, ["web-2"], "and told");
    cluster.finish();
    assert_eq!(cluster.revisions(), ["third"; 3]);
}

#[test]
fn b_a14_7_a_revision_that_comes_and_goes_before_the_pin_is_brought_back() {
    let mut cluster = promoted_and_not_pinned();
    cluster.edit("third");
    while cluster.revisions() != [NEW, NEW, "third"] {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.edit(NEW);
    cluster.observe();
    cluster.native = false;
    cluster.pass();
    cluster.native = true;
    cluster.quiet();
    cluster.finish();
    assert_eq!(cluster.revisions(), [NEW; 3]);
}

#[test]
fn b_a14_8_deletion_lets_the_set_go_as_the_policy_says_and_then_the_finalizer() {
    for policy in [ReleasePolicy::Resume, ReleasePolicy::Freeze] {
        for (state, word) in states() {
            let mut cluster = at(state);
            cluster.respec(|spec| spec.deletion_policy = policy);
            cluster.delete_rollout(WEB);
            let plan = cluster.pass();
            assert!(cluster.rollouts.is_empty(), "{policy:?} at {word}");
            let partition = if policy == ReleasePolicy::Resume { 0 } else { 2 };
            assert_eq!(cluster.partition(), partition, "{policy:?} at {word}");
            assert_eq!(cluster.set().steering.phased_rollout, None);
            let last = plan.plan.steps.last().unwrap().writes.last().unwrap();
            assert_eq!(last.object().kind, crate::plan::Kind::PhasedRollout, "the finalizer goes last");
        }
    }
}

#[test]
fn b_a14_8_deletion_without_a_set_or_before_anything_was_managed_holds_nothing_up() {
    let mut cluster = rolling();
    (cluster.sets, cluster.pods) = (Vec::new(), Vec::new());
    cluster.delete_rollout(WEB);
    cluster.pass();
    assert!(cluster.rollouts.is_empty());

    let mut cluster = super::cluster::given();
    cluster.reset(|set| set.strategy = crate::set::Strategy::OnDelete);
    cluster.quiet();
    cluster.delete_rollout(WEB);
    cluster.pass();
    assert!(cluster.rollouts.is_empty());
    assert!(cluster.partitions().is_empty(), "a set that was never held is not written");
}

#[test]
fn b_a14_8_a_spec_that_cannot_be_read_moves_nothing_when_deleted() {
    let mut cluster = rolling();
    cluster.rollout_mut(WEB).spec = ParsedSpec::unreadable("targetRef: expected a string".to_owned());
    cluster.delete_rollout(WEB);
    cluster.pass();
    assert!(cluster.rollouts.is_empty());
    assert_eq!(cluster.partition(), 3);
}

#[test]
fn b_a14_8_a_deletion_that_is_interrupted_goes_on() {
    for writes in 0..3 {
        let mut cluster = at(GateState::WaitForChecks);
        cluster.delete_rollout(WEB);
        cluster.dies_after = Some(writes);
        cluster.quiet();
        assert!(cluster.rollouts.is_empty());
        assert_eq!((cluster.partition(), cluster.set().steering.phased_rollout.as_deref()), (0, None));
    }
}

#[test]
fn b_a14_9_when_the_first_of_two_is_deleted_the_second_goes_on_from_where_it_was() {
    let mut cluster = at(GateState::WaitForChecks);
    cluster.create_rollout(rollout("second", WEB));
    cluster.quiet();
    cluster.delete_rollout(WEB);
    cluster.quiet();
    assert_eq!(cluster.rollouts.len(), 1);
    assert_eq!(cluster.partition(), 2, "nothing moves in between");
    assert_eq!(cluster.revisions(), [OLD, OLD, NEW]);
    assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some("second"));
    assert!(cluster.announced("Released")[0].contains("handed over to the PhasedRollout second"));
    cluster.until(|cluster| cluster.rollout("second").status.phase == Some(Phase::Updated));
    assert_eq!(cluster.revisions(), [NEW; 3]);
    assert!(cluster.announced("PartitionRestored").is_empty());
}

#[test]
fn b_a14_9_a_successor_that_is_suspended_does_not_keep_the_set_where_it_was() {
    let mut cluster = at(GateState::WaitForChecks);
    let mut second = rollout("second", WEB);
    second.spec = ParsedSpec::of(&PhasedRolloutSpec { skip_check: true, ..spec(WEB) });
    cluster.create_rollout(second);
    cluster.quiet();
    assert_eq!(cluster.partition(), 2, "it has no say yet");
    cluster.delete_rollout(WEB);
    cluster.quiet();
    assert_eq!(cluster.rollout("second").status.phase, Some(Phase::Suspended));
    assert_eq!(
        (cluster.partition(), cluster.revisions()),
        (0, vec![NEW; 3]),
        "it rolls as Kubernetes does it"
    );
}

/// All that a rollout did and told, from the new template to the end.
fn history(prepare: impl FnOnce(&mut Cluster)) -> (Vec<String>, Vec<Note>, Cluster) {
    let mut cluster = idle();
    cluster.trace.clear();
    prepare(&mut cluster);
    cluster.edit(NEW);
    cluster.quiet();
    cluster.finish();
    let done = cluster.trace.iter().filter(|line| !line.starts_with("tell")).cloned().collect();
    (done, cluster.announced.clone(), cluster)
}

/// Writes of a whole rollout, with room.
const WRITES: usize = 80;

#[test]
fn b_a14_11_a_restart_at_every_step_changes_nothing_of_what_is_done() {
    let (expected, _, _) = history(|_| {});
    let mut crashes = 0;
    for writes in 0..WRITES {
        let (done, _, cluster) = history(|cluster| cluster.dies_after = Some(writes));
        crashes += usize::from(cluster.dies_after.is_none());
        assert_eq!(done, expected, "died after {writes} writes");
        assert!(cluster.announced("PartitionRestored").is_empty(), "its own step is not somebody else's");
        assert!(cluster.status().ungated_pods.is_empty());
    }
    assert!(crashes > 25, "it died at each of them: {crashes}");
    assert!(crashes < WRITES, "and there were no more");
}

#[test]
fn b_a14_11_a_last_step_that_was_not_written_down_is_known_after_the_promotion_too() {
    let mut cluster = rolling();
    cluster.until(|cluster| cluster.gate().partition == 1);
    cluster.native = false;
    while cluster.partition() == 1 {
        if cluster.gate().status == GateState::Passed {
            cluster.dies_after = Some(1);
        } else if cluster.wake_at.is_some_and(|at| at > cluster.now) && cluster.outcomes.is_empty() {
            cluster.now = cluster.wake_at.unwrap();
        }
        cluster.pass();
    }
    assert_eq!(cluster.gate().partition, 1, "the step was taken and not written down");
    cluster.native = true;
    while let Some(work) = cluster.work().into_iter().next() {
        cluster.perform(&work);
    }
    assert_eq!(cluster.set().current_revision.as_deref(), Some(NEW));
    cluster.quiet();
    cluster.finish();
    assert!(cluster.announced("PartitionRestored").is_empty(), "{cluster}");
    assert!(cluster.status().ungated_pods.is_empty());
    assert_eq!(cluster.announced("GatePassed").len(), 3);
}

#[test]
fn b_a14_12_conflicts_of_the_status_repeat_no_event_and_lose_no_count() {
    let (expected, told, calm) = history(|_| {});
    let mut conflicts = 0;
    for passes in 0..WRITES * 3 {
        let (done, announced, cluster) = history(|cluster| cluster.conflict_after = Some(passes));
        conflicts += usize::from(cluster.conflict_after.is_none());
        assert_eq!(done, expected, "conflict in pass {passes}");
        let reasons =
            |told: &[Note]| told.iter().map(|told| (told.reason, told.message.clone())).collect::<Vec<_>>();
        assert_eq!(reasons(&announced), reasons(&told), "conflict in pass {passes}");
        assert_eq!(cluster.questions, calm.questions, "no answer was lost or counted twice, pass {passes}");
    }
    assert!(conflicts > 40, "{conflicts}");
}
