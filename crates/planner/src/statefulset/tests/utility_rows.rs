//! The small questions: names, identity, storage, who owns a claim: U1 to U20, U22, U25, P16.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::super::claims::{self, Owner, Policy};
use super::super::world::{ClaimRow, Keep, OwnerRef, Retention, World};
use super::super::{claiming, identity, slots};
use super::cluster::{Cluster, FOO, foo_labels, given};
use super::drive::{complete, set_policy};
use super::operate::Op;
use crate::ordinal;
use crate::plan::{Kind, Verb};
use crate::pod::{ClaimVolume, Phase, PodRow};

const SET: Owner<'_> = Owner { api_version: "apps/v1", kind: "StatefulSet", name: "foo", uid: "set-123" };
const POD: Owner<'_> = Owner { api_version: "v1", kind: "Pod", name: "foo-1", uid: "pod-456" };

const RETAIN: Retention = Retention { when_scaled: Keep::Retain, when_deleted: Keep::Retain };
const WITH_SET: Retention = Retention { when_scaled: Keep::Retain, when_deleted: Keep::Delete };
const WITH_POD: Retention = Retention { when_scaled: Keep::Delete, when_deleted: Keep::Retain };
const WITH_BOTH: Retention = Retention { when_scaled: Keep::Delete, when_deleted: Keep::Delete };

fn reference(owner: Owner<'_>, controller: Option<bool>) -> OwnerRef {
    OwnerRef {
        api_version: owner.api_version.into(),
        kind: owner.kind.into(),
        name: owner.name.into(),
        uid: owner.uid.into(),
        controller,
        block_owner_deletion: controller,
    }
}

fn ours(owner: Owner<'_>) -> OwnerRef {
    reference(owner, Some(true))
}

/// Something else that owns the claim without controlling it.
fn unrelated() -> OwnerRef {
    reference(Owner { api_version: "custom/v1", kind: "Random", name: "random", uid: "abc" }, None)
}

/// Something else that controls the claim.
fn foreign() -> OwnerRef {
    ours(Owner { api_version: "custom/v1", kind: "Unknown", name: "unknown", uid: "xyz" })
}

fn claim(owners: Vec<OwnerRef>) -> ClaimRow {
    let [name, uid, resource_version] = ["datadir-foo-1", "claim", "1"].map(Into::into);
    ClaimRow { name, uid, resource_version, terminating: false, owners, stable: None }
}

fn policy(retention: Retention, in_range: bool) -> Policy<'static> {
    Policy { retention, in_range, set: SET, pod: POD }
}

/// The rows of the table of wanted owners: the policy, whether the pod is in range, whether the pod and the set own it.
const WANTED: [(Retention, bool, bool, bool); 6] = [
    (RETAIN, true, false, false),
    (WITH_SET, true, false, true),
    (WITH_POD, true, false, false),
    (WITH_POD, false, true, false),
    (WITH_BOTH, true, false, true),
    (WITH_BOTH, false, true, false),
];

/// Where upstream's helper compares lists of owners, ours asks for the owners it knows: neither their order nor one that is
/// there twice matters.
#[test]
fn c_u1_the_order_of_owners_does_not_matter() {
    let lists = [
        (vec![ours(SET)], true),
        (vec![ours(SET), unrelated()], true),
        (vec![unrelated(), ours(SET)], true),
        (vec![ours(SET), ours(SET)], true),
        (vec![], false),
        (vec![unrelated()], false),
        (vec![unrelated(), unrelated()], false),
    ];
    for (owners, met) in lists {
        assert_eq!(policy(WITH_SET, true).is_met(&claim(owners.clone())), met, "{owners:?}");
    }
}

#[test]
fn c_u2_a_name_is_a_set_and_an_ordinal() {
    assert_eq!(ordinal::of_pod("foo-1", "foo"), Some(1));
    assert_eq!(ordinal::of_pod("foo-1", "fo"), None);
    for set in ["", "1", "1-bar", "bar"] {
        assert_eq!(ordinal::of_pod("1-bar", set), None);
    }
    // Q12: canonical ordinals only.
    assert_eq!(ordinal::of_pod("foo-007", "foo"), None);
    assert_eq!(ordinal::of_pod("foo-4294967296", "foo"), None);
}

