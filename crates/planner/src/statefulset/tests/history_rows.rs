//! Revisions: C16 to C19, C54, C55, H1 to H8, T5, U23, U24.

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::super::Blocked;
use super::super::world::Presence;
use super::cluster::{Cluster, FOO, empty, given, spec};
use super::drive::{both, complete};
use super::operate::{How, Op, internal_error};
use super::server::Refusal;
use crate::plan::Kind;
use crate::revision;

fn revision_names(cluster: &Cluster) -> Vec<String> {
    cluster.revisions().iter().map(|row| row.name.to_string()).collect()
}

fn numbers(cluster: &Cluster) -> Vec<i64> {
    cluster.revisions().iter().map(|row| row.number).collect()
}

/// The data of a revision for the fixture with this image.
fn data(image: &str) -> Value {
    let mut template = spec()["template"].clone();
    template["spec"]["containers"][0]["image"] = json!(image);
    serde_json::from_str(&revision::patch(&template)).unwrap()
}

fn name_for(data: &Value, collisions: u32) -> String {
    revision::name(FOO, &revision::hash(&data.to_string(), collisions))
}

#[test]
fn c_c16_an_empty_history_begins_with_one_revision() {
    let mut cluster = given(|_| {});
    cluster.sync_well();
    let name = name_for(&data("one"), 0);
    assert_eq!(revision_names(&cluster), [name.as_str()]);
    assert_eq!(numbers(&cluster), [1]);
    assert_eq!(cluster.status()["currentRevision"], name);
    assert_eq!(cluster.status()["updateRevision"], name);
    assert_eq!(cluster.status()["collisionCount"], 0);
}

#[test]
fn c_c17_a_changed_template_makes_a_second_revision() {
    let mut cluster = complete(|_| {});
    cluster.image("two");
    cluster.sync_well();
    assert_eq!(numbers(&cluster), [1, 2]);
    assert_eq!(revision_names(&cluster), [name_for(&data("one"), 0), name_for(&data("two"), 0)]);
    assert_eq!(cluster.status()["currentRevision"], name_for(&data("one"), 0));
    assert_eq!(cluster.status()["updateRevision"], name_for(&data("two"), 0));
}

#[test]
fn c_c18_the_same_template_makes_nothing_new() {
    let mut cluster = complete(|_| {});
    // The first edit of the spec leaves the template alone, the second one changes it back before anybody looks.
    cluster.scale(2);
    cluster.sync_well();
    cluster.image("two");
    cluster.image("one");
    cluster.rest();
    assert_eq!(numbers(&cluster), [1]);
    assert_eq!(cluster.requested(Op::Create, Kind::Revision), 0);
    assert_eq!(cluster.requested(Op::Patch, Kind::Revision), 0);
}

#[test]
fn c_c19_the_template_of_an_older_revision_renumbers_it() {
    let mut cluster = complete(|_| {});
    for image in ["two", "three", "one"] {
        cluster.image(image);
        cluster.sync_well();
    }
    let names = [name_for(&data("two"), 0), name_for(&data("three"), 0), name_for(&data("one"), 0)];
    assert_eq!(revision_names(&cluster), names);
    assert_eq!(numbers(&cluster), [2, 3, 4]);
    assert_eq!(cluster.status()["updateRevision"], names[2]);
    assert_eq!(cluster.requested(Op::Create, Kind::Revision), 2);
    assert_eq!(cluster.requested(Op::Patch, Kind::Revision), 1);
}

#[test]
fn c_c54_the_history_limit_holds_while_the_status_cannot_be_written() {
    both(
        |_| {},
        |mut cluster, _| {
            cluster.rest();
            for number in 0..10 {
                cluster.image(&format!("image-{number}"));
                for _ in 0..5 {
                    cluster.fail(Op::Status, Kind::StatefulSet, 0, internal_error());
                    assert!(cluster.sync().failed(), "the status still cannot be written");
                    assert!(cluster.revisions().len() <= 4, "{cluster}");
                    cluster.faults.clear();
                }
            }
        },
    );
}

