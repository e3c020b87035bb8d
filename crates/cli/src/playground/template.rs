//! The parts of a set's pod template that the playground shows and that its keys change.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The label by which a node names its zone, and a template asks for one.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// The variable whose value a rollout of the playground raises.
pub(super) const VERSION: &str = "VERSION";

/// The annotation by which hollow pods fail on demand.
pub(super) const FAULT: &str = "hollow.sts.plus/fault";

/// The annotation that sets the answers of hollow pods to HTTP requests.
pub(super) const HTTP: &str = "hollow.sts.plus/http";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    metadata: Metadata,
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_selector: BTreeMap<String, String>,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    image: String,
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    value: String,
}

/// The data of a revision, as far as it is the template.
#[derive(Deserialize)]
struct Patch {
    spec: PatchSpec,
}

#[derive(Deserialize)]
struct PatchSpec {
    template: Template,
}

impl Template {
    /// Reads a template as the operator caches it, which is as a revision has it; an empty one where that fails.
    pub(super) fn parse(patch: &str) -> Self {
        serde_json::from_str::<Patch>(patch).map(|patch| patch.spec.template).unwrap_or_default()
    }

    /// Reads the template of a StatefulSet, as an ExtendedStatefulSet has it; an empty one where that fails.
    pub(super) fn of(set: &Value) -> Self {
        Patch::deserialize(set).map(|patch| patch.spec.template).unwrap_or_default()
    }

    /// The image of the first container.
    pub(super) fn image(&self) -> Option<&str> {
        self.spec.containers.first().map(|container| &*container.image)
    }

    /// Whether it makes pods fail.
    pub(super) fn has_fault(&self) -> bool {
        self.metadata.annotations.contains_key(FAULT)
    }

    /// The zone that its pods are pinned to.
    pub(super) fn zone(&self) -> Option<&str> {
        self.spec.node_selector.get(ZONE).map(String::as_str)
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &str> {
        self.spec.containers.iter().map(|container| container.name.as_str())
    }

    /// The value of [`VERSION`], where it is a number.
    pub(super) fn version(&self) -> Option<u64> {
        let mut variables = self.spec.containers.iter().flat_map(|container| &container.env);
        variables.find(|variable| variable.name == VERSION)?.value.parse().ok()
    }
}