#[test]
fn c_u3_a_claim_is_of_a_pod() {
    for (template, set, number) in [("datadir", "foo", 0), ("data-dir", "foo-bar", 12)] {
        let name = claims::name(template, set, number);
        assert_eq!(name, format!("{template}-{set}-{number}"));
        assert_eq!(ordinal::of_pod(&name, &format!("{template}-{set}")), Some(number));
    }
    for name in ["datadir-foo", "datadir-foo-", "datadir-foo-x", "datadir-food-1", "foo-1"] {
        assert_eq!(ordinal::of_pod(name, "datadir-foo"), None, "{name}");
    }
}

/// A row of a set that is well, with its pods.
fn world() -> (Cluster, World) {
    let cluster = complete(|_| {});
    let world = cluster.world(FOO).unwrap();
    (cluster, world)
}

fn pod(world: &World, change: impl FnOnce(&mut PodRow)) -> PodRow {
    let mut pod = (**world.pods.iter().find(|pod| *pod.name == *"foo-1").unwrap()).clone();
    change(&mut pod);
    pod
}

#[test]
fn c_u4_a_member_bears_the_name_of_its_set() {
    let (_, world) = world();
    let named = |name: &str| pod(&world, |pod| pod.name = name.into());
    for (name, member) in
        [("foo-1", true), ("foo-12", true), ("bar-1", false), ("foo-x", false), ("foo-1-2", false)]
    {
        assert_eq!(claiming::is_member(&world.set, &named(name)), member, "{name}");
    }
    let other = pod(&world, |pod| pod.labels = Arc::new([("app".into(), "bar".into())].into()));
    assert!(!claiming::is_member(&world.set, &other), "and has the labels that the set selects");
}

/// Whoever has another name is not a member (U4), and pods of another namespace are not in the world.
#[test]
fn c_u5_an_identity_is_wrong_without_its_label() {
    let (_, world) = world();
    assert_eq!(identity::repair(&world, 1, &pod(&world, |_| {})), None);
    assert!(identity::repair(&world, 1, &pod(&world, |pod| pod.named = false)).is_some());
    let renamed = pod(&world, |pod| pod.name = "goo-1".into());
    assert!(!claiming::is_member(&world.set, &renamed));
}

/// The defects of a pod's storage: no volumes, no volume that is a claim, another claim.
fn defects() -> [Vec<ClaimVolume>; 3] {
    let volume =
        |name: &str, claim: Option<&str>| ClaimVolume { name: name.into(), claim: claim.map(Into::into) };
    [vec![], vec![volume("other", None)], vec![volume("datadir", Some("datadir-foo-2"))]]
}

#[test]
fn c_u6_storage_is_wrong_without_the_right_claim() {
    let (_, world) = world();
    assert!(identity::storage_matches(&world, 1, &pod(&world, |_| {})));
    for volumes in defects() {
        let pod = pod(&world, |pod| pod.volumes = volumes.clone().into());
        assert!(!identity::storage_matches(&world, 1, &pod), "{volumes:?}");
    }
    // Without an ordinal a pod is not a member.
    assert!(!claiming::is_member(&world.set, &pod(&world, |pod| pod.name = "foo".into())));
}

#[test]
fn c_u7_a_repair_restores_the_labels() {
    let (mut cluster, _) = world();
    cluster.server.change(Kind::Pod, "foo-1", |pod| pod["metadata"]["labels"] = json!({ "app": "foo" }));
    cluster.sync_well();
    let pod = &cluster.object(Kind::Pod, "foo-1")["metadata"];
    assert_eq!(pod["labels"][keys::POD_NAME], "foo-1");
    assert_eq!(pod["labels"][keys::POD_INDEX], "1");
    assert_eq!(pod["namespace"], "prod");
}

