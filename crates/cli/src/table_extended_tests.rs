use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_operator::view::{ChildSet, Extended, Pod, PodState, Set, SetState};

use super::render;

fn page(extended: &Extended) -> String {
    let mut page = String::new();
    render(&mut page, extended, Timestamp::from_second(130).unwrap()).unwrap();
    page
}

fn condition(kind: &str, truth: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": truth, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:01:40Z",
    })
}

fn extended(status: &Value, sets: Vec<ChildSet>) -> Extended {
    Extended {
        namespace: "ns".to_owned(),
        name: "db".to_owned(),
        api_group: "sts.plus",
        observed: true,
        sets,
        status: serde_json::from_value(status.clone()).unwrap(),
        ..Extended::default()
    }
}

/// Pods, each of which is ready or not and outdated or not.
fn child(name: &str, zone: Option<&str>, version: u32, pods: &[(bool, bool)]) -> ChildSet {
    let pod = |(ready, outdated): &(bool, bool)| Pod {
        state: if *ready { PodState::Ready } else { PodState::NotReady },
        outdated: *outdated,
        ..Pod::default()
    };
    ChildSet {
        zone: zone.map(str::to_owned),
        version: Some(version),
        running: pods.iter().any(|(ready, outdated)| *ready && !outdated),
        set: Set {
            name: name.to_owned(),
            replicas: 2,
            pod_states: pods.iter().map(pod).collect(),
            ..Set::default()
        },
        ..ChildSet::default()
    }
}

const NEW: (bool, bool) = (true, false);
const OLD: (bool, bool) = (true, true);
const STARTING: (bool, bool) = (false, false);

#[test]
fn a_blue_green_update_shows_each_version_in_each_zone_and_which_of_them_run() {
    let status = json!({
        "currentVersion": 9, "updateVersion": 10,
        "activePod": { "name": "db-z0-v9-0", "uid": "u", "since": "1970-01-01T00:01:00Z" },
        "conditions": [
            condition("Ready", "False", "VersionStarting", "Version 10 is promoted when 2 pods are Ready; 0 are."),
            condition("Reconciling", "True", "VersionStarting", "Version 10 is promoted when 2 pods are Ready; 0 are."),
            condition("ReplicasRestricted", "True", "Adjusted", "3 replicas are asked for; parity Even allows 2."),
        ],
    });
    let sets = vec![
        child("db-z0-v9", Some("eu-a"), 9, &[NEW, NEW]),
        child("db-z0-v10", Some("eu-a"), 10, &[STARTING]),
        child("db-z1-v9", Some("eu-longer"), 9, &[NEW, NEW]),
    ];
    assert_eq!(
        page(&extended(&status, sets)),
        "EXTENDED STATEFULSET db in namespace ns\n  \
           VersionStarting, not Ready for 30s  version 9, update to version 10\n    \
             Version 10 is promoted when 2 pods are Ready; 0 are.\n    \
             eu-a       db-z0-v9   version 9 (current)  running, 2/2 Ready\n    \
             eu-a       db-z0-v10  version 10 (update)  not running, 0/2 Ready\n    \
             eu-longer  db-z1-v9   version 9 (current)  running, 2/2 Ready\n    \
             active pod: db-z0-v9-0 for 70s\n    \
             restricted replicas: 3 replicas are asked for; parity Even allows 2.\n"
    );
}

#[test]
fn an_update_in_place_shows_how_far_each_zone_is_and_why_one_waits() {
    let message = "Pods of StatefulSet db-z0 are being replaced: db-z0-1 is terminating.";
    let status = json!({
        "currentVersion": 1, "updateVersion": 2,
        "conditions": [
            condition("Ready", "False", "Rolling", message),
            condition("NoActivePod", "True", "NoneChosen", "No pod is active: no pod is Ready."),
            condition("Warning", "True", "Warning", "Something is odd."),
        ],
    });
    let state = |state: &'static str, message: &str| {
        Some(SetState {
            state,
            message: message.to_owned(),
            release: Some("it is done".to_owned()),
            since: Timestamp::UNIX_EPOCH,
        })
    };
    let mut rolling = child("db-z0", Some("a"), 2, &[NEW, OLD]);
    (rolling.set.state, rolling.set.not_ready) =
        (state("Rolling", "Rolling to revision x."), "db-z0-1 is terminating".to_owned());
    let mut waiting = child("db-z1", Some("b"), 2, &[OLD, OLD]);
    waiting.set.state = state("WaitingForTurn", "Waiting for db-z0.");
    assert_eq!(
        page(&extended(&status, vec![rolling, waiting])),
        format!(
            "EXTENDED STATEFULSET db in namespace ns\n  \
               Rolling, not Ready for 30s  version 1, update to version 2\n    \
                 {message}\n    \
                 a  db-z0  version 2 (update)  running, 1/1 Ready, 1/1 Ready on outdated revisions\n         \
                    Rolling: Rolling to revision x.\n         \
                    now: db-z0-1 is terminating\n    \
                 b  db-z1  version 2 (update)  not running, 0/0 Ready, 2/2 Ready on outdated revisions\n         \
                    WaitingForTurn: Waiting for db-z0.\n    \
                 active pod: No pod is active: no pod is Ready.\n    \
                 warning: Something is odd.\n"
        )
    );
}

#[test]
fn an_object_without_zones_at_its_goal_is_three_lines() {
    let status = json!({
        "currentVersion": 3, "updateVersion": 3,
        "conditions": [condition("Ready", "True", "AsRequested", "All is well.")],
    });
    let mut only = child("db", None, 3, &[NEW, NEW]);
    only.phased_rollout = Some("gate".to_owned());
    let mut fissile = extended(&status, vec![only]);
    fissile.api_group = "fissile.cloudfoundry.org";
    assert_eq!(
        page(&fissile),
        "EXTENDED STATEFULSET db of fissile.cloudfoundry.org in namespace ns\n  \
           Ready for 30s  version 3\n    \
             All is well.\n    \
             db  version 3  running, 2/2 Ready\n      \
               gated by phasedrollout/gate\n"
    );
}

#[test]
fn without_a_status_it_says_what_to_look_for_and_a_status_of_an_earlier_spec_is_named_as_such() {
    assert_eq!(
        page(&extended(&json!({}), Vec::new())),
        "EXTENDED STATEFULSET db in namespace ns\n  \
         No operator has reported a status: is sts-plus running with the controller extended-statefulset?\n"
    );
    let status = json!({ "conditions": [condition("Ready", "True", "Paused", "Paused before version 1.")] });
    let earlier = Extended { observed: false, ..extended(&status, Vec::new()) };
    let page = page(&earlier);
    assert!(page.contains("  Paused, Ready for 30s  no version\n"), "{page}");
    assert!(page.contains("    The operator has not yet observed the present spec.\n"), "{page}");
}

#[test]
fn a_pods_that_leave_are_listed_with_their_phase() {
    let status = json!({
        "currentVersion": 1, "updateVersion": 1,
        "conditions": [condition("Ready", "False", "Scaling", "ScalingPolicy db: db-1 drains.")],
        "leaving": [{ "ordinal": 1, "podName": "db-1", "phase": "Draining", "startTime": "1970-01-01T00:01:40Z" }],
    });
    let page = page(&extended(&status, vec![child("db", None, 1, &[NEW, NEW])]));
    assert!(page.contains("Scaling, not Ready") && page.contains("leaves: db-1 Draining for 30s"), "{page}");
}
