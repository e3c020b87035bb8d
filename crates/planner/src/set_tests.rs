use super::SetRow;
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
