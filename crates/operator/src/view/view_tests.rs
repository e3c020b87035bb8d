use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_planner::health::{Down, Why};
use sts_plus_planner::pod::{Defect, Waiting};
use sts_plus_planner::reason::Reason;

use super::{Location, Phase, PodState, Set, Snapshot, Tally, View};
use crate::shell::api::Kind;
use crate::shell::cache::Store;

/// A minute after the pods of these tests became Ready.
const NOW: &str = "2026-11-16T12:01:00Z";
const READY_SINCE: &str = "2026-11-16T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A set of three pods in the namespace `ns`, observed, whose update revision is `<name>-new`.
fn set(name: &str, group: Option<&str>) -> Value {
    let labels = group.map(|group| json!({ keys::ROLLOUT_GROUP: group }));
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "generation": 1, "labels": labels, "annotations": {},
        },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } } },
            "updateStrategy": { "type": "OnDelete" },
        },
        "status": {
            "observedGeneration": 1,
            "currentRevision": format!("{name}-old"), "updateRevision": format!("{name}-new"),
        },
    })
}

/// A pod of a set that is Ready.
fn pod(set: &str, ordinal: u32, revision: &str) -> Value {
    let name = format!("{set}-{ordinal}");
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": { "app": set, keys::CONTROLLER_REVISION: format!("{set}-{revision}") },
            "ownerReferences": [{ "kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true }],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": READY_SINCE }],
            "containerStatuses": [{ "name": "main", "state": { "running": {} } }],
        },
    })
}

fn revision(set: &str, revision: &str, number: i64) -> Value {
    let name = format!("{set}-{revision}");
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": number.to_string(),
            "ownerReferences": [{ "kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true }],
        },
        "data": {}, "revision": number,
    })
}

fn store<const N: usize>(objects: [(Kind, Value); N]) -> Store {
    let store = Store::controlling();
    for (resource, object) in objects {
        store.upsert(resource, &object.to_string());
    }
    store
}

fn view(store: &Store) -> View {
    View::of(&Snapshot::read(store), |_| None, now())
}

/// The only set of a group.
fn only(view: &View) -> &Set {
    let [group] = view.groups.as_slice() else { panic!("one group: {view:?}") };
    let [set] = group.sets.as_slice() else { panic!("one set: {group:?}") };
    set
}

/// A status of the pod `web-0`, not Ready, of which the containers are these.
fn seen(containers: &Value, init: &Value) -> super::Pod {
    let mut web = pod("web", 0, "new");
    web["status"] =
        json!({ "phase": "Running", "containerStatuses": containers, "initContainerStatuses": init });
    let store = store([(Kind::StatefulSet, set("web", Some("g"))), (Kind::Pod, web)]);
    only(&view(&store)).pod_states[0].clone()
}

/// The planner's words about the pod `web-0`.
fn told(defect: Defect) -> String {
    Down { pod: "web-0".into(), why: Why::Broken(defect) }.to_string()
}

fn waiting(reason: &str) -> Value {
    json!({ "waiting": { "reason": reason } })
}

#[test]
fn a_pod_is_judged_by_the_planner() {
    let broken = seen(&json!([{ "name": "main", "state": waiting("CrashLoopBackOff") }]), &json!([]));
    assert_eq!((broken.state, broken.reason.as_deref()), (PodState::Broken, Some("CrashLoopBackOff")));
    assert_eq!(broken.message.unwrap(), told(Defect::Waits(Waiting::CrashLoopBackOff)));
    assert!(broken.dead, "nothing of it runs");

    let starting = seen(&json!([{ "name": "main", "state": waiting("ContainerCreating") }]), &json!([]));
    assert_eq!((starting.state, starting.reason), (PodState::NotReady, None));
    // A reason that the planner does not know for a defect.
    let other = seen(&json!([{ "name": "main", "state": waiting("Restarting") }]), &json!([]));
    assert_eq!((other.state, other.reason), (PodState::NotReady, None));

    let ended = |restarts: u32| json!({ "name": "main", "restartCount": restarts, "state": { "terminated": { "exitCode": 1 } } });
    let tired = seen(&json!([ended(3)]), &json!([]));
    assert_eq!((tired.state, tired.reason.as_deref()), (PodState::Broken, Some("Terminated")));
    assert_eq!(tired.message.unwrap(), told(Defect::Terminated { restarts: 3 }));
    assert_eq!(seen(&json!([ended(2)]), &json!([])).state, PodState::NotReady);
}

