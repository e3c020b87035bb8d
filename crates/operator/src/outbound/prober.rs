//! Probes of pods: a request or a connection to the pod's own address, or a command in one of its containers.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use http::{Request, header};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sts_plus_api::extended::Scheme;
use sts_plus_planner::extended::probe::{ProbeCheck, ProbeOutcome, ProbeRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::dial::Dial;
use super::reach::Reach;
use super::slots::Slots;
use super::tls;
use crate::shell::api::{Api, describe};

/// Probes at once for one object: one of 200 pods that all hang still comes round in four timeouts, and there is room for
/// the other objects of its namespace.
const PER_OBJECT: usize = 64;

/// How much of a connection is buffered, in bytes: the head of an answer has to fit, its body is not read.
const MAX_BUFFER_BYTES: usize = 16 * 1024;

/// How much is kept of why a probe failed, in characters: a sentence that is shown in a status.
const MAX_REASON_CHARACTERS: usize = 256;

/// So many hexadecimal digits in succession are an identifier, which differs from probe to probe: a container runtime names
/// each command that it could not start. A status that showed it would be written after each probe.
const MIN_IDENTIFIER_DIGITS: usize = 16;

/// Carries out probes.
#[derive(Clone, Debug)]
pub struct Prober {
    api: Api,
    reach: Reach,
    dial: Arc<dyn Dial>,
    /// By namespace, and in it by the object whose pods are probed.
    slots: Slots<Arc<str>>,
}

impl Prober {
    /// One that runs commands through `api` and reaches pods through `dial`.
    pub fn new(api: Api, reach: Reach, dial: Arc<dyn Dial>) -> Self {
        Self { api, reach, dial, slots: Slots::new(PER_OBJECT) }
    }

    /// Probes a pod of an object. The wait for a slot is no part of its time, and the probe is sent afterwards.
    pub async fn probe(&self, object: &Arc<str>, request: &ProbeRequest) -> ProbeOutcome {
        let _slot = self.slots.take(&request.pod.namespace, object).await;
        let at = self.api.now();
        let result = match timeout(request.timeout, self.attempt(request)).await {
            Ok(result) => result.map_err(|why| reason(&why)),
            Err(_) => Err(format!("no answer within {} s", request.timeout.as_secs()).into()),
        };
        let (container, check) = (Arc::clone(&request.container), request.check.clone());
        ProbeOutcome { uid: request.uid.clone(), container, check, at, result }
    }

    async fn attempt(&self, request: &ProbeRequest) -> Result<(), String> {
        match &request.check {
            ProbeCheck::Tcp { port } => self.connect(request, *port).await.map(drop),
            ProbeCheck::Http { scheme, port, path } => {
                let address = self.address(request, *port)?;
                let stream = self.connect(request, *port).await?;
                match scheme {
                    Scheme::Http => get(stream, address, path).await,
                    Scheme::Https => {
                        let name = rustls::pki_types::ServerName::from(address.ip());
                        let connector =
                            TlsConnector::from(tls::unverified().map_err(|error| error.to_string())?);
                        let stream = connector.connect(name, stream).await;
                        get(stream.map_err(|error| format!("no secure connection: {error}"))?, address, path)
                            .await
                    }
                }
            }
            ProbeCheck::Exec { command } => {
                let pod = (&*request.pod.namespace, &*request.pod.name);
                self.api.exec(pod, &request.container, command).await
            }
        }
    }

    fn address(&self, request: &ProbeRequest, port: u16) -> Result<SocketAddr, String> {
        let ip = request.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
        let ip = ip.ok_or_else(|| "the pod has no address".to_owned())?;
        match self.reach.refusal(ip) {
            Some(refusal) => Err(format!("{ip} is {}", refusal.words())),
            None => Ok(SocketAddr::new(ip, port)),
        }
    }

    async fn connect(
        &self,
        request: &ProbeRequest,
        port: u16,
    ) -> Result<Box<dyn super::dial::Stream>, String> {
        let address = self.address(request, port)?;
        self.dial.connect(address).await.map_err(|error| format!("no connection to {address}: {error}"))
    }
}

/// Sends a request. The kubelet's rule: from 200 to 399 passes, and no redirect is followed.
async fn get<S>(stream: S, address: SocketAddr, path: &str) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::get(path)
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, concat!("sts-plus/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| format!("the request cannot be made: {error}"))?;
    let broken = |error: hyper::Error| format!("the connection broke: {}", describe(&error));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_BUFFER_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let mut answer = pin!(sender.send_request(request));
    let answer = tokio::select! {
        answer = &mut answer => answer,
        // With an answer that has no body the connection ends at once; one that breaks says so to the request.
        _ = connection => answer.await,
    };
    let code = answer.map_err(broken)?.status();
    if (200..400).contains(&code.as_u16()) { Ok(()) } else { Err(format!("it answered {}", code.as_u16())) }
}

/// Why a probe failed, fit to be shown: one line, not long, and the same as long as the cause is.
fn reason(why: &str) -> Arc<str> {
    let mut shown = String::new();
    let mut digits = String::new();
    for character in why.trim().chars().map(|character| if character.is_control() { ' ' } else { character })
    {
        if character.is_ascii_hexdigit() {
            digits.push(character);
            continue;
        }
        end_digits(&mut digits, &mut shown);
        shown.push(character);
    }
    end_digits(&mut digits, &mut shown);
    match shown.char_indices().nth(MAX_REASON_CHARACTERS) {
        None => shown.into(),
        Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default()).into(),
    }
}

/// Shows digits that have come to their end, unless they are an identifier.
fn end_digits(digits: &mut String, shown: &mut String) {
    shown.push_str(if digits.len() >= MIN_IDENTIFIER_DIGITS { "…" } else { digits });
    digits.clear();
}

#[cfg(test)]
#[path = "prober_tests.rs"]
mod prober_tests;
