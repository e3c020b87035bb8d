//! Tells many that something has changed, always in the order in which they began to wait.
//!
//! A `tokio::sync::watch` wakes those who wait in a random order; then a seed would not give the same run twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared {
    strokes: AtomicU64,
    broken: AtomicBool,
    ears: Notify,
}

/// What is rung.
#[derive(Debug, Default)]
pub struct Bell(Arc<Shared>);

/// Who listens to it.
#[derive(Clone, Debug)]
pub struct Ear {
    bell: Arc<Shared>,
    heard: u64,
}

/// There is no bell any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was listened to is gone")]
pub struct Broken;

impl Bell {
    /// Something has changed.
    pub fn ring(&self) {
        self.0.strokes.fetch_add(1, Ordering::Release);
        self.0.ears.notify_waiters();
    }

    /// Somebody who hears every stroke from now on.
    pub fn ear(&self) -> Ear {
        Ear { heard: self.0.strokes.load(Ordering::Acquire), bell: Arc::clone(&self.0) }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.broken.store(true, Ordering::Release);
        self.0.ears.notify_waiters();
    }
}

impl Ear {
    /// Forgets the strokes so far.
    pub fn forget(&mut self) {
        self.heard = self.bell.strokes.load(Ordering::Acquire);
    }

    /// Waits for a stroke that has not been heard. Several at once are one.
    pub async fn hear(&mut self) -> Result<(), Broken> {
        loop {
            let mut next = std::pin::pin!(self.bell.ears.notified());
            // From here on no stroke is missed, so whatever was before can be looked at.
            next.as_mut().enable();
            let strokes = self.bell.strokes.load(Ordering::Acquire);
            if strokes != self.heard {
                self.heard = strokes;
                return Ok(());
            }
            if self.bell.broken.load(Ordering::Acquire) {
                return Err(Broken);
            }
            next.await;
        }
    }
}

#[cfg(test)]
#[path = "bell_tests.rs"]
mod tests;
