//! The commands that show and steer ExtendedStatefulSets, against the demo of them.

use std::process::{Command, Output, Stdio};

use crate::piped::{Running, read_until};
use crate::playground;

/// The last thing that the demo does by itself.
const LAST: &str = " hollow.sts.plus/http-";

/// The kubeconfig that the first lines name.
fn kubeconfig(told: &[String]) -> String {
    let setting = told.iter().find_map(|line| line.trim().strip_prefix("KUBECONFIG="));
    setting.and_then(|rest| rest.split(' ').next()).expect("a kubeconfig").to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn extended_stateful_sets_are_shown_and_steered_by_name() {
    let mut command = playground(&["--fast", "--port", "0", "--demo", "extended"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let told = read_until(&mut running, &["KUBECONFIG=", LAST]);
    let kubeconfig = kubeconfig(&told);
    let run = |arguments: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sts-plus"));
        command.env_clear().args(arguments).args(["--kubeconfig", &kubeconfig]);
        command.output().expect("the binary runs")
    };
    let done = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };

    let page = done(&["status"]);
    for words in [
        "EXTENDED STATEFULSET web in namespace default\n  Ready for ",
        "    zone-a  web-z0-v2  version 2  running, 2/2 Ready\n",
        "    zone-b  db-z1  version 2  running, 2/2 Ready\n",
        "    active pod: db-z",
    ] {
        assert!(page.contains(words), "{words:?} is not in\n{page}");
    }
    assert!(!page.contains("GROUP"), "the zones of db are shown once:\n{page}");
    assert!(done(&["status", "--group", "db.ests"]).starts_with("EXTENDED STATEFULSET db in"));

    let json = || -> serde_json::Value {
        serde_json::from_str(&done(&["status", "--output", "json"])).expect("JSON")
    };
    let web = |view: &serde_json::Value| view[1].clone();
    assert_eq!(web(&json())["sets"][0]["version"], 2);
    assert_eq!(done(&["pause", "web"]), "extendedstatefulset.sts.plus/web paused\n");
    assert_eq!(web(&json())["paused"], true);
    assert_eq!(done(&["resume", "ests/web"]), "extendedstatefulset.sts.plus/web resumed\n");
    assert_eq!(web(&json())["paused"], false);
    // A zone of a rollout group can be paused by itself, and a set of one version cannot.
    assert_eq!(done(&["pause", "db-z0"]), "statefulset/db-z0 paused\n");
    assert_eq!(done(&["resume", "sts/db-z0"]), "statefulset/db-z0 resumed\n");
    let part = refused(&["pause", "web-z0-v2"]);
    assert!(part.contains("statefulset/web-z0-v2 is a part of extendedstatefulset.sts.plus/web"), "{part}");
    let nothing = refused(&["approve", "web"]);
    assert!(nothing.contains("extendedstatefulset.sts.plus/web does not wait for an approval"), "{nothing}");
    let missing = refused(&["pause", "nothing"]);
    assert!(
        missing.contains(
            "there is no StatefulSet, PhasedRollout, ExtendedStatefulSet or ScalingPolicy nothing in namespace"
        ),
        "{missing}"
    );
    let killed = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
    assert!(killed.success());
    assert!(running.0.wait().expect("a program that was started").success());
}