#[test]
fn a_pod_of_which_something_runs_is_broken_but_not_dead() {
    let containers = json!([
        { "name": "main", "state": { "running": {} } },
        { "name": "proxy", "state": waiting("ImagePullBackOff") },
    ]);
    let pod = seen(&containers, &json!([]));
    assert_eq!((pod.state, pod.reason.as_deref()), (PodState::Broken, Some("ImagePullBackOff")));
    assert!(!pod.dead);
}

#[test]
fn an_init_container_that_has_finished_breaks_nothing_however_often_it_was_tried() {
    let done = json!({ "name": "init", "restartCount": 7, "state": { "terminated": { "exitCode": 0 } } });
    let running = json!([{ "name": "main", "state": { "running": {} } }]);
    let pod = seen(&running, &json!([done]));
    assert_eq!((pod.state, pod.reason, pod.dead), (PodState::NotReady, None, false));
    let failing = json!({ "name": "init", "restartCount": 7, "state": { "terminated": { "exitCode": 1 } } });
    let pod = seen(&json!([{ "name": "main", "state": waiting("PodInitializing") }]), &json!([failing]));
    assert_eq!((pod.state, pod.reason.as_deref(), pod.dead), (PodState::Broken, Some("Terminated"), true));
}

#[test]
fn a_pod_that_is_ready_for_too_short_a_time_settles_and_the_view_says_when_it_changes() {
    for group in [Some("g"), None] {
        let mut web = set("web", group);
        web["spec"]["minReadySeconds"] = json!(90);
        let store = store([(Kind::StatefulSet, web), (Kind::Pod, pod("web", 0, "new"))]);
        let (snapshot, settled) = (Snapshot::read(&store), "2026-11-16T12:01:30Z".parse().unwrap());
        let of = |now: Timestamp| {
            let view = View::of(&snapshot, |_| None, now);
            let (_, set) = view.all_sets().next().unwrap();
            (set.pod_states[0].state, view.changes_at)
        };
        assert_eq!(of(now()), (PodState::Settling, Some(settled)), "{group:?}");
        assert_eq!(of(settled), (PodState::Ready, None), "{group:?}");
    }
}

#[test]
fn a_terminating_pod_is_terminating_whatever_its_conditions_and_containers_say() {
    let mut ready = pod("web", 0, "old");
    ready["metadata"]["deletionTimestamp"] = json!(NOW);
    let mut broken = ready.clone();
    broken["metadata"]["name"] = json!("web-1");
    broken["metadata"]["uid"] = json!("uid-web-1");
    broken["status"]["containerStatuses"][0]["state"] = waiting("CrashLoopBackOff");
    let store = store([(Kind::StatefulSet, set("web", Some("g"))), (Kind::Pod, ready), (Kind::Pod, broken)]);
    let view = view(&store);
    assert!(only(&view).pod_states.iter().all(|pod| pod.state == PodState::Terminating && pod.outdated));
}

#[test]
fn a_set_of_a_group_has_the_planners_reason_and_its_pods_by_revision() {
    let mut web = set("web", Some("g"));
    web["metadata"]["annotations"] = json!({ keys::MAX_UNAVAILABLE: "none", keys::PAUSED: "true" });
    let mut bare = pod("web", 2, "old");
    bare["metadata"]["labels"].as_object_mut().unwrap().remove(keys::CONTROLLER_REVISION);
    bare["status"] = json!({ "phase": "Pending" });
    let store = store([
        (Kind::StatefulSet, web),
        (Kind::Pod, pod("web", 10, "old")),
        (Kind::Pod, pod("web", 1, "new")),
        (Kind::Pod, bare),
    ]);
    let view = view(&store);
    let set = only(&view);
    let state = set.state.as_ref().unwrap();
    assert_eq!((state.state, &state.message), ("Paused", &Reason::Paused.to_string()));
    assert_eq!(state.release, Reason::Paused.release());
    assert!(set.paused);
    assert_eq!(set.target_revision.as_deref(), Some("web-new"));
    let tally = |revision: &str, pods, ready| Tally { revision: revision.to_owned(), pods, ready };
    assert_eq!(set.pods, [tally("web-new", 1, 1), tally("none", 1, 0), tally("web-old", 1, 1)]);
    assert_eq!(set.not_ready, "web-0 does not exist, web-2 is not Ready");
    assert!(set.warnings[0].contains(keys::MAX_UNAVAILABLE), "{:?}", set.warnings);
    let pods: Vec<_> = set.pod_states.iter().map(|pod| (pod.ordinal, pod.outdated, pod.phase)).collect();
    let expected =
        [(Some(1), false, Phase::Running), (Some(2), true, Phase::Pending), (Some(10), true, Phase::Running)];
    assert_eq!(pods, expected);
}

