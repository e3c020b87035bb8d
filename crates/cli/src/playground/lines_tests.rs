use super::super::samples::{Health, Sample};
use super::*;

fn reported(before: &Sample, after: &Sample) -> Vec<String> {
    let now = "2026-11-16T12:00:05Z".parse().unwrap();
    lines(&Layout::new(&before.0), &Layout::new(&after.0), now)
}

#[test]
fn every_transition_is_one_line_and_rest_is_silence() {
    let before = Sample::rolling();
    assert!(reported(&before, &Sample::rolling()).is_empty());
    let mut after = Sample::rolling();
    after.pod("store-zone-a-1", "zone-a", "7966aa", Health::Ready);
    after.event("StatefulSet", "store-zone-b", "Rolling", "rolling to revision x");
    assert_eq!(
        reported(&before, &after),
        [
            "12:00:05 pod/store-zone-a-1 ready (new revision 7966)",
            "12:00:01 statefulset/store-zone-b Rolling: rolling to revision x",
        ]
    );
}

#[test]
fn pods_that_appear_and_are_deleted_are_reported() {
    let (nothing, something) = (Sample::default(), Sample::rolling());
    let came = reported(&nothing, &something);
    assert!(came.contains(&"12:00:05 GROUP store".to_owned()), "{came:?}");
    assert_eq!(came.iter().filter(|line| line.contains(" pod/")).count(), 11, "{came:?}");
    let went = reported(&something, &nothing);
    assert_eq!(went.iter().filter(|line| line.ends_with(" deleted")).count(), 11, "{went:?}");
}

#[test]
fn reasons_are_reported_once_however_many_are_no_longer_kept() {
    let mut sample = Sample::rolling();
    let before = Layout::new(&sample.0);
    for number in 0..300 {
        sample.event("StatefulSet", "store-zone-a", "Rolling", &format!("step {number}"));
    }
    let after = Layout::new(&sample.0);
    let now = Timestamp::UNIX_EPOCH;
    let reported = lines(&before, &after, now);
    assert!(reported.len() <= 200 && reported.last().unwrap().ends_with("step 299"), "{}", reported.len());
    assert!(lines(&after, &after, now).is_empty());
    // The same event once more, as when its watch is started again.
    sample.event("StatefulSet", "store-zone-a", "Rolling", "step 299");
    assert!(lines(&after, &Layout::new(&sample.0), now).is_empty());
    // Its PhasedRollout has the events of a gated set as well.
    sample.event("StatefulSet", "gated", "GatePassed", "the gate has passed");
    assert!(lines(&after, &Layout::new(&sample.0), now).is_empty());
}
