//! The API server behind HTTPS, for kubectl, helm and whatever else speaks Kubernetes.
//!
//! ```text
//! socket ──> patience ──> TLS ──> HTTP/1.1 ──> token ──> Server
//! ```
//!
//! Nobody who connects can hold up anybody else: handshakes, heads and answers that nobody reads have their time, and
//! there are only so many connections. Whoever knows the token of the [`Identity`] may do everything.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::machinery::answer::Refusal;
use crate::machinery::service::{AnswerBody, Server};

mod identity;
mod patience;

pub use identity::{Identity, IdentityError, kubeconfig};
use patience::Patience;

/// Connections at a time; one kubectl needs one, an operator a dozen.
pub const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may be idle, or take to send the head of a request: longer than clients pause between two.
const HEAD: Duration = Duration::from_mins(2);
/// Largest head of a request, in bytes: a long selector and a token fit in many times over.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a request may take until its answer begins: Kubernetes' own limit.
const REQUEST: Duration = Duration::from_mins(1);
/// How long a client may leave an answer unread before it is cut off: more than any pause of a healthy one.
const UNREAD: Duration = Duration::from_secs(30);
/// How long answers that are under way may take to finish once everything stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long to wait when no connection can be taken, for want of file descriptors as a rule.
const BREATH: Duration = Duration::from_millis(100);
/// Consecutive failures after which a listener is taken for broken: three seconds of them.
const MAX_FAILURES: usize = 30;
/// Paths that tell nobody anything, as probes ask for them.
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificate cannot be read.
    #[error("the server's certificate cannot be read: {0}")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The private key cannot be read.
    #[error("the server's private key cannot be read: {0}")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// Certificate and key do not go together.
    #[error("the server's certificate cannot be used: {0}")]
    Tls(#[source] rustls::Error),
    /// The listener has stopped to give connections.
    #[error("no connection can be taken any more: {0}")]
    Accept(#[source] io::Error),
}

/// Answers whoever connects until it is told to stop, watches included.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    identity: &Identity,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let door =
        Door { server, tls: acceptor(identity)?, token: identity.token.as_str().into(), stop: stop.clone() };
    let mut connections = JoinSet::new();
    let mut failures = 0;
    let outcome = loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break Ok(()),
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) if connections.len() < MAX_CONNECTIONS => {
                failures = 0;
                debug!(%peer, "connected");
                connections.spawn(door.clone().receive(stream));
            }
            Ok((_, peer)) => warn!(%peer, "turned away: {MAX_CONNECTIONS} connections are open"),
            Err(error) if failures < MAX_FAILURES => {
                failures += 1;
                warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(BREATH).await;
            }
            Err(error) => break Err(ServeError::Accept(error)),
        }
    };
    drop(listener);
    let goodbyes = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(FAREWELL, goodbyes).await.is_err() {
        connections.shutdown().await;
    }
    outcome
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor, ServeError> {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(ServeError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(ServeError::Key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServeError::Tls)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(ServeError::Tls)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What every connection needs.
#[derive(Clone)]
struct Door {
    server: Server,
    tls: TlsAcceptor,
    token: Arc<str>,
    stop: watch::Receiver<bool>,
}

impl Door {
    async fn receive(self, stream: TcpStream) {
        // Lines of a watch are short and wanted at once.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "small packets will be delayed");
        }
        let accepted = tokio::time::timeout(HANDSHAKE, self.tls.accept(Patience::new(stream, UNREAD))).await;
        let Ok(Ok(stream)) = accepted else {
            debug!("no TLS handshake came of a connection");
            return;
        };
        let mut stop = self.stop.clone();
        let service = service_fn(move |request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_header_size(MAX_HEAD_BYTES);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            debug!(%error, "a connection ended early");
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Response<AnswerBody> {
        if !OPEN.contains(&request.uri().path()) && !is_known(request.headers(), &self.token) {
            return refuse(&Refusal::unauthorized());
        }
        match tokio::time::timeout(REQUEST, self.server.answer(request)).await {
            Ok(response) => response.map(|body| until(body, self.stop)),
            Err(_) => refuse(&Refusal::timeout()),
        }
    }
}

/// A body that ends when everything does; what is complete anyway is left alone.
fn until(body: AnswerBody, mut stop: watch::Receiver<bool>) -> AnswerBody {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let stopped = Box::pin(async move { stopped(&mut stop).await });
    StreamBody::new(BodyStream::new(body).take_until(stopped)).boxed_unsync()
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone will not tell any more.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Whether a request carries the token.
fn is_known(headers: &HeaderMap, token: &str) -> bool {
    let said = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let (scheme, said) = said.split_at_checked("Bearer ".len()).unwrap_or_default();
    scheme.eq_ignore_ascii_case(b"Bearer ") && is_same(said.trim_ascii(), token.as_bytes())
}

/// Compares in a time that does not depend on where the two differ.
fn is_same(said: &[u8], token: &[u8]) -> bool {
    let difference = said.iter().zip(token).fold(0, |found, (a, b)| std::hint::black_box(found | (a ^ b)));
    said.len() == token.len() && difference == 0
}

fn refuse(refusal: &Refusal) -> Response<AnswerBody> {
    let mut response = Response::new(Full::from(refusal.status().to_string()).boxed_unsync());
    *response.status_mut() = refusal.code();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
