//! Field selectors.

use serde_json::json;

use super::*;

#[test]
fn field_selectors_know_the_fields_of_their_kind() {
    let known = ["metadata.name", "metadata.namespace"];
    let object = json!({ "metadata": { "name": "a" } });
    assert!(FieldSelector::parse("metadata.name=a", &known, false).unwrap().matches(&object));
    assert!(FieldSelector::parse("metadata.name==a", &known, false).unwrap().matches(&object));
    assert!(!FieldSelector::parse("metadata.name!=a", &known, false).unwrap().matches(&object));
    assert!(FieldSelector::parse("metadata.namespace=", &known, false).unwrap().matches(&object));
    assert_eq!(
        FieldSelector::parse("spec.foo=bar", &known, false).unwrap_err().to_string(),
        "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    assert_eq!(
        FieldSelector::parse("garbage", &known, false).unwrap_err().to_string(),
        "invalid selector: 'garbage'; can't understand 'garbage'"
    );
}

#[test]
fn values_are_escaped() {
    let parse = |text: &str| FieldSelector::parse(text, &["metadata.name"], false);
    let object = json!({ "metadata": { "name": "a,b=c\\" } });
    assert!(parse("metadata.name=a\\,b\\=c\\\\").unwrap().matches(&object));
    for (text, why) in [
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("spec.foo=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), why);
    }
}
