//! The sets that scenarios are about.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;

/// The group that zones are in unless they say otherwise.
pub const GROUP: &str = "web";

/// Everything a template may say to the hollow nodes, so that a new one also takes back what the old one said.
const HOLLOW: [&str; 5] = [
    behaviour::START_DELAY,
    behaviour::READY_DELAY,
    behaviour::STOP_DELAY,
    behaviour::FAULT,
    behaviour::FAULT_ORDINALS,
];

/// One StatefulSet of a group, as its user writes it.
#[derive(Clone, Debug)]
pub struct Zone {
    name: String,
    app: String,
    group: Option<String>,
    replicas: u32,
    annotations: BTreeMap<&'static str, String>,
    min_ready_seconds: u32,
    strategy: Value,
    management: &'static str,
    template: Template,
}

/// The pod template of a zone: a version, and how its pods behave.
#[derive(Clone, Debug)]
pub struct Template {
    version: String,
    hollow: BTreeMap<&'static str, String>,
    service_account: Option<String>,
}

/// The usual three zones, of version v1.
pub fn three_zones(replicas: u32) -> Vec<Zone> {
    ["zone-a", "zone-b", "zone-c"].map(|name| Zone::new(name, replicas)).to_vec()
}

impl Zone {
    /// A zone of the usual group whose pods start together.
    pub fn new(name: &str, replicas: u32) -> Self {
        Self {
            name: name.to_owned(),
            app: name.to_owned(),
            group: Some(GROUP.to_owned()),
            replicas,
            annotations: BTreeMap::new(),
            min_ready_seconds: 0,
            strategy: json!({ "type": "OnDelete" }),
            management: "Parallel",
            template: Template::new("v1"),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its pods.
    pub fn pods(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.replicas).map(|ordinal| format!("{}-{ordinal}", self.name))
    }

    /// How many pods it shall have.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// In this group instead.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// With this value of `rollout-max-unavailable`.
    #[must_use]
    pub fn max_unavailable(mut self, value: &str) -> Self {
        self.annotations.insert(keys::MAX_UNAVAILABLE, value.to_owned());
        self
    }

    /// Paused from the start.
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.annotations.insert(keys::PAUSED, "true".to_owned());
        self
    }

    #[must_use]
    pub fn min_ready_seconds(mut self, seconds: u32) -> Self {
        self.min_ready_seconds = seconds;
        self
    }

    /// With an update strategy that would leave deletions to the StatefulSet controller, and a partition that keeps
    /// that from happening here.
    #[must_use]
    pub fn rolling_update(mut self) -> Self {
        self.strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": self.replicas } });
        self
    }

    /// With pods that start one after the other, as they do by default.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.management = "OrderedReady";
        self
    }

    /// With the same selector as all others that say the same.
    #[must_use]
    pub fn app(mut self, app: &str) -> Self {
        app.clone_into(&mut self.app);
        self
    }

    /// With this template instead of a plain one.
    #[must_use]
    pub fn template(mut self, template: Template) -> Self {
        self.template = template;
        self
    }

    /// The object to create.
    pub fn object(&self) -> StatefulSet {
        let labels = self.group.as_ref().map(|group| json!({ keys::ROLLOUT_GROUP: group }));
        let mut template = self.template.patch();
        template["metadata"]["labels"] = json!({ "app": self.app });
        let mut object = json!({
            "metadata": { "name": self.name, "labels": labels, "annotations": self.annotations },
            "spec": {
                "replicas": self.replicas,
                "serviceName": self.app,
                "podManagementPolicy": self.management,
                "minReadySeconds": self.min_ready_seconds,
                "updateStrategy": self.strategy,
                "selector": { "matchLabels": { "app": self.app } },
                "template": template,
            },
        });
        drop_nulls(&mut object);
        serde_json::from_value(object).unwrap()
    }
}

impl Template {
    /// A template whose pods do as the hollow nodes do by default.
    pub fn new(version: &str) -> Self {
        Self { version: version.to_owned(), hollow: BTreeMap::new(), service_account: None }
    }

    /// The image of its pods.
    pub fn image(&self) -> String {
        image(&self.version)
    }

    /// Pods take this long from Running to Ready.
    #[must_use]
    pub fn ready_after(mut self, delay: &str) -> Self {
        self.hollow.insert(behaviour::READY_DELAY, delay.to_owned());
        self
    }

    /// Pods take this long from their deletion to their end.
    #[must_use]
    pub fn stops_after(mut self, delay: &str) -> Self {
        self.hollow.insert(behaviour::STOP_DELAY, delay.to_owned());
        self
    }

    /// Something goes wrong with its pods.
    #[must_use]
    pub fn fault(mut self, fault: &str) -> Self {
        self.hollow.insert(behaviour::FAULT, fault.to_owned());
        self
    }

    /// Only with those of these ordinals.
    #[must_use]
    pub fn only_ordinals(mut self, ordinals: &str) -> Self {
        self.hollow.insert(behaviour::FAULT_ORDINALS, ordinals.to_owned());
        self
    }

    /// The pod of this ordinal does not become Ready until the scenario lets it, which holds the rollout there.
    #[must_use]
    pub fn held_at(self, ordinal: u32) -> Self {
        self.fault("never-ready").only_ordinals(&ordinal.to_string())
    }

    /// Its pods run under an account that does not exist, so that none can be created.
    #[must_use]
    pub fn impossible(mut self) -> Self {
        self.service_account = Some("does-not-exist".to_owned());
        self
    }

    /// The template as a merge patch: what it does not ask for is null.
    pub fn patch(&self) -> Value {
        let hollow: BTreeMap<_, _> = HOLLOW.iter().map(|&key| (key, self.hollow.get(key))).collect();
        json!({
            "metadata": { "annotations": hollow },
            "spec": {
                "serviceAccountName": self.service_account,
                "serviceAccount": self.service_account,
                "containers": [{ "name": "main", "image": self.image() }],
            },
        })
    }
}

/// The image of a version.
pub fn image(version: &str) -> String {
    format!("app:{version}")
}

fn drop_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}
