use std::{cell::Cell, io};

use super::*;

const DEADLINE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn looks_again_until_the_condition_holds() {
    let looks = Cell::new(0_u32);
    let value = until(DEADLINE, "the third look", || async {
        looks.set(looks.get() + 1);
        if looks.get() < 3 { Err(NotYet::saw(looks.get())) } else { Ok("there") }
    })
    .await;
    assert_eq!((value, looks.get()), ("there", 3));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_says_what_was_awaited_and_what_was_seen_last() {
    let refused = || async { Ok(Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused))?) };
    let error = try_until(DEADLINE, "an answer", refused).await.unwrap_err();
    assert_eq!(error.to_string(), "waited 5s for an answer; last seen: error: connection refused");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_is_bounded_too() {
    let error = try_until(DEADLINE, "an answer", std::future::pending::<Result<(), _>>).await.unwrap_err();
    assert!(error.to_string().contains("the first look did not end"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_not_stable() {
    let looks = Cell::new(0_u32);
    let settles_at = |last: u32| {
        let looks = &looks;
        move || async move {
            looks.set(last.min(looks.get() + 1));
            Ok(looks.get())
        }
    };
    let quiet = Duration::from_secs(1);
    assert_eq!(try_until_stable(DEADLINE, quiet, "rest", settles_at(5)).await.unwrap(), 5);
    let error = try_until_stable(DEADLINE, quiet, "rest", settles_at(1000)).await.unwrap_err();
    assert_eq!(error.to_string(), "waited 5s for rest; last seen: \"it still changes\"");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "wait_tests.rs")]
async fn the_panic_names_the_line_that_waits() {
    until(DEADLINE, "nothing", || async { Err::<(), _>(NotYet::saw("nothing")) }).await;
}