#[test]
fn c_c55_ten_updates_leave_as_many_revisions_as_the_limit_says() {
    for limit in [2, 0, 5, -2] {
        both(
            |spec| spec["revisionHistoryLimit"] = json!(limit),
            |mut cluster, mut chance| {
                cluster.rest();
                for number in 0..10 {
                    cluster.image(&format!("image-{number}"));
                    let pass = cluster.drive(&mut chance, |cluster| {
                        let most = usize::try_from(limit).map_or(usize::MAX, |limit| limit + 2);
                        assert!(cluster.revisions().len() <= most, "{limit}:\n{cluster}");
                    });
                    assert!(!pass.failed(), "{:?}", pass.errors);
                }
                let left = usize::try_from(limit).map_or(11, |limit| limit + 1);
                assert_eq!(cluster.revisions().len(), left, "{limit}");
                let deleted = if limit < 0 { 0 } else { 11 - left };
                assert_eq!(cluster.requested(Op::Delete, Kind::Revision), deleted);
            },
        );
    }
}

#[test]
fn c_h1_only_own_and_ownerless_revisions_count() {
    let mut cluster = given(|spec| spec["replicas"] = json!(1));
    cluster.add_set("bar", |_| {});
    let others = cluster.owner("bar");
    cluster.add_revision("others", 7, &data("one"), Some(others));
    cluster.sync_well();
    assert_eq!(cluster.revisions()[0].number, 1, "another parent's revision does not count");
    let mut cluster = given(|spec| spec["replicas"] = json!(1));
    cluster.add_revision("nobodys", 7, &data("zero"), None);
    let own = cluster.owner(FOO);
    cluster.add_revision("own", 8, &data("half"), Some(own));
    cluster.rest();
    assert_eq!(numbers(&cluster), [7, 8, 9], "an ownerless one and an own one do");
    assert!(cluster.revisions().iter().all(|row| row.owner.as_ref() == Some(&cluster.set().uid)));
}

#[test]
fn c_h2_a_taken_name_is_used_or_avoided() {
    // New, and no clash across parents: two sets with one template.
    let mut cluster = given(|_| {});
    cluster.add_set("bar", |_| {});
    cluster.sync_well();
    assert!(!cluster.sync_of("bar").failed());
    assert_eq!(cluster.revisions().len(), 2);
    assert_eq!(cluster.status()["collisionCount"], 0);
    // The name is taken by other data: renamed, and counted. The hash in the label keeps its first value.
    let mut cluster = given(|_| {});
    cluster.add_set("bar", |_| {});
    let (others, name) = (cluster.owner("bar"), name_for(&data("one"), 0));
    cluster.add_revision(&name, 1, &data("two"), Some(others));
    cluster.sync_well();
    let renamed = name_for(&data("one"), 1);
    assert_eq!(cluster.status()["updateRevision"], renamed);
    assert_eq!(cluster.status()["collisionCount"], 1);
    let label = &cluster.object(Kind::Revision, &renamed)["metadata"]["labels"][keys::REVISION_HASH];
    assert_eq!(*label, revision::hash(&data("one").to_string(), 0));
    assert_eq!(cluster.requested(Op::Get, Kind::Revision), 1);
    // Identical data of the set itself, which its cache does not show yet: the same object, nothing counted.
    let mut cluster = given(|_| {});
    cluster.server.memory = 10;
    let own = cluster.owner(FOO);
    cluster.server.change(Kind::StatefulSet, FOO, |_| {});
    cluster.add_revision(&name, 1, &data("one"), Some(own));
    cluster.lag.insert(Kind::Revision, 1);
    cluster.sync_well();
    assert_eq!(cluster.revisions().len(), 1);
    assert_eq!(cluster.status()["updateRevision"], name);
    assert_eq!(cluster.status()["collisionCount"], 0);
}

