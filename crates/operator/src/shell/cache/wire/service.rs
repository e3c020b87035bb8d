//! Services.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_planner::extended::row::path;
use sts_plus_planner::extended::services::{ServiceRow, digest_of_ports};

use super::{Decoded, Interner, Map, Meta, Undecodable, undecodable};

#[derive(Deserialize)]
struct Service<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: ServiceSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServiceSpec<'a> {
    #[serde(borrow)]
    selector: Option<Map<'a>>,
    ports: Value,
    #[serde(borrow, rename = "clusterIP")]
    cluster_ip: Option<Cow<'a, str>>,
}

/// Reads a Service.
pub(in crate::shell::cache) fn service(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<ServiceRow>, Undecodable> {
    let Service { metadata, spec } = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let (namespace, name) = (interner.text(&metadata.namespace), Arc::from(&*metadata.name));
    let selector = spec.selector.iter().flatten().map(|(key, value)| (key.as_ref(), value.as_ref()));
    let row = ServiceRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: metadata.uid.as_ref().into(),
        resource_version: metadata.resource_version.as_ref().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: metadata.controller().map(|owner| interner.text(&owner.uid)),
        left_by: left_by(&metadata),
        selector: interner.labels(selector),
        ports: digest_of_ports(&spec.ports),
        headless: spec.cluster_ip.as_deref() == Some("None"),
    };
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row: Some(row) })
}

/// The object that has left a Service behind.
fn left_by(metadata: &Meta<'_>) -> Option<Arc<str>> {
    let label = |key: &str| metadata.labels.as_ref()?.get(key).map(AsRef::as_ref);
    if metadata.controller().is_some() || label(keys::MANAGED_BY) != Some(keys::MANAGED_BY_STS_PLUS) {
        return None;
    }
    let of_group = |group: &Group| {
        let name = label(&group.key(keys::EXTENDED_NAME))?;
        Some(path(*group, &metadata.namespace, name).into())
    };
    Group::ALL.iter().find_map(of_group)
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
