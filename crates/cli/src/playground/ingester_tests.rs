use super::*;

const SHUTDOWN: &str = "/ingester/shutdown";
const STATUS: &str = "/ingester/status";

fn ingesters(lasts: Duration) -> Ingesters {
    Ingesters { flushes: Mutex::default(), lasts }
}

fn asked(ingesters: &Ingesters, method: &Method, path: &str, is_available: bool) -> (u16, String) {
    let answer = ingesters.answer("uid", method, path, is_available);
    (answer.status().as_u16(), String::from_utf8(answer.into_body().to_vec()).unwrap())
}

#[test]
fn a_flush_begins_once_shows_how_far_it_is_and_is_taken_back() {
    let slow = ingesters(Duration::from_hours(1));
    assert_eq!(asked(&slow, &Method::GET, STATUS, true).1, r#"{"state":"serving"}"#);
    assert_eq!(asked(&slow, &Method::POST, SHUTDOWN, true).0, 202);
    let begun = slow.flushes.lock()["uid"];
    assert_eq!(asked(&slow, &Method::POST, SHUTDOWN, true).0, 202);
    assert_eq!(slow.flushes.lock()["uid"], begun, "a second call does not begin it anew");
    let (code, words) = asked(&slow, &Method::GET, STATUS, true);
    assert_eq!((code, &*words), (200, r#"{"state":"flushing, 40 of 40 chunks are left"}"#));
    assert_eq!(asked(&slow, &Method::DELETE, SHUTDOWN, true).0, 204);
    assert_eq!(asked(&slow, &Method::GET, STATUS, true).1, r#"{"state":"serving"}"#);
    assert_eq!(slow.left(Duration::from_mins(45)), 10);
}

#[test]
fn without_its_storage_nothing_is_flushed_and_what_is_flushed_stays_so() {
    let done = ingesters(Duration::ZERO);
    let refused = (503, "the object storage is unavailable".to_owned());
    assert_eq!(asked(&done, &Method::POST, SHUTDOWN, false), refused);
    assert_eq!(asked(&done, &Method::GET, STATUS, false).1, r#"{"state":"serving"}"#);
    asked(&done, &Method::POST, SHUTDOWN, true);
    assert_eq!(asked(&done, &Method::GET, STATUS, false).1, r#"{"state":"flushed"}"#);
    let slow = ingesters(Duration::from_hours(1));
    asked(&slow, &Method::POST, SHUTDOWN, true);
    assert_eq!(asked(&slow, &Method::GET, STATUS, false), refused);
}
