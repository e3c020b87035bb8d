//! The ExtendedStatefulSets of a run, as their users write them.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;

use crate::cast::{NAMESPACE, image};
use crate::dice::Dice;

/// So many of a thousand seeds have ExtendedStatefulSets.
const SHARE: u64 = 350;
/// The object of the group `sts.plus`.
const FLEET: &str = "fleet";
/// The object of the group `fissile.cloudfoundry.org`.
const LEGACY: &str = "legacy";
/// The path that tells whether a pod may be active.
const PATH: &str = "/active";
/// The zones of the nodes of a run.
pub const ZONES: [&str; 3] = ["zone-0", "zone-1", "zone-2"];
/// So many of a thousand objects have zones; the others have the rest.
const ZONED_SHARE: u64 = 600;

/// An ExtendedStatefulSet of a run.
#[derive(Clone, Debug)]
pub struct Extended {
    pub name: &'static str,
    /// Its API group.
    pub group: Group,
    /// The object to create.
    pub object: Value,
    /// Whether its template refers to ConfigMaps.
    pub has_config: bool,
    /// Whether a change of their data has to restart pods.
    pub restarts: bool,
    /// A set that is labelled as one of the object and that the object does not own.
    pub stranger: Option<Value>,
}

impl Extended {
    /// The objects of a seed. They are drawn from numbers of their own, so that all else of the seed stays what it is.
    pub fn draw(seed: u64) -> Vec<Self> {
        let dice = Dice::new(seed, "extended");
        if !dice.happens(SHARE) {
            return Vec::new();
        }
        let which = dice.among(1, 3);
        let both = [(1, FLEET, Group::StsPlus), (2, LEGACY, Group::Fissile)];
        let wanted = both.into_iter().filter(|(bit, ..)| which & bit != 0);
        wanted.map(|(_, name, group)| Self::of(name, group, &Dice::new(seed, name))).collect()
    }

    fn of(name: &'static str, group: Group, dice: &Dice) -> Self {
        let strategies = [None, Some("InPlace"), Some("BlueGreen"), Some("BlueGreen")];
        let strategy = dice.pick(&strategies).copied().flatten();
        let is_blue_green = strategy == Some("BlueGreen") || (strategy.is_none() && group == Group::Fissile);
        let zones = zones(dice, dice.happens(ZONED_SHARE));
        let has_config = dice.happens(600);
        let restarts = has_config && dice.happens(800);
        let mut update = json!({
            "progressDeadlineSeconds": dice.among(60, 600),
            "onFailure": if strategy == Some("BlueGreen") && dice.happens(500) { "Rollback" } else { "Pause" },
        });
        if let Some(strategy) = strategy {
            update["type"] = strategy.into();
        }
        if is_blue_green {
            let amounts = [Value::Null, json!(1), json!("50%"), json!("100%")];
            let amount = dice.pick(&amounts).cloned().unwrap_or_default();
            let mut rule = json!({ "soakSeconds": dice.pick(&[0, 0, 5, 20]) });
            if !amount.is_null() {
                rule["minReady"] = amount;
            }
            if dice.happens(250) {
                rule["promotion"] = "Manual".into();
            }
            update["blueGreen"] = rule;
        } else if dice.happens(400) {
            update["maxUnavailable"] = dice.among(1, 2).into();
        }
        let mut spec = json!({
            "template": { "spec": {
                "replicas": dice.among(1, 3),
                "template": template(name, 1, None, has_config),
            } },
            "zones": zones,
            "updateOnConfigChange": restarts,
            "updateStrategy": update,
        });
        if dice.happens(600) {
            spec["activeProbe"] = json!({ "main": {
                "httpGet": { "path": PATH, "port": "http" },
                "periodSeconds": dice.among(1, 5),
                "failureThreshold": dice.among(1, 3),
            } });
            if dice.happens(500) {
                spec["activeFallback"] = dice.pick(&["None", "FirstRunning"]).copied().into();
            }
        }
        if dice.happens(400) {
            spec["scaling"] = json!({ "minReplicas": 1, "maxReplicas": 4, "parity": "Odd" });
        }
        if dice.happens(400) {
            spec["services"] = json!({ "headless": name, "active": format!("{name}-active") });
        }
        if !is_blue_green && dice.happens(300) {
            spec["template"]["spec"]["volumeClaimTemplates"] = json!([{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }]);
        }
        let object = json!({
            "apiVersion": group.api_version(),
            "kind": "ExtendedStatefulSet",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": spec,
        });
        let stranger = dice.happens(500).then(|| stranger(name, group));
        Self { name, group, object, has_config, restarts, stranger }
    }

