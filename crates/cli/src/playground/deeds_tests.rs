use super::super::samples::Sample;
use super::*;

fn wished(wish: Wish, sample: &Sample) -> Deed {
    deed(wish, &sample.0, 0).unwrap()
}

#[test]
fn the_next_rollout_raises_the_version_of_all_sets() {
    let sample = Sample::rolling();
    let deed = wished(Wish::NextRollout, &sample);
    assert_eq!(deed.command, "kubectl set env statefulset --all VERSION=2");
    let names: Vec<_> = deed.changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, ["gated", "store-zone-a", "store-zone-b", "store-zone-c"]);
    let env = json!([{ "name": "VERSION", "value": "2" }]);
    let body =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "env": env }] } } } });
    assert!(deed.changes.iter().all(|change| change.act == Act::Strategic("kubectl-set", body.clone())));
}

#[test]
fn a_version_is_broken_and_healed_by_the_same_field_of_the_group() {
    let mut sample = Sample::rolling();
    assert!(deed(Wish::Heal, &sample.0, 0).unwrap_err().contains("nothing to heal"));
    let broken = wished(Wish::Break, &sample);
    assert_eq!(
        broken.command,
        "kubectl patch statefulset store-zone-a store-zone-b store-zone-c --type merge \
         -p '{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"hollow.sts.plus/fault\":\"crash-loop\"}}}}}'"
    );
    assert_eq!(broken.changes.len(), 3);
    sample.break_set("store-zone-b");
    let healed = wished(Wish::Heal, &sample);
    assert!(healed.command.contains(r#"{"hollow.sts.plus/fault":null}"#), "{}", healed.command);
    assert_eq!(healed.changes.len(), 3);
}

#[test]
fn pausing_and_resuming_take_turns() {
    let mut sample = Sample::rolling();
    let paused = wished(Wish::PauseOrResume, &sample);
    let annotate = "kubectl annotate statefulset -l rollout-group=store grafana.com/rollout-paused";
    assert_eq!(paused.command, format!("{annotate}=true --overwrite"));
    let Act::Merge(_, body) = &paused.changes[0].act else { unreachable!("a merge patch") };
    assert_eq!(*body, json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": "true" } } }));
    for set in ["store-zone-a", "store-zone-b", "store-zone-c"] {
        sample.change_set(set, |object| {
            object["metadata"]["annotations"] = json!({ "grafana.com/rollout-paused": "true" });
        });
    }
    let resumed = wished(Wish::PauseOrResume, &sample);
    assert_eq!(resumed.command, format!("{annotate}-"));
    let Act::Merge(_, body) = &resumed.changes[0].act else { unreachable!("a merge patch") };
    assert_eq!(*body, json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": null } } }));
}

#[test]
fn ready_pods_of_the_group_are_killed_in_turn() {
    let sample = Sample::rolling();
    let killed: Vec<_> =
        (0..7).map(|turn| deed(Wish::Kill, &sample.0, turn).unwrap().changes[0].name.clone()).collect();
    assert_eq!(killed[..3], ["store-zone-a-0", "store-zone-b-0", "store-zone-b-1"]);
    assert_eq!(killed[6], killed[0], "six of them are ready");
    assert_eq!(wished(Wish::Kill, &sample).command, "kubectl delete pod store-zone-a-0 --wait=false");
}

#[test]
fn the_metric_is_bad_and_good_in_turn() {
    let mut sample = Sample::rolling();
    let patch = "kubectl patch configmap playground-metrics --type merge -p";
    assert_eq!(
        wished(Wish::MetricBadOrGood, &sample).command,
        format!("{patch} '{{\"data\":{{\"errors_per_second\":\"9\"}}}}'")
    );
    sample.metric("9");
    assert_eq!(
        wished(Wish::MetricBadOrGood, &sample).command,
        format!("{patch} '{{\"data\":{{\"errors_per_second\":\"0\"}}}}'")
    );
}

#[test]
fn in_an_empty_cluster_every_key_says_why_it_does_nothing() {
    let nothing = Sample::default();
    for key in ['n', 'b', 'h', 'p', 'k', 'm'] {
        assert!(!deed(Wish::of(key).unwrap(), &nothing.0, 0).unwrap_err().is_empty(), "{key}");
    }
    assert_eq!(Wish::of('x'), None);
}
