use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;

use super::kubelet::Fate;
use super::{Actor, Assumptions, End, Forecast, Happening, MAX_ROUNDS, Objects, forecast};
use crate::example;
use crate::phased_rollout::row::{ParsedSpec, RolloutRow};
use crate::plan::{Action, Object};
use crate::set::{SetRow, Steering, Strategy};
use crate::statefulset::world::Management;

const OLD: &str = "old";
const NEW: &str = "new";
const GROUP: &str = "store";
const WEB: &str = "web";
/// When the forecasts begin: long after the pods became Ready.
const START: i64 = 1_750_000_000;

fn start() -> Timestamp {
    Timestamp::from_second(START).unwrap()
}

/// Three zones of two pods whose template was just changed from the old revision to the new one.
fn zones() -> Objects {
    let mut objects = Objects::default();
    for name in ["store-zone-a", "store-zone-b", "store-zone-c"] {
        let steering = Steering { max_unavailable: Some("1".into()), ..Steering::default() };
        let set = SetRow { group: Some(GROUP.into()), steering, replicas: 2, ..changed(name) };
        objects.management.insert(Arc::clone(&set.uid), Management::Parallel);
        add(&mut objects, set);
    }
    objects
}

/// A set of the old revision, of which the controller has not observed the new template.
fn changed(name: &str) -> SetRow {
    let old = || Some(OLD.into());
    SetRow { generation: 3, current_revision: old(), update_revision: old(), ..example::set(name) }
}

fn add(objects: &mut Objects, set: SetRow) {
    objects.pods.extend(set.ordinals().map(|ordinal| example::pod(&set, ordinal)));
    objects.templates.insert(Arc::clone(&set.uid), NEW.to_owned());
    objects.sets.push(set);
}

