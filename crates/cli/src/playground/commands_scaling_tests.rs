use super::super::commands::{Key, command as command_of};
use super::super::demo::Demo;
use super::super::samples::Sample;
use super::*;

fn pressed(key: char, sample: &Sample) -> Result<Command, &'static str> {
    command_of(Key::of(key, Demo::Scaling).unwrap(), &sample.0, 0)
}

fn line(key: char, sample: &Sample) -> String {
    pressed(key, sample).unwrap().line
}

#[test]
fn one_pod_less_and_one_more_are_writes_to_the_scale_of_the_policy() {
    let mut sample = Sample::scaling();
    let less = pressed('d', &sample).unwrap();
    assert_eq!(less.line, "kubectl scale scp ingester --replicas=2");
    let verb = Verb::Scale("kubectl-scale", json!({ "spec": { "replicas": 2 } }));
    let request = Request { kind: Kind::ScalingPolicy, name: "ingester".to_owned(), verb };
    assert_eq!(less.requests, [request]);
    assert_eq!(line('u', &sample), "kubectl scale scp ingester --replicas=4");
    sample.wanted(0);
    assert!(pressed('d', &sample).is_err());
    sample.wanted(9);
    assert!(pressed('u', &sample).is_err());
}

#[test]
fn the_storage_is_taken_away_and_brought_back() {
    let mut sample = Sample::scaling();
    let patch = "kubectl patch configmap playground-storage --type merge -p";
    assert_eq!(line('f', &sample), format!(r#"{patch} '{{"data":{{"storage":"unavailable"}}}}'"#));
    sample.storage("unavailable");
    assert_eq!(line('f', &sample), format!(r#"{patch} '{{"data":{{"storage":"available"}}}}'"#));
}

#[test]
fn pausing_and_resuming_take_turns() {
    let mut sample = Sample::scaling();
    let patch = "kubectl patch scp ingester --type merge -p";
    assert_eq!(line('p', &sample), format!(r#"{patch} '{{"spec":{{"paused":true}}}}'"#));
    sample.policy().paused = true;
    assert_eq!(line('p', &sample), format!(r#"{patch} '{{"spec":{{"paused":false}}}}'"#));
}

#[test]
fn a_pod_that_leaves_is_killed_and_no_other() {
    let mut sample = Sample::scaling();
    assert_eq!(pressed('k', &sample), Err("no pod is leaving: none is deleted"));
    sample.drains("ingester-2");
    assert_eq!(line('k', &sample), "kubectl delete pod ingester-2 --wait=false");
}

#[test]
fn in_an_empty_cluster_every_key_says_why_it_does_nothing() {
    let nothing = Sample::default();
    for key in ['d', 'u', 'f', 'p', 'k'] {
        assert!(!pressed(key, &nothing).unwrap_err().is_empty(), "{key}");
    }
    assert_eq!(Key::of('n', Demo::Scaling), None);
    assert_eq!(Key::of('d', Demo::Rollouts), None);
}
