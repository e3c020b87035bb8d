//! Selectors: what can be read can be written and read again, and means the same.

use form_urlencoded::byte_serialize;
use http::StatusCode;
use serde_json::{Value, json};
use sts_plus_cluster::machinery::field_selector::FieldSelector;
use sts_plus_cluster::machinery::selector::Selector;

use crate::cluster::Cluster;
use crate::parts;

/// Longest query that is sent, in bytes: an address has a limit of its own.
const MAX_QUERY_BYTES: usize = 16 * 1024;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const KNOWN: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// The text of a label selector, and labels.
pub fn label_selector(data: &[u8]) {
    let parts = parts(data);
    let labels = parts.get(1).and_then(|labels| serde_json::from_slice(labels).ok());
    let labels: Value = labels.unwrap_or_else(|| json!({ "app": "db", "n": "5", "empty": "" }));
    let Ok(text) = std::str::from_utf8(parts[0]) else { return };
    let read = Selector::parse(text);
    if let Ok(selector) = &read {
        let shown = selector.to_string();
        let again = Selector::parse(&shown)
            .unwrap_or_else(|error| panic!("{text:?} is shown as {shown:?}, which is refused: {error}"));
        assert_eq!(again.to_string(), shown, "{text:?} is shown otherwise the second time");
        assert_eq!(again.is_empty(), selector.is_empty(), "{text:?}");
        let matches = selector.matches_labels(&labels);
        assert_eq!(again.matches_labels(&labels), matches, "{text:?} and {shown:?} on {labels}");
        assert_eq!(selector.matches(&json!({ "metadata": { "labels": labels } })), matches, "{text:?}");
        if !selector.is_empty() {
            let both = Selector::parse(&format!("{shown},{shown}")).unwrap();
            assert_eq!(both.matches_labels(&labels), matches, "{text:?} twice");
            // Whoever demands more gets less.
            let more = Selector::parse(&format!("{shown},zone=z")).unwrap();
            assert!(matches || !more.matches_labels(&labels), "{text:?} and more");
        }
    }
    check_listing("labelSelector", text, read.is_ok());
}

/// The text of a field selector, and a value that a field has.
pub fn field_selector(data: &[u8]) {
    let parts = parts(data);
    let name = parts.get(1).map_or_else(|| "a".into(), |name| String::from_utf8_lossy(name));
    let object = json!({ "metadata": { "name": name } });
    // Every value can be asked for, if it is escaped.
    let escaped: String = name
        .chars()
        .flat_map(|c| matches!(c, '\\' | ',' | '=').then_some('\\').into_iter().chain([c]))
        .collect();
    let parse = |text: &str| FieldSelector::parse(text, &KNOWN, false);
    for (operator, matches) in [("=", true), ("==", true), ("!=", false)] {
        let text = format!("metadata.name{operator}{escaped}");
        let selector = parse(&text).unwrap_or_else(|error| panic!("{text:?} is refused: {error}"));
        assert_eq!(selector.matches(&object), matches, "{text:?}");
    }
    let Ok(text) = std::str::from_utf8(parts[0]) else { return };
    let read = parse(text);
    if let Ok(selector) = &read {
        let matches = selector.matches(&object);
        let both = parse(&format!("{text},{text}")).unwrap();
        assert_eq!(both.matches(&object), matches, "{text:?} twice");
        let more = parse(&format!("metadata.namespace=z,{text}")).unwrap();
        assert!(!more.matches(&object), "{text:?} and more");
    }
    check_listing("fieldSelector", text, read.is_ok());
}

/// The server refuses just what cannot be read.
fn check_listing(option: &str, text: &str, is_good: bool) {
    let escaped: String = byte_serialize(text.as_bytes()).collect();
    if escaped.len() > MAX_QUERY_BYTES {
        return;
    }
    let answer = Cluster::new().get(&format!("{MAPS}?{option}={escaped}"));
    let expected = if is_good { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    assert_eq!(answer.code, expected, "{option} {text:?}: {answer:?}");
}
