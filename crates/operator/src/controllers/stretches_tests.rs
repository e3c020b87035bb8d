use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::{Instant, advance};

use super::Stretches;

const CARRIED: SignedDuration = SignedDuration::from_millis(250);

#[tokio::test(start_paused = true)]
async fn a_stretch_goes_on_from_what_was_carried_over_and_ends_with_its_term() {
    let stretches = Stretches::default();
    let (term, next) = (1, 2);
    assert_eq!(stretches.open(&"web", term, Instant::now()), None);
    stretches.keep(&"web", term, Some(CARRIED), Instant::now());
    advance(Duration::from_secs(3)).await;
    assert_eq!(stretches.open(&"web", term, Instant::now()), Some(SignedDuration::from_millis(3250)));
    assert_eq!(stretches.open(&"web", next, Instant::now()), None, "another term");
    assert_eq!(stretches.open(&"other", term, Instant::now()), None);
    stretches.keep(&"web", term, None, Instant::now());
    assert_eq!(stretches.open(&"web", term, Instant::now()), None, "no time runs");
}
