//! An object as the store keeps it: it never changes, so its text is written once, however many lists and watches send it.
//! Its managed fields are one text.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::packed;
use super::show::{self, Fields};

/// An object that is kept.
#[derive(Debug)]
pub struct Stored {
    value: Value,
    fields: OnceLock<Box<[u8]>>,
}

impl Stored {
    /// An object to keep.
    pub fn new(mut value: Value) -> Arc<Self> {
        packed::pack(&mut value);
        Arc::new(Stored { value, fields: OnceLock::new() })
    }

    /// What it says, its managed fields packed.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What it says, to be changed by a writer.
    pub(crate) fn whole(&self) -> Value {
        let mut whole = self.value.clone();
        packed::unpack(&mut whole);
        whole
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
