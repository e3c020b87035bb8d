//! What upstream cannot do, what we do about it where we are asked, and how often a status is written.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sts_plus_api::keys;

use super::super::plan;
use super::cluster::{BAD, Chance, Cluster, FOO, given};
use super::drive::{both, complete};
use super::operate::Op;
use crate::plan::Kind;

/// A set whose update to a bad template was taken back.
fn rolled_back(management: &str, block: bool) -> Cluster {
    let mut cluster = complete(|spec| {
        spec["podManagementPolicy"] = json!(management);
        if block {
            spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0 });
        }
    });
    cluster.image(BAD);
    cluster.rest();
    assert_eq!(cluster.images(), ["one", "one", BAD], "the update waits for its first pod");
    cluster.image("one");
    cluster.forget();
    cluster
}

/// Q1: a template that is taken back does not help an orderly set; deleting the pod does.
#[test]
fn a_rollback_does_not_reach_a_pod_that_never_gets_ready() {
    let mut cluster = rolled_back("OrderedReady", true);
    cluster.rest();
    assert_eq!(cluster.images(), ["one", "one", BAD]);
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
    cluster.server.delete(Kind::Pod, "foo-2");
    cluster.rest();
    assert_eq!(cluster.images(), ["one", "one", "one"]);
    assert_eq!(cluster.counted(), [3, 3, 3]);
    // A parallel set gets there by itself.
    let mut cluster = rolled_back("Parallel", true);
    cluster.rest();
    assert_eq!(cluster.counted(), [3, 3, 3]);
}

#[test]
fn a_broken_pod_is_replaced_where_the_user_asks_for_it() {
    for management in ["OrderedReady", "Parallel"] {
        for block in [true, false] {
            let mut cluster = rolled_back(management, block);
            cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
            cluster.sync_well();
            assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-2"]);
            assert_eq!(cluster.told(), ["SuccessfulDelete", "BrokenPodReplaced"]);
            cluster.rest();
            assert_eq!(cluster.images(), ["one", "one", "one"], "{management} {block}");
            assert_eq!(cluster.counted(), [3, 3, 3]);
        }
    }
    // The very first template was the bad one.
    for block in [true, false] {
        let mut cluster = given(|spec| {
            spec["template"]["spec"]["containers"][0]["image"] = json!(BAD);
            if block {
                spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0 });
            }
        });
        cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
        cluster.rest();
        assert_eq!(
            cluster.requested(Op::Delete, Kind::Pod),
            0,
            "a pod of the wanted revision is not replaced for ever"
        );
        cluster.image("one");
        cluster.rest();
        assert_eq!(cluster.counted(), [3, 3, 3], "{block}");
    }
}

#[test]
fn a_pod_is_not_replaced_where_that_would_not_help_or_nobody_asked() {
    // Not asked for in the one way that counts.
    let mut cluster = rolled_back("OrderedReady", true);
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "yes");
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
    // Not broken, merely not Ready.
    let mut cluster = rolled_back("OrderedReady", true);
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
    cluster.make_broken("foo-2", "ContainerCreating");
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
    // Below the partition its successor would be the same.
    let mut cluster = complete(|spec| spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 3 }));
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
    cluster.image("two");
    cluster.make_broken("foo-2", "CrashLoopBackOff");
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
    // On its way out already.
    let mut cluster = rolled_back("OrderedReady", true);
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
    cluster.terminate("foo-2");
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
    // The user decides when: OnDelete.
    let mut cluster = rolled_back("OrderedReady", true);
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
    cluster.edit(|spec| spec["updateStrategy"] = json!({ "type": "OnDelete" }));
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
}

/// A parallel set whose pods are all broken, of a template that was corrected since.
fn corrected(container: &serde_json::Value) -> Cluster {
    let mut cluster = complete(|spec| {
        spec["podManagementPolicy"] = json!("Parallel");
        spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0 });
    });
    cluster.annotate(keys::REPLACE_BROKEN_PODS, "true");
    cluster.image("two");
    for pod in ["foo-0", "foo-1", "foo-2"] {
        let waits = json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } } });
        let containers = json!([waits, container]);
        let status = json!({ "phase": "Running", "containerStatuses": containers });
        cluster.server.change(Kind::Pod, pod, |value| value["status"] = status);
        cluster.server.change(Kind::Pod, pod, |value| value["spec"]["nodeName"] = json!("node"));
    }
    cluster.forget();
    cluster
}

