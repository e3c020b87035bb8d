use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_clock_of_the_runtime_moves_with_its_timers() {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(clock.now().to_string(), "2026-01-02T04:04:05Z");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_jumps_and_goes_on_from_there() {
    let at = |seconds| Instant::now() + Duration::from_secs(seconds);
    let forward = ClockStep { at: at(10), by: SignedDuration::from_hours(1) };
    let back = ClockStep { at: at(20), by: SignedDuration::from_hours(-3) };
    let clock = Clock::at("2026-01-02T03:00:00Z".parse().unwrap()).with_steps([forward, back]);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(clock.now().to_string(), "2026-01-02T03:00:09Z");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(clock.now().to_string(), "2026-01-02T04:00:10Z");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(clock.now().to_string(), "2026-01-02T01:00:20Z");
}

#[test]
fn the_same_seed_gives_the_same_row_and_clones_share_it() {
    let (one, other) = (Chance::seeded(7), Chance::seeded(7));
    let shared = one.clone();
    let row: Vec<_> = (0..100).map(|turn| if turn % 2 == 0 { one.draw() } else { shared.draw() }).collect();
    assert_eq!(row, (0..100).map(|_| other.draw()).collect::<Vec<_>>());
    assert_ne!(row, (0..100).map(|_| Chance::seeded(8).draw()).collect::<Vec<_>>());
}

#[test]
fn retries_are_spread_over_the_upper_half() {
    let chance = Chance::seeded(1);
    let drawn: Vec<_> = (0..1000).map(|_| chance.upper_half()).collect();
    assert!(drawn.iter().all(|share| (0.5..=1.0).contains(share)));
    assert!(drawn.iter().any(|share| *share < 0.55) && drawn.iter().any(|share| *share > 0.95));
}
