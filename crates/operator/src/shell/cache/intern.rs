//! Strings, label maps and lists that many rows share are kept once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sts_plus_planner::pod::ClaimVolume;
use sts_plus_planner::selector::Labels;
use sts_plus_planner::statefulset::world::ClaimTemplate;

/// Below this many entries nothing is worth collecting.
const MIN_COLLECTION_ENTRIES: usize = 1024;

/// Shares what is equal. What nobody uses any more is dropped when the tables have doubled.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Arc<Labels>>,
    volumes: HashSet<Arc<[ClaimVolume]>>,
    /// By the JSON that they were read from.
    claim_templates: HashMap<Box<str>, Arc<[ClaimTemplate]>>,
    collect_at: usize,
}

impl Interner {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        self.collect();
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        shared
    }

    pub(super) fn labels<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Arc<Labels> {
        let labels: Labels = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        if let Some(shared) = self.labels.get(&labels) {
            return Arc::clone(shared);
        }
        self.collect();
        let shared = Arc::new(labels);
        self.labels.insert(Arc::clone(&shared));
        shared
    }

    pub(super) fn volumes(&mut self, volumes: Vec<ClaimVolume>) -> Arc<[ClaimVolume]> {
        if let Some(shared) = self.volumes.get(volumes.as_slice()) {
            return Arc::clone(shared);
        }
        self.collect();
        let shared: Arc<[ClaimVolume]> = volumes.into();
        self.volumes.insert(Arc::clone(&shared));
        shared
    }

    /// The claim templates in this JSON, read where it has not been seen before.
    pub(super) fn claim_templates(
        &mut self,
        json: &str,
        read: impl FnOnce() -> Vec<ClaimTemplate>,
    ) -> Arc<[ClaimTemplate]> {
        if let Some(shared) = self.claim_templates.get(json) {
            return Arc::clone(shared);
        }
        self.collect();
        let shared: Arc<[ClaimTemplate]> = read().into();
        self.claim_templates.insert(json.into(), Arc::clone(&shared));
        shared
    }

    fn entries(&self) -> usize {
        self.texts.len() + self.labels.len() + self.volumes.len() + self.claim_templates.len()
    }

    fn collect(&mut self) {
        if self.entries() < self.collect_at.max(MIN_COLLECTION_ENTRIES) {
            return;
        }
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.labels.retain(|labels| Arc::strong_count(labels) > 1);
        self.volumes.retain(|volumes| Arc::strong_count(volumes) > 1);
        self.claim_templates.retain(|_, templates| Arc::strong_count(templates) > 1);
        self.collect_at = 2 * self.entries();
    }
}