#[test]
fn broken_pods_of_which_a_container_runs_are_replaced_one_at_a_time() {
    let mut cluster = corrected(&json!({ "state": { "running": {} } }));
    for pod in ["foo-2", "foo-1", "foo-0"] {
        cluster.sync_well();
        assert_eq!(cluster.written_to(Kind::Pod), [format!("delete {pod}")]);
        for successor in ["terminating", "missing", "not Ready"] {
            cluster.forget();
            cluster.sync_well();
            let creates = (successor == "missing").then(|| format!("create {pod}"));
            assert_eq!(
                cluster.written_to(Kind::Pod),
                creates.into_iter().collect::<Vec<_>>(),
                "{pod} is {successor}"
            );
            if successor == "terminating" {
                cluster.vanish(pod);
            }
        }
        cluster.make_ready(pod);
        cluster.forget();
    }
    cluster.rest();
    assert_eq!(cluster.images(), ["two", "two", "two"]);
}

#[test]
fn broken_pods_of_which_nothing_runs_are_replaced_together() {
    let mut cluster = corrected(&json!({ "state": { "terminated": {} } }));
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-2", "delete foo-1", "delete foo-0"]);
}

/// Q2: a scale-down of an orderly set tolerates one unhealthy condemned pod, the lowest.
#[test]
fn a_scale_down_tolerates_one_unhealthy_pod() {
    let five = |unready: &[&str]| {
        let mut cluster = complete(|spec| spec["replicas"] = json!(5));
        for pod in unready {
            cluster.make_unready(pod);
        }
        cluster.scale(2);
        cluster.sync_well();
        cluster
    };
    assert_eq!(five(&[]).terminating(), ["foo-4"]);
    assert_eq!(five(&["foo-4"]).terminating(), ["foo-4"]);
    assert_eq!(five(&["foo-2"]).terminating(), ["foo-4"]);
    let mut cluster = five(&["foo-3", "foo-4"]);
    assert_eq!(cluster.terminating(), [""; 0], "foo-4 is waited for");
    cluster.make_ready("foo-4");
    cluster.sync_well();
    assert_eq!(cluster.terminating(), ["foo-4"]);
    assert_eq!(five(&["foo-1"]).terminating(), [""; 0], "a slot that is not healthy comes first");
}

/// Q3: a pod of a third revision goes without being counted as one of the current revision.
#[test]
fn a_pod_of_a_third_revision_is_not_counted_as_current() {
    both(
        |_| {},
        |mut cluster, _| {
            cluster.rest();
            cluster.image("two");
            while cluster.image_of("foo-2") == "one" {
                cluster.sync_well();
                cluster.finish();
                if cluster.find_pod("foo-2").is_none() {
                    cluster.sync_well();
                }
            }
            cluster.make_ready("foo-2");
            cluster.image("three");
            let mut least = 3;
            let pass = cluster.drive(&mut Chance(3), |cluster| {
                let now = cluster.counts().current;
                if cluster.status()["currentRevision"] != cluster.status()["updateRevision"] {
                    least = least.min(now);
                    let current = cluster.set().current_revision.clone();
                    let there = cluster
                        .pods()
                        .iter()
                        .filter(|pod| pod.revision.as_deref() == current.as_deref())
                        .count();
                    assert!(now as usize >= there.saturating_sub(1), "{cluster}");
                }
            });
            assert!(!pass.failed());
            assert_eq!(cluster.images(), ["three", "three", "three"]);
            assert_eq!(least, 0);
        },
    );
}

/// Q5: a name that makes a label too long is refused by the server for each pod; that is told and waited out.
#[test]
fn a_name_that_is_too_long_for_a_label_is_told() {
    let mut cluster = given(|_| {});
    let name = "a".repeat(60);
    cluster.add_set(&name, |_| {});
    for _ in 0..3 {
        let pass = cluster.sync_of(&name);
        assert!(pass.failed());
        assert_eq!(cluster.told().last(), Some(&"FailedCreate"));
    }
    assert_eq!(cluster.pods().len(), 0);
    cluster.rest();
    assert_eq!(cluster.counted(), [3, 3, 3], "other sets are unharmed");
}

/// Q7: a partition is an index, not an ordinal.
#[test]
fn a_partition_counts_from_the_first_ordinal() {
    let mut cluster = complete(|spec| {
        spec["ordinals"] = json!({ "start": 5 });
        spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 2 });
    });
    cluster.image("two");
    cluster.rest();
    assert_eq!(cluster.names(), ["foo-5", "foo-6", "foo-7"]);
    assert_eq!(cluster.images(), ["one", "one", "two"]);
    cluster.vanish("foo-5");
    cluster.rest();
    assert_eq!(cluster.images(), ["one", "one", "two"]);
}