    /// The name of the ConfigMap that pods need.
    pub fn settings(&self) -> String {
        format!("{}-settings", self.name)
    }

    /// The name of the ConfigMap that pods start without.
    pub fn extra(&self) -> String {
        format!("{}-extra", self.name)
    }

    /// Whether each version has sets of its own.
    pub fn is_blue_green(&self) -> bool {
        match self.object["spec"]["updateStrategy"]["type"].as_str() {
            Some(kind) => kind == "BlueGreen",
            None => {
                self.group == Group::Fissile
                    && self.object["spec"]["template"]["spec"]["volumeClaimTemplates"].is_null()
            }
        }
    }

    /// The template of a version of its pods; `fault` is what they have.
    pub fn template(&self, version: u64, fault: Option<&str>) -> Value {
        template(self.name, version, fault, self.has_config)
    }

    /// The number of replicas of each zone that the restrictions allow for one that is asked for.
    pub fn allowed(&self, replicas: u64) -> u64 {
        if self.object["spec"]["scaling"].is_null() {
            return replicas;
        }
        let replicas = replicas.clamp(1, 4);
        match replicas {
            4 => 3,
            even if even % 2 == 0 => even + 1,
            odd => odd,
        }
    }
}

/// A list of zones, in any order; none for an object without zones.
pub fn zones(dice: &Dice, has_zones: bool) -> Vec<&'static str> {
    let mut zones = Vec::new();
    if has_zones {
        let number = usize::try_from(dice.among(1, 3)).unwrap_or(1);
        let from = usize::try_from(dice.below(3)).unwrap_or_default();
        zones.extend((0..number).filter_map(|at| ZONES.get((from + at) % ZONES.len()).copied()));
        if dice.happens(500) {
            zones.reverse();
        }
    }
    zones
}

/// What a pod answers when it is asked whether it may be active.
pub fn answer(passes: bool) -> String {
    format!("{PATH} {}", if passes { 200 } else { 503 })
}

fn template(name: &str, version: u64, fault: Option<&str>, has_config: bool) -> Value {
    let mut container = json!({
        "name": "main",
        "image": image(version),
        "ports": [{ "name": "http", "containerPort": 8080 }],
    });
    if has_config {
        container["envFrom"] = json!([
            { "configMapRef": { "name": format!("{name}-settings") } },
            { "configMapRef": { "name": format!("{name}-extra"), "optional": true } },
        ]);
    }
    json!({
        "metadata": {
            "labels": { "app": name },
            "annotations": { behaviour::FAULT: fault.unwrap_or_default(), behaviour::HTTP: answer(true) },
        },
        "spec": { "containers": [container] },
    })
}

/// A set that looks like one of the object and has no owner.
fn stranger(name: &str, group: Group) -> Value {
    let own = format!("{name}-kept");
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": own,
            "namespace": NAMESPACE,
            "labels": { group.key(keys::EXTENDED_NAME): name, group.key(keys::AZ_INDEX): "0" },
            "annotations": { group.key(keys::VERSION): "1" },
        },
        "spec": {
            "replicas": 1,
            "serviceName": own,
            "selector": { "matchLabels": { "app": own } },
            "template": {
                "metadata": { "labels": { "app": own } },
                "spec": { "containers": [{ "name": "main", "image": image(1) }] },
            },
        },
    })
}
