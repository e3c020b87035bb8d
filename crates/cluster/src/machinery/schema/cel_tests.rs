//! Rules that are judged, and rules that are refused.

use serde_json::{Value, json};

use super::super::{Definitions, Schema};
use super::*;

fn schema(spec: &Value) -> Schema {
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    assert_eq!(complaints(&schema, "schema"), []);
    Definitions::built_in().unwrap().custom(&schema)
}

fn rule(rule: &str) -> Value {
    json!([{ "rule": rule }])
}

fn object(spec: &Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

fn refusals(schema: &Schema, spec: &Value, before: Option<&Value>) -> Vec<String> {
    let causes = schema.judge(&object(spec), before.map(object).as_ref());
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn complaint(rule: &Value) -> String {
    let schema = json!({ "type": "object", "x-kubernetes-validations": [rule] });
    let found = complaints(&schema, "schema");
    let [cause] = found.as_slice() else { panic!("{rule}: {found:?}") };
    format!("{}: {}", cause.field, cause.message)
}

#[test]
fn rules_hold_at_every_place_of_their_schema() {
    let part = json!({ "type": "object", "properties": { "size": { "type": "integer" } },
        "x-kubernetes-validations": [{ "rule": "self.size > 0", "message": "too small", "fieldPath": ".size" }] });
    let schema = schema(&json!({ "type": "object", "properties": {
        "parts": { "type": "array", "items": part }, "named": { "type": "object", "additionalProperties": part },
    }, "x-kubernetes-validations": rule("has(self.parts) || has(self.named)") }));
    let spec = json!({ "parts": [{ "size": 1 }, { "size": 0 }], "named": { "a": { "size": -1 }, "b": { "size": 2 } } });
    let expected =
        ["spec.named[a].size: Invalid value: too small", "spec.parts[1].size: Invalid value: too small"];
    assert_eq!(refusals(&schema, &spec, None), expected);
    let failed = "spec: Invalid value: failed rule: has(self.parts) || has(self.named)";
    assert_eq!(refusals(&schema, &json!({}), None), [failed]);
}

#[test]
fn a_change_is_judged_against_the_past_of_its_item() {
    let schema = schema(&json!({ "type": "array",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": { "type": "object", "properties": { "name": { "type": "string" }, "size": { "type": "integer" } },
            "x-kubernetes-validations": rule("self.size >= oldSelf.size") } }));
    let before = json!([{ "name": "a", "size": 5 }, { "name": "b", "size": 1 }]);
    let after = |size: i64| json!([{ "name": "b", "size": 1 }, { "name": "a", "size": size }, { "name": "c", "size": 0 }]);
    assert_eq!(refusals(&schema, &after(5), Some(&before)), [""; 0]);
    let shrunk = "spec[1]: Invalid value: failed rule: self.size >= oldSelf.size";
    assert_eq!(refusals(&schema, &after(4), Some(&before)), [shrunk]);
    assert_eq!(refusals(&schema, &after(4), None), [""; 0], "a new object has no past");
}

#[test]
fn what_did_not_change_need_not_follow_new_rules() {
    let schema = schema(&json!({ "type": "object", "required": ["size"], "properties": {
        "size": { "type": "integer", "maximum": 9, "x-kubernetes-validations": rule("self < 3") },
        "other": { "type": "string" },
    } }));
    let too_large = json!({ "size": 20, "other": "a" });
    assert_eq!(refusals(&schema, &too_large, None).len(), 2);
    let touched = json!({ "size": 20, "other": "b" });
    assert_eq!(refusals(&schema, &touched, Some(&too_large)), [""; 0]);
    assert_eq!(refusals(&schema, &json!({ "size": 21 }), Some(&too_large)).len(), 2);
    assert_eq!(refusals(&schema, &json!({ "other": "a" }), Some(&json!({ "other": "b" }))).len(), 2);
}

#[test]
fn rules_wait_for_objects_that_have_their_types() {
    let schema = schema(&json!({ "type": "object", "properties": { "size": { "type": "integer" } },
        "x-kubernetes-validations": rule("self.size > 0") }));
    let found = refusals(&schema, &json!({ "size": "x" }), None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("some validation rules were not checked"), "{found:?}");
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let mut cases: Vec<(Value, &str)> = [
        ("self.size >", "compilation failed"),
        ("type(self.a) == int", "type() is not known"),
        ("self.?a.orValue(true)", "compilation failed"),
        ("self.a.sortBy(x, x)[0] == 1", "is not known"),
        ("cel.bind(x, self.a, x == x)", "is not known"),
        ("other.a == 1", "other is not known"),
        ("self.a.all(x, y == 1)", "y is not known"),
        ("x == 1 && self.a.all(x, x == 1)", "x is not known"),
        ("Thing{a: 1} == self", "Thing is not known"),
        (" ", "rule is not specified"),
    ]
    .map(|(rule, words)| (json!({ "rule": rule }), words))
    .to_vec();
    cases.extend([
        (json!({ "rule": "self == oldSelf", "optionalOldSelf": true }), "optional oldSelf"),
        (json!({ "rule": "true", "messageExpression": "'a' +" }), "messageExpression"),
        (json!({ "rule": "true", "reason": "Because" }), "supported values: \"FieldValueDuplicate\""),
        (json!({ "message": "x" }), "rule is not specified"),
    ]);
    for (rule, words) in cases {
        let found = complaint(&rule);
        assert!(found.contains(words), "{rule}: {words:?} not in {found}");
    }
}

#[test]
fn what_can_be_judged_is_accepted() {
    for rule in [
        "self.a.all(x, x > 0) && self.a.exists(x, x == 1) && self.a.exists_one(x, x == 1)",
        "self.a.map(x, x + 1).filter(x, x > 0).size() == 1",
        "has(self.b) ? self.b.startsWith('x') : true",
        "self.b.matches('^a') || self.b.lowerAscii() in ['a', 'b'] || self.b.split(',').size() > 1",
        "sets.contains(self.a, [1]) && math.greatest(1, 2) == 2 && isQuantity(self.b)",
        "quantity(self.b).isGreaterThan(quantity('1Gi')) && duration('1h') > duration('1s')",
        "self.a.map(x, self.a.map(y, x + y)).size() == {'a': 1}['a']",
        "url(self.b).getHost() == 'x' && isIP('1.2.3.4') && int('1') == 1 && string(1) == '1'",
    ] {
        let schema = json!({
            "type": "object", "x-kubernetes-validations": [{ "rule": rule }],
            "properties": { "a": { "type": "array", "items": { "type": "integer" } }, "b": { "type": "string" } },
        });
        assert_eq!(complaints(&schema, "schema"), [], "{rule}");
        let schema = json!({ "type": "object", "x-kubernetes-validations": [{ "rule": rule }] });
        assert!(complaints(&schema, "schema")[0].message.contains("undefined field"), "{rule}");
    }
}

#[test]
fn a_past_needs_keys() {
    let items = json!({ "type": "string", "x-kubernetes-validations": rule("self == oldSelf") });
    for (list_type, accepted) in [("map", true), ("set", false), ("atomic", false)] {
        let schema = json!({ "type": "object", "properties": {
            "list": { "type": "array", "x-kubernetes-list-type": list_type, "items": items },
        } });
        let found = complaints(&schema, "schema");
        assert_eq!(found.is_empty(), accepted, "{found:?}");
        let told = "uncorrelatable portion of the schema within schema.properties[list]";
        assert!(found.iter().all(|cause| cause.message.contains(told)), "{found:?}");
    }
}

/// Tests run on threads with small stacks.
#[test]
fn no_expression_exhausts_the_stack() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("!", "true", ""),
        ("-", "1", ""),
        ("1 + ", "1", ""),
        ("self.a ? 1 : ", "1", ""),
        ("true && ", "true", ""),
        ("self.", "a", ""),
        ("size(", "1", ")"),
        ("self.a.all(x, ", "true", ")"),
        ("", "self", ".a"),
        ("", "self", "[0]"),
        ("", "self", ".trim()"),
        ("{1: ", "1", "}"),
    ] {
        for length in [1, 4, 8, 12, 16, 32, 39, 59, 79, 119, 239, 240, 400] {
            let deep = format!("{}{middle}{}", open.repeat(length), close.repeat(length));
            let rule = json!({ "rule": deep });
            let schema = json!({ "type": "object", "x-kubernetes-validations": [rule] });
            let _ = complaints(&schema, "schema");
            let _ = Definitions::built_in().unwrap().custom(&schema).judge(&json!({ "a": true }), None);
        }
    }
}

#[test]
fn loops_within_loops_come_to_an_end() {
    let all = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
    let list =
        json!({ "type": "array", "items": { "type": "integer" }, "x-kubernetes-validations": rule(all) });
    let schema = schema(&json!({ "type": "object", "properties": { "short": list, "long": list } }));
    let refused = refusals(&schema, &json!({ "long": vec![1; 100], "short": [1, -9] }), None);
    assert_eq!(refused, [format!("<nil>: Invalid value: null: {OUT_OF_STEPS}")]);
    assert_eq!(refusals(&schema, &json!({ "short": [1, 2, 3] }), None), Vec::<String>::new());
}
