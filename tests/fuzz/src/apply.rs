//! Server-side apply: who owns what, and that saying the same again changes nothing.

use form_urlencoded::byte_serialize;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};
use crate::parts;
use crate::patches::{THINGS, built_in, name, parse, things};

const APPLY: &str = "application/apply-patch+yaml";

/// Anything that is applied: first as it is, to a config map, then as an object of the kind that it says it is.
pub fn apply_patch(data: &[u8]) {
    let cluster = Cluster::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    check(&cluster, &format!("{maps}/m"), data);
    let text = std::str::from_utf8(data).unwrap_or_default();
    // Aliases are for the server to resist.
    let from_yaml = || (!text.contains('*')).then(|| serde_saphyr::from_str(text).ok()).flatten();
    let read: Option<Value> = parse(data).ok().or_else(from_yaml);
    let Some(mut object) = read.filter(Value::is_object) else { return };
    name(&mut object, &cluster.name);
    let collection = if let Some((_, collection)) = built_in(&object) {
        collection
    } else {
        things(&cluster);
        object["apiVersion"] = "example.com/v1".into();
        object["kind"] = "Thing".into();
        THINGS.to_owned()
    };
    let path = format!("{collection}/{}", cluster.name);
    let answer = check(&cluster, &path, object.to_string().as_bytes());
    if answer.code.is_success() {
        cluster.put_back(&path, &answer.body);
        cluster.check_collection(&collection, &answer.body);
    }
}

/// Applies twice: the second time changes nothing.
fn check(cluster: &Cluster, path: &str, body: &[u8]) -> Answer {
    let before = cluster.get(path);
    let path = &format!("{path}?fieldManager=one&force=true");
    let answer = cluster.send(&Method::PATCH, path, APPLY, body);
    if answer.code.is_success() {
        let again = cluster.send(&Method::PATCH, path, APPLY, body);
        let is_about_one_version =
            !again.code.is_success() && String::from_utf8_lossy(body).contains("resourceVersion");
        assert!(is_about_one_version || again.body == answer.body, "applied again: {answer:?}\n{again:?}");
    } else {
        let expected = [400, 409, 413, 422, 500];
        assert!(expected.contains(&answer.code.as_u16()), "{answer:?}");
        let after = cluster.get(path.split('?').next().unwrap());
        assert_eq!(before.body, after.body, "an apply that was refused changed something: {answer:?}");
    }
    answer
}

/// What managers apply to one object, one after the other. Each part is a line with the name of the manager, with a `!` if
/// it insists, and what it applies.
pub fn server_side_apply(data: &[u8]) {
    let cluster = Cluster::new();
    things(&cluster);
    let mut path = String::new();
    for part in parts(data) {
        let (first, body) = match part.iter().position(|&byte| byte == b'\n') {
            Some(at) => (&part[..at], &part[at + 1..]),
            None => (&b"one"[..], part),
        };
        let Ok(mut object) = parse(body) else { return };
        if !object.is_object() {
            return;
        }
        let manager = String::from_utf8_lossy(first);
        let (manager, force) =
            manager.strip_suffix('!').map_or((&*manager, false), |manager| (manager, true));
        let manager: String =
            byte_serialize(if manager.is_empty() { b"one" } else { manager.as_bytes() }).collect();
        if manager.len() > 256 {
            return;
        }
        name(&mut object, &cluster.name);
        if path.is_empty() {
            let collection =
                built_in(&object).map_or_else(|| THINGS.to_owned(), |(_, collection)| collection);
            path = format!("{collection}/{}", cluster.name);
        }
        if path.starts_with(THINGS) {
            object["apiVersion"] = "example.com/v1".into();
            object["kind"] = "Thing".into();
        }
        step(&cluster, &path, &manager, force, &object);
    }
    let left = cluster.get(&path);
    if left.code == StatusCode::OK {
        cluster.put_back(&path, &left.body);
    }
}

fn step(cluster: &Cluster, path: &str, manager: &str, force: bool, object: &Value) {
    let apply = |force: bool, object: &Value| {
        let path = format!("{path}?fieldManager={manager}&force={force}");
        cluster.send(&Method::PATCH, &path, APPLY, object.to_string().as_bytes())
    };
    let before = cluster.get(path);
    let answer = apply(force, object);
    match answer.code {
        StatusCode::OK | StatusCode::CREATED => {
            let again = apply(false, object);
            // Where all of a map is taken away Kubernetes leaves nothing or null, and the next apply makes it a map again.
            let text = object.to_string();
            let is_hollow = ["{}", "[]", "null"].iter().any(|hollow| text.contains(hollow));
            if object.pointer("/metadata/resourceVersion").is_none() && !is_hollow {
                assert_eq!(again.code, StatusCode::OK, "applied again, it is refused: {again:?}");
                assert_eq!(again.body, answer.body, "applied again, it is a change");
            }
            check_owned(object, &answer.body);
        }
        StatusCode::CONFLICT if answer.body["details"].get("causes").is_some() => {
            assert!(!force, "who insists has no conflicts: {answer:?}");
            let after = cluster.get(path);
            assert_eq!(before.body, after.body, "a conflict changed something");
            let causes = answer.body["details"]["causes"].as_array().unwrap();
            assert!(!causes.is_empty());
            let owners = before.body["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            for cause in causes {
                assert_eq!(cause["reason"], "FieldManagerConflict", "{answer:?}");
                let told = cause["message"].as_str().unwrap_or_default();
                let is_owner = |owner: &Value| {
                    owner["manager"].as_str().is_some_and(|name| told.contains(&format!("{name:?}")))
                };
                assert!(owners.iter().any(is_owner), "{told} is about none of {owners:?}");
            }
            // It would have gone without asking.
            let forced = apply(true, object);
            assert_ne!(forced.code, StatusCode::CONFLICT, "{forced:?}");
        }
        code => {
            assert!([400, 409, 413, 422, 500].contains(&code.as_u16()), "{answer:?}");
            assert_eq!(before.body, cluster.get(path).body, "a refusal changed something: {answer:?}");
        }
    }
}

/// Labels that were applied are there; they are the same in every kind.
fn check_owned(applied: &Value, stored: &Value) {
    for field in ["labels", "annotations"] {
        let said = applied["metadata"][field].as_object().into_iter().flatten();
        // kubectl's own annotation is renewed.
        for (key, value) in said.filter(|(key, value)| value.is_string() && !key.starts_with("kubectl.")) {
            let found = stored["metadata"].get(field).unwrap_or(&json!({}))[key].clone();
            assert_eq!(&found, value, "{field} {key:?} was applied and is not there");
        }
    }
}
