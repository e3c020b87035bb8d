use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use super::Unobserved;
use crate::shell::api::Kind;
use crate::shell::cache::Store;
use crate::shell::surroundings::{Clock, ClockStep};

fn set(generation: i64, observed: i64) -> Arc<SetRow> {
    let store = Store::default();
    let set = json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "uid-web", "generation": generation, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": {} },
        "status": { "observedGeneration": observed, "currentRevision": "new", "updateRevision": "new" }
    });
    store.upsert(Kind::StatefulSet, &set.to_string());
    store.set(&"ns".into(), &"web".into()).expect("there")
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_in_between_changes_nothing_of_how_long_a_spec_is_unobserved() {
    for by in [SignedDuration::from_hours(-1), SignedDuration::from_hours(1)] {
        let step = ClockStep { at: Instant::now() + Duration::from_secs(1), by };
        let clock = Clock::at(Timestamp::from_second(1_800_000_000).unwrap()).with_steps([step]);
        let mut unobserved = Unobserved::default();
        let mut elapsed = |set: &SetRow| {
            let now = clock.now();
            Some(now.duration_since(unobserved.since(set, (now, Instant::now()))?))
        };
        assert_eq!(elapsed(&set(2, 1)), Some(SignedDuration::ZERO));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(elapsed(&set(2, 1)), Some(SignedDuration::from_secs(11)), "{by:?}");
        assert_eq!(elapsed(&set(3, 1)), Some(SignedDuration::ZERO), "another spec");
        assert_eq!(elapsed(&set(3, 3)), None);
    }
}
