//! Webhooks over HTTPS.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::object::{self, text};
use super::super::{decode, go, json};
use super::{Hook, Webhooks};

/// The port of a webhook that names none.
pub(super) const PORT: u16 = 443;
/// Largest answer that is read, in bytes: as much as a request may be.
const MAX_ANSWER_BYTES: usize = super::super::service::MAX_BODY_BYTES;

/// Finds the address of a service: its namespace, its name and the port that is asked for.
pub type Resolver = Arc<dyn Fn(&str, &str, u16) -> Option<SocketAddr> + Send + Sync>;

/// Asks webhooks over HTTPS.
#[derive(Clone)]
pub struct HttpsWebhooks {
    resolver: Resolver,
}

impl HttpsWebhooks {
    /// Asks those that a URL names directly, and those behind a service where the resolver says.
    pub fn new(resolver: Resolver) -> Self {
        HttpsWebhooks { resolver }
    }
}

impl Default for HttpsWebhooks {
    fn default() -> Self {
        Self::new(Arc::new(|_, _, _| None))
    }
}

impl Webhooks for HttpsWebhooks {
    fn review(&self, hook: Hook, review: Value) -> BoxFuture<'static, Result<Value, String>> {
        let resolver = Arc::clone(&self.resolver);
        Box::pin(async move {
            let target = Target::of(&hook, &resolver)?;
            target.post(&hook, &review).await
        })
    }
}

/// Where a webhook listens, and what its certificate has to say.
struct Target {
    address: String,
    server: String,
    path: String,
}

impl Target {
    fn of(hook: &Hook, resolver: &Resolver) -> Result<Self, String> {
        let config = &hook.client_config;
        let url = text(config, "/url");
        if url.is_empty() {
            let (namespace, name) = (text(config, "/service/namespace"), text(config, "/service/name"));
            let port = object::number(config, "/service/port").and_then(|port| u16::try_from(port).ok());
            let found = resolver(namespace, name, port.unwrap_or(PORT));
            let address =
                found.ok_or_else(|| format!("Post \"{}\": service \"{name}\" not found", hook.address()))?;
            let path = text(config, "/service/path");
            let path = if path.is_empty() { "/" } else { path };
            let server = format!("{name}.{namespace}.svc");
            return Ok(Target { address: address.to_string(), server, path: path.to_owned() });
        }
        let uri: Uri = url.parse().map_err(|error| format!("Post \"{url}\": {error}"))?;
        let host = uri.host().unwrap_or_default().to_owned();
        let path = if uri.path().is_empty() { "/" } else { uri.path() };
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(PORT));
        Ok(Target { address, server: host.trim_matches(['[', ']']).to_owned(), path: path.to_owned() })
    }

    async fn post(&self, hook: &Hook, review: &Value) -> Result<Value, String> {
        let told = |why: String| format!("Post \"{}\": {why}", hook.address());
        let stream = TcpStream::connect(&self.address).await.map_err(|error| told(self.unreached(&error)))?;
        let server = ServerName::try_from(self.server.clone()).map_err(|error| told(error.to_string()))?;
        let tls = TlsConnector::from(Arc::new(trusting(&hook.client_config).map_err(&told)?));
        let stream = tls.connect(server, stream).await.map_err(|error| told(format!("tls: {error}")))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(error.to_string()))?;
        let timeout = hook.timeout.as_secs();
        let request = Request::post(format!("{}?timeout={timeout}s", self.path))
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(review.to_string())))
            .map_err(|error| told(error.to_string()))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| told(error.to_string()))?;
            let code = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| told(error.to_string()))?.to_bytes();
            Ok::<(StatusCode, Bytes), String>((code, body))
        };
        // The connection has to be driven while its answer is awaited; it ends with this call.
        tokio::pin!(exchange, connection);
        let (code, body) = tokio::select! {
            biased;
            answer = &mut exchange => answer?,
            ended = &mut connection => match ended {
                Ok(()) => exchange.await?,
                Err(error) => return Err(told(error.to_string())),
            },
        };
        answered(code, &body)
    }

    fn unreached(&self, error: &std::io::Error) -> String {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {}: {why}", self.address)
    }
}

/// What an answer says, if it is one.
fn answered(code: StatusCode, body: &[u8]) -> Result<Value, String> {
    if code.is_server_error() {
        let said = String::from_utf8_lossy(body).into_owned();
        return Err(format!("an error on the server ({said:?}) has prevented the request from succeeding"));
    }
    if !code.is_success() {
        return Err(format!("the server rejected our request for an unknown reason ({})", code.as_u16()));
    }
    // What is no JSON is a text in YAML, and no object.
    let review = json::read(body).map_or_else(|_| Value::from(""), |document| document.value);
    if review.is_object() {
        return Ok(review);
    }
    let (what, wanted) = (go::json_type(&review), decode::TYPE_META);
    Err(format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type {wanted}"
    ))
}

/// Trusts those that the configuration names, and nobody else.
fn trusting(config: &Value) -> Result<ClientConfig, String> {
    let bundle = base64::engine::general_purpose::STANDARD.decode(text(config, "/caBundle"));
    let bundle = bundle.map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
