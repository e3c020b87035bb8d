//! The file: what is in it, and who may have it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;

/// The format that is written.
const FORMAT: u64 = 1;
/// Memory that the file is read and written through, in bytes: everything in it is in memory anyway.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// What is known of the file itself.
pub(super) const ABOUT: TableDefinition<'static, &str, u64> = TableDefinition::new("about");
/// Objects as JSON, by their UID.
pub(super) const OBJECTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("objects");

const ABOUT_FORMAT: &str = "format";
/// The version of the latest change.
pub(super) const ABOUT_VERSION: &str = "version";

/// What a file holds.
pub(super) struct Records {
    pub(super) database: Database,
    pub(super) objects: Vec<Value>,
    pub(super) version: u64,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("it is of format {found}, known is {known}")]
    Newer { found: u64, known: u64 },
    #[error("{0}")]
    Damaged(String),
    #[error(transparent)]
    Unusable(io::Error),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unusable(error) => error,
            other => io::Error::other(other),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for ReadError {
    fn from(error: E) -> Self {
        match error.into() {
            // A file that ends too early, or begins with something else, is not one that cannot be reached.
            redb::Error::Io(error)
                if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                ReadError::Unusable(error)
            }
            other => ReadError::Damaged(other.to_string()),
        }
    }
}

/// A file beside another.
pub(super) fn beside(file: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".");
    name.push(what);
    name.into()
}

/// Makes a file, whole or not at all.
pub(super) fn make(file: &Path) -> Result<(), ReadError> {
    let new = beside(file, "new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(ReadError::Unusable(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    // There are secrets in it.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let private = options.read(true).write(true).create_new(true).open(&new).map_err(ReadError::Unusable)?;
    let database = Database::builder().set_cache_size(CACHE_BYTES).create_file(private)?;
    let transaction = database.begin_write()?;
    transaction.open_table(ABOUT)?.insert(ABOUT_FORMAT, FORMAT)?;
    transaction.open_table(OBJECTS)?;
    transaction.commit()?;
    drop(database);
    fs::rename(&new, file).map_err(ReadError::Unusable)
}

/// Reads a file, and repairs what a killed process has left.
pub(super) fn read(file: &Path) -> Result<Records, ReadError> {
    let mut database = Database::builder().set_cache_size(CACHE_BYTES).open(file)?;
    database.check_integrity()?;
    let transaction = database.begin_read()?;
    let about = transaction.open_table(ABOUT)?;
    let number = |name| Ok::<_, ReadError>(about.get(name)?.map(|found| found.value()));
    let found = number(ABOUT_FORMAT)?.ok_or_else(|| ReadError::Damaged("it has no format".to_owned()))?;
    if found > FORMAT {
        return Err(ReadError::Newer { found, known: FORMAT });
    }
    let version = number(ABOUT_VERSION)?.unwrap_or(1);
    let mut objects = Vec::new();
    for record in transaction.open_table(OBJECTS)?.iter()? {
        let (uid, text) = record?;
        let object = serde_json::from_slice(text.value());
        objects.push(object.map_err(|error| ReadError::Damaged(format!("{}: {error}", uid.value())))?);
    }
    drop(transaction);
    Ok(Records { database, objects, version })
}

/// The right to a file, which one process has at a time. The process that ends gives it back, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

#[derive(Debug)]
pub(super) enum LockError {
    Taken,
    Unusable(io::Error),
}

impl Lock {
    pub(super) fn take(file: &Path) -> Result<Self, LockError> {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(beside(file, "lock"));
        let lock = lock.map_err(LockError::Unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Lock { _file: lock }),
            Err(TryLockError::WouldBlock) => Err(LockError::Taken),
            Err(TryLockError::Error(error)) => Err(LockError::Unusable(error)),
        }
    }
}
