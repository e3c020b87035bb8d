use jiff::Timestamp;
use serde_json::json;
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::view::{Group, Rollout, Set, SetState, Tally};

use super::{age, render, render_rollout};
use crate::status::Section;

fn tally(revision: &str, pods: u32, ready: u32) -> Tally {
    Tally { revision: revision.to_owned(), pods, ready }
}

fn set(name: &str, state: &'static str, message: &str, pods: Vec<Tally>) -> Set {
    Set {
        name: name.to_owned(),
        replicas: 3,
        target_revision: Some("new".to_owned()),
        state: Some(SetState {
            state,
            message: message.to_owned(),
            release: None,
            since: Timestamp::from_second(100).unwrap(),
        }),
        pods,
        ..Set::default()
    }
}

fn page(group: &Group) -> String {
    render(&[Section::Group(group)], &Scope::Cluster, Timestamp::from_second(130).unwrap())
}

#[test]
fn a_group_reads_as_a_page_of_its_own() {
    let mut rolling = Set {
        not_ready: "a-1 is terminating".to_owned(),
        ..set("a", "Rolling", "rolling to new", vec![tally("new", 1, 1), tally("old", 2, 1)])
    };
    rolling.state.as_mut().unwrap().release = Some("all is new".to_owned());
    let waiting = Set {
        warnings: vec!["the annotation is odd".to_owned()],
        ..set(
            "longer-name",
            "WaitingForTurn",
            "Waiting for a: one set of the group is rolled at a time.",
            vec![tally("old", 3, 3)],
        )
    };
    let group = Group { namespace: "ns".to_owned(), name: "g".to_owned(), sets: vec![rolling, waiting] };
    assert_eq!(
        page(&group),
        "GROUP g in namespace ns\n  \
           a            Rolling for 30s  1/1 Ready on new (update revision), 1/2 Ready on old\n                 \
                          rolling to new\n                 \
                          until all is new\n                 \
                          now: a-1 is terminating\n  \
           longer-name  WaitingForTurn for 30s  3/3 Ready on old\n                 \
                          Waiting for a: one set of the group is rolled at a time.\n                 \
                          warning: the annotation is odd\n"
    );
}

#[test]
fn what_the_message_says_already_is_not_said_twice() {
    let down = "a-0 is not Ready";
    let set = Set {
        not_ready: down.to_owned(),
        ..set(
            "a",
            "NotReady",
            &format!("Blocks its group: not all its pods are Ready ({down})."),
            vec![tally("new", 1, 0)],
        )
    };
    let group = Group { namespace: "ns".to_owned(), name: "g".to_owned(), sets: vec![set] };
    let page = page(&group);
    assert_eq!(page.matches(down).count(), 1, "{page}");
}

#[test]
fn nothing_is_told_with_where_was_looked_and_what_for() {
    let page = render(&[], &Scope::Namespaces(vec!["demo".to_owned()]), Timestamp::UNIX_EPOCH);
    assert_eq!(
        page,
        "Nothing to show in namespace demo: there is no PhasedRollout, no ExtendedStatefulSet and no ScalingPolicy, \
         and no StatefulSet has the label rollout-group.\n"
    );
}

#[test]
fn ages_read_as_kubectl_shows_them_and_a_clock_that_runs_ahead_is_zero() {
    let at = |seconds: i64| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
    let ages: Vec<_> = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].map(at).to_vec();
    assert_eq!(ages, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
}

fn rollout(status: &serde_json::Value) -> Rollout {
    Rollout {
        namespace: "ns".to_owned(),
        name: "gated".to_owned(),
        target: "web".to_owned(),
        status: serde_json::from_value(status.clone()).unwrap(),
    }
}

fn rollout_page(status: &serde_json::Value) -> String {
    let mut page = String::new();
    render_rollout(&mut page, &rollout(status), Timestamp::from_second(130).unwrap()).unwrap();
    page
}

#[test]
fn a_rollout_in_its_gate_reads_as_a_page_of_its_own() {
    let status = json!({
        "phase": "Rolling",
        "waitingFor": "ChecksFailing",
        "since": "1970-01-01T00:01:40Z",
        "message": "errors has failed 2 times in succession: 1 series: 5; until errors passes again",
        "updateRevision": "web-2",
        "pods": [{ "revision": "web-2", "pods": 1, "ready": 1 }, { "revision": "web-1", "pods": 2, "ready": 2 }],
        "rollingPodStatus": {
            "status": "WaitForChecks", "partition": 2, "replicas": 3, "startTime": "1970-01-01T00:01:40Z",
            "nextCheckTime": "1970-01-01T00:02:15Z",
            "consecutiveSuccessfulChecks": 0, "consecutiveFailedChecks": 2, "totalFailedChecks": 2,
            "checks": [{ "name": "errors", "consecutiveFailedChecks": 2, "lastVerdict": "Fail", "lastValue": "1 series: 5", "warnings": ["partial"] }],
        },
        "ungatedPods": ["web-2"],
        "conditions": [{
            "type": "Warning", "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z",
            "reason": "Suspicious", "message": "the url of errors has no scheme: http:// is used",
        }],
    });
    assert_eq!(
        rollout_page(&status),
        "PHASED ROLLOUT gated of web in namespace ns\n  \
           Rolling  ChecksFailing for 30s  1/1 Ready on web-2 (update revision), 2/2 Ready on web-1\n    \
             errors has failed 2 times in succession: 1 series: 5; until errors passes again\n    \
             gate at partition 2: WaitForChecks\n    \
             errors: Fail (1 series: 5), 0 consecutive passes and 2 consecutive failures\n    \
             errors warns: partial\n    \
             next check in 5s\n    \
             started without a gate: web-2\n    \
             warning: the url of errors has no scheme: http:// is used\n"
    );
}

#[test]
fn a_rollout_without_a_status_says_what_to_look_for() {
    assert_eq!(
        rollout_page(&json!({})),
        "PHASED ROLLOUT gated of web in namespace ns\n  \
         No operator has reported a status: is sts-plus running with the controller phased-rollout?\n"
    );
}
