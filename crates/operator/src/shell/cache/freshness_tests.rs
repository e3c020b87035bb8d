use std::time::Duration;

use tokio::time::advance;

use super::{Freshness, SILENCE_LIMIT};
use crate::shell::api::Kind;

const READS: [Kind; 2] = [Kind::StatefulSet, Kind::Pod];
const SETS: usize = 0;
const PODS: usize = 1;

fn listed() -> Freshness {
    let freshness = Freshness::new(&[(Kind::StatefulSet, &None), (Kind::Pod, &None)]);
    assert!(
        freshness.complete(SETS) && freshness.complete(PODS),
        "nothing is confirmed before its first list"
    );
    freshness
}

fn doubted(freshness: &Freshness) -> bool {
    freshness.doubt(&READS, "ns").is_some()
}

#[tokio::test(start_paused = true)]
async fn a_source_is_confirmed_by_its_list_and_by_what_comes_after_it() {
    let freshness = listed();
    assert!(!doubted(&freshness));
    for _ in 0..10 {
        advance(Duration::from_mins(1)).await;
        assert!(!freshness.complete(SETS), "a bookmark of a confirmed source changes nothing");
        freshness.event(PODS);
        assert!(!doubted(&freshness));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_source_is_unconfirmed_until_a_bookmark_comes() {
    let freshness = listed();
    advance(SILENCE_LIMIT).await;
    assert!(!doubted(&freshness));
    advance(Duration::from_millis(1)).await;
    let doubt = freshness.doubt(&[Kind::Pod], "ns").unwrap();
    assert!(!doubt.failing && doubt.why.contains("silent"), "{doubt:?}");
    freshness.event(PODS);
    assert!(doubted(&freshness), "an event does not say how many are to follow");
    assert!(freshness.complete(PODS), "it was unconfirmed");
    assert_eq!(freshness.doubt(&[Kind::Pod], "ns"), None);
    assert_eq!(freshness.unconfirmed(), [("pods", 0), ("statefulsets", 1)].into());
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_an_answered_watch_must_catch_up_first() {
    let freshness = listed();
    freshness.failed(PODS, "cannot follow pods: forbidden".to_owned());
    let doubt = freshness.doubt(&READS, "ns").unwrap();
    assert!(doubt.failing && doubt.why.contains("forbidden"), "{doubt:?}");
    freshness.opened(PODS);
    freshness.event(PODS);
    assert!(freshness.doubt(&READS, "ns").is_some_and(|doubt| !doubt.failing));
    assert!(freshness.complete(PODS));
    assert!(!doubted(&freshness));
}

#[tokio::test(start_paused = true)]
async fn only_what_a_decision_reads_matters() {
    let (one, other) = (Some("one".to_owned()), Some("other".to_owned()));
    let freshness = Freshness::new(&[(Kind::Pod, &one), (Kind::Pod, &other), (Kind::Claim, &one)]);
    freshness.complete(0);
    assert_eq!(freshness.doubt(&READS, "one"), None);
    assert!(freshness.doubt(&READS, "other").is_some());
    assert!(freshness.doubt(&[Kind::Claim], "one").is_some());
    assert_eq!(freshness.unconfirmed(), [("persistentvolumeclaims", 1), ("pods", 1)].into());
}
