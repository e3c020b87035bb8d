use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sts_plus_api::phased_rollout::GateStatus;
use sts_plus_planner::phased_rollout::Stretch;
use tokio::time::{Instant, advance};

use super::Stretches;

const CARRIED: SignedDuration = SignedDuration::from_millis(250);

fn gate() -> GateStatus {
    let gate = json!({
        "status": "WaitForChecks", "partition": 1, "replicas": 3, "startTime": "2026-01-01T00:00:00Z",
        "consecutiveSuccessfulChecks": 0, "consecutiveFailedChecks": 0, "totalFailedChecks": 0,
    });
    serde_json::from_value(gate).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stretch_goes_on_from_what_was_carried_over_and_ends_with_its_term() {
    let mut stretches = Stretches::default();
    let (term, next) = (1, 2);
    assert_eq!(stretches.open(term, Instant::now()), None);
    let kept = Stretch::of(&gate(), CARRIED);
    stretches.keep(term, Some(kept), Instant::now());
    advance(Duration::from_secs(3)).await;
    let later = kept.after(SignedDuration::from_secs(3));
    assert_eq!(stretches.open(term, Instant::now()), Some(later));
    assert_eq!(stretches.open(next, Instant::now()), None, "another term");
    stretches.keep(term, None, Instant::now());
    assert_eq!(stretches.open(term, Instant::now()), None, "no time runs");
}
