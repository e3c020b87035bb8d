use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::machinery::arbitrary;

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-c.:]{1,3}".prop_map(Element::Field),
        "[a-c]".prop_map(|name| Element::Key(vec![("name".to_owned(), Scalar(json!(name)))])),
        (0..3_i64).prop_map(|port| Element::Value(Scalar(json!(port)))),
        (0..3_i64).prop_map(Element::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    proptest::collection::vec(proptest::collection::vec(element(), 1..4), 0..6).prop_map(|paths| {
        let mut set = Set::default();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

proptest! {
    #[test]
    fn what_is_written_can_be_read(set in set()) {
        prop_assert_eq!(Set::decode(&set.encode()), Some(set));
    }

    #[test]
    fn sets_are_sets(left in set(), right in set()) {
        let (union, common) = (left.union(&right), left.intersection(&right));
        prop_assert_eq!(&union, &right.union(&left));
        prop_assert_eq!(&common, &right.intersection(&left));
        prop_assert_eq!(left.difference(&right).union(&common), left.clone());
        prop_assert_eq!(left.difference(&right).intersection(&right), Set::default());
        prop_assert_eq!(union.paths().len() + common.paths().len(), left.paths().len() + right.paths().len());
    }

    #[test]
    fn no_json_makes_reading_panic(fields in arbitrary::value()) {
        let _ = Set::decode(&fields);
    }
}

#[test]
fn a_field_and_what_is_below_it_are_told_apart() {
    let fields = json!({ "f:spec": { ".": {}, "f:replicas": {} }, "f:data": { "f:a": {} } });
    let set = Set::decode(&fields).unwrap();
    assert!(set.contains(&Element::Field("spec".to_owned())));
    assert!(!set.contains(&Element::Field("data".to_owned())));
    assert_eq!(set.encode(), fields);
    assert_eq!(set.without(&["spec"]).encode(), json!({ "f:data": { "f:a": {} } }));
}

#[test]
fn what_is_no_set_is_not_read() {
    for fields in
        [json!([]), json!({ "x:a": {} }), json!({ "spec": {} }), json!({ "k:no": {} }), json!({ "f:a": 1 })]
    {
        assert_eq!(Set::decode(&fields), None, "{fields}");
    }
}
