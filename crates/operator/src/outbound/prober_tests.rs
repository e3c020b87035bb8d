use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use sts_plus_api::extended::Scheme;
use sts_plus_planner::extended::probe::{ProbeCheck, ProbeRequest};
use sts_plus_planner::plan::{Kind, Object};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use super::{MAX_REASON_CHARACTERS, PER_OBJECT, Prober, reason};
use crate::outbound::dial::{Dial, Dialled, Stream, Tcp};
use crate::outbound::reach::Reach;
use crate::outbound::slots::IN_ALL;
use crate::outbound::test_server::{Asked, NAMESPACE, PATIENCE, Play, Secrets, Server, http};
use crate::shell::api::Api;
use crate::shell::metrics::{Metrics, RequestLabels};

const LOOPBACK: Reach = Reach { loopback: true, link_local: false };

fn request(ip: &str, check: ProbeCheck) -> ProbeRequest {
    ProbeRequest {
        pod: Object { kind: Kind::Pod, namespace: NAMESPACE.into(), name: "db-0".into() },
        uid: "uid-0".into(),
        ip: Some(ip.into()),
        container: "db".into(),
        check,
        timeout: PATIENCE,
    }
}

fn get(port: u16) -> ProbeCheck {
    ProbeCheck::Http { scheme: Scheme::Http, port, path: "/leader?for=us".into() }
}

fn exec(command: &[&str]) -> ProbeCheck {
    ProbeCheck::Exec { command: command.iter().map(|&word| word.to_owned()).collect() }
}

async fn probed(prober: &Prober, request: &ProbeRequest) -> Result<(), String> {
    let outcome = prober.probe(&"db".into(), request).await;
    assert_eq!(outcome.uid, request.uid);
    outcome.result.map_err(|why| why.to_string())
}

/// What a probe of a server with this check shows.
async fn of(server: &Server, check: fn(u16) -> ProbeCheck, timeout: Duration) -> Result<(), String> {
    let prober = Prober::new(Secrets::default().api(), LOOPBACK, Arc::new(Tcp));
    let request = ProbeRequest { timeout, ..request("127.0.0.1", check(server.address.port())) };
    probed(&prober, &request).await
}

#[tokio::test]
async fn a_code_from_200_to_399_passes_and_no_redirect_is_followed() {
    for (code, passes) in [(200, true), (204, true), (302, true), (399, true), (400, false), (503, false)] {
        let server = Server::saying(http(code, "Location: /elsewhere\r\n", "")).await;
        let expected = if passes { Ok(()) } else { Err(format!("it answered {code}")) };
        assert_eq!(of(&server, get, PATIENCE).await, expected, "{code}");
        let asked = server.only();
        assert_eq!((&*asked.method, &*asked.target), ("GET", "/leader?for=us"));
        assert_eq!(asked.header("host"), Some(&*server.address.to_string()));
    }
}

/// The connection ends in the moment in which the answer is complete.
#[tokio::test]
async fn an_answer_without_a_body_passes_each_time() {
    let server = Server::saying(http(200, "Connection: close\r\n", "")).await;
    for _ in 0..50 {
        assert_eq!(of(&server, get, PATIENCE).await, Ok(()));
    }
}

#[tokio::test]
async fn a_body_without_end_is_not_read() {
    let endless =
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n".to_vec(), vec![b'x'; 1 << 20]].concat();
    let server = Server::saying(Play::SayAndHang(endless)).await;
    assert_eq!(of(&server, get, PATIENCE).await, Ok(()));
}

#[tokio::test]
async fn a_head_without_end_and_nonsense_fail() {
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat();
    let broken = of(&Server::saying(Play::SayAndHang(endless)).await, get, PATIENCE).await;
    assert!(broken.clone().is_err_and(|why| why.starts_with("the connection broke: ")), "{broken:?}");
    let nonsense = of(&Server::saying(Play::Say(b"220 mail ready\r\n".to_vec())).await, get, PATIENCE).await;
    assert!(nonsense.clone().is_err_and(|why| why.starts_with("the connection broke: ")), "{nonsense:?}");
    let silent = of(&Server::saying(Play::Say(Vec::new())).await, get, PATIENCE).await;
    assert!(silent.clone().is_err_and(|why| why.starts_with("the connection broke: ")), "{silent:?}");
}

