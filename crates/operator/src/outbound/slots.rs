//! How many calls are made at once, and whose turn it is.
//!
//! A call to a server that hangs holds its slot for as long as its time limit, a minute or two, while another gate
//! counts in seconds. Waiting for such a slot would let a gate's successes grow old, so nobody waits for what a few other
//! namespaces hold: each namespace has slots of its own at each server, and none takes more than a part of what is
//! left of all. Once a dozen hold all they can there is a queue, in which namespaces take turns, and within one its servers.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::endpoint::Site;

/// Queries at once from one namespace to one server: enough for a server that answers, and a few slow queries leave some.
pub(super) const PER_SERVER: usize = 8;

/// Calls of a kind at once in all: bounds sockets and memory, some 50 KiB for each (buffers of the connection and of TLS,
/// and the values that are kept).
pub(super) const IN_ALL: usize = 256;

/// A namespace may take another slot while those that it holds, times this, are fewer than those that are free. So one
/// alone gets a third of all, and twelve that take all they can, one after the other, leave something for one more.
const SHARE_OF_FREE: usize = 2;

/// The slots of all namespaces. Clones share them. A namespace takes turns among its servers, or whatever else `S` is.
#[derive(Debug)]
pub(super) struct Slots<S: Eq + Hash + Clone = Site>(Arc<Mutex<State<S>>>);

#[derive(Debug)]
struct State<S: Eq + Hash + Clone> {
    /// How many one namespace takes at once for one server.
    per_server: usize,
    taken: usize,
    namespaces: HashMap<Arc<str>, Namespace<S>>,
    /// The namespaces in which somebody waits, the next one first.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct Namespace<S: Eq + Hash + Clone> {
    taken: usize,
    servers: HashMap<S, Server<S>>,
    /// The servers for which somebody waits, the next one first.
    turns: VecDeque<S>,
}

#[derive(Debug)]
struct Server<S: Eq + Hash + Clone> {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot<S>>>,
}

/// The right to make a call, until dropped.
#[derive(Debug)]
pub(super) struct Slot<S: Eq + Hash + Clone = Site> {
    slots: Slots<S>,
    namespace: Arc<str>,
    site: S,
}

impl<S: Eq + Hash + Clone> Clone for Slots<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new(PER_SERVER)
    }
}

