//! A webhook on loopback that both servers ask over HTTPS: the end of the path says how it answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What was asked, by server and namespace.
type Asked = BTreeMap<(String, String), Vec<Value>>;

/// A webhook that listens. Clones are the same webhook.
#[derive(Clone)]
pub struct Webhook {
    address: SocketAddr,
    ca: Arc<str>,
    asked: Arc<Mutex<Asked>>,
}

impl Webhook {
    /// Starts to listen, on the runtime of the caller.
    pub async fn start() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = vec!["127.0.0.1".to_owned(), "hook.webhooks.svc".to_owned()];
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let private = PrivateKeyDer::try_from(key.serialize_der())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let webhook = Webhook {
            address: listener.local_addr()?,
            ca: authority.as_ref().pem().into(),
            asked: Arc::default(),
        };
        tokio::spawn(webhook.clone().serve(listener, TlsAcceptor::from(Arc::new(tls))));
        Ok(webhook)
    }

    async fn serve(self, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (webhook, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| webhook.clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                // Whoever hangs up in between has had what it wanted.
                drop(connection.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }

    /// Where a server asks for a namespace; the rest of the path says what is to be answered.
    pub fn url(&self, server: &str, namespace: &str) -> String {
        format!("https://{}/{server}/{namespace}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that vouches for it, as configurations want it.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(self.ca.as_bytes())
    }

    /// What a server has asked about a namespace so far, by the hook that was asked.
    pub fn reviews(&self, server: &str, namespace: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(&(server.to_owned(), namespace.to_owned())).cloned().unwrap_or_default()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').splitn(3, '/').collect();
        let [server, namespace, how] = parts.as_slice() else { return Ok(plain(404, b"")) };
        let body =
            request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let uid = review.pointer("/request/uid").cloned().unwrap_or_default();
        if let Some(fields) = review.as_object_mut() {
            fields.insert("hook".into(), (*how).into());
        }
        let key = ((*server).to_owned(), (*namespace).to_owned());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().push(review);
        Ok(match *how {
            "never" => {
                std::future::pending::<()>().await;
                plain(200, b"")
            }
            "broken" => plain(500, b"out of order"),
            "garbage" => plain(200, b"no JSON"),
            "silent" => json_body(&json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1" })),
            "stranger" => json_body(&reviewed(&json!({ "uid": "another", "allowed": true }))),
            how => {
                let mut response = respond(how);
                if let Some(fields) = response.as_object_mut() {
                    fields.insert("uid".into(), uid);
                }
                json_body(&reviewed(&response))
            }
        })
    }
}

fn reviewed(response: &Value) -> Value {
    json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response })
}

/// What a hook answers.
fn respond(how: &str) -> Value {
    let patch = |patch: Value| json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) });
    match how {
        "deny" => json!({ "allowed": false, "status": { "message": "not today" } }),
        "deny-silently" => json!({ "allowed": false }),
        "deny-with-code" => {
            json!({ "allowed": false, "status": { "message": "gone fishing", "code": 429, "reason": "TooManyRequests" } })
        }
        "deny-with-reason" => json!({ "allowed": false, "status": { "reason": "because of the moon" } }),
        "warn" => json!({ "allowed": true, "warnings": ["mind the gap", "and \"the\" step"] }),
        "audit" => json!({ "allowed": true, "auditAnnotations": { "a": "b" } }),
        "data" => patch(json!([{ "op": "add", "path": "/data", "value": { "hook": "was here" } }])),
        "more" => patch(json!([{ "op": "add", "path": "/data/more", "value": "x" }])),
        "label" => patch(json!([{ "op": "add", "path": "/metadata/labels", "value": { "hooked": "yes" } }])),
        "unknown-field" => patch(json!([{ "op": "add", "path": "/typo", "value": 1 }])),
        "wrong-type" => patch(json!([{ "op": "add", "path": "/data", "value": [1] }])),
        "bad-patch" => patch(json!([{ "op": "remove", "path": "/nowhere/at/all" }])),
        "invalid" => patch(json!([{ "op": "add", "path": "/data", "value": { "not a key": "x" } }])),
        "no-type" => json!({ "allowed": true, "patch": STANDARD.encode("[]") }),
        _ => json!({ "allowed": true }),
    }
}

fn plain(code: u16, body: &'static [u8]) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body)));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}

fn json_body(body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
