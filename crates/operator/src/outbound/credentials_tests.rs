use serde_json::{Value, json};
use sts_plus_planner::phased_rollout::answer::{Answer, QueryError};

use super::{CredentialError, MAX_HEADERS, headers};
use crate::outbound::secrets::{Hidden, Reader};
use crate::outbound::test_server::{Asked, EMPTY, NAMESPACE, Play, Secrets, Server, http, question};

const CANARY: &str = "canary-7f3a/+\"x";

/// Asks with these Secrets and returns what the server saw.
async fn seen(secrets: &Secrets, query: Value) -> Asked {
    let server = Server::saying(http(200, "", EMPTY)).await;
    let response = secrets.client().ask_now(&question(server.address.to_string(), query)).await;
    response.answer.unwrap();
    server.only()
}

/// Asks with these Secrets and returns why that cannot be; the server must not have been asked.
async fn refused(secrets: &Secrets, query: Value) -> QueryError {
    let server = Server::saying(http(200, "", EMPTY)).await;
    let response = secrets.client().ask_now(&question(server.address.to_string(), query)).await;
    assert!(server.asked().is_empty());
    let shown = format!("{response:?}");
    assert!(!shown.contains("canary"), "{shown}");
    response.answer.unwrap_err()
}

async fn needs_a_change(secrets: &Secrets, query: Value) -> String {
    match refused(secrets, query).await {
        QueryError::Config(message) => message,
        other => panic!("{other:?}"),
    }
}

fn auth(keys: &[(&str, &str)]) -> Secrets {
    Secrets::default().with("auth", keys)
}

#[tokio::test]
async fn a_secret_becomes_the_authorization() {
    for (keys, expected) in [
        (&[("token", "abc")][..], Some("Bearer abc")),
        (&[("token", "abc\n")], Some("Bearer abc")),
        (&[("token", " \tabc\r\n\n")], Some("Bearer abc")),
        (&[("username", "me"), ("password", "secret")], Some("Basic bWU6c2VjcmV0")),
        (&[("username", "me\n"), ("password", "secret\n")], Some("Basic bWU6c2VjcmV0")),
        (&[("username", "me"), ("password", "a:b")], Some("Basic bWU6YTpi")),
        (&[("username", "me"), ("password", "")], Some("Basic bWU6")),
        (&[("username", "mé"), ("password", "x")], Some("Basic bcOpOng=")),
        (&[], None),
        (&[("other", "key")], None),
    ] {
        let asked = seen(&auth(keys), json!({ "secretRef": "auth" })).await;
        assert_eq!(asked.header("authorization"), expected, "{keys:?}");
    }
}

#[tokio::test]
async fn a_secret_without_data_is_no_authorization() {
    let secrets = Secrets::default();
    secrets.set_raw("auth", json!({ "kind": "Secret" }));
    assert_eq!(seen(&secrets, json!({ "secretRef": "auth" })).await.header("authorization"), None);
}

