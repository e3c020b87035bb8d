use jiff::{SignedDuration, Timestamp};

use super::{Certificate, DAY, Facts, Step, Timing, step};

fn now() -> Timestamp {
    "2026-11-19T00:00:00Z".parse().unwrap()
}

fn days(days: i32) -> Timestamp {
    now() + DAY * days
}

/// What is decided about an authority with so many days left, and a certificate with so many, which is of it or not.
fn decide(authority: Option<i32>, certificate: Option<(i32, bool)>, is_announced: bool) -> Step {
    let certificate =
        certificate.map(|(left, is_of_authority)| Certificate { until: days(left), is_of_authority });
    let facts = Facts { authority: authority.map(days), certificate, is_announced };
    step(facts, now(), &Timing::default())
}

fn make(authority: bool, certificate: bool) -> Step {
    Step::Make { authority, certificate }
}

#[test]
fn d_w3_what_is_due_is_made() {
    let cases = [
        // Nothing there, or nothing usable.
        (None, None, false, make(true, true)),
        (Some(0), None, true, make(true, true)),
        (Some(-5), Some((-5, true)), true, make(true, true)),
        // An authority that may be used, and no certificate.
        (Some(700), None, false, make(false, true)),
        (Some(700), Some((0, true)), false, make(false, true)),
        (Some(700), Some((-1, false)), false, make(false, true)),
        // Time left.
        (Some(700), Some((90, true)), false, Step::Keep),
        (Some(181), Some((31, true)), false, Step::Keep),
        // A certificate is due.
        (Some(700), Some((30, true)), true, make(false, true)),
        (Some(700), Some((30, true)), false, Step::Await),
        (Some(700), Some((1, true)), false, Step::Await),
        // An authority is due, or its key is lost: the certificate is shown until the next authority is announced.
        (Some(180), Some((90, true)), true, make(true, false)),
        (Some(-1), Some((90, true)), true, make(true, false)),
        (None, Some((90, false)), true, make(true, false)),
        (Some(730), Some((90, false)), false, Step::Await),
        (Some(730), Some((90, false)), true, make(false, true)),
        (Some(730), Some((1, false)), false, Step::Await),
    ];
    for (authority, certificate, is_announced, expected) in cases {
        let found = decide(authority, certificate, is_announced);
        assert_eq!(found, expected, "{authority:?} {certificate:?} {is_announced}");
    }
}

#[test]
fn a_clock_that_was_set_back_renews_nothing() {
    // The machine's clock is years behind the one that the certificates were made by.
    for years in [1, 10, 30] {
        let left = 365 * years;
        assert_eq!(decide(Some(left + 730), Some((left + 90, true)), true), Step::Keep);
    }
}

#[test]
fn no_certificate_outlives_its_authority() {
    let timing = Timing::default();
    assert!(timing.authority_margin > timing.certificate_lifetime);
    assert!(timing.authority_lifetime > timing.authority_margin);
    assert!(timing.certificate_lifetime > timing.certificate_margin);
    assert!(timing.certificate_margin > timing.announcement * 100);
    assert!(timing.announcement > SignedDuration::ZERO);
}
