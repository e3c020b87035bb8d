use serde_json::{Value, json};
use sts_plus_planner::phased_rollout::answer::{Answer, QueryError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::outbound::test_server::{Authority, Secrets, Server, question};

async fn asked(server: &Server, secrets: &Secrets, query: Value) -> Result<Answer, QueryError> {
    let url = format!("https://{}", server.address);
    let response = secrets.client().ask_now(&question(url, query)).await;
    assert!(!format!("{response:?}").contains("canary"), "{response:?}");
    response.answer
}

async fn needs_a_change(server: &Server, secrets: &Secrets, query: Value) -> String {
    match asked(server, secrets, query).await {
        Err(QueryError::Config(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unknown_authority_has_to_be_named() {
    let ours = Authority::new("ours");
    let server = Server::secured(ours.server("127.0.0.1", None)).await;
    let secrets = Secrets::default().with("other", &[("ca.crt", &Authority::new("other").pem())]);
    secrets.set("former", &[("ca.crt", &Authority::new("ours").pem())]);
    // On a machine without authorities of its own it is these that are missing.
    assert!(needs_a_change(&server, &secrets, json!({})).await.contains("caSecretRef"));
    for name in ["other", "former"] {
        assert_eq!(
            needs_a_change(&server, &secrets, json!({ "caSecretRef": name })).await,
            "the certificate of 127.0.0.1 is signed by an authority that is not trusted: name a Secret with its \
             ca.crt in caSecretRef"
        );
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_given_authority_is_trusted() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = Server::secured(ours.server("127.0.0.1", None)).await;
    let several = format!("{}\n{}", other.pem(), ours.pem());
    let secrets = Secrets::default().with("ca", &[("ca.crt", &several)]);
    asked(&server, &secrets, json!({ "caSecretRef": "ca" })).await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let ours = Authority::new("ours");
    let server = Server::secured(ours.server("other.example", None)).await;
    let secrets = Secrets::default().with("ca", &[("ca.crt", &ours.pem())]);
    let message = needs_a_change(&server, &secrets, json!({ "caSecretRef": "ca" })).await;
    assert!(message.starts_with("the certificate of 127.0.0.1 is for another name"), "{message}");
}

#[tokio::test]
async fn verification_can_be_skipped() {
    let server = Server::secured(Authority::new("ours").server("other.example", None)).await;
    asked(&server, &Secrets::default(), json!({ "insecureSkipVerify": true })).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_the_server_asks_for_it() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let server = Server::secured(ours.server("127.0.0.1", Some(&clients))).await;
    let (good, good_key) = clients.issue("sts-plus");
    let (bad, bad_key) = ours.issue("sts-plus");
    let secrets = Secrets::default().with("ca", &[("ca.crt", &ours.pem())]);
    secrets.set("good", &[("tls.crt", &good.pem()), ("tls.key", &good_key.serialize_pem())]);
    secrets.set("bad", &[("tls.crt", &bad.pem()), ("tls.key", &bad_key.serialize_pem())]);
    let with = |name: &str| json!({ "caSecretRef": "ca", "clientCertSecretRef": name });
    assert_eq!(
        needs_a_change(&server, &secrets, json!({ "caSecretRef": "ca" })).await,
        "127.0.0.1 asks for a client certificate: name a Secret with tls.crt and tls.key in clientCertSecretRef"
    );
    let refused = needs_a_change(&server, &secrets, with("bad")).await;
    assert!(
        refused.starts_with("127.0.0.1 refuses the client certificate of clientCertSecretRef"),
        "{refused}"
    );
    assert!(server.asked().is_empty());
    asked(&server, &secrets, with("good")).await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn secrets_that_hold_no_certificates_need_a_change() {
    let ours = Authority::new("ours");
    let server = Server::secured(ours.server("127.0.0.1", None)).await;
    let (certificate, key) = ours.issue("a");
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let other_key = ours.issue("b").1.serialize_pem();
    let broken = "-----BEGIN CERTIFICATE-----\ncanary\n-----END CERTIFICATE-----\n";
    let broken_key = "-----BEGIN PRIVATE KEY-----canary\ncanary\n";
    for (keys, expected) in [
        (&[][..], "Secret s has no key ca.crt"),
        (&[("ca.crt", "")], "key ca.crt of Secret s holds no usable certificate in PEM form"),
        (&[("ca.crt", "canary")], "key ca.crt of Secret s holds no usable certificate in PEM form"),
        (&[("ca.crt", broken)], "key ca.crt of Secret s holds no usable certificate in PEM form"),
    ] {
        let secrets = Secrets::default().with("s", keys);
        assert_eq!(needs_a_change(&server, &secrets, json!({ "caSecretRef": "s" })).await, expected);
    }
    for (keys, expected) in [
        (&[("tls.key", key.as_str())][..], "Secret s has no key tls.crt"),
        (&[("tls.crt", &certificate)], "Secret s has no key tls.key"),
        (
            &[("tls.crt", "canary"), ("tls.key", &key)],
            "key tls.crt of Secret s holds no certificate in PEM form",
        ),
        (
            &[("tls.crt", &certificate), ("tls.key", broken_key)],
            "key tls.key of Secret s holds no private key in PEM form",
        ),
        (
            &[("tls.crt", &certificate), ("tls.key", &other_key)],
            "tls.crt and tls.key of Secret s cannot be used",
        ),
    ] {
        let secrets = Secrets::default().with("s", keys);
        let query = json!({ "insecureSkipVerify": true, "clientCertSecretRef": "s" });
        let message = needs_a_change(&server, &secrets, query).await;
        assert!(message.starts_with(expected), "{message}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_server_without_tls_may_get_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Until the other side has had enough.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
    });
    let asked = question(url, json!({ "insecureSkipVerify": true }));
    let answer = Secrets::default().client().ask_now(&asked).await.answer;
    let message = "no secure connection to 127.0.0.1: it does not speak TLS; is http meant?";
    assert_eq!(answer, Err(QueryError::Failed(message.to_owned())));
    answering.await.unwrap();
}