#[test]
fn a_refused_write_is_read_from_the_set_since_only_the_running_operator_knows_of_it() {
    let refused = |group: &str| {
        let mut web = set("web", Some("g"));
        let status = json!({
            "group": group, "state": "WriteRefused", "message": "blocked", "release": "somebody permits it",
            "since": READY_SINCE,
        });
        web["metadata"]["annotations"] = json!({ keys::ROLLOUT_STATUS: status.to_string() });
        let pods = [0, 1, 2].map(|ordinal| (Kind::Pod, pod("web", ordinal, "old")));
        let store = store(pods);
        store.upsert(Kind::StatefulSet, &web.to_string());
        only(&view(&store)).state.clone().unwrap()
    };
    let state = refused("g");
    assert_eq!((state.state, &*state.message), ("WriteRefused", "blocked"));
    assert_eq!(state.since, READY_SINCE.parse().unwrap());
    assert_eq!(refused("another").state, "Rolling", "written when it was in another group");
}

#[test]
fn sets_in_no_group_are_shown_with_the_rollout_that_manages_them() {
    let rollout = |name: &str, target: &str, created: &str, deleted: Option<&str>| {
        let metadata = json!({
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1",
            "creationTimestamp": created, "deletionTimestamp": deleted,
        });
        let object = json!({ "metadata": metadata, "spec": { "targetRef": target }, "status": { "phase": "Updated" } });
        (Kind::PhasedRollout, object)
    };
    let store = store([
        (Kind::StatefulSet, set("b", None)),
        (Kind::StatefulSet, set("a", None)),
        (Kind::StatefulSet, set("c", Some("g"))),
        (Kind::Pod, pod("b", 0, "new")),
        rollout("first-by-name", "b", "2026-11-16T11:00:00Z", None),
        rollout("oldest", "b", "2026-11-16T10:00:00Z", None),
        rollout("leaving", "b", "2026-11-16T09:00:00Z", Some(NOW)),
    ]);
    let view = view(&store);
    let sets: Vec<_> =
        view.sets.iter().map(|lone| (&*lone.set.name, lone.phased_rollout.as_deref())).collect();
    assert_eq!(sets, [("a", None), ("b", Some("oldest"))]);
    assert_eq!((&view.sets[1].set.state, view.sets[1].set.pod_states.len()), (&None, 1));
    assert_eq!(
        view.rollouts.iter().map(|rollout| &*rollout.name).collect::<Vec<_>>(),
        ["first-by-name", "leaving", "oldest"]
    );
    let names: Vec<_> = view.all_sets().map(|(namespace, set)| format!("{namespace}/{}", set.name)).collect();
    assert_eq!(names, ["ns/c", "ns/a", "ns/b"]);
}

#[test]
fn a_pod_is_outdated_by_the_latest_revision_that_is_known_before_the_set_reports_it() {
    let store = store([
        (Kind::StatefulSet, set("web", None)),
        (Kind::Pod, pod("web", 0, "new")),
        (Kind::Revision, revision("web", "old", 1)),
        (Kind::Revision, revision("web", "new", 2)),
    ]);
    let outdated = |snapshot: &Snapshot| {
        let set = &View::of(snapshot, |_| None, now()).sets[0].set;
        (set.target_revision.clone().unwrap(), set.pod_states[0].outdated)
    };
    let learned = |number: i64, name: &str| {
        let mut snapshot = Snapshot::read(&store);
        let row = store.read_revision(&revision("web", name, number).to_string()).unwrap();
        snapshot.learn(row.into());
        outdated(&snapshot)
    };
    assert_eq!(outdated(&Snapshot::read(&store)), ("web-new".to_owned(), false));
    assert_eq!(learned(3, "newer"), ("web-newer".to_owned(), true), "the cache lags");
    assert_eq!(learned(3, "old"), ("web-old".to_owned(), true), "a template that comes back");
    assert_eq!(learned(1, "old"), ("web-new".to_owned(), false), "what was read lags");
    store.upsert(Kind::Revision, &revision("web", "newest", 4).to_string());
    assert_eq!(outdated(&Snapshot::read(&store)), ("web-newest".to_owned(), true));
}