/// Q13: a revision that a former set of the same name left behind is waited for, not used.
#[test]
fn a_revision_of_a_former_set_is_waited_for() {
    let mut cluster = given(|_| {});
    let name = name_for(&data("one"), 0);
    let former = super::cluster::owner_reference("apps/v1", "StatefulSet", FOO, "uid-former");
    cluster.add_revision(&name, 1, &data("one"), Some(former));
    let pass = cluster.sync();
    assert_eq!(pass.blocked, Some(Blocked::NameOfFormerSet(name.into())));
    assert_eq!(cluster.pods().len(), 0);
    cluster.kubelets();
    cluster.rest();
    assert_eq!(cluster.counted(), [3, 3, 3]);
}

/// Q20: collisions end.
#[test]
fn collisions_are_bounded() {
    let mut cluster = given(|_| {});
    cluster.add_set("bar", |_| {});
    let others = cluster.owner("bar");
    for count in 0..16 {
        cluster.add_revision(&name_for(&data("one"), count), 1, &data("two"), Some(others.clone()));
    }
    let pass = cluster.sync();
    assert_eq!(pass.blocked, Some(Blocked::Collisions(16)));
    assert_eq!(pass.writes, 16, "no name is tried twice");
}

/// A quota, a webhook or a missing permission: the status must not name a revision that is not stored.
#[test]
fn c_h3_a_revision_that_cannot_be_stored_is_not_named_in_the_status() {
    let mut cluster = complete(|_| {});
    let before = cluster.status().clone();
    cluster.image("two");
    for _ in 0..3 {
        cluster.fail(
            Op::Create,
            Kind::Revision,
            0,
            How::Refused(Refusal::Failed("exceeded quota".to_owned())),
        );
        assert!(cluster.sync().failed());
        assert_eq!(*cluster.status(), before, "the new generation is not observed");
        assert_eq!(cluster.requested(Op::Status, Kind::StatefulSet), 0);
    }
    cluster.sync_well();
    assert_eq!(cluster.status()["updateRevision"], name_for(&data("two"), 0));
    // The same where an older revision cannot be made the latest one.
    cluster.image("one");
    let before = cluster.status().clone();
    cluster.fail(Op::Patch, Kind::Revision, 0, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(*cluster.status(), before);
    cluster.sync_well();
    assert_eq!(cluster.status()["updateRevision"], name_for(&data("one"), 0));
}

/// A conflict is not retried within the pass: the next pass is the retry.
#[test]
fn c_h3_renumbering_succeeds_is_unnecessary_fails_and_succeeds_after_conflicts() {
    let rolled_back = || {
        let mut cluster = complete(|_| {});
        cluster.image("two");
        cluster.sync_well();
        cluster.image("one");
        cluster.forget();
        cluster
    };
    let name = name_for(&data("one"), 0);
    let mut cluster = rolled_back();
    cluster.sync_well();
    assert_eq!(revision_names(&cluster).last(), Some(&name));
    assert_eq!(numbers(&cluster), [2, 3]);
    // Nothing to do: it is the latest already.
    cluster.sync_well();
    cluster.sync_well();
    assert_eq!(cluster.requested(Op::Patch, Kind::Revision), 1);
    let mut cluster = rolled_back();
    cluster.fail(Op::Patch, Kind::Revision, 0, internal_error());
    assert!(cluster.sync().failed());
    assert_eq!(numbers(&cluster), [1, 2]);
    let mut cluster = rolled_back();
    for _ in 0..2 {
        cluster.fail(Op::Patch, Kind::Revision, 0, How::Refused(Refusal::Conflict("changed".to_owned())));
        assert!(cluster.sync().failed());
    }
    cluster.sync_well();
    assert_eq!(numbers(&cluster), [2, 3]);
}

#[test]
fn c_h4_trimming_fails_for_a_missing_revision_and_works_for_an_existing_one() {
    let surplus = || {
        let mut cluster = complete(|spec| spec["revisionHistoryLimit"] = json!(0));
        cluster.add_revision("old", 0, &data("zero"), Some(cluster.owner(FOO)));
        cluster
    };
    let mut cluster = surplus();
    cluster.fail(Op::Delete, Kind::Revision, 0, How::Refused(Refusal::NotFound("gone".to_owned())));
    assert!(cluster.sync().failed());
    cluster.sync_well();
    assert_eq!(numbers(&cluster), [1]);
}

#[test]
fn c_h5_an_orphaned_revision_is_adopted_and_nothing_else() {
    let orphaned = || {
        let mut cluster = given(|_| {});
        cluster.add_revision("nobodys", 1, &data("zero"), None);
        cluster
    };
    let mut cluster = orphaned();
    cluster.sync_well();
    assert_eq!(cluster.written(), ["patch Revision nobodys"]);
    assert_eq!(cluster.revisions()[0].owner, Some(cluster.set().uid.clone()));
    // Somebody else was faster, or it is gone: both are errors.
    for refusal in [Refusal::Conflict("changed".to_owned()), Refusal::NotFound("gone".to_owned())] {
        let mut cluster = orphaned();
        cluster.fail(Op::Patch, Kind::Revision, 0, How::Refused(refusal));
        assert!(cluster.sync().failed());
        assert_eq!(cluster.pods().len(), 0, "nothing else happens in that pass");
    }
    // One that has an owner is not adopted.
    let mut cluster = given(|_| {});
    cluster.add_set("bar", |_| {});
    let others = cluster.owner("bar");
    cluster.add_revision("others", 1, &data("zero"), Some(others));
    cluster.sync_well();
    assert_eq!(cluster.requested(Op::Patch, Kind::Revision), 0);
}

/// Revisions are never released; pods are.
#[test]
fn c_h6_what_does_not_match_is_released_once() {
    let stranger = |owner: Option<Value>| {
        let mut cluster = complete(|_| {});
        let name = "goo-0";
        cluster.add_pod(name, &json!({ "app": "foo" }), owner);
        cluster
    };
    let own = complete(|_| {}).owner(FOO);
    let mut cluster = stranger(Some(own.clone()));
    cluster.sync_well();
    assert_eq!(cluster.written(), ["patch Pod goo-0"]);
    assert_eq!(*cluster.pod("goo-0").owner, *"");
    let mut cluster = stranger(Some(own));
    cluster.fail(Op::Patch, Kind::Pod, 0, How::Refused(Refusal::NotFound("gone".to_owned())));
    assert!(!cluster.sync().failed(), "what is gone needs no release");
    let foreign = super::cluster::owner_reference("apps/v1", "ReplicaSet", "other", "uid-other");
    for owner in [None, Some(foreign)] {
        let mut cluster = stranger(owner);
        cluster.sync_well();
        assert_eq!(cluster.written(), [""; 0]);
    }
    // A revision that the selector does not match stays the set's.
    let mut cluster = complete(|_| {});
    let name = revision_names(&cluster)[0].clone();
    cluster.server.change(Kind::Revision, &name, |value| value["metadata"]["labels"] = json!({}));
    cluster.sync_well();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn c_h7_equal_data_is_found_and_ties_are_broken_by_time_and_name() {
    // All three have one number: the order is time, then name. The last one decides whether anything has changed.
    let mut cluster = given(|_| {});
    let own = cluster.owner(FOO);
    cluster.add_revision("y", 5, &data("one"), Some(own.clone()));
    cluster.pass_time(1);
    cluster.add_revision("c", 5, &data("two"), Some(own.clone()));
    cluster.add_revision("b", 5, &data("three"), Some(own.clone()));
    assert_eq!(revision_names(&cluster), ["y", "b", "c"]);
    for (image, expected) in [("two", None), ("three", Some("b")), ("one", Some("y"))] {
        let mut cluster = cluster.clone();
        cluster.image(image);
        cluster.sync_well();
        let renumbered = cluster.revisions().into_iter().find(|row| row.number == 6);
        assert_eq!(renumbered.map(|row| row.name.to_string()).as_deref(), expected, "{image}");
        assert_eq!(cluster.requested(Op::Create, Kind::Revision), 0);
    }
    // Of several with equal data it is the latest that is taken.
    cluster.add_revision("z", 4, &data("one"), Some(own));
    cluster.sync_well();
    let renumbered = cluster.revisions().pop().unwrap();
    assert_eq!((&*renumbered.name, renumbered.number), ("y", 6));
}

/// The benchmark of listing among others' revisions is one of the cache's index; here it matters that the plan does not
/// look at what is not the set's, and that one pass trims a bounded number.
#[test]
fn c_h8_a_plan_is_bounded_however_long_the_history_is() {
    let mut cluster = complete(|_| {});
    cluster.add_set("bar", |_| {});
    let (own, others) = (cluster.owner(FOO), cluster.owner("bar"));
    for number in 0..500 {
        let data = data(&format!("image-{number}"));
        cluster.add_revision(&format!("others-{number}"), number, &data, Some(others.clone()));
        if number < 250 {
            cluster.add_revision(&format!("own-{number}"), 0, &data, Some(own.clone()));
        }
    }
    let pass = cluster.sync_well();
    assert_eq!(pass.writes, 100, "so many are trimmed in one pass");
    cluster.rest();
    assert_eq!(cluster.revisions().len(), 500 + 3);
    assert_eq!(cluster.requested(Op::Delete, Kind::Revision), 248);
}

/// Sets and revisions as servers before and after 1.34 wrote them: one without and one with an unset time in the template.
#[test]
fn c_t5_revisions_of_older_servers_are_taken_for_what_they_are() {
    let older = |mut data: Value| {
        data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        data
    };
    let (newer_data, older_data) = (data("one"), older(data("one")));
    let mixes = [
        // Both of the older server; the newer server's set, first seen by us or seen before; both revisions.
        (true, vec![("stored", older_data.clone())]),
        (false, vec![("stored", older_data.clone())]),
        (false, vec![("older", older_data), ("stored", newer_data)]),
    ];
    for (older_set, revisions) in mixes {
        for observed in [0, 1] {
            let mut cluster = given(|spec| {
                if older_set {
                    spec["template"]["metadata"]["creationTimestamp"] = Value::Null;
                }
            });
            let own = cluster.owner(FOO);
            for (number, (name, data)) in (1..).zip(&revisions) {
                cluster.add_revision(name, number, data, Some(own.clone()));
            }
            cluster.server.change(Kind::StatefulSet, FOO, |set| {
                set["status"]["currentRevision"] = json!("stored");
                set["status"]["updateRevision"] = json!("stored");
                set["status"]["observedGeneration"] = json!(observed);
            });
            cluster.rest();
            assert_eq!(cluster.requested(Op::Create, Kind::Revision), 0, "{older_set} {observed}");
            assert_eq!(cluster.requested(Op::Patch, Kind::Revision), 0, "{older_set} {observed}");
            assert_eq!(cluster.status()["currentRevision"], "stored");
            assert_eq!(cluster.status()["updateRevision"], "stored");
            assert!(cluster.pods().iter().all(|pod| pod.revision.as_deref() == Some("stored")));
        }
    }
}

/// Instead of applying the defaults of this server to an old revision: while the generation is the observed one, the
/// template is the one that the status speaks of, whatever fields a new server has added to it.
#[test]
fn fields_that_a_new_server_adds_do_not_roll_a_set() {
    let mut cluster = complete(|_| {});
    let stored = revision_names(&cluster);
    cluster.server.change(Kind::StatefulSet, FOO, |set| {
        let generation = set["metadata"]["generation"].as_i64().unwrap();
        set["spec"]["template"]["spec"]["fieldOfTomorrow"] = json!(true);
        // The server serves the new field without an edit: the generation is what it was.
        set["metadata"]["generation"] = json!(generation - 1);
    });
    cluster.rest();
    assert_eq!(cluster.written(), [""; 0]);
    assert_eq!(revision_names(&cluster), stored);
    // An edit of anything shows the new field as a change of the template, as it would upstream without its defaults.
    cluster.scale(4);
    cluster.rest();
    assert_eq!(cluster.revisions().len(), 2);
}

#[test]
fn c_u23_a_revision_gives_back_its_template_and_carries_annotations() {
    let mut cluster = given(|_| {});
    cluster.annotate("who", "me & <you>");
    cluster.sync_well();
    let row = cluster.revisions().remove(0);
    let template = revision::template(&row.data).unwrap();
    assert_eq!(Value::Object(template.clone()), spec()["template"]);
    assert_eq!(revision::patch(&Value::Object(template)), *row.data);
    let metadata = &cluster.object(Kind::Revision, &row.name)["metadata"];
    assert_eq!(metadata["annotations"], json!({ "who": "me & <you>" }));
    let hash = revision::hash(&row.data, 0);
    assert_eq!(metadata["labels"], json!({ "app": "foo", "tier": "db", keys::REVISION_HASH: hash }));
    assert_eq!(metadata["ownerReferences"], json!([cluster.owner(FOO)]));
}

#[test]
fn c_u24_pods_are_built_from_the_current_and_the_update_revision() {
    let mut cluster = complete(|spec| spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 3 }));
    let env = |value: &str| json!([{ "name": "A", "value": value }, { "name": "B", "value": "<&>" }]);
    cluster.edit(|spec| {
        spec["template"]["spec"]["containers"][0]["env"] = env("new");
        spec["template"]["metadata"]["labels"]["tier"] = json!("web");
        spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
    });
    cluster.sync_well();
    cluster.vanish("foo-0");
    cluster.rest();
    let container = |pod: &str| cluster.object(Kind::Pod, pod)["spec"]["containers"][0].clone();
    assert_eq!(container("foo-0"), spec()["template"]["spec"]["containers"][0]);
    assert_eq!(container("foo-1")["env"], env("new"));
    let tier = |pod: &str| cluster.object(Kind::Pod, pod)["metadata"]["labels"]["tier"].clone();
    assert_eq!((tier("foo-0"), tier("foo-1")), (json!("db"), json!("web")));
}

