//! A set of a version in a zone, built from a valid spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use super::claims;
use super::content::Content;
use super::references::rename_secrets;
use super::row::ExtendedRow;
use super::spec::{Spec, texts};
use super::zones::{Layout, Zone};
use crate::quantity::quantity;
use crate::revision::{canonical, fnv64};

/// Annotation of pod templates, below the prefix of the group: the hash of the data of ConfigMaps and Secrets.
const CONFIG_HASH: &str = "config-hash";

/// Fields of a set that cannot be changed once it exists.
const IMMUTABLE: [&str; 5] =
    ["selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates", "ordinals"];

/// Fields of a set that get their default again when the template no longer has them.
const DEFAULTED: [&str; 3] =
    ["minReadySeconds", "persistentVolumeClaimRetentionPolicy", "revisionHistoryLimit"];

/// All that a set is built from.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'r> {
    /// The object.
    pub row: &'r ExtendedRow,
    pub spec: &'r Spec,
    /// All zones.
    pub layout: &'r Layout,
    /// The zone of the set.
    pub zone: &'r Zone,
    /// The number of its version.
    pub number: u32,
    pub content: &'r Content,
    /// The pods that it shall have.
    pub replicas: u32,
    /// Its first ordinal, where versions share those of a place.
    pub first_ordinal: Option<u32>,
}

pub fn set_name(row: &ExtendedRow, spec: &Spec, zone: &Zone, number: u32) -> String {
    let zone = zone.name.as_ref().map(|_| format!("-z{}", zone.index)).unwrap_or_default();
    let version = if spec.is_versioned() { format!("-v{number}") } else { String::new() };
    format!("{}{zone}{version}", row.name)
}

/// The rollout group of the zones of an object that is changed in place.
pub fn rollout_group(row: &ExtendedRow) -> String {
    format!("{}.{}", row.name, if row.group == Group::Fissile { "fissile" } else { "ests" })
}

