//! One query over one connection: look the address up, look at it, connect to it, ask, read.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::dial::{Dial, Stream};
use super::endpoint::{Endpoint, Site};
use super::reach::{Reach, Refusal};
use super::reading::Reading;
use super::slots::Slot;
use super::tls::Tls;
use crate::shell::api::describe;

/// How much of a connection is buffered, in bytes: the head of an answer has to fit, its body passes through.
const MAX_BUFFER_BYTES: usize = 16 * 1024;

/// The longest reason of an answer that is no success, in bytes: it is a sentence. Of a longer one nothing is kept, since
/// its beginning could end in half a credential.
const MAX_REASON_BYTES: usize = 8 * 1024;

/// How many addresses of one name are tried: they share the time limit.
const MAX_ADDRESSES: usize = 4;

/// What failed before there was an answer to look at.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum CallError {
    #[error("{host} is at {address}: {}", .why.words())]
    Refused { host: String, address: IpAddr, why: Refusal },
    #[error("{host} has no address: {why}")]
    Unresolved { host: String, why: String },
    #[error("no connection to {address}: {why}")]
    Unconnected { address: SocketAddr, why: String },
    #[error("{0} cannot be the name of a server in a certificate")]
    ServerName(String),
    #[error(
        "the certificate of {0} is signed by an authority that is not trusted: name a Secret with its ca.crt in \
         caSecretRef"
    )]
    UnknownAuthority(String),
    #[error("the certificate of {0} is for another name: {1}")]
    OtherName(String, String),
    #[error(
        "{0} asks for a client certificate: name a Secret with tls.crt and tls.key in clientCertSecretRef"
    )]
    NoClientCertificate(String),
    #[error("{0} refuses the client certificate of clientCertSecretRef: {1}")]
    ClientCertificate(String, String),
    #[error("no secure connection to {0}: {1}")]
    Tls(String, String),
    #[error("the connection to {0} broke: {1}")]
    Broken(String, String),
    /// What came is no HTTP: whoever sent it has not gone.
    #[error("the connection to {0} broke: {1}")]
    Malformed(String, String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the request cannot be made: {0}")]
    Unmade(String),
}

impl CallError {
    /// Whether the user has to change something first.
    pub(super) fn needs_a_change(&self) -> bool {
        match self {
            Self::Refused { .. }
            | Self::ServerName(_)
            | Self::UnknownAuthority(_)
            | Self::OtherName(..)
            | Self::NoClientCertificate(_)
            | Self::ClientCertificate(..)
            | Self::Unmade(_) => true,
            Self::Unresolved { .. }
            | Self::Unconnected { .. }
            | Self::Tls(..)
            | Self::Broken(..)
            | Self::Malformed(..)
            | Self::TimedOut(_) => false,
        }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) code: StatusCode,
    /// Where a redirect leads.
    pub(super) location: Option<String>,
    /// The body of an answer that is no success, unless it is long.
    pub(super) text: Vec<u8>,
}

/// A server, and all that is needed to ask it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) endpoint: Endpoint,
    pub(super) reach: Reach,
    pub(super) dial: Arc<dyn Dial>,
    /// The right to make the call; absent while the process ends.
    pub(super) slot: Arc<Option<Slot>>,
    pub(super) headers: HeaderMap,
    /// Present for https.
    pub(super) tls: Option<Tls>,
    /// From the first look at the name to the last byte.
    pub(super) limit: Duration,
}

impl Line {
    /// Sends a form, as POST and where that is not supported as GET. The body of a success is passed to `reading`.
    pub(super) async fn send(
        &self,
        form: &Bytes,
        deadline: Instant,
        reading: &mut Reading,
    ) -> Result<Reply, CallError> {
        let asked = async {
            let reply = self.exchange(Method::POST, form, deadline, reading).await?;
            if matches!(reply.code, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED) {
                return self.exchange(Method::GET, form, deadline, reading).await;
            }
            Ok(reply)
        };
        timeout_at(deadline, asked).await.unwrap_or(Err(CallError::TimedOut(self.limit)))
    }

    async fn exchange(
        &self,
        method: Method,
        form: &Bytes,
        deadline: Instant,
        reading: &mut Reading,
    ) -> Result<Reply, CallError> {
        let request = self.request(&method, form).map_err(|error| CallError::Unmade(error.to_string()))?;
        let site = &self.endpoint.site;
        let addresses = self.resolve().await?;
        let stream = self.connect(&addresses, deadline).await?;
        match &self.tls {
            None => self.talk(stream, request, reading).await,
            Some(tls) => {
                let name = ServerName::try_from(site.host.clone())
                    .map_err(|_| CallError::ServerName(site.host.clone()))?;
                let connector = TlsConnector::from(tls.config.clone());
                let stream = connector.connect(name, stream).await.map_err(|error| self.broken(&error))?;
                self.talk(stream, request, reading).await
            }
        }
    }

    /// The addresses of the host that may be asked.
    async fn resolve(&self) -> Result<Vec<SocketAddr>, CallError> {
        let Site { host, port, .. } = &self.endpoint.site;
        if let Some(address) = self.endpoint.site.address() {
            return permitted(host, [SocketAddr::new(address, *port)], self.reach);
        }
        let found = self.lookup(host, *port).await;
        let found =
            found.map_err(|error| CallError::Unresolved { host: host.clone(), why: error.to_string() })?;
        permitted(host, found, self.reach)
    }

