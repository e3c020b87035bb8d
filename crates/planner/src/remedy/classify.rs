//! What a change of immutable fields needs: the heaviest of what each of its parts needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::canonical::Immutable;

/// What is done about a change, the lightest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// There is no change.
    None,
    /// Claims are grown in place; the object says so already.
    ExpandClaims,
    /// The object is created again around its pods.
    Recreate,
    /// The pods are replaced by others, or get other volumes. sts-plus does not do that: it refuses the change.
    Rotate,
}

/// A part of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A claim template asks for more.
    Grows { claim: String },
    /// A claim template has other labels or annotations, which claims that exist do not get.
    ClaimMetadata { claim: String },
    /// The headless Service. Pods have the DNS name of the new one when they are next created.
    ServiceName,
    /// The order in which the pods are created and removed.
    PodManagementPolicy,
    /// A claim template asks for less.
    Shrinks { claim: String },
    /// A field of a claim template.
    ClaimField { claim: String, field: String },
    /// There is a new claim template.
    ClaimAdded { claim: String },
    /// A claim template is gone.
    ClaimRemoved { claim: String },
    /// Which pods the set has.
    Selector,
    /// A field that this build knows nothing about.
    Field { field: String },
}

/// What a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub remedy: Remedy,
    /// The parts of the change, each once.
    pub changes: BTreeSet<Change>,
}

impl Change {
    /// What it needs.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Grows { .. }
            | Self::ClaimMetadata { .. }
            | Self::ServiceName
            | Self::PodManagementPolicy => Remedy::Recreate,
            Self::Shrinks { .. }
            | Self::ClaimField { .. }
            | Self::ClaimAdded { .. }
            | Self::ClaimRemoved { .. }
            | Self::Selector
            | Self::Field { .. } => Remedy::Rotate,
        }
    }
}

impl fmt::Display for Change {
    /// A part of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grows { claim } => write!(f, "volumeClaimTemplate {claim} asks for more storage"),
            Self::ClaimMetadata { claim } => {
                write!(f, "volumeClaimTemplate {claim} has other labels or annotations")
            }
            Self::ServiceName => f.write_str("serviceName is different"),
            Self::PodManagementPolicy => f.write_str("podManagementPolicy is different"),
            Self::Shrinks { claim } => {
                write!(f, "volumeClaimTemplate {claim} asks for less storage, and a volume cannot shrink")
            }
            Self::ClaimField { claim, field } => {
                write!(f, "{field} of volumeClaimTemplate {claim} is different, which needs another volume")
            }
            Self::ClaimAdded { claim } => {
                write!(f, "volumeClaimTemplate {claim} is new, and a pod cannot get another volume")
            }
            Self::ClaimRemoved { claim } => {
                write!(f, "volumeClaimTemplate {claim} is missing, and a pod cannot lose a volume")
            }
            Self::Selector => f.write_str("the selector is different, which selects other pods"),
            Self::Field { field } => write!(f, "{field} is different"),
        }
    }
}

impl Verdict {
    /// What it takes to get from one spec to another one.
    pub fn of(before: &Value, after: &Value) -> Self {
        let (before, after) = (Immutable::of(before), Immutable::of(after));
        let mut changes = BTreeSet::new();
        if before.text() != after.text() {
            fields(&before, &after, &mut changes);
            claims(&before, &after, &mut changes);
        }
        let remedy = changes.iter().map(Change::remedy).max().unwrap_or(Remedy::None);
        Self { remedy, changes }
    }

    /// How often each pod is restarted: a set that is created again adopts its pods as they are.
    pub fn restarts(&self) -> u32 {
        u32::from(self.remedy == Remedy::Rotate)
    }

    /// Whether the data of the pods must be built up again on other volumes.
    pub fn moves_data(&self) -> bool {
        self.remedy == Remedy::Rotate
    }

    /// The parts that cannot be done in place, in words.
    pub fn refused(&self) -> Option<String> {
        let heavy = self.changes.iter().filter(|change| change.remedy() == Remedy::Rotate);
        let heavy: Vec<_> = heavy.map(ToString::to_string).collect();
        (!heavy.is_empty()).then(|| heavy.join("; "))
    }
}

fn fields(before: &Immutable, after: &Immutable, changes: &mut BTreeSet<Change>) {
    let keys: BTreeSet<_> = before.fields().keys().chain(after.fields().keys()).collect();
    for key in keys {
        if before.fields().get(key) == after.fields().get(key) {
            continue;
        }
        match key.as_str() {
            "volumeClaimTemplates" => {}
            "serviceName" => drop(changes.insert(Change::ServiceName)),
            "podManagementPolicy" => drop(changes.insert(Change::PodManagementPolicy)),
            "selector" => drop(changes.insert(Change::Selector)),
            field => drop(changes.insert(Change::Field { field: field.to_owned() })),
        }
    }
}

fn by_name(form: &Immutable) -> BTreeMap<&str, &Value> {
    let named = |template| (text(template, "/metadata/name"), template);
    form.claim_templates().map(named).collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn claims(before: &Immutable, after: &Immutable, changes: &mut BTreeSet<Change>) {
    let (before, after) = (by_name(before), by_name(after));
    for (name, old) in &before {
        let claim = || (*name).to_owned();
        match after.get(name) {
            None => drop(changes.insert(Change::ClaimRemoved { claim: claim() })),
            Some(new) => compare(&claim(), old, new, changes),
        }
    }
    let added = after.keys().filter(|name| !before.contains_key(*name));
    changes.extend(added.map(|name| Change::ClaimAdded { claim: (*name).to_owned() }));
}

/// Two claim templates of one name.
fn compare(claim: &str, old: &Value, new: &Value, changes: &mut BTreeSet<Change>) {
    const STORAGE: &str = "/spec/resources/requests/storage";
    if old.get("metadata") != new.get("metadata") {
        changes.insert(Change::ClaimMetadata { claim: claim.to_owned() });
    }
    let amount = |template: &Value| text(template, STORAGE).parse::<u128>().ok();
    if old.pointer(STORAGE) != new.pointer(STORAGE) {
        changes.insert(match (amount(old), amount(new)) {
            (Some(old), Some(new)) if new > old => Change::Grows { claim: claim.to_owned() },
            (Some(_), Some(_)) => Change::Shrinks { claim: claim.to_owned() },
            _ => field(claim, "resources.requests.storage"),
        });
    }
    let spec = |template: &Value| {
        let mut spec = template.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let requests = spec.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
        if let Some(requests) = requests.and_then(Value::as_object_mut) {
            requests.remove("storage");
        }
        spec
    };
    let (old, new) = (spec(old), spec(new));
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let nothing = |value: Option<&Value>| {
        value.is_none_or(|value| match value {
            Value::Object(fields) => {
                fields.values().all(|value| value.as_object().is_some_and(serde_json::Map::is_empty))
            }
            _ => false,
        })
    };
    let differs = |key: &&&String| {
        let (old, new) = (old.get(**key), new.get(**key));
        old != new && !(nothing(old) && nothing(new))
    };
    changes.extend(keys.iter().filter(differs).map(|key| field(claim, key)));
}

fn field(claim: &str, field: &str) -> Change {
    Change::ClaimField { claim: claim.to_owned(), field: field.to_owned() }
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
