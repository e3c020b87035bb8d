//! Rolling updates, OnDelete, partitions, rollbacks and minReadySeconds: C46 to C48, C56 to C64, U27.

use serde_json::{Value, json};

use super::cluster::{Chance, Cluster};
use super::drive::{MANAGEMENT, both, complete, identities, rolling};
use super::operate::{Op, internal_error};
use crate::plan::Kind;

/// A change of the replicas that comes with the new template.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Plain,
    Up,
    Down,
}

impl Scale {
    fn replicas(self) -> (u32, u32) {
        match self {
            Self::Plain => (3, 3),
            Self::Up => (3, 5),
            Self::Down => (5, 3),
        }
    }
}

/// Runs a scenario for complete sets of both ways of managing pods; the rest of the arguments are for the scenario.
fn six(change: impl Fn(&mut Value), scales: &[Scale], run: impl Fn(Cluster, Chance, Scale)) {
    for scale in scales {
        println!("{scale:?}");
        let replicas = |spec: &mut Value| {
            spec["replicas"] = json!(scale.replicas().0);
            change(spec);
        };
        both(replicas, |mut cluster, chance| {
            cluster.rest();
            cluster.forget();
            run(cluster, chance, *scale);
        });
    }
}

const ALL: [Scale; 3] = [Scale::Plain, Scale::Up, Scale::Down];

/// Drives to rest, with what shall hold while a set rolls after each step.
#[track_caller]
fn roll(cluster: &mut Cluster, chance: &mut Chance) {
    let pass = cluster.drive(chance, rolling);
    assert!(!pass.failed(), "{:?}\n{cluster}", pass.errors);
    identities(cluster);
}

fn update(cluster: &mut Cluster, image: &str, replicas: u32) {
    cluster.edit(|spec| {
        spec["template"]["spec"]["containers"][0]["image"] = json!(image);
        spec["replicas"] = json!(replicas);
    });
}

#[track_caller]
fn settled(cluster: &Cluster, image: &str, replicas: u32) {
    assert_eq!(cluster.images(), vec![image; replicas as usize]);
    assert_eq!(cluster.counted(), [replicas; 3]);
    assert_eq!(cluster.counts().current, replicas);
    assert_eq!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
}

#[test]
fn c_c46_a_rolling_update_reaches_every_pod() {
    six(
        |_| {},
        &ALL,
        |mut cluster, mut chance, scale| {
            let (_, replicas) = scale.replicas();
            update(&mut cluster, "two", replicas);
            roll(&mut cluster, &mut chance);
            settled(&cluster, "two", replicas);
        },
    );
}

#[test]
fn c_c47_on_delete_leaves_pods_alone() {
    six(
        |spec| spec["updateStrategy"] = json!({ "type": "OnDelete" }),
        &ALL,
        |mut cluster, mut chance, scale| {
            let (before, replicas) = scale.replicas();
            update(&mut cluster, "two", replicas);
            roll(&mut cluster, &mut chance);
            let kept = before.min(replicas) as usize;
            let mut images = vec!["one"; kept];
            images.resize(replicas as usize, "two");
            assert_eq!(cluster.images(), images);
            // A pod that the user deletes comes back as the template says now.
            cluster.server.delete(Kind::Pod, "foo-1");
            roll(&mut cluster, &mut chance);
            assert_eq!(cluster.image_of("foo-1"), "two");
            cluster.scale(0);
            roll(&mut cluster, &mut chance);
            cluster.scale(replicas);
            roll(&mut cluster, &mut chance);
            assert_eq!(cluster.images(), vec!["two"; replicas as usize]);
            assert_eq!(cluster.counted(), [replicas; 3]);
            // In 1.36 a set with OnDelete is never promoted.
            assert_ne!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
            for claim in cluster.claims() {
                assert!(claim.owners.is_empty(), "{} keeps no reference", claim.name);
            }
        },
    );
}

