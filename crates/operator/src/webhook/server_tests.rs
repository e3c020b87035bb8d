//! The server on loopback, over real TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sts_plus_api::keys::{POD_INDEX, STABLE_CLAIMS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::keyring::Keyring;
use super::super::renewal::Timing;
use super::super::serving::Serving;
use super::{Limits, serve};
use crate::shell::metrics::Metrics;

/// Only bounds hanging.
const DEADLINE: Duration = Duration::from_mins(1);

/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(200);

/// A running server, and who trusts it.
struct Running {
    address: SocketAddr,
    tls: TlsConnector,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    serving: Arc<Serving>,
    keyring: Keyring,
}

fn keyring(before: &Keyring, parts: (bool, bool)) -> Keyring {
    before.renewed(parts, &["127.0.0.1".to_owned()], jiff::Timestamp::now(), &Timing::default()).unwrap()
}

fn trusting(keyring: &Keyring) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(keyring.bundle().as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(super::super::keyring::provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::new();
        let serving = Arc::new(Serving::new(metrics.webhook.clone()));
        let keyring = keyring(&Keyring::default(), (true, true));
        let (certified, until) = keyring.shows(jiff::Timestamp::now()).unwrap();
        serving.show(certified, until);
        let (stop, stopped) = watch::channel(false);
        let task =
            tokio::spawn(serve(listener, Arc::clone(&serving), metrics.webhook.clone(), limits, stopped));
        Self { address, tls: trusting(&keyring), metrics, stop, task, serving, keyring }
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }

    /// What comes back, until the server closes the connection.
    async fn send(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await.unwrap();
        // The server may answer before it has read everything.
        let _ = stream.write_all(request).await;
        rest(stream).await
    }

    /// Waits until a metric has this line.
    async fn counted(&self, line: &str) {
        let seen = async {
            while !self.metrics.encode().lines().any(|found| found == line) {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, seen).await;
        assert!(waited.is_ok(), "no {line:?} in:\n{}", self.metrics.encode());
    }
}

/// Everything that is still to come.
async fn rest(mut stream: impl AsyncReadExt + Unpin) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.expect("an end");
    // A connection that is cut off is an end, too.
    let _ = read;
    String::from_utf8_lossy(&answer).into_owned()
}

fn review(ordinal: u32) -> Value {
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data-volume-management-db.ordinal" } });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("uid-{ordinal}"),
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "operation": "CREATE",
            "object": {
                "metadata": { "labels": { STABLE_CLAIMS: "true", POD_INDEX: ordinal.to_string() } },
                "spec": { "volumes": [volume] },
            },
        },
    })
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path}?timeout=5s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

#[tokio::test]
async fn a_review_is_answered_over_tls() {
    let server = Running::start(Limits::default()).await;
    let answer = server.send(&post("/stable-claims", &review(3).to_string())).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("JSONPatch"), "{answer}");
    server.counted("sts_plus_webhook_requests_total{path=\"/stable-claims\",result=\"patched\"} 1").await;
}

