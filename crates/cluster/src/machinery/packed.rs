//! Managed fields as one text.
//!
//! They are half of a pod's maps and nobody but writers reads them. Kept objects have them as the JSON text that answers
//! show; whoever writes an object takes them apart first.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::show;

const FIELD: &str = "managedFields";

/// Makes them one text, unless they are one already.
pub(crate) fn pack(object: &mut Value) {
    if let Some(managers) = managers(object).filter(|managers| !managers.is_string()) {
        *managers = String::from_utf8(show::bytes(managers)).unwrap_or_default().into();
    }
}

/// Takes them apart, unless they are.
pub(crate) fn unpack(object: &mut Value) {
    if let Some(managers) = managers(object)
        && let Some(apart) = managers.as_str().and_then(|text| serde_json::from_str(text).ok())
    {
        *managers = apart;
    }
}

fn managers(object: &mut Value) -> Option<&mut Value> {
    object.get_mut("metadata")?.get_mut(FIELD)
}

/// The metadata of an object, with its managed fields as answers show them.
pub(crate) struct Metadata<'a>(pub(crate) &'a Value);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            let text = value.as_str().filter(|_| name == FIELD);
            match text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok()) {
                Some(managers) => map.serialize_entry(name, managers)?,
                None => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
