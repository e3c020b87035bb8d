//! Without a terminal: lines.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::playground;
use crate::pty::{DEADLINE, Terminal};

/// A process that is stopped when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn there_is_a_line_for_each_thing_that_happens_and_no_escape_code() {
    let mut command = playground(&["--fast", "--port", "0"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let lines = BufReader::new(running.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    let mut missing = vec![
        "sts-plus playground at https://127.0.0.1:",
        "KUBECONFIG=",
        "pod/store-zone-a-0 terminating (old revision ",
        "pod/store-zone-a-0 ready (new revision ",
        "$ kubectl set env statefulset --all VERSION=2",
        "statefulset/store-zone-a Rolling: Rolling to revision store-zone-a-",
        "statefulset/store-zone-b Rolling: Rolling to revision store-zone-b-",
        "phasedrollout/gated RolloutCompleted: All pods are of revision gated-",
    ];
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
