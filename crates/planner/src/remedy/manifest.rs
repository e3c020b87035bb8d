//! The object that takes the place of a set: all that its users have written, and nothing that its server has.

use std::fmt;

use serde_json::{Map, Value, json};

/// Finalizers that a deletion itself sets, which are gone with the object.
const OF_DELETION: [&str; 2] = ["orphan", "foregroundDeletion"];

/// The greatest size of a stored object, in bytes: the API server's store takes 1.5 MiB for one request, and some of that is the
/// record's own.
pub const MAX_BYTES: usize = 1_400_000;

/// Why a set must not be deleted and created again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has a finalizer, so that somebody else decides when it is gone, and may undo something then.
    Finalizer(String),
    /// It is too large to be stored.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// It could not be read.
    Unreadable,
}

impl fmt::Display for Obstacle {
    /// What comes after the name of the set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizer(finalizer) => {
                write!(f, "has the finalizer {finalizer}, whose owner would take it for removed")
            }
            Self::TooLarge { bytes } => {
                write!(f, "has {bytes} bytes, and at most {MAX_BYTES} can be stored meanwhile")
            }
            Self::Unreadable => f.write_str("cannot be read"),
        }
    }
}

/// The successor of a set as the API server has it, with another spec.
pub fn successor(live: &Value, spec: &Value) -> Result<Value, Obstacle> {
    let metadata = live.get("metadata").and_then(Value::as_object).ok_or(Obstacle::Unreadable)?;
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let mut finalizers = finalizers.filter_map(Value::as_str);
    if let Some(finalizer) = finalizers.find(|finalizer| !OF_DELETION.contains(finalizer)) {
        return Err(Obstacle::Finalizer(finalizer.to_owned()));
    }
    let kept = ["name", "namespace", "labels", "annotations", "ownerReferences"];
    let kept = kept.iter().filter_map(|key| Some(((*key).to_owned(), metadata.get(*key)?.clone())));
    let metadata: Map<String, Value> = kept.collect();
    let mut spec = spec.clone();
    let templates = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten().filter_map(Value::as_object_mut) {
        template.remove("status");
    }
    let object =
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec });
    let bytes = object.to_string().len();
    if bytes > MAX_BYTES { Err(Obstacle::TooLarge { bytes }) } else { Ok(object) }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
