use serde_json::json;

use super::*;

fn at(ms: u64, pod: &str, turn: Turn) -> Sight {
    Sight { at: Duration::from_millis(ms), namespace: "n".into(), pod: pod.into(), turn }
}

fn pod(uid: &str, ready: bool, deleted: bool) -> Pod {
    let status = if ready { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": { "name": "a-0", "namespace": "n", "uid": uid, "resourceVersion": "1",
            "deletionTimestamp": deleted.then_some("2026-01-01T00:00:00Z") },
        "status": { "conditions": [{ "type": "Ready", "status": status }] },
    }))
    .unwrap()
}

#[test]
fn each_turn_of_a_life_is_told_once() {
    let mut tracker = Tracker::default();
    let mut turns = |pod: &Pod, at| {
        let sights = tracker.seen(pod, Duration::from_millis(at));
        sights.into_iter().map(|sight| sight.turn).collect::<Vec<_>>()
    };
    assert_eq!(turns(&pod("1", false, false), 1), [Turn::Created]);
    assert_eq!(turns(&pod("1", true, false), 2), [Turn::Ready]);
    assert_eq!(turns(&pod("1", true, false), 3), []);
    assert_eq!(turns(&pod("1", true, true), 4), [Turn::Leaving]);
    assert_eq!(turns(&pod("1", false, true), 5), []);
    assert_eq!(turns(&pod("2", true, false), 6), [Turn::Created, Turn::Ready], "another pod of that name");
    assert_eq!(tracker.gone(&pod("1", false, true), Duration::from_millis(7)), at(7, "a-0", Turn::Gone));
}

#[test]
fn a_pod_from_before_the_watch_does_not_become_ready_by_leaving() {
    let mut tracker = Tracker::default();
    let leaving = tracker.changed(&pod("1", true, true), Duration::from_millis(1));
    assert_eq!(leaving, [at(1, "a-0", Turn::Leaving)]);
    assert_eq!(tracker.changed(&pod("1", false, true), Duration::from_millis(2)), []);
}

#[test]
fn what_a_rollout_adds_is_the_way_back_and_the_way_on() {
    let roll = |pod: &str, start: u64| {
        [(0, Turn::Leaving), (50, Turn::Gone), (57, Turn::Created), (110, Turn::Ready)]
            .map(|(ms, turn)| at(start + ms, pod, turn))
    };
    let sights = [roll("a-2", 0), roll("a-1", 115), roll("a-0", 245)].concat();
    assert_eq!(added(&sights), Some([7 + 5, 7 + 20].map(Duration::from_millis).to_vec()));
    let mut overlapping = sights.clone();
    overlapping.swap(3, 4);
    assert_eq!(added(&overlapping), None, "a-1 left before a-2 was Ready");
    assert_eq!(added(&sights[..11]), None, "the last one never came back");
}

#[test]
fn gaps_count_from_the_last_readiness_before_a_deletion() {
    let sights = [
        at(0, "a-1", Turn::Leaving),
        at(100, "a-1", Turn::Ready),
        at(110, "a-0", Turn::Leaving),
        at(150, "a-0", Turn::Gone),
        at(200, "a-0", Turn::Ready),
        at(230, "b-0", Turn::Leaving),
    ];
    assert_eq!(ready_to_deletion(&sights), [10, 30].map(Duration::from_millis));
}

#[test]
fn own_times_leave_out_what_others_add() {
    let sights = [
        at(0, "a-0", Turn::Leaving),
        at(50, "a-0", Turn::Gone),
        at(60, "a-0", Turn::Created),
        at(1_060, "a-0", Turn::Ready),
        at(1_080, "a-1", Turn::Leaving),
        at(1_100, "a-1", Turn::Gone),
    ];
    let times = pod_times(&sights);
    let expected = PodTime { terminate: Duration::from_millis(50), rise: Duration::from_secs(1) };
    assert_eq!(times, [expected], "a-1 has not come back");
}
