//! Passes over objects that do not exist, or no longer: nothing is asked for, and nothing is left to do.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::super::test_server::{Ground, Server};
use super::{ExtendedStatefulSets, Key};
use crate::controllers::WORKERS;
use crate::runtime::{Controller, Runtime};
use crate::shell::api::Kind;
use crate::shell::cache::Touched;
use crate::shell::queue::Outcome;
use crate::shell::surroundings::Clock;

fn key() -> Key {
    Key { group: Group::StsPlus, namespace: "ns".into(), name: "db".into() }
}

fn object() -> Value {
    let containers = json!([{ "name": "main", "image": "app" }]);
    json!({
        "metadata": {
            "name": "db", "namespace": "ns", "uid": "uid-db", "generation": 1, "resourceVersion": "2",
            "creationTimestamp": Timestamp::UNIX_EPOCH,
        },
        "spec": { "template": { "spec": { "template": { "spec": { "containers": containers } } } } },
    })
}

/// A set of that object.
fn set() -> Value {
    let owner = json!({
        "apiVersion": "sts.plus/v1alpha1", "kind": "ExtendedStatefulSet", "name": "db", "uid": "uid-db", "controller": true,
    });
    json!({
        "metadata": {
            "name": "db", "namespace": "ns", "uid": "uid-set", "generation": 1, "resourceVersion": "3",
            "labels": { "sts.plus/extendedstatefulset-name": "db" }, "annotations": { "sts.plus/version": "1" },
            "ownerReferences": [owner],
        },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "db" } }, "template": {} },
    })
}

#[tokio::test(start_paused = true)]
async fn d_c2_v12_an_object_that_does_not_exist_costs_no_request_and_no_retry() {
    let server = Server::default();
    let Ground { around, tasks: _tasks } = Ground::new(server.api(), server.api(), Clock::Machine);
    let controller = ExtendedStatefulSets::default();
    let objects = Arc::new(Runtime::new("extended-statefulset", WORKERS, controller, &around));
    let store = around.cache.store();
    assert!(matches!(objects.look_at(&key()).await, Outcome::Settled));
    assert_eq!((server.take(), objects.kept()), (Vec::new(), 0));
    // One that is there is planned for, and woken by its set.
    store.upsert(Kind::Extended, &object().to_string());
    store.upsert(Kind::StatefulSet, &set().to_string());
    let touched = Touched::Set { namespace: "ns".into(), set: "db".into(), group: None };
    let woken = || controller.concerned(store, &touched).len();
    assert_eq!(woken(), 1);
    objects.look_at(&key()).await;
    assert!(!server.take().is_empty() && objects.kept() == 1);
    // Its set outlives it: that wakes nobody, and a pass that was due already leaves the set alone.
    store.remove(Kind::Extended, &object().to_string());
    assert_eq!(woken(), 0);
    assert!(matches!(objects.look_at(&key()).await, Outcome::Settled));
    assert_eq!((server.take(), objects.kept()), (Vec::new(), 0));
}