#[test]
fn where_the_target_is_unknown_no_pod_is_outdated() {
    let mut web = set("web", None);
    web["metadata"]["generation"] = json!(2);
    let store = store([(Kind::StatefulSet, web), (Kind::Pod, pod("web", 0, "old"))]);
    let view = view(&store);
    assert_eq!(view.sets[0].set.target_revision, None);
    assert!(!view.sets[0].set.pod_states[0].outdated);
}

#[test]
fn the_view_is_json_in_which_a_caller_finds_where_pods_run() {
    let store = store([
        (Kind::StatefulSet, set("web", Some("g"))),
        (Kind::StatefulSet, set("lone", None)),
        (Kind::Pod, pod("web", 0, "new")),
    ]);
    let location = Location { node: "node-1".to_owned(), zone: Some("zone-a".to_owned()) };
    let view =
        View::of(&Snapshot::read(&store), |pod| (&*pod.uid == "uid-web-0").then(|| location.clone()), now());
    let json = serde_json::to_value(&view).unwrap();
    let rolling = Reason::Rolling { revision: "web-new".into() };
    assert_eq!(
        json["groups"][0],
        json!({
            "namespace": "ns", "group": "g",
            "sets": [{
                "name": "web", "replicas": 3, "targetRevision": "web-new",
                "state": "Rolling",
                "message": rolling.to_string(),
                "release": rolling.release(),
                "since": NOW,
                "pods": [{ "revision": "web-new", "pods": 1, "ready": 1 }],
                "notReady": "web-1 does not exist, web-2 does not exist",
                "paused": false,
                "podStates": [{
                    "name": "web-0", "ordinal": 0, "revision": "web-new", "outdated": false,
                    "state": "Ready", "phase": "Running", "dead": false, "node": "node-1", "zone": "zone-a",
                }],
            }],
        })
    );
    assert_eq!(json["phasedRollouts"], json!([]));
    let lone = json!({
        "namespace": "ns", "name": "lone", "replicas": 3, "targetRevision": "lone-new", "pods": [],
        "notReady": "lone-0 does not exist, lone-1 does not exist, lone-2 does not exist",
        "paused": false, "podStates": [],
    });
    assert_eq!(json["sets"], json!([lone]));
}

/// An ExtendedStatefulSet `db` of two zones.
fn extended(api_version: &str, status: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": "ExtendedStatefulSet",
        "metadata": { "name": "db", "namespace": "ns", "uid": "uid-db", "resourceVersion": "1", "generation": 2 },
        "spec": {
            "zones": ["b", "a"],
            "template": { "spec": { "template": { "spec": { "containers": [{ "name": "main" }] } } } },
        },
        "status": status,
    })
}

/// A set that the ExtendedStatefulSet `db` controls.
fn child(name: &str, zone: (u32, &str), version: u32, group: Option<&str>) -> Value {
    let mut child = set(name, group);
    let metadata = &mut child["metadata"];
    metadata["ownerReferences"] = json!([{
        "apiVersion": "sts.plus/v1alpha1", "kind": "ExtendedStatefulSet", "name": "db", "uid": "uid-db", "controller": true,
    }]);
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"]["sts.plus/extendedstatefulset-name"] = json!("db");
    metadata["labels"]["sts.plus/az-index"] = json!(zone.0.to_string());
    metadata["labels"]["sts.plus/az-name"] = json!(zone.1);
    metadata["annotations"]["sts.plus/version"] = json!(version.to_string());
    child
}

