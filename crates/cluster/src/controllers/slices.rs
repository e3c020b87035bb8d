//! Endpoint slices: where the pods of a service answer. One slice per service is enough for hundreds of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::chance;
use crate::machinery::delete::{self, DeleteOptions};
use crate::machinery::object::{self, text};
use crate::machinery::selector::Selector;
use crate::machinery::state::State;
use crate::machinery::stored::Stored;
use crate::machinery::write;

const GROUP: &str = "discovery.k8s.io";
const PLURAL: &str = "endpointslices";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Writes the slices of a namespace.
pub(super) fn write(state: &mut State, namespace: &str) {
    let Some(row) = state.row(GROUP, PLURAL) else {
        return;
    };
    let services = state.objects("", "services", Some(namespace));
    let pods = if services.is_empty() { Vec::new() } else { state.objects("", "pods", Some(namespace)) };
    let mut wanted = Vec::new();
    for service in services {
        let Some(labels) = service.pointer("/spec/selector").filter(|labels| labels.is_object()) else {
            continue;
        };
        let selector = Selector::from_json(&json!({ "matchLabels": labels })).unwrap_or_default();
        if selector.is_empty() {
            continue;
        }
        let slice = slice(&service, pods.iter().filter(|pod| selector.matches(pod)));
        wanted.push(object::name(&slice).to_owned());
        let key = row.key(namespace, object::name(&slice));
        if state.store.get(&key).is_none() {
            write::introduce(state, &row, slice);
            continue;
        }
        write::amend(state, &row, &key, |live| {
            let changed = ["endpoints", "ports"].iter().any(|field| live.get(field) != slice.get(field));
            if changed {
                for field in ["endpoints", "ports"] {
                    object::keep(object::fields(live), &slice, field);
                }
                let generation = object::number(live, "/metadata/generation").unwrap_or_default();
                object::metadata(live).insert("generation".into(), (generation + 1).into());
            }
        });
    }
    for slice in state.objects(GROUP, PLURAL, Some(namespace)) {
        let ours = slice.pointer("/metadata/labels").and_then(|labels| labels.get(MANAGED_BY));
        let name = object::name(&slice);
        if ours.and_then(Value::as_str) == Some(MANAGER) && !wanted.iter().any(|wanted| wanted == name) {
            // It may have gone with its service already.
            let _ = delete::delete(state, &row, &row.key(namespace, name), &DeleteOptions::default());
        }
    }
}

fn slice<'a>(service: &Value, pods: impl Iterator<Item = &'a Arc<Stored>>) -> Value {
    let name = object::name(service);
    let suffix = chance::draw(0, object::uid(service)) & 0xf_ffff;
    let publishes_all = service.pointer("/spec/publishNotReadyAddresses") == Some(&Value::Bool(true));
    let mut labels = service.pointer("/metadata/labels").cloned().unwrap_or_default();
    let fields = object::fields(&mut labels);
    fields.insert(SERVICE_LABEL.into(), name.into());
    fields.insert(MANAGED_BY.into(), MANAGER.into());
    if text(service, "/spec/clusterIP") == "None" {
        fields.insert("service.kubernetes.io/headless".into(), "".into());
    }
    let ports: Vec<Value> = object::list(service, "/spec/ports")
        .iter()
        .map(|port| {
            let number =
                port.get("targetPort").and_then(Value::as_i64).or_else(|| port.get("port")?.as_i64());
            json!({ "name": text(port, "/name"), "protocol": text(port, "/protocol"), "port": number })
        })
        .collect();
    let endpoints: Vec<Value> = pods
        .filter(|pod| {
            !text(pod, "/status/podIP").is_empty() && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        })
        .map(|pod| {
            let conditions = object::list(pod, "/status/conditions");
            let ready = conditions.iter().any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True");
            let terminating = object::is_deleting(pod);
            json!({
                "addresses": [text(pod, "/status/podIP")],
                "conditions": {
                    "ready": publishes_all || ready && !terminating, "serving": ready, "terminating": terminating,
                },
                "nodeName": text(pod, "/spec/nodeName"),
                "targetRef": {
                    "kind": "Pod", "namespace": object::namespace(pod), "name": object::name(pod),
                    "uid": object::uid(pod),
                },
            })
        })
        .collect();
    json!({
        "metadata": {
            "name": format!("{name}-{suffix:05x}"), "namespace": object::namespace(service), "labels": labels,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name, "uid": object::uid(service),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}
