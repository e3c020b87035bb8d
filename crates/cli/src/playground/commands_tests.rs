use super::super::samples::Sample;
use super::*;

fn pressed(key: Key, sample: &Sample) -> Command {
    command(key, &sample.0, 0).unwrap()
}

#[test]
fn the_next_rollout_raises_the_version_of_all_sets() {
    let sample = Sample::rolling();
    let rollout = pressed(Key::NextRollout, &sample);
    assert_eq!(rollout.line, "kubectl set env statefulset --all VERSION=2");
    let names: Vec<_> = rollout.requests.iter().map(|request| request.name.as_str()).collect();
    assert_eq!(names, ["gated", "store-zone-a", "store-zone-b", "store-zone-c"]);
    let env = json!([{ "name": "VERSION", "value": "2" }]);
    let body =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "env": env }] } } } });
    assert!(
        rollout.requests.iter().all(|request| request.verb == Verb::Strategic("kubectl-set", body.clone()))
    );
}

#[test]
fn a_version_is_broken_and_healed_by_the_same_field_of_the_group() {
    let mut sample = Sample::rolling();
    assert!(command(Key::Heal, &sample.0, 0).unwrap_err().contains("nothing to heal"));
    let broken = pressed(Key::Break, &sample);
    assert_eq!(
        broken.line,
        "kubectl patch statefulset store-zone-a store-zone-b store-zone-c --type merge \
         -p '{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"hollow.sts.plus/fault\":\"crash-loop\"}}}}}'"
    );
    assert_eq!(broken.requests.len(), 3);
    sample.break_set("store-zone-b");
    let healed = pressed(Key::Heal, &sample);
    assert!(healed.line.contains(r#"{"hollow.sts.plus/fault":null}"#), "{}", healed.line);
    assert_eq!(healed.requests.len(), 3);
}

#[test]
fn pausing_and_resuming_take_turns() {
    let mut sample = Sample::rolling();
    let paused = pressed(Key::PauseOrResume, &sample);
    let annotate = "kubectl annotate statefulset -l rollout-group=store grafana.com/rollout-paused";
    assert_eq!(paused.line, format!("{annotate}=true --overwrite"));
    let Verb::Merge(_, body) = &paused.requests[0].verb else { unreachable!("a merge patch") };
    assert_eq!(*body, json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": "true" } } }));
    for set in ["store-zone-a", "store-zone-b", "store-zone-c"] {
        sample.pause_set(set);
    }
    let resumed = pressed(Key::PauseOrResume, &sample);
    assert_eq!(resumed.line, format!("{annotate}-"));
    let Verb::Merge(_, body) = &resumed.requests[0].verb else { unreachable!("a merge patch") };
    assert_eq!(*body, json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": null } } }));
}

#[test]
fn ready_pods_of_the_group_are_killed_in_turn() {
    let sample = Sample::rolling();
    let killed: Vec<_> =
        (0..7).map(|turn| command(Key::Kill, &sample.0, turn).unwrap().requests[0].name.clone()).collect();
    assert_eq!(killed[..3], ["store-zone-a-0", "store-zone-b-0", "store-zone-b-1"]);
    assert_eq!(killed[6], killed[0], "six of them are ready");
    assert_eq!(pressed(Key::Kill, &sample).line, "kubectl delete pod store-zone-a-0 --wait=false");
}

#[test]
fn the_metric_is_bad_and_good_in_turn() {
    let mut sample = Sample::rolling();
    let patch = "kubectl patch configmap playground-metrics --type merge -p";
    assert_eq!(
        pressed(Key::MetricBadOrGood, &sample).line,
        format!("{patch} '{{\"data\":{{\"errors_per_second\":\"9\"}}}}'")
    );
    sample.metric("9");
    assert_eq!(
        pressed(Key::MetricBadOrGood, &sample).line,
        format!("{patch} '{{\"data\":{{\"errors_per_second\":\"0\"}}}}'")
    );
}

#[test]
fn in_an_empty_cluster_every_key_says_why_it_does_nothing() {
    let nothing = Sample::default();
    for key in ['n', 'b', 'h', 'p', 'k', 'm'] {
        assert!(
            !command(Key::of(key, Demo::Rollouts).unwrap(), &nothing.0, 0).unwrap_err().is_empty(),
            "{key}"
        );
    }
    assert_eq!(Key::of('x', Demo::Rollouts), None);
}
