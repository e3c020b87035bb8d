use serde_json::json;

use super::*;

fn pod(version: u64, status: &serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "uid": "u", "name": "p", "namespace": "n", "resourceVersion": version.to_string() },
        "spec": { "nodeName": "node", "containers": [{ "name": "main", "image": "i:1" }] },
        "status": status,
    }))
    .unwrap()
}

fn running(restarts: u32, ready: bool) -> serde_json::Value {
    json!({ "phase": "Running", "containerStatuses": [{
        "name": "main", "ready": ready, "started": true, "restartCount": restarts,
        "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        "lastState": if restarts > 0 { json!({ "terminated": { "exitCode": 3 } }) } else { json!({}) },
    }] })
}

fn texts(diary: &Diary, previous: bool) -> Vec<String> {
    let log = diary.read("u", "main", previous).unwrap_or_default();
    log.lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn a_run_is_told_from_beginning_to_end_and_the_one_before_is_kept() {
    let (diary, at) = (Diary::default(), Timestamp::UNIX_EPOCH);
    let shown = [
        pod(1, &json!({ "phase": "Pending" })),
        pod(2, &running(0, false)),
        pod(3, &running(0, true)),
        pod(4, &running(1, false)),
    ];
    let mut before = None;
    for pod in &shown {
        diary.note(before, pod, at);
        diary.note(Some(pod), pod, at);
        before = Some(pod);
    }
    let starts = |run| format!("starts run {run} of image i:1, in name only: no process is behind it");
    assert_eq!(texts(&diary, true), [starts(1), "is ready".into(), "exits with code 3".into()]);
    assert_eq!(texts(&diary, false), [starts(2)]);
    assert!(!diary.read("u", "main", false).unwrap().is_over);
    diary.end(&shown[0].key);
    assert!(diary.read("u", "main", false).unwrap().is_over);
}

#[test]
fn a_diary_does_not_grow_without_end() {
    let (diary, at) = (Diary::default(), Timestamp::UNIX_EPOCH);
    let (ready, unready) = (pod(1, &running(0, true)), pod(2, &running(0, false)));
    for _ in 0..MAX_LINES {
        diary.note(Some(&ready), &unready, at);
        diary.note(Some(&unready), &ready, at);
    }
    assert_eq!(texts(&diary, false).len(), MAX_LINES);
    for number in 0..2 * MAX_GONE {
        let mut pod = unready.clone();
        pod.key = Key::from(number.to_string());
        diary.note(None, &pod, at);
        diary.end(&pod.key);
    }
    assert_eq!(diary.lock().gone.len(), MAX_GONE);
    assert_eq!(diary.lock().runs.len(), MAX_GONE + 1);
}