    /// Looks a name up. The machine's resolver has a thread of its own for that, which nobody can end: the slot is held
    /// until it returns, also where nobody waits for it any more, so that there are never more such threads than slots.
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let (dial, slot, host) = (Arc::clone(&self.dial), Arc::clone(&self.slot), host.to_owned());
        let lookup = tokio::spawn(async move {
            let found = dial.lookup(&host, port).await;
            drop(slot);
            found
        });
        lookup.await.map_err(io::Error::other)?
    }

    /// Connects to the first address that takes it. Each gets an equal share of the time that is left, so that one
    /// that swallows packets leaves some for the next.
    async fn connect(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<Box<dyn Stream>, CallError> {
        let mut failure = CallError::TimedOut(self.limit);
        let shares = (1..=u32::try_from(addresses.len()).unwrap_or(u32::MAX)).rev();
        for (address, shares) in addresses.iter().zip(shares) {
            let share = deadline.saturating_duration_since(Instant::now()) / shares;
            let why = match timeout(share, self.dial.connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it does not answer".to_owned(),
            };
            failure = CallError::Unconnected { address: *address, why };
        }
        Err(failure)
    }

    fn request(&self, method: &Method, form: &Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
        let path = &self.endpoint.path;
        let (target, body) = if *method == Method::GET {
            (format!("{path}?{}", String::from_utf8_lossy(form)), Bytes::new())
        } else {
            (path.clone(), form.clone())
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, &self.endpoint.authority)
            .header(header::USER_AGENT, concat!("sts-plus/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(body))?;
        if *method == Method::POST {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        for name in self.headers.keys() {
            request.headers_mut().remove(name);
        }
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        Ok(request)
    }

    async fn talk<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
        reading: &mut Reading,
    ) -> Result<Reply, CallError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut text = Vec::new();
        let head = exchange(stream, request, |code, data| {
            if code.is_success() { reading.take(data) } else { keep(&mut text, data) }
        });
        let head = head.await.map_err(|error| self.broken(&error))?;
        let location = head.headers.get(header::LOCATION);
        let location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Ok(Reply { code: head.status, location, text })
    }

    fn broken(&self, error: &(dyn StdError + 'static)) -> CallError {
        let presents = self.tls.as_ref().is_some_and(|tls| tls.presents);
        broken(error, &self.endpoint.site.host, presents)
    }
}

/// Sends a request over a connection, and hands over the body of the answer as it comes, until no more of it is wanted.
pub(super) async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    mut take: impl FnMut(StatusCode, &[u8]) -> ControlFlow<()>,
) -> Result<Parts, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MAX_BUFFER_BYTES).handshake(TokioIo::new(stream)).await?;
    // Ends with this call, whichever way that goes.
    let mut background = JoinSet::new();
    background.spawn(connection);
    let (head, mut body) = sender.send_request(request).await?.into_parts();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else { continue };
        if take(head.status, data).is_break() {
            break;
        }
    }
    Ok(head)
}

/// Whether an answer came that cannot be read.
fn is_malformed(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        next = error.source();
    }
    false
}

/// What an error of the transport means. `presents` says whether we have shown a certificate.
pub(super) fn broken(error: &(dyn StdError + 'static), host: &str, presents: bool) -> CallError {
    let host = host.to_owned();
    match tls_cause(error) {
        None if is_malformed(error) => CallError::Malformed(host, describe(error)),
        None => CallError::Broken(host, describe(error)),
        // An authority that got a new key under its old name has a wrong signature.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => CallError::UnknownAuthority(host),
        Some(rustls::Error::InvalidCertificate(
            why @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        )) => CallError::OtherName(host, why.to_string()),
        Some(rustls::Error::AlertReceived(alert)) if speaks_of_our_certificate(*alert) => {
            if presents {
                CallError::ClientCertificate(host, format!("{alert:?}"))
            } else {
                CallError::NoClientCertificate(host)
            }
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            CallError::Tls(host, "it does not speak TLS; is http meant?".to_owned())
        }
        Some(other) => CallError::Tls(host, other.to_string()),
    }
}

fn keep(text: &mut Vec<u8>, data: &[u8]) -> ControlFlow<()> {
    if text.len().saturating_add(data.len()) > MAX_REASON_BYTES {
        text.clear();
        return ControlFlow::Break(());
    }
    text.extend_from_slice(data);
    ControlFlow::Continue(())
}

/// A name may have addresses of both kinds; then the others are left alone.
fn permitted(
    host: &str,
    found: impl IntoIterator<Item = SocketAddr>,
    reach: Reach,
) -> Result<Vec<SocketAddr>, CallError> {
    let mut none = CallError::Unresolved { host: host.to_owned(), why: "its name has none".to_owned() };
    let mut permitted = Vec::new();
    for found in found {
        match reach.refusal(found.ip()) {
            None => permitted.push(found),
            Some(why) => none = CallError::Refused { host: host.to_owned(), address: found.ip(), why },
        }
    }
    permitted.truncate(MAX_ADDRESSES);
    if permitted.is_empty() { Err(none) } else { Ok(permitted) }
}

/// The TLS error inside an error of the transport.
fn tls_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The source of an io::Error is the source of what it wraps, not what it wraps.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}

fn speaks_of_our_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod call_tests;
