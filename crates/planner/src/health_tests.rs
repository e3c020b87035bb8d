use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Health, Member, Why};
use crate::example;
use crate::pod::{Defect, Phase, PodRow, Waiting};
use crate::set::SetRow;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn set(replicas: u32, min_ready: i64) -> SetRow {
    SetRow { replicas, min_ready: SignedDuration::from_secs(min_ready), ..example::set("web") }
}

/// A pod of the set, Ready for ten seconds.
fn pod(ordinal: u32, change: impl FnOnce(&mut PodRow)) -> Arc<PodRow> {
    let mut pod = example::pod(&set(1, 0), ordinal);
    pod.ready_since = Some(NOW.saturating_sub(SignedDuration::from_secs(10)).unwrap());
    change(&mut pod);
    Arc::new(pod)
}

fn judge(set: SetRow, pods: impl IntoIterator<Item = Arc<PodRow>>) -> Health {
    Health::of(&Member::new(Arc::new(set), pods), NOW)
}

#[test]
fn each_pod_that_does_not_serve_is_down_once_with_its_reason_in_natural_order() {
    let until = NOW.saturating_add(SignedDuration::from_secs(20)).unwrap();
    let pods = [
        pod(10, |pod| (pod.terminating, pod.ready_since) = (true, None)),
        pod(9, |pod| pod.ready_since = None),
        pod(2, |pod| (pod.ready_since, pod.waiting) = (None, Some(Waiting::ErrImagePull))),
        pod(1, |_| {}),
        pod(0, |pod| pod.ready_since = Some(NOW.saturating_sub(SignedDuration::from_secs(40)).unwrap())),
    ];
    let health = judge(set(11, 30), pods);
    assert_eq!(health.count, 10);
    assert!(!health.all_ready());
    assert_eq!(health.changes_at, Some(until));
    let down: Vec<_> = health.down.iter().map(|down| (&*down.pod, down.why.clone())).collect();
    let broken = Why::Broken(Defect::Waits(Waiting::ErrImagePull));
    assert_eq!(
        down,
        [
            ("web-1", Why::Settling { until }),
            ("web-2", broken.clone()),
            ("web-3", Why::Missing),
            ("web-4", Why::Missing),
            ("web-5", Why::Missing),
            ("web-9", Why::NotReady),
            ("web-10", Why::Terminating),
        ]
    );
    assert_eq!(health.why_down("web-2"), Some(&broken));
    assert_eq!(health.why_down("web-10"), Some(&Why::Terminating));
    assert_eq!(health.why_down("web-0"), None);
    assert_eq!(
        health.summary(),
        "web-1 is Ready but not yet for minReadySeconds (until 1970-01-01T00:00:20Z), \
         web-2 waits in ErrImagePull, web-3 does not exist and 7 more"
    );
}

#[test]
fn a_set_that_has_all_it_asks_for_is_ready() {
    let health = judge(set(2, 5), [pod(1, |_| {}), pod(0, |_| {}), pod(2, |_| {})]);
    assert!(health.all_ready() && health.down.is_empty() && health.changes_at.is_none());
    assert_eq!(health.summary(), "");
}

#[test]
fn the_words_for_each_way_to_be_down() {
    let pods = [pod(0, |pod| pod.terminating = true), pod(1, |pod| pod.phase = Phase::Failed)];
    let health = judge(set(3, 0), pods);
    assert_eq!(health.summary(), "web-0 is terminating, web-1 is not Ready, web-2 does not exist");
    let tired = pod(0, |pod| (pod.ready_since, pod.terminated_restarts) = (None, Some(4)));
    assert_eq!(judge(set(1, 0), [tired]).summary(), "web-0 has terminated after 4 restarts");
}

#[test]
fn members_keep_their_own_pods_in_natural_order() {
    let pods = [
        pod(10, |_| {}),
        pod(2, |_| {}),
        pod(3, |pod| pod.owner = "uid-other".into()),
        pod(4, |pod| pod.namespace = "staging".into()),
        pod(5, |pod| pod.labels = Arc::default()),
    ];
    let member = Member::new(Arc::new(set(3, 0)), pods);
    let names: Vec<_> = member.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["web-2", "web-10"]);
    assert_eq!(member.wanted_ordinal(&member.pods[0]), Some(2));
    assert_eq!(member.wanted_ordinal(&member.pods[1]), None, "beyond the replicas");
}

#[test]
fn a_wait_longer_than_time_lasts_does_not_overflow() {
    let health = judge(set(1, i64::MAX), [pod(0, |_| {})]);
    assert_eq!(health.count, 1);
    assert_eq!(health.changes_at, Some(Timestamp::MAX));
}

#[test]
fn a_wanted_pod_that_leaves_is_down_although_it_serves() {
    let mut leaving = set(2, 0);
    leaving.steering.leaving = Some("1,2".into());
    let health = judge(leaving, [pod(0, |_| {}), pod(1, |_| {}), pod(2, |_| {})]);
    assert_eq!(
        health.summary(),
        "web-1 is leaving",
        "one that the set does not want any more is not counted"
    );
    let broken = pod(1, |pod| (pod.ready_since, pod.waiting) = (None, Some(Waiting::ErrImagePull)));
    let mut leaving = set(2, 0);
    leaving.steering.leaving = Some("1".into());
    let health = judge(leaving, [pod(0, |_| {}), broken]);
    assert_eq!(health.why_down("web-1"), Some(&Why::Broken(Defect::Waits(Waiting::ErrImagePull))));
}
