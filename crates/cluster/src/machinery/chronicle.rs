//! What has happened, of all kinds in one row: for whoever has to look at every single state, such as a simulator that
//! checks its invariants after each.

use std::sync::Arc;

use super::bell::Ear;
use super::service::Server;
use super::store::Compacted;
use super::stored::Stored;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Told {
    /// The resource version that it made.
    pub version: u64,
    /// The group of its kind; empty for the core group.
    pub group: String,
    /// The plural of its kind.
    pub plural: String,
    /// Its namespace; empty where the kind has none.
    pub namespace: String,
    pub name: String,
    /// What it was before; none when it was created.
    pub before: Option<Arc<Stored>>,
    /// What it is now, or was last.
    pub object: Arc<Stored>,
    /// Whether this was its end.
    pub deleted: bool,
}

impl Server {
    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.lock().store.version()
    }

    /// Tells when anything changes.
    pub fn changed(&self) -> Ear {
        self.lock().store.subscribe_all()
    }

    /// Every change after a version, oldest first.
    pub fn chronicle(&self, after: u64) -> Result<Vec<Told>, Compacted> {
        let state = self.lock();
        let mut told = Vec::new();
        for row in state.table.rows().filter(|row| row.versions.iter().all(|one| one.convert.is_none())) {
            // A kind that was defined later has lost nothing.
            let after = after.max(state.store.began(row.id));
            for change in state.store.changes(row.id, after, usize::MAX)? {
                told.push(Told {
                    version: change.version,
                    group: row.group.clone(),
                    plural: row.plural.clone(),
                    namespace: change.key.namespace.clone(),
                    name: change.key.name.clone(),
                    before: change.before.clone(),
                    object: Arc::clone(&change.object),
                    deleted: change.deleted,
                });
            }
        }
        told.sort_by_key(|told| told.version);
        told.dedup_by_key(|told| told.version);
        Ok(told)
    }
}
