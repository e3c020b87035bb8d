//! Reading which sets of a namespace carry the mark of a PhasedRollout, whatever the view shows of them.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use sts_plus_api::keys;

use super::{CONFIRMED_WITHIN, Confirmer};
use crate::shell::api::Resource;
use crate::shell::cache::{Part, Reading};

#[derive(Deserialize)]
struct Marked {
    metadata: MarkedMeta,
}

#[derive(Deserialize)]
struct MarkedMeta {
    name: Box<str>,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

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
        let listed = self.list(Resource::StatefulSets, None).await?;
        for object in listed.objects {
            let set: Marked = serde_json::from_str(&object)
                .map_err(|error| format!("unreadable set in namespace {namespace}: {error}"))?;
            if set.metadata.annotations.get(keys::PHASED_ROLLOUT).is_some_and(|mark| mark == rollout) {
                let part = Part::Set { namespace: Arc::clone(namespace), name: set.metadata.name.into() };
                let (parts, version) = (vec![part], listed.version.clone());
                self.cache.confirm(&Reading { parts, version, objects: vec![object], gone: Vec::new() });
            }
        }
        Ok(())
    }
}
