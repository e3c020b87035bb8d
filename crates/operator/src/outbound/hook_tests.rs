use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::scaling_policy::ScalingPolicySpec;
use sts_plus_planner::plan::{Kind, Object};
use sts_plus_planner::scaling::hook::{Call, Hook, HookKind, HookRequest, HookResult};
use sts_plus_planner::scaling::policy::Policy;

use super::HookCaller;
use crate::hooks::{HookContext, HookError, HookProgress, Hooks, PodTarget, ScaleDown, ScaleUp};
use crate::outbound::dial::Tcp;
use crate::outbound::reach::Reach;
use crate::outbound::test_server::{Authority, NAMESPACE, PATIENCE, Play, Secrets, Server, http};

const LOOPBACK: Reach = Reach { loopback: true, link_local: false };

/// Nothing that anybody sees may hold it.
const CANARY: &str = "canary-7f3a/+\"x";

/// The hook of a manifest.
fn hook(http: &Value) -> Hook {
    let spec = json!({
        "targetRef": { "name": "db" },
        "scaleDown": { "hook": { "http": http, "timeoutSeconds": 60 } }
    });
    let spec: ScalingPolicySpec = serde_json::from_value(spec).unwrap();
    let hook = Policy::parse(&spec).unwrap().down.unwrap();
    Arc::unwrap_or_clone(hook)
}

/// A hook that may have whatever no manifest may have.
fn wild(change: impl FnOnce(&mut sts_plus_planner::scaling::hook::HttpHook)) -> Hook {
    let mut hook = hook(&json!({ "path": "/shutdown", "port": 80 }));
    let HookKind::Http(http) = &mut hook.kind else { panic!() };
    change(http);
    hook
}

fn request(hook: Hook, call: Call, port: u16) -> HookRequest {
    HookRequest {
        pod: Object { kind: Kind::Pod, namespace: NAMESPACE.into(), name: "db-2".into() },
        uid: "uid-2".into(),
        ip: Some("127.0.0.1".into()),
        set: "db".into(),
        ordinal: 2,
        call,
        hook: Arc::new(hook),
        port: Ok(port),
    }
}

fn caller(secrets: &Secrets, named: Hooks) -> HookCaller {
    HookCaller::new(secrets.api(), (LOOPBACK, Arc::new(Tcp)), named)
}

async fn called(caller: &HookCaller, request: &HookRequest) -> HookResult {
    let (outcome, _) = caller.call(&"policy".into(), request).await;
    assert_eq!((&outcome.uid, outcome.call, &outcome.hash), (&request.uid, request.call, &request.hook.hash));
    let shown = format!("{outcome:?}");
    assert!(!shown.contains("canary"), "{shown}");
    outcome.result
}

/// What a call to this server comes to, with these Secrets.
async fn of(server: &Server, secrets: &Secrets, http: Value, call: Call) -> HookResult {
    let request = request(hook(&http), call, server.address.port());
    called(&caller(secrets, Hooks::default()), &request).await
}

fn manifest(more: Value) -> Value {
    let mut http = json!({ "path": "/shutdown", "port": "http" });
    let Value::Object(more) = more else { panic!("{more}") };
    http.as_object_mut().unwrap().extend(more);
    http
}

fn failed(why: &str) -> HookResult {
    HookResult::Failed(why.into())
}

