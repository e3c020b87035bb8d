//! The CA bundle in webhook configurations: what is missing, and the patch that puts it there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::keyring::Keyring;

/// Whether all webhooks of a configuration trust the authorities of a keyring. Authorities that others have added, or that a
/// former keyring had, stay until something is missing: a replica with an older view must not remove what a newer one has written.
pub(super) fn is_complete(configuration: &Value, keyring: &Keyring) -> bool {
    webhooks(configuration).all(|(_, webhook)| {
        let bundle = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default();
        let bundle = STANDARD.decode(bundle).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        bundle.is_some_and(|bundle| !bundle.is_empty() && keyring.is_within(&bundle))
    })
}

/// A strategic merge patch that puts the bundle of a keyring into all webhooks of a configuration, at the version that was read.
pub(super) fn patch(configuration: &Value, keyring: &Keyring) -> Value {
    let bundle = STANDARD.encode(keyring.bundle());
    let webhooks: Vec<_> = webhooks(configuration)
        .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
        .collect();
    let version = configuration.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks })
}

/// The webhooks of a configuration with their names, which are unique.
fn webhooks(configuration: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    webhooks.filter_map(|webhook| Some((webhook.get("name")?.as_str()?, webhook)))
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
