use std::{io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{task::JoinSet, time::timeout};

use super::{Memory, Network};
use crate::{AuthProxy, BlackHole, proxy::Conduct};

async fn ask(memory: &Memory, address: SocketAddr) -> Option<(StatusCode, Bytes)> {
    let stream = memory.connect(address).unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::builder()
        .method(Method::POST)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Full::new(Bytes::from_static(b"query=up")))
        .unwrap();
    let (head, body) = sender.send_request(request).await.ok()?.into_parts();
    Some((head.status, body.collect().await.ok()?.to_bytes()))
}

#[tokio::test(start_paused = true)]
async fn servers_in_memory_have_addresses_of_their_own_and_are_gone_when_dropped() {
    let memory = Memory::default();
    let network = Network::Memory(memory.clone());
    let nobody = ([127, 0, 0, 1], 9).into();
    let one = AuthProxy::start_on(&network, nobody, None).await.unwrap();
    let two = AuthProxy::start_on(&network, nobody, None).await.unwrap();
    assert_ne!(one.address(), two.address());
    one.conduct(|call| {
        Conduct::answer(StatusCode::OK, call.parameter("query").unwrap_or_default().to_owned())
    });
    two.conduct(|_| Conduct::answer(StatusCode::NOT_FOUND, ""));
    assert_eq!(ask(&memory, one.address()).await, Some((StatusCode::OK, Bytes::from_static(b"up"))));
    assert_eq!(ask(&memory, two.address()).await.map(|answer| answer.0), Some(StatusCode::NOT_FOUND));

    let address = one.address();
    drop(one);
    tokio::task::yield_now().await;
    let refused = memory.connect(address).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let elsewhere = SocketAddr::from(([10, 0, 0, 1], two.address().port()));
    assert_eq!(memory.connect(elsewhere).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn a_hole_in_memory_takes_connections_and_says_nothing() {
    let memory = Memory::default();
    let hole = BlackHole::start_on(&Network::Memory(memory.clone())).await.unwrap();
    let silence = timeout(Duration::from_mins(10), ask(&memory, hole.address())).await;
    assert!(silence.is_err());
    assert_eq!(hole.accepted(), 1);
}