#[tokio::test]
async fn one_connection_answers_many_reviews() {
    let server = Running::start(Limits::default()).await;
    let mut stream = server.connect().await.unwrap();
    for ordinal in 0..20 {
        let request = post("/stable-claims", &review(ordinal).to_string());
        let request = String::from_utf8(request).unwrap().replace("Connection: close\r\n", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let wanted = format!("\"uid\":\"uid-{ordinal}\"");
        while !(answer.contains(&wanted) && answer.ends_with("}}")) {
            let mut chunk = [0; 4096];
            let read = tokio::time::timeout(DEADLINE, stream.read(&mut chunk)).await.unwrap().unwrap();
            assert!(read > 0, "{answer}");
            answer += std::str::from_utf8(&chunk[..read]).unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_no_review_gets_a_4xx_and_the_reason() {
    let server = Running::start(Limits::default()).await;
    let text = |text: &str| text.as_bytes().to_vec();
    let cases = [
        (post("/stable-claims", "{}"), "400 Bad Request", "AdmissionReview"),
        (post("/stable-claims", ""), "400 Bad Request", "JSON"),
        (post("/other", "{}"), "404 Not Found", "no such path"),
        (text("GET /stable-claims HTTP/1.1\r\nHost: x\r\n\r\n"), "405 Method Not Allowed", "POST"),
        (
            text("POST /stable-claims HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"),
            "415 Unsupported Media Type",
            "application/json",
        ),
        (text("no HTTP at all\r\n\r\n"), "400 Bad Request", ""),
    ];
    for (request, status, words) in cases {
        let answer = server.send(&request).await;
        let shown = String::from_utf8_lossy(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer}");
        assert!(answer.contains(words), "{shown}: {answer}");
    }
    server.counted("sts_plus_webhook_requests_total{path=\"other\",result=\"malformed\"} 1").await;
    server.counted("sts_plus_webhook_requests_total{path=\"/stable-claims\",result=\"malformed\"} 4").await;
}

#[tokio::test]
async fn an_oversized_body_is_refused_whether_it_is_announced_or_not() {
    let server = Running::start(Limits { body: 10_000, ..Limits::default() }).await;
    let announced = post("/stable-claims", &"x".repeat(10_001));
    let answer = server.send(&announced).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("10000 bytes"), "{answer}");
    let head = "POST /stable-claims HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = format!("1000\r\n{}\r\n", "x".repeat(0x1000)).repeat(3);
    let answer = server.send((head.to_owned() + &chunks).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    server.counted("sts_plus_webhook_requests_total{path=\"/stable-claims\",result=\"too_large\"} 2").await;
    // One that just fits is read.
    let answer = server.send(&post("/stable-claims", &" ".repeat(10_000))).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_slow_client_is_cut_off_at_each_step() {
    // No handshake, and half of one.
    let server = Running::start(Limits { handshake: SHORT, ..Limits::default() }).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(rest(silent).await, "");
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    assert_eq!(rest(half).await, "");
    server.counted("sts_plus_webhook_refused_connections_total{reason=\"handshake_timed_out\"} 2").await;
    // No head, and half of one.
    let server = Running::start(Limits { request: SHORT, idle: SHORT, ..Limits::default() }).await;
    assert!(!server.send(b"").await.contains("200 OK"));
    assert!(!server.send(b"POST /stable-claims HTT").await.contains("200 OK"));
    // Half of a body.
    let whole = post("/stable-claims", &review(1).to_string());
    let answer = server.send(&whole[..whole.len() - 10]).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.counted("sts_plus_webhook_requests_total{path=\"/stable-claims\",result=\"timed_out\"} 1").await;
}

#[tokio::test]
async fn bodies_of_all_connections_have_a_limit_together() {
    let request = Duration::from_secs(2);
    let limits = Limits { request, body: 10_000, bodies: 15_000, ..Limits::default() };
    let server = Running::start(limits).await;
    let head = "POST /stable-claims HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n";
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect().await.unwrap();
        stream.write_all((head.to_owned() + &"x".repeat(8_000)).as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    for stream in waiting {
        assert!(rest(stream).await.starts_with("HTTP/1.1 408"));
    }
    // The room is free again.
    let answer = server.send(&post("/stable-claims", &review(1).to_string())).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn too_many_connections_are_refused_and_the_others_answered() {
    let server = Running::start(Limits { connections: 2, ..Limits::default() }).await;
    let (first, second) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    assert!(server.connect().await.is_err());
    server.counted("sts_plus_webhook_refused_connections_total{reason=\"limit\"} 1").await;
    let mut second = second;
    second.write_all(&post("/stable-claims", &review(1).to_string())).await.unwrap();
    assert!(rest(second).await.starts_with("HTTP/1.1 200"));
    drop(first);
    // Those that have ended make room.
    let again = async {
        loop {
            if let Ok(stream) = server.connect().await {
                break stream;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.unwrap();
}

#[tokio::test]
async fn plain_http_is_told_that_this_is_https() {
    let server = Running::start(Limits::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.0 400") && answer.contains("HTTPS"), "{answer}");
    server.counted("sts_plus_webhook_refused_connections_total{reason=\"handshake\"} 1").await;
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let server = Running::start(Limits::default()).await;
    let before = server.connect().await.unwrap();
    let renewed = keyring(&server.keyring, (true, true));
    let (certified, until) = renewed.shows(jiff::Timestamp::now()).unwrap();
    server.serving.show(certified, until);
    // Who trusts the former authority alone is refused, who trusts both is not, and what is connected stays so.
    assert!(server.connect().await.is_err());
    let both = Running { tls: trusting(&renewed), ..server };
    let answer = both.send(&post("/stable-claims", &review(1).to_string())).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut before = before;
    before.write_all(&post("/stable-claims", &review(2).to_string())).await.unwrap();
    assert!(rest(before).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn requests_are_answered_for_a_while_after_the_process_is_asked_to_stop() {
    let server = Running::start(Limits { farewell: DEADLINE, ..Limits::default() }).await;
    let request = post("/stable-claims", &review(1).to_string());
    let kept = String::from_utf8(request.clone()).unwrap().replace("Connection: close\r\n", "");
    let mut idle = server.connect().await.unwrap();
    idle.write_all(kept.as_bytes()).await.unwrap();
    server.counted("sts_plus_webhook_requests_total{path=\"/stable-claims\",result=\"patched\"} 1").await;
    let mut fresh = server.connect().await.unwrap();
    server.stop.send_replace(true);
    // Idle connections are closed, so that the client looks for another replica; new ones are answered once.
    assert!(rest(idle).await.starts_with("HTTP/1.1 200"));
    fresh.write_all(kept.as_bytes()).await.unwrap();
    assert!(rest(fresh).await.starts_with("HTTP/1.1 200"));
    let answer = server.send(kept.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!server.task.is_finished());
    server.task.abort();

    let brief = Running::start(Limits { farewell: SHORT, ..Limits::default() }).await;
    brief.stop.send_replace(true);
    tokio::time::timeout(DEADLINE, brief.task).await.unwrap().unwrap();
}
