//! The binary as a person meets it when something is wrong: a clear word on the screen, an exit code, no panic.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests, which clippy recognises only inside test functions"
)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

fn sts_plus() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sts-plus"));
    // Nothing of the machine's own configuration may leak in.
    command.env_clear().env("HOME", "/nonexistent");
    command
}

fn run(arguments: &[&str]) -> Output {
    sts_plus().args(arguments).output().expect("the binary runs")
}

fn error_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked") && !text.contains("stack backtrace"), "{text}");
    text
}

/// A kubeconfig for a server at this port of the loopback interface.
fn kubeconfig(folder: &tempfile::TempDir, port: u16) -> PathBuf {
    let file = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: demo}}}}]\n"
    );
    std::fs::write(&file, text).expect("a temporary file");
    file
}

#[test]
fn an_unknown_controller_is_refused_with_the_known_ones() {
    let output = run(&["run", "--controllers", "rollout-group,nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let error = error_of(&output);
    assert!(error.contains("nonsense") && error.contains("rollout-group"), "{error}");
}

#[test]
fn the_chart_carries_the_kinds_as_they_are_printed() {
    let output = run(&["crds"]);
    assert!(output.status.success(), "{}", error_of(&output));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("apiVersion: apiextensions.k8s.io/v1\n"), "{printed}");
    let carried = include_str!("../../../charts/sts-plus/files/crds.yaml");
    assert!(printed == carried, "charts/sts-plus/files/crds.yaml is out of date: run make crds");
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() {
    for arguments in
        [["run", "--kubeconfig", "/nonexistent/file"], ["status", "--kubeconfig", "/nonexistent/file"]]
    {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = error_of(&output);
        assert!(error.contains("cannot read the kubeconfig /nonexistent/file"), "{error}");
        assert_eq!(error.lines().filter(|line| line.starts_with("sts-plus:")).count(), 1, "{error}");
    }
}

#[test]
fn a_kubeconfig_that_is_no_kubeconfig_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, "{not yaml: [").expect("a temporary file");
    let output = run(&["status", "--kubeconfig", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_of(&output).contains("kubeconfig"), "{}", error_of(&output));
}

#[test]
fn an_unknown_context_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = kubeconfig(&folder, 1);
    let output = run(&["status", "--kubeconfig", file.to_str().expect("UTF-8"), "--context", "elsewhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_of(&output).contains("elsewhere"), "{}", error_of(&output));
}

#[test]
fn without_any_cluster_the_ways_to_name_one_are_told() {
    let output = run(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(error.contains("--kubeconfig") && error.contains("$KUBECONFIG"), "{error}");
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag_to_choose_another() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let file = kubeconfig(&folder, 1);
    let output = run(&["run", "--kubeconfig", file.to_str().expect("UTF-8"), "--server-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(error.contains(&port) && error.contains("--server-port"), "{error}");
}

/// A process that is stopped when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn an_api_server_that_is_gone_at_the_start_is_reported_and_retried_and_sigterm_ends_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for election in ["--leader-elect=true", "--leader-elect=false"] {
        let file = kubeconfig(&folder, 1);
        let mut operator = Running(
            sts_plus()
                .args(["run", "--server-port", "0", election, "--kubeconfig"])
                .arg(file)
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary runs"),
        );
        let mut lines = BufReader::new(operator.0.stderr.take().expect("piped")).lines();
        let told = lines.by_ref().map_while(Result::ok).find(|line| line.contains("is the API server up"));
        assert!(told.is_some_and(|told| told.contains("is retried") || told.contains("Retrying")));
        let killed = Command::new("kill").arg(operator.0.id().to_string()).status().expect("kill runs");
        assert!(killed.success());
        let rest: Vec<_> = lines.map_while(Result::ok).collect();
        assert_eq!(operator.0.wait().expect("it ends").code(), Some(0), "{rest:?}");
    }
}

#[test]
fn an_unknown_feature_gate_is_refused_with_the_known_one() {
    let refused = |gates: &str| error_of(&run(&["run", "--feature-gates", gates]));
    let unknown = refused("MaxUnavailableStatefulSet=true,Magic=true");
    assert!(unknown.contains("\"Magic\"") && unknown.contains("MaxUnavailableStatefulSet"), "{unknown}");
    let odd = refused("MaxUnavailableStatefulSet=maybe");
    assert!(odd.contains("must be true or false"), "{odd}");
    assert!(refused("MaxUnavailableStatefulSet").contains("NAME=true"));
}
