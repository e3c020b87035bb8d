//! Strings and label maps that many rows share are kept once.

use std::collections::HashSet;
use std::sync::Arc;

use sts_plus_planner::selector::Labels;

/// Below this many entries nothing is worth collecting.
const MIN_COLLECTION_ENTRIES: usize = 1024;

/// Shares equal texts and label maps. What nobody uses any more is dropped when the tables have doubled.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Arc<Labels>>,
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

    fn collect(&mut self) {
        let entries = self.texts.len() + self.labels.len();
        if entries < self.collect_at.max(MIN_COLLECTION_ENTRIES) {
            return;
        }
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.labels.retain(|labels| Arc::strong_count(labels) > 1);
        self.collect_at = 2 * (self.texts.len() + self.labels.len());
    }
}
