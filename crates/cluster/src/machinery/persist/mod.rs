//! A cluster in one file.
//!
//! ```text
//! write ──> store ──> note ──> ledger ──> file
//!   └── answered <── written ────┘
//! ```
//!
//! Every object is a record of the file, by its UID: its JSON text. A thread writes down what has changed, all that has
//! come together in one transaction, and only then are the writers answered. The past is not kept: who watched a cluster
//! that has gone starts over with the one that comes back.

mod file;
mod ledger;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde_json::Value;

use super::object::{self, text};
use super::schema::DefinitionsError;
use super::service::{Server, Settings};
use super::state::State;
use crate::kinds::{self, definitions};
use file::{Lock, LockError, ReadError, Records};
use ledger::Ledger;

/// How far the versions of a cluster that comes back are from those it had. More than can have been seen by a watcher and
/// not been written down: each of those is held by a writer that waits.
const VERSIONS_LEFT_OUT: u64 = 1 << 20;

/// Why a cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process", file.display())]
    InUse { file: PathBuf },
    /// The file, or the folder that it is in, cannot be used.
    #[error("cannot use {}: {source}", file.display())]
    Unusable {
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is of a later format than is known here.
    #[error("{} was written by a newer version of this program (format {found}, known is {known})", file.display())]
    Newer {
        file: PathBuf,
        /// Its format.
        found: u64,
        /// The latest that is known.
        known: u64,
    },
    /// The file is damaged.
    #[error("{} is damaged and was left as it is ({why}); a copy is in {}", file.display(), copy.display())]
    Damaged {
        file: PathBuf,
        /// Where a copy of it is.
        copy: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The built-in kinds cannot be read.
    #[error(transparent)]
    Definitions(#[from] DefinitionsError),
}

impl Server {
    /// A server whose objects are kept in a file, which is made where there is none. Every write that it has answered is
    /// there when the file is opened again, whatever happens to this process.
    pub fn open(settings: Settings, file: &Path) -> Result<Self, OpenError> {
        let mut state = State::of(settings)?;
        let unusable = |source| OpenError::Unusable { file: file.to_owned(), source };
        let lock = Lock::take(file).map_err(|error| match error {
            LockError::Taken => OpenError::InUse { file: file.to_owned() },
            LockError::Unusable(source) => unusable(source),
        })?;
        let Records { database, objects, version } = match fs::exists(file) {
            Ok(true) => read_carefully(file)?,
            Ok(false) => {
                file::make(file).and_then(|()| file::read(file)).map_err(|error| unusable(error.into()))?
            }
            Err(source) => return Err(unusable(source)),
        };
        let version = version + VERSIONS_LEFT_OUT;
        let ledger = Arc::new(Ledger::begin(database, lock, version).map_err(unusable)?);
        state.resume(version, Arc::<Ledger>::clone(&ledger));
        restore(&mut state, objects);
        kinds::found(&mut state);
        Ok(Server::with(state, Some(ledger)))
    }
}

/// Reads a file that may be anything. What repair does to it is undone where it does not help.
fn read_carefully(file: &Path) -> Result<Records, OpenError> {
    let unusable = |source| OpenError::Unusable { file: file.to_owned(), source };
    let (before, copy) = (file::beside(file, "opening"), file::beside(file, "damaged"));
    fs::copy(file, &before).map_err(unusable)?;
    // What reads the file trusts it more than a damaged file deserves.
    let read = catch_unwind(AssertUnwindSafe(|| file::read(file)));
    let error = match read {
        Ok(Ok(records)) => {
            fs::remove_file(&before).map_err(unusable)?;
            return Ok(records);
        }
        Ok(Err(error)) => error,
        Err(_) => ReadError::Damaged("it cannot be read".to_owned()),
    };
    match error {
        ReadError::Newer { found, known } => {
            fs::rename(&before, file).map_err(unusable)?;
            Err(OpenError::Newer { file: file.to_owned(), found, known })
        }
        ReadError::Unusable(source) => {
            fs::rename(&before, file).map_err(unusable)?;
            Err(unusable(source))
        }
        ReadError::Damaged(why) => {
            fs::copy(&before, &copy).map_err(unusable)?;
            fs::rename(&before, file).map_err(unusable)?;
            Err(OpenError::Damaged { file: file.to_owned(), copy, why })
        }
    }
}

/// Puts objects where they were: the kinds that others are of first.
fn restore(state: &mut State, objects: Vec<Value>) {
    let (definitions, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| text(object, "/kind") == definitions::KIND);
    for object in definitions {
        put_back(state, object.clone());
        definitions::establish(state, &object);
    }
    for object in others {
        put_back(state, object);
    }
}

fn put_back(state: &mut State, object: Value) {
    let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let Some(row) = state.table.named(group, kind) else {
        tracing::warn!(api_version, kind, name = object::name(&object), "no such kind: it stays in the file");
        return;
    };
    let key = row.key(object::namespace(&object), object::name(&object));
    state.store.restore(key, object);
}

#[cfg(test)]
#[path = "persist_tests.rs"]
mod tests;
