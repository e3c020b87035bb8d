use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::*;

fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        uid: format!("u-{name}").into(),
        namespace: "db".to_owned(),
        name: name.to_owned(),
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        hostname: Some(name.to_owned()),
        subdomain: Some("web".to_owned()),
        set: Some("web".to_owned()),
        ports: BTreeMap::from([(80, "http".to_owned())]),
        listening: Listening::Yes,
        ready: true,
        answers: Answers::default(),
    }
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 128, 0, last)
}

/// Two pods of a set behind a headless service and one with an address; the second pod is not ready.
fn network() -> Network {
    let network = Network::new();
    network.show(address(1), endpoint("web-0"));
    network.show(address(2), Endpoint { ready: false, ..endpoint("web-1") });
    for (name, ip) in [("web", "None"), ("front", "10.0.0.7")] {
        let service = json!({
            "metadata": { "uid": name, "resourceVersion": "1", "namespace": "db", "name": name },
            "spec": {
                "clusterIP": ip, "selector": { "app": "web" },
                "ports": [{ "port": 8080, "targetPort": "http" }],
            },
        });
        network.serve(serde_json::from_value(service).unwrap());
    }
    network
}

async fn get(network: &Network, address: SocketAddr) -> Result<Value, String> {
    let stream = network.connect(address).await.map_err(|error| format!("{:?}", error.kind()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/x").header("host", "h").body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(serde_json::from_slice(&body).unwrap())
}

fn said(text: &'static str) -> Handler {
    handler(move |_| async move { Ok(http::Response::new(Bytes::from(json!(text).to_string()))) })
}

#[tokio::test(start_paused = true)]
async fn a_pod_answers_on_the_ports_it_declares() {
    let network = network();
    let answer = get(&network, (address(1), 80).into()).await.unwrap();
    assert_eq!(answer, json!({ "namespace": "db", "pod": "web-0", "port": 80, "path": "/x" }));
    assert_eq!(get(&network, (address(1), 81).into()).await.unwrap_err(), "ConnectionRefused");
    assert_eq!(get(&network, (address(9), 80).into()).await.unwrap_err(), "HostUnreachable");
    network.show(address(1), Endpoint { listening: Listening::No, ..endpoint("web-0") });
    assert_eq!(get(&network, (address(1), 80).into()).await.unwrap_err(), "ConnectionRefused");
    network.show(address(1), Endpoint { listening: Listening::Lost, ..endpoint("web-0") });
    assert_eq!(get(&network, (address(1), 80).into()).await.unwrap_err(), "TimedOut");
    network.hide(address(1), &"u-other".to_owned().into());
    assert_eq!(get(&network, (address(1), 80).into()).await.unwrap_err(), "TimedOut", "not its own to hide");
    network.hide(address(1), &"u-web-0".to_owned().into());
    assert_eq!(get(&network, (address(1), 80).into()).await.unwrap_err(), "HostUnreachable");
}

#[tokio::test(start_paused = true)]
async fn a_test_answers_for_a_pod_a_set_or_a_host_of_its_own() {
    let network = network();
    network.answer_for_set("db", "web", said("the set"));
    network.answer_for_pod("db", "web-1", said("the pod"));
    assert_eq!(get(&network, (address(1), 80).into()).await.unwrap(), "the set");
    assert_eq!(get(&network, (address(2), 80).into()).await.unwrap(), "the pod");
    network.answer_for_pod_as_annotated("db", "web-1");
    assert_eq!(get(&network, (address(2), 80).into()).await.unwrap(), "the set");

    let ip = network.add_host("Prometheus.test", 9090, said("metrics"));
    assert_eq!(network.add_host("prometheus.test", 9091, said("more")), ip);
    assert_eq!(network.resolve("prometheus.test."), [ip]);
    assert_eq!(get(&network, (ip, 9090).into()).await.unwrap(), "metrics");
    network.close_port("prometheus.test", 9090);
    assert_eq!(get(&network, (ip, 9090).into()).await.unwrap_err(), "ConnectionRefused");
    assert_eq!(get(&network, (ip, 9091).into()).await.unwrap(), "more");
    network.add_host("reset.test", 1, handler(|_| async { Err(Reset) }));
    let ip = network.resolve("reset.test")[0];
    get(&network, (ip, 1).into()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn names_lead_to_services_and_their_pods() {
    let network = network();
    let resolved = |host: &str| network.resolve(host).iter().map(ToString::to_string).collect::<Vec<_>>();
    for (host, expected) in [
        ("front.db.svc", vec!["10.0.0.7"]),
        ("front.db.svc.cluster.local", vec!["10.0.0.7"]),
        ("web.db", vec!["10.128.0.1"]),
        ("web.db.svc", vec!["10.128.0.1"]),
        ("web-0.web.db.svc", vec!["10.128.0.1"]),
        ("web-0.web.db.svc.cluster.local.", vec!["10.128.0.1"]),
        // Not ready, so not published.
        ("web-1.web.db.svc", vec![]),
        ("web-0.front.db.svc", vec![]),
        ("web.other.svc", vec![]),
        ("nowhere", vec![]),
        ("10.1.2.3", vec!["10.1.2.3"]),
    ] {
        assert_eq!(resolved(host), expected, "{host}");
    }
    network.show(address(2), endpoint("web-1"));
    assert_eq!(resolved("web.db.svc"), ["10.128.0.1", "10.128.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_takes_its_pods_in_turn() {
    let network = network();
    network.show(address(2), endpoint("web-1"));
    let mut pods = Vec::new();
    for _ in 0..3 {
        let answer = get(&network, "10.0.0.7:8080".parse().unwrap()).await.unwrap();
        pods.push(answer["pod"].as_str().unwrap().to_owned());
    }
    assert_eq!(pods, ["web-0", "web-1", "web-0"]);
    assert_eq!(get(&network, "10.0.0.7:80".parse().unwrap()).await.unwrap_err(), "ConnectionRefused");
    network.unserve(&"front".to_owned().into());
    assert_eq!(get(&network, "10.0.0.7:8080".parse().unwrap()).await.unwrap_err(), "HostUnreachable");
}
