//! What rollout-operator's webhooks are to the API server: HTTPS at the address of their Service, which answers for as long
//! as a pod of the Deployment is Ready. It allows everything, as the original does with whatever is no downscale.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// By which rollout-operator, and people, find its webhook configurations.
const CONFIGURATIONS: &str = "grafana.com/inject-rollout-operator-ca=true,grafana.com/namespace=mimir";

/// The pods behind the Service.
const PODS: &str = "app.kubernetes.io/name=rollout-operator";

/// rollout-operator, as far as the API server calls it.
pub(crate) struct StandIn {
    client: Client,
    address: SocketAddr,
    ca: String,
    asked: Arc<AtomicUsize>,
    work: JoinSet<()>,
}

impl StandIn {
    /// Listens at an address of the range for Services, with a certificate for this name of the Service.
    pub(crate) async fn start(client: Client, address: Ipv4Addr, service: &str) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![service.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let mut stand_in = StandIn {
            address: listener.local_addr().unwrap(),
            ca: STANDARD.encode(authority.as_ref().pem()),
            asked: Arc::default(),
            work: JoinSet::new(),
            client,
        };
        let pods = Api::namespaced(stand_in.client.clone(), "mimir");
        let asked = Arc::clone(&stand_in.asked);
        stand_in.work.spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), pods, asked));
        stand_in
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether a pod behind the Service is Ready.
    pub(crate) async fn runs(&self) -> kube::Result<bool> {
        is_ready(&Api::namespaced(self.client.clone(), "mimir")).await
    }

    /// Writes its certificate into its webhook configurations, as the original does with those that have its labels.
    pub(crate) async fn inject_ca(&self) {
        self.inject_into(&Api::<MutatingWebhookConfiguration>::all(self.client.clone())).await;
        self.inject_into(&Api::<ValidatingWebhookConfiguration>::all(self.client.clone())).await;
    }

    async fn inject_into<K>(&self, configurations: &Api<K>)
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        for found in configurations.list(&ListParams::default().labels(CONFIGURATIONS)).await.unwrap() {
            let name = found.name_any();
            let webhook =
                json!({ "name": format!("{name}.grafana.com"), "clientConfig": { "caBundle": self.ca } });
            let patch = Patch::Strategic(json!({ "webhooks": [webhook] }));
            configurations.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, pods: Api<Pod>, asked: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, pods, asked) = (tls.clone(), pods.clone(), Arc::clone(&asked));
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(|request| answer(request, &pods, &asked));
            // A connection that ends without an answer is what a Service without endpoints looks like.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    request: Request<Incoming>,
    pods: &Api<Pod>,
    asked: &AtomicUsize,
) -> io::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    if !is_ready(pods).await.map_err(io::Error::other)? {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    asked.fetch_add(1, Ordering::Relaxed);
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": { "uid": review.pointer("/request/uid"), "allowed": true },
    });
    let response = Response::builder().header(http::header::CONTENT_TYPE, "application/json");
    response.body(Full::new(review.to_string().into())).map_err(io::Error::other)
}

async fn is_ready(pods: &Api<Pod>) -> kube::Result<bool> {
    let pods = pods.list(&ListParams::default().labels(PODS)).await?;
    Ok(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).any(|pod| {
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }))
}
