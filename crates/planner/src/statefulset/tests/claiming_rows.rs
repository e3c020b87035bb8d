//! The shell's part that decisions are made of: S1 to S6, S20 to S25, C59, T1 to T4, P20. Wake-ups are tested where they
//! happen, in the operator.

use serde_json::{Value, json};

use super::super::world::{Counts, Presence};
use super::super::{Blocked, plan};
use super::cluster::{Cluster, FOO, foo_labels, given, owner_reference};
use super::drive::{MANAGEMENT, both, complete, identities, set_policy, wanted_owners};
use super::operate::{How, Op, internal_error};
use super::server::Refusal;
use crate::plan::Kind;

#[test]
fn c_s1_a_set_is_created() {
    both(
        |_| {},
        |mut cluster, mut chance| {
            cluster.drive(&mut chance, |_| {});
            assert_eq!(cluster.counted(), [3, 3, 3]);
            identities(&cluster);
        },
    );
}

#[test]
fn c_s2_a_set_is_created_and_scaled_to_zero() {
    both(
        |_| {},
        |mut cluster, mut chance| {
            cluster.drive(&mut chance, |_| {});
            cluster.scale(0);
            cluster.drive(&mut chance, |_| {});
            assert_eq!(cluster.names(), [""; 0]);
            assert_eq!(cluster.counts(), Counts::default());
        },
    );
}

#[test]
fn c_s3_surplus_pods_on_their_way_out_are_respected() {
    both(
        |_| {},
        |mut cluster, mut chance| {
            cluster.rest();
            for name in ["foo-3", "foo-4"] {
                let owner = cluster.owner(FOO);
                cluster.add_pod(name, &foo_labels(name), Some(owner));
                cluster.make_ready(name);
                cluster.terminate(name);
            }
            cluster.forget();
            for _ in 0..5 {
                cluster.sync_well();
            }
            assert_eq!(cluster.names().len(), 5);
            assert_eq!(cluster.written_to(Kind::Pod), [""; 0]);
            cluster.drive(&mut chance, |_| {});
            assert_eq!(cluster.counted(), [3, 3, 3]);
        },
    );
}

#[test]
fn c_s4_a_terminating_pod_blocks_a_scale_up() {
    let mut cluster = complete(|_| {});
    cluster.terminate("foo-0");
    cluster.scale(5);
    for _ in 0..5 {
        cluster.sync_well();
    }
    assert_eq!(cluster.names().len(), 3);
    cluster.finish();
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), ["create foo-0", "create foo-3", "create foo-4"]);
    assert_eq!(cluster.counted(), [5, 5, 5]);
}

fn being_deleted(set: &mut Value) {
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    set["metadata"]["deletionTimestamp"] = json!("2025-06-15T15:06:40Z");
}

#[test]
fn c_s5_a_set_that_goes_creates_nothing() {
    let mut cluster = given(|_| {});
    cluster.server.change(Kind::StatefulSet, FOO, being_deleted);
    for _ in 0..3 {
        cluster.sync_well();
    }
    assert_eq!((cluster.names().len(), cluster.claims().len()), (0, 0));
    // Its status is kept up to date all the same.
    let mut cluster = complete(|_| {});
    cluster.server.change(Kind::StatefulSet, FOO, being_deleted);
    cluster.vanish("foo-2");
    cluster.make_unready("foo-1");
    cluster.sync_well();
    assert_eq!(cluster.counted(), [2, 1, 2]);
    assert_eq!(cluster.written(), ["status StatefulSet foo"]);
}

#[test]
fn c_s6_what_the_server_says_is_going_adopts_nothing() {
    let mut cluster = given(|_| {});
    cluster.server.memory = 10;
    cluster.add_pod("foo-0", &foo_labels("foo-0"), None);
    cluster.add_revision("nobodys", 1, &json!({ "spec": {} }), None);
    cluster.server.change(Kind::StatefulSet, FOO, being_deleted);
    cluster.lag.insert(Kind::StatefulSet, 1);
    let pass = cluster.sync();
    assert_eq!(pass.blocked, Some(Blocked::NotAlive(Presence::Deleting)));
    assert_eq!(cluster.written(), [""; 0]);
    assert_eq!(cluster.requested(Op::Get, Kind::StatefulSet), 1);
    assert_eq!(*cluster.pod("foo-0").owner, *"");
    // Q16: once the cache knows, nothing waits to be adopted and nothing is retried.
    cluster.lag.clear();
    assert!(!cluster.sync().failed());
}