#[tokio::test]
async fn credentials_that_cannot_be_used_need_a_change() {
    for (keys, expected) in [
        (
            &[("token", "canary"), ("username", "canary"), ("password", "canary")][..],
            "Secret auth holds both token and username or password: keep one of the two",
        ),
        (
            &[("token", "canary"), ("password", "canary")],
            "Secret auth holds both token and username or password: keep one of the two",
        ),
        (&[("username", "canary")], "Secret auth holds username but no password"),
        (&[("password", "canary")], "Secret auth holds password but no username"),
        (&[("token", " \n")], "key token of Secret auth is empty"),
        (
            &[("username", "can:ary"), ("password", "canary")],
            "key username of Secret auth holds a colon, which basic authentication cannot express",
        ),
        (
            &[("token", "canary\nX: y")],
            "key token of Secret auth holds characters that a header cannot carry",
        ),
        (&[("token", "canary-é")], "key token of Secret auth holds characters that a header cannot carry"),
    ] {
        assert_eq!(needs_a_change(&auth(keys), json!({ "secretRef": "auth" })).await, expected, "{keys:?}");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_text_needs_a_change() {
    for data in ["canary!", "/+canary", "wyg="] {
        let secrets = Secrets::default();
        secrets.set_raw("auth", json!({ "data": { "token": data } }));
        let message = needs_a_change(&secrets, json!({ "secretRef": "auth" })).await;
        assert_eq!(message, "key token of Secret auth is not text", "{data}");
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_named() {
    let secrets = Secrets::default();
    let missing = needs_a_change(&secrets, json!({ "secretRef": "absent" })).await;
    assert_eq!(missing, "Secret absent does not exist");
    let forbidden = needs_a_change(&secrets, json!({ "secretRef": "forbidden" })).await;
    assert_eq!(
        forbidden,
        "Secret forbidden may not be read: the chart's secrets.namespaces has to name the namespace shop for the \
         operator to get permission"
    );
    for name in ["", "..", ".", "../pods", "a/b", "A"] {
        let message = needs_a_change(&secrets, json!({ "secretRef": name })).await;
        assert_eq!(message, format!("{name:?} is not the name of a Secret"));
    }
    let unanswered = refused(&secrets, json!({ "secretRef": "unanswered" })).await;
    let QueryError::Failed(message) = unanswered else { panic!("{unanswered:?}") };
    assert!(message.starts_with("Secret unanswered could not be read: "), "{message}");
}

#[tokio::test]
async fn a_secret_that_appears_or_changes_is_used_with_the_next_question() {
    let server = Server::saying(http(200, "", EMPTY)).await;
    let secrets = Secrets::default();
    let (client, asked) =
        (secrets.client(), question(server.address.to_string(), json!({ "secretRef": "auth" })));
    assert!(client.ask_now(&asked).await.answer.is_err());
    for token in ["first", "second"] {
        secrets.set("auth", &[("token", token)]);
        client.ask_now(&asked).await.answer.unwrap();
        let last = server.asked().pop().unwrap();
        assert_eq!(last.header("authorization"), Some(format!("Bearer {token}").as_str()));
    }
}

#[tokio::test]
async fn headers_go_along() {
    let secrets = Secrets::default().with("org", &[("id", "team-a\n")]);
    let asked = seen(
        &secrets,
        json!({ "headers": [
            { "name": "X-Scope-OrgID", "secretKeyRef": { "name": "org", "key": "id" } },
            { "name": "x-plain", "value": " some value " },
            { "name": "User-Agent", "value": "me" },
            { "name": "Authorization", "value": "ApiKey abc" },
        ] }),
    )
    .await;
    assert_eq!(asked.header("x-scope-orgid"), Some("team-a"));
    assert_eq!(asked.header("x-plain"), Some("some value"));
    assert_eq!(asked.header("authorization"), Some("ApiKey abc"));
    let agents: Vec<_> = asked.headers.iter().filter(|(name, _)| name == "user-agent").collect();
    assert_eq!(agents, [&("user-agent".to_owned(), "me".to_owned())]);
}

#[tokio::test]
async fn headers_that_cannot_be_sent_need_a_change() {
    let secrets = Secrets::default().with("auth", &[("token", "canary"), ("bad", "canary\u{1}x")]);
    let key = |key: &str| json!({ "name": "auth", "key": key });
    for (header, expected) in [
        (json!({ "name": "bad name", "value": "x" }), "headers: \"bad name\" is not the name of a header"),
        (json!({ "name": "Host", "value": "x" }), "headers: host is set by the operator itself"),
        (
            json!({ "name": "Content-Length", "value": "1" }),
            "headers: content-length is set by the operator itself",
        ),
        (json!({ "name": "X" }), "headers: x needs either value or secretKeyRef"),
        (
            json!({ "name": "X", "value": "x", "secretKeyRef": key("token") }),
            "headers: x needs either value or secretKeyRef",
        ),
        (json!({ "name": "X", "secretKeyRef": key("none") }), "Secret auth has no key none"),
        (
            json!({ "name": "X", "value": "a\r\nY: b" }),
            "headers: the value of x holds characters that a header cannot carry",
        ),
        (
            json!({ "name": "X", "secretKeyRef": key("bad") }),
            "key bad of Secret auth holds characters that a header cannot carry",
        ),
        (
            json!({ "name": "authorization", "value": "x" }),
            "headers: authorization is given although secretRef gives it already",
        ),
    ] {
        let query = json!({ "secretRef": "auth", "headers": [header] });
        assert_eq!(needs_a_change(&secrets, query.clone()).await, expected, "{query}");
    }
    let many = vec![json!({ "name": "X", "value": "x" }); MAX_HEADERS + 1];
    let message = needs_a_change(&secrets, json!({ "headers": many })).await;
    assert_eq!(message, CredentialError::TooMany(MAX_HEADERS + 1).to_string());
}

#[tokio::test]
async fn what_was_read_is_not_shown_by_what_holds_it() {
    let secrets = Secrets::default().with("auth", &[("token", CANARY), ("key", "canary-key")]);
    let api = secrets.api();
    let (mut reader, mut hidden) = (Reader::new(&api, NAMESPACE), Hidden::default());
    let asked = question(
        "prom",
        json!({ "secretRef": "auth",
        "headers": [{ "name": "X-Key", "secretKeyRef": { "name": "auth", "key": "key" } }] }),
    );
    let headers = headers(&asked.question.query, &mut reader, &mut hidden).await.unwrap();
    assert_eq!(headers["authorization"], format!("Bearer {CANARY}"));
    let shown = format!("{headers:?} {reader:?} {hidden:?}");
    for leak in ["canary", "7f3a", "Y2FuYXJ5"] {
        assert!(!shown.contains(leak), "{shown}");
    }
}

/// A server that repeats all that it was told, in every place that reaches a message.
#[tokio::test]
async fn no_secret_comes_back_from_a_server_that_repeats_it() {
    let basic = [("username", "canary-user"), ("password", CANARY)];
    let secrets = Secrets::default().with("token", &[("token", CANARY)]).with("basic", &basic);
    secrets.set("extra", &[("key", "canary-key")]);
    for code in [200, 204, 301, 400, 401, 403, 404, 422, 500, 503] {
        for style in ["envelope", "success", "text"] {
            for secret in ["token", "basic"] {
                let server = Server::start(move |asked| echo(asked, code, style)).await;
                let query = json!({ "secretRef": secret,
                    "headers": [{ "name": "X-Key", "secretKeyRef": { "name": "extra", "key": "key" } }] });
                let client = secrets.client();
                let response = client.ask_now(&question(server.address.to_string(), query)).await;
                assert!(format!("{:?}", server.only()).contains("canary"), "the server must get it");
                let shown = format!("{response:?} {client:?}");
                for leak in ["canary", "7f3a", "Y2FuYXJ5"] {
                    assert!(!shown.contains(leak), "{code} {style} {secret}: {shown}");
                }
                if (code == 400) == (style != "success") && matches!(code, 200 | 400) {
                    assert!(shown.contains("***"), "it was repeated: {shown}");
                }
            }
        }
    }
}

fn echo(asked: &Asked, code: u16, style: &str) -> Play {
    let told: Vec<_> = asked.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let basic = asked.header("authorization").is_some_and(|value| value.starts_with("Basic "));
    let decoded = if basic { "canary-user" } else { "" };
    let told = format!("{} {CANARY} {decoded}", told.join(" "));
    let location = format!("Location: http://other/{}\r\n", told.replace(' ', "/"));
    let body = match style {
        "envelope" => json!({ "status": "error", "errorType": told, "error": told }).to_string(),
        "success" => json!({ "status": "success", "warnings": [told], "infos": [told],
            "data": { "resultType": "string", "result": [1, told] } })
        .to_string(),
        _ => told,
    };
    http(code, &location, if code == 204 { "" } else { &body })
}

/// A user name that stands in the query anyway is left readable in messages.
#[tokio::test]
async fn what_the_query_shows_is_not_hidden() {
    let secrets = auth(&[("username", "127.0.0.1"), ("password", "canary")]);
    let server = Server::saying(http(404, "", "")).await;
    let asked = question(server.address.to_string(), json!({ "secretRef": "auth" }));
    let answer: Result<Answer, _> = secrets.client().ask_now(&asked).await.answer;
    let expected = format!("there is no Prometheus API at http://{} (404)", server.address);
    assert_eq!(answer, Err(QueryError::Config(expected)));
}