/// Q10: a missing index alone is not repaired, as upstream.
#[test]
fn a_missing_index_alone_stays_missing() {
    let (mut cluster, _) = world();
    let without =
        |pod: &mut Value| drop(pod["metadata"]["labels"].as_object_mut().unwrap().remove(keys::POD_INDEX));
    cluster.server.change(Kind::Pod, "foo-1", without);
    cluster.sync_well();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn c_u8_a_repair_restores_the_volumes() {
    let broken = [
        json!(null),
        json!([{ "name": "datadir", "emptyDir": {} }]),
        json!([{ "name": "datadir", "persistentVolumeClaim": { "claimName": "datadir-foo-2" } }]),
    ];
    for volumes in broken {
        let (mut cluster, _) = world();
        cluster.server.change(Kind::Pod, "foo-1", |pod| pod["spec"]["volumes"] = volumes.clone());
        cluster.sync_well();
        let repaired = cluster.pod("foo-1");
        assert_eq!(*repaired.volumes, [ClaimVolume { name: "datadir".into(), claim: None }], "{volumes}");
        cluster.sync_well();
        assert_eq!(cluster.requested(Op::Patch, Kind::Pod), 1, "once is enough");
    }
}

#[test]
fn c_u9_no_policy_retains() {
    assert_eq!(given(|spec| set_policy(spec, None)).set_of(FOO).1.retention, RETAIN);
    assert_eq!(Retention::default(), RETAIN);
    let cluster = given(|spec| set_policy(spec, Some(("Delete", "Retain"))));
    assert_eq!(cluster.set_of(FOO).1.retention, WITH_POD);
    // A value of tomorrow retains as well.
    let cluster = given(|spec| set_policy(spec, Some(("Snapshot", "Delete"))));
    assert_eq!(cluster.set_of(FOO).1.retention, WITH_SET);
}

#[test]
fn c_u10_a_reference_names_an_object_whatever_the_uid() {
    assert!(POD.is_named_by(&ours(POD)));
    assert!(POD.is_named_by(&ours(Owner { uid: "other", ..POD })));
    for other in [
        Owner { name: "foo-2", ..POD },
        Owner { kind: "StatefulSet", ..POD },
        Owner { api_version: "v2", ..POD },
        Owner { api_version: "apps/v1", ..POD },
    ] {
        assert!(!POD.is_named_by(&ours(other)));
    }
}

#[test]
fn c_u11_the_table_of_owners() {
    let mut cases = 0;
    for (retention, in_range, pod, set) in WANTED {
        for variation in 0..8 {
            let (has_pod, has_set, has_other) = (variation & 1 != 0, variation & 2 != 0, variation & 4 != 0);
            let mut owners = Vec::new();
            owners.extend(has_pod.then(|| ours(POD)));
            // Two controllers cannot be: whether one is marked is another row's question.
            owners.extend(has_set.then(|| ours(SET)));
            owners.extend(has_other.then(unrelated));
            let met = policy(retention, in_range).is_met(&claim(owners.clone()));
            assert_eq!(met, (has_pod, has_set) == (pod, set), "{retention:?} {in_range} {owners:?}");
            cases += 1;
        }
    }
    assert_eq!(cases, 48);
}

#[test]
fn c_u12_the_edges_of_the_table() {
    let (by_pod, by_set) = (policy(WITH_BOTH, false), policy(WITH_SET, true));
    for (policy, own) in [(by_pod, POD), (by_set, SET)] {
        let met = |owners: Vec<OwnerRef>| policy.is_met(&claim(owners));
        assert!(met(vec![ours(own)]));
        assert!(!met(vec![reference(own, None)]), "an own reference that does not control");
        assert!(!met(vec![reference(own, Some(false))]));
        assert!(met(vec![ours(Owner { uid: "stale", ..own })]), "a former one of the same name");
        assert!(!met(vec![ours(own), foreign()]), "a foreign controller next to ours");
        assert!(met(vec![foreign()]), "a foreign controller alone");
    }
    // What a former set or pod has is left alone whatever we have beside it.
    let (former_set, former_pod) = (ours(Owner { uid: "stale", ..SET }), ours(Owner { uid: "stale", ..POD }));
    assert!(policy(WITH_SET, true).is_met(&claim(vec![reference(POD, None), former_set])));
    assert!(policy(RETAIN, true).is_met(&claim(vec![former_pod, reference(SET, None)])));
}

fn repaired(policy: Policy<'_>, owners: Vec<OwnerRef>) -> Vec<OwnerRef> {
    policy.owners(&claim(owners), || ours(SET), || ours(policy.pod))
}

#[test]
fn c_u13_a_repair_ends_with_the_wanted_owners() {
    let foreigner = (WITH_BOTH, false, false, false);
    let mut cases = 0;
    for (row, (retention, in_range, pod, set)) in WANTED.into_iter().chain([foreigner]).enumerate() {
        for variation in 0..8 {
            let mut owners = Vec::new();
            owners.extend((variation & 1 != 0).then(|| ours(POD)));
            owners.extend((variation & 2 != 0).then(|| ours(SET)));
            owners.extend((variation & 4 != 0).then(unrelated));
            owners.extend((row == 6).then(foreign));
            let after = repaired(policy(retention, in_range), owners.clone());
            let case = format!("{retention:?} {in_range} {owners:?}: {after:?}");
            assert_eq!(after.contains(&ours(POD)), pod, "{case}");
            assert_eq!(after.contains(&ours(SET)), set, "{case}");
            assert_eq!(after.contains(&unrelated()), owners.contains(&unrelated()), "{case}");
            assert_eq!(after.contains(&foreign()), row == 6, "{case}");
            assert!(policy(retention, in_range).is_met(&claim(after)), "{case}");
            cases += 1;
        }
    }
    assert_eq!(cases, 56);
}

#[test]
fn c_u14_the_details_of_a_repair() {
    let with_pod = policy(WITH_BOTH, false);
    let other_kind = Owner { kind: "Sibling", uid: "sibling", ..POD };
    let cases = [
        ("already right", with_pod, vec![ours(POD)], vec![ours(POD)]),
        ("the flag is missing", with_pod, vec![reference(POD, None)], vec![ours(POD)]),
        (
            "same name, other kind",
            with_pod,
            vec![reference(other_kind, None)],
            vec![reference(other_kind, None), ours(POD)],
        ),
        ("absent", with_pod, vec![], vec![ours(POD)]),
        // A reference without a UID is one to a former object, and does not survive a repair.
        ("no UID", policy(RETAIN, true), vec![ours(Owner { uid: "", ..POD })], vec![]),
    ];
    for (case, policy, owners, expected) in cases {
        assert_eq!(repaired(policy, owners), expected, "{case}");
    }
}

#[test]
fn c_u15_an_owner_is_known_by_its_uid() {
    for controller in [None, Some(false), Some(true)] {
        assert!(POD.owns(&claim(vec![unrelated(), reference(POD, controller)])));
    }
    assert!(!POD.owns(&claim(vec![])));
    assert!(!POD.owns(&claim(vec![unrelated(), ours(Owner { uid: "other", ..POD })])));
}

#[test]
fn c_u16_an_unexpected_controller_is_found() {
    let stale_pod = ours(Owner { uid: "stale", ..POD });
    let stale_set = ours(Owner { uid: "stale", ..SET });
    let rows = [
        (vec![], false),
        (vec![unrelated()], false),
        (vec![ours(SET)], false),
        (vec![ours(POD)], false),
        (vec![reference(SET, None), reference(POD, None)], false),
        (vec![ours(SET), unrelated()], false),
        (vec![foreign()], true),
        (vec![foreign(), ours(SET)], true),
        (vec![foreign(), ours(POD), unrelated()], true),
        (vec![stale_pod], true),
        (vec![stale_set], true),
    ];
    assert_eq!(rows.len(), 11);
    for (owners, unexpected) in rows {
        for (retention, counts) in [(WITH_SET, true), (WITH_POD, true), (WITH_BOTH, true), (RETAIN, false)] {
            let found = policy(retention, true).has_foreign_controller(&claim(owners.clone()));
            assert_eq!(found, unexpected && counts, "{retention:?} {owners:?}");
        }
    }
}

#[test]
fn c_u17_an_owner_that_does_not_control_is_found() {
    let rows = [
        (vec![], false),
        (vec![unrelated()], false),
        (vec![ours(POD)], false),
        (vec![ours(SET)], false),
        (vec![reference(POD, None)], true),
        (vec![reference(POD, Some(false))], true),
        (vec![reference(SET, None)], true),
        (vec![reference(SET, Some(false)), unrelated()], true),
        (vec![ours(POD), reference(SET, None)], true),
        (vec![reference(Owner { uid: "stale", ..POD }, None)], false),
    ];
    assert_eq!(rows.len(), 10);
    for (owners, found) in rows {
        let row = claim(owners.clone());
        assert_eq!(policy(WITH_BOTH, true).has_own_without_control(&row), found, "{owners:?}");
    }
}

#[test]
fn c_u18_a_stale_reference_is_found() {
    assert!(!POD.is_stale(&claim(vec![])));
    assert!(!POD.is_stale(&claim(vec![ours(POD), unrelated()])));
    assert!(POD.is_stale(&claim(vec![unrelated(), ours(Owner { uid: "former", ..POD })])));
    assert!(!POD.is_stale(&claim(vec![ours(Owner { name: "foo-2", uid: "former", ..POD })])));
    assert!(SET.is_stale(&claim(vec![ours(Owner { uid: "former", ..SET })])));
}

/// Policy, claim, pod: whether a new pod of that name has to wait.
#[test]
fn c_p16_a_stale_claim_keeps_a_new_pod_waiting() {
    let former = |name: &'static str| ours(Owner { name, uid: "former", ..POD });
    let world = |scaled: &str, owners: Option<Vec<OwnerRef>>| {
        let cluster = given(|spec| set_policy(spec, Some((scaled, "Retain"))));
        let mut world = cluster.world(FOO).unwrap();
        if let Some(owners) = owners {
            world.claims[0].insert(1, Arc::new(claim(owners)));
        }
        world
    };
    let cases = [
        ("no claim", "Delete", None, false),
        ("a plain one", "Delete", Some(vec![]), false),
        ("of the set", "Delete", Some(vec![ours(SET)]), false),
        ("of another pod", "Delete", Some(vec![former("foo-2")]), false),
        ("of a former pod", "Delete", Some(vec![former("foo-1")]), true),
        ("of a former pod among others", "Delete", Some(vec![unrelated(), former("foo-1")]), true),
        ("of a former pod, which would be kept", "Retain", Some(vec![former("foo-1")]), false),
    ];
    for (case, scaled, owners, stale) in cases {
        assert_eq!(claims::any_stale(&world(scaled, owners), 1), stale, "{case}");
    }
    // The pod does not exist, so a reference with its name is to a former one, also without a UID.
    let nameless = vec![ours(Owner { uid: "pod", ..POD })];
    assert!(claims::any_stale(&world("Delete", Some(nameless)), 1));
    // A claim that the pod itself has is not stale for it.
    assert!(!POD.is_stale(&claim(vec![ours(POD)])));
}

#[test]
fn c_u19_running_and_ready_needs_both() {
    let (_, world) = world();
    assert!(slots::is_ready(&pod(&world, |_| {})));
    assert!(!slots::is_ready(&pod(&world, |pod| pod.ready_since = None)));
    for phase in [Phase::Pending, Phase::Succeeded, Phase::Failed, Phase::Unknown] {
        assert!(!slots::is_ready(&pod(&world, |pod| pod.phase = phase)));
    }
}

#[test]
fn c_u20_pods_are_in_the_order_of_their_ordinals() {
    let mut cluster = given(|spec| {
        spec["replicas"] = json!(12);
        spec["podManagementPolicy"] = json!("Parallel");
    });
    cluster.sync_well();
    cluster.scale(11);
    let world = cluster.world(FOO).unwrap();
    assert_eq!(*world.pods[2].name, *"foo-10", "the rows are by name");
    let slots = slots::Slots::of(&world, cluster.server.now);
    assert_eq!(slots.filled.keys().copied().collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
    assert_eq!(slots.condemned.len(), 1);
    cluster.scale(9);
    let world = cluster.world(FOO).unwrap();
    let slots = slots::Slots::of(&world, cluster.server.now);
    let condemned: Vec<_> = slots.condemned.iter().map(|(ordinal, _)| *ordinal).collect();
    assert_eq!(condemned, [11, 10, 9], "condemned ones the other way round");
}

#[test]
fn c_u22_a_new_pod_has_its_controller() {
    let mut cluster = given(|_| {});
    cluster.sync_well();
    let owners = &cluster.object(Kind::Pod, "foo-0")["metadata"]["ownerReferences"];
    let expected = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "foo", "uid": cluster.set().uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(*owners, expected);
}

/// Also: volumes in the order of the templates (Q11), which win over a volume of the same name.
#[test]
fn c_u25_claims_have_the_labels_of_their_template_and_of_the_selector() {
    let template =
        |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels }, "spec": {} });
    let mut cluster = given(|spec| {
        spec["volumeClaimTemplates"] = json!([
            template("home", json!(null)),
            template("b", json!({ "mine": "yes" })),
            template("a", json!({ "mine": "yes", "app": "mine" })),
        ]);
        spec["volumeClaimTemplates"][1]["metadata"]["annotations"] = json!({ "note": "kept" });
    });
    cluster.sync_well();
    let metadata = |name: &str| cluster.object(Kind::Claim, name)["metadata"].clone();
    assert_eq!(metadata("home-foo-0")["labels"], json!({ "app": "foo" }));
    assert_eq!(metadata("b-foo-0")["labels"], json!({ "app": "foo", "mine": "yes" }));
    assert_eq!(metadata("b-foo-0")["annotations"], json!({ "note": "kept" }));
    assert_eq!(metadata("a-foo-0")["labels"], json!({ "app": "foo", "mine": "yes" }), "the selector wins");
    let volumes = cluster.object(Kind::Pod, "foo-0")["spec"]["volumes"].as_array().unwrap();
    let names: Vec<_> = volumes.iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["home", "b", "a"]);
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "home-foo-0");
}

