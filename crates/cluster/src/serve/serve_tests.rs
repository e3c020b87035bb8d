//! The listener as clients meet it: good ones, rude ones, and the end.

use std::net::{Ipv4Addr, SocketAddr};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::clock::Clock;
use crate::machinery::service::Settings;

/// Bounds a hang; nothing here takes a tenth of it.
const HANG: Duration = Duration::from_mins(1);

struct Served {
    address: SocketAddr,
    identity: Identity,
    stop: watch::Sender<bool>,
    ended: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    async fn start() -> Self {
        let identity = Identity::generate(&[]).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let server = Server::new(Settings::new(Clock::start())).unwrap();
        let used = identity.clone();
        let ended = tokio::spawn(async move { serve(server, listener, &used, stopped).await });
        Served { address, identity, stop, ended }
    }

    /// A client that has read the kubeconfig.
    async fn client(&self) -> Client {
        let text = kubeconfig(&format!("https://{}", self.address), &self.identity);
        let file = Kubeconfig::from_yaml(&text).unwrap();
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// A connection on which a test says what it likes.
    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::pem_slice_iter(self.identity.certificate.as_bytes()).last();
        roots.add(authority.unwrap().unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// What comes back for the head of a request, until the server hangs up.
    async fn say(&self, head: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Who is refused in the middle of a head may find the connection gone; what was answered came before.
        let read = tokio::time::timeout(HANG, stream.read_to_end(&mut answer)).await.unwrap();
        assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
        String::from_utf8(answer).unwrap()
    }

    async fn get(&self, path: &str, authorization: &str) -> String {
        self.say(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\r\n"
        ))
        .await
    }

    async fn end(self) {
        self.stop.send(true).unwrap();
        tokio::time::timeout(HANG, self.ended).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_kubeconfig_is_all_that_a_client_needs() {
    let served = Served::start().await;
    let namespaces: Api<Namespace> = Api::all(served.client().await);
    let found = namespaces.list(&ListParams::default()).await.unwrap();
    assert!(found.items.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));
    served.end().await;
}

#[tokio::test]
async fn an_identity_survives_being_written_down_and_shows_no_secret() {
    let identity = Identity::generate(&["playground.example".to_owned()]).unwrap();
    let again: Identity = serde_json::from_str(&serde_json::to_string(&identity).unwrap()).unwrap();
    assert_eq!(kubeconfig("https://x", &again), kubeconfig("https://x", &identity));
    assert_eq!(identity.token.len(), 64, "256 bits");
    assert_ne!(Identity::generate(&[]).unwrap().token, identity.token);
    let shown = format!("{identity:?}");
    assert!(!shown.contains(&identity.token) && !shown.contains("PRIVATE KEY"), "{shown}");
}

#[test]
fn a_host_that_no_certificate_can_name_is_refused() {
    assert!(Identity::generate(&["h\u{f6}st".to_owned()]).is_err());
}

#[tokio::test]
async fn an_identity_that_cannot_be_read_is_refused() {
    let listener = async || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server::new(Settings::new(Clock::start())).unwrap();
    let good = Identity::generate(&[]).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let no_key = Identity { key: "none".to_owned(), ..good.clone() };
    let refused = serve(server.clone(), listener().await, &no_key, stopped.clone()).await;
    assert!(matches!(refused, Err(ServeError::Key(_))), "{refused:?}");
    let foreign = Identity { key: Identity::generate(&[]).unwrap().key, ..good };
    let refused = serve(server, listener().await, &foreign, stopped).await;
    assert!(matches!(refused, Err(ServeError::Tls(_))), "{refused:?}");
}

#[tokio::test]
async fn who_does_not_know_the_token_learns_nothing() {
    let served = Served::start().await;
    let token = served.identity.token.clone();
    let longer = format!("Authorization: Bearer {token}0\r\n");
    let shorter = format!("Authorization: Bearer {}\r\n", &token[1..]);
    let unauthorized = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    for said in ["", "Authorization: Bearer\r\n", "Authorization: Basic x\r\n", &longer, &shorter] {
        let answer = served.get("/api/v1/namespaces", said).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{said}: {answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), unauthorized);
    }
    let known = served.get("/api/v1/namespaces", &format!("Authorization: bearer {token}\r\n")).await;
    assert!(known.starts_with("HTTP/1.1 200 "), "{known}");
    for path in OPEN {
        let answer = served.get(path, "").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    served.end().await;
}

#[tokio::test]
async fn the_end_ends_watches_too() {
    let served = Served::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(served.client().await);
    let mut watch = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
    let map = serde_json::from_value(json!({ "metadata": { "name": "m" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(watch.try_next().await.unwrap().is_some());
    served.end().await;
    let rest = tokio::time::timeout(HANG, watch.try_next()).await.unwrap();
    assert!(matches!(rest, Ok(None)), "a watch that is cut off in the middle: {rest:?}");
    let refused = maps.get("m").await;
    assert!(!matches!(refused, Ok(_) | Err(Error::Api(_))), "somebody still answers: {refused:?}");
}

#[tokio::test]
async fn who_cannot_talk_is_turned_away_and_disturbs_nobody() {
    let served = Served::start().await;
    let mut no_tls = TcpStream::connect(served.address).await.unwrap();
    no_tls.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(2 * MAX_HEAD_BYTES));
    let answer = served.say(&large).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let answer = served.say("no such thing\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(served.client().await.apiserver_version().await.is_ok());
    served.end().await;
}

#[tokio::test]
async fn a_watch_that_nobody_reads_stalls_nobody() {
    const WRITES: usize = 40;
    let served = Served::start().await;
    let mut silent = served.connect().await;
    let token = &served.identity.token;
    let head = format!(
        "GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    silent.write_all(head.as_bytes()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(served.client().await);
    // More than all buffers between the two hold.
    let text = "x".repeat(1 << 19);
    for n in 0..WRITES {
        let map = json!({ "metadata": { "name": format!("m{n}") }, "data": { "x": text } });
        let map = serde_json::from_value(map).unwrap();
        tokio::time::timeout(HANG, maps.create(&PostParams::default(), &map)).await.unwrap().unwrap();
    }
    served.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_an_answer_unread_is_cut_off() {
    let (near, _far) = tokio::io::duplex(16);
    let mut near = Patience::new(near, UNREAD);
    let began = tokio::time::Instant::now();
    let failed = near.write_all(&[0; 64]).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed(), UNREAD);
    // Whoever reads, however slowly, is waited for.
    let (near, mut far) = tokio::io::duplex(16);
    let mut near = Patience::new(near, UNREAD);
    let writing = tokio::spawn(async move { near.write_all(&[0; 64]).await });
    for _ in 0..4 {
        let mut some = [0; 16];
        tokio::time::advance(UNREAD.mul_f32(0.9)).await;
        far.read_exact(&mut some).await.unwrap();
    }
    writing.await.unwrap().unwrap();
}