/// A set of three pods with a changed template that a PhasedRollout gates with a check named `check`.
fn gated(spec: &serde_json::Value) -> Objects {
    let set = SetRow { strategy: Strategy::RollingUpdate { partition: 3 }, ..changed(WEB) };
    let mut objects = Objects::default();
    add(&mut objects, set);
    let mut manifest = json!({
        "targetRef": WEB,
        "check": {
            "initialDelaySeconds": 10,
            "periodSeconds": 10,
            "successThreshold": 2,
            "query": { "expr": "errors > 0", "url": "http://prometheus:9090" },
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    objects.rollouts.push(RolloutRow {
        namespace: "prod".into(),
        name: WEB.into(),
        uid: "uid-rollout".into(),
        resource_version: "1".into(),
        generation: 1,
        created: start(),
        deleting: false,
        finalizers: Vec::new(),
        approve: None,
        spec: ParsedSpec::of(&serde_json::from_value(manifest).unwrap()),
        status: PhasedRolloutStatus::default(),
    });
    objects
}

/// Pods that are deleted, created, Ready or crash, and partitions, one line each.
fn events(forecast: &Forecast) -> Vec<String> {
    let lines = forecast.entries.iter().filter_map(|entry| match &entry.what {
        Happening::Deleted { pod, .. } => Some(format!("delete {}", pod.name)),
        Happening::Created { pod, revision } => Some(format!("create {} {revision}", pod.name)),
        Happening::Ready { pod } => Some(format!("ready {}", pod.name)),
        Happening::Crashed { pod } => Some(format!("crash {}", pod.name)),
        Happening::Partition { partition, .. } => Some(format!("partition {partition}")),
        Happening::Set { .. } | Happening::Rollout { .. } => None,
    });
    lines.collect()
}

/// The states of a set of a group, in order.
fn states(forecast: &Forecast, set: &str) -> Vec<String> {
    let states = forecast.entries.iter().filter_map(|entry| match &entry.what {
        Happening::Set { set: of, reason } if &*of.name == set => Some(match reason.subject() {
            Some(subject) => format!("{} {subject}", reason.kind()),
            None => reason.kind().to_owned(),
        }),
        _ => None,
    });
    states.collect()
}

fn waits(forecast: &Forecast) -> Vec<&str> {
    let waits = forecast.entries.iter().filter_map(|entry| match &entry.what {
        Happening::Rollout { waiting_for, .. } => Some(&**waiting_for),
        _ => None,
    });
    waits.collect()
}

#[test]
fn three_zones_roll_one_after_the_other_within_their_budget() {
    let forecast = forecast(zones(), &Assumptions::default(), start());
    let mut expected = Vec::new();
    for zone in ["store-zone-a", "store-zone-b", "store-zone-c"] {
        for ordinal in 0..2 {
            let pod = format!("{zone}-{ordinal}");
            expected.extend([format!("delete {pod}"), format!("create {pod} {NEW}"), format!("ready {pod}")]);
        }
    }
    assert_eq!(events(&forecast), expected);
    assert_eq!(forecast.end, End::AtRest);
    // Six pods, each of which takes half a minute by default.
    let took = forecast.ends_at.duration_since(start());
    assert!(took >= SignedDuration::from_mins(3) && took < SignedDuration::from_mins(4), "{took:?}");
    for set in &forecast.objects.sets {
        assert_eq!(set.current_revision.as_deref(), Some(NEW), "{} is promoted", set.name);
        assert_eq!(states(&forecast, &set.name).last().map(String::as_str), Some("UpToDate new"));
    }
    assert!(states(&forecast, "store-zone-c").contains(&"WaitingForTurn store-zone-a".to_owned()));
}

#[test]
fn every_deletion_in_a_group_is_the_operators() {
    let forecast = forecast(zones(), &Assumptions::default(), start());
    let by = forecast.entries.iter().filter_map(|entry| match entry.what {
        Happening::Deleted { by, .. } => Some(by),
        _ => None,
    });
    assert!(by.eq([Actor::RolloutGroup; 6]));
}

#[test]
fn a_revision_that_crashes_stops_after_the_budget() {
    for budget in [1_usize, 2] {
        let mut objects = zones();
        for set in &mut objects.sets {
            set.steering.max_unavailable = Some(budget.to_string().into());
        }
        let failing_revisions = BTreeMap::from([(NEW.into(), Fate::Crashes)]);
        let assumptions = Assumptions { failing_revisions, ..Assumptions::default() };
        let forecast = forecast(objects, &assumptions, start());
        let deleted: Vec<_> =
            events(&forecast).into_iter().filter(|line| line.starts_with("delete")).collect();
        let expected = ["delete store-zone-a-0", "delete store-zone-a-1"];
        assert_eq!(deleted, expected[..budget], "no zone but the first is touched");
        assert_eq!(forecast.end, End::AtRest);
        assert_eq!(states(&forecast, "store-zone-a").pop().as_deref(), Some("PodBroken new"));
    }
}

#[test]
fn a_revision_that_never_becomes_ready_stops_after_the_budget() {
    let failing_revisions = BTreeMap::from([(NEW.into(), Fate::Hangs)]);
    let assumptions = Assumptions { failing_revisions, ..Assumptions::default() };
    let forecast = forecast(zones(), &assumptions, start());
    assert_eq!(events(&forecast), ["delete store-zone-a-0", "create store-zone-a-0 new"]);
    assert_eq!(forecast.end, End::AtRest);
}

#[test]
fn a_pod_that_is_broken_already_stays_so_until_it_is_replaced() {
    let mut objects = zones();
    for pod in objects.pods.iter_mut().filter(|pod| &*pod.name == "store-zone-b-1") {
        (pod.ready_since, pod.running) = (None, false);
        pod.waiting = Some(crate::pod::Waiting::CrashLoopBackOff);
    }
    let forecast = forecast(objects, &Assumptions::default(), start());
    let events = events(&forecast);
    assert_eq!(events.first().map(String::as_str), Some("delete store-zone-b-1"), "the broken one first");
    assert_eq!(events.iter().filter(|line| line.starts_with("delete")).count(), 6);
    assert!(forecast.objects.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(NEW)));
}

#[test]
fn a_gated_set_rolls_pod_by_pod_when_its_checks_pass() {
    let forecast = forecast(gated(&json!({})), &Assumptions::default(), start());
    let replaced =
        |pod: &str| [format!("delete {pod}"), format!("create {pod} {NEW}"), format!("ready {pod}")];
    let mut expected = Vec::new();
    for ordinal in (0..3).rev() {
        expected.push(format!("partition {ordinal}"));
        expected.extend(replaced(&format!("{WEB}-{ordinal}")));
    }
    expected.push("partition 3".to_owned());
    assert_eq!(events(&forecast), expected);
    assert_eq!(waits(&forecast).last(), Some(&"UpToDate"));
    assert_eq!(forecast.end, End::AtRest);
}

#[test]
fn a_gated_set_stops_where_a_check_fails() {
    let spec = json!({ "check": {
        "initialDelaySeconds": 10,
        "periodSeconds": 10,
        "successThreshold": 2,
        "failureThreshold": 3,
        "query": { "expr": "errors > 0", "url": "http://prometheus:9090" },
    } });
    let failing_checks = BTreeMap::from([("check".to_owned(), 1)]);
    let assumptions = Assumptions { failing_checks, ..Assumptions::default() };
    let forecast = forecast(gated(&spec), &assumptions, start());
    let partitions: Vec<_> =
        events(&forecast).into_iter().filter(|line| line.starts_with("partition")).collect();
    assert_eq!(partitions, ["partition 2", "partition 1"], "web-1 is replaced, and web-0 is not");
    let revisions: Vec<_> = forecast.objects.pods.iter().map(|pod| pod.revision.as_deref()).collect();
    assert_eq!(revisions.iter().filter(|revision| **revision == Some(OLD)).count(), 1);
    let status = &forecast.objects.rollouts[0].status;
    assert_eq!(status.failure.as_ref().map(|failure| &*failure.revision), Some(NEW));
    assert_eq!(waits(&forecast).last(), status.waiting_for.as_deref().as_ref());
}

#[test]
fn a_check_that_fails_without_a_threshold_is_asked_until_the_horizon() {
    let assumptions = Assumptions {
        failing_checks: BTreeMap::from([("check".to_owned(), i32::MAX)]),
        horizon: SignedDuration::from_hours(1),
        ..Assumptions::default()
    };
    let forecast = forecast(gated(&json!({})), &assumptions, start());
    assert_eq!(forecast.end, End::OutOfTime);
    assert_eq!(forecast.ends_at, start() + SignedDuration::from_hours(1));
    assert_eq!(events(&forecast), Vec::<String>::new(), "no pod passes the first gate");
}

#[test]
fn a_set_without_a_controller_of_ours_is_rolled_by_the_stateful_set_controller() {
    let mut objects = Objects::default();
    add(&mut objects, SetRow { strategy: Strategy::RollingUpdate { partition: 1 }, ..changed(WEB) });
    let forecast = forecast(objects, &Assumptions::default(), start());
    let deleted: Vec<_> = events(&forecast).into_iter().filter(|line| line.starts_with("delete")).collect();
    assert_eq!(deleted, ["delete web-2", "delete web-1"], "down to the partition");
    assert_eq!(forecast.end, End::AtRest);
}

#[test]
fn a_forecast_of_objects_at_rest_is_empty() {
    let mut objects = Objects::default();
    let set = example::set(WEB);
    objects.pods.extend(set.ordinals().map(|ordinal| example::pod(&set, ordinal)));
    objects.sets.push(set);
    let forecast = forecast(objects, &Assumptions::default(), start());
    assert_eq!((forecast.entries.len(), forecast.end), (0, End::AtRest));
}

#[test]
fn a_spec_that_asks_for_two_billion_pods_ends_a_forecast_and_not_its_caller() {
    let set = SetRow { replicas: i32::MAX.unsigned_abs(), ..example::set(WEB) };
    let mut objects = Objects::default();
    objects.management.insert(Arc::clone(&set.uid), Management::Parallel);
    objects.sets.push(set);
    let hangs = BTreeMap::from([(NEW.into(), Fate::Hangs)]);
    let assumptions = Assumptions { failing_revisions: hangs, ..Assumptions::default() };
    let forecast = forecast(objects, &assumptions, start());
    assert_eq!(forecast.end, End::TooLarge);
}

#[test]
fn a_write_is_refused_where_its_precondition_does_not_hold() {
    let mut objects = zones();
    let set = objects.sets[0].clone();
    let promote = Action::promote(&set, NEW, "manager");
    assert_eq!(objects.apply(&promote), Ok(()));
    assert_eq!(objects.sets[0].current_revision.as_deref(), Some(NEW));
    assert_eq!(objects.apply(&promote), Err(super::Refused::Conflict), "the version is another one by now");
    objects.sets.clear();
    assert_eq!(objects.apply(&promote), Err(super::Refused::NotFound));
}

#[test]
fn what_happens_is_told_in_plain_words() {
    let object =
        |name: &str| Object { kind: crate::plan::Kind::Pod, namespace: "prod".into(), name: name.into() };
    let deleted = Happening::Deleted { pod: object("web-1"), by: Actor::RolloutGroup };
    assert_eq!(deleted.to_string(), "the rollout group deletes pod web-1");
    let created = Happening::Created { pod: object("web-1"), revision: NEW.into() };
    assert_eq!(created.to_string(), "pod web-1 is created from new");
    const { assert!(MAX_ROUNDS > 2 * 24 * 60 * 6, "a day of answers every ten seconds") };
}