/// Q12: a pod with leading zeros in its name has no ordinal: it is the set's, and in nobody's way.
#[test]
fn a_pod_with_leading_zeros_evicts_nobody() {
    let (mut cluster, _) = world();
    let owner = cluster.owner(FOO);
    let uid = cluster.pod("foo-1").uid.clone();
    cluster.add_pod("foo-001", &foo_labels("foo-001"), Some(owner));
    cluster.rest();
    assert_eq!(cluster.pod("foo-1").uid, uid);
    assert!(cluster.find_pod("foo-001").is_some());
    assert_eq!(cluster.requested(Op::Delete, Kind::Pod) + cluster.requested(Op::Patch, Kind::Pod), 0);
}

/// Finalizers and everything else of the template reach the pod; without a service there is no subdomain.
#[test]
fn a_pod_is_its_template_and_its_identity() {
    let mut cluster = given(|spec| {
        spec["serviceName"] = json!("");
        spec["template"]["metadata"]["finalizers"] = json!(["example.org/wait"]);
        spec["template"]["spec"]["hostname"] = json!("overwritten");
        spec["template"]["spec"]["subdomain"] = json!("overwritten");
        spec["template"]["spec"]["fieldOfTomorrow"] = json!({ "kept": [null, {}] });
    });
    let pass = cluster.sync_well();
    let work = super::work(pass.plan());
    let tasks = work.iter().flatten();
    let bodies =
        tasks.filter(|task| task.action.object().kind == Kind::Pod).map(|task| match task.action.verb() {
            Verb::Create { body, .. } => body,
            other => panic!("{other:?}"),
        });
    let body = bodies.collect::<Vec<_>>()[0];
    assert_eq!(body["metadata"]["finalizers"], json!(["example.org/wait"]));
    assert_eq!(body["spec"]["hostname"], "foo-0");
    assert!(body["spec"]["subdomain"].as_str().unwrap_or_default().is_empty());
    assert_eq!(body["spec"]["fieldOfTomorrow"], json!({ "kept": [null, {}] }));
}