fn why(result: HookResult) -> String {
    match result {
        HookResult::Failed(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn pending(message: &str) -> HookResult {
    HookResult::Pending { message: message.into(), retry_after: None }
}

#[tokio::test]
async fn a_hook_is_one_request_to_the_address_of_the_pod() {
    for (code, expected) in [(200, true), (202, true), (204, true), (201, false), (404, false), (500, false)]
    {
        let server = Server::saying(http(code, "", "")).await;
        let http = manifest(json!({ "path": "/shutdown?flush=true&terminate=false" }));
        let expected =
            if expected { HookResult::Done } else { failed(&format!("POST /shutdown answered {code}")) };
        assert_eq!(of(&server, &Secrets::default(), http, Call::Prepare).await, expected);
        let asked = server.only();
        assert_eq!((&*asked.method, &*asked.target), ("POST", "/shutdown?flush=true&terminate=false"));
        assert_eq!(asked.header("host"), Some(&*server.address.to_string()));
        assert_eq!((asked.header("content-length"), &*asked.body), (Some("0"), ""));
    }
}

#[tokio::test]
async fn each_call_has_a_request_of_its_own() {
    let server = Server::saying(http(200, "", "")).await;
    let status = json!({ "path": "/state" });
    let http = manifest(json!({ "status": status, "cancel": { "method": "PUT", "path": "/stay" } }));
    let secrets = Secrets::default();
    let call = |call| of(&server, &secrets, http.clone(), call);
    assert_eq!(call(Call::Prepare).await, pending("POST /shutdown answered 200"));
    assert_eq!(call(Call::Poll).await, HookResult::Done);
    assert_eq!(call(Call::Cancel).await, HookResult::Done);
    assert_eq!(call(Call::Join).await, pending("POST /shutdown answered 200"));
    let asked: Vec<_> =
        server.asked().into_iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect();
    assert_eq!(asked, ["POST /shutdown", "GET /state", "PUT /stay", "POST /shutdown"]);
}

#[tokio::test]
async fn where_nothing_takes_a_call_back_none_is_sent() {
    let server = Server::saying(http(500, "", "")).await;
    let result = of(&server, &Secrets::default(), manifest(json!({})), Call::Cancel).await;
    assert_eq!((result, server.asked().len()), (HookResult::Done, 0));
    let result = of(&server, &Secrets::default(), manifest(json!({})), Call::Poll).await;
    assert_eq!(result, failed("the hook has no status to ask for"));
}

#[tokio::test]
async fn what_the_pod_says_is_its_progress_until_the_value_is_there() {
    let status = json!({ "path": "/state", "jsonPointer": "/state/0", "equals": "drained" });
    for (code, headers, body, expected) in [
        (200, "", r#"{"state":["drained"]}"#, HookResult::Done),
        (200, "", r#"{"state":["flushing 12 of 40"]}"#, pending(r#"/state/0 is "flushing 12 of 40""#)),
        (200, "", r#"{"state":[]}"#, pending("there is no /state/0")),
        (503, "", "starting\nup", pending("GET /state answered 503: starting up")),
        (503, "", "<html>sorry</html>", pending("GET /state answered 503")),
        (200, "", "{\"state\"", failed("the answer to GET /state is not JSON")),
        (200, "", "", failed("the answer to GET /state is not JSON")),
        (401, "", "who?", failed("GET /state answered 401: who?")),
        (
            307,
            "Location: /x\r\n",
            "",
            failed("GET /state answered 307 with a redirect, which is not followed"),
        ),
    ] {
        let server = Server::saying(http(code, headers, body)).await;
        let http = manifest(json!({ "status": status }));
        assert_eq!(of(&server, &Secrets::default(), http, Call::Poll).await, expected, "{code} {body}");
    }
}

#[tokio::test]
async fn a_value_of_any_type_is_compared() {
    for (equals, body, is_done) in [
        (json!(0), "0", true),
        (json!(0), "0.0", true),
        (json!(0), "\"0\"", false),
        (json!(true), "true", true),
        (json!(["a"]), "[\"a\"]", true),
        (json!({ "a": 1 }), "{\"a\": 1}", true),
        (json!({ "a": 1 }), "{\"a\": 2}", false),
    ] {
        let server = Server::saying(http(200, "", body)).await;
        let status = json!({ "path": "/state", "jsonPointer": "", "equals": equals });
        let result =
            of(&server, &Secrets::default(), manifest(json!({ "status": status })), Call::Poll).await;
        assert_eq!(result == HookResult::Done, is_done, "{equals} {body}: {result:?}");
    }
}

#[tokio::test]
async fn a_pod_says_when_to_ask_again() {
    let status = json!({ "path": "/state" });
    for (after, expected) in [("7", Some(7)), (" 7 ", Some(7)), ("Fri, 31 Dec 1999 23:59:59 GMT", None)] {
        let server = Server::saying(http(503, &format!("Retry-After: {after}\r\n"), "")).await;
        let result =
            of(&server, &Secrets::default(), manifest(json!({ "status": status })), Call::Poll).await;
        let HookResult::Pending { retry_after, .. } = result else { panic!("{result:?}") };
        assert_eq!(retry_after, expected.map(Duration::from_secs));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::saying(http(200, "", "")).await;
    let location = format!("Location: http://{}/\r\n", elsewhere.address);
    let server = Server::saying(http(302, &location, "")).await;
    assert_eq!(
        of(&server, &Secrets::default(), manifest(json!({})), Call::Prepare).await,
        failed("POST /shutdown answered 302 with a redirect, which is not followed")
    );
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_refusal_in_words_is_shown_cut_and_without_secrets() {
    let secrets = Secrets::default().with("hook", &[("token", CANARY)]);
    let body = format!("no entry\r\nfor Bearer {CANARY}: {}", "x".repeat(1000));
    let server = Server::saying(http(500, "", &body)).await;
    let authorization = json!({ "secretKeyRef": { "name": "hook", "key": "token" } });
    let why =
        why(of(&server, &secrets, manifest(json!({ "authorization": authorization })), Call::Prepare).await);
    assert!(why.starts_with("POST /shutdown answered 500: no entry for Bearer ***: xxx"), "{why}");
    assert_eq!((why.chars().count(), why.ends_with('…')), (super::MAX_MESSAGE_CHARACTERS, true));
    assert_eq!(server.only().header("authorization"), Some(&*format!("Bearer {CANARY}")));
}

#[tokio::test]
async fn an_answer_of_10_mib_is_refused_before_it_is_read() {
    let length = 10 << 20;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    let endless = [head, vec![b'1'; 1 << 20]].concat();
    let server = Server::saying(Play::SayAndHang(endless)).await;
    let status = json!({ "path": "/state", "jsonPointer": "", "equals": 1 });
    let http = manifest(json!({ "status": status }));
    for (call, shown) in [(Call::Prepare, "POST /shutdown"), (Call::Poll, "GET /state")] {
        assert_eq!(
            of(&server, &Secrets::default(), http.clone(), call).await,
            failed(&format!("the answer to {shown} is longer than 64 KiB"))
        );
    }
    // Of a refusal its code is known, and nothing of what it says.
    let head = format!("HTTP/1.1 500 No\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    let server = Server::saying(Play::SayAndHang([head, vec![b'x'; 1 << 20]].concat())).await;
    assert_eq!(
        of(&server, &Secrets::default(), http, Call::Prepare).await,
        failed("POST /shutdown answered 500")
    );
}

/// What a pod answers before it is done has no end.
#[tokio::test]
async fn an_answer_that_hangs_fails_after_the_timeout_also_in_its_middle() {
    let hanging = [
        Play::Hang,
        Play::SayAndHang(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Play::SayAndHang(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()),
    ];
    for play in hanging {
        let server = Server::saying(play).await;
        let hook = Hook { timeout: Duration::from_secs(1), ..hook(&manifest(json!({}))) };
        let request = request(hook, Call::Prepare, server.address.port());
        let result = called(&caller(&Secrets::default(), Hooks::default()), &request).await;
        assert_eq!(result, failed("no answer within 1 s"));
    }
}

#[tokio::test]
async fn nonsense_and_a_pod_that_does_not_listen_fail() {
    let server = Server::saying(Play::Say(b"220 mail ready\r\n".to_vec())).await;
    let nonsense = why(of(&server, &Secrets::default(), manifest(json!({})), Call::Prepare).await);
    assert!(nonsense.starts_with("the connection to 127.0.0.1 broke: "), "{nonsense}");
    let port = server.address.port();
    drop(server);
    let request = request(hook(&manifest(json!({}))), Call::Prepare, port);
    let refused = why(called(&caller(&Secrets::default(), Hooks::default()), &request).await);
    assert!(refused.starts_with(&format!("no connection to 127.0.0.1:{port}: ")), "{refused}");
}

#[tokio::test]
async fn a_pod_without_address_or_port_is_not_called() {
    let server = Server::saying(http(200, "", "")).await;
    let request = || request(hook(&manifest(json!({}))), Call::Prepare, server.address.port());
    let caller = caller(&Secrets::default(), Hooks::default());
    for ip in [None, Some(""), Some("db.example"), Some("127.0.0.1:80"), Some("evil@127.0.0.1")] {
        let request = HookRequest { ip: ip.map(Into::into), ..request() };
        assert_eq!(called(&caller, &request).await, failed("the pod has no address"), "{ip:?}");
    }
    let unknown = HookRequest { port: Err("no container has a port http".into()), ..request() };
    assert_eq!(called(&caller, &unknown).await, failed("no container has a port http"));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn loopback_link_local_and_metadata_addresses_are_refused() {
    let server = Server::saying(http(200, "", "")).await;
    let secrets = Secrets::default();
    let caller = HookCaller::new(secrets.api(), (Reach::default(), Arc::new(Tcp)), Hooks::default());
    for (ip, why) in [
        (
            "127.0.0.1",
            "127.0.0.1 is a loopback address, refused unless the operator runs with --allow-loopback",
        ),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1 is a loopback address, refused unless"),
        ("169.254.169.254", "169.254.169.254 is a link-local or metadata address"),
        ("fe80::1", "fe80::1 is a link-local or metadata address"),
        ("0.0.0.0", "0.0.0.0 is an unspecified, multicast or broadcast address"),
    ] {
        let request = request(hook(&manifest(json!({}))), Call::Prepare, server.address.port());
        let request = HookRequest { ip: Some(ip.into()), ..request };
        let refused = self::why(called(&caller, &request).await);
        assert!(refused.starts_with(why), "{refused}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_path_is_nothing_but_a_path() {
    let server = Server::saying(http(200, "", "")).await;
    let caller = caller(&Secrets::default(), Hooks::default());
    let long = format!("/{}", "x".repeat(2048));
    for path in [
        "",
        "shutdown",
        "http://evil.example/",
        "@evil.example/",
        "//evil.example/x",
        "/a b",
        "/a\r\nX: y",
        "/a\nb",
        "/a\0",
        "/a#b",
        "/a\\b",
        "/\u{e4}",
        "*",
        &long,
    ] {
        let hook = wild(|http| http.path = path.into());
        let refused = why(called(&caller, &request(hook, Call::Prepare, server.address.port())).await);
        assert!(refused.starts_with("path: it "), "{path:?}: {refused}");
    }
    for method in ["CONNECT", "TRACE", "post", "POST / HTTP/1.1\r\nX: y", ""] {
        let hook = wild(|http| http.method = method.into());
        let refused = why(called(&caller, &request(hook, Call::Prepare, server.address.port())).await);
        assert!(refused.ends_with(" is not a method of hooks"), "{method:?}: {refused}");
    }
    assert!(server.asked().is_empty());
    for path in ["/", "/a//b", "/a%20b?c=d&e=/f", "/x/../y", "/@evil.example:80"] {
        let hook = wild(|http| http.path = path.into());
        let result = called(&caller, &request(hook, Call::Prepare, server.address.port())).await;
        assert_eq!(result, HookResult::Done, "{path}");
    }
    let targets: Vec<_> = server.asked().into_iter().map(|asked| asked.target).collect();
    assert_eq!(targets, ["/", "/a//b", "/a%20b?c=d&e=/f", "/x/../y", "/@evil.example:80"]);
}

#[tokio::test]
async fn headers_and_credentials_come_from_secrets() {
    let secrets = Secrets::default().with("hook", &[("scope", "ops\n"), ("basic", "bWU6c2VjcmV0")]);
    let server = Server::saying(http(200, "", "")).await;
    let http = manifest(json!({
        "headers": [
            { "name": "X-Scope", "secretKeyRef": { "name": "hook", "key": "scope" } },
            { "name": "Accept", "value": "text/plain" }, { "name": "User-Agent", "value": "mine" }
        ],
        "authorization": { "type": "Basic", "secretKeyRef": { "name": "hook", "key": "basic" } }
    }));
    assert_eq!(of(&server, &secrets, http, Call::Prepare).await, HookResult::Done);
    let asked = server.only();
    let sent = ["x-scope", "accept", "user-agent", "authorization"].map(|name| asked.header(name));
    assert_eq!(sent, ["ops", "text/plain", "mine", "Basic bWU6c2VjcmV0"].map(Some));
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_named_and_nothing_is_sent() {
    let secrets = Secrets::default().with("hook", &[("empty", " "), ("lines", &format!("{CANARY}\r\nX: y"))]);
    let server = Server::saying(http(200, "", "")).await;
    for (name, key, expected) in [
        ("missing", "token", "Secret missing does not exist"),
        ("forbidden", "token", "Secret forbidden may not be read"),
        ("hook", "token", "Secret hook has no key token"),
        ("hook", "empty", "key empty of Secret hook is empty"),
        ("hook", "lines", "key lines of Secret hook holds characters that a header cannot carry"),
        ("../pods/x", "token", "\"../pods/x\" is not the name of a Secret"),
    ] {
        let authorization = json!({ "secretKeyRef": { "name": name, "key": key } });
        let http = manifest(json!({ "authorization": authorization }));
        let refused = why(of(&server, &secrets, http, Call::Prepare).await);
        assert!(refused.starts_with(expected), "{refused}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_header_carries_no_second_one_and_none_that_frames_the_request() {
    let server = Server::saying(http(200, "", "")).await;
    let header = |name: &str, value: &str| json!({ "headers": [{ "name": name, "value": value }] });
    for (more, expected) in [
        (header("X-A", "b\r\nX-C: d"), "headers: the value of x-a holds characters"),
        (header("X-A", "b\0"), "headers: the value of x-a holds characters"),
        (header("X-A: b\r\nX-C", "d"), "headers: \"X-A: b X-C\" is not the name of a header"),
        (header("Host", "evil.example"), "headers: host is set by the operator itself"),
        (header("Transfer-Encoding", "chunked"), "headers: transfer-encoding is set by the operator itself"),
        (header("Content-Length", "5"), "headers: content-length is set by the operator itself"),
        (json!({ "headers": [{ "name": "X-A" }] }), "headers: x-a needs either value or secretKeyRef"),
    ] {
        let refused = why(of(&server, &Secrets::default(), manifest(more), Call::Prepare).await);
        assert!(refused.starts_with(expected), "{refused}");
    }
    let secrets = Secrets::default().with("hook", &[("token", "abc")]);
    for (kind, expected) in [
        ("Bearer x", "authorization: \"Bearer x\" is not the name of a scheme"),
        ("A\r\nX:", "authorization: \"A X:\" is not the name of a scheme"),
    ] {
        let at = json!({ "type": kind, "secretKeyRef": { "name": "hook", "key": "token" } });
        let refused =
            why(of(&server, &secrets, manifest(json!({ "authorization": at })), Call::Prepare).await);
        assert_eq!(refused, expected);
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn the_certificate_of_a_pod_is_verified_where_an_authority_is_given() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = Server::secured(ours.server("db.example", None)).await;
    let secrets =
        Secrets::default().with("ca", &[("ours", &ours.pem()), ("other", &other.pem()), ("none", "x")]);
    let ca =
        |key: &str| json!({ "caSecretKeyRef": { "name": "ca", "key": key }, "serverName": "db.example" });
    for (tls, expected) in [
        (json!({}), None),
        (json!({ "serverName": "db.example" }), None),
        (ca("ours"), None),
        (
            ca("other"),
            Some("the certificate of 127.0.0.1 is not signed by an authority of tls.caSecretKeyRef"),
        ),
        (
            json!({ "caSecretKeyRef": { "name": "ca", "key": "ours" } }),
            Some("the certificate of 127.0.0.1 is for another name"),
        ),
        (ca("none"), Some("key none of Secret ca holds no usable certificate in PEM form")),
        (ca("absent"), Some("Secret ca has no key absent")),
        (json!({ "serverName": "not a name" }), Some("tls.serverName: ")),
    ] {
        let http = manifest(json!({ "scheme": "HTTPS", "tls": tls }));
        match (of(&server, &secrets, http, Call::Prepare).await, expected) {
            (HookResult::Done, None) => {}
            (HookResult::Failed(why), Some(expected)) => assert!(why.starts_with(expected), "{why}"),
            (other, _) => panic!("{tls}: {other:?}"),
        }
    }
    let asks = Server::secured(ours.server("127.0.0.1", Some(&other))).await;
    let http = manifest(json!({ "scheme": "HTTPS" }));
    let refused = why(of(&asks, &secrets, http, Call::Prepare).await);
    assert_eq!(refused, "127.0.0.1 asks for a client certificate, which hooks do not have");
}

/// Does what its fields say.
struct Flush;

impl ScaleDown for Flush {
    async fn prepare(&self, pod: &PodTarget, context: &HookContext) -> Result<HookProgress, HookError> {
        assert_eq!((pod.ordinal, &*pod.set, pod.ip), (2, "db", "127.0.0.1".parse().ok()));
        assert_eq!((&*context.policy, context.deadline), ("policy", Duration::from_mins(80)));
        Ok(HookProgress::pending("12 of\n40"))
    }

    async fn poll(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Err(HookError::new("x".repeat(1000)))
    }

    async fn cancel(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        panic!("planted")
    }
}

impl ScaleUp for Flush {
    async fn join(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_in_code_is_called_by_its_name() {
    let hooks = Hooks::default().scale_down("flush", Flush).scale_up("wait", Flush);
    let caller = caller(&Secrets::default(), hooks);
    let named = |name: &str, call| {
        let hook = Hook {
            kind: HookKind::Named(name.into()),
            timeout: Duration::from_secs(10),
            deadline: SignedDuration::from_secs(4800),
            ..hook(&manifest(json!({})))
        };
        request(hook, call, 0)
    };
    let result_of = async |name: &str, call| called(&caller, &named(name, call)).await;
    assert_eq!(result_of("flush", Call::Prepare).await, pending("12 of 40"));
    let failure = why(result_of("flush", Call::Poll).await);
    assert_eq!(failure.chars().count(), super::MAX_MESSAGE_CHARACTERS);
    assert_eq!(result_of("flush", Call::Cancel).await, failed("the hook panicked"));
    assert_eq!(result_of("wait", Call::Join).await, failed("no answer within 10 s"));
    assert_eq!(
        result_of("flush", Call::Join).await,
        failed("this operator has no hook \"flush\" for scaleUp")
    );
    assert_eq!(
        result_of("other", Call::Prepare).await,
        failed("this operator has no hook \"other\" for scaleDown")
    );
}

/// As many as hang hold up no other policy of the namespace for longer than their time limit, and no other namespace at all.
#[tokio::test(start_paused = true)]
async fn two_hundred_hooks_that_hang_hold_up_nobody_else() {
    let caller =
        caller(&Secrets::default(), Hooks::default().scale_up("wait", Flush).scale_down("flush", Flush));
    let named = |name: &str, call, namespace: &str| {
        let hook =
            Hook { kind: HookKind::Named(name.into()), timeout: PATIENCE, ..hook(&manifest(json!({}))) };
        let mut request = request(hook, call, 0);
        request.pod.namespace = namespace.into();
        request
    };
    let mut hanging = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (caller, request) = (caller.clone(), named("wait", Call::Join, NAMESPACE));
        hanging.spawn(async move { caller.call(&"policy".into(), &request).await });
    }
    tokio::task::yield_now().await;
    let started = tokio::time::Instant::now();
    for (policy, namespace) in [("policy", "other"), ("another", NAMESPACE)] {
        let (outcome, _) = caller.call(&policy.into(), &named("flush", Call::Poll, namespace)).await;
        assert!(matches!(outcome.result, HookResult::Failed(_)));
        assert_eq!(started.elapsed(), Duration::ZERO, "{policy} in {namespace}");
    }
    while let Some(ended) = hanging.join_next().await {
        assert_eq!(ended.unwrap().0.result, failed("no answer within 60 s"));
    }
}