#[test]
fn c_c48_a_partition_is_kept() {
    six(
        |spec| spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 2 }),
        &[Scale::Plain, Scale::Up],
        |mut cluster, mut chance, scale| {
            let (_, replicas) = scale.replicas();
            let kept = [cluster.pod("foo-0").uid.clone(), cluster.pod("foo-1").uid.clone()];
            update(&mut cluster, "two", replicas);
            roll(&mut cluster, &mut chance);
            let mut images = vec!["one"; 2];
            images.resize(replicas as usize, "two");
            assert_eq!(cluster.images(), images);
            assert_eq!([cluster.pod("foo-0").uid.clone(), cluster.pod("foo-1").uid.clone()], kept);
            assert_ne!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
            // A pod below the partition comes back as it was.
            cluster.server.delete(Kind::Pod, "foo-0");
            roll(&mut cluster, &mut chance);
            assert_eq!(cluster.images(), images);
            // L8: lowering it step by step ends where partition 0 does.
            for partition in [1, 0] {
                cluster.edit(|spec| spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(partition));
                roll(&mut cluster, &mut chance);
            }
            settled(&cluster, "two", replicas);
        },
    );
}

#[test]
fn c_c56_a_rollback_reaches_every_pod() {
    six(
        |_| {},
        &ALL,
        |mut cluster, mut chance, scale| {
            let (before, replicas) = scale.replicas();
            let first = cluster.status()["currentRevision"].clone();
            update(&mut cluster, "two", replicas);
            roll(&mut cluster, &mut chance);
            update(&mut cluster, "one", before);
            roll(&mut cluster, &mut chance);
            settled(&cluster, "one", before);
            assert_eq!(cluster.status()["currentRevision"], first, "a rollback reuses the name");
        },
    );
}

/// A rollback in the middle of an update.
#[test]
fn a_rollback_midway_reaches_every_pod() {
    both(
        |_| {},
        |mut cluster, mut chance| {
            cluster.rest();
            update(&mut cluster, "two", 3);
            for _ in 0..5 {
                cluster.sync_well();
                rolling(&cluster);
                let moves = cluster.moves();
                moves.first().into_iter().for_each(|next| cluster.perform(next));
            }
            assert!(cluster.images().contains(&"two") && cluster.images().contains(&"one"));
            update(&mut cluster, "one", 3);
            let pass = cluster.drive(&mut chance, |_| {});
            assert!(!pass.failed());
            settled(&cluster, "one", 3);
        },
    );
}

#[test]
fn c_c57_a_pod_is_available_after_min_ready_seconds() {
    for (seconds, available) in [(7200, 1), (1800, 0)] {
        let mut cluster = complete(|spec| {
            spec["replicas"] = json!(1);
            spec["minReadySeconds"] = json!(3600);
        });
        cluster.make_ready("foo-0");
        cluster.pass_time(seconds);
        let pass = cluster.sync_well();
        assert_eq!((cluster.counts().ready, cluster.counts().available), (1, available));
        assert_eq!(pass.wake_at.is_some(), available == 0);
    }
}

#[test]
fn c_c58_the_status_is_written_once_whatever_fails() {
    for (work_fails, status_fails) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut cluster = complete(|_| {});
        cluster.image("two");
        if work_fails {
            cluster.fail(Op::Delete, Kind::Pod, 0, internal_error());
        }
        if status_fails {
            cluster.fail(Op::Status, Kind::StatefulSet, 0, internal_error());
        }
        let pass = cluster.sync();
        assert_eq!(cluster.requested(Op::Status, Kind::StatefulSet), 1);
        assert_eq!(pass.failed(), work_fails || status_fails);
        if work_fails {
            assert!(
                pass.errors[0].contains("DeletePod"),
                "the error of the work comes first: {:?}",
                pass.errors
            );
        }
    }
}

/// The pods of the set have been Ready for so long.
fn ready_for(cluster: &mut Cluster, seconds: i64) {
    let since = cluster.server.now;
    for name in cluster.names() {
        cluster.make_ready_since(&name, since);
    }
    cluster.pass_time(seconds);
}

#[test]
fn c_c60_an_update_waits_for_min_ready_seconds() {
    for management in MANAGEMENT {
        let mut cluster = complete(|spec| {
            spec["replicas"] = json!(2);
            spec["minReadySeconds"] = json!(30);
            spec["podManagementPolicy"] = json!(management);
        });
        ready_for(&mut cluster, 10);
        cluster.sync_well();
        assert_eq!(cluster.counts().available, 0);
        if management == "OrderedReady" {
            cluster.image("two");
            cluster.sync_well();
            assert_eq!(cluster.terminating(), [""; 0], "the update is blocked");
        }
        cluster.pass_time(50);
        cluster.sync_well();
        assert_eq!(cluster.counts().available, 2);
    }
}

