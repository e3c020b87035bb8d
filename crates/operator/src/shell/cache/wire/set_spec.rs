//! The part of a StatefulSet that only its own controller needs.

use serde::Deserialize;
use serde_json::Value;
use sts_plus_planner::amount::Amount;
use sts_plus_planner::revision;
use sts_plus_planner::statefulset::world::{
    ClaimTemplate, Counts, Keep, Management, Retention, Rolling, SetSpec,
};

use super::set::{RetentionPolicy, RollingUpdate, Set, UpdateStrategy};
use super::{Interner, Map, labels};

/// How many unused revisions are kept where the set does not say: the server's own default.
const DEFAULT_HISTORY_LIMIT: i64 = 10;

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: TemplateMeta<'a>,
    #[serde(default)]
    spec: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMeta<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    labels: Option<Map<'a>>,
    #[serde(borrow)]
    annotations: Option<Map<'a>>,
}

/// Reads it from a set that could be decoded. What is absent has the server's default.
pub(super) fn set_spec(set: &Set<'_>, interner: &mut Interner) -> SetSpec {
    let Set { metadata, spec, status } = set;
    // What was read as part of the set reads again.
    let template: Value = serde_json::from_str(spec.template.get()).unwrap_or_default();
    let claim_templates = spec.volume_claim_templates.map_or("", |templates| templates.get());
    SetSpec {
        patch: interner.text(&revision::patch(&template)),
        claim_templates: interner.claim_templates(claim_templates, || read_claim_templates(claim_templates)),
        service_name: spec.service_name.as_deref().unwrap_or_default().into(),
        management: match spec.pod_management_policy.as_deref() {
            Some("Parallel") => Management::Parallel,
            _ => Management::OrderedReady,
        },
        rolling: rolling(&spec.update_strategy),
        retention: spec.persistent_volume_claim_retention_policy.as_ref().map(retention).unwrap_or_default(),
        history_limit: spec.revision_history_limit.unwrap_or(DEFAULT_HISTORY_LIMIT),
        match_labels: spec.selector.match_labels.as_ref().map(labels).unwrap_or_default(),
        annotations: metadata.annotations.as_ref().map(labels).unwrap_or_default(),
        counts: Counts {
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            current: status.current_replicas,
            updated: status.updated_replicas,
        },
        collisions: status.collision_count,
    }
}

fn read_claim_templates(json: &str) -> Vec<ClaimTemplate> {
    // Without any, or where the server's validation was passed by: the pods then say what is missing.
    let templates: Vec<Template<'_>> = serde_json::from_str(json).unwrap_or_default();
    let templates = templates.into_iter().map(|Template { metadata, spec }| ClaimTemplate {
        name: metadata.name.into(),
        labels: metadata.labels.as_ref().map(labels).unwrap_or_default(),
        annotations: metadata.annotations.as_ref().map(labels).unwrap_or_default(),
        spec,
    });
    templates.collect()
}

/// Defaults fill the block in only where the type is absent too.
fn rolling(strategy: &UpdateStrategy<'_>) -> Option<Rolling> {
    match &strategy.rolling_update {
        Some(RollingUpdate { partition, max_unavailable }) => Some(Rolling {
            partition: partition.unwrap_or(0),
            max_unavailable: max_unavailable.and_then(|amount| self::amount(amount.get())),
        }),
        None if strategy.kind.is_empty() => Some(Rolling { partition: 0, max_unavailable: None }),
        None => None,
    }
}

/// A number, or a text with a percentage.
fn amount(json: &str) -> Option<Amount> {
    match serde_json::from_str(json).ok()? {
        Value::Number(count) => Amount::parse(&count.to_string()),
        Value::String(text) => Amount::parse(&text),
        _ => None,
    }
}

fn retention(policy: &RetentionPolicy<'_>) -> Retention {
    let keep = |value: Option<&str>| if value == Some("Delete") { Keep::Delete } else { Keep::Retain };
    Retention {
        when_scaled: keep(policy.when_scaled.as_deref()),
        when_deleted: keep(policy.when_deleted.as_deref()),
    }
}

#[cfg(test)]
#[path = "set_spec_tests.rs"]
mod tests;