impl<S: Eq + Hash + Clone> Default for Namespace<S> {
    fn default() -> Self {
        Self { taken: 0, servers: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<S: Eq + Hash + Clone> Default for Server<S> {
    fn default() -> Self {
        Self { taken: 0, waiting: VecDeque::new() }
    }
}

impl<S: Eq + Hash + Clone> Slots<S> {
    /// So many at once for each server of a namespace, and [`IN_ALL`] in all.
    pub(super) fn new(per_server: usize) -> Self {
        let state = State { per_server, taken: 0, namespaces: HashMap::new(), turns: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a slot of a namespace for a server. Dropping the future gives the place in the queue up.
    pub(super) async fn take(&self, namespace: &Arc<str>, site: &S) -> Option<Slot<S>> {
        let (sender, receiver) = oneshot::channel();
        let granted = {
            let mut state = self.state();
            state.enqueue(namespace, site, sender);
            state.grant()
        };
        self.hand_out(granted);
        // Every queue outlives its senders, so a slot comes.
        receiver.await.ok()
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock()
    }

    /// Hands slots to those whose turn it is. Not under the lock: a slot that nobody takes any more is released here.
    fn hand_out(&self, granted: Vec<Granted<S>>) {
        for Granted { namespace, site, waiting } in granted {
            let slot = Slot { slots: self.clone(), namespace, site };
            drop(waiting.send(slot));
        }
    }

    fn release(&self, namespace: &Arc<str>, site: &S) {
        let granted = {
            let mut state = self.state();
            state.release(namespace, site);
            state.grant()
        };
        self.hand_out(granted);
    }

    /// How many namespaces hold a slot or wait for one.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.state().namespaces.len()
    }
}

impl<S: Eq + Hash + Clone> Drop for Slot<S> {
    fn drop(&mut self) {
        self.slots.release(&self.namespace, &self.site);
    }
}

/// A slot that was counted, and whom it is for.
struct Granted<S: Eq + Hash + Clone> {
    namespace: Arc<str>,
    site: S,
    waiting: oneshot::Sender<Slot<S>>,
}

impl<S: Eq + Hash + Clone> State<S> {
    fn enqueue(&mut self, namespace: &Arc<str>, site: &S, waiting: oneshot::Sender<Slot<S>>) {
        let of = self.namespaces.entry(Arc::clone(namespace)).or_default();
        if of.turns.is_empty() {
            self.turns.push_back(Arc::clone(namespace));
        }
        let server = of.servers.entry(site.clone()).or_default();
        if server.waiting.is_empty() {
            of.turns.push_back(site.clone());
        }
        server.waiting.push_back(waiting);
    }

    /// Counts a slot for everybody who may have one now, in turn.
    fn grant(&mut self) -> Vec<Granted<S>> {
        let mut granted = Vec::new();
        let mut passed_over = 0;
        while passed_over < self.turns.len() && self.taken < IN_ALL {
            let Some(namespace) = self.turns.pop_front() else { break };
            let free = IN_ALL.saturating_sub(self.taken);
            let Some(of) = self.namespaces.get_mut(&namespace) else { continue };
            let next = if of.taken * SHARE_OF_FREE < free { of.next(self.per_server) } else { None };
            if let Some((site, waiting)) = next {
                self.taken += 1;
                granted.push(Granted { namespace: Arc::clone(&namespace), site, waiting });
                passed_over = 0;
            } else {
                passed_over += 1;
            }
            if of.turns.is_empty() {
                passed_over = 0;
                self.forget_idle(&namespace);
            } else {
                self.turns.push_back(namespace);
            }
        }
        granted
    }

    fn release(&mut self, namespace: &Arc<str>, site: &S) {
        self.taken = self.taken.saturating_sub(1);
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        of.taken = of.taken.saturating_sub(1);
        if let Some(server) = of.servers.get_mut(site) {
            server.taken = server.taken.saturating_sub(1);
        }
        of.forget_idle(site);
        self.forget_idle(namespace);
    }

    fn forget_idle(&mut self, namespace: &Arc<str>) {
        if self.namespaces.get(namespace).is_some_and(|of| of.servers.is_empty()) {
            self.namespaces.remove(namespace);
        }
    }
}

impl<S: Eq + Hash + Clone> Server<S> {
    /// The first that still waits: some may have given up.
    fn next(&mut self) -> Option<oneshot::Sender<Slot<S>>> {
        while let Some(waiting) = self.waiting.pop_front() {
            if !waiting.is_closed() {
                return Some(waiting);
            }
        }
        None
    }
}

impl<S: Eq + Hash + Clone> Namespace<S> {
    /// Counts a slot for the next one whose server has one free.
    fn next(&mut self, per_server: usize) -> Option<(S, oneshot::Sender<Slot<S>>)> {
        for _ in 0..self.turns.len() {
            let site = self.turns.pop_front()?;
            let Some(server) = self.servers.get_mut(&site) else { continue };
            let next = if server.taken < per_server { server.next() } else { None };
            if next.is_some() {
                server.taken += 1;
                self.taken += 1;
            }
            if server.waiting.is_empty() {
                self.forget_idle(&site);
            } else {
                self.turns.push_back(site.clone());
            }
            if let Some(next) = next {
                return Some((site, next));
            }
        }
        None
    }

    fn forget_idle(&mut self, site: &S) {
        if self.servers.get(site).is_some_and(|server| server.taken == 0 && server.waiting.is_empty()) {
            self.servers.remove(site);
        }
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod slots_tests;
