//! Where changes are written down, so that a cluster outlives its process.

use std::fmt::Debug;

use futures::future::BoxFuture;

use super::store::Change;

/// Writes down every change, in the order of their versions.
pub trait Journal: Debug + Send + Sync {
    /// Takes note of a change. It is written down soon after; who waits for that asks [`Journal::written`].
    fn note(&self, change: &Change);

    /// Waits until all changes up to a version are written down, or cannot be.
    fn written(&self, version: u64) -> BoxFuture<'static, Result<(), String>>;

    /// Why nothing can be written down any longer.
    fn trouble(&self) -> Option<String>;
}
