//! ResourceQuotas: how many objects of a kind a namespace may have. Only numbers of objects are counted here.

use serde_json::{Map, Value};

use super::{Kind, Strategy, Table};
use crate::machinery::answer::Refusal;
use crate::machinery::object::{self, text};
use crate::machinery::schema::Cause;
use crate::machinery::state::State;
use crate::machinery::store::Key;
use crate::machinery::stored::Stored;

/// What begins the name of a number of objects, of any kind.
const COUNT: &str = "count/";
/// The kinds whose number may also be named by the plural alone.
const PLAIN: [&str; 6] =
    ["configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services"];

pub(super) struct Quotas;

impl Strategy for Quotas {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        // What cannot be judged is refused, never skipped.
        let uncounted = "is not counted by this server";
        for (resource, most) in object.pointer("/spec/hard").and_then(Value::as_object).into_iter().flatten()
        {
            let field = format!("spec.hard[{resource}]");
            if !resource.starts_with(COUNT) && !PLAIN.contains(&resource.as_str()) {
                causes.push(Cause::forbidden(field, uncounted));
            } else if number(most).is_none() {
                causes.push(Cause::invalid(field, most, "must be an integer"));
            }
        }
        for field in ["scopes", "scopeSelector"] {
            if object.pointer(&format!("/spec/{field}")).is_some() {
                causes.push(Cause::forbidden(format!("spec.{field}"), uncounted));
            }
        }
        causes
    }
}

fn number(most: &Value) -> Option<usize> {
    match most {
        Value::String(most) => most.parse().ok(),
        most => usize::try_from(most.as_u64()?).ok(),
    }
}

/// The kind whose objects a resource is the number of.
fn kind_of<'a>(table: &'a Table, resource: &str) -> Option<&'a Kind> {
    let (plural, group) = match resource.strip_prefix(COUNT) {
        Some(counted) => counted.split_once('.').unwrap_or((counted, "")),
        None => (resource, ""),
    };
    table.get(group, plural).map(|kind| &**kind)
}

fn count(state: &State, kind: &Kind, namespace: &str) -> usize {
    let counts = |(_, object): &(_, &std::sync::Arc<Stored>)| {
        let has_ended = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
        !(has_ended && (kind.group.as_str(), kind.plural.as_str()) == ("", "pods"))
    };
    state.store.list(kind.id, Some(namespace)).filter(counts).count()
}

/// How many there are of each resource that a quota limits, as its status shows them.
pub(crate) fn used(state: &State, quota: &Value) -> Map<String, Value> {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object).into_iter().flatten();
    let counted = hard.filter_map(|(resource, _)| {
        let used = count(state, kind_of(&state.table, resource)?, object::namespace(quota));
        Some((resource.clone(), used.to_string().into()))
    });
    counted.collect()
}

/// Refuses an object that is one too many. A quota counts from when its status says what it limits.
pub(crate) fn admit(state: &State, kind: &Kind, key: &Key) -> Result<(), Refusal> {
    for quota in state.objects("", "resourcequotas", Some(&key.namespace)) {
        let hard = quota.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten();
        let (mut requested, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (resource, most) in hard {
            if kind_of(&state.table, resource).is_none_or(|limited| limited.id != kind.id) {
                continue;
            }
            let (present, most) = (count(state, kind, &key.namespace), number(most).unwrap_or_default());
            if present >= most {
                requested.push(format!("{resource}=1"));
                used.push(format!("{resource}={present}"));
                limited.push(format!("{resource}={most}"));
            }
        }
        if !requested.is_empty() {
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                object::name(&quota),
                requested.join(","),
                used.join(","),
                limited.join(",")
            );
            return Err(Refusal::forbidden(kind.resource(), &key.name, &why, None));
        }
    }
    Ok(())
}
