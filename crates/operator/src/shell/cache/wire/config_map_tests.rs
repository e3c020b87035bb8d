use super::super::Interner;
use super::config_map;

#[test]
fn of_the_data_of_a_lock_the_keys_are_kept() {
    let json = r#"{"metadata": {"name": "web-lock", "namespace": "db", "uid": "u", "resourceVersion": "7",
        "ownerReferences": [{"apiVersion": "sts.plus/v1alpha1", "kind": "ScalingPolicy", "name": "web", "uid": "p", "controller": true}]},
        "data": {"0": "may run", "10": ""}, "binaryData": {"x": "AA=="}}"#;
    let row = config_map(json, &mut Interner::default()).unwrap().row.unwrap();
    assert_eq!((&*row.name, &*row.uid, row.owner.as_deref()), ("web-lock", "u", Some("p")));
    assert_eq!(row.keys.iter().map(|key| &**key).collect::<Vec<_>>(), ["0", "10", "x"]);
    assert!(row.allows(10) && !row.allows(1), "whole ordinals");
}

#[test]
fn a_lock_without_data_has_no_keys() {
    for data in ["", r#", "data": null"#, r#", "data": {}"#] {
        let json = format!(r#"{{"metadata": {{"name": "web-lock"}}{data}}}"#);
        let row = config_map(&json, &mut Interner::default()).unwrap().row.unwrap();
        assert!(row.keys.is_empty() && row.owner.is_none());
    }
}
