//! The HTTPS server in front of the paths. Whoever connects can hold up nobody else: everything has a limit.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::paths::{PATHS, Row};
use super::review::{self, Answer};
use super::serving::Serving;
use crate::shell::webhook_metrics::WebhookMetrics;

/// The limits of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. An API server keeps 25 idle ones at most, and opens more while it asks about many objects.
    pub connections: usize,
    /// How long a client may take to agree on keys.
    pub handshake: Duration,
    /// How long a connection may be idle, or take to send the head of a request. API servers close theirs after 90 s; one that is
    /// closed by this end while a request is on its way would cost that request.
    pub idle: Duration,
    /// How long a request may take from its head to its answer: the time for which the webhook configuration lets API servers wait.
    pub request: Duration,
    /// Largest review, in bytes. API servers take 3 MiB of an object, and a review has some more around it.
    pub body: usize,
    /// Bytes of reviews that are held at a time, for all connections.
    pub bodies: usize,
    /// How long requests are answered after the process was asked to stop: until API servers know that this replica is gone.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake: Duration::from_secs(5),
            idle: Duration::from_mins(2),
            request: Duration::from_secs(5),
            body: 4 * 1024 * 1024,
            bodies: 24 * 1024 * 1024,
            farewell: Duration::from_secs(4),
        }
    }
}

/// Largest head of a request, in bytes; that of an API server has some 300.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// How long to wait when no connection can be accepted, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The first byte of a TLS handshake.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What is answered to who speaks HTTP without TLS, as Go's servers do.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nThe client sent an HTTP request to an HTTPS server.\n";

/// What a request to no known path is counted as.
const OTHER_PATH: &str = "other";

/// Serves until some time after it is asked to stop.
pub(super) async fn serve(
    listener: TcpListener,
    serving: Arc<Serving>,
    metrics: WebhookMetrics,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let tls = match tls(serving) {
        Ok(tls) => tls,
        Err(error) => {
            tracing::error!("the admission server cannot run: {error}");
            return;
        }
    };
    let bodies = Arc::new(Semaphore::new(limits.bodies));
    let server = Server { tls, metrics, limits, bodies, stop: stop.clone() };
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(async {
        stopped(&mut stop).await;
        tokio::time::sleep(limits.farewell).await;
    });
    loop {
        let accepted = tokio::select! {
            () = &mut end => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) if connections.len() < limits.connections => {
                connections.spawn(server.clone().receive(stream, peer));
            }
            Ok((_, peer)) => {
                server.metrics.refused("limit");
                tracing::warn!(%peer, "refused a connection to the admission server: {} are open", limits.connections);
            }
            Err(error) => {
                tracing::warn!("the admission server cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn tls(serving: Arc<Serving>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(super::keyring::provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone will never ask.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Server {
    tls: TlsAcceptor,
    metrics: WebhookMetrics,
    limits: Limits,
    bodies: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

/// What a request comes to.
struct Outcome {
    code: StatusCode,
    result: &'static str,
    body: Vec<u8>,
}

impl Outcome {
    fn refused(code: StatusCode, result: &'static str, why: impl Into<String>) -> Self {
        Self { code, result, body: (why.into() + "\n").into_bytes() }
    }
}

impl Server {
    async fn receive(self, stream: TcpStream, peer: SocketAddr) {
        stream.set_nodelay(true).ok();
        let Ok(accepted) = tokio::time::timeout(self.limits.handshake, self.accept(stream)).await else {
            self.metrics.refused("handshake_timed_out");
            return;
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // A prober of ports as a rule; a certificate that is not trusted is reported elsewhere.
                tracing::debug!(%peer, "no TLS connection: {error}");
                self.metrics.refused("handshake");
                return;
            }
        };
        let mut stop = self.stop.clone();
        let limits = self.limits;
        let is_used = Arc::new(AtomicBool::new(false));
        let used = Arc::clone(&is_used);
        let service = service_fn(move |request| {
            used.store(true, Ordering::Relaxed);
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(limits.idle).max_buf_size(MAX_HEAD_BYTES);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            // The client connects again, to another replica once it knows that this one stops.
            () = stopped(&mut stop) => {
                // The first request of a new connection is on its way.
                if is_used.load(Ordering::Relaxed) {
                    connection.as_mut().graceful_shutdown();
                }
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, "a connection ended early: {error}");
        }
    }

    async fn accept(
        &self,
        mut stream: TcpStream,
    ) -> std::io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        let mut first = [0_u8];
        if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE_RECORD] {
            stream.write_all(PLAIN_HTTP).await?;
            stream.shutdown().await?;
            return Err(std::io::Error::other("the client does not speak TLS"));
        }
        self.tls.accept(stream).await
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let began = Instant::now();
        let row = PATHS.iter().find(|row| row.path == request.uri().path());
        let outcome = match row {
            None => Outcome::refused(StatusCode::NOT_FOUND, "malformed", "There is no such path."),
            Some(row) => {
                let reviewed = tokio::time::timeout(self.limits.request, self.review(row, request)).await;
                reviewed.unwrap_or_else(|_| {
                    let why = "The request took too long.";
                    Outcome::refused(StatusCode::REQUEST_TIMEOUT, "timed_out", why)
                })
            }
        };
        let path = row.map_or(OTHER_PATH, |row| row.path);
        self.metrics.answered(path, outcome.result, began.elapsed());
        let is_ok = outcome.code == StatusCode::OK;
        if !is_ok {
            tracing::debug!(path, code = %outcome.code, "refused: {}", String::from_utf8_lossy(&outcome.body).trim());
        }
        let mut response = Response::new(Full::from(outcome.body));
        *response.status_mut() = outcome.code;
        let kind = if is_ok { "application/json" } else { "text/plain; charset=utf-8" };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if outcome.code == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        // The rest of a refused body is not read; and who asks again shall find another replica.
        if !is_ok || *self.stop.borrow() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn review(&self, row: &Row, request: Request<Incoming>) -> Outcome {
        if request.method() != Method::POST {
            let why = "An AdmissionReview is sent with POST.";
            return Outcome::refused(StatusCode::METHOD_NOT_ALLOWED, "malformed", why);
        }
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let why = "An AdmissionReview is sent as application/json.";
            return Outcome::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "malformed", why);
        }
        let body = match self.read(request.into_body()).await {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        match review::answer(&body.bytes, row.decide) {
            Ok(Answer { body, result }) => Outcome { code: StatusCode::OK, result, body },
            Err(error) => Outcome::refused(StatusCode::BAD_REQUEST, "malformed", error.to_string()),
        }
    }

    /// Reads a body. What comes is held only while there is room for it.
    async fn read(&self, mut body: Incoming) -> Result<Held, Outcome> {
        let limit = self.limits.body;
        let too_large = || {
            let why = format!("An AdmissionReview has at most {limit} bytes.");
            Outcome::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why)
        };
        if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        let mut held = Held::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = format!("The body ended early: {error}.");
                Outcome::refused(StatusCode::BAD_REQUEST, "malformed", why)
            })?;
            let Some(data) = frame.data_ref() else { continue };
            if held.bytes.len().saturating_add(data.len()) > limit {
                return Err(too_large());
            }
            let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            // Whoever waits here for too long runs into the time limit of the request.
            let room = Arc::clone(&self.bodies).acquire_many_owned(size).await;
            let room = room.map_err(|_| too_large())?;
            match &mut held.room {
                Some(before) => before.merge(room),
                before => *before = Some(room),
            }
            held.bytes.extend_from_slice(data);
        }
        Ok(held)
    }
}

/// A body, and the room that it takes.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
