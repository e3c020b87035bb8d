use serde_json::json;

use super::*;

#[test]
fn the_golden_vectors_of_upstream() {
    let empty = patch(&json!({}));
    assert_eq!(empty, r#"{"spec":{"template":{"$patch":"replace"}}}"#);
    assert_eq!(hash(&empty, 0), "589f85db5b");
    assert_eq!(hash(&empty, 1), "589f85db5c");
    let labelled = patch(&json!({ "metadata": { "labels": { "app": "a" } } }));
    assert_eq!(labelled, r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}}}}}"#);
    assert_eq!(hash(&labelled, 0), "bb7644dfd");
    assert_eq!(hash("", 0), "d8bfb7bc");
}

#[test]
fn numbers_are_written_as_go_writes_a_float() {
    let written = |number: &str| {
        let mut json = String::new();
        write_number(&serde_json::from_str(number).unwrap(), &mut json);
        json
    };
    for (read, expected) in [
        ("30", "30"),
        ("0", "0"),
        ("-7", "-7"),
        ("1.5", "1.5"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.25e-9", "1.25e-9"),
        ("9223372036854775807", "9223372036854776000"),
    ] {
        assert_eq!(written(read), expected, "{read}");
    }
}

#[test]
fn text_is_escaped_as_go_escapes_it() {
    let mut json = String::new();
    write_text("a\"\\\n\r\t\u{8}\u{c}\u{1}<>&\u{2028}\u{2029}\u{7f}ü", &mut json);
    assert_eq!(json, "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u003c\\u003e\\u0026\\u2028\\u2029\u{7f}ü\"");
}

#[test]
fn empty_objects_and_unknown_fields_survive_and_an_unset_time_does_not() {
    let template = json!({
        "metadata": { "creationTimestamp": null, "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "c", "resources": {} }], "fieldOfTomorrow": [null, false] },
    });
    let data = patch(&template);
    assert!(
        data.contains(r#""resources":{}"#) && data.contains(r#""fieldOfTomorrow":[null,false]"#),
        "{data}"
    );
    assert!(!data.contains("creationTimestamp"), "{data}");
    let read = super::template(&data).unwrap();
    assert_eq!(read.get("spec"), template.get("spec"));
    assert_eq!(patch(&Value::Object(read)), data, "a round trip changes nothing");
}

#[test]
fn data_without_a_template_that_replaces_has_none() {
    for data in [
        "",
        "{}",
        "[]",
        r#"{"spec":{"template":5}}"#,
        r#"{"spec":{"template":{"spec":{}}}}"#,
        r#"{"spec":{"template":{"$patch":"merge"}}}"#,
    ] {
        assert_eq!(template(data), None, "{data}");
    }
}

#[test]
fn long_names_are_cut() {
    assert_eq!(name("web", "589f85db5b"), "web-589f85db5b");
    assert_eq!(name(&"a".repeat(300), "x").len(), 225);
    assert_eq!(name(&"ü".repeat(150), "x").len(), 224, "not in the middle of a character");
}
