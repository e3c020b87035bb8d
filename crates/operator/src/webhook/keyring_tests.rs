use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::renewal::{Facts, Step, Timing, step};
use super::{Keyring, MAX_AUTHORITIES};

const AT: (&str, &str) = ("operators", "sts-plus-webhook");

fn now() -> Timestamp {
    "2026-11-19T00:00:00Z".parse().unwrap()
}

fn in_days(days: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_hours(24 * days)
}

fn names() -> Vec<String> {
    vec!["sts-plus.operators.svc".to_owned(), "127.0.0.1".to_owned()]
}

fn fresh() -> Keyring {
    Keyring::default().renewed((true, true), &names(), now(), &Timing::default()).unwrap()
}

fn secret(keyring: &Keyring) -> Value {
    keyring.secret(AT, None)
}

fn decide(keyring: &Keyring, is_announced: bool, at: Timestamp) -> Step {
    step(keyring.facts(is_announced), at, &Timing::default())
}

fn make(authority: bool, certificate: bool) -> Step {
    Step::Make { authority, certificate }
}

fn decoded(secret: &Value, key: &str) -> String {
    let data = STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
    String::from_utf8(data).unwrap()
}

#[test]
fn d_w3_an_existing_secret_is_reused() {
    let made = fresh();
    let secret = secret(&made);
    assert_eq!(secret["type"], "kubernetes.io/tls");
    for (key, part) in [
        ("tls.crt", "BEGIN CERTIFICATE"),
        ("tls.key", "PRIVATE KEY"),
        ("ca.crt", "BEGIN CERTIFICATE"),
        ("ca.key", "PRIVATE KEY"),
    ] {
        assert!(decoded(&secret, key).contains(part), "{key}");
    }
    let read = Keyring::of_secret(&secret, &names(), now());
    assert_eq!(read.bundle(), made.bundle());
    assert_eq!(decide(&read, false, now()), Step::Keep);
    assert_eq!(read.shows(now()).unwrap().1, in_days(90));
    assert_eq!(read.authority_until(), Some(in_days(730)));
    assert!(!format!("{read:?}").contains("PRIVATE"));
}

#[test]
fn what_is_unusable_in_a_secret_is_made_again_and_the_rest_is_kept() {
    let good = secret(&fresh());
    let other = secret(&fresh());
    let garbage = STANDARD.encode("garbage");
    let binary = STANDARD.encode([0xff, 0xfe, 0x00]);
    let (both, nothing) = (make(true, true), Step::Keep);
    let cases = [
        ("ca.crt", Value::Null, both),
        ("ca.crt", garbage.clone().into(), both),
        // The key of another authority: this one can sign nothing, and still vouches for what it has signed.
        ("ca.key", other["data"]["ca.key"].clone(), make(true, false)),
        ("ca.key", garbage.clone().into(), make(true, false)),
        ("ca.key", Value::Null, make(true, false)),
        ("tls.key", other["data"]["tls.key"].clone(), make(false, true)),
        ("tls.key", garbage.clone().into(), make(false, true)),
        ("tls.key", json!(7), make(false, true)),
        ("tls.crt", other["data"]["tls.crt"].clone(), make(false, true)),
        ("tls.crt", binary.into(), make(false, true)),
        ("tls.crt", "no base64".into(), make(false, true)),
        ("tls.crt", "".into(), make(false, true)),
        // One of an authority that nobody trusts.
        ("ca.crt", other["data"]["ca.crt"].clone(), both),
        ("other", garbage.into(), nothing),
    ];
    for (key, value, expected) in cases {
        let mut secret = good.clone();
        secret["data"][key] = value.clone();
        let read = Keyring::of_secret(&secret, &names(), now());
        assert_eq!(decide(&read, true, now()), expected, "{key}: {value}");
        let Step::Make { authority, certificate } = expected else { continue };
        let renewed = read.renewed((authority, certificate), &names(), now(), &Timing::default()).unwrap();
        let after = renewed.secret(AT, Some(&secret));
        let after = Keyring::of_secret(&after, &names(), now());
        let next = decide(&after, true, now());
        assert!(
            next == Step::Keep || (!certificate && next == make(false, true)),
            "{key}: {value}: {next:?}"
        );
        assert!(after.shows(now()).is_some(), "{key}: {value}");
    }
    for odd in [json!(null), json!({}), json!({ "data": null }), json!({ "data": [] })] {
        assert_eq!(decide(&Keyring::of_secret(&odd, &names(), now()), true, now()), both, "{odd}");
    }
}

#[test]
fn the_other_fields_of_a_secret_stay() {
    let before = json!({
        "metadata": { "name": "sts-plus-webhook", "resourceVersion": "9", "labels": { "a": "b" } },
        "type": "Opaque",
        "data": { "tls.crt": "eA==", "note": "eA==" },
    });
    let after = fresh().secret(AT, Some(&before));
    assert_eq!(after["metadata"], before["metadata"]);
    assert_eq!(after["type"], "Opaque");
    assert_eq!(after["data"]["note"], "eA==");
    assert_ne!(after["data"]["tls.crt"], "eA==");
}

