use std::collections::BTreeSet;

use super::{AskedBy, Confirmed, Definition, Form, Handling, Kind, Need, Selection, TABLE, asked_by};
use crate::controllers::{phased_rollout, rollout_group, statefulset};
use crate::shell::executor::SETS_AND_PODS;

const CONTROLLERS: [&str; 3] = [rollout_group::NAME, phased_rollout::NAME, statefulset::NAME];

static CONFIG_MAPS: Definition = Definition::built_in("v1", "ConfigMap", "configmaps");

fn kinds(handlings: &[Handling]) -> Vec<Kind> {
    handlings.iter().map(|handling| handling.kind).collect()
}

#[test]
fn a_kind_is_in_the_table_once_and_is_asked_for_by_controllers_that_exist() {
    let distinct: BTreeSet<_> = TABLE.iter().map(|handling| handling.kind).collect();
    assert_eq!(distinct.len(), TABLE.len());
    for handling in TABLE {
        let AskedBy::These(names) = handling.asked_by else { continue };
        assert!(names.iter().all(|name| CONTROLLERS.contains(name)), "{handling:?}");
    }
}

#[test]
fn controllers_get_what_they_ask_for() {
    let members = [Kind::StatefulSet, Kind::Pod];
    assert_eq!(kinds(&asked_by(&[])), members);
    assert_eq!(kinds(&asked_by(&[rollout_group::NAME])), members);
    assert_eq!(
        kinds(&asked_by(&[phased_rollout::NAME])),
        [Kind::StatefulSet, Kind::Pod, Kind::PhasedRollout]
    );
    let controlling = [Kind::StatefulSet, Kind::Pod, Kind::Claim, Kind::Revision];
    assert_eq!(kinds(&asked_by(&[statefulset::NAME])), controlling);
    assert_eq!(kinds(&asked_by(&CONTROLLERS)), kinds(TABLE));
}

#[test]
fn an_optional_kind_is_needed_where_nobody_runs_without_it() {
    let need = |controllers: &[&str], kind| {
        asked_by(controllers).into_iter().find(|handling| handling.kind == kind).map(|handling| handling.need)
    };
    assert_eq!(need(&[phased_rollout::NAME], Kind::PhasedRollout), Some(Need::Required));
    let beside = [phased_rollout::NAME, rollout_group::NAME];
    assert_eq!(need(&beside, Kind::PhasedRollout), Some(Need::Optional));
    assert_eq!(need(&CONTROLLERS, Kind::Claim), Some(Need::Required));
}

#[test]
fn what_every_disruption_rests_on_is_what_the_executor_insists_on() {
    let members: Vec<_> =
        TABLE.iter().filter(|handling| handling.confirmed == Confirmed::WithMembers).collect();
    assert!(members.iter().map(|handling| handling.kind).eq(SETS_AND_PODS));
    assert_eq!(Handling::of(Kind::Pod).confirmed_with(), SETS_AND_PODS);
    assert_eq!(Handling::of(Kind::PhasedRollout).confirmed_with(), [Kind::PhasedRollout]);
    assert_eq!(Handling::of(Kind::Revision).confirmed_with(), [Kind::Claim, Kind::Revision]);
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
