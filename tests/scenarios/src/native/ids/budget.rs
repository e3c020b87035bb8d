//! How many pods of a set are unavailable at once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::observer::{Followed, Onlooking};

/// Counts after each event, from when it is told to begin.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Whether each pod is ready and stays, by name.
    pods: BTreeMap<String, bool>,
    replicas: usize,
    allowed: Option<usize>,
    most: usize,
    violations: Vec<String>,
}

impl Budget {
    /// From now on there are so many replicas, of which so many may be unavailable.
    pub(super) fn begin(&mut self, replicas: usize, allowed: usize) {
        self.replicas = replicas;
        self.allowed = Some(allowed);
        self.count();
    }

    /// The most that were unavailable at once.
    pub(super) fn most_unavailable(&self) -> usize {
        self.most
    }

    /// Whether none is unavailable, or who is ready.
    pub(super) fn all_ready(&self) -> Result<(), String> {
        if self.unavailable() == 0 { Ok(()) } else { Err(format!("{:?}", self.pods)) }
    }

    fn unavailable(&self) -> usize {
        self.replicas.saturating_sub(self.pods.values().filter(|ready| **ready).count())
    }

    fn count(&mut self) {
        let Some(allowed) = self.allowed else { return };
        let unavailable = self.unavailable();
        self.most = self.most.max(unavailable);
        if unavailable > allowed {
            self.violate(format!("{unavailable} unavailable: {:?}", self.pods));
        }
    }
}

impl Onlooking for Budget {
    fn violations(&self) -> &[String] {
        &self.violations
    }

    fn violate(&mut self, words: String) {
        self.violations.push(words);
    }

    fn after_a_gap(&mut self, look: impl FnOnce(&mut Self)) {
        look(self);
        self.violate("the onlooker was cut off".to_owned());
    }
}

impl Followed<Budget> for Pod {
    fn seen(self, budget: &mut Budget) {
        let status = self.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().any(|known| known.type_ == "Ready" && known.status == "True");
        let stays = self.metadata.deletion_timestamp.is_none();
        budget.pods.insert(self.name_any(), ready && stays);
        budget.count();
    }

    fn gone(name: &str, budget: &mut Budget) {
        budget.pods.remove(name);
        budget.count();
    }

    fn names(budget: &Budget) -> Vec<(String, Option<String>)> {
        budget.pods.keys().map(|name| (name.clone(), None)).collect()
    }
}
