//! What is kept of an object of which only the metadata matters.

use std::sync::Arc;

use crate::plan::{Kind, Object};
use crate::selector::Labels;

/// One such object, of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRow {
    pub kind: Kind,
    /// Its namespace; empty for one that is in none.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub resource_version: Box<str>,
    pub labels: Arc<Labels>,
    /// Its annotations, long ones cut.
    pub annotations: Arc<Labels>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// The UID of the object that controls it.
    pub owner: Option<Arc<str>>,
}

impl MetadataRow {
    /// The object, as writes and reads name it.
    pub fn object(&self) -> Object {
        Object { kind: self.kind, namespace: Arc::clone(&self.namespace), name: (*self.name).into() }
    }
}
