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
            "12:00:05 pod/store-zone-a-1 ready (update revision 7966)",
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

#[test]
fn versions_and_active_pods_are_reported_as_they_change() {
    let before = Sample::extended();
    assert!(reported(&before, &Sample::extended()).is_empty());
    let mut after = Sample::extended();
    after.active("db", Some("db-z0-1"));
    after.child("web-z0-v2", "zone-a", 2);
    after.version("web", 1, 2, "VersionStarting");
    assert_eq!(
        reported(&before, &after),
        [
            "12:00:05 pod/db-z0-0 ready (update revision 7966)",
            "12:00:05 pod/db-z0-1 ready active (update revision 7966)",
            "12:00:05 pod/web-z0-v2-0 ready (update revision 7966)",
            "12:00:05 pod/web-z0-v2-1 ready (update revision 7966)",
            "12:00:05 EXTENDED STATEFULSET web: version 1, update to version 2, VersionStarting",
        ]
    );
    let layout = Layout::new(&after.0);
    let web = layout.workloads.iter().find(|workload| workload.title.contains(" web")).unwrap();
    let strips = |zone: usize| &web.columns[zone].strips;
    let ages: Vec<_> = strips(0).iter().map(|strip| (&*strip.set, strip.cells[0].age())).collect();
    assert_eq!(ages, [("web-z0-v1", "outdated"), ("web-z0-v2", "update")]);
    assert!(strips(2).is_empty(), "a zone that is not its own");
}

#[test]
fn a_pod_that_leaves_is_reported_with_its_phase_and_each_event_once() {
    let before = Sample::scaling();
    assert!(reported(&before, &Sample::scaling()).is_empty());
    let mut after = Sample::scaling();
    after.drains("ingester-2");
    for kind in ["ScalingPolicy", "StatefulSet"] {
        after.event(kind, "ingester", "Draining", "ingester-2 drains.");
    }
    assert_eq!(
        reported(&before, &after),
        [
            "12:00:05 pod/ingester-2 draining (update revision 7966)",
            "12:00:05 SCALING POLICY ingester: 2 replicas wanted, 3 present, 2 Ready, Draining",
            "12:00:01 scalingpolicy/ingester Draining: ingester-2 drains.",
        ]
    );
}
