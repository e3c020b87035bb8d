//! The sets that scripts are about, as their user writes them.

use serde_json::{Map, Value, json};
use sts_plus_cluster::nodes::behaviour;

use crate::fixture::image;
use crate::gated::manifest::merge;

/// A StatefulSet as its user writes it.
#[derive(Clone, Debug)]
pub struct Set {
    object: Value,
}

impl Set {
    /// A set of version v1 with all that the API server gives it by default.
    pub fn new(name: &str, replicas: u32) -> Self {
        Self {
            object: json!({
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": { "name": name },
                "spec": {
                    "replicas": replicas,
                    "serviceName": name,
                    "selector": { "matchLabels": { "app": name } },
                    "template": {
                        "metadata": { "labels": { "app": name } },
                        "spec": {
                            // Its volume would have another name in every pod.
                            "automountServiceAccountToken": false,
                            "containers": containers("v1"),
                        },
                    },
                },
            }),
        }
    }

    /// Whose pods come and go together.
    #[must_use]
    pub fn parallel(self) -> Self {
        self.spec(json!({ "podManagementPolicy": "Parallel" }))
    }

    /// With claim templates of these names.
    #[must_use]
    pub fn claims(self, names: &[&str]) -> Self {
        let templates: Vec<_> = names.iter().map(|name| claim_template(name)).collect();
        self.spec(json!({ "volumeClaimTemplates": templates }))
    }

    /// With this update strategy.
    #[must_use]
    pub fn strategy(self, strategy: Value) -> Self {
        self.spec(under("updateStrategy", strategy))
    }

    #[must_use]
    pub fn partition(self, partition: u32) -> Self {
        self.strategy(json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } }))
    }

    /// With a retention policy.
    #[must_use]
    pub fn retention(self, when_scaled: &str, when_deleted: &str) -> Self {
        self.spec(json!({ "persistentVolumeClaimRetentionPolicy": retention(when_scaled, when_deleted) }))
    }

    /// With these fields of the spec, merged.
    #[must_use]
    pub fn spec(self, fields: Value) -> Self {
        self.fields(&under("spec", fields))
    }

    /// With these fields of the template, merged.
    #[must_use]
    pub fn template(self, fields: Value) -> Self {
        self.spec(under("template", fields))
    }

    /// Something goes wrong with its pods, or with those of these ordinals only.
    #[must_use]
    pub fn fault(self, fault: &str, ordinals: &str) -> Self {
        self.template(faulty(fault, ordinals))
    }

    /// With these fields, merged.
    #[must_use]
    pub fn fields(mut self, fields: &Value) -> Self {
        merge(&mut self.object, fields);
        self
    }

    /// The object to create.
    pub fn object(&self) -> Value {
        self.object.clone()
    }
}

fn under(key: &str, fields: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), fields)]))
}

/// A template's only container, of this version.
pub fn containers(version: &str) -> Value {
    json!([{ "name": "main", "image": image(version) }])
}

/// A template of this version, as a merge patch.
pub fn version(version: &str) -> Value {
    json!({ "spec": { "containers": containers(version) } })
}

/// A template whose pods of these ordinals have a fault, as a merge patch; no fault takes it back.
pub fn faulty(fault: &str, ordinals: &str) -> Value {
    let fault = (!fault.is_empty()).then_some(fault);
    let ordinals = fault.map(|_| ordinals).filter(|ordinals| !ordinals.is_empty());
    json!({ "metadata": { "annotations": { behaviour::FAULT: fault, behaviour::FAULT_ORDINALS: ordinals } } })
}

/// A retention policy.
pub fn retention(when_scaled: &str, when_deleted: &str) -> Value {
    json!({ "whenScaled": when_scaled, "whenDeleted": when_deleted })
}

pub fn claim_template(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": claim_spec() })
}

/// What a claim asks for.
pub fn claim_spec() -> Value {
    json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } })
}
