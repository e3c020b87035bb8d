use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::keyring::Keyring;
use super::super::renewal::Timing;
use super::{is_complete, patch};

fn now() -> Timestamp {
    "2026-11-19T00:00:00Z".parse().unwrap()
}

fn keyring(before: &Keyring) -> Keyring {
    before.renewed((true, true), &["a.b.svc".to_owned()], now(), &Timing::default()).unwrap()
}

fn configuration(bundles: &[Option<&str>]) -> Value {
    let webhook = |(at, bundle): (usize, Option<&str>)| {
        let mut config = json!({ "service": { "namespace": "b", "name": "a" } });
        if let Some(bundle) = bundle {
            config["caBundle"] = STANDARD.encode(bundle).into();
        }
        json!({ "name": format!("hook-{at}.sts.plus"), "clientConfig": config })
    };
    let webhooks: Vec<_> = bundles.iter().copied().enumerate().map(webhook).collect();
    json!({ "metadata": { "name": "a-webhook", "resourceVersion": "7" }, "webhooks": webhooks })
}

#[test]
fn a_bundle_is_written_where_an_authority_is_missing() {
    let old = keyring(&Keyring::default());
    let new =
        old.renewed((true, false), &[], now() + SignedDuration::from_hours(24), &Timing::default()).unwrap();
    let other = keyring(&Keyring::default());
    let (old_text, new_text) = (old.bundle(), new.bundle());
    let other_text = other.bundle();
    let both = new_text.clone() + &other_text;
    let cases: [(&[Option<&str>], &Keyring, bool); 10] = [
        (&[], &old, true),
        (&[None], &old, false),
        (&[Some("")], &old, false),
        (&[Some("no certificate")], &old, false),
        (&[Some(&old_text)], &old, true),
        (&[Some(&old_text)], &new, false),
        // A replica that does not know the new authority yet leaves it.
        (&[Some(&new_text)], &old, true),
        (&[Some(&both)], &new, true),
        (&[Some(&old_text), None], &old, false),
        (&[Some(&other_text)], &old, false),
    ];
    for (at, (bundles, keyring, expected)) in cases.into_iter().enumerate() {
        assert_eq!(is_complete(&configuration(bundles), keyring), expected, "{at}");
    }
}

#[test]
fn the_patch_names_every_webhook_and_the_version() {
    let keyring = keyring(&Keyring::default());
    let patch = patch(&configuration(&[None, Some("x")]), &keyring);
    let bundle = STANDARD.encode(keyring.bundle());
    let webhook = |name: &str| json!({ "name": name, "clientConfig": { "caBundle": bundle } });
    let webhooks = [webhook("hook-0.sts.plus"), webhook("hook-1.sts.plus")];
    assert_eq!(patch, json!({ "metadata": { "resourceVersion": "7" }, "webhooks": webhooks }));
}

#[test]
fn a_configuration_without_webhooks_needs_nothing() {
    let keyring = keyring(&Keyring::default());
    for odd in
        [json!({}), json!({ "webhooks": null }), json!({ "webhooks": {} }), json!({ "webhooks": [7, {}] })]
    {
        assert!(is_complete(&odd, &keyring), "{odd}");
    }
}
