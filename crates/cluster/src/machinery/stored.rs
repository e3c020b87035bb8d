//! An object as the store keeps it: it never changes, so its text is written once, however many lists and watches send it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::show::{self, Fields};

/// An object that is kept.
#[derive(Debug)]
pub struct Stored {
    value: Value,
    fields: OnceLock<Box<[u8]>>,
}

impl Stored {
    /// An object to keep.
    pub fn new(value: Value) -> Arc<Self> {
        Arc::new(Stored { value, fields: OnceLock::new() })
    }

    /// What it says.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Its fields as text, without `apiVersion` and `kind`: those depend on who asks, and lists of built-in kinds leave
    /// them out.
    pub(crate) fn fields(&self) -> &[u8] {
        self.fields.get_or_init(|| show::bytes(&Fields(&self.value)).into_boxed_slice())
    }
}

impl Deref for Stored {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Stored) -> bool {
        self.value == other.value
    }
}

impl PartialEq<Value> for Stored {
    fn eq(&self, other: &Value) -> bool {
        self.value == *other
    }
}