impl Recipe<'_> {
    fn group(&self) -> Group {
        self.row.group
    }

    /// The name of the set.
    pub fn name(&self) -> String {
        set_name(self.row, self.spec, self.zone, self.number)
    }

    /// Labels that tell the sets and pods of this object, zone and version from all others.
    pub fn identity(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            (self.group().key(keys::EXTENDED_NAME), self.row.name.to_string()),
            (self.group().key(keys::AZ_INDEX), self.zone.index.to_string()),
        ]);
        if self.spec.is_versioned() {
            labels.insert(self.group().key(keys::VERSION), self.number.to_string());
        }
        labels
    }

    /// The whole set. The zones of its pods' annotation are those of the time when the version was made.
    pub fn set(&self, template_zones: Option<&str>) -> Value {
        let given = self.spec.template();
        let mut labels = texts(given.pointer("/metadata/labels"));
        labels.remove(&self.group().key(keys::AZ_NAME));
        labels.extend(self.identity());
        labels.insert(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_STS_PLUS.to_owned());
        labels.extend(self.zone_name());
        let mut annotations = texts(given.pointer("/metadata/annotations"));
        annotations.extend(self.annotations(template_zones));
        let mut strategy = json!({ "type": "RollingUpdate" });
        if let Some(max_unavailable) = self.spec.max_unavailable() {
            annotations.insert(keys::MAX_UNAVAILABLE.to_owned(), max_unavailable.to_owned());
            strategy = json!({
                "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": int_or_string(max_unavailable) },
            });
        }
        if !self.spec.is_versioned() && self.zone.name.is_some() {
            strategy = json!({ "type": "OnDelete" });
            labels.insert(keys::ROLLOUT_GROUP.to_owned(), rollout_group(self.row));
        }
        let mut spec = Map::new();
        for (key, value) in given.get("spec").and_then(Value::as_object).into_iter().flatten() {
            let is_replaced = key == "updateStrategy" || key == "template" || self.is_elsewhere(key);
            if !value.is_null() && !is_replaced {
                spec.insert(key.clone(), value.clone());
            }
        }
        let selector = texts(given.pointer("/spec/selector/matchLabels"));
        let template = given.pointer("/spec/template").cloned().unwrap_or_default();
        let pod_template = self.pod_template(template, &selector, template_zones);
        let mut selected = selector;
        selected.extend(self.identity());
        let mut whole_selector = spec.get("selector").and_then(Value::as_object).cloned().unwrap_or_default();
        whole_selector.insert("matchLabels".to_owned(), json!(selected));
        spec.insert("selector".to_owned(), Value::Object(whole_selector));
        spec.insert("replicas".to_owned(), json!(self.replicas));
        spec.insert("updateStrategy".to_owned(), strategy);
        spec.insert("template".to_owned(), pod_template);
        if self.spec.is_versioned() {
            // Under OrderedReady one unready pod blocks all after it, also on the way down; order is ours.
            spec.insert("podManagementPolicy".to_owned(), json!("Parallel"));
        }
        if let Some(first) = self.first_ordinal {
            spec.insert("ordinals".to_owned(), json!({ "start": first }));
        }
        if !spec.contains_key("serviceName")
            && let Some(headless) = &self.spec.services.headless
        {
            spec.insert("serviceName".to_owned(), json!(headless));
        }
        json!({
            "metadata": {
                "name": self.name(),
                "namespace": self.row.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(self.row)],
            },
            "spec": spec,
        })
    }

    /// Whether a field of the template is not one of its sets: claims with stable names are created beside them.
    fn is_elsewhere(&self, field: &str) -> bool {
        let is_about_claims =
            ["volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy"].contains(&field);
        is_about_claims && !self.spec.stable_claims.is_empty()
    }

    fn zone_name(&self) -> Option<(String, String)> {
        let name = self.zone.name.as_ref()?;
        Some((self.group().key(keys::AZ_NAME), name.to_string()))
    }

    /// The annotations of the set that are ours.
    pub fn annotations(&self, template_zones: Option<&str>) -> BTreeMap<String, String> {
        let key = |suffix| self.group().key(suffix);
        let mut annotations = BTreeMap::from([
            (key(keys::VERSION), self.number.to_string()),
            (key(keys::CONTENT_HASH), self.content.hash.to_string()),
        ]);
        annotations
            .extend(self.layout.annotation.as_ref().map(|zones| (key(keys::ZONES), zones.to_string())));
        annotations.extend(template_zones.map(|zones| (key(keys::TEMPLATE_ZONES), zones.to_owned())));
        annotations.extend(self.claims_hash().map(|hash| (key(keys::CLAIMS_HASH), hash)));
        annotations
    }

    /// The hash of the claim templates as they are given; `None` where there are none.
    fn claims_hash(&self) -> Option<String> {
        let claims = self.spec.template().pointer("/spec/volumeClaimTemplates").cloned();
        let claims = claims.filter(|claims| claims.as_array().is_some_and(|claims| !claims.is_empty()));
        let claims = claims.filter(|_| self.spec.stable_claims.is_empty());
        claims.map(|claims| fnv64(canonical(&claims).as_bytes()))
    }

    /// Whether a set was created with the claim templates that are given.
    fn has_claims_of(&self, live: &Value) -> bool {
        let annotations = live.pointer("/metadata/annotations");
        let known = annotations.and_then(|all| all.get(self.group().key(keys::CLAIMS_HASH)));
        let hash = self.claims_hash();
        hash.is_some() && known.and_then(Value::as_str) == hash.as_deref()
    }

    fn pod_template(
        &self,
        mut template: Value,
        selector: &BTreeMap<String, String>,
        template_zones: Option<&str>,
    ) -> Value {
        let mut labels = selector.clone();
        labels.extend(texts(template.pointer("/metadata/labels")));
        labels.remove(&self.group().key(keys::AZ_NAME));
        labels.extend(self.identity());
        labels.extend(self.zone_name());
        if !self.spec.stable_claims.is_empty() {
            labels.insert(keys::STABLE_CLAIMS.to_owned(), keys::STABLE_CLAIMS_ON.to_owned());
        }
        let mut annotations = texts(template.pointer("/metadata/annotations"));
        annotations.extend(template_zones.map(|zones| (self.group().key(keys::ZONES), zones.to_owned())));
        let config = self.content.config.as_ref();
        annotations.extend(config.map(|config| (self.group().key(CONFIG_HASH), config.to_string())));
        if let Some(template) = template.as_object_mut() {
            let metadata = template.entry("metadata").or_insert_with(|| json!({}));
            if metadata.is_null() {
                *metadata = json!({});
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("labels".to_owned(), json!(labels));
                if !annotations.is_empty() {
                    metadata.insert("annotations".to_owned(), json!(annotations));
                }
            }
        }
        if let Some(pod) = template.get_mut("spec") {
            rename_secrets(pod, &self.content.newest);
            self.mount_claims(pod);
            self.inject_environment(pod);
            self.pin_to_zone(pod);
        }
        template
    }

    /// Gives the pod a volume for each claim with a stable name, as the StatefulSet controller does for claims of its own: it
    /// replaces a volume of that name. Admission replaces the placeholder by the ordinal.
    fn mount_claims(&self, pod: &mut Value) {
        if self.spec.stable_claims.is_empty() {
            return;
        }
        let prefix = claims::prefix(&self.row.name, self.zone.name.as_ref().map(|_| self.zone.index));
        let Some(pod) = pod.as_object_mut() else { return };
        let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
        if volumes.is_null() {
            *volumes = json!([]);
        }
        // Anything but a list is for the API server to refuse.
        let Some(volumes) = volumes.as_array_mut() else { return };
        for template in &self.spec.stable_claims {
            let name = |volume: &Value| volume.get("name").and_then(Value::as_str) == Some(&*template.name);
            volumes.retain(|volume| !name(volume));
            let claim = format!("{}{}", claims::stem(&template.name, &prefix), keys::CLAIM_PLACEHOLDER);
            volumes.push(json!({ "name": template.name, "persistentVolumeClaim": { "claimName": claim } }));
        }
    }

    /// Tells every container its zone. An entry of the same name is replaced: with its `valueFrom` it would be invalid.
    fn inject_environment(&self, pod: &mut Value) {
        if self.zone.name.is_none() && !self.group().always_injects_zone() {
            return;
        }
        let zone = self.zone.name.as_deref().unwrap_or_default();
        let index = self.zone.index.saturating_add(1).to_string();
        let ours: Vec<_> = keys::ZONE_ENV
            .iter()
            .map(|name| (*name, zone))
            .chain([(keys::ZONE_INDEX_ENV, &*index)])
            .collect();
        for list in ["initContainers", "containers"] {
            let containers = pod.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                let env = container.entry("env").or_insert_with(|| json!([]));
                if env.is_null() {
                    *env = json!([]);
                }
                // Anything but a list is for the API server to refuse.
                let Some(env) = env.as_array_mut() else { continue };
                env.retain(|entry| {
                    let name = entry.get("name").and_then(Value::as_str);
                    ours.iter().all(|(ours, _)| name != Some(ours))
                });
                // First, so that entries of the user may refer to them.
                let entries = ours.iter().map(|(name, value)| json!({ "name": name, "value": value }));
                env.splice(0..0, entries);
            }
        }
    }

    /// Requires a node of the zone besides whatever the user requires: terms are alternatives, so each of theirs is
    /// combined with each of ours.
    fn pin_to_zone(&self, pod: &mut Value) {
        let Some(zone) = &self.zone.name else { return };
        let ours: Vec<_> = self
            .spec
            .zone_labels
            .iter()
            .map(|label| json!({ "key": label, "operator": "In", "values": [zone] }))
            .collect();
        let pointer =
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let theirs = pod.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
        let theirs = if theirs.is_empty() { vec![json!({})] } else { theirs };
        let mut terms = Vec::new();
        for term in &theirs {
            for requirement in &ours {
                let mut term = term.as_object().cloned().unwrap_or_default();
                let mut expressions =
                    term.get("matchExpressions").and_then(Value::as_array).cloned().unwrap_or_default();
                expressions.push(requirement.clone());
                term.insert("matchExpressions".to_owned(), Value::Array(expressions));
                terms.push(Value::Object(term));
            }
        }
        let mut at = pod;
        for key in ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"] {
            if !at.get(key).is_some_and(Value::is_object)
                && let Some(fields) = at.as_object_mut()
            {
                fields.insert(key.to_owned(), json!({}));
            }
            match at.get_mut(key) {
                Some(next) => at = next,
                None => return,
            }
        }
        if let Some(fields) = at.as_object_mut() {
            fields.insert("nodeSelectorTerms".to_owned(), Value::Array(terms));
        }
    }

    /// The live set with the template and all else of this version in it, or the fields that cannot be changed. What others
    /// have written stays: a partition, labels, annotations.
    pub fn replacement(
        &self,
        live: &Value,
        template_zones: Option<&str>,
    ) -> Result<Value, Vec<&'static str>> {
        let mut set = self.set(template_zones);
        let mut body = live.clone();
        let claims = |set: &Value| {
            set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).map_or(0, Vec::len)
        };
        let given_claims = claims(&set);
        if self.first_ordinal.is_some()
            && let Some(spec) = set.get_mut("spec").and_then(Value::as_object_mut)
        {
            // Those of a set that shares them change in writes of their own.
            spec.remove("ordinals");
        }
        let ours = |set: &mut Value, key: &str| {
            set.get_mut("spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove(key))
        };
        let given = self.spec.template();
        let mut frozen = Vec::new();
        for field in IMMUTABLE {
            let (wanted, present) = (ours(&mut set, field), live.pointer(&format!("/spec/{field}")));
            // One that follows from the headless Service is for sets that are created with it.
            let is_given = field != "serviceName"
                || given.pointer("/spec/serviceName").is_some_and(|name| !name.is_null());
            // The server has dropped from claims what it does not know.
            let is_as_created = field == "volumeClaimTemplates" && self.has_claims_of(live);
            if is_given
                && !is_as_created
                && wanted.is_some_and(|wanted| !is_part_of(&wanted, present.unwrap_or(&Value::Null)))
            {
                frozen.push(field);
            }
        }
        if !frozen.contains(&"volumeClaimTemplates") && claims(live) != given_claims {
            frozen.push("volumeClaimTemplates");
        }
        if !frozen.is_empty() {
            return Err(frozen);
        }
        for key in ["labels", "annotations"] {
            let mut texts = texts(live.pointer(&format!("/metadata/{key}")));
            texts.extend(super::spec::texts(set.pointer(&format!("/metadata/{key}"))));
            if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert(key.to_owned(), json!(texts));
            }
        }
        let strategy = ours(&mut set, "updateStrategy").unwrap_or_default();
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            if spec.get("updateStrategy").and_then(|live| live.get("type")) == strategy.get("type") {
                limit(spec.get_mut("updateStrategy"), strategy.pointer("/rollingUpdate/maxUnavailable"));
            } else {
                spec.insert("updateStrategy".to_owned(), strategy);
            }
            let wanted = set.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            for field in DEFAULTED.into_iter().filter(|field| !wanted.contains_key(*field)) {
                spec.remove(field);
            }
            spec.extend(wanted);
        }
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        Ok(body)
    }
}