#[test]
fn c_s20_own_pods_and_adoptable_orphans_are_claimed() {
    let mut cluster = given(|_| {});
    let own = cluster.owner(FOO);
    cluster.add_pod("foo-0", &foo_labels("foo-0"), Some(own));
    cluster.add_pod("foo-1", &foo_labels("foo-1"), None);
    cluster.add_pod("foo-2", &json!({ "app": "other" }), None);
    cluster.add_pod("goo-1", &foo_labels("goo-1"), None);
    let pass = cluster.sync_well();
    assert_eq!(cluster.written(), ["patch Pod foo-1"]);
    assert_eq!(pass.plan().status(), None, "adoption comes alone");
    assert_eq!(cluster.requested(Op::Get, Kind::StatefulSet), 1);
    let owners: Vec<_> =
        ["foo-0", "foo-1", "foo-2", "goo-1"].map(|name| cluster.pod(name).owner.clone()).into();
    assert_eq!(owners, [cluster.set().uid.clone(), cluster.set().uid.clone(), "".into(), "".into()]);
    // A pod that is going is nobody's any more.
    let mut cluster = complete(|_| {});
    cluster.scale(4);
    cluster.add_pod("foo-3", &foo_labels("foo-3"), None);
    cluster.terminate("foo-3");
    assert!(cluster.sync().failed(), "its name is not free yet");
    assert_eq!(cluster.requested(Op::Patch, Kind::Pod), 0);
    assert_eq!(cluster.told(), ["SuccessfulCreate"], "of the claim; nothing is told of the pod");
    cluster.finish();
    cluster.rest();
    assert_eq!(cluster.counted(), [4, 4, 4]);
}

#[test]
fn c_s21_an_ownerless_revision_is_adopted() {
    let mut cluster = complete(|_| {});
    let name = cluster.revisions()[0].name.clone();
    cluster.server.change(Kind::Revision, &name, |row| row["metadata"]["ownerReferences"] = json!([]));
    cluster.sync_well();
    assert_eq!(cluster.revisions()[0].owner, Some(cluster.set().uid.clone()));
    cluster.rest();
    assert_eq!(cluster.revisions().len(), 1);
    assert_eq!(cluster.written(), [format!("patch Revision {name}")]);
}