#[tokio::test]
async fn d_a10_a_server_that_hangs_fails_the_probe_after_its_timeout() {
    let limit = Duration::from_secs(1);
    let hanging = [
        Server::saying(Play::Hang).await,
        Server::saying(Play::SayAndHang(b"HTTP/1.1 200 OK\r\n".to_vec())).await,
    ];
    for server in hanging {
        assert_eq!(of(&server, get, limit).await, Err("no answer within 1 s".to_owned()));
        let https = |port| ProbeCheck::Http { scheme: Scheme::Https, port, path: "/".into() };
        assert_eq!(of(&server, https, limit).await, Err("no answer within 1 s".to_owned()));
    }
}

#[tokio::test]
async fn a_connection_is_all_that_a_tcp_probe_asks_for() {
    let server = Server::saying(Play::Hang).await;
    assert_eq!(of(&server, |port| ProbeCheck::Tcp { port }, PATIENCE).await, Ok(()));
    let port = server.address.port();
    drop(server);
    let prober = Prober::new(Secrets::default().api(), LOOPBACK, Arc::new(Tcp));
    let refused = probed(&prober, &request("127.0.0.1", ProbeCheck::Tcp { port })).await;
    assert!(refused.clone().is_err_and(|why| why.contains("no connection to 127.0.0.1:")), "{refused:?}");
}

/// Connects nowhere, and counts who wanted to.
#[derive(Debug, Default)]
struct Nowhere {
    wanted: AtomicUsize,
    /// The other ends of connections that are open, where they are to stay open.
    kept: Option<parking_lot::Mutex<Vec<DuplexStream>>>,
}

impl Nowhere {
    fn keeping() -> Self {
        Self { kept: Some(parking_lot::Mutex::default()), ..Self::default() }
    }

    fn wanted(&self) -> usize {
        self.wanted.load(Ordering::SeqCst)
    }
}

impl Dial for Nowhere {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Box::pin(async { Err(io::Error::other("no names are looked up")) })
    }

    fn connect(&self, _: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(1024);
            match &self.kept {
                Some(kept) => kept.lock().push(theirs),
                None => std::future::pending().await,
            }
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

#[tokio::test]
async fn addresses_of_the_node_and_the_cloud_are_not_probed() {
    let dial = Arc::new(Nowhere::default());
    let prober = Prober::new(Secrets::default().api(), Reach::default(), dial.clone());
    for ip in
        ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "::ffff:127.0.0.1", "0.0.0.0", "100.100.100.200"]
    {
        for check in [get(80), ProbeCheck::Tcp { port: 80 }] {
            let refused = probed(&prober, &request(ip, check)).await;
            assert!(refused.clone().is_err_and(|why| why.contains(" address")), "{ip}: {refused:?}");
        }
    }
    for ip in [None, Some(Box::from("")), Some(Box::from("db-0.db"))] {
        let request = ProbeRequest { ip, ..request("", get(80)) };
        assert_eq!(probed(&prober, &request).await, Err("the pod has no address".to_owned()));
    }
    assert_eq!(dial.wanted(), 0);
}

