//! Objects of a cluster as rows, and how the API server changes them.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use crate::extended::row::path;
use crate::extended::services::{ServiceRow, digest_of_ports};
use crate::plan::Object;
use crate::selector::Selector;
use crate::set::{Child, SetRow, Steering, Strategy};

/// The name of a set without its version.
pub(super) fn place(set: &str) -> String {
    set.rsplit_once("-v").map_or(set, |(place, _)| place).to_owned()
}

pub(super) fn ordinal(pod: &str) -> u32 {
    pod.rsplit_once('-').unwrap().1.parse().unwrap()
}

pub(super) fn partition(set: &SetRow) -> u32 {
    match set.strategy {
        Strategy::RollingUpdate { partition } => partition,
        _ => 0,
    }
}

pub(super) fn service_row(object: &Object, live: &Value, version: &str) -> ServiceRow {
    let selector = texts(&live["spec"]["selector"]);
    let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.into_iter().find(|owner| owner["controller"] == true);
    let owner: Option<Arc<str>> = owner.and_then(|owner| owner["uid"].as_str()).map(Into::into);
    let named = |group: Group| {
        let name = live["metadata"]["labels"][group.key(keys::EXTENDED_NAME)].as_str()?;
        Some(Arc::from(path(group, &object.namespace, name)))
    };
    let left_by = if owner.is_some() { None } else { Group::ALL.into_iter().find_map(named) };
    let selector = selector.into_iter().map(|(key, value)| (key.into(), value.into()));
    ServiceRow {
        namespace: Arc::clone(&object.namespace),
        name: (*object.name).into(),
        uid: format!("uid-{}", object.name).into(),
        resource_version: version.into(),
        terminating: false,
        owner,
        left_by,
        selector: Arc::new(selector.collect()),
        ports: digest_of_ports(&live["spec"]["ports"]),
        headless: live["spec"]["clusterIP"] == "None",
    }
}

pub(super) fn revision(live: &Value) -> String {
    crate::revision::fnv64(live["spec"]["template"].to_string().as_bytes())
}

/// As the API server merges: the generation counts changes of the spec.
pub(super) fn merge_set(group: Group, (row, live): (&mut SetRow, &mut Value), patch: &Value, version: &str) {
    let (before, spec) = (row.clone(), live["spec"].clone());
    merge(live, patch);
    *row = set_row(group, live, version);
    row.uid = before.uid;
    row.generation = before.generation + i64::from(live["spec"] != spec);
    row.observed_generation = before.observed_generation;
    row.current_revision = before.current_revision;
    live["metadata"]["generation"] = json!(row.generation);
}

pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

pub(super) fn texts(value: &Value) -> Vec<(&str, &str)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((&**key, value.as_str()?)))
        .collect()
}

pub(super) fn set_row(group: Group, body: &Value, version: &str) -> SetRow {
    let (metadata, spec) = (&body["metadata"], &body["spec"]);
    let text = |value: &Value, key: &str| value[&group.key(key)].as_str().map(str::to_owned);
    let (labels, annotations) = (&metadata["labels"], &metadata["annotations"]);
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true).cloned().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap();
    SetRow {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}-{version}").into(),
        resource_version: version.into(),
        generation: 1,
        observed_generation: 0,
        deleting: false,
        group: labels[keys::ROLLOUT_GROUP].as_str().map(Into::into),
        steering: Steering {
            max_unavailable: annotations[keys::MAX_UNAVAILABLE].as_str().map(Into::into),
            paused: annotations[keys::PAUSED].as_str().map(Into::into),
            phased_rollout: annotations[keys::PHASED_ROLLOUT].as_str().map(Into::into),
            leaving: annotations[keys::LEAVING].as_str().map(Into::into),
            ..Steering::default()
        },
        replicas: u32::try_from(spec["replicas"].as_u64().unwrap_or(1)).unwrap(),
        first_ordinal: u32::try_from(spec["ordinals"]["start"].as_u64().unwrap_or(0)).unwrap(),
        is_ordered: spec["podManagementPolicy"] != "Parallel",
        min_ready: SignedDuration::ZERO,
        strategy: if spec["updateStrategy"]["type"] == "OnDelete" {
            Strategy::OnDelete
        } else {
            let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_u64().unwrap_or(0);
            Strategy::RollingUpdate { partition: u32::try_from(partition).unwrap() }
        },
        selector: Selector::labels(texts(&spec["selector"]["matchLabels"])),
        template_labels: texts(&spec["template"]["metadata"]["labels"])
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        current_revision: None,
        update_revision: None,
        counted: false,
        controller: owner["name"].as_str().map(|name| format!("ExtendedStatefulSet {name}").into()),
        child: Some(Box::new(Child {
            group,
            owner: owner["uid"].as_str().unwrap_or_default().into(),
            owner_name: owner["name"].as_str().unwrap_or_default().into(),
            label: text(labels, keys::EXTENDED_NAME).map(Into::into),
            version: text(annotations, keys::VERSION).map(Into::into),
            hash: text(annotations, keys::CONTENT_HASH).map(Into::into),
            zone_index: text(labels, keys::AZ_INDEX).map(Into::into),
            zone_name: text(labels, keys::AZ_NAME).map(Into::into),
            zones: text(annotations, keys::ZONES).map(Into::into),
            template_zones: text(annotations, keys::TEMPLATE_ZONES).map(Into::into),
            staying: text(annotations, keys::STAYING).and_then(|staying| staying.parse().ok()),
            taker: text(annotations, keys::TAKER).map(Into::into),
            has_claims: text(annotations, keys::CLAIMS_HASH).is_some(),
            ready_replicas: 0,
            status_replicas: 0,
        })),
    }
}