#[test]
fn c_s22_own_pods_that_do_not_match_are_released() {
    let mut cluster = complete(|_| {});
    let own = cluster.owner(FOO);
    cluster.add_pod("foo-x", &foo_labels("foo-x"), Some(own.clone()));
    cluster.add_pod("goo-1", &foo_labels("goo-1"), Some(own.clone()));
    cluster.server.change(Kind::Pod, "foo-2", |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    let pass = cluster.sync_well();
    assert_eq!(cluster.written(), ["patch Pod foo-2", "patch Pod foo-x", "patch Pod goo-1"]);
    assert_eq!(pass.plan().status(), None, "release comes alone");
    assert_eq!(cluster.requested(Op::Get, Kind::StatefulSet), 0, "a release needs no look at the set");
    for name in ["foo-2", "foo-x", "goo-1"] {
        assert_eq!(*cluster.pod(name).owner, *"", "{name}");
    }
    // A set that is going releases nothing.
    let mut cluster = complete(|_| {});
    cluster.server.change(Kind::StatefulSet, FOO, being_deleted);
    cluster.add_pod("goo-1", &foo_labels("goo-1"), Some(own));
    cluster.sync_well();
    assert_eq!(cluster.requested(Op::Patch, Kind::Pod), 0);
}

#[test]
fn c_s23_claims_of_adopted_pods_get_their_owners() {
    for scaled in ["Retain", "Delete"] {
        for deleted in ["Retain", "Delete"] {
            let mut cluster = given(|spec| {
                spec["replicas"] = json!(2);
                set_policy(spec, Some((scaled, deleted)));
            });
            let own = cluster.owner(FOO);
            // The last one is out of range, and the one before it is not the set's.
            for (name, owner) in [("foo-0", Some(own)), ("foo-1", None), ("goo-2", None), ("foo-3", None)] {
                cluster.add_claim(&format!("datadir-{name}"), &[]);
                cluster.add_pod(name, &foo_labels(name), owner);
                cluster.make_ready(name);
            }
            cluster.sync_well();
            cluster.sync_well();
            for (name, in_range) in [("foo-0", true), ("foo-1", true), ("foo-3", false)] {
                let owners = cluster.owners(&format!("datadir-{name}"));
                assert_eq!(owners, wanted_owners(&cluster, in_range, name), "{scaled} {deleted} {name}");
            }
            assert_eq!(cluster.owners("datadir-goo-2"), [""; 0]);
        }
    }
}

#[test]
fn c_s24_a_claim_that_is_about_to_go_is_not_given_to_a_new_pod() {
    both(
        |spec| set_policy(spec, Some(("Delete", "Retain"))),
        |mut cluster, _| {
            cluster.rest();
            cluster.scale(2);
            // The garbage collector is slow: the pod is gone, its claim is not.
            while cluster.find_pod("foo-2").is_some() {
                cluster.sync_well();
                cluster.finish();
            }
            assert_eq!(cluster.owners("datadir-foo-2"), ["Pod foo-2"]);
            let claim = cluster.claim("datadir-foo-2");
            cluster.scale(3);
            for _ in 0..5 {
                cluster.sync_well();
            }
            assert_eq!(cluster.find_pod("foo-2"), None, "the scale-up stalls");
            assert_eq!(cluster.claim("datadir-foo-2"), claim, "the claim is not touched");
            // Also while the collector is at it.
            cluster.server.delete(Kind::Claim, "datadir-foo-2");
            cluster.rest();
            assert_eq!(cluster.counted(), [3, 3, 3]);
            assert_ne!(cluster.claim("datadir-foo-2").uid, claim.uid);
        },
    );
}

#[test]
fn c_s25_a_set_is_looked_at_when_the_next_pod_becomes_available() {
    let mut cluster = given(|spec| {
        spec["replicas"] = json!(4);
        spec["podManagementPolicy"] = json!("Parallel");
        spec["minReadySeconds"] = json!(5);
    });
    cluster.sync_well();
    let now = cluster.server.now;
    let ago = |millis: i64| now.checked_sub(jiff::SignedDuration::from_millis(millis)).unwrap();
    for (name, millis) in [("foo-0", 0), ("foo-1", 2_000), ("foo-2", 4_300)] {
        cluster.make_ready_since(name, ago(millis));
    }
    let pass = cluster.sync_well();
    assert_eq!((cluster.counts().ready, cluster.counts().available), (3, 0));
    let wait = pass.wake_at.unwrap().duration_since(now);
    assert_eq!(wait, jiff::SignedDuration::from_millis(700));
    // Each is counted when its time has come, without anything else happening.
    for available in [1, 2, 3] {
        let pass = cluster.sync_well();
        cluster.server.now = pass.wake_at.unwrap();
        cluster.sync_well();
        assert_eq!(cluster.counts().available, available);
    }
    assert_eq!(cluster.sync_well().wake_at, None);
}

/// The width of a step stands for the requests that are under way together.
#[test]
fn c_c59_a_parallel_set_starts_slowly_and_then_broadly() {
    for (from, to, at_least) in [(3, 30, 2), (10, 1, 2), (501, 0, 10), (0, 1000, 20)] {
        let mut cluster = given(|spec| {
            spec["replicas"] = json!(from);
            spec["podManagementPolicy"] = json!("Parallel");
            spec["volumeClaimTemplates"][0]["metadata"]["labels"] = json!({ "of": "template" });
        });
        cluster.sync_well();
        cluster.names().iter().for_each(|name| cluster.make_ready(name));
        cluster.sync_well();
        cluster.forget();
        cluster.scale(to);
        for _ in 0..2 {
            cluster.sync_well();
            cluster.finish();
            cluster.names().iter().for_each(|name| cluster.make_ready(name));
        }
        cluster.sync_well();
        assert_eq!(cluster.counted(), [to; 3], "{from} to {to}");
        let (op, count) = if to > from { (Op::Create, to - from) } else { (Op::Delete, from - to) };
        assert_eq!(cluster.requested(op, Kind::Pod), count as usize, "no request is made twice");
        let widest = cluster.widest[&(op, Kind::Pod)];
        assert!((at_least..=500).contains(&widest), "{from} to {to}: {widest}");
        for stored in cluster.server.list(Kind::Claim) {
            assert_eq!(stored.value["metadata"]["labels"], json!({ "of": "template", "app": "foo" }));
        }
    }
    // One, two, four: a refusal that would meet all of them is found out early.
    let mut cluster = given(|spec| {
        spec["replicas"] = json!(100);
        spec["podManagementPolicy"] = json!("Parallel");
    });
    cluster.fail(Op::Create, Kind::Pod, 1, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(
        cluster.requested(Op::Create, Kind::Pod),
        3,
        "the batch is finished, the next one is not begun"
    );
    assert_eq!(cluster.names().len(), 2);
}

#[test]
fn c_t1_the_status_is_written() {
    let mut cluster = complete(|spec| spec["minReadySeconds"] = json!(10));
    cluster.vanish("foo-2");
    cluster.scale(2);
    cluster.make_ready("foo-1");
    cluster.sync_well();
    let status = cluster.status();
    assert_eq!(status["replicas"], 2);
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(status["availableReplicas"], 1);
    assert_eq!(status["readyReplicas"], 2);
    // What it says of others stays.
    let conditions = json!([{ "type": "Mine", "status": "True" }]);
    cluster.server.change(Kind::StatefulSet, FOO, |set| set["status"]["conditions"] = conditions.clone());
    cluster.make_unready("foo-0");
    cluster.sync_well();
    assert_eq!(cluster.status()["readyReplicas"], 1);
    assert_eq!(cluster.status()["conditions"], conditions);
}

/// The set is in need of a status write.
fn uncounted() -> Cluster {
    let mut cluster = complete(|_| {});
    cluster.make_unready("foo-2");
    cluster
}

fn conflict() -> How {
    How::Refused(Refusal::Conflict("changed".to_owned()))
}

#[test]
fn c_t2_a_status_that_cannot_be_written_is_an_error() {
    let mut cluster = uncounted();
    cluster.fail(Op::Status, Kind::StatefulSet, 0, internal_error());
    assert!(cluster.sync().failed());
    for _ in 0..5 {
        cluster.fail(Op::Status, Kind::StatefulSet, 0, conflict());
        assert!(cluster.sync().failed());
    }
    assert_eq!(cluster.counts().ready, 3);
}

/// Upstream tries again within the sync; here the next pass does.
#[test]
fn c_t3_a_status_is_written_after_a_conflict() {
    let mut cluster = uncounted();
    cluster.fail(Op::Status, Kind::StatefulSet, 0, conflict());
    assert!(cluster.sync().failed());
    cluster.sync_well();
    assert_eq!(cluster.counts().ready, 2);
}

/// That no pass begins before its view shows what was written is the executor's part. Here: were one to begin, the status
/// it wants to write would be refused, because it insists on the version that was looked at.
#[test]
fn c_t4_a_status_from_an_old_view_is_refused() {
    let mut cluster = uncounted();
    let before = cluster.world(FOO).unwrap();
    cluster.sync_well();
    let late = plan(&before, cluster.server.now).unwrap();
    let answer = cluster.server.write(late.status().unwrap());
    assert!(matches!(answer, Err(Refusal::Conflict(_))), "{answer:?}");
}

/// As for the status: what an old view leads to is refused, write by write.
#[test]
fn c_p20_writes_from_an_old_view_are_refused() {
    for management in MANAGEMENT {
        let mut cluster = given(|spec| {
            spec["podManagementPolicy"] = json!(management);
            set_policy(spec, Some(("Delete", "Delete")));
        });
        let mut refused = 0;
        for round in 0..60 {
            let before = cluster.world(FOO).unwrap();
            cluster.sync_well();
            let late = plan(&before, cluster.server.now).unwrap();
            for task in super::work(&late).iter().chain(&super::trim(&late)).flatten() {
                let version = cluster.server.version;
                let answer = cluster.server.write(&task.action);
                assert!(answer.is_err(), "{:?} was done twice", task.action);
                assert_eq!(cluster.server.version, version, "{:?}", task.action);
                refused += 1;
            }
            let moves = cluster.moves();
            moves.first().into_iter().for_each(|next| cluster.perform(next));
            match round {
                20 => cluster.image("two"),
                50 => cluster.scale(1),
                _ => {}
            }
        }
        assert!(refused > 10, "{management}: {refused}");
    }
}

/// Two sets with one selector: each keeps to the pods that bear its name.
#[test]
fn c_u21_two_sets_with_one_selector_do_not_fight() {
    let mut cluster = given(|_| {});
    cluster.add_set("bar", |_| {});
    cluster.add_pod("bar-1", &foo_labels("bar-1"), None);
    for _ in 0..30 {
        for set in [FOO, "bar"] {
            let pass = cluster.sync_of(set);
            assert!(!pass.failed(), "{:?}\n{cluster}", pass.errors);
        }
        let moves = cluster.moves();
        moves.first().into_iter().for_each(|next| cluster.perform(next));
    }
    cluster.kubelets();
    for (prefix, set) in [("foo", FOO), ("bar", "bar")] {
        let uid = cluster.set_of(set).0.uid.clone();
        for ordinal in 0..3 {
            assert_eq!(cluster.pod(&format!("{prefix}-{ordinal}")).owner, uid);
        }
    }
    assert_eq!(cluster.revisions().len(), 2);
    // A pod that another controller has is not touched, and whoever wants its name waits.
    let mut cluster = given(|_| {});
    let foreign = owner_reference("apps/v1", "ReplicaSet", "other", "uid-other");
    let uid = cluster.add_pod("foo-0", &foo_labels("foo-0"), Some(foreign));
    for _ in 0..3 {
        assert!(cluster.sync().failed());
    }
    assert_eq!(*cluster.pod("foo-0").uid, *uid);
    assert_eq!(cluster.requested(Op::Delete, Kind::Pod), 0);
}
