//! A server that says what a test wants it to say, and an API server that knows nothing but Secrets.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response};
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use sts_plus_api::phased_rollout::Query;
use sts_plus_planner::phased_rollout::answer::Extent;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::dial::Tcp;
use super::prometheus::{self, Prometheus, Question};
use super::reach::Reach;
use crate::shell::api::Api;
use crate::shell::metrics::Metrics;

pub(super) const NAMESPACE: &str = "shop";

/// Only bounds hanging.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

pub(super) const EMPTY: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

/// A request as it came in.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// What the server does about a request.
#[derive(Clone, Debug)]
pub(super) enum Play {
    /// Sends these bytes and closes.
    Say(Vec<u8>),
    /// Sends these bytes and then nothing more.
    SayAndHang(Vec<u8>),
    /// Never answers.
    Hang,
}

pub(super) fn http(code: u16, headers: &str, body: &str) -> Play {
    let length = if code == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    Play::Say(format!("HTTP/1.1 {code} Said\r\n{headers}{length}\r\n{body}").into_bytes())
}

type Plot = Arc<dyn Fn(&Asked) -> Play + Send + Sync>;

/// The server; it ends with its value.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: watch::Receiver<Vec<Asked>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(plot: impl Fn(&Asked) -> Play + Send + Sync + 'static) -> Self {
        Self::listen(None, Arc::new(plot)).await
    }

    pub(super) async fn saying(play: Play) -> Self {
        Self::start(move |_| play.clone()).await
    }

    pub(super) async fn secured(config: ServerConfig) -> Self {
        Self::listen(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(|_| http(200, "", EMPTY))).await
    }

    async fn listen(tls: Option<TlsAcceptor>, plot: Plot) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, tls.clone(), plot.clone(), sender.clone()));
            }
        });
        Self { address, asked, _tasks: tasks }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// The only request so far.
    pub(super) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.into_iter().next().unwrap()
    }

    /// Waits until so many requests have come.
    pub(super) async fn wait_for(&self, count: usize) {
        let mut asked = self.asked.clone();
        tokio::time::timeout(PATIENCE, asked.wait_for(|asked| asked.len() >= count)).await.unwrap().unwrap();
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, plot: Plot, asked: watch::Sender<Vec<Asked>>) {
    match tls {
        None => answer(stream, plot, asked).await,
        Some(tls) => match tls.accept(stream).into_fallible().await {
            Ok(stream) => answer(stream, plot, asked).await,
            // Closing while something is unread would reset the connection, and the alert could be lost.
            Err((_, mut stream)) => drain(&mut stream).await,
        },
    }
}

async fn answer<S>(mut stream: S, plot: Plot, asked: watch::Sender<Vec<Asked>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(request) = read(&mut stream).await else { return };
    let play = plot(&request);
    asked.send_modify(|all| all.push(request));
    match play {
        Play::Say(bytes) => {
            // The client may have had enough in the middle.
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        Play::SayAndHang(bytes) => {
            stream.write_all(&bytes).await.ok();
            drain(&mut stream).await;
        }
        Play::Hang => drain(&mut stream).await,
    }
}

/// Reads until the other side closes.
async fn drain<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer).await, Ok(count) if count > 0) {}
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap().split(' ');
    let headers: Vec<_> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < end + 4 + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    Some(Asked {
        method: first.next().unwrap().to_owned(),
        target: first.next().unwrap().to_owned(),
        headers,
        body: String::from_utf8(bytes[end + 4..].to_vec()).unwrap(),
    })
}

/// A certificate authority of the test.
pub(super) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    pub(super) fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    pub(super) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// What a server for this name shows; with `clients` it asks for a certificate of that authority.
    pub(super) fn server(&self, name: &str, clients: Option<&Self>) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.certificate.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let (certificate, key) = self.issue(name);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

/// The Secrets of a cluster.
#[derive(Clone, Default)]
pub(super) struct Secrets(Arc<Mutex<BTreeMap<String, Value>>>);

impl Secrets {
    pub(super) fn with(self, name: &str, keys: &[(&str, &str)]) -> Self {
        self.set(name, keys);
        self
    }

    pub(super) fn set(&self, name: &str, keys: &[(&str, &str)]) {
        let data = keys.iter().map(|(key, text)| (*key, STANDARD.encode(text))).collect::<BTreeMap<_, _>>();
        self.set_raw(name, json!({ "kind": "Secret", "metadata": { "name": name }, "data": data }));
    }

    pub(super) fn set_raw(&self, name: &str, object: Value) {
        self.0.lock().unwrap().insert(name.to_owned(), object);
    }

    fn answer(&self, request: &Request<Body>) -> (u16, Value) {
        assert_eq!(request.method(), Method::GET);
        let path = request.uri().path();
        let name = path.strip_prefix(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/")).unwrap_or_default();
        assert!(!name.is_empty(), "only single Secrets are read: {path}");
        match name {
            "forbidden" => (403, json!({ "message": "secrets \"forbidden\" is forbidden" })),
            "unanswered" => (503, json!({ "message": "etcd is away" })),
            name => match self.0.lock().unwrap().get(name) {
                Some(secret) => (200, secret.clone()),
                None => (404, json!({ "message": "not found" })),
            },
        }
    }

    /// A client that may ask servers on loopback.
    pub(super) fn client(&self) -> Prometheus {
        self.client_within(Reach { loopback: true, link_local: false })
    }

    pub(super) fn client_within(&self, reach: Reach) -> Prometheus {
        Prometheus::new(self.api(), reach, Arc::new(Tcp))
    }

    pub(super) fn api(&self) -> Api {
        let secrets = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, body) = secrets.answer(&request);
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        Api::new(kube::Client::new(service, NAMESPACE), Metrics::new())
    }
}

/// A question of a namespace.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) namespace: Arc<str>,
    pub(super) question: Question,
}

impl Prometheus {
    /// Asks as soon as there is a slot.
    pub(super) async fn ask_now(&self, asking: &Asking) -> prometheus::Response {
        let Asking { namespace, question } = asking;
        self.ask((namespace, &question.query.url), || Ok(question.clone())).await
    }
}

/// A question about `up`, with whatever else a query may say.
pub(super) fn question(url: impl Into<String>, more: Value) -> Asking {
    let mut query = json!({ "expr": "up", "url": url.into(), "timeoutSeconds": 30 });
    let Value::Object(more) = more else { panic!("{more} is no query") };
    query.as_object_mut().unwrap().extend(more);
    let query: Query = serde_json::from_value(query).unwrap();
    let question = Question { expr: query.expr.clone(), extent: Extent::Values, query, guard: None };
    Asking { namespace: NAMESPACE.into(), question }
}
