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
