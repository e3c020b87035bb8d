use std::time::Duration;

use tokio::net::TcpStream;

use super::*;
use crate::{
    loopback::send,
    wait::{NotYet, until},
};

async fn scrape(target: &Target, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let answer = send(target.address(), request).await.unwrap();
    (answer.status().as_u16(), String::from_utf8(answer.into_body().to_vec()).unwrap())
}

#[tokio::test]
async fn gauges_come_and_go_and_scrapes_are_counted() {
    let target = Target::start().await.unwrap();
    target.set("app_errors", &[("pod", "web-0"), ("zone", "a")], 1.0);
    target.set("app_errors", &[("pod", "web-1")], 0.5);
    target.set("app_errors", &[("pod", "web-1")], 2.5);
    target.set("other", &[], -3.0);
    let all = "# TYPE app_errors gauge\napp_errors{pod=\"web-0\",zone=\"a\"} 1\napp_errors{pod=\"web-1\"} 2.5\n\
               # TYPE other gauge\nother{} -3\n";
    assert_eq!(scrape(&target, "/metrics").await, (200, all.to_owned()));

    target.clear("app_errors");
    assert_eq!(scrape(&target, "/metrics").await.1, "# TYPE other gauge\nother{} -3\n");
    assert_eq!(scrape(&target, "/").await.0, 404);
    assert_eq!(target.scrapes(), 2);
}

#[tokio::test]
async fn a_dropped_target_answers_nobody() {
    let target = Target::start().await.unwrap();
    let address = target.address();
    drop(target);
    until(Duration::from_secs(30), "the listener to be gone", || async {
        if TcpStream::connect(address).await.is_err() { Ok(()) } else { Err(NotYet::saw("a connection")) }
    })
    .await;
}

#[test]
fn a_label_may_hold_anything() {
    assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
}
