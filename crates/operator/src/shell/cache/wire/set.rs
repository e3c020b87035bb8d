//! StatefulSets.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_api::kinds::Kind;
use sts_plus_planner::selector::{Labels, Requirement, Selector, Test};
use sts_plus_planner::set::{Child, SetRow, Steering, Strategy};
use sts_plus_planner::statefulset::world::SetSpec;

use super::set_spec::set_spec;
use super::{Decoded, Extent, Interner, Map, Meta, Undecodable, bounded, labels, undecodable};

/// The update strategy that is shown for a set that could not be read.
const UNREADABLE: &str = "unreadable";

/// How much is kept of an annotation that holds a word or a number, in characters: as much of a wrong one as a message
/// quotes. An object may carry 256 KiB of annotations, and there may be thousands of objects.
const WORD_CHARACTERS: usize = 64;

/// How much is kept of the status annotation, in characters: several times what we write there.
const STATUS_CHARACTERS: usize = 16 * 1024;

/// How much is kept of the ordinals of leaving pods, in characters: those of a hundred pods, several times.
const LEAVING_CHARACTERS: usize = 4 * 1024;

/// How much is kept of kind and name of the object that controls a set, in characters.
const CONTROLLER_CHARACTERS: usize = 512;

/// How long an annotation of an ExtendedStatefulSet may be, in bytes: 16 zones of 63 characters, quoted.
const CHILD_BYTES: usize = 2 * 1024;

/// The longest name of an object, in bytes.
const NAME_BYTES: usize = 253;

/// How many labels of a template are kept. They are looked at for one thing: whether another set selects these pods.
const TEMPLATE_LABELS: usize = 100;

/// How large a selector may be, in bytes of its keys and values: it is sent as part of an address, and servers take
/// 8 to 16 KiB of those.
const SELECTOR_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
pub(super) struct Set<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow)]
    pub(super) spec: Spec<'a>,
    #[serde(borrow, default)]
    pub(super) status: SetStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(default)]
    pub(super) replicas: Option<u32>,
    #[serde(borrow)]
    pub(super) selector: LabelSelector<'a>,
    #[serde(borrow)]
    pub(super) template: &'a RawValue,
    #[serde(default)]
    pub(super) min_ready_seconds: Option<i64>,
    #[serde(default)]
    ordinals: Option<Ordinals>,
    #[serde(borrow, default)]
    pub(super) update_strategy: UpdateStrategy<'a>,
    #[serde(borrow, default)]
    pub(super) volume_claim_templates: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) service_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) pod_management_policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) persistent_volume_claim_retention_policy: Option<RetentionPolicy<'a>>,
    #[serde(default)]
    pub(super) revision_history_limit: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetentionPolicy<'a> {
    #[serde(borrow, default)]
    pub(super) when_scaled: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) when_deleted: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LabelSelector<'a> {
    #[serde(borrow)]
    pub(super) match_labels: Option<Map<'a>>,
    #[serde(borrow)]
    match_expressions: Option<Vec<Expression<'a>>>,
}

#[derive(Deserialize)]
struct Expression<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<Vec<Cow<'a, str>>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: Option<TemplateMeta<'a>>,
}

#[derive(Deserialize)]
struct TemplateMeta<'a> {
    #[serde(borrow, default)]
    labels: Option<Map<'a>>,
}

#[derive(Deserialize)]
struct Ordinals {
    #[serde(default)]
    start: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateStrategy<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) rolling_update: Option<RollingUpdate<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RollingUpdate<'a> {
    #[serde(default)]
    pub(super) partition: Option<u32>,
    #[serde(borrow, default)]
    pub(super) max_unavailable: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SetStatus<'a> {
    pub(super) observed_generation: i64,
    pub(super) replicas: u32,
    pub(super) ready_replicas: u32,
    pub(super) available_replicas: u32,
    pub(super) current_replicas: u32,
    pub(super) updated_replicas: u32,
    pub(super) collision_count: Option<u32>,
    #[serde(borrow)]
    pub(super) current_revision: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) update_revision: Cow<'a, str>,
}

