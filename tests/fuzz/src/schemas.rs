//! Schemas: what was accepted is accepted again and stays as it is.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sts_plus_cluster::machinery::schema::Schema;

use crate::cluster::{Cluster, definitions};
use crate::patches::{built_in, definition, name, parse};
use crate::{cluster, parts};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The schema of a custom kind, and objects of that kind.
pub fn custom_schema(data: &[u8]) {
    let parts = parts(data);
    let Ok(schema) = parse(parts[0]) else { return };
    let cluster = Cluster::new();
    let plural = format!("{}s", cluster.name);
    let kind = cluster.name.to_uppercase();
    let defined = cluster.post(DEFINITIONS, &definition(&plural, &kind, &schema));
    if defined.code != StatusCode::CREATED {
        assert!([400, 413, 422, 500].contains(&defined.code.as_u16()), "{defined:?}");
        return;
    }
    // What is stored of the schema is what counts.
    let schema = defined.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let shape = definitions().custom(&schema);
    let collection = format!("/apis/example.com/v1/namespaces/default/{plural}");
    for body in parts.get(1..).unwrap_or_default() {
        let Ok(mut object) = parse(body) else { continue };
        if !object.is_object() {
            continue;
        }
        name(&mut object, "one");
        object["apiVersion"] = "example.com/v1".into();
        object["kind"] = kind.as_str().into();
        settles(&shape, &object);
        check(&cluster, &collection, &object, Some(&shape));
    }
    let gone = cluster.send(&Method::DELETE, &format!("{DEFINITIONS}/{plural}.example.com"), "", b"");
    assert_eq!(gone.code, StatusCode::OK, "{gone:?}");
}

/// An object of a built-in kind.
pub fn built_in_schema(data: &[u8]) {
    let Ok(mut object) = parse(data) else { return };
    let Some((kind, collection)) = built_in(&object) else { return };
    let shape = definitions().kind(kind.0, kind.1, kind.2).unwrap();
    let cluster = Cluster::new();
    name(&mut object, &cluster.name);
    settles(&shape, &object);
    check(&cluster, &collection, &object, None);
}

/// Pruning, defaulting and writing in a canonical way: doing each again changes nothing.
fn settles(shape: &Schema, object: &Value) {
    let once = |object: &Value, what: fn(&Schema, &mut Value)| {
        let mut object = object.clone();
        what(shape, &mut object);
        object
    };
    let pruned = once(object, Schema::prune);
    assert!(shape.unknown_fields(&pruned).is_empty(), "unknown fields are left of {object}: {pruned}");
    for (what, change) in [
        ("prune", Schema::prune as fn(&Schema, &mut Value)),
        ("default", Schema::default),
        ("normalize", Schema::normalize),
    ] {
        let changed = once(&pruned, change);
        assert_eq!(once(&changed, change), changed, "{what} twice, of {pruned}");
    }
}

fn check(cluster: &Cluster, collection: &str, object: &Value, shape: Option<&Schema>) {
    let strict = cluster.post(&format!("{collection}?fieldValidation=Strict&dryRun=All"), object);
    let answer = cluster.post(collection, object);
    if answer.code != StatusCode::CREATED {
        assert!([400, 403, 409, 413, 422, 500].contains(&answer.code.as_u16()), "{answer:?}");
        assert_ne!(strict.code, StatusCode::CREATED, "only strictly is it accepted: {answer:?}");
        return;
    }
    if let Some(shape) = shape {
        let causes = shape.validate(&answer.body);
        assert!(causes.is_empty(), "{} was stored and is invalid: {causes:?}", answer.body);
        // Defaults are filled in, nothing unknown is kept.
        let mut again = answer.body.clone();
        shape.default(&mut again);
        shape.prune(&mut again);
        assert_eq!(again, answer.body, "more to default or to prune");
    }
    let path = format!("{collection}/{}", answer.text("/metadata/name"));
    assert_eq!(cluster.get(&path).body, answer.body, "another object is stored than was answered");
    cluster.put_back(&path, &answer.body);
    // What is shown can be said, word for word.
    let mut copy = answer.body.clone();
    copy["metadata"] = json!({ "name": "two" });
    let strict = cluster.post(&format!("{collection}?fieldValidation=Strict&dryRun=All"), &copy);
    if strict.code == StatusCode::CREATED {
        for field in
            copy.as_object().unwrap().keys().filter(|name| !matches!(name.as_str(), "metadata" | "status"))
        {
            assert_eq!(strict.body[field], copy[field], "{field} of a copy differs");
        }
    } else {
        let is_taken = strict.code == StatusCode::UNPROCESSABLE_ENTITY && shape.is_none();
        assert!(is_taken, "a copy of {} is refused: {strict:?}", answer.body);
    }
    assert!(cluster::depth(&answer.body) < 128, "no client can read it");
    cluster.check_collection(collection, &answer.body);
}
