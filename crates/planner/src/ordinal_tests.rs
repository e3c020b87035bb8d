use std::cmp::Ordering;

use proptest::prelude::*;

use super::{natural, of_pod};

#[test]
fn runs_of_digits_are_compared_by_value() {
    let sorted = [
        "",
        "a",
        "a-0",
        "a-01",
        "a-1",
        "a-2",
        "a-10",
        "a-10-b",
        "a-11",
        "a-99999999999999999999998",
        "a-99999999999999999999999",
        "a-x",
        "b-0",
        "zone-2-x-1",
        "zone-2-x-10",
        "zone-10-x-1",
    ];
    for (position, left) in sorted.iter().enumerate() {
        for right in &sorted[position + 1..] {
            assert_eq!(natural(left, right), Ordering::Less, "{left} {right}");
            assert_eq!(natural(right, left), Ordering::Greater, "{right} {left}");
        }
        assert_eq!(natural(left, left), Ordering::Equal);
    }
}

#[test]
fn an_ordinal_is_the_whole_rest_of_the_name() {
    assert_eq!(of_pod("web-0", "web"), Some(0));
    assert_eq!(of_pod("web-12", "web"), Some(12));
    assert_eq!(of_pod("web-4294967295", "web"), Some(u32::MAX));
    assert_eq!(of_pod("web-2-7", "web-2"), Some(7));
    let strangers =
        ["web", "web-", "web--1", "web-01", "web-00", "web-1a", "web-2-7", "web-4294967296", "webx-1", "1"];
    for name in strangers {
        assert_eq!(of_pod(name, "web"), None, "{name}");
    }
}

proptest! {
    #[test]
    fn the_order_is_total(
        one in "[a-b]?[0-9-]{0,5}", two in "[a-b]?[0-9-]{0,5}", three in "[a-b]?[0-9-]{0,5}",
    ) {
        prop_assert_eq!(natural(&one, &two), natural(&two, &one).reverse());
        prop_assert_eq!(natural(&one, &two) == Ordering::Equal, one == two);
        let mut names = [one, two, three];
        names.sort_by(|left, right| natural(left, right));
        prop_assert_ne!(natural(&names[0], &names[2]), Ordering::Greater);
    }

    #[test]
    fn pods_of_a_set_are_in_the_order_of_their_ordinals(left: u32, right: u32) {
        let pods = [left, right].map(|ordinal| format!("ingester-zone-2-{ordinal}"));
        prop_assert_eq!(natural(&pods[0], &pods[1]), left.cmp(&right));
        prop_assert_eq!(of_pod(&pods[0], "ingester-zone-2"), Some(left));
    }

    #[test]
    fn no_name_panics(left in ".{0,8}", right in ".{0,8}") {
        natural(&left, &right);
        of_pod(&left, &right);
    }
}
