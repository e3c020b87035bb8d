use super::*;

fn ms(values: &[u64]) -> Vec<Duration> {
    values.iter().copied().map(Duration::from_millis).collect()
}

#[test]
fn the_mean_weighs_all_samples_alike() {
    assert_eq!(mean(&ms(&[10, 20, 60])), Duration::from_millis(30));
    assert_eq!(mean(&[]), Duration::ZERO);
}

#[test]
fn a_percentile_is_a_sample_by_nearest_rank() {
    let hundred = ms(&(1..=100).rev().collect::<Vec<_>>());
    assert_eq!(percentile(&hundred, 50), Duration::from_millis(50));
    assert_eq!(percentile(&hundred, 99), Duration::from_millis(99));
    assert_eq!(percentile(&hundred, 100), Duration::from_millis(100));
    assert_eq!(percentile(&hundred, 0), Duration::from_millis(1));
    assert_eq!(percentile(&ms(&[7, 5, 6]), 50), Duration::from_millis(6));
    assert_eq!(percentile(&ms(&[1, 2]), 99), Duration::from_millis(2), "few samples: the worst");
    assert_eq!(percentile(&[], 99), Duration::ZERO);
}

#[test]
fn a_spread_has_the_middle_of_all_runs() {
    let spread = Spread::of(vec![9.0, 1.0, 2.0]).unwrap();
    assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 9.0 });
    assert_eq!(spread.show(|figure| format!("{figure:.1} s")), "2.0 s (1.0 s to 9.0 s)");
    let of_two = Spread { median: 2.5, least: 1.0, most: 4.0 };
    assert_eq!(Spread::of(vec![4.0, 1.0]), Some(of_two), "the point between them");
    assert_eq!(Spread::of(Vec::new()), None);
}

#[test]
fn the_floor_is_the_pods_own_time_and_the_writes_between() {
    let pod = |terminate, rise| PodTime {
        terminate: Duration::from_millis(terminate),
        rise: Duration::from_millis(rise),
    };
    let floor = floor(&[pod(50, 2_000), pod(100, 3_000)], Duration::from_millis(5));
    assert_eq!(floor, Duration::from_millis(50 + 2_000 + 100 + 3_000 + 3 * 5));
}

#[test]
fn efficiency_is_one_where_nothing_is_added() {
    let second = Duration::from_secs(1);
    assert!((efficiency(second, second) - 1.0).abs() < f64::EPSILON);
    assert!((efficiency(second, 4 * second) - 0.25).abs() < f64::EPSILON);
    assert!(efficiency(second, Duration::ZERO).abs() < f64::EPSILON);
}
