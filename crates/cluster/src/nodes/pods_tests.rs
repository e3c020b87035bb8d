use http::Method;

use super::super::node::Node;
use super::super::pod::Stage;
use super::super::pod::tests::pod_with;
use super::*;

fn keeper() -> Pods {
    let all = vec![Node::new("n1", "a"), Node::new("n2", "b")];
    let clock = Clock::at("2026-03-01T10:00:00Z".parse().unwrap());
    Pods::new(Nodes { all, lost: BTreeSet::new() }, Defaults::default(), clock)
}

fn seen(pod: Value) -> Input {
    Input::Pod(Box::new(Event::Seen(pod_with(pod))))
}

fn named(uid: &str) -> Value {
    json!({ "metadata": { "uid": uid, "name": uid } })
}

#[tokio::test]
async fn each_write_is_one_call_bound_to_the_pods_uid() {
    let mut pods = keeper();
    let [key] = pods.take(seen(json!({})), Moment::ZERO).try_into().unwrap();
    let now = Moment::from_millis(1_700);
    let mut call = |write: Write| {
        let [call] = pods.perform(&key, &write, now).try_into().unwrap();
        call
    };
    let bind = call(Write::Bind("n2".to_owned()));
    assert_eq!((bind.method, bind.path.as_str()), (Method::POST, "/api/v1/namespaces/db/pods/web-2/binding"));
    assert_eq!(bind.body["metadata"]["uid"], "u-2");
    assert_eq!(bind.body["target"]["name"], "n2");

    let report = call(Write::Report(Stage::NEW));
    assert_eq!(
        (report.method, report.path.as_str()),
        (Method::PATCH, "/api/v1/namespaces/db/pods/web-2/status")
    );
    assert_eq!(report.body["metadata"]["uid"], "u-2");
    assert_eq!(report.body["status"]["hostIP"], "10.127.0.1");
    assert_eq!(
        report.body["status"]["startTime"], "2026-03-01T10:00:01Z",
        "whole seconds, after the clock's start"
    );

    let remove = call(Write::Remove);
    assert_eq!((remove.method, remove.path.as_str()), (Method::DELETE, "/api/v1/namespaces/db/pods/web-2"));
    assert_eq!(remove.body["gracePeriodSeconds"], 0);
    assert_eq!(remove.body["preconditions"], json!({ "uid": "u-2" }));

    let complaint = call(Write::Complain("what".to_owned()));
    assert_eq!(
        (complaint.method.clone(), complaint.path.as_str()),
        (Method::POST, "/api/v1/namespaces/db/events")
    );
    assert_eq!(complaint.body["involvedObject"]["uid"], "u-2");
    assert_eq!(complaint.body["message"], "what");
    assert_eq!(complaint, call(Write::Complain("what".to_owned())), "the same complaint is the same event");
    assert_ne!(complaint.body["metadata"], call(Write::Complain("else".to_owned())).body["metadata"]);
}

#[tokio::test]
async fn no_two_pods_have_one_address() {
    let mut pods = keeper();
    pods.take(
        seen(json!({ "metadata": { "uid": "old" }, "status": { "podIP": "10.128.0.2" } })),
        Moment::ZERO,
    );
    let mut address = |uid: &str| {
        let [key] = pods.take(seen(named(uid)), Moment::ZERO).try_into().unwrap();
        let calls = pods.perform(&key, &Write::Report(Stage::NEW), Moment::ZERO);
        calls[0].body["status"]["podIP"].as_str().unwrap().to_owned()
    };
    let given: Vec<String> = ["a", "b", "c"].map(&mut address).into();
    assert_eq!(given, ["10.128.0.1", "10.128.0.3", "10.128.0.4"]);
    assert_eq!(address("a"), "10.128.0.1", "a pod keeps its address, also while its report is not yet seen");
}

#[tokio::test]
async fn losing_a_node_touches_its_pods_and_those_that_wait() {
    let mut pods = keeper();
    for (uid, spec) in
        [("on-1", json!({})), ("on-2", json!({ "nodeName": "n2" })), ("waiting", json!({ "nodeName": null }))]
    {
        pods.take(seen(json!({ "metadata": { "uid": uid }, "spec": spec })), Moment::ZERO);
    }
    let mut lost = |nodes: &[&str]| {
        let lost = nodes.iter().map(|node| (*node).to_owned()).collect();
        pods.take(Input::Lost(lost), Moment::ZERO).iter().map(ToString::to_string).collect::<BTreeSet<_>>()
    };
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(lost(&["n1"]), set(&["on-1", "waiting"]));
    assert_eq!(lost(&["n1", "n2"]), set(&["on-2", "waiting"]));
    assert_eq!(lost(&[]), set(&["on-1", "on-2", "waiting"]));
}

#[tokio::test]
async fn a_pod_that_is_gone_is_forgotten() {
    let mut pods = keeper();
    let [key] = pods.take(seen(json!({})), Moment::ZERO).try_into().unwrap();
    assert!(matches!(pods.next(&key, Moment::ZERO), Next::Write(Write::Report(_))));
    let touched = pods.take(Input::Pod(Box::new(Event::Gone(key.clone()))), Moment::ZERO);
    assert_eq!(touched, std::slice::from_ref(&key));
    assert_eq!(pods.next(&key, Moment::ZERO), Next::Forget);
    assert_eq!(pods.perform(&key, &Write::Remove, Moment::ZERO), []);
}