#[tokio::test(start_paused = true)]
async fn d_a10_a_connection_that_is_never_made_ends_with_the_timeout() {
    let prober = Prober::new(Secrets::default().api(), Reach::default(), Arc::new(Nowhere::default()));
    let request = ProbeRequest { timeout: Duration::from_secs(3), ..request("10.0.0.1", get(80)) };
    assert_eq!(probed(&prober, &request).await, Err("no answer within 3 s".to_owned()));
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d_a10_pods_that_hang_delay_no_other_namespace_and_few_of_their_own() {
    let dial = Arc::new(Nowhere::keeping());
    let prober = Prober::new(Secrets::default().api(), Reach::default(), dial.clone());
    let mut calls = JoinSet::new();
    let mut probe = |namespace: &str, object: &str| {
        let (prober, object) = (prober.clone(), Arc::from(object));
        let mut request = request("10.0.0.1", get(80));
        request.pod.namespace = namespace.into();
        calls.spawn(async move { prober.probe(&object, &request).await })
    };
    for _ in 0..200 {
        probe("hostile", "one");
    }
    settle().await;
    assert_eq!(dial.wanted(), PER_OBJECT);
    probe("hostile", "two");
    probe("other", "db");
    settle().await;
    assert_eq!(dial.wanted(), PER_OBJECT + 2);
    // All of them come round.
    tokio::time::sleep(PATIENCE * 4).await;
    assert_eq!(dial.wanted(), 202);
    const { assert!(PER_OBJECT * 3 < IN_ALL) };
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_waits_is_sent_when_its_turn_comes_and_one_given_up_leaves_its_slot() {
    let dial = Arc::new(Nowhere::keeping());
    let prober = Prober::new(Secrets::default().api(), Reach::default(), dial.clone());
    let mut calls = JoinSet::new();
    for _ in 0..=PER_OBJECT {
        let prober = prober.clone();
        calls.spawn(async move { prober.probe(&"db".into(), &request("10.0.0.1", get(80))).await });
    }
    settle().await;
    assert_eq!(dial.wanted(), PER_OBJECT);
    calls.abort_all();
    while calls.join_next().await.is_some() {}
    assert_eq!(prober.slots.known(), 0);
}

/// An API server that runs commands: what it sends once the connection is a WebSocket. It stays open afterwards.
async fn running(messages: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        let key = asked.header("sec-websocket-key").expect("a WebSocket");
        let accepted = digest(
            &SHA1_FOR_LEGACY_USE_ONLY,
            format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes(),
        );
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
            STANDARD.encode(accepted)
        );
        Play::SayAndHang([head.into_bytes(), messages(asked)].concat())
    })
    .await
}

const BINARY: u8 = 0x82;
const PING: u8 = 0x89;
const CLOSE: u8 = 0x88;

