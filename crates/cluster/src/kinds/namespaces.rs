//! Namespaces: they stay until what is in them has gone.

use serde_json::{Value, json};

use super::{Strategy, meta};
use crate::machinery::answer::Refusal;
use crate::machinery::object::{self, fill};
use crate::machinery::state::State;
use crate::machinery::write;

/// The namespaces that every cluster has.
const GIVEN: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Namespaces that no cluster can do without.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// What holds a namespace until its content is gone.
const FINALIZER: &str = "kubernetes";
/// The label that every namespace carries with its own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) struct Namespaces;

impl Strategy for Namespaces {
    fn prepare_create(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        let mut finalizers = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        spec.insert("finalizers".into(), finalizers.into());
    }

    fn default(&self, object: &mut Value) {
        let name = object::name(object).to_owned();
        object::entry(object::metadata(object), "labels").insert(NAME_LABEL.into(), name.into());
    }

    fn admit(&self, object: &mut Value, _: &State) -> Result<(), Refusal> {
        fill(object::child(object, "status"), "phase", "Active");
        Ok(())
    }

    fn written(&self, state: &mut State, before: Option<&Value>, after: Option<&Value>) {
        // Pods run as somebody: without this account no pod could be created.
        if let (None, Some(namespace), Some(accounts)) = (before, after, state.row("", "serviceaccounts")) {
            let metadata = json!({ "name": "default", "namespace": object::name(namespace) });
            write::introduce(state, &accounts, json!({ "metadata": metadata }));
        }
    }

    fn name_problem(&self, name: &str) -> Option<String> {
        meta::label_problem(name)
    }

    fn is_held(&self, object: &Value) -> bool {
        !object::list(object, "/spec/finalizers").is_empty()
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        // Only the subresource for it lets go.
        let fields = object::fields(object);
        object::keep(object::entry(fields, "spec"), old.get("spec").unwrap_or(&Value::Null), "finalizers");
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        IMMORTAL.contains(&name).then_some("this namespace may not be deleted")
    }

    fn mark_deleted(&self, object: &mut Value) {
        object::metadata(object).remove("deletionGracePeriodSeconds");
        object::child(object, "status").insert("phase".into(), json!("Terminating"));
    }
}

/// Makes what every cluster has from the start.
pub(crate) fn found(state: &mut State) {
    let Some(row) = state.row("", "namespaces") else {
        return;
    };
    for name in GIVEN {
        let namespace = json!({
            "metadata": { "name": name }, "spec": { "finalizers": [FINALIZER] }, "status": { "phase": "Active" },
        });
        write::introduce(state, &row, namespace);
    }
    let Some(row) = state.row("scheduling.k8s.io", "priorityclasses") else {
        return;
    };
    for (name, value, description) in super::small::SYSTEM_CLASSES {
        let class = json!({ "metadata": { "name": name }, "value": value, "description": description });
        write::introduce(state, &row, class);
    }
}
