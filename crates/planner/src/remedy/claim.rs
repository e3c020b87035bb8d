//! How far a claim is that is to be grown, as the API server has it.

use serde_json::Value;

use super::sizes::Size;
use crate::quantity::quantity;

/// Words of a claim that keep a resizer from trying again: a person must act.
const INFEASIBLE: &str = "Infeasible";

/// How much of what a resizer reports is kept, in characters.
const MESSAGE_CHARACTERS: usize = 256;

/// How far a claim is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It has the size, or will have it when it is bound.
    Done,
    /// It is to be grown.
    Wanted {
        /// Its StorageClass; `None` for a claim without one, whose volume somebody has made by hand.
        class: Option<String>,
    },
    /// It is bound to no volume, and has been asked to be smaller: it can only grow once it is bound.
    Unbound,
    /// It was asked to grow, and has not yet; what is reported about it.
    Growing { why: String },
    /// It cannot grow; what is reported about it.
    Failed { why: String },
}

/// How far a claim is.
pub fn growth(claim: &Value, size: &Size) -> Growth {
    let amount = |pointer: &str| claim.pointer(pointer).and_then(quantity).unwrap_or_default();
    let text = |pointer: &str| claim.pointer(pointer).and_then(Value::as_str);
    let is_bound = text("/status/phase") == Some("Bound");
    if amount("/spec/resources/requests/storage") < size.amount {
        if !is_bound {
            return Growth::Unbound;
        }
        let class = text("/spec/storageClassName").filter(|class| !class.is_empty());
        return Growth::Wanted { class: class.map(str::to_owned) };
    }
    if !is_bound || amount("/status/capacity/storage") >= size.amount {
        return Growth::Done;
    }
    let resources = claim.pointer("/status/allocatedResourceStatuses/storage").and_then(Value::as_str);
    if let Some(word) = resources.filter(|word| word.contains(INFEASIBLE)) {
        return Growth::Failed { why: reported(claim).unwrap_or_else(|| word.to_owned()) };
    }
    Growth::Growing { why: reported(claim).unwrap_or_default() }
}

/// What a resizer reports: a condition that is true, the last one.
fn reported(claim: &Value) -> Option<String> {
    let conditions = claim.pointer("/status/conditions").and_then(Value::as_array)?;
    let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_true = |condition: &&Value| text(condition, "status").as_deref() == Some("True");
    let last = conditions.iter().rfind(is_true)?;
    let kind = text(last, "type")?;
    let message = text(last, "message").filter(|message| !message.is_empty());
    let words = message.map_or_else(|| kind.clone(), |message| format!("{kind}: {message}"));
    Some(words.chars().take(MESSAGE_CHARACTERS).collect())
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
