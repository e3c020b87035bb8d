//! Without a terminal: lines.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::playground;
use crate::pty::{DEADLINE, Terminal};

/// A process that is stopped when the test ends, however it ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Reads the lines of a playground until each of these has been seen, in any order.
pub(crate) fn read_until(running: &mut Running, missing: &[&str]) -> Vec<String> {
    let lines = BufReader::new(running.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    let mut missing = missing.to_vec();
    let mut told: Vec<String> = Vec::new();
    while !missing.is_empty() {
        match received.recv_timeout(DEADLINE) {
            Ok(line) => {
                missing.retain(|expected| !line.contains(expected));
                told.push(line);
            }
            Err(_) => assert!(missing.is_empty(), "{missing:?} not in\n{}", told.join("\n")),
        }
    }
    told
}

#[test]
fn the_demo_of_extended_stateful_sets_shows_all_of_it_in_lines_without_a_key() {
    let mut command = playground(&["--fast", "--port", "0", "--demo", "extended"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let told = read_until(
        &mut running,
        &[
            "kubectl describe ests web",
            // A version beside the one before, zone after zone.
            "EXTENDED STATEFULSET web: version 1, update to version 2, VersionStarting",
            "extendedstatefulset/web VersionCreated: Created StatefulSet web-z1-v2 of version 2.",
            "pod/web-z0-v2-0 ready (update revision ",
            "pod/web-z0-v1-0 deleted",
            "EXTENDED STATEFULSET web: version 2, Ready",
            // A change of the configuration, zone after zone.
            r#"$ kubectl patch configmap db-config --type merge -p '{"data":{"log_level":"debug"}}'"#,
            "statefulset/db-z0 Rolling: Rolling to revision db-z0-",
            "statefulset/db-z1 Rolling: Rolling to revision db-z1-",
            "EXTENDED STATEFULSET db: version 2, Ready",
            // A failover, and back.
            " 'hollow.sts.plus/http=/leader 503'",
            " hollow.sts.plus/http-",
        ],
    );
    let position = |words: &str| told.iter().position(|line| line.contains(words)).expect("just seen");
    let order =
        ["web:2", r#""log_level":"debug""#, "http=/leader 503", "hollow.sts.plus/http-"].map(position);
    assert!(order.is_sorted(), "{order:?}\n{}", told.join("\n"));
    // The pod that fails is not the one that is active when it passes again.
    let active = |line: &String| {
        line.split_once(" pod/")?.1.split_once(" ready active").map(|(pod, _)| pod.to_owned())
    };
    let [failed_at, restored_at] = [order[2], order[3]];
    let failed = told[failed_at].split_whitespace().nth(5).expect("a pod").to_owned();
    let next = told[failed_at..restored_at].iter().find_map(active).expect("another pod is active");
    assert_ne!(next, failed);
    let killed = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
    assert!(killed.success());
    assert!(running.0.wait().expect("a program that was started").success());
}

#[test]
fn the_demo_of_scaling_policies_shows_a_pod_that_leaves_in_lines_without_a_key() {
    let mut command = playground(&["--fast", "--port", "0", "--demo", "scaling"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let told = read_until(
        &mut running,
        &[
            "kubectl describe scp ingester",
            "SCALING POLICY ingester: 3 replicas wanted, 3 present, 3 Ready, Ready",
            "$ kubectl scale scp ingester --replicas=2",
            "SCALING POLICY ingester: 2 replicas wanted, 3 present, 2 Ready, Draining",
            "pod/ingester-2 draining (update revision ",
            "pod/ingester-2 deleted",
            "SCALING POLICY ingester: 2 replicas wanted, 2 present, 2 Ready, Ready",
            "$ kubectl scale scp ingester --replicas=3",
        ],
    );
    let position = |words: &str| told.iter().position(|line| line.contains(words)).expect("just seen");
    let order = ["--replicas=2", "ingester-2 draining", "ingester-2 deleted", "--replicas=3"].map(position);
    assert!(order.is_sorted(), "{order:?}\n{}", told.join("\n"));
    let killed = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
    assert!(killed.success());
    assert!(running.0.wait().expect("a program that was started").success());
}

#[test]
fn there_is_a_line_for_each_thing_that_happens_and_no_escape_code() {
    let mut command = playground(&["--fast", "--port", "0"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let told = read_until(
        &mut running,
        &[
            "sts-plus playground at https://127.0.0.1:",
            "KUBECONFIG=",
            "pod/store-zone-a-0 terminating (outdated revision ",
            "pod/store-zone-a-0 ready (update revision ",
            "$ kubectl set env statefulset --all VERSION=2",
            "statefulset/store-zone-a Rolling: Rolling to revision store-zone-a-",
            "statefulset/store-zone-b Rolling: Rolling to revision store-zone-b-",
            "phasedrollout/gated RolloutCompleted: All pods are of revision gated-",
        ],
    );
    assert!(!told.iter().any(|line| line.contains('\u{1b}')), "{told:?}");
    let killed = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
    assert!(killed.success());
    assert!(running.0.wait().expect("a program that was started").success());
    let kubeconfig = told.iter().find_map(|line| line.trim().strip_prefix("KUBECONFIG=")?.split(' ').next());
    assert!(!std::path::Path::new(kubeconfig.expect("a kubeconfig")).exists());
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let mut command = playground(&["--fast", "--port", "0"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let first = BufReader::new(running.0.stdout.take().expect("piped")).lines().next();
    assert!(first.is_some_and(|line| line.is_ok_and(|line| line.starts_with("sts-plus playground at"))));
    assert!(running.0.wait().expect("a program that was started").success());
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let mut command = playground(&["--fast", "--port", "0"]);
    let mut terminal = Terminal::start(command.env("TERM", "dumb"), (80, 24));
    terminal.wait("lines", |screen| screen.contains("pod/store-zone-a-0 "));
    assert!(!terminal.look(|seen| seen.parser.screen().alternate_screen()));
    terminal.signal("TERM");
    assert!(terminal.end().success());
}

#[test]
fn without_a_subcommand_there_is_a_playground() {
    for flags in [&[][..], &["--no-demo", "--fast"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sts-plus"));
        command.env_clear().env("STS_PLUS_PORT", "0").args(flags).stdout(Stdio::piped());
        let mut running = Running(command.spawn().expect("the binary runs"));
        let first = BufReader::new(running.0.stdout.take().expect("piped")).lines().next();
        assert!(first.is_some_and(|line| line.is_ok_and(|line| line.starts_with("sts-plus playground at"))));
        // An empty one has nothing to tell to the reader who has gone, and does not notice.
        let killed = Command::new("kill").arg(running.0.id().to_string()).status().expect("kill runs");
        assert!(killed.success());
        assert!(running.0.wait().expect("a program that was started").success());
    }
}

#[test]
fn flags_that_are_not_the_playgrounds_own_are_refused() {
    for (flags, told) in [
        (&["--kubeconfig", "none"][..], "subcommand"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--port", "many"], "many"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sts-plus"));
        let output = command.env_clear().args(flags).output().expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{flags:?}: {error}");
    }
}
