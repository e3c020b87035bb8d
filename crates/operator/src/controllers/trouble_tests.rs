use std::time::Duration;

use tokio::time::Instant;

use super::{LANE_FREE_TIMES, Trouble};
use crate::shell::api::{ApiError, CALL_TIMEOUT};

const SOON: Duration = Duration::from_millis(50);

fn refused() -> ApiError {
    ApiError::Refused { code: 500, message: "failed calling webhook \"guard.example.com\": no".to_owned() }
}

fn unanswered() -> ApiError {
    ApiError::Unanswered("nothing came within 5 s".to_owned())
}

impl Trouble {
    fn meets(&mut self, error: &ApiError) -> bool {
        self.failed(error, (Instant::now(), Duration::ZERO), |_| SOON).is_some()
    }
}

#[test]
fn a_refusal_is_reported_once_whatever_failed_before_it() {
    let mut trouble = Trouble::default();
    assert!(!trouble.meets(&unanswered()), "an API server that restarts");
    assert!(trouble.meets(&refused()));
    for error in [refused(), unanswered(), refused()] {
        assert!(!trouble.meets(&error), "{error}");
    }
    assert!(Trouble::default().meets(&refused()), "a success in between makes it news again");
}

#[test]
fn what_is_never_answered_is_reported_at_the_third_attempt() {
    let mut trouble = Trouble::default();
    let reported: Vec<_> = (0..5).map(|_| trouble.meets(&unanswered())).collect();
    assert_eq!(reported, [false, false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_has_held_the_lane_is_not_repeated_soon_and_one_that_has_not_is() {
    for (held, wait) in [(Duration::ZERO, SOON), (CALL_TIMEOUT, CALL_TIMEOUT * LANE_FREE_TIMES)] {
        let mut trouble = Trouble::default();
        trouble.failed(&unanswered(), (Instant::now(), held), |_| SOON);
        assert_eq!(trouble.retry_at(Instant::now()), Some(Instant::now() + wait));
        tokio::time::advance(wait).await;
        assert_eq!(trouble.retry_at(Instant::now()), None, "now");
    }
}