#[test]
fn the_sets_of_an_extended_stateful_set_are_shown_with_it_and_nowhere_else() {
    let zones = json!([{ "name": "b", "index": 0 }, { "name": "a", "index": 1 }]);
    let store = store([
        (Kind::Extended, extended("sts.plus/v1alpha1", &json!({ "zones": zones, "observedGeneration": 2 }))),
        (Kind::StatefulSet, child("db-z1", (1, "a"), 2, Some("db.ests"))),
        (Kind::StatefulSet, child("db-z0", (0, "b"), 2, Some("db.ests"))),
        (Kind::Pod, pod("db-z0", 0, "new")),
        (Kind::Pod, pod("db-z1", 0, "old")),
    ]);
    let seen = view(&store);
    assert_eq!((seen.groups.len(), seen.sets.len()), (0, 0));
    let [db] = seen.extended.as_slice() else { panic!("one: {:?}", seen.extended) };
    assert_eq!((db.rollout_group.as_deref(), db.observed), (Some("db.ests"), true));
    let sets: Vec<_> = db
        .sets
        .iter()
        .map(|child| (child.zone.as_deref(), &*child.set.name, child.version, child.running))
        .collect();
    // By the index of the zone, and the outdated pod is none of the version.
    assert_eq!(sets, [(Some("b"), "db-z0", Some(2), true), (Some("a"), "db-z1", Some(2), false)]);
    assert!(db.sets.iter().all(|child| child.set.state.is_some()), "the state of its rollout group");
    let names: Vec<_> = seen.all_sets().map(|(_, set)| &*set.name).collect();
    assert_eq!(names, ["db-z0", "db-z1"]);

    // Somebody else's set in that group stays in the group.
    store.upsert(Kind::StatefulSet, &set("other", Some("db.ests")).to_string());
    let seen = view(&store);
    assert_eq!(only(&seen).name, "other");
    assert_eq!(seen.extended[0].sets.len(), 2);
}

#[test]
fn versions_of_a_zone_are_in_the_order_of_their_numbers_and_a_set_without_its_object_is_a_set() {
    let sets = [
        (Kind::StatefulSet, child("db-z0-v10", (0, "b"), 10, None)),
        (Kind::StatefulSet, child("db-z0-v9", (0, "b"), 9, None)),
    ];
    let store = store(sets);
    assert_eq!(view(&store).sets.len(), 2, "its object is not shown");
    // One of the other group is another object, whatever its name and UID.
    store.upsert(
        Kind::FissileExtended,
        &extended("fissile.cloudfoundry.org/v1alpha1", &json!({})).to_string(),
    );
    assert_eq!(view(&store).sets.len(), 2);
    store.upsert(Kind::Extended, &extended("sts.plus/v1alpha1", &json!({})).to_string());
    let rollout = json!({
        "metadata": { "name": "gate", "namespace": "ns", "uid": "gate", "resourceVersion": "1" },
        "spec": { "targetRef": "db-z0-v9" },
    });
    store.upsert(Kind::PhasedRollout, &rollout.to_string());
    let seen = view(&store);
    assert_eq!(seen.sets.len(), 0);
    let sets: Vec<_> = seen.extended[0]
        .sets
        .iter()
        .map(|child| (&*child.set.name, child.phased_rollout.as_deref(), child.set.state.is_some()))
        .collect();
    assert_eq!(sets, [("db-z0-v9", Some("gate"), false), ("db-z0-v10", None, false)]);
    assert!(!seen.extended[0].observed, "no operator has seen this spec");
}

#[test]
fn the_extended_stateful_set_is_json_with_its_sets_and_its_status() {
    let store = store([
        (Kind::Extended, extended("sts.plus/v1alpha1", &json!({ "currentVersion": 2 }))),
        (Kind::StatefulSet, child("db-z0-v2", (0, "b"), 2, None)),
    ]);
    let json = serde_json::to_value(view(&store)).unwrap();
    assert_eq!(
        json["extendedStatefulSets"][0],
        json!({
            "namespace": "ns", "extendedStatefulSet": "db", "apiGroup": "sts.plus", "paused": false, "observed": false,
            "sets": [{
                "zone": "b", "version": 2, "running": false, "name": "db-z0-v2", "replicas": 3,
                "targetRevision": "db-z0-v2-new", "pods": [], "paused": false, "podStates": [],
                "notReady": "db-z0-v2-0 does not exist, db-z0-v2-1 does not exist, db-z0-v2-2 does not exist",
            }],
            "status": { "currentVersion": 2 },
        })
    );
}