#[test]
fn a_certificate_for_other_names_is_made_again() {
    let secret = secret(&fresh());
    let renamed = vec!["other.operators.svc".to_owned()];
    assert_eq!(decide(&Keyring::of_secret(&secret, &renamed, now()), true, now()), make(false, true));
    let fewer = vec!["127.0.0.1".to_owned()];
    assert_eq!(decide(&Keyring::of_secret(&secret, &fewer, now()), true, now()), Step::Keep);
}

/// The whole life: the bundle of every moment has the authority of what is shown.
#[test]
fn a_renewed_authority_is_announced_before_it_is_used() {
    let first = fresh();
    let shown = |keyring: &Keyring, at| keyring.shows(at).unwrap().0.cert.clone();
    // The certificate, by the same authority.
    let at = in_days(60);
    assert_eq!(decide(&first, false, at), Step::Await);
    assert_eq!(decide(&first, true, at), make(false, true));
    let second = first.renewed((false, true), &names(), at, &Timing::default()).unwrap();
    assert_eq!(second.bundle(), first.bundle());
    assert_ne!(shown(&second, at), shown(&first, at));

    // The authority: both are in the bundle, and the same certificate is shown.
    let at = in_days(551);
    let third = second.renewed((false, true), &names(), in_days(500), &Timing::default()).unwrap();
    assert_eq!(decide(&third, true, at), make(true, false));
    let announced = third.renewed((true, false), &names(), at, &Timing::default()).unwrap();
    assert!(announced.bundle().ends_with(&third.bundle()) && third.is_within(&announced.bundle()));
    assert!(!announced.is_within(&third.bundle()));
    assert_eq!(shown(&announced, at), shown(&third, at));
    let announced = Keyring::of_secret(&announced.secret(AT, None), &names(), at);
    assert_eq!(decide(&announced, false, at), Step::Await);
    assert_eq!(decide(&announced, true, at), make(false, true));
    let fourth = announced.renewed((false, true), &names(), at, &Timing::default()).unwrap();
    assert_eq!(fourth.bundle(), announced.bundle());
    assert_eq!(decide(&fourth, false, at), Step::Keep);
    // The first authority leaves the bundle once it has ended.
    let later = Keyring::of_secret(&fourth.secret(AT, None), &names(), in_days(731));
    assert_eq!(later.bundle().matches("BEGIN").count(), 1);
}

#[test]
fn a_deleted_secret_comes_back_with_another_authority_and_the_certificate_that_is_shown() {
    let before = fresh();
    let lost = before.without_authority_key();
    assert_eq!(decide(&lost, true, now()), make(true, false));
    let after = lost.renewed((true, false), &names(), now(), &Timing::default()).unwrap();
    let (old, new) = (secret(&before), secret(&after));
    assert_eq!(old["data"]["tls.crt"], new["data"]["tls.crt"]);
    assert_ne!(old["data"]["ca.key"], new["data"]["ca.key"]);
    assert!(before.is_within(&after.bundle()));
}

#[test]
fn expired_and_untimely_certificates() {
    let made = fresh();
    let secret = secret(&made);
    let at = |when: Timestamp| Keyring::of_secret(&secret, &names(), when);
    // Expired: nothing is shown.
    let late = in_days(91);
    assert!(at(late).shows(late).is_none());
    assert_eq!(decide(&at(late), false, late), make(false, true));
    let too_late = in_days(800);
    assert_eq!(decide(&at(too_late), false, too_late), make(true, true));
    // A clock that is behind shows what there is and makes nothing.
    for early in ["2020-01-01T00:00:00Z", "1970-01-02T00:00:00Z"] {
        let early: Timestamp = early.parse().unwrap();
        assert!(at(early).shows(early).is_some(), "{early}");
        assert_eq!(decide(&at(early), true, early), Step::Keep, "{early}");
        // And what it would have to make nobody could use.
        assert!(Keyring::default().renewed((true, true), &names(), early, &Timing::default()).is_err());
    }
}

#[test]
fn a_bundle_has_a_few_authorities_at_most() {
    let mut keyring = fresh();
    for _ in 0..MAX_AUTHORITIES * 2 {
        keyring = keyring.renewed((true, true), &names(), now(), &Timing::default()).unwrap();
    }
    assert_eq!(keyring.bundle().matches("BEGIN").count(), MAX_AUTHORITIES);
    let read = Keyring::of_secret(&secret(&keyring), &names(), now());
    assert_eq!(decide(&read, true, now()), Step::Keep);
    assert_ne!(read.facts(true), Facts::default());
}
