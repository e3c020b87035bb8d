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