#[derive(Debug)]
pub(in crate::shell::cache) struct ReadSet {
    pub(in crate::shell::cache) row: SetRow,
    /// What only its own controller needs.
    pub(in crate::shell::cache) spec: Option<Arc<SetSpec>>,
}

/// Reads a StatefulSet. One that cannot be read gets a row that keeps its group from being rolled.
pub(in crate::shell::cache) fn set(
    json: &str,
    extent: Extent,
    interner: &mut Interner,
) -> Result<Decoded<ReadSet>, Undecodable> {
    let set: Set<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let template: Template<'_> =
        serde_json::from_str(set.spec.template.get()).map_err(|error| undecodable(json, &error))?;
    // Where sets are controlled their templates are kept as a whole, whatever their size.
    if extent == Extent::Steering && set.spec.selector.bytes() > SELECTOR_BYTES {
        let error = format!("the selector is larger than {} KiB", SELECTOR_BYTES / 1024);
        return Err(undecodable(json, &serde::de::Error::custom(error)));
    }
    let kept_spec = (extent == Extent::Controlling).then(|| Arc::new(set_spec(&set, interner)));
    let Set { metadata, spec, status } = set;
    let mut metadata = metadata;
    let annotations = metadata.annotations.take().unwrap_or_default();
    let annotation = |key: &str, characters| annotations.get(key).map(|value| bounded(value, characters));
    let mark = annotations.get(keys::PHASED_ROLLOUT).filter(|mark| mark.len() <= NAME_BYTES);
    let group = metadata.labels.as_ref().and_then(|labels| labels.get(keys::ROLLOUT_GROUP));
    let template_labels = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let known = |revision: Cow<'_, str>| (!revision.is_empty()).then(|| Box::from(revision.as_ref()));
    let namespace = interner.text(&metadata.namespace);
    let name: Arc<str> = metadata.name.as_ref().into();
    let replicas = spec.replicas.unwrap_or(1);
    let child = child(&metadata, &annotations, &status, interner).map(Box::new);
    let controller = metadata.controller().map(|owner| {
        let text = format!("{} {}", owner.kind, owner.name);
        Arc::from(bounded(&text, CONTROLLER_CHARACTERS))
    });
    let row = SetRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: interner.text(&metadata.uid),
        resource_version: metadata.resource_version.as_ref().into(),
        generation: metadata.generation,
        observed_generation: status.observed_generation,
        deleting: metadata.deletion_timestamp.is_some(),
        group: group.map(|group| interner.text(group)),
        steering: Steering {
            max_unavailable: annotation(keys::MAX_UNAVAILABLE, WORD_CHARACTERS),
            paused: annotation(keys::PAUSED, WORD_CHARACTERS),
            rollout_status: annotation(keys::ROLLOUT_STATUS, STATUS_CHARACTERS),
            phased_rollout: mark.map(|mark| mark.as_ref().into()),
            leaving: annotation(keys::LEAVING, LEAVING_CHARACTERS),
        },
        replicas,
        first_ordinal: spec.ordinals.map_or(0, |ordinals| ordinals.start),
        is_ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        min_ready: SignedDuration::from_secs(spec.min_ready_seconds.unwrap_or(0).max(0)),
        strategy: match spec.update_strategy.kind.as_ref() {
            "OnDelete" => Strategy::OnDelete,
            // The server fills this in; its default is RollingUpdate.
            "" | "RollingUpdate" => Strategy::RollingUpdate {
                partition: spec
                    .update_strategy
                    .rolling_update
                    .and_then(|rolling| rolling.partition)
                    .unwrap_or(0),
            },
            other => Strategy::Other(other.into()),
        },
        selector: selector(spec.selector),
        template_labels: labels(template_labels.iter().take(TEMPLATE_LABELS)),
        current_revision: known(status.current_revision),
        update_revision: known(status.update_revision),
        counted: [status.ready_replicas, status.updated_replicas] == [replicas; 2],
        child,
        controller,
    };
    let row = Some(ReadSet { row, spec: kept_spec });
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row })
}

