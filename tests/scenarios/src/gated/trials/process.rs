//! The binary, as users run it, and what becomes of a rollout when it is killed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use serde_json::json;
use sts_plus_harness::process::Process;
use sts_plus_harness::wait::{NotYet, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::trials;
use crate::binary;
use crate::cluster::Account;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    trials![needs_binary: true; b_a14_11_a_sigkill_within_a_gate_changes_nothing]
}

/// The flag without which nothing here may be asked.
pub(super) const ALLOW_LOOPBACK: &str = "--allow-loopback";

/// A running binary that tells all it can.
pub(super) struct Binary {
    process: Process,
}

impl Binary {
    pub(super) fn start(stage: &Gated, account: &Account, flags: &[&str]) -> Self {
        let kubeconfig = stage.cluster.kubeconfig(account).unwrap();
        let mut command = Command::new(binary::find().unwrap());
        command.arg("run").arg("--kubeconfig").arg(&kubeconfig).args(["--server-port", "0"]);
        command.args(["--namespace", &stage.namespace, "--leader-elect=false"]).args(flags);
        command.env("STS_PLUS_LOG", "debug");
        stage.view().note("the binary starts".to_owned());
        let log = kubeconfig.with_extension(format!("{}.log", stage.namespace));
        Self { process: Process::spawn(&command, log).unwrap() }
    }

    /// Ends it as the kernel does, in the middle of whatever it does.
    pub(super) fn kill(mut self) {
        self.process.kill();
    }

    /// All that it and those before it on this stage have printed.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    /// Its page of metrics.
    pub(super) async fn metrics(&self) -> String {
        let port = until(DEADLINE, "the binary to say where it listens", || async {
            let log = self.log();
            let address = log.split("address=[::]:").nth(1).or_else(|| log.split("address=0.0.0.0:").nth(1));
            let digits: String =
                address.into_iter().flat_map(str::chars).take_while(char::is_ascii_digit).collect();
            digits.parse::<u16>().map_err(|_| NotYet::saw(self.process.log_tail()))
        })
        .await;
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.unwrap();
        // In version 1.0 the answer ends with the connection.
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.split_once("\r\n\r\n").is_some_and(|(_, page)| page.contains("sts_plus_")),
            "{answer}"
        );
        answer
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the end of the binary's log\n{}\n----", self.process.log_tail());
        }
    }
}

async fn b_a14_11_a_sigkill_within_a_gate_changes_nothing(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let account = stage.account("operator").await;
    let binary = Binary::start(&stage, &account, &[ALLOW_LOOPBACK]);
    let rollout = Rollout::new("web", &answers.url()).check(&json!({ "successThreshold": 3 }));
    stage.given_managed(&Set::new("web", 3), &rollout).await;

    stage.change_and_observe("web", &Template::new("v2")).await;
    stage
        .rollout_is("web", "in the middle of the second gate", |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.partition == 2 && gate.consecutive_successful_checks == 1)
        })
        .await;
    binary.kill();
    stage.view().note("the binary is killed".to_owned());
    let binary = Binary::start(&stage, &account, &[ALLOW_LOOPBACK]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;

    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    for pod in ["web-0", "web-1", "web-2"] {
        assert_eq!(stage.view().lives_of(pod), 2, "{pod}");
    }
    let requests = stage.requests().await;
    assert!(!requests.iter().any(crate::cluster::Request::deletes_pod), "{requests:#?}");
    drop(binary);
    stage.finish();
}