/// Q17: what terminates for ever is waited for, never forced.
#[test]
fn a_pod_that_terminates_for_ever_is_waited_for() {
    both(
        |_| {},
        |mut cluster, _| {
            cluster.rest();
            cluster.terminate("foo-1");
            cluster.image("two");
            cluster.scale(2);
            cluster.forget();
            for _ in 0..10 {
                cluster.sync_well();
                cluster.pass_time(3600);
            }
            let uid = cluster.pod("foo-1").uid.clone();
            assert!(!cluster.written().iter().any(|line| line.contains("foo-1")), "{uid}");
        },
    );
}

#[test]
fn the_status_of_a_set_in_motion_is_written_at_a_pace() {
    let mut cluster = complete(|_| {});
    cluster.paced = true;
    cluster.pass_time(60);
    cluster.make_unready("foo-2");
    cluster.sync_well();
    assert_eq!(cluster.counts().ready, 2, "the first change at once");
    // The next one waits for its time, and is not forgotten.
    cluster.make_unready("foo-1");
    let pass = cluster.sync_well();
    assert_eq!(cluster.counts().ready, 2);
    let wake_at = pass.wake_at.unwrap();
    assert!(wake_at.duration_since(cluster.server.now) <= SignedDuration::from_secs(2));
    cluster.server.now = wake_at;
    cluster.sync_well();
    assert_eq!(cluster.counts().ready, 1);
    // A set that has come to rest is told at once.
    cluster.make_ready("foo-1");
    cluster.make_ready("foo-2");
    cluster.sync_well();
    assert_eq!(cluster.counts().ready, 3);
    // So is one that others wait for: a new generation, new revisions.
    cluster.image("two");
    cluster.sync_well();
    assert_eq!(cluster.status()["observedGeneration"], 2);
    assert_eq!(cluster.requested(Op::Status, Kind::StatefulSet), 4);
    cluster.sync_well();
    assert_eq!(cluster.requested(Op::Status, Kind::StatefulSet), 4);
}

/// Pacing is by a clock that nobody sets, so the time of day only says when to look again.
#[test]
fn a_clock_that_is_set_back_does_not_silence_the_status() {
    let mut cluster = complete(|_| {});
    cluster.make_unready("foo-2");
    let set_back = cluster.server.now - SignedDuration::from_hours(1);
    let mut world = cluster.world(FOO).unwrap();
    world.memory.status_age = Some(Duration::from_millis(500));
    let paced = plan(&world, set_back).unwrap();
    assert_eq!((paced.status(), paced.plan.wake_at), (None, Some(set_back + Duration::from_millis(1500))));
    world.memory.status_age = Some(Duration::from_secs(2));
    assert!(plan(&world, set_back).unwrap().status().is_some());
}

/// The table of calls: what it costs to roll a pod, and that nothing is asked of the server at rest.
#[test]
fn a_pod_is_rolled_for_a_deletion_and_a_creation() {
    let mut cluster = complete(|_| {});
    cluster.image("two");
    cluster.rest();
    let requests: Vec<_> = cluster.requests.iter().filter(|((op, _), _)| *op != Op::Status).collect();
    let (delete, create, record) =
        ((Op::Delete, Kind::Pod), (Op::Create, Kind::Pod), (Op::Create, Kind::Revision));
    assert_eq!(requests, [(&create, &3), (&record, &1), (&delete, &3)]);
    cluster.forget();
    cluster.rest();
    assert_eq!(cluster.requests.len(), 0);
}

/// A pod that has ended and is outdated too goes once.
#[test]
fn an_outdated_pod_that_has_ended_is_deleted_once() {
    for features in [false, true] {
        let mut cluster = complete(|spec| spec["podManagementPolicy"] = json!("Parallel"));
        cluster.features.max_unavailable = features;
        cluster.image("two");
        cluster.set_phase("foo-2", "Failed");
        cluster.sync_well();
        assert_eq!(cluster.find_pod("foo-2"), None);
        cluster.rest();
        assert_eq!(cluster.images(), ["two", "two", "two"]);
    }
}

#[test]
fn an_input_that_nobody_means_has_an_end() {
    let cluster = given(|spec| {
        spec["replicas"] = json!(2_000_000_000);
        spec["podManagementPolicy"] = json!("Parallel");
        spec["ordinals"] = json!({ "start": 2_147_483_647 });
    });
    let decided = plan(&cluster.world(FOO).unwrap(), cluster.server.now).unwrap();
    let tasks: usize = super::work(&decided).iter().map(Vec::len).sum();
    assert!(tasks <= 5_000, "{tasks}");
}
