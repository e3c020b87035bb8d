use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::json;
use sts_plus_planner::phased_rollout::answer::{Answer, Data, Extent, QueryError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpSocket;

use super::Response;
use crate::outbound::dial::{Dial, Dialled, Stream, Tcp};
use crate::outbound::prometheus::Prometheus;
use crate::outbound::reach::Reach;
use crate::outbound::reading::MAX_BODY_BYTES;
use crate::outbound::slots::PER_SERVER;
use crate::outbound::test_server::{Asking, EMPTY, PATIENCE, Play, Secrets, Server, http, question};

fn success(kind: &str, result: &str) -> Play {
    let body = format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#);
    http(200, "", &body)
}

fn error(code: u16, kind: &str, text: &str) -> Play {
    http(code, "", &format!(r#"{{"status":"error","errorType":"{kind}","error":"{text}"}}"#))
}

async fn told(play: Play) -> Result<Answer, QueryError> {
    let server = Server::saying(play).await;
    Secrets::default().client().ask_now(&question(server.address.to_string(), json!({}))).await.answer
}

fn failed(message: &str) -> Result<Answer, QueryError> {
    Err(QueryError::Failed(message.to_owned()))
}

fn config(message: &str) -> Result<Answer, QueryError> {
    Err(QueryError::Config(message.to_owned()))
}

fn rejected(code: u16, message: &str) -> Result<Answer, QueryError> {
    Err(QueryError::Rejected { code, message: message.to_owned() })
}

fn data(data: Data) -> Answer {
    Answer::new(data)
}

#[tokio::test]
async fn a_result_is_data() {
    for (play, expected) in [
        (
            success("vector", r#"[{"metric":{},"value":[1,"0"]},{"metric":{},"value":[1,"2.5"]}]"#),
            Data::Series(vec![0.0, 2.5]),
        ),
        (success("vector", "[]"), Data::Series(vec![])),
        (success("scalar", r#"[1,"+Inf"]"#), Data::Scalar(f64::INFINITY)),
        (success("string", r#"[1,"some text"]"#), Data::Text("some text".to_owned())),
        (success("matrix", r#"[{"metric":{},"values":[[1,"1"],[2,"7"]]}]"#), Data::Series(vec![7.0])),
    ] {
        assert_eq!(told(play.clone()).await, Ok(data(expected)), "{play:?}");
    }
    let not_a_number = told(success("vector", r#"[{"metric":{},"value":[1,"NaN"]}]"#)).await;
    let Ok(Answer { data: Data::Series(values), .. }) = not_a_number else { panic!("{not_a_number:?}") };
    assert!(values.len() == 1 && values[0].is_nan(), "{values:?}");
}

#[tokio::test]
async fn everything_else_has_its_class_and_its_message() {
    let page = "<html><h1>Bad Gateway</h1></html>";
    for (play, expected) in [
        (
            error(200, "timeout", "query timed out"),
            failed("the server answered 200 with an error: timeout: query timed out"),
        ),
        (http(204, "", ""), failed("the server answered 204 without a result")),
        (http(200, "", ""), failed("the server answered 200 without a result")),
        (
            http(301, "Location: https://other/prom?token=1\r\n", ""),
            failed(
                "the server redirects (301) to https://other/prom, which is not followed: set url to where the API \
                 is",
            ),
        ),
        (error(400, "bad_data", "parse error"), rejected(400, "bad_data: parse error")),
        (http(400, "", ""), rejected(400, "it gave no reason")),
        (error(422, "bad_data", "no such function"), rejected(422, "bad_data: no such function")),
        // VictoriaMetrics says so of a query that it cannot parse.
        (error(422, "422", "missing closing paren"), rejected(422, "422: missing closing paren")),
        (
            error(422, "execution", "no store matched"),
            failed("the server answered 422: execution: no store matched"),
        ),
        (
            http(401, "", "Unauthorized\n"),
            config("the server refused the credentials with 401: Unauthorized"),
        ),
        (http(403, "", page), config("the server refused the credentials with 403")),
        (error(503, "timeout", "too slow"), failed("the server answered 503: timeout: too slow")),
        (http(503, "", "starting up"), failed("the server answered 503: starting up")),
        (http(500, "", ""), failed("the server answered 500")),
        (http(502, "", page), failed("the server answered 502")),
        (http(429, "", "slow down"), failed("the server answered 429: slow down")),
    ] {
        assert_eq!(told(play.clone()).await, expected, "{play:?}");
    }
    let Err(QueryError::Failed(garbage)) = told(http(200, "", "PONG")).await else { panic!() };
    assert!(garbage.starts_with("the answer is not one of the Prometheus API"), "{garbage}");
    let Err(QueryError::Failed(garbage)) = told(Play::Say(b"SSH-2.0-x\r\n\r\n".to_vec())).await else {
        panic!()
    };
    assert!(garbage.starts_with("the connection to 127.0.0.1 broke"), "{garbage}");
    let Err(QueryError::Failed(garbage)) = told(Play::Say(Vec::new())).await else { panic!() };
    assert!(garbage.starts_with("the connection to 127.0.0.1 broke"), "{garbage}");
}

#[tokio::test]
async fn an_address_without_the_api_needs_a_change() {
    let server = Server::saying(http(404, "", "404 page not found")).await;
    let response =
        Secrets::default().client().ask_now(&question(format!("{}/x/", server.address), json!({}))).await;
    let expected =
        format!("there is no Prometheus API at http://{}/x (404): 404 page not found", server.address);
    assert_eq!(response.answer, config(&expected));
}

#[tokio::test]
async fn a_server_that_is_slow_at_any_point_is_given_up() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{".to_vec();
    // Nothing at all; and a body that never comes to its end, which hangs because the server does not close.
    for (name, play) in [("head", Play::Hang), ("body", Play::SayAndHang(head))] {
        let server = Server::saying(play).await;
        let query = question(server.address.to_string(), json!({ "timeoutSeconds": 1 }));
        let response = Secrets::default().client().ask_now(&query).await;
        assert_eq!(response.answer, failed("no answer within 1 s"), "{name}");
        assert!(response.took >= Duration::from_secs(1), "{:?}", response.took);
    }
}

#[tokio::test]
async fn a_body_without_end_is_not_read_to_it() {
    let result = format!("{EMPTY}{}", " ".repeat(MAX_BODY_BYTES));
    let announced = http(200, "", &result);
    let open_ended = Play::Say(format!("HTTP/1.1 200 OK\r\n\r\n{result}").into_bytes());
    for play in [announced, open_ended] {
        assert_eq!(told(play).await, failed("the answer is larger than 256 KiB: aggregate in the query"));
    }
}

#[tokio::test]
async fn nobody_at_the_address_may_change() {
    // Bound, so that nobody else gets the port, and not listening.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = nobody.local_addr().unwrap();
    let response = Secrets::default().client().ask_now(&question(address.to_string(), json!({}))).await;
    let Err(QueryError::Failed(message)) = response.answer else { panic!("{response:?}") };
    assert!(message.starts_with(&format!("no connection to {address}: ")), "{message}");
}

/// A resolver that knows no name. What the machine's own says of one, and how long it takes to, depends on its network.
#[derive(Debug)]
struct Nameless;

impl Dial for Nameless {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Box::pin(async { Err(io::Error::other("Name or service not known")) })
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Tcp.connect(address)
    }
}

#[tokio::test]
async fn a_name_without_an_address_may_get_one() {
    let client = Prometheus::new(Secrets::default().api(), Reach::default(), Arc::new(Nameless));
    let response = client.ask_now(&question("prom.invalid", json!({}))).await;
    assert_eq!(response.answer, failed("prom.invalid has no address: Name or service not known"));
}

#[tokio::test]
async fn a_query_goes_out_as_a_form_below_the_prefix() {
    let server = Server::saying(http(200, "", EMPTY)).await;
    let mut asked = question(format!("{}/xx/", server.address), json!({ "timeoutSeconds": 7 }));
    asked.question.expr = "up{a=\"x  y&é\"}\n   == 1".to_owned();
    assert_eq!(Secrets::default().client().ask_now(&asked).await.answer, Ok(data(Data::Series(vec![]))));
    let seen = server.only();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/xx/api/v1/query"));
    assert_eq!(
        seen.body,
        "query=up%7Ba%3D%22x%20%20y%26%C3%A9%22%7D%20%3D%3D%201&timeout=7s&partial_response=false&deny_partial_response=1"
    );
    assert_eq!(seen.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(seen.header("host"), Some(server.address.to_string().as_str()));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn where_post_is_not_allowed_the_same_goes_out_as_get() {
    for code in [405, 501] {
        let server = Server::start(move |asked| match asked.method.as_str() {
            "POST" => http(code, "", ""),
            _ => http(200, "", EMPTY),
        })
        .await;
        let query = question(
            format!("http://{}", server.address),
            json!({ "headers": [{"name": "X-Org", "value": "a"}] }),
        );
        let response = Secrets::default().client().ask_now(&query).await;
        assert_eq!(response.answer, Ok(data(Data::Series(vec![]))));
        let seen = server.asked();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(
            (seen[1].method.as_str(), seen[1].target.as_str()),
            ("GET", "/api/v1/query?query=up&timeout=30s&partial_response=false&deny_partial_response=1")
        );
        assert_eq!((seen[1].header("x-org"), seen[1].body.as_str()), (Some("a"), ""));
    }
    assert_eq!(told(http(405, "", "")).await, failed("the server answered 405"));
}

/// As Google Cloud's server does, which knows no parameters but those of Prometheus.
#[tokio::test]
async fn a_server_that_refuses_the_parameters_for_whole_answers_is_asked_without_them() {
    let server = Server::start(|asked| {
        if asked.body.contains("partial_response") {
            let text = r#"Invalid JSON payload received. Unknown name \"partial_response\": Cannot bind query parameter."#;
            return http(400, "", &format!(r#"{{"error":{{"code":400,"message":"{text}"}}}}"#));
        }
        http(200, "", EMPTY)
    })
    .await;
    let response =
        Secrets::default().client().ask_now(&question(server.address.to_string(), json!({}))).await;
    assert_eq!(response.answer, Ok(data(Data::Series(vec![]))));
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    let whole = "query=up&timeout=30s&partial_response=false&deny_partial_response=1";
    assert_eq!(bodies, [whole, "query=up&timeout=30s"]);
    let refused = error(400, "bad_data", "parse error");
    let server = Server::saying(refused).await;
    Secrets::default().client().ask_now(&question(server.address.to_string(), json!({}))).await;
    assert_eq!(server.asked().len(), 1, "any other refusal is final");
}

#[tokio::test]
async fn a_guard_is_asked_after_an_answer_and_not_after_an_error() {
    let server = Server::start(|asked| match asked.body.as_str() {
        "query=up&timeout=30s&partial_response=false&deny_partial_response=1" => http(200, "", EMPTY),
        "query=guard&timeout=30s&partial_response=false&deny_partial_response=1" => {
            success("scalar", r#"[1,"1"]"#)
        }
        _ => http(500, "", ""),
    })
    .await;
    let client = Secrets::default().client();
    let mut query = question(server.address.to_string(), json!({}));
    query.question.guard = Some("guard".to_owned());
    let before = jiff::Timestamp::now();
    let response = client.ask_now(&query).await;
    assert_eq!(
        (response.answer, response.guard),
        (Ok(data(Data::Series(vec![]))), Some(Ok(data(Data::Scalar(1.0)))))
    );
    assert!(response.asked_at >= before && response.asked_at <= jiff::Timestamp::now());
    query.question.guard = Some("broken".to_owned());
    assert_eq!(client.ask_now(&query).await.guard, Some(failed("the server answered 500")));
    query.question.expr = "broken".to_owned();
    let Response { answer, guard, .. } = client.ask_now(&query).await;
    assert_eq!((answer, guard), (failed("the server answered 500"), None));
}

#[tokio::test]
async fn what_servers_say_is_cut_and_cleaned() {
    let long = "w".repeat(1000);
    let body = format!(
        r#"{{"status":"success","data":{{"resultType":"string","result":[1,"{long}"]}},"warnings":["{long}","a\nb"]}}"#
    );
    let Ok(answer) = told(http(200, "", &body)).await else { panic!() };
    let Data::Text(text) = answer.data else { panic!() };
    assert_eq!(text.chars().count(), 300);
    assert_eq!(answer.warnings.iter().map(|text| text.chars().count()).collect::<Vec<_>>(), [200, 3]);
    assert_eq!(answer.warnings[1], "a b");
    let Err(QueryError::Rejected { message, .. }) = told(error(400, "bad_data", &long)).await else {
        panic!()
    };
    assert_eq!(message.chars().count(), 300);
}

#[tokio::test]
async fn refused_addresses_are_not_connected_to() {
    let server = Server::saying(http(200, "", EMPTY)).await;
    let port = server.address.port();
    let nobody = Secrets::default().client_within(Reach::default());
    for (host, address, flag) in [
        ("127.0.0.1", "127.0.0.1", "--allow-loopback"),
        ("[::1]", "::1", "--allow-loopback"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "--allow-loopback"),
        ("localhost", "1", "--allow-loopback"),
        // The resolver takes these for addresses, too.
        ("2130706433", "127.0.0.1", "--allow-loopback"),
        ("127.1", "127.0.0.1", "--allow-loopback"),
        ("169.254.169.254", "169.254.169.254", "--allow-link-local"),
        ("[fe80::1]", "fe80::1", "--allow-link-local"),
        ("[fd00:ec2::254]", "fd00:ec2::254", "--allow-link-local"),
        ("100.100.100.200", "100.100.100.200", "--allow-link-local"),
        ("0.0.0.0", "0.0.0.0", "unspecified"),
        ("[::]", "::", "unspecified"),
    ] {
        let response = nobody.ask_now(&question(format!("http://{host}:{port}"), json!({}))).await;
        let Err(QueryError::Config(message)) = response.answer else { panic!("{host}: {response:?}") };
        assert!(message.contains(address) && message.contains(flag), "{host}: {message}");
    }
    assert!(server.asked().is_empty());
    let client = Secrets::default().client();
    let through_a_name = client.ask_now(&question(format!("localhost:{port}"), json!({}))).await;
    assert_eq!(
        through_a_name.answer,
        Ok(data(Data::Series(vec![]))),
        "IPv6 may be tried first, and then the other"
    );
}

#[tokio::test]
async fn an_address_that_cannot_be_read_needs_a_change() {
    let response = Secrets::default().client().ask_now(&question("ftp://prom", json!({}))).await;
    assert_eq!(response.answer, config("url: only http and https are supported, not \"ftp\""));
}

/// A way to servers that counts what is read.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<AtomicUsize>);

struct Counted {
    stream: Box<dyn Stream>,
    read: Arc<AtomicUsize>,
}

impl Dial for Counting {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Tcp.lookup(host, port)
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Box::pin(async move {
            let stream = Tcp.connect(address).await?;
            Ok(Box::new(Counted { stream, read: Arc::clone(&self.0) }) as Box<dyn Stream>)
        })
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Buffers on the way, with room to spare.
const BUFFERED: usize = 64 * 1024;

/// The hostile answer of four megabytes, and an honest one that is as large.
#[tokio::test]
async fn no_more_is_read_of_an_answer_than_decides() {
    let series = r#"{"metric":{"instance":"10.0.0.1:9090"},"value":[1,"1"]},"#;
    let labels = format!(r#"{{"metric":{{"a":"{}"}},"#, "x".repeat(4 << 20));
    for (result, extent, most) in [
        ("[0],".repeat(1 << 20), Extent::Values, BUFFERED),
        (series.repeat(80_000), Extent::First, BUFFERED),
        (series.repeat(80_000), Extent::Values, BUFFERED),
        (labels.clone(), Extent::First, MAX_BODY_BYTES + BUFFERED),
        (labels, Extent::Values, MAX_BODY_BYTES + BUFFERED),
    ] {
        let server = Server::saying(success("vector", &format!("[{result}"))).await;
        let counting = Counting::default();
        let reach = Reach { loopback: true, link_local: false };
        let client = Prometheus::new(Secrets::default().api(), reach, Arc::new(counting.clone()));
        let mut asked = question(server.address.to_string(), json!({}));
        asked.question.extent = extent;
        let response = client.ask_now(&asked).await;
        let read = counting.0.load(Ordering::Relaxed);
        assert!(read <= most, "{read} bytes are read of {} for {extent:?}", result.len());
        let decided = extent == Extent::First && result.starts_with(series);
        assert_eq!(response.answer.is_ok(), decided, "{extent:?} {:?}", response.answer);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_delays_nobody_else() {
    let (hanging, other) = (Server::saying(Play::Hang).await, Server::saying(http(200, "", EMPTY)).await);
    let client = Secrets::default().client();
    let mut waiting = tokio::task::JoinSet::new();
    let hang = || question(hanging.address.to_string(), json!({ "timeoutSeconds": 300 }));
    for _ in 0..PER_SERVER + 6 {
        let (client, question) = (client.clone(), hang());
        waiting.spawn(async move { client.ask_now(&question).await });
    }
    hanging.wait_for(PER_SERVER).await;
    let asked = question(other.address.to_string(), json!({}));
    let response = tokio::time::timeout(PATIENCE, client.ask_now(&asked)).await.expect("nobody is delayed");
    assert_eq!(response.answer, Ok(data(Data::Series(vec![]))));
    assert_eq!(hanging.asked().len(), PER_SERVER, "no more than these at once");
    // Another namespace has slots of its own at the same server.
    let foreign = Asking { namespace: "elsewhere".into(), ..hang() };
    let another = client.clone();
    waiting.spawn(async move { another.ask_now(&foreign).await });
    hanging.wait_for(PER_SERVER + 1).await;
    assert!(waiting.try_join_next().is_none());
    assert_eq!(client.shared.slots.known(), 2);
    waiting.shutdown().await;
    client.ask_now(&asked).await;
    assert_eq!(client.shared.slots.known(), 0, "what nobody asks is forgotten");
}

/// Filled in, an expression may take 64 KiB, and thousands may wait for a server that hangs.
#[tokio::test]
async fn a_question_is_made_when_its_turn_has_come() {
    let hanging = Server::saying(Play::Hang).await;
    let client = Secrets::default().client();
    let made = Arc::new(AtomicUsize::new(0));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..PER_SERVER + 6 {
        let (client, made) = (client.clone(), Arc::clone(&made));
        let Asking { namespace, question } =
            question(hanging.address.to_string(), json!({ "timeoutSeconds": 300 }));
        let url = question.query.url.clone();
        let fill = move || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok(question)
        };
        waiting.spawn(async move { client.ask((&namespace, &url), fill).await });
    }
    hanging.wait_for(PER_SERVER).await;
    assert_eq!(made.load(Ordering::SeqCst), PER_SERVER);
}

/// A name server that does not answer until the test lets it.
#[derive(Clone, Debug, Default)]
struct Silent {
    lookups: Arc<AtomicUsize>,
    answers: Arc<tokio::sync::Notify>,
}

impl Dial for Silent {
    fn lookup<'a>(&'a self, _host: &'a str, _port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Box::pin(async move {
            self.lookups.fetch_add(1, Ordering::SeqCst);
            self.answers.notified().await;
            Ok(Vec::new())
        })
    }

    fn connect(&self, _address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Box::pin(async { Err(io::Error::other("nobody is there")) })
    }
}

/// The machine's resolver blocks a thread for each lookup, and there are 512 of them for everything.
#[tokio::test(start_paused = true)]
async fn a_lookup_that_outlives_its_query_holds_the_slot() {
    let silent = Silent::default();
    let client = Prometheus::new(Secrets::default().api(), Reach::default(), Arc::new(silent.clone()));
    let asked = question("http://prom", json!({ "timeoutSeconds": 1 }));
    let ask = || async { client.ask_now(&asked).await.answer };
    let answers = futures::future::join_all((0..PER_SERVER).map(|_| ask())).await;
    assert!(answers.iter().all(|answer| *answer == failed("no answer within 1 s")), "{answers:?}");
    let one_more = tokio::time::timeout(Duration::from_mins(10), ask()).await;
    assert!(one_more.is_err(), "it waits for a slot: {one_more:?}");
    assert_eq!(silent.lookups.load(Ordering::SeqCst), PER_SERVER);
    silent.answers.notify_waiters();
    let next = tokio::time::timeout(Duration::from_mins(10), ask()).await.expect("the slots are free");
    assert_eq!(next, failed("no answer within 1 s"));
    silent.answers.notify_waiters();
    // The lookups are tasks of their own, and end when it is their turn.
    for _ in 0..PER_SERVER {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.shared.slots.known(), 0);
}