/// A message on a channel.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind];
    match u16::try_from(payload.len()) {
        Ok(length @ 0..126) => frame.push(u8::try_from(length).unwrap()),
        Ok(length) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(127);
            frame.extend(u64::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

fn ended(status: &str) -> Vec<u8> {
    frame(BINARY, &[b"\x03", status.as_bytes()].concat())
}

fn prober_of(server: &Server) -> (Prober, Metrics) {
    let config = kube::Config::new(format!("http://{}", server.address).parse().unwrap());
    let metrics = Metrics::new();
    let api = Api::new(kube::Client::try_from(config).unwrap(), metrics.clone());
    (Prober::new(api, Reach::default(), Arc::new(Nowhere::default())), metrics)
}

async fn ran(server: &Server) -> Result<(), String> {
    let request = ProbeRequest { timeout: PATIENCE, ..request("10.0.0.1", exec(&["/check", "a b", "&c=d"])) };
    probed(&prober_of(server).0, &request).await
}

#[tokio::test]
async fn the_exit_code_of_a_command_decides() {
    let passing = running(|_| {
        // An empty message opens the channels, and a ping that begins like a status is none.
        [
            frame(BINARY, &[1]),
            frame(BINARY, &[3]),
            frame(PING, b"\x03ping"),
            frame(BINARY, b"\x01fine\n"),
            ended(r#"{"status":"Success"}"#),
        ]
        .concat()
    })
    .await;
    let (prober, metrics) = prober_of(&passing);
    let request = request("10.0.0.1", exec(&["/check", "a b", "&c=d"]));
    assert_eq!(probed(&prober, &request).await, Ok(()));
    let asked = passing.only();
    assert_eq!(
        (&*asked.method, &*asked.target),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/db-0/exec?container=db&stdout=true&stderr=true\
             &command=%2Fcheck&command=a%20b&command=%26c%3Dd"
        )
    );
    let labels = RequestLabels { verb: "get", resource: "pods/exec", code: "101".to_owned() };
    assert_eq!(metrics.requests.get_or_create(&labels).get(), 1);

    let failing = r#"{"status":"Failure","message":"command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    assert_eq!(ran(&running(|_| ended(failing)).await).await, Err("exit code 3".to_owned()));
    let stopped = r#"{"status":"Failure","message":"container not found (\"db\")"}"#;
    assert_eq!(ran(&running(|_| ended(stopped)).await).await, Err("container not found (\"db\")".to_owned()));
    let mute = ran(&running(|_| ended("{}")).await).await;
    assert_eq!(mute, Err("the command failed without a message".to_owned()));
}

/// A container runtime names each attempt.
#[tokio::test]
async fn a_command_that_is_not_there_fails_alike_each_time() {
    let server = running(|asked| {
        let attempt = asked.header("sec-websocket-key").unwrap();
        let id = digest(&ring::digest::SHA256, attempt.as_bytes());
        let id = id.as_ref().iter().fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
        ended(&format!(r#"{{"status":"Failure","message":"failed to start exec \"{id}\": no such file"}}"#))
    })
    .await;
    let first = ran(&server).await;
    assert_eq!(first, Err("failed to start exec \"…\": no such file".to_owned()));
    assert_eq!(ran(&server).await, first);
}

#[tokio::test]
async fn a_command_that_prints_for_ever_is_given_up() {
    let server = running(|_| frame(BINARY, &[[1].as_slice(), &[b'y'; 1000]].concat()).repeat(1000)).await;
    assert_eq!(ran(&server).await, Err("the command printed more than 64 KiB".to_owned()));
    let one_message = running(|_| frame(BINARY, &vec![1; 1 << 20])).await;
    let refused = ran(&one_message).await;
    assert!(refused.clone().is_err_and(|why| why.starts_with("the connection broke: ")), "{refused:?}");
}

#[tokio::test]
async fn d_a10_a_command_that_hangs_fails_after_its_timeout() {
    let timeout = Duration::from_secs(1);
    let hanging = [running(|_| frame(BINARY, b"\x01waiting")).await, Server::saying(Play::Hang).await];
    for server in hanging {
        let request = ProbeRequest { timeout, ..request("10.0.0.1", exec(&["/check"])) };
        let hung = probed(&prober_of(&server).0, &request).await;
        assert_eq!(hung, Err("no answer within 1 s".to_owned()));
    }
}

#[tokio::test]
async fn a_connection_that_ends_before_the_command_is_a_failure() {
    let closed = ran(&running(|_| [frame(BINARY, b"\x01a"), frame(CLOSE, &[])].concat()).await).await;
    assert_eq!(closed, Err("the connection ended before the command did".to_owned()));
    let nonsense = ran(&running(|_| ended("{")).await).await;
    assert_eq!(nonsense, Err("an answer that cannot be read".to_owned()));
}

#[tokio::test]
async fn a_refusal_names_what_would_change_it() {
    let status = |message: &str| {
        let body = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": "Forbidden", "code": 403 });
        http(403, "Content-Type: application/json\r\n", &body.to_string())
    };
    let lacking = r#"pods "db-0" is forbidden: User "sts-plus" cannot create resource "pods/exec" in API group "" in the namespace "shop""#;
    let refused = ran(&Server::saying(status(lacking)).await).await;
    assert!(refused.clone().is_err_and(|why| why.contains("execProbes.enabled")), "{refused:?}");
    let denied =
        ran(&Server::saying(status("admission webhook \"no-exec\" denied the request: not here")).await)
            .await;
    assert!(denied.clone().is_err_and(|why| why.contains("denied the request: not here")), "{denied:?}");
    let gone = http(404, "", "pods \"db-0\" not found");
    let gone = ran(&Server::saying(gone).await).await;
    assert_eq!(gone, Err("the command could not be started: pods \"db-0\" not found".to_owned()));
}

#[test]
fn a_reason_is_one_short_line() {
    assert_eq!(&*reason(" a\nb\u{1b}[31m \n"), "a b [31m");
    assert_eq!(&*reason("cafe 10.0.0.1:8080 deadbeef"), "cafe 10.0.0.1:8080 deadbeef");
    assert_eq!(&*reason("exec 0123456789abcdef: no"), "exec …: no");
    assert_eq!(reason(&"ü ".repeat(1000)).chars().count(), MAX_REASON_CHARACTERS + 1);
}
