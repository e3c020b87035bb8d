//! How many questions are asked at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::endpoint::Site;

/// At once to one endpoint: enough for a server that answers, while one that hangs keeps few slots and few
/// connections.
pub(super) const PER_ENDPOINT: usize = 4;

/// At once in all: bounds sockets and memory (each may hold an answer of the size limit), and leaves room for
/// others beside fifteen endpoints that hang.
pub(super) const IN_ALL: usize = 64;

/// The slots of all endpoints.
#[derive(Debug)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    endpoints: Mutex<HashMap<Site, Weak<Semaphore>>>,
}

/// The right to ask, until dropped. A slot is there for as long as its semaphore is open, which is for ever.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(IN_ALL)), endpoints: Mutex::default() }
    }

    /// Waits for a slot of one endpoint. Take it before the one of all: whoever waits for an endpoint that hangs
    /// must not hold what others need.
    pub(super) async fn of(&self, site: &Site) -> Slot {
        Slot { _permit: self.endpoint(site).acquire_owned().await.ok() }
    }

    /// Waits for a slot of all.
    pub(super) async fn any(&self) -> Slot {
        Slot { _permit: Arc::clone(&self.all).acquire_owned().await.ok() }
    }

    fn endpoint(&self, site: &Site) -> Arc<Semaphore> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        // The table holds no more than those that somebody asks or waits for.
        endpoints.retain(|_, slots| slots.strong_count() > 0);
        if let Some(slots) = endpoints.get(site).and_then(Weak::upgrade) {
            return slots;
        }
        let slots = Arc::new(Semaphore::new(PER_ENDPOINT));
        endpoints.insert(site.clone(), Arc::downgrade(&slots));
        slots
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.endpoints.lock().unwrap().len()
    }
}
