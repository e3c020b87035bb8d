use super::super::samples::{Health, Sample};
use super::*;

fn told(before: &Sample, after: &Sample) -> Vec<String> {
    let now = "2026-11-16T12:00:05Z".parse().unwrap();
    lines(&Picture::new(&before.0), &Picture::new(&after.0), now)
}

#[test]
fn every_transition_is_one_line_and_rest_is_silence() {
    let before = Sample::rolling();
    assert!(told(&before, &Sample::rolling()).is_empty());
    let mut after = Sample::rolling();
    after.pod("store-zone-a-1", "zone-a", "7966aa", Health::Ready);
    after.event("StatefulSet", "store-zone-b", "Rolling", "rolling to revision x");
    assert_eq!(
        told(&before, &after),
        [
            "12:00:05 pod/store-zone-a-1 ready (new revision 7966)",
            "12:00:01 statefulset/store-zone-b Rolling: rolling to revision x",
        ]
    );
}

#[test]
fn a_pod_deleted_for_a_revision_that_the_set_does_not_report_yet_is_an_old_one() {
    let mut sample = Sample::rolling();
    sample.revision("store-zone-a", "58aabb", 1);
    sample.revision("store-zone-a", "7966aa", 2);
    let before = Picture::new(&sample.0);
    // The set's status still names 7966aa.
    sample.revision("store-zone-a", "99ccdd", 3);
    sample.pod("store-zone-a-0", "zone-a", "7966aa", Health::Stopping);
    let now = "2026-11-16T12:00:05Z".parse().unwrap();
    let after = Picture::new(&sample.0);
    assert_eq!(lines(&before, &after, now), ["12:00:05 pod/store-zone-a-0 stopping (old revision 7966)"]);
    sample.pod("store-zone-a-0", "zone-a", "99ccdd", Health::Starting);
    let successor = Picture::new(&sample.0);
    assert_eq!(lines(&after, &successor, now), ["12:00:05 pod/store-zone-a-0 starting (new revision 99cc)"]);
    // A template that comes back has a higher number than before; a watch that is behind shows the lower one.
    sample.revision("store-zone-a", "7966aa", 4);
    sample.revision("store-zone-a", "7966aa", 2);
    sample.pod("store-zone-a-0", "zone-a", "7966aa", Health::Ready);
    assert_eq!(
        lines(&successor, &Picture::new(&sample.0), now),
        ["12:00:05 pod/store-zone-a-0 ready (new revision 7966)"]
    );
}

#[test]
fn what_comes_and_goes_is_told() {
    let (nothing, something) = (Sample::default(), Sample::rolling());
    let came = told(&nothing, &something);
    assert!(came.contains(&"12:00:05 GROUP store".to_owned()), "{came:?}");
    assert_eq!(came.iter().filter(|line| line.contains(" pod/")).count(), 11, "{came:?}");
    let went = told(&something, &nothing);
    assert_eq!(went.iter().filter(|line| line.ends_with(" gone")).count(), 11, "{went:?}");
}

#[test]
fn reasons_are_told_once_however_many_were_forgotten() {
    let mut sample = Sample::rolling();
    let before = Picture::new(&sample.0);
    for number in 0..300 {
        sample.event("StatefulSet", "store-zone-a", "Rolling", &format!("step {number}"));
    }
    let after = Picture::new(&sample.0);
    let now = Timestamp::UNIX_EPOCH;
    let told = lines(&before, &after, now);
    assert!(told.len() <= 200 && told.last().unwrap().ends_with("step 299"), "{}", told.len());
    assert!(lines(&after, &after, now).is_empty());
    // The same event once more, as when its watch begins anew.
    sample.event("StatefulSet", "store-zone-a", "Rolling", "step 299");
    assert!(lines(&after, &Picture::new(&sample.0), now).is_empty());
    // What a gated set says, its rollout has said.
    sample.event("StatefulSet", "gated", "GatePassed", "the gate has passed");
    assert!(lines(&after, &Picture::new(&sample.0), now).is_empty());
}
