//! Reading which sets of a namespace carry the mark of a PhasedRollout, whatever the view shows of them.

use std::sync::Arc;

use super::{CONFIRMED_WITHIN, Confirmer};
use crate::shell::api::Kind;
use crate::shell::cache::{Part, Reading};

impl Confirmer<'_> {
    /// Lists the sets of the namespace consistently and takes in those that carry the mark of this PhasedRollout; what could
    /// not be read, and why, where that fails.
    pub(in crate::shell) async fn confirm_marks(&self, rollout: &str) -> Result<(), Arc<str>> {
        let namespace = self.namespace();
        let read = tokio::time::timeout(CONFIRMED_WITHIN, self.read_marks(rollout)).await;
        let late = || {
            let seconds = CONFIRMED_WITHIN.as_secs();
            format!("the sets of namespace {namespace} could not be read within {seconds} s")
        };
        read.unwrap_or_else(|_| Err(late())).map_err(Arc::from)
    }

    async fn read_marks(&self, rollout: &str) -> Result<(), String> {
        let namespace = self.namespace();
        let listed = self.list(Kind::StatefulSet, None).await?;
        // Of those that the cache has at this version the view shows the mark.
        for object in listed.objects {
            let name = object.name();
            if !object.is_decoded() {
                return Err(format!("the set {namespace}/{name} cannot be read"));
            }
            if object.mark() == Some(rollout) {
                let part = Part::Set { namespace: Arc::clone(namespace), name: Arc::clone(name) };
                let (parts, version) = (vec![part], listed.version.clone());
                self.cache.confirm(Reading { parts, version, objects: vec![object], gone: Vec::new() });
            }
        }
        Ok(())
    }
}
