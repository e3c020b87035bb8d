use serde_json::json;

use super::super::built_in_columns::PODS;
use super::*;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

#[test]
fn durations_are_said_as_kubectl_says_them() {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    for (seconds, said) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 25, "2m25s"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 1, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (8 * 365 * DAY - DAY, "7y364d"),
        (9 * 365 * DAY + DAY, "9y"),
    ] {
        assert_eq!(duration(seconds), said, "{seconds}");
    }
}

#[test]
fn paths_lead_where_columns_say() {
    let object = json!({
        "a": { "b.c": { "d": 1 } }, "list": [{ "n": "x", "v": 1 }, { "n": "y", "v": 2 }],
    });
    for (path, found) in [
        (r".a.b\.c.d", json!(1)),
        (".a['b.c'].d", json!(1)),
        (".list[1].n", json!("y")),
        (".list[-1].n", json!("y")),
        (".list[*].v", json!(1)),
        (r#".list[?(@.n=="y")].v"#, json!(2)),
        (".list[?(@.n!='x')].v", json!(2)),
        (".list[?(@.v)].n", json!("x")),
        (".list[7].n", Value::Null),
        (".none.such", Value::Null),
    ] {
        let parsed = JsonPath::parse(path).unwrap();
        assert_eq!(parsed.find(&object).cloned().unwrap_or_default(), found, "{path}");
    }
    for path in [".a[", ".a[?(x)]", ".a[x]", "..a"] {
        assert_eq!(JsonPath::parse(path), None, "{path}");
    }
}

#[test]
fn a_custom_column_shows_what_is_of_its_type() {
    let columns = Columns::custom(&json!({ "additionalPrinterColumns": [
        { "name": "Text", "type": "string", "jsonPath": ".spec.x" },
        { "name": "Count", "type": "integer", "jsonPath": ".spec.x", "priority": 1 },
        { "name": "When", "type": "date", "jsonPath": ".spec.when" },
    ] }));
    let cells = |spec: Value| columns.cells(&json!({ "metadata": { "name": "n" }, "spec": spec }), now());
    assert_eq!(
        cells(json!({ "x": 3, "when": "2026-01-02T03:00:00Z" })),
        [json!("n"), "3".into(), 3.into(), "4m5s".into()]
    );
    assert_eq!(
        cells(json!({ "x": "t", "when": "soon" })),
        [json!("n"), "t".into(), Value::Null, "<invalid>".into()]
    );
    assert_eq!(cells(json!({})), [json!("n"), Value::Null, Value::Null, Value::Null]);
}

#[test]
fn a_pod_is_summed_up_in_one_word() {
    let waiting = |reason: &str| {
        json!([{ "state": { "waiting": { "reason": reason } }, "restartCount": 2,
        "lastState": { "terminated": { "finishedAt": "2026-01-02T03:03:00Z" } } }])
    };
    let running = json!([{ "ready": true, "state": { "running": {} }, "restartCount": 0 }]);
    let pod = |status: Value| json!({ "spec": { "containers": [{}], "initContainers": [{}, {}] }, "status": status });
    let gone = json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:00Z" }, "status": { "phase": "Running" } });
    for (pod, ready, status, restarts) in [
        (pod(json!({ "phase": "Pending" })), "0/1", "Pending", "0"),
        (pod(json!({ "phase": "Running", "containerStatuses": running })), "1/1", "Running", "0"),
        (
            pod(json!({ "phase": "Running", "containerStatuses": waiting("CrashLoopBackOff") })),
            "0/1",
            "CrashLoopBackOff",
            "2 (65s ago)",
        ),
        (
            pod(json!({ "phase": "Pending", "initContainerStatuses": waiting("PodInitializing") })),
            "0/1",
            "Init:0/2",
            "2 (65s ago)",
        ),
        (
            pod(
                json!({ "phase": "Pending", "initContainerStatuses": [{ "state": { "terminated": { "exitCode": 3 } } }] }),
            ),
            "0/1",
            "Init:ExitCode:3",
            "0",
        ),
        (gone, "0/0", "Terminating", "0"),
    ] {
        let cells = Columns::BuiltIn(PODS).cells(&pod, now());
        assert_eq!(cells[1..4], [json!(ready), json!(status), json!(restarts)], "{pod}");
    }
}
