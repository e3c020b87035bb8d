//! What tests of controllers see of the runtime that runs them.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Controller, Runtime};
use crate::shell::executor::Domain;
use crate::shell::queue::Queue;

impl<C: Controller> Runtime<C> {
    pub(crate) fn queue(&self) -> &Arc<Queue<C::Key>> {
        &self.queue
    }

    pub(crate) fn lanes(&self) -> Vec<Domain> {
        self.around.executor.lanes()
    }

    /// How many keys something is kept of.
    pub(crate) fn kept(&self) -> usize {
        self.entries().len()
    }

    /// Looks at what is remembered of a key.
    pub(crate) fn with_memory<T>(&self, key: &C::Key, look: impl FnOnce(&mut C::Memory) -> T) -> Option<T> {
        self.entries().get_mut(key).map(|entry| look(&mut entry.memory))
    }

    /// Sends informing writes.
    pub(crate) fn inform(&self, tasks: &mut JoinSet<()>) {
        tasks.spawn(self.informing.clone().run());
    }

    /// As many workers as the operator has.
    pub(crate) fn start_workers(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        for _ in 0..self.workers {
            let runtime = Arc::clone(self);
            tasks.spawn(async move { runtime.work().await });
        }
    }
}
