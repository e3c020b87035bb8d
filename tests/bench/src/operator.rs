//! The operator under measurement: its real binary, as a process of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use sts_plus_harness::process::{Process, Signal};
use sts_plus_harness::wait::{NotYet, try_until};
use sts_plus_harness::{AuditEntry, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{Bed, HOME};
use crate::proc::{self, Memory};

/// Expected within a second or two.
const START_DEADLINE: Duration = Duration::from_mins(1);
/// The operator promises to end within 5 s.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// What is cached: StatefulSets, pods, PhasedRollouts, ExtendedStatefulSets of both groups, and our Services.
const SOURCES: usize = 6;

/// A running operator.
pub(crate) struct Operator {
    process: Process,
    pub(crate) identity: Identity,
    /// When it was started.
    pub(crate) executed: Timestamp,
}

/// What we read of a line of its log.
#[derive(Deserialize)]
struct LogLine {
    timestamp: Timestamp,
    message: String,
    address: Option<SocketAddr>,
}

impl Operator {
    /// Starts the binary as the chart does.
    pub(crate) fn start(bed: &Bed, binary: &Path, identity: &Identity) -> Result<Self> {
        Self::start_with(bed, binary, identity, &["--lease-namespace", HOME])
    }

    /// Starts the binary with these arguments besides those that every start needs.
    pub(crate) fn start_with(
        bed: &Bed,
        binary: &Path,
        identity: &Identity,
        arguments: &[&str],
    ) -> Result<Self> {
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(bed.plane.kubeconfig_for(identity)?)
            .args(["--log-format", "json", "--server-port", "0"])
            .args(arguments)
            .env("POD_NAME", identity.name());
        let executed = Timestamp::now();
        let log = format!("{}-{}.log", identity.name(), executed.as_millisecond());
        let process = Process::spawn(&command, bed.folder().join(log))?;
        Ok(Self { process, identity: identity.clone(), executed })
    }

    fn log(&self) -> Result<Vec<LogLine>> {
        let text = fs::read_to_string(self.process.log())?;
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }

    /// Waits until all caches are complete; how long after the start that was.
    pub(crate) async fn synced(&mut self) -> Result<Duration> {
        let synced = try_until(START_DEADLINE, "the caches to be synced", || {
            let listed = self.log().map(|lines| {
                let listed = lines.into_iter().filter(|line| line.message == "listed");
                listed.map(|line| line.timestamp).collect::<Vec<_>>()
            });
            async move {
                match listed {
                    Ok(listed) if listed.len() >= SOURCES => Ok(listed.into_iter().take(SOURCES).max()),
                    Ok(listed) => Err(NotYet::saw(listed)),
                    Err(error) => Err(NotYet::saw(error)),
                }
            }
        });
        let synced = synced.await.with_context(|| self.process.log_tail())?;
        Ok(elapsed(self.executed, synced.unwrap_or(self.executed)))
    }

    /// What it answers on `/ready`, once it is.
    pub(crate) async fn ready(&self) -> Result<String> {
        let ready = try_until(START_DEADLINE, "the operator to be ready", || async {
            let lines = self.log().map_err(NotYet::saw)?;
            let port = lines.into_iter().find_map(|line| line.address).map(|address| address.port());
            let port = port.ok_or_else(|| NotYet::saw("no address in its log"))?;
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
            if head.contains(" 200 ") { Ok(body.trim().to_owned()) } else { Err(NotYet::saw(body)) }
        });
        ready.await.with_context(|| self.process.log_tail())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        proc::memory(self.process.pid())
    }

    pub(crate) fn cpu(&self) -> Result<Duration> {
        proc::cpu(self.process.pid())
    }

    /// Sends it a signal and waits until it has ended; when it was sent.
    pub(crate) async fn end(mut self, signal: Signal) -> Result<Timestamp> {
        let sent = Timestamp::now();
        self.process.signal(signal)?;
        let ended = tokio::task::spawn_blocking(move || self.process.wait(STOP_DEADLINE)).await?;
        ended.map(|_| sent).ok_or_else(|| anyhow!("the operator does not end on {signal:?}"))
    }
}

/// Whether a request changes something of the user's: the lease and events are only ours.
pub(crate) fn is_write(entry: &AuditEntry) -> bool {
    !matches!(entry.verb.as_str(), "get" | "list" | "watch")
        && !matches!(entry.resource.as_str(), "leases" | "events")
}

/// Time between two points of the wall clock; none where they are in the wrong order.
pub(crate) fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from).max(SignedDuration::ZERO)).unwrap_or_default()
}
