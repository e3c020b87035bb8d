//! The sizes of claims that are asked for, and the spec of a set that has them.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::quantity::quantity;
use crate::revision::fnv64;

/// The size of the claims of a claim template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The name of the claim template.
    pub claim: Arc<str>,
    /// The size as it was written.
    pub storage: Arc<str>,
    /// The same, to be compared.
    pub amount: u128,
}

/// Why a set cannot have a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeFault {
    /// The set has no claim template of this name.
    Unknown {
        claim: Arc<str>,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The claim template asks for more already.
    Shrinks { claim: Arc<str>, wanted: Arc<str>, present: String },
}

impl fmt::Display for SizeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { claim, known } if known.is_empty() => {
                write!(f, "it has no volumeClaimTemplate {claim}, and no others")
            }
            Self::Unknown { claim, known } => {
                write!(f, "it has no volumeClaimTemplate {claim}, only {}", known.join(", "))
            }
            Self::Shrinks { claim, wanted, present } => {
                write!(f, "volumeClaimTemplate {claim} has {present}, and a volume cannot shrink to {wanted}")
            }
        }
    }
}

impl Size {
    /// A size; `None` where it is no quantity, or nothing.
    pub fn parse(claim: &str, storage: &str) -> Option<Self> {
        let amount = quantity(&json!(storage)).filter(|amount| *amount > 0)?;
        (!claim.is_empty()).then(|| Self { claim: claim.into(), storage: storage.into(), amount })
    }
}

/// A hash of sizes, however they are written.
pub fn hash(sizes: &[Size]) -> String {
    let mut lines = String::new();
    for size in sizes {
        let _ = writeln!(lines, "{}={}", size.claim, size.amount);
    }
    fnv64(lines.as_bytes())
}

/// The spec of a set with these sizes.
pub fn apply(spec: &Value, sizes: &[Size]) -> Result<Value, SizeFault> {
    let mut spec = spec.clone();
    for size in sizes {
        let templates = || spec.get("volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten();
        let name =
            |template: &Value| template.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
        let at = templates().position(|template| name(template).as_deref() == Some(&*size.claim));
        let Some(at) = at else {
            let known = templates().filter_map(name).collect();
            return Err(SizeFault::Unknown { claim: Arc::clone(&size.claim), known });
        };
        let template = spec.pointer_mut(&format!("/volumeClaimTemplates/{at}"));
        let Some(claim) = template.and_then(Value::as_object_mut) else { continue };
        let present = claim.get("spec").and_then(|spec| spec.pointer("/resources/requests/storage"));
        match present.and_then(quantity) {
            Some(amount) if amount == size.amount => continue,
            Some(amount) if amount > size.amount => {
                let present = present.map(shown).unwrap_or_default();
                let (claim, wanted) = (Arc::clone(&size.claim), Arc::clone(&size.storage));
                return Err(SizeFault::Shrinks { claim, wanted, present });
            }
            _ => {}
        }
        let spec = fields(claim, "spec");
        let requests = spec.and_then(|spec| fields(fields(spec, "resources")?, "requests"));
        if let Some(requests) = requests {
            requests.insert("storage".to_owned(), json!(size.storage));
        }
    }
    Ok(spec)
}

/// The fields of a field, which are made where there are none.
fn fields<'v>(of: &'v mut Map<String, Value>, key: &str) -> Option<&'v mut Map<String, Value>> {
    let field = of.entry(key).or_insert(Value::Null);
    if !field.is_object() {
        *field = json!({});
    }
    field.as_object_mut()
}

/// A quantity as it is written.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
