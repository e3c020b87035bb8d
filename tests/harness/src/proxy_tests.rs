use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::{
    Target,
    wait::{NotYet, until},
};

/// What is awaited takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

async fn get(proxy: &AuthProxy, credential: Option<&Credential>) -> (u16, String) {
    let mut request = Request::get("/metrics?query=up%7B%7D").header("x-scope", "tenant");
    if let Some(credential) = credential {
        request = request.header(AUTHORIZATION, credential.header());
    }
    let answer = send(proxy.address(), request.body(Bytes::new()).unwrap()).await.unwrap();
    (answer.status().as_u16(), String::from_utf8(answer.into_body().to_vec()).unwrap())
}

async fn target() -> Target {
    let target = Target::start().await.unwrap();
    target.set("up", &[], 1.0);
    target
}

#[tokio::test]
async fn only_the_credential_of_the_moment_passes() {
    let target = target().await;
    let (token, basic) = (Credential::bearer("s3cret"), Credential::basic("u", "s3cret"));
    assert_eq!(basic.header(), "Basic dTpzM2NyZXQ=");
    let proxy = AuthProxy::start(target.address(), Some(token.clone())).await.unwrap();

    assert_eq!(get(&proxy, None).await, (401, "Unauthorized\n".to_owned()));
    assert_eq!(get(&proxy, Some(&basic)).await.0, 401);
    assert_eq!(target.scrapes(), 0);
    assert_eq!(get(&proxy, Some(&token)).await, (200, "# TYPE up gauge\nup{} 1\n".to_owned()));
    proxy.require(Some(basic.clone()));
    assert_eq!(get(&proxy, Some(&token)).await.0, 401);
    assert_eq!(get(&proxy, Some(&basic)).await.0, 200);
    proxy.require(None);
    assert_eq!(get(&proxy, None).await.0, 200);

    let calls = proxy.calls();
    let authorised: Vec<_> = calls.iter().map(|call| call.authorised).collect();
    assert_eq!(authorised, [false, false, true, false, true, true]);
    let call = &calls[2];
    assert_eq!((call.index, &call.method, &*call.path), (2, &Method::GET, "/metrics"));
    assert_eq!(call.query, [("query".to_owned(), "up{}".to_owned())]);
    assert_eq!(call.headers["x-scope"], "tenant");
    let recorded = format!("{calls:?} {token:?} {basic:?}");
    assert!(!recorded.contains("s3cret") && !recorded.contains("dTpzM2NyZXQ"), "{recorded}");
}

#[tokio::test]
async fn a_plan_decides_what_becomes_of_a_call() {
    let target = target().await;
    let proxy = AuthProxy::start(target.address(), None).await.unwrap();
    proxy.conduct(|call| match call.index {
        0 => Conduct::answer(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"error"}"#),
        1 => Conduct::Delay(Duration::from_millis(1)),
        _ => Conduct::Hang,
    });
    assert_eq!(get(&proxy, None).await, (503, r#"{"status":"error"}"#.to_owned()));
    assert_eq!(target.scrapes(), 0);
    assert_eq!(get(&proxy, None).await.0, 200);
    assert_eq!(target.scrapes(), 1);

    let hanging = get(&proxy, None);
    let seen = until(DEADLINE, "the hanging call to arrive", || async {
        if proxy.calls().len() == 3 { Ok(()) } else { Err(NotYet::saw(proxy.calls())) }
    });
    tokio::select! {
        answer = hanging => panic!("answered with {answer:?}"),
        () = seen => {}
    }

    proxy.conduct(|_| Conduct::Forward);
    drop(target);
    until(DEADLINE, "an absent upstream to be reported", || async {
        let answer = get(&proxy, None).await;
        if answer.0 == 502 { Ok(()) } else { Err(NotYet::saw(answer)) }
    })
    .await;
}

#[tokio::test]
async fn a_black_hole_counts_whom_it_swallows() {
    let hole = BlackHole::start().await.unwrap();
    assert_eq!(hole.accepted(), 0);
    let address = hole.address();
    let ask = || send(address, Request::get("/").body(Bytes::new()).unwrap());
    let both = async { tokio::join!(ask(), ask()) };
    let counted = until(DEADLINE, "both to be accepted", || async {
        if hole.accepted() == 2 { Ok(()) } else { Err(NotYet::saw(hole.accepted())) }
    });
    let mut both = std::pin::pin!(both);
    tokio::select! {
        answers = &mut both => panic!("answered with {answers:?}"),
        () = counted => {}
    }
    drop(hole);
    let (one, two) = timeout(DEADLINE, both).await.expect("what the hole held is let go with it");
    assert!(one.is_err() && two.is_err(), "{one:?} {two:?}");
}
