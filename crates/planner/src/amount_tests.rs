use proptest::prelude::*;

use super::Amount;

#[test]
fn counts_and_percentages_are_read() {
    assert_eq!(Amount::parse("3"), Some(Amount::Count(3)));
    assert_eq!(Amount::parse("\t3 \n"), Some(Amount::Count(3)));
    assert_eq!(Amount::parse("4294967295"), Some(Amount::Count(u32::MAX)));
    assert_eq!(Amount::parse("1%"), Some(Amount::Percent(1)));
    assert_eq!(Amount::parse(" 100% "), Some(Amount::Percent(100)));
}

#[test]
fn anything_else_is_refused() {
    for text in
        ["", " ", "0", "00", "-1", "+1", "1.0", "1 2", "4294967296", "0%", "101%", "+5%", "5 %", "%", "½"]
    {
        assert_eq!(Amount::parse(text), None, "{text:?}");
    }
}

#[test]
fn percentages_round_down_but_never_to_nothing() {
    assert_eq!(Amount::Percent(25).of(10), 2);
    assert_eq!(Amount::Percent(99).of(100), 99);
    assert_eq!(Amount::Percent(50).of(3), 1);
    assert_eq!(Amount::Percent(1).of(99), 1);
    assert_eq!(Amount::Percent(50).of(0), 1);
    assert_eq!(Amount::Percent(100).of(u32::MAX), u32::MAX);
    assert_eq!(Amount::Count(7).of(3), 7);
}

proptest! {
    #[test]
    fn no_text_panics_and_every_amount_is_positive(text in ".{0,12}", replicas: u32) {
        if let Some(amount) = Amount::parse(&text) {
            prop_assert!(amount.of(replicas) >= 1);
        }
    }

    #[test]
    fn a_percentage_is_never_more_than_the_replicas(percent in 1..=100_u32, replicas in 1..u32::MAX) {
        let amount = Amount::parse(&format!("{percent}%")).expect("from 1 to 100");
        prop_assert!(amount.of(replicas) <= replicas);
    }
}
