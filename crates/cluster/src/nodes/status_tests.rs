use super::super::pod::tests::pod_with;
use super::*;

const NOW: &str = "2026-03-01T10:00:00Z";
const BEFORE: &str = "2026-03-01T09:00:00Z";

const READY: Stage = Stage {
    phase: Phase::Running,
    containers: Containers::Running,
    started: true,
    containers_ready: true,
    ready: true,
    ..Stage::NEW
};
const RUNNING: Stage = Stage { containers_ready: false, ready: false, ..READY };

fn patch(pod: &Pod, stage: Stage) -> Value {
    Report { pod, host: Ipv4Addr::new(10, 127, 0, 1), address: Ipv4Addr::new(10, 128, 0, 5), now: NOW }
        .patch(stage)
}

/// A pod that was bound by the API server and has been reported Running and Ready, except where it is patched.
fn ready_pod() -> Value {
    let met = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": BEFORE });
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(met);
    json!({ "status": {
        "phase": "Running", "podIP": "10.128.0.5", "startTime": BEFORE,
        "conditions": conditions,
        "containerStatuses": [
            { "name": "app", "ready": true, "restartCount": 0, "state": { "running": { "startedAt": BEFORE } } },
        ],
    } })
}

#[test]
fn the_first_report_is_whole() {
    let bound = json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE }]);
    let pod = pod_with(json!({ "status": { "conditions": bound } }));
    let met = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": NOW });
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"].map(met);
    let expected = json!({
        "phase": "Running",
        "startTime": NOW,
        "hostIP": "10.127.0.1", "hostIPs": [{ "ip": "10.127.0.1" }],
        "podIP": "10.128.0.5", "podIPs": [{ "ip": "10.128.0.5" }],
        // What the API server said when it bound the pod stays as it is.
        "conditions": conditions,
        "containerStatuses": [{
            "name": "app", "image": "app:1", "imageID": "app:1", "containerID": "hollow://u-2/app/0",
            "ready": true, "started": true, "restartCount": 0,
            "state": { "running": { "startedAt": NOW } }, "lastState": {},
        }],
    });
    assert_eq!(patch(&pod, READY), expected);
}

#[test]
fn a_later_report_holds_only_what_changed() {
    let unready = patch(&pod_with(ready_pod()), RUNNING);
    let unmet = |kind: &str| {
        json!({
            "type": kind, "status": "False", "lastTransitionTime": NOW,
            "reason": "ContainersNotReady", "message": "containers with unready status: [app]",
        })
    };
    assert_eq!(unready["conditions"], json!([unmet("Ready"), unmet("ContainersReady")]));
    assert_eq!(unready["containerStatuses"][0]["state"], json!({ "running": { "startedAt": BEFORE } }));
    for absent in ["startTime", "podIP", "hostIP", "initContainerStatuses"] {
        assert_eq!(unready.get(absent), None);
    }
}

#[test]
fn what_no_longer_applies_is_taken_away() {
    let mut pod = pod_with(ready_pod());
    pod.stage = RUNNING;
    for condition in pod.conditions.iter_mut().filter(|condition| condition.kind.ends_with("Ready")) {
        condition.status = "False".to_owned();
        condition.reason = Some("ContainersNotReady".to_owned());
    }
    let met = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": NOW, "reason": null, "message": null });
    assert_eq!(patch(&pod, READY)["conditions"], json!([met("Ready"), met("ContainersReady")]));
}

#[test]
fn a_closed_gate_is_the_reason_and_a_changed_reason_is_no_transition() {
    let mut pod = pod_with(json!({ "spec": { "readinessGates": [{ "conditionType": "gate" }] } }));
    let held = Stage { ready: false, ..READY };
    let ready = patch(&pod, held)["conditions"][2].clone();
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("False")));
    assert_eq!(ready["reason"], "ReadinessGatesNotReady");
    assert!(ready["message"].as_str().unwrap().contains("\"gate\""));

    pod.conditions = vec![super::super::pod::Condition {
        kind: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: Some("ContainersNotReady".to_owned()),
    }];
    let ready = patch(&pod, held)["conditions"][2].clone();
    assert_eq!(ready["reason"], "ReadinessGatesNotReady");
    assert_eq!(ready.get("lastTransitionTime"), None);
}

#[test]
fn a_crash_loop_shows_its_last_run() {
    let crashing = Stage { containers: Containers::CrashLoopBackOff, restarts: 3, started: false, ..RUNNING };
    let container = patch(&pod_with(ready_pod()), crashing)["containerStatuses"][0].clone();
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["restartCount"], 3);
    assert_eq!((&container["ready"], &container["started"]), (&json!(false), &json!(false)));
    assert_eq!(container["containerID"], "hollow://u-2/app/3");
    let expected = json!({ "terminated": {
        "exitCode": 1, "reason": "Error", "startedAt": NOW, "finishedAt": NOW, "containerID": "hollow://u-2/app/2",
    } });
    assert_eq!(container["lastState"], expected);

    // Once it runs again, the last run ended when this one began.
    let mut recovered = pod_with(ready_pod());
    recovered.stage.restarts = 4;
    let container = patch(&recovered, Stage { restarts: 4, ..RUNNING })["containerStatuses"][0].clone();
    assert_eq!(container["state"]["running"]["startedAt"], BEFORE);
    assert_eq!(container["lastState"]["terminated"]["finishedAt"], BEFORE);
}

