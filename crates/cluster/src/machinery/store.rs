//! Objects in memory, ordered by one counter of resource versions, with as much of their past as watches need.
//!
//! Each kind has its records: its objects, and the changes they went through, oldest first. The past is bounded; whoever
//! asks for what has been dropped is told so and starts over. Watchers read the past at their own pace and hold
//! nothing of it: a slow one costs no memory and delays nobody.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::bell::{Bell, Ear};
use super::journal::Journal;
use super::object;
use super::stored::Stored;
use serde_json::Value;

/// Changes of one kind that are kept. Far more than a watcher falls behind by; a pod's change is some 25 kB.
pub const HISTORY_CHANGES: usize = 2048;

/// Identifies a kind in the store, whatever version of it is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) u32);

/// Where an object is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub kind: KindId,
    /// Its namespace; empty where the kind has none.
    pub namespace: String,
    pub name: String,
}

impl Key {
    fn path(&self) -> impl Iterator<Item = u8> + '_ {
        // The order of lists is that of paths in etcd: `a-b/x` comes before `a/x`.
        self.namespace.bytes().chain(std::iter::once(b'/')).chain(self.name.bytes())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.kind.cmp(&other.kind).then_with(|| self.path().cmp(other.path()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource version that it made.
    pub version: u64,
    /// The object.
    pub key: Key,
    /// What it was before; none when it was created.
    pub before: Option<Arc<Stored>>,
    /// What it is now, or was last, then with the version of its end.
    pub object: Arc<Stored>,
    /// Whether this was its end.
    pub deleted: bool,
}

/// The past that was asked for is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("changes up to version {compacted} are gone")]
pub struct Compacted {
    /// The oldest version that can still be gone on from.
    pub compacted: u64,
}

#[derive(Debug, Default)]
struct Records {
    objects: BTreeMap<Key, Arc<Stored>>,
    past: VecDeque<Change>,
    /// Changes up to this version may be missing from `past`.
    compacted: u64,
    /// The version at which the kind was defined; there was nothing before it.
    began: u64,
    /// Rings with each change.
    bell: Bell,
}

/// All objects.
#[derive(Debug)]
pub struct Store {
    version: u64,
    /// Up to this version nothing is known of any kind.
    compacted: u64,
    kinds: BTreeMap<KindId, Records>,
    history: usize,
    /// Rings with each change of any kind.
    bell: Bell,
    journal: Option<Arc<dyn Journal>>,
}

impl Store {
    /// An empty store that keeps this many changes of each kind.
    pub fn new(history: usize) -> Self {
        Store {
            version: 1,
            compacted: 0,
            kinds: BTreeMap::new(),
            history,
            bell: Bell::default(),
            journal: None,
        }
    }

    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.kinds.get(&key.kind)?.objects.get(key)
    }

    /// All objects of a kind, or those of a namespace, in order.
    pub fn list(&self, kind: KindId, namespace: Option<&str>) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        let objects = self.kinds.get(&kind).map(|records| {
            // A namespace's objects are one stretch: nothing sorts between its first and its last path.
            let start =
                Key { kind, namespace: namespace.unwrap_or_default().to_owned(), name: String::new() };
            if namespace.is_some() { records.objects.range(start..) } else { records.objects.range(..) }
        });
        objects
            .into_iter()
            .flatten()
            .take_while(move |(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
    }

    /// All objects of a kind as they were at a version.
    pub fn list_at(&self, kind: KindId, version: u64) -> Result<BTreeMap<Key, Arc<Stored>>, Compacted> {
        let compacted = self.compacted(kind);
        if version < compacted {
            return Err(Compacted { compacted });
        }
        let Some(records) = self.kinds.get(&kind) else {
            return Ok(BTreeMap::new());
        };
        let mut objects = records.objects.clone();
        for change in records.past.iter().rev().take_while(|change| change.version > version) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects)
    }

    /// The changes of a kind after a version, oldest first, at most `most` of them.
    pub fn changes(
        &self,
        kind: KindId,
        after: u64,
        most: usize,
    ) -> Result<impl Iterator<Item = &Change>, Compacted> {
        let compacted = self.compacted(kind);
        if after < compacted {
            return Err(Compacted { compacted });
        }
        let records = self.kinds.get(&kind);
        Ok(records
            .map(|records| {
                records.past.range(records.past.partition_point(|change| change.version <= after)..)
            })
            .into_iter()
            .flatten()
            .take(most))
    }

    /// Tells when a kind changes.
    pub fn subscribe(&mut self, kind: KindId) -> Ear {
        self.kinds.entry(kind).or_default().bell.ear()
    }

    /// Tells when anything changes.
    pub fn subscribe_all(&self) -> Ear {
        self.bell.ear()
    }

    /// Puts an object in its place, with a new version.
    pub fn put(&mut self, key: Key, mut object: Value) -> Arc<Stored> {
        self.version += 1;
        object::metadata(&mut object).insert("resourceVersion".into(), self.version.to_string().into());
        let object = Stored::new(object);
        let records = self.kinds.entry(key.kind).or_default();
        let before = records.objects.insert(key.clone(), Arc::clone(&object));
        self.record(Change {
            version: self.version,
            key,
            before,
            object: Arc::clone(&object),
            deleted: false,
        });
        object
    }

    /// Removes an object. `last` is what is told of it; its version becomes that of its end.
    pub fn remove(&mut self, key: Key, mut last: Value) -> Arc<Stored> {
        self.version += 1;
        object::metadata(&mut last).insert("resourceVersion".into(), self.version.to_string().into());
        let object = Stored::new(last);
        let before = self.kinds.entry(key.kind).or_default().objects.remove(&key);
        self.record(Change {
            version: self.version,
            key,
            before,
            object: Arc::clone(&object),
            deleted: true,
        });
        object
    }

    /// Forgets the past: who watches from before now has to start over.
    pub fn compact(&mut self) {
        self.compacted = self.version;
        for records in self.kinds.values_mut() {
            records.past.clear();
            records.bell.ring();
        }
    }

    /// Begins to keep a kind: of what was before nothing is known.
    pub fn begin_kind(&mut self, kind: KindId) {
        let began = self.version;
        self.kinds.entry(kind).or_insert_with(|| Records { began, ..Records::default() });
    }

    /// The version at which a kind was defined; 0 for those that always were.
    pub fn began(&self, kind: KindId) -> u64 {
        self.kinds.get(&kind).map_or(0, |records| records.began)
    }

    /// The oldest version of a kind that can be gone on from.
    fn compacted(&self, kind: KindId) -> u64 {
        let of_kind = self.kinds.get(&kind).map_or(0, |records| records.compacted.max(records.began));
        of_kind.max(self.compacted)
    }

    /// Forgets a kind with all its objects: its definition is gone.
    pub fn drop_kind(&mut self, kind: KindId) {
        self.kinds.remove(&kind);
    }

    /// Puts an object in its place as it was before this store was.
    pub fn restore(&mut self, key: Key, object: Value) {
        self.kinds.entry(key.kind).or_default().objects.insert(key, Stored::new(object));
    }

    /// Goes on from a version, of whose past nothing is known, and writes down what changes from now on.
    pub fn resume(&mut self, version: u64, journal: Arc<dyn Journal>) {
        (self.version, self.compacted) = (version, version);
        self.journal = Some(journal);
    }

    fn record(&mut self, change: Change) {
        if let Some(journal) = &self.journal {
            journal.note(&change);
        }
        let records = self.kinds.entry(change.key.kind).or_default();
        records.past.push_back(change);
        while records.past.len() > self.history {
            if let Some(oldest) = records.past.pop_front() {
                records.compacted = oldest.version;
            }
        }
        records.bell.ring();
        self.bell.ring();
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
