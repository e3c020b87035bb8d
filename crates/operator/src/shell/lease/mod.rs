//! Leader election over a Lease, so that one of several replicas works while the others keep warm caches.
//!
//! ```text
//!   API server <--read, replace, watch-- elector --what happened--> decide::View
//!                                           |   <--what to do next-- decide::decide
//!                                           +--state--> Leadership --epoch--> executor, before each write
//! ```
//!
//! [`decide`] holds all of the judgement and no I/O. The elector carries it out: a holder renews every five
//! seconds and reads nothing; everybody else watches the one object and sends nothing until it is released or
//! silent for too long. A term begins only by a successful write, never by finding our name in the lease, and
//! each process has a name of its own, also when the container restarts in the same pod: a write of its
//! predecessor may still be under way, so it waits like anybody else.
//!
//! Permissions used, all on the one lease: `get`, `update`, `watch` (by name) and `create`.

use std::future::Future;

use tokio::sync::watch;

use super::api::Api;

pub mod decide;
mod elector;
mod leadership;
mod record;
mod trouble;

pub use decide::{Epoch, Timing};
pub use leadership::Leadership;

use elector::{Elector, Signals};

/// Which lease, and as whom.
#[derive(Clone, Debug)]
pub struct Config {
    /// The operator's own namespace.
    pub namespace: String,
    pub name: String,
    /// The pod's name, or any other name that a reader of the lease understands. It is made unique per process.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
}

impl Config {
    /// The lease that all replicas in a namespace share.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: sts_plus_api::keys::LEASE.to_owned(),
            identity: identity.into(),
            timing: Timing::default(),
        }
    }
}

/// Starts to take part in the election. The returned future does the work and must be run.
///
/// Once `stop` turns true [`Leadership::current`] says `None` and the lease is no longer renewed. It is still
/// held, until [`Leadership::resign`] says that nothing is in flight any more; then it is released and the
/// future ends. It ends without that when there is nothing to release or the lease has run out meanwhile.
pub fn start(
    api: Api,
    config: Config,
    stop: watch::Receiver<bool>,
) -> (Leadership, impl Future<Output = ()> + Send + 'static) {
    let (resign, resigned) = watch::channel(false);
    let signals = Signals { stop: stop.clone(), resigned };
    let (elector, state) = Elector::new(api, config, signals);
    (Leadership::new(state, stop, resign), elector.run())
}