#[test]
fn an_image_that_cannot_be_pulled_leaves_the_pod_pending() {
    let stage = Stage { containers: Containers::ImagePullBackOff, ..Stage::NEW };
    let status = patch(&pod_with(json!({})), stage);
    assert_eq!(status["phase"], "Pending");
    let container = &status["containerStatuses"][0];
    assert_eq!(
        container["state"],
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image \"app:1\"" } })
    );
    assert_eq!((&container["containerID"], &container["imageID"]), (&json!(""), &json!("")));
}

#[test]
fn init_containers_are_done_and_sidecars_run() {
    let init = json!([{ "name": "setup", "image": "i" }, { "name": "proxy", "image": "p", "restartPolicy": "Always" }]);
    let status = patch(&pod_with(json!({ "spec": { "initContainers": init } })), READY);
    let [setup, proxy] = status["initContainerStatuses"].as_array().unwrap().as_slice() else {
        panic!("{status}")
    };
    assert_eq!(setup["state"]["terminated"]["reason"], "Completed");
    assert_eq!(setup["state"]["terminated"]["exitCode"], 0);
    assert_eq!(proxy["state"], json!({ "running": { "startedAt": NOW } }));
    assert!([setup, proxy].iter().all(|container| container["ready"] == true));
}

#[test]
fn the_restarts_of_an_init_container_are_still_counted_when_it_is_done() {
    let init = json!([{ "name": "one", "image": "i" }, { "name": "two", "image": "i" }]);
    let mut pod = json!({ "spec": { "initContainers": init } });
    let at = |index, restarts| Stage {
        init: Init::At { index, state: InitState::Running, restarts },
        ..Stage::NEW
    };
    for (stage, counts) in
        [(at(0, 3), [3, 0]), (at(1, 0), [3, 0]), (at(1, 2), [3, 2]), (RUNNING, [3, 2]), (READY, [3, 2])]
    {
        pod["status"] = patch(&pod_with(pod.clone()), stage);
        let shown = [0, 1].map(|place| pod["status"]["initContainerStatuses"][place]["restartCount"].clone());
        assert_eq!(shown, counts.map(|count| json!(count)), "{stage:?}");
    }
}

#[test]
fn a_lost_node_changes_one_condition_and_so_does_a_pod_that_fits_nowhere() {
    let lost = not_ready(&pod_with(ready_pod()), NOW);
    assert_eq!(
        lost,
        json!({ "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": NOW }] })
    );
    let homeless = unschedulable(&pod_with(json!({})), "no room", NOW);
    let expected = json!({
        "type": "PodScheduled", "status": "False", "lastTransitionTime": NOW,
        "reason": "Unschedulable", "message": "no room",
    });
    assert_eq!(homeless, json!({ "conditions": [expected] }));
}

#[test]
fn what_is_reported_is_read_back_as_it_was_meant() {
    let init = json!([
        { "name": "one", "image": "i" }, { "name": "proxy", "image": "p", "restartPolicy": "Always" },
        { "name": "two", "image": "i" },
    ]);
    let pod = json!({ "spec": { "initContainers": init } });
    let at = |index, state, restarts| Stage { init: Init::At { index, state, restarts }, ..Stage::NEW };
    for stage in [
        READY,
        RUNNING,
        Stage { started: false, ..RUNNING },
        Stage { restarts: 2, exit: 137, ..READY },
        Stage { containers: Containers::CrashLoopBackOff, restarts: 3, started: false, exit: 0, ..RUNNING },
        Stage { containers: Containers::ImagePullBackOff, ..Stage::NEW },
        Stage { phase: Phase::Succeeded, containers: Containers::Ended, exit: 0, ..Stage::NEW },
        Stage { phase: Phase::Failed, containers: Containers::Ended, exit: 1, ..Stage::NEW },
        Stage { init: Init::Waiting, ..Stage::NEW },
        at(0, InitState::Running, 0),
        at(1, InitState::Running, 2),
        at(0, InitState::CrashLoopBackOff, 4),
        Stage { phase: Phase::Failed, ..at(0, InitState::Failed, 0) },
    ] {
        let mut shown = pod.clone();
        shown["status"] = patch(&pod_with(pod.clone()), stage);
        assert_eq!(pod_with(shown.clone()).stage, stage, "{:#}", shown["status"]);
        let is_initialized = stage.init == Init::Done;
        let condition = pod_with(shown).condition("Initialized").unwrap().clone();
        assert_eq!(condition.status == "True", is_initialized, "{stage:?}");
    }
}
