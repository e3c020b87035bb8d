use std::sync::Arc;

use serde_json::json;
use sts_plus_planner::plan::{Action, Kind, Object, Precondition};
use tokio::time::Instant;

use super::{Ledger, Owner};
use crate::shell::cache::Seen;
use crate::shell::executor::Domain;
use crate::shell::expectations::{Expectation, Unknown};

fn domain(group: &str) -> Domain {
    Domain { namespace: "ns".into(), group: group.into() }
}

fn pod() -> Object {
    Object { kind: Kind::Pod, namespace: "ns".into(), name: "a-0".into() }
}

fn write() -> Action {
    let precondition = Precondition { uid: "uid-a-0".into(), resource_version: None };
    Action::merge(pod(), "uid-a", precondition, (json!({}), "m"))
}

fn owners() -> Vec<Owner> {
    vec![Arc::from("uid-a")]
}

fn leaving() -> Expectation {
    Expectation::Leaving { uid: "uid-a-0".into() }
}

#[test]
fn what_is_awaited_of_an_owner_is_found_whichever_domain_it_was_written_for() {
    let mut ledger = Ledger::default();
    let now = Instant::now();
    ledger.expect(("uid-a", &domain("before")), (pod(), leaving()), now);
    ledger.expect(("uid-a", &domain("after")), (pod(), Expectation::Gone { uid: "uid-a-0".into() }), now);
    assert!(!ledger.is_settled(&owners()));
    assert_eq!(
        ledger.recorded(&domain("before")),
        Vec::<Owner>::new(),
        "it is recorded where it was last written for"
    );
    assert_eq!(ledger.recorded(&domain("after")), owners());
    let terminating =
        || Some(Seen { uid: "uid-a-0".into(), resource_version: "5".into(), terminating: true });
    ledger.look(&owners(), |_| (terminating(), None), now);
    assert!(!ledger.is_settled(&owners()), "it is terminating, and not gone");
    ledger.look(&owners(), |_| (None, None), now);
    assert!(ledger.is_settled(&owners()) && ledger.is_empty());
    assert_eq!(ledger.recorded(&domain("after")), Vec::<Owner>::new());
}

#[test]
fn a_write_is_in_flight_until_it_is_answered() {
    let mut ledger = Ledger::default();
    ledger.sent(&write(), &domain("g"));
    ledger.sent(&write(), &domain("g"));
    ledger.answered(&write());
    assert!(ledger.is_in_flight(&owners()) && !ledger.is_settled(&owners()));
    ledger.answered(&write());
    assert!(!ledger.is_in_flight(&owners()) && ledger.is_empty());
}

#[test]
fn a_lost_answer_keeps_its_owner_until_it_is_found_out() {
    let mut ledger = Ledger::default();
    let unknown = Unknown::write(pod(), "uid-a-0".into(), None);
    ledger.lost_answer(("uid-a", &domain("g")), unknown.clone());
    assert!(ledger.has_unknown());
    assert_eq!(ledger.to_read(&owners()), [(Arc::from("uid-a"), unknown.clone())]);
    ledger.found_out("uid-a", &unknown);
    assert!(!ledger.has_unknown() && ledger.is_empty());
}