/// What an ExtendedStatefulSet has written on a set: one that it controls, or one that nothing controls and that carries its
/// label, because it was left behind by an object of this name.
fn child(
    metadata: &Meta<'_>,
    annotations: &Map<'_>,
    status: &SetStatus<'_>,
    interner: &mut Interner,
) -> Option<Child> {
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let owner = metadata.controller();
    let group = match owner {
        Some(owner) if owner.kind == Kind::Extended.definition().kind => {
            Group::ALL.into_iter().find(|group| owner.api_version == group.api_version())?
        }
        Some(_) => return None,
        None => Group::ALL.into_iter().find(|group| label(&group.key(keys::EXTENDED_NAME)).is_some())?,
    };
    let annotation = |key: &str| annotations.get(&*group.key(key)).filter(|text| text.len() <= CHILD_BYTES);
    let named = label(&group.key(keys::EXTENDED_NAME));
    Some(Child {
        group,
        owner: interner.text(owner.map_or("", |owner| &owner.uid)),
        owner_name: interner
            .text(owner.map(|owner| &*owner.name).or(named.map(|name| &**name)).unwrap_or_default()),
        label: named.map(|name| interner.text(name)),
        version: annotation(keys::VERSION).map(|text| bounded(text, WORD_CHARACTERS)),
        hash: annotation(keys::CONTENT_HASH).map(|text| interner.text(text)),
        staying: annotation(keys::STAYING).and_then(|staying| staying.parse().ok()),
        zone_index: label(&group.key(keys::AZ_INDEX)).map(|text| bounded(text, WORD_CHARACTERS)),
        zone_name: label(&group.key(keys::AZ_NAME)).map(|text| interner.text(text)),
        zones: annotation(keys::ZONES).map(|text| interner.text(text)),
        template_zones: annotation(keys::TEMPLATE_ZONES).map(|text| interner.text(text)),
        taker: annotation(keys::TAKER).map(|text| interner.text(text)),
        has_claims: annotation(keys::CLAIMS_HASH).is_some(),
        ready_replicas: status.ready_replicas,
        status_replicas: status.replicas,
    })
}

impl LabelSelector<'_> {
    fn bytes(&self) -> usize {
        let labels = self.match_labels.iter().flatten().map(|(key, value)| key.len() + value.len());
        let expressions = self.match_expressions.iter().flatten().map(|expression| {
            let values = expression.values.iter().flatten().map(|value| value.len());
            expression.key.len() + expression.operator.len() + values.sum::<usize>()
        });
        labels.chain(expressions).sum()
    }
}

fn selector(selector: LabelSelector<'_>) -> Selector {
    let labels = selector.match_labels.into_iter().flatten().map(|(key, value)| Requirement {
        key: key.as_ref().into(),
        test: Test::In(vec![value.as_ref().into()]),
    });
    let expressions = selector.match_expressions.into_iter().flatten().map(|expression| {
        let values = || expression.values.iter().flatten().map(|value| value.as_ref().into()).collect();
        let test = match expression.operator.as_ref() {
            "In" => Test::In(values()),
            "NotIn" => Test::NotIn(values()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            // An operator this build does not know can match nothing: its pods count as missing.
            _ => Test::In(Vec::new()),
        };
        Requirement { key: expression.key.as_ref().into(), test }
    });
    Selector { requirements: labels.chain(expressions).collect() }
}

/// The row of a set that exists and cannot be read: the group it is in is skipped and says why.
pub(in crate::shell::cache) fn unreadable_set(json: &str, interner: &mut Interner) -> Option<SetRow> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let metadata = value.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let label = |key: &str| metadata.get("labels")?.get(key)?.as_str();
    Some(SetRow {
        namespace: interner.text(text("namespace")),
        name: text("name").into(),
        uid: text("uid").into(),
        resource_version: text("resourceVersion").into(),
        generation: 0,
        observed_generation: 0,
        deleting: false,
        group: label(keys::ROLLOUT_GROUP).map(|group| interner.text(group)),
        steering: Steering::default(),
        replicas: 0,
        first_ordinal: 0,
        is_ordered: true,
        min_ready: SignedDuration::ZERO,
        strategy: Strategy::Other(UNREADABLE.into()),
        selector: Selector::default(),
        template_labels: Labels::new(),
        current_revision: None,
        update_revision: None,
        counted: false,
        child: None,
        controller: None,
    })
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
