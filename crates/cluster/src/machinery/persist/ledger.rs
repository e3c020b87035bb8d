//! The thread that writes changes down.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::Database;
use tokio::sync::watch;

use super::super::journal::Journal;
use super::super::object::{self, text};
use super::super::store::Change;
use super::super::stored::Stored;
use super::file::{ABOUT, ABOUT_VERSION, Lock, OBJECTS};

/// Changes that wait to be written down: of each object the latest, so there are never more than objects.
#[derive(Debug, Default)]
struct Waiting {
    objects: BTreeMap<String, Option<Arc<Stored>>>,
    version: u64,
    is_closing: bool,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// What has come together; nothing once there will be no more.
    fn next(&self) -> Option<Waiting> {
        let idle = |waiting: &mut Waiting| waiting.objects.is_empty() && !waiting.is_closing;
        let mut waiting = self.lock();
        self.bell.wait_while(&mut waiting, idle);
        if waiting.objects.is_empty() {
            return None;
        }
        Some(Waiting { objects: mem::take(&mut waiting.objects), ..*waiting })
    }
}

/// How far the thread has come.
#[derive(Clone, Debug)]
struct Progress {
    version: u64,
    trouble: Option<String>,
}

/// Writes every change into the file.
#[derive(Debug)]
pub(super) struct Ledger {
    desk: Arc<Desk>,
    progress: watch::Receiver<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Ledger {
    /// Begins to write what comes after a version. The lock is held until all is written.
    pub(super) fn begin(database: Database, lock: Lock, version: u64) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (told, progress) = watch::channel(Progress { version, trouble: None });
        let theirs = Arc::clone(&desk);
        let thread = thread::Builder::new().name("ledger".to_owned()).spawn(move || {
            while let Some(waiting) = theirs.next() {
                match write(&database, &waiting) {
                    Ok(()) => told.send_modify(|progress| progress.version = waiting.version),
                    Err(error) => {
                        let why = format!(
                            "cannot write to the data file: {error}; start again once it can be written"
                        );
                        tracing::error!("{why}");
                        told.send_modify(|progress| progress.trouble = Some(why));
                        break;
                    }
                }
            }
            // In this order: whoever gets the lock finds the file closed.
            drop(database);
            drop(lock);
        })?;
        Ok(Ledger { desk, progress, thread: Some(thread) })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.desk.lock().is_closing = true;
        self.desk.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told already.
            thread.join().ok();
        }
    }
}

impl Journal for Ledger {
    fn note(&self, change: &Change) {
        let mut waiting = self.desk.lock();
        let uid = object::uid(&change.object).to_owned();
        waiting.objects.insert(uid, (!change.deleted).then(|| Arc::clone(&change.object)));
        waiting.version = change.version;
        self.desk.bell.notify_one();
    }

    fn written(&self, version: u64) -> BoxFuture<'static, Result<(), String>> {
        let mut progress = self.progress.clone();
        Box::pin(async move {
            let done = progress.wait_for(|now| now.version >= version || now.trouble.is_some()).await;
            match done.as_deref() {
                Ok(Progress { version: now, .. }) if *now >= version => Ok(()),
                Ok(Progress { trouble, .. }) => Err(trouble.clone().unwrap_or_default()),
                Err(_) => Err("the data file is closed".to_owned()),
            }
        })
    }

    fn trouble(&self) -> Option<String> {
        self.progress.borrow().trouble.clone()
    }
}

fn write(database: &Database, waiting: &Waiting) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for (uid, object) in &waiting.objects {
            match object {
                Some(object) => drop(objects.insert(uid.as_str(), record(object).as_slice())?),
                None => drop(objects.remove(uid.as_str())?),
            }
        }
        transaction.open_table(ABOUT)?.insert(ABOUT_VERSION, waiting.version)?;
    }
    transaction.commit()?;
    Ok(())
}

/// An object as the file has it: the text that answers show is there already, all but its kind.
fn record(object: &Stored) -> Vec<u8> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    // Names of kinds and versions hold nothing that JSON would escape.
    let mut record = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","#).into_bytes();
    record.extend_from_slice(object.fields().get(1..).unwrap_or_default());
    record
}
