use std::time::Duration;

use tokio::time::Instant;

use super::{Outcome, Queue};

/// Far longer than any wait of the queue; on a paused clock it costs nothing.
const LONG: Duration = Duration::from_hours(1);

async fn next(queue: &Queue<&'static str>) -> Option<&'static str> {
    tokio::time::timeout(LONG, queue.next()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_handed_out_once_however_often_it_is_added() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.depth(), 2);
    assert_eq!(next(&queue).await, Some("a"));
    assert_eq!(next(&queue).await, Some("b"));
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_touched_while_it_runs_runs_again_and_never_twice_at_once() {
    let queue = Queue::default();
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    queue.add("a");
    assert_eq!(queue.depth(), 0, "it is running");
    queue.done(&"a", Outcome::Settled);
    assert_eq!(next(&queue).await, Some("a"));
    queue.done(&"a", Outcome::Settled);
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_waits_longer_each_time_up_to_a_cap_even_if_touched() {
    let queue = Queue::default();
    queue.add("a");
    let mut waits = Vec::new();
    for _ in 0..14 {
        assert_eq!(next(&queue).await, Some("a"));
        let failed_at = Instant::now();
        queue.done(&"a", Outcome::Failed);
        queue.add("a");
        assert_eq!(queue.depth(), 0, "a touch does not shorten the back-off");
        tokio::task::yield_now().await;
        let key = next(&queue).await;
        assert_eq!(key, Some("a"));
        waits.push(failed_at.elapsed());
        queue.done(&"a", Outcome::Failed);
    }
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(31)), "{waits:?}");
    assert!(waits.last() > waits.first(), "{waits:?}");
    assert!(waits.last() >= Some(&Duration::from_secs(15)), "at the cap: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn success_forgets_the_failures() {
    let queue = Queue::default();
    queue.add("a");
    for _ in 0..8 {
        next(&queue).await;
        queue.done(&"a", Outcome::Failed);
    }
    next(&queue).await;
    queue.done(&"a", Outcome::Settled);
    queue.add("a");
    next(&queue).await;
    let failed_at = Instant::now();
    queue.done(&"a", Outcome::Failed);
    next(&queue).await;
    assert!(failed_at.elapsed() <= Duration::from_millis(60));
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_comes_at_its_time_and_a_touch_comes_before_it() {
    let queue = Queue::default();
    queue.add("a");
    next(&queue).await;
    let at = Instant::now() + Duration::from_secs(7);
    queue.done(&"a", Outcome::WakeAt(at));
    assert_eq!(next(&queue).await, Some("a"));
    assert!(Instant::now() >= at);

    let later = Instant::now() + Duration::from_secs(7);
    queue.done(&"a", Outcome::WakeAt(later));
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    assert!(Instant::now() < later, "a touch is not held back by a wake-up");
    queue.done(&"a", Outcome::Settled);
    assert_eq!(next(&queue).await, None, "the old wake-up went with it");
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_delay_is_obeyed() {
    let queue = Queue::default();
    queue.add("a");
    next(&queue).await;
    let asked_at = Instant::now();
    queue.done(&"a", Outcome::ComeBack(Duration::from_secs(9)));
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    assert!(asked_at.elapsed() >= Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_worker() {
    let queue = std::sync::Arc::new(Queue::<&'static str>::default());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = std::sync::Arc::clone(&queue);
            tokio::spawn(async move { queue.next().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert_eq!(tokio::time::timeout(LONG, worker).await.expect("ends").expect("no panic"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_urged_key_does_not_wait_for_the_end_of_its_back_off_and_starts_over() {
    let queue = Queue::default();
    queue.add("a");
    for _ in 0..12 {
        assert_eq!(next(&queue).await, Some("a"));
        queue.done(&"a", Outcome::Failed);
    }
    let urged_at = Instant::now();
    queue.urge("a");
    assert_eq!(next(&queue).await, Some("a"));
    assert_eq!(urged_at.elapsed(), Duration::ZERO);
    queue.done(&"a", Outcome::Failed);
    assert_eq!(next(&queue).await, Some("a"));
    assert!(urged_at.elapsed() < Duration::from_secs(1), "the failures before do not count any more");
    queue.done(&"a", Outcome::Settled);
    assert_eq!(next(&queue).await, None, "its old timer is gone");
}

#[tokio::test(start_paused = true)]
async fn a_key_urged_while_it_runs_runs_again_at_once_though_it_fails() {
    let queue = Queue::default();
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    queue.urge("a");
    let failed_at = Instant::now();
    queue.done(&"a", Outcome::Failed);
    assert_eq!(next(&queue).await, Some("a"));
    assert_eq!(failed_at.elapsed(), Duration::ZERO);
    queue.done(&"a", Outcome::Failed);
    assert_eq!(next(&queue).await, Some("a"));
    assert!(failed_at.elapsed() > Duration::ZERO, "once");
}

#[tokio::test(start_paused = true)]
async fn an_urged_key_still_comes_back_when_the_server_said() {
    let queue = Queue::default();
    queue.add("a");
    assert_eq!(next(&queue).await, Some("a"));
    let asked_at = Instant::now();
    queue.done(&"a", Outcome::ComeBack(Duration::from_secs(7)));
    queue.urge("a");
    assert_eq!(next(&queue).await, Some("a"));
    assert_eq!(asked_at.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_key_refused_on_an_unconfirmed_view_waits_and_runs_at_once_when_a_source_is_confirmed() {
    let queue = Queue::default();
    for _ in 0..8 {
        queue.add("a");
        assert_eq!(next(&queue).await, Some("a"));
        queue.done(&"a", Outcome::Unconfirmed);
    }
    let before = Instant::now();
    queue.add("a");
    assert_eq!(queue.depth(), 0, "a change alone does not end the wait");
    queue.confirmed();
    assert_eq!(next(&queue).await, Some("a"));
    assert_eq!(Instant::now(), before, "at once");
    queue.done(&"a", Outcome::Failed);
    queue.confirmed();
    assert_eq!(queue.depth(), 0, "what failed for another reason is not run");
}
