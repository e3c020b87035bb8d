use std::time::Duration;

use super::*;

fn leading(epoch: u64, ends_in: u64) -> LeaseState {
    let ends_at = Some(Instant::now() + Duration::from_secs(ends_in));
    LeaseState { decided: true, leading: Some(Leading { epoch: Epoch(epoch), ends_at }) }
}

#[tokio::test(start_paused = true)]
async fn leading_ends_with_the_clock_alone() {
    let (_standing, receiver) = watch::channel(leading(3, 10));
    let leadership = Leadership::new(receiver, watch::channel(false).1, watch::channel(false).0);
    assert_eq!(leadership.current(), Some(Epoch(3)));
    assert!(leadership.permits(Epoch(3)) && !leadership.permits(Epoch(2)) && !leadership.permits(Epoch(4)));
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!(leadership.current(), Some(Epoch(3)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(leadership.current(), None);
    assert!(!leadership.permits(Epoch(3)));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_leading_at_once_and_is_a_change() {
    let (_standing, receiver) = watch::channel(leading(3, 10));
    let (stop, stopped) = watch::channel(false);
    let mut leadership = Leadership::new(receiver, stopped, watch::channel(false).0);
    stop.send_replace(true);
    assert_eq!(leadership.current(), None);
    let told = tokio::time::timeout(Duration::from_secs(1), leadership.changed()).await;
    assert!(told.is_ok(), "nobody was told");
}

#[tokio::test(start_paused = true)]
async fn without_an_election_it_leads_until_it_resigns() {
    let mut leadership = Leadership::always();
    leadership.decided().await;
    tokio::time::advance(Duration::from_hours(1_000)).await;
    assert_eq!(leadership.current(), Some(Epoch(1)));
    let silent = tokio::time::timeout(Duration::from_hours(1), leadership.changed()).await;
    assert!(silent.is_err(), "nothing can change");
    leadership.clone().resign();
    assert_eq!(leadership.current(), None);
}