/// The reference to the object that controls what it creates.
pub fn owner_reference(row: &ExtendedRow) -> Value {
    json!({
        "apiVersion": row.group.api_version(),
        "kind": row.kind().definition().kind,
        "name": row.name,
        "uid": row.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Changes how many pods may be unavailable, and not the partition beside it.
fn limit(strategy: Option<&mut Value>, wanted: Option<&Value>) {
    let Some(strategy) = strategy.and_then(Value::as_object_mut) else { return };
    let rolling = match wanted {
        Some(_) => Some(strategy.entry("rollingUpdate").or_insert_with(|| json!({}))),
        None => strategy.get_mut("rollingUpdate"),
    };
    if let Some(rolling) = rolling.and_then(Value::as_object_mut) {
        rolling.remove("maxUnavailable");
        rolling.extend(wanted.map(|wanted| ("maxUnavailable".to_owned(), wanted.clone())));
    }
}

/// A number where a text is one, as fields that take either want it.
pub(super) fn int_or_string(text: &str) -> Value {
    text.trim().parse::<u32>().map_or_else(|_| json!(text.trim()), |number| json!(number))
}

/// Whether a value is what is wanted once the server has filled in defaults.
pub(super) fn is_part_of(wanted: &Value, present: &Value) -> bool {
    match (wanted, present) {
        (Value::Object(wanted), Value::Object(present)) => {
            wanted.iter().all(|(key, value)| is_part_of(value, present.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(present)) => {
            wanted.len() == present.len()
                && wanted.iter().zip(present).all(|(wanted, present)| is_part_of(wanted, present))
        }
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Null) => wanted.is_empty(),
        (Value::Array(wanted), Value::Null) => wanted.is_empty(),
        (Value::String(wanted), Value::Null) => wanted.is_empty(),
        (wanted, present) => {
            wanted == present || quantity(wanted) == quantity(present) && quantity(wanted).is_some()
        }
    }
}

/// The annotation of zones that the pod template of a set has or gets: what it has stays for as long as its version does.
pub fn template_zones<'z>(
    existing: Option<&'z Arc<str>>,
    is_same_version: bool,
    layout: &'z Layout,
) -> Option<&'z str> {
    match existing {
        Some(zones) if is_same_version => Some(zones),
        _ => layout.annotation.as_deref(),
    }
}
