use super::super::commands::{Key, command as command_of};
use super::super::demo::Demo;
use super::super::samples::Sample;
use super::*;

fn pressed(key: char, sample: &Sample) -> Command {
    command_of(Key::of(key, Demo::Extended).unwrap(), &sample.0, 0).unwrap()
}

fn line(key: char, sample: &Sample) -> String {
    pressed(key, sample).line
}

fn request(name: &str, kind: Kind, verb: Verb) -> Request {
    Request { kind, name: name.to_owned(), verb }
}

#[test]
fn the_next_version_is_the_next_tag_of_the_image() {
    let patch = json!([{
        "op": "replace", "path": "/spec/template/spec/template/spec/containers/0/image",
        "value": "playground.example/web:2",
    }]);
    let next = pressed('n', &Sample::extended());
    assert_eq!(next.line, format!("kubectl patch ests web --type json -p '{patch}'"));
    assert_eq!(next.requests, [request("web", Kind::Extended, Verb::Json("kubectl-patch", patch))]);
}

#[test]
fn a_version_is_broken_and_healed_by_the_same_field() {
    let mut sample = Sample::extended();
    let heal = Key::of('h', Demo::Extended).unwrap();
    assert!(command_of(heal, &sample.0, 0).unwrap_err().contains("nothing to heal"));
    let patch = "kubectl patch ests web --type merge -p";
    let body = |fault: &str| {
        format!(
            r#"'{{"spec":{{"template":{{"spec":{{"template":{{"metadata":{{"annotations":{{"hollow.sts.plus/fault":{fault}}}}}}}}}}}}}}}'"#
        )
    };
    assert_eq!(line('b', &sample), format!("{patch} {}", body(r#""crash-loop""#)));
    sample.break_extended("web");
    assert_eq!(line('h', &sample), format!("{patch} {}", body("null")));
}

#[test]
fn the_config_is_changed_there_and_back() {
    let mut sample = Sample::extended();
    let patch = "kubectl patch configmap db-config --type merge -p";
    assert_eq!(line('c', &sample), format!(r#"{patch} '{{"data":{{"log_level":"debug"}}}}'"#));
    sample.config("debug");
    assert_eq!(line('c', &sample), format!(r#"{patch} '{{"data":{{"log_level":"info"}}}}'"#));
}

#[test]
fn the_active_pod_fails_and_the_one_that_failed_passes_again() {
    let mut sample = Sample::extended();
    let failed = pressed('f', &sample);
    assert_eq!(failed.line, "kubectl annotate pod db-z0-0 'hollow.sts.plus/http=/leader 503'");
    let body = json!({ "metadata": { "annotations": { "hollow.sts.plus/http": "/leader 503" } } });
    assert_eq!(failed.requests, [request("db-z0-0", Kind::Pod, Verb::Merge("kubectl-annotate", body))]);
    sample.answers("db-z0-0", "/leader 503");
    sample.active("db", Some("db-z0-1"));
    let restored = pressed('f', &sample);
    assert_eq!(restored.line, "kubectl annotate pod db-z0-0 hollow.sts.plus/http-");
    let body = json!({ "metadata": { "annotations": { "hollow.sts.plus/http": null } } });
    assert_eq!(restored.requests, [request("db-z0-0", Kind::Pod, Verb::Merge("kubectl-annotate", body))]);
    assert_eq!(line('k', &sample), "kubectl delete pod db-z0-1 --wait=false");
}

#[test]
fn pausing_and_resuming_take_turns() {
    let mut sample = Sample::extended();
    let patch = "kubectl patch ests web --type merge -p";
    assert_eq!(line('p', &sample), format!(r#"{patch} '{{"spec":{{"paused":true}}}}'"#));
    sample.named_extended("web").paused = true;
    assert_eq!(line('p', &sample), format!(r#"{patch} '{{"spec":{{"paused":false}}}}'"#));
}

#[test]
fn in_an_empty_cluster_every_key_says_why_it_does_nothing() {
    let nothing = Sample::default();
    for key in ['n', 'b', 'h', 'c', 'f', 'p', 'k'] {
        let key = Key::of(key, Demo::Extended).unwrap();
        assert!(!command_of(key, &nothing.0, 0).unwrap_err().is_empty(), "{key:?}");
    }
    assert_eq!(Key::of('m', Demo::Extended), None);
    assert_eq!(Key::of('c', Demo::Rollouts), None);
}
