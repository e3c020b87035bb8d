use std::collections::BTreeSet;

use super::{Confirmed, Definition, Form, Handling, Kind, Selection, TABLE};
use crate::shell::executor::SETS_AND_PODS;

static CONFIG_MAPS: Definition = Definition::built_in("v1", "ConfigMap", "configmaps");

#[test]
fn a_kind_is_in_the_table_once() {
    let distinct: BTreeSet<_> = TABLE.iter().map(|handling| handling.kind).collect();
    assert_eq!(distinct.len(), TABLE.len());
}

#[test]
fn what_every_disruption_rests_on_is_what_the_executor_insists_on() {
    let members: Vec<_> =
        TABLE.iter().filter(|handling| handling.confirmed == Confirmed::WithMembers).collect();
    assert!(members.iter().map(|handling| handling.kind).eq(SETS_AND_PODS));
    assert_eq!(Handling::of(Kind::Pod).confirmed_with(), SETS_AND_PODS);
    assert_eq!(Handling::of(Kind::PhasedRollout).confirmed_with(), [Kind::PhasedRollout]);
    assert_eq!(Handling::of(Kind::Revision).confirmed_with(), [Kind::Claim, Kind::Revision]);
    assert_eq!(Handling::of(Kind::Service).confirmed_with(), [Kind::Service], "it may be missing");
}

#[test]
fn a_kind_outside_the_table_is_followed_by_its_metadata() {
    for kind in [Kind::Other(&CONFIG_MAPS), Kind::Secret] {
        let handling = Handling::of(kind);
        assert_eq!((handling.form, handling.confirmed), (Form::Metadata, Confirmed::ByNamespace));
        assert_eq!(handling.confirmed_with(), [kind]);
    }
}

#[test]
fn two_selectors_of_the_same_sort_are_one_parameter() {
    let ours = Selection { labels: Some("app=web"), fields: Some("metadata.name=a") };
    let query = |other| ours.query_within(other);
    let (labels, fields) = ("labelSelector", "fieldSelector");
    let expected = [(labels, "app=web".to_owned()), (fields, "metadata.name=a".to_owned())];
    assert_eq!(query(None), expected);
    assert_eq!(query(Some((labels, "g=1")))[0].1, "app=web,g=1");
    assert!(Selection::default().query().is_empty());
    assert_eq!(Selection::default().query_within(Some((labels, "g=1"))), [(labels, "g=1".to_owned())]);
}
