use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::super::{Answers, Network};
use super::*;

/// The address of a test. Far from where the pods of a playground on the same machine have theirs, and another one in each
/// process, since these tests may run in two checkouts at once.
fn address(test: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // Neither 0 nor 255 may end it.
    Ipv4Addr::new(127, 64 + test, high, low.clamp(1, 254))
}

fn pod(uid: &str, listening: Listening) -> Endpoint {
    Endpoint {
        uid: uid.to_owned().into(),
        namespace: "db".to_owned(),
        name: "web-0".to_owned(),
        labels: BTreeMap::new(),
        hostname: None,
        subdomain: None,
        set: None,
        ports: BTreeMap::from([(18080, "http".to_owned())]),
        listening,
        ready: true,
        answers: Answers::default(),
    }
}

fn network(loopback: Loopback) -> (Network, mpsc::Receiver<Call>) {
    let (elsewhere, heard) = mpsc::channel(8);
    let network = Network::new();
    network.listen(loopback, elsewhere);
    (network, heard)
}

async fn get(at: SocketAddr) -> io::Result<Value> {
    let stream = TcpStream::connect(at).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = http::Request::get("/x").header("host", "h").body(Full::<bytes::Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(serde_json::from_slice(&body).unwrap())
}

/// Where a pod says that it listens.
fn told(call: &Call) -> SocketAddr {
    let ports = call.body["metadata"]["annotations"][PORTS].as_str().unwrap();
    ports.strip_prefix("18080=").unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pod_listens_at_its_own_address_as_long_as_it_runs() {
    let (network, mut heard) = network(Loopback::Own);
    let address = address(1);
    let at = SocketAddr::from((address, 18080));
    network.show(address, pod("1", Listening::No));
    get(at).await.unwrap_err();
    network.show(address, pod("1", Listening::Yes));
    let answer = get(at).await.unwrap();
    assert_eq!(answer, json!({ "namespace": "db", "pod": "web-0", "port": 18080, "path": "/x" }));
    // Shown again, nothing changes; its successor at the same address is another.
    network.show(address, pod("1", Listening::Yes));
    network.hide(address, &"2".to_owned().into());
    get(at).await.unwrap();
    heard.try_recv().unwrap_err();

    // What has a connection open sees it end with the pod.
    let mut open = TcpStream::connect(at).await.unwrap();
    network.hide(address, &"1".to_owned().into());
    let mut rest = Vec::new();
    open.read_to_end(&mut rest).await.ok();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn where_a_pod_cannot_have_its_own_address_it_says_where_it_listens() {
    let (network, mut heard) = network(Loopback::Shared);
    network.show(address(3), pod("1", Listening::Yes));
    let call = heard.recv().await.unwrap();
    assert_eq!(call.path, "/api/v1/namespaces/db/pods/web-0");
    assert_eq!(call.body["metadata"]["uid"], "1");
    let at = told(&call);
    assert_eq!(at.ip(), Ipv4Addr::LOCALHOST);
    assert_eq!(get(at).await.unwrap()["pod"], "web-0");
    // Its ports stay what they are, whatever else changes.
    network.show(address(3), pod("1", Listening::Yes));
    heard.try_recv().unwrap_err();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_that_is_taken_is_had_elsewhere() {
    let address = address(2);
    let _taken = std::net::TcpListener::bind((address, 18080)).unwrap();
    let (network, mut heard) = network(Loopback::Own);
    network.show(address, pod("1", Listening::Yes));
    assert_eq!(get(told(&heard.recv().await.unwrap())).await.unwrap()["pod"], "web-0");
}

#[tokio::test]
async fn there_is_a_limit_to_what_is_listened_on() {
    let (network, mut heard) = network(Loopback::Shared);
    let ports: BTreeMap<u16, String> = (1..=400).map(|port| (port, String::new())).collect();
    network.show(address(4), Endpoint { ports, ..pod("1", Listening::Yes) });
    let call = heard.recv().await.unwrap();
    let told = call.body["metadata"]["annotations"][PORTS].as_str().unwrap();
    assert_eq!(told.split(',').count(), MAX_LISTENERS);
}
