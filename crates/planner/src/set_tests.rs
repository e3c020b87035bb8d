use super::{SetRow, Strategy};
use crate::example;

fn set() -> SetRow {
    example::set("web")
}

#[test]
fn the_target_is_known_once_the_spec_is_observed() {
    assert_eq!(set().target(), Some("new"));
    assert_eq!(SetRow { observed_generation: 1, ..set() }.target(), None);
    assert_eq!(SetRow { update_revision: None, ..set() }.target(), None);
    assert_eq!(SetRow { observed_generation: 3, ..set() }.target(), Some("new"));
}

#[test]
fn ordinals_start_where_the_spec_says_and_never_overflow() {
    assert_eq!(set().ordinals(), 0..3);
    assert_eq!(SetRow { first_ordinal: 5, ..set() }.ordinals(), 5..8);
    assert_eq!(SetRow { replicas: 0, ..set() }.ordinals(), 0..0);
    assert_eq!(SetRow { first_ordinal: u32::MAX, ..set() }.ordinals(), u32::MAX..u32::MAX);
}

#[test]
fn a_pod_is_built_from_the_current_revision_below_the_partition_and_from_the_update_revision_elsewhere() {
    let set = SetRow { current_revision: Some("old".into()), first_ordinal: 5, ..set() };
    let rolls = SetRow { strategy: Strategy::RollingUpdate { partition: 2 }, ..set.clone() };
    assert_eq!([5, 6, 7].map(|ordinal| rolls.revision_for(ordinal)), [Some("old"), Some("old"), Some("new")]);
    assert_eq!([5, 6, 7].map(|ordinal| set.revision_for(ordinal)), [Some("new"); 3], "OnDelete");
    assert_eq!(SetRow { observed_generation: 1, ..rolls }.revision_for(5), None);
}

#[test]
fn the_ordinals_that_leave_are_read_from_an_annotation_whatever_it_holds() {
    let leaving = |value: &str| {
        let mut set = set();
        set.steering.leaving = Some(value.into());
        set.leaving().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(leaving("9,10,11"), [9, 10, 11]);
    assert_eq!(leaving(" 2 , x,, -1, 99999999999, 2"), [2]);
    assert!(leaving("").is_empty());
    assert_eq!(leaving(&"7,".repeat(1_000_000)), [7]);
    assert!(set().leaving().is_empty());
}
