use serde_json::json;

use super::*;

const KIND: KindId = KindId(1);

fn key(namespace: &str, name: &str) -> Key {
    Key { kind: KIND, namespace: namespace.to_owned(), name: name.to_owned() }
}

fn names<'a>(objects: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>) -> Vec<String> {
    objects.map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect()
}

#[test]
fn objects_are_listed_in_the_order_of_their_paths() {
    let mut store = Store::new(10);
    for (namespace, name) in [("a", "x"), ("a-b", "x"), ("a", "b"), ("b", "y")] {
        store.put(key(namespace, name), json!({}));
    }
    assert_eq!(names(store.list(KIND, None)), ["a-b/x", "a/b", "a/x", "b/y"]);
    assert_eq!(names(store.list(KIND, Some("a"))), ["a/b", "a/x"]);
    assert_eq!(names(store.list(KIND, Some("c"))), Vec::<String>::new());
    assert_eq!(names(store.list(KindId(2), None)), Vec::<String>::new());
}

#[test]
fn the_past_can_be_listed_until_it_is_compacted() {
    let mut store = Store::new(10);
    store.put(key("", "a"), json!({ "n": 1 }));
    let first = store.version();
    store.put(key("", "a"), json!({ "n": 2 }));
    store.put(key("", "b"), json!({}));
    store.remove(key("", "a"), json!({ "n": 2 }));
    let then = store.list_at(KIND, first).unwrap();
    assert_eq!(then.len(), 1);
    assert_eq!(then[&key("", "a")]["n"], 1);
    assert_eq!(names(store.list(KIND, None)), ["/b"]);
    store.compact();
    assert_eq!(store.list_at(KIND, first), Err(Compacted { compacted: store.version() }));
    assert!(store.list_at(KIND, store.version()).is_ok());
}

#[test]
fn a_kind_that_is_defined_later_has_no_past_and_has_lost_nothing() {
    let mut store = Store::new(10);
    store.put(key("", "a"), json!({}));
    let later = KindId(2);
    store.begin_kind(later);
    let began = store.began(later);
    assert_eq!((store.began(KIND), began), (0, store.version()));
    let refused = store.changes(later, began - 1, 1).map(drop);
    assert_eq!(refused, Err(Compacted { compacted: began }));
    store.put(Key { kind: later, ..key("", "b") }, json!({}));
    let told: Vec<_> = store.changes(later, began, 10).unwrap().map(|change| change.version).collect();
    assert_eq!(told, [began + 1]);
}

#[test]
fn the_past_is_bounded_and_says_so() {
    let mut store = Store::new(2);
    for n in 0..4 {
        store.put(key("", "a"), json!({ "n": n }));
    }
    let latest = store.version();
    let seen: Vec<u64> = store.changes(KIND, latest - 2, 9).unwrap().map(|change| change.version).collect();
    assert_eq!(seen, [latest - 1, latest]);
    assert_eq!(store.changes(KIND, latest - 2, 1).unwrap().count(), 1);
    let gone = store.changes(KIND, latest - 3, 9).err();
    assert_eq!(gone, Some(Compacted { compacted: latest - 2 }));
}

#[test]
fn the_end_of_an_object_has_a_version_of_its_own() {
    let mut store = Store::new(10);
    let created = store.put(key("", "a"), json!({ "metadata": { "name": "a" } }));
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let gone = store.remove(key("", "a"), (*created).clone());
    assert!(version(&gone) > version(&created));
    let end = store.changes(KIND, version(&created), 9).unwrap().next().unwrap();
    assert!(end.deleted);
    assert_eq!(end.before, Some(created));
}
