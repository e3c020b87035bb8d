//! What the user writes: sets with a rolling update, and PhasedRollouts.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::fixture::Template;

/// A StatefulSet as its user writes it.
#[derive(Clone, Debug)]
pub struct Set {
    name: String,
    replicas: u32,
    first: u32,
    fields: Value,
    template: Template,
}

impl Set {
    /// A set with the strategy that sets have by default, of version v1, whose pods start together.
    pub fn new(name: &str, replicas: u32) -> Self {
        let fields =
            json!({ "podManagementPolicy": "Parallel", "updateStrategy": { "type": "RollingUpdate" } });
        Self { name: name.to_owned(), replicas, first: 0, fields, template: Template::new("v1") }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many pods it shall have.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// The name of its pod with this index.
    pub fn pod(&self, index: u32) -> String {
        format!("{}-{}", self.name, self.first + index)
    }

    #[must_use]
    pub fn first_ordinal(mut self, first: u32) -> Self {
        self.first = first;
        self
    }

    /// With these fields of the spec, merged.
    #[must_use]
    pub fn spec(mut self, fields: &Value) -> Self {
        merge(&mut self.fields, fields);
        self
    }

    /// With this template instead of a plain one.
    #[must_use]
    pub fn template(mut self, template: Template) -> Self {
        self.template = template;
        self
    }

    /// The object to create.
    pub fn object(&self) -> Value {
        let mut template = json!({ "metadata": { "labels": { "app": self.label() } } });
        merge(&mut template, &self.template.patch());
        let mut spec = json!({
            "replicas": self.replicas,
            "serviceName": self.label(),
            "selector": { "matchLabels": { "app": self.label() } },
            "template": template,
        });
        if self.first > 0 {
            spec["ordinals"] = json!({ "start": self.first });
        }
        merge(&mut spec, &self.fields);
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": self.name }, "spec": spec })
    }

    /// A label value is no longer than 63 characters.
    fn label(&self) -> String {
        self.name.chars().take(50).collect()
    }
}

/// A PhasedRollout as its user writes it.
#[derive(Clone, Debug)]
pub struct Rollout {
    name: String,
    spec: Value,
}

impl Rollout {
    /// A rollout of a set with one check that passes when nothing is answered, asked every second, once per gate.
    pub fn new(set: &str, url: &str) -> Self {
        let check = json!({
            "initialDelaySeconds": 0,
            "periodSeconds": 0,
            "successThreshold": 1,
            "query": { "expr": "errors{pod=~\"${updatedPods}\"} > 0", "url": url },
        });
        Self { name: set.to_owned(), spec: json!({ "targetRef": set, "check": check }) }
    }

    /// A rollout from a manifest, its servers replaced by one that is there and its checks asked every second.
    pub fn example(manifest: &str, url: &str) -> Self {
        let documents = manifest.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let object = documents.into_iter().find(|object| object["kind"] == "PhasedRollout").unwrap();
        let mut spec = object["spec"].clone();
        let quick = json!({ "initialDelaySeconds": 0, "periodSeconds": 0, "query": { "url": url } });
        if let Some(check) = spec.get_mut("check") {
            merge(check, &quick);
        }
        for check in spec.get_mut("checks").and_then(Value::as_array_mut).into_iter().flatten() {
            merge(check, &quick);
        }
        Self { name: object["metadata"]["name"].as_str().unwrap().to_owned(), spec }
    }

    /// Under this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// With these fields of the spec, merged.
    #[must_use]
    pub fn spec(mut self, fields: &Value) -> Self {
        merge(&mut self.spec, fields);
        self
    }

    /// With these fields of its one check, merged.
    #[must_use]
    pub fn check(self, fields: &Value) -> Self {
        self.spec(&json!({ "check": fields }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object to create.
    pub fn object(&self) -> DynamicObject {
        DynamicObject::new(&self.name, &kind()).data(json!({ "spec": self.spec }))
    }
}

/// The kind as clients name it.
pub fn kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("sts.plus", "v1alpha1", "PhasedRollout");
    ApiResource::from_gvk_with_plural(&kind, "phasedrollouts")
}

/// A JSON merge patch.
pub fn merge(value: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, field) in fields {
        if field.is_null() {
            value.as_object_mut().map(|fields| fields.remove(key));
        } else {
            merge(&mut value[key], field);
        }
    }
}