/// A stored revision that does not decode, where it is needed.
#[test]
fn an_unreadable_revision_stops_its_set_and_is_named() {
    let mut cluster = given(|_| {});
    let own = cluster.owner(FOO);
    cluster.add_revision("mangled", 1, &json!({ "spec": { "template": 5 } }), Some(own));
    cluster.server.change(Kind::StatefulSet, FOO, |set| set["status"]["currentRevision"] = json!("mangled"));
    let pass = cluster.sync();
    assert_eq!(pass.blocked, Some(Blocked::UnreadableRevision("mangled".into())));
    assert_eq!(pass.writes, 0);
    // Where nobody needs it, it is in nobody's way.
    cluster.server.change(Kind::StatefulSet, FOO, |set| set["status"]["currentRevision"] = json!(""));
    cluster.rest();
    assert_eq!(cluster.counted(), [3, 3, 3]);
}

#[test]
fn what_is_gone_or_going_adopts_nothing() {
    for (gone, presence) in [(false, Presence::Deleting), (true, Presence::Gone)] {
        let mut cluster = empty();
        cluster.server.memory = 20;
        cluster.add_set(FOO, |_| {});
        cluster.add_revision("nobodys", 1, &data("one"), None);
        let view = cluster.server.version;
        if gone {
            cluster.server.remove(Kind::StatefulSet, FOO);
        } else {
            let deleting =
                |set: &mut Value| set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            cluster.server.change(Kind::StatefulSet, FOO, deleting);
        }
        cluster.lag.insert(Kind::StatefulSet, usize::try_from(cluster.server.version - view).unwrap());
        let pass = cluster.sync();
        assert_eq!(pass.blocked, Some(Blocked::NotAlive(presence)));
        assert_eq!(cluster.written(), [""; 0]);
    }
}
