use jiff::Timestamp;
use sts_plus_operator::shell::cache::Scope;

use super::{Group, Section, Set, Tally, age, render};

fn tally(revision: &str, pods: u32, ready: u32) -> Tally {
    Tally { revision: revision.to_owned(), pods, ready }
}

fn set(name: &str, state: &'static str, message: &str, pods: Vec<Tally>) -> Set {
    Set {
        name: name.to_owned(),
        replicas: 3,
        target_revision: Some("new".to_owned()),
        state,
        message: message.to_owned(),
        release: None,
        since: Timestamp::from_second(100).unwrap(),
        pods,
        not_ready: String::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn a_group_reads_as_a_page_of_its_own() {
    let rolling = Set {
        release: Some("all is new".to_owned()),
        not_ready: "a-1 is terminating".to_owned(),
        ..set("a", "Rolling", "rolling to new", vec![tally("new", 1, 1), tally("old", 2, 1)])
    };
    let waiting = Set {
        warnings: vec!["the annotation is odd".to_owned()],
        ..set("longer-name", "WaitingForTurn", "waits for its turn after a", vec![tally("old", 3, 3)])
    };
    let group = Group { namespace: "ns".to_owned(), name: "g".to_owned(), sets: vec![rolling, waiting] };
    let page = render(&[Section::Group(group)], &Scope::Cluster, Timestamp::from_second(130).unwrap());
    assert_eq!(
        page,
        "GROUP g in namespace ns\n  \
           a            Rolling for 30s  1/1 Ready on new (target), 1/2 Ready on old\n                 \
                          rolling to new\n                 \
                          until all is new\n                 \
                          now: a-1 is terminating\n  \
           longer-name  WaitingForTurn for 30s  3/3 Ready on old\n                 \
                          waits for its turn after a\n                 \
                          warning: the annotation is odd\n"
    );
}

#[test]
fn what_the_message_says_already_is_not_said_twice() {
    let down = "a-0 is not Ready";
    let set = Set {
        not_ready: down.to_owned(),
        ..set("a", "NotReady", &format!("holds up its group: {down}"), vec![tally("new", 1, 0)])
    };
    let group = Group { namespace: "ns".to_owned(), name: "g".to_owned(), sets: vec![set] };
    let page = render(&[Section::Group(group)], &Scope::Cluster, Timestamp::from_second(130).unwrap());
    assert_eq!(page.matches(down).count(), 1, "{page}");
}

#[test]
fn nothing_is_told_with_where_was_looked_and_what_for() {
    let page = render(&[], &Scope::Namespaces(vec!["demo".to_owned()]), Timestamp::UNIX_EPOCH);
    assert_eq!(
        page,
        "Nothing to show in namespace demo: there is no PhasedRollout, and no StatefulSet has the label rollout-group.\n"
    );
}

#[test]
fn ages_read_as_kubectl_shows_them_and_a_clock_that_runs_ahead_is_zero() {
    let at = |seconds: i64| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
    let ages: Vec<_> = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].map(at).to_vec();
    assert_eq!(ages, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
}
