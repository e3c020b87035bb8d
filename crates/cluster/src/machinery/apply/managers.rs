//! Who owns what, as an object's metadata tells it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Manager, Operation, set::Set};

/// More managers than this do not write by update; the oldest are forgotten into one.
const MAX_UPDATERS: usize = 10;
/// What the forgotten ones are called.
const FORGOTTEN: &str = "ancient-changes";

/// By what a manager is known again: one that applies also under another version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) manager: String,
    pub(super) operation: Operation,
    api_version: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Name {
    pub(super) fn of(manager: &Manager) -> Self {
        let name = if manager.name.is_empty() { "unknown" } else { &manager.name };
        Name {
            manager: name.to_owned(),
            operation: manager.operation,
            api_version: (manager.operation == Operation::Update).then(|| manager.api_version.clone()),
            subresource: manager.subresource.clone(),
        }
    }

    /// As conflicts call it.
    pub(super) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if let Some(subresource) = &self.subresource {
            shown = format!("{shown} with subresource {subresource:?}");
        }
        match &self.api_version {
            Some(version) => format!("{shown} using {version}"),
            None => shown,
        }
    }
}

/// What a manager owns.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) set: Set,
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(pub(super) BTreeMap<Name, Owned>);

impl Managers {
    /// Nothing, if an entry cannot be read.
    pub(super) fn decode(entries: Option<&Value>) -> Option<Self> {
        let mut managers = Managers::default();
        for entry in entries.and_then(Value::as_array).into_iter().flatten() {
            let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let api_version = text("apiVersion").to_owned();
            if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let name = Name {
                manager: text("manager").to_owned(),
                operation,
                api_version: (operation == Operation::Update).then(|| api_version.clone()),
                subresource: Some(text("subresource").to_owned()).filter(|name| !name.is_empty()),
            };
            let set = entry.get("fieldsV1").map_or_else(|| Some(Set::default()), Set::decode)?;
            managers.0.insert(name, Owned { set, api_version, time: text("time").parse().ok() });
        }
        Some(managers)
    }

    /// As an object's metadata lists them; nothing if there are none.
    pub(super) fn encode(&self) -> Option<Value> {
        let seconds = |owned: &Owned| owned.time.map_or(0, Timestamp::as_second);
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(name, owned)| {
            (name.operation, seconds(owned), &name.manager, &owned.api_version, &name.subresource)
        });
        let entries: Vec<_> = all.into_iter().map(|(name, owned)| entry(name, owned)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes fields from managers; who is left without any is gone.
    pub(super) fn take(&mut self, taken: impl Fn(&Name) -> Option<Set>) {
        for (name, owned) in &mut self.0 {
            if let Some(taken) = taken(name) {
                owned.set = owned.set.difference(&taken);
            }
        }
        self.0.retain(|_, owned| !owned.set.is_empty());
    }

    /// Forgets the oldest updaters of too many, each into one of its version.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<_> = self
            .0
            .iter()
            .filter(|(name, _)| name.operation == Operation::Update)
            .map(|(name, owned)| (owned.time.map_or(0, Timestamp::as_second), name.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut firsts: BTreeMap<String, Name> = BTreeMap::new();
        for (_, name) in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(owned) = self.0.get(&name).cloned() else { continue };
            let version = owned.api_version.clone();
            let Some(first) = firsts.get(&version) else {
                firsts.insert(version, name);
                continue;
            };
            let bucket = Name {
                manager: FORGOTTEN.to_owned(),
                operation: Operation::Update,
                api_version: Some(version),
                subresource: None,
            };
            if !self.0.contains_key(&bucket)
                && let Some(oldest) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), oldest);
            }
            self.0.remove(&name);
            if let Some(forgotten) = self.0.get_mut(&bucket) {
                forgotten.set = forgotten.set.union(&owned.set);
                forgotten.time = owned.time;
            }
            count -= 1;
        }
    }
}

fn entry(name: &Name, owned: &Owned) -> Value {
    let mut entry = json!({
        "manager": name.manager,
        "operation": <&str>::from(name.operation),
        "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.set.encode(),
    });
    if let Some(fields) = entry.as_object_mut() {
        // Kubernetes keeps whole seconds.
        let second = owned.time.and_then(|time| Timestamp::from_second(time.as_second()).ok());
        fields.extend(second.map(|second| ("time".to_owned(), Value::from(second.to_string()))));
        fields.extend(name.subresource.clone().map(|name| ("subresource".to_owned(), Value::from(name))));
    }
    entry
}
