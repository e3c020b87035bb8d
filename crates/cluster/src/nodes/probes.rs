//! Probes: what a pod is asked, when, and what follows from the answers. Asking itself is at the end.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;

use super::behaviour::Exec;
use super::network::Transport;
use crate::clock::Moment;

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Startup,
    Readiness,
    Liveness,
}

/// How a container is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Http {
        host: Option<IpAddr>,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        port: u16,
    },
    /// There is nothing to execute: an annotation says how it ends.
    Exec,
    /// A port that is named and not declared, or a way of asking that is unknown: no answer.
    Impossible,
}

/// One probe of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) purpose: Purpose,
    pub(super) check: Check,
    pub(super) delay: Duration,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    /// Consecutive answers of one kind that count.
    pub(super) successes: u32,
    pub(super) failures: u32,
}

/// What the probes of a pod say together: its containers do everything together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// All startup probes have succeeded.
    pub(super) started: bool,
    /// All readiness probes succeed.
    pub(super) ready: bool,
    /// A startup or liveness probe has failed for good.
    pub(super) dead: bool,
}

impl Health {
    /// Nothing is asked, so nothing is wrong.
    pub(super) const FINE: Health = Health { started: true, ready: true, dead: false };
}

/// The probes of one run of a pod's containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Probing {
    probes: Arc<[Probe]>,
    /// Which run of the containers is asked: how often they were restarted before it. None: they do not run.
    run: Option<u32>,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    due: Moment,
    /// Since when an answer is awaited.
    asked: Option<Moment>,
    succeeded: u32,
    failed: u32,
    verdict: Option<bool>,
}

impl Probing {
    /// Takes note of what runs now: `run` counts the restarts before it. A run that is shown as ready already was asked
    /// by somebody before, and goes on from there.
    pub(super) fn see(&mut self, probes: &Arc<[Probe]>, run: Option<u32>, is_ready: bool, now: Moment) {
        if self.run == run && (run.is_none() || self.probes == *probes) {
            return;
        }
        self.run = run;
        self.probes = Arc::clone(probes);
        let begin = |probe: &Probe| {
            let verdict = (is_ready && probe.purpose != Purpose::Liveness).then_some(true);
            State { due: now + probe.delay, verdict, ..State::default() }
        };
        self.states = if run.is_some() { probes.iter().map(begin).collect() } else { Vec::new() };
    }

    /// The probes that are to be asked now; they count as asked from here on.
    pub(super) fn ask(&mut self, now: Moment) -> Vec<(usize, Probe)> {
        let started = self.health().started;
        let mut asked = Vec::new();
        for (index, (probe, state)) in self.probes.iter().zip(&mut self.states).enumerate() {
            if is_asked(probe, state, started) && state.due <= now {
                state.asked = Some(now);
                asked.push((index, probe.clone()));
            }
        }
        asked
    }

    /// When the next one is to be asked.
    pub(super) fn wake(&self) -> Option<Moment> {
        let started = self.health().started;
        let waiting =
            self.probes.iter().zip(&self.states).filter(|(probe, state)| is_asked(probe, state, started));
        waiting.map(|(_, state)| state.due).min()
    }

    /// Takes in an answer, if it is of this run.
    pub(super) fn answered(&mut self, index: usize, run: u32, success: bool, now: Moment) {
        if self.run != Some(run) {
            return;
        }
        let (Some(probe), Some(state)) = (self.probes.get(index), self.states.get_mut(index)) else {
            return;
        };
        let Some(asked) = state.asked.take() else {
            return;
        };
        state.due = (asked + probe.period).max(now);
        if success {
            (state.succeeded, state.failed) = (state.succeeded.saturating_add(1), 0);
            if state.succeeded >= probe.successes {
                state.verdict = Some(true);
            }
        } else {
            (state.succeeded, state.failed) = (0, state.failed.saturating_add(1));
            if state.failed >= probe.failures {
                state.verdict = Some(false);
            }
        }
    }

    pub(super) fn run(&self) -> Option<u32> {
        self.run
    }

    pub(super) fn health(&self) -> Health {
        let mut health = Health::FINE;
        for (probe, state) in self.probes.iter().zip(&self.states) {
            match probe.purpose {
                Purpose::Startup => {
                    health.started &= state.verdict == Some(true);
                    health.dead |= state.verdict == Some(false);
                }
                Purpose::Readiness => health.ready &= state.verdict == Some(true),
                Purpose::Liveness => health.dead |= state.verdict == Some(false),
            }
        }
        health.ready &= health.started;
        health
    }
}

/// Whether a probe is asked at all now: startup probes until they succeed, the others from then on.
fn is_asked(probe: &Probe, state: &State, started: bool) -> bool {
    state.asked.is_none()
        && match probe.purpose {
            Purpose::Startup => state.verdict.is_none(),
            Purpose::Readiness | Purpose::Liveness => started,
        }
}

/// Asks a pod.
pub(super) async fn ask(probe: Probe, pod: Ipv4Addr, exec: Exec, transport: Arc<dyn Transport>) -> bool {
    let asked = async {
        match &probe.check {
            Check::Exec => exec.passes(probe.purpose),
            Check::Impossible => false,
            Check::Tcp { port } => transport.connect((pod, *port).into()).await.is_ok(),
            Check::Http { host, port, path, headers } => {
                let address = SocketAddr::new(host.unwrap_or(IpAddr::V4(pod)), *port);
                get(address, path, headers, &*transport).await.is_some_and(|status| {
                    // Kubernetes takes redirections for success, too.
                    (200..400).contains(&status)
                })
            }
        }
    };
    tokio::time::timeout(probe.timeout, asked).await.unwrap_or(false)
}

/// A path as it is asked for: what may not stand there is escaped, as kubelets do.
fn target(path: &str) -> String {
    let mut target = if path.starts_with('/') { String::new() } else { "/".to_owned() };
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | 0..=b' ' | 0x7f.. => {
                // Writing to a string cannot fail.
                let _ = write!(target, "%{byte:02X}");
            }
            _ => target.push(char::from(byte)),
        }
    }
    target
}

async fn get(
    address: SocketAddr,
    path: &str,
    headers: &[(String, String)],
    transport: &dyn Transport,
) -> Option<u16> {
    let mut request = http::Request::get(target(path));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if !has("host") {
        request = request.header(http::header::HOST, address.to_string());
    }
    if !has("user-agent") {
        request = request.header(http::header::USER_AGENT, "kube-probe/hollow");
    }
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    let stream = transport.connect(address).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::select! {
        biased;
        response = sender.send_request(request) => response.ok().map(|response| response.status().as_u16()),
        _ = connection => None,
    }
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
