//! What the rest of the process knows of the lease: whether it leads right now.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::decide::Epoch;

/// The answer to "may I write?". Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<LeaseState>,
    stop: watch::Receiver<bool>,
    resigned: Arc<watch::Sender<bool>>,
}

/// What the loop publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseState {
    /// Whether the first answer about the lease is known.
    pub(super) decided: bool,
    pub(super) leading: Option<Leading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leading {
    pub(super) epoch: Epoch,
    /// When leading ends by itself; `None` for never.
    pub(super) ends_at: Option<Instant>,
}

impl Leadership {
    pub(super) fn new(
        state: watch::Receiver<LeaseState>,
        stop: watch::Receiver<bool>,
        resigned: watch::Sender<bool>,
    ) -> Self {
        Self { state, stop, resigned: Arc::new(resigned) }
    }

    /// Without an election: one term that lasts until [`Self::resign`].
    pub fn always() -> Self {
        let leading = Some(Leading { epoch: Epoch(1), ends_at: None });
        let (_, state) = watch::channel(LeaseState { decided: true, leading });
        Self::new(state, watch::channel(false).1, watch::channel(false).0)
    }

    /// The epoch of the term, if this process leads.
    ///
    /// It looks at the clock, so that a process that was stopped past its term and runs again is told `None`
    /// even before the loop that renews has run.
    pub fn current(&self) -> Option<Epoch> {
        if *self.stop.borrow() || *self.resigned.borrow() {
            return None;
        }
        let leading = self.state.borrow().leading?;
        let over = leading.ends_at.is_some_and(|end| Instant::now() >= end);
        (!over).then_some(leading.epoch)
    }

    /// Whether a decision of that term may still be carried out.
    pub fn permits(&self, epoch: Epoch) -> bool {
        self.current() == Some(epoch)
    }

    /// Resolves when [`Self::current`] may have changed since the last call; never again once it cannot.
    pub async fn changed(&mut self) {
        tokio::select! {
            biased;
            Ok(()) = self.state.changed() => {}
            Ok(()) = self.stop.changed() => {}
            else => pending().await,
        }
    }

    /// Resolves once it is known who leads, us or another, or that it will not be known any more.
    pub async fn decided(&mut self) {
        self.state.wait_for(|state| state.decided).await.ok();
    }

    /// Gives up leading for good. To be called once no write is in flight any more: the lease is released, and
    /// another may lead at once.
    pub fn resign(&self) {
        self.resigned.send_replace(true);
    }
}

#[cfg(test)]
#[path = "leadership_tests.rs"]
mod tests;
