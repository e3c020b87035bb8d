use serde_json::{Value, json};

use super::*;
use crate::machinery::stored::Stored;

fn object() -> Value {
    let fields = json!({ "f:data": { "f:<&>": {}, "k:{\"a\":\"\u{2028}\"}": {} } });
    json!({
        "metadata": {
            "name": "one",
            "managedFields": [{ "manager": "\"me\"", "operation": "Update", "fieldsV1": fields }],
        },
        "data": { "managedFields": ["not these"] },
    })
}

#[test]
fn what_is_packed_and_taken_apart_again_is_the_same() {
    let mut packed = object();
    pack(&mut packed);
    assert!(packed["metadata"]["managedFields"].is_string());
    assert_eq!(packed["data"], object()["data"]);
    let once = packed.clone();
    pack(&mut packed);
    assert_eq!(packed, once, "packing is not done twice");
    unpack(&mut packed);
    assert_eq!(packed, object());
    unpack(&mut packed);
    assert_eq!(packed, object(), "nor is taking apart");
}

#[test]
fn a_kept_object_is_shown_as_if_nothing_was_packed() {
    let stored = Stored::new(object());
    assert_eq!(stored.fields(), show::bytes(&object()));
    assert_eq!(stored.whole(), object());
    let metadata = object()["metadata"].clone();
    assert_eq!(show::bytes(&Metadata(&stored["metadata"])), show::bytes(&metadata));
}

#[test]
fn objects_without_managers_or_with_nonsense_in_their_place_are_left_alone() {
    for object in [
        json!(null),
        json!({ "metadata": null }),
        json!({ "metadata": { "name": "one" } }),
        json!({ "metadata": { "managedFields": "{" } }),
    ] {
        let mut kept = object.clone();
        pack(&mut kept);
        unpack(&mut kept);
        assert_eq!(kept, object);
        assert_eq!(show::bytes(&Metadata(&object["metadata"])), show::bytes(&object["metadata"]));
    }
}