#[test]
fn c_c61_a_scale_down_waits_for_min_ready_seconds() {
    let mut cluster = complete(|spec| spec["minReadySeconds"] = json!(30));
    ready_for(&mut cluster, 10);
    cluster.scale(1);
    let pass = cluster.sync_well();
    assert_eq!(cluster.names().len(), 3);
    assert_eq!(cluster.terminating(), [""; 0]);
    cluster.server.now = pass.wake_at.unwrap();
    cluster.rest();
    assert_eq!(cluster.names(), ["foo-0"]);
}

#[test]
fn c_c62_on_delete_records_the_update_revision_inside_min_ready_seconds() {
    let mut cluster = complete(|spec| {
        spec["minReadySeconds"] = json!(30);
        spec["updateStrategy"] = json!({ "type": "OnDelete" });
    });
    ready_for(&mut cluster, 10);
    cluster.image("two");
    cluster.sync_well();
    assert_ne!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
    assert_eq!((cluster.counts().available, cluster.counts().ready), (0, 3));
}

#[test]
fn c_c63_without_min_ready_seconds_a_ready_pod_is_available() {
    let mut cluster = complete(|_| {});
    ready_for(&mut cluster, 0);
    cluster.sync_well();
    assert_eq!(cluster.counts().available, 3);
}

#[test]
fn c_c64_a_partition_changes_nothing_about_min_ready_seconds() {
    let mut cluster = complete(|spec| {
        spec["replicas"] = json!(4);
        spec["minReadySeconds"] = json!(30);
        spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 2 });
    });
    ready_for(&mut cluster, 10);
    cluster.image("two");
    cluster.sync_well();
    assert_eq!(cluster.terminating(), [""; 0]);
}

#[test]
fn c_u27_a_set_is_promoted_when_all_its_pods_are_updated_and_ready() {
    // Strategy, pods that are updated, pods that are Ready, pods that exist, of three; whether it is promoted.
    let cases = [
        ("RollingUpdate", 3, 3, 3, true),
        // Since 1.37 this one too.
        ("OnDelete", 3, 3, 3, false),
        ("RollingUpdate", 2, 3, 3, false),
        ("OnDelete", 2, 3, 3, false),
        ("RollingUpdate", 3, 2, 3, false),
        ("RollingUpdate", 2, 2, 2, false),
    ];
    for (strategy, updated, ready, existing, promoted) in cases {
        let mut cluster = complete(|spec| {
            spec["podManagementPolicy"] = json!("Parallel");
            spec["updateStrategy"]["type"] = json!(strategy);
            // Nothing moves by itself while the scenario is built.
            if strategy == "RollingUpdate" {
                spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 3 });
            }
        });
        cluster.image("two");
        cluster.sync_well();
        let update = cluster.status()["updateRevision"].clone();
        let first = cluster.status()["currentRevision"].clone();
        for ordinal in 0..3 {
            let name = format!("foo-{ordinal}");
            if ordinal < updated {
                let label = sts_plus_api::keys::CONTROLLER_REVISION;
                let updated = |pod: &mut Value| pod["metadata"]["labels"][label] = update.clone();
                cluster.server.change(Kind::Pod, &name, updated);
            }
            if ordinal >= ready && ordinal < existing {
                cluster.make_unready(&name);
            }
            if ordinal >= existing {
                cluster.vanish(&name);
            }
        }
        cluster.sync_well();
        let expected = if promoted { &update } else { &first };
        assert_eq!(cluster.status()["currentRevision"], *expected, "{strategy} {updated} {ready} {existing}");
        assert_eq!(cluster.status()["updateRevision"], update);
        if promoted {
            assert_eq!(cluster.counts().current, 3);
        }
    }
    // With no replicas a set is promoted at once.
    let mut cluster = complete(|spec| spec["replicas"] = json!(0));
    cluster.image("two");
    cluster.sync_well();
    assert_eq!(cluster.status()["currentRevision"], cluster.status()["updateRevision"]);
}
