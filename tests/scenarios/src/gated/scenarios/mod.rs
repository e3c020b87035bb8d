//! All scenarios of phased rollouts, by topic. A name is a sentence; where the specification of phased rollouts has a
//! place for it, the name begins with it: the table, and the row in it.

use std::sync::Arc;

use super::Gated;
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

mod asking;
mod basic;
mod conflicts;
mod failing;
mod leaving;
mod partition;
mod peer;
mod people;
mod refusals;
mod replicas;
mod revisions;
mod targets;
mod zones;

/// Scenarios from functions of the same name that take a stage.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: crate::scenarios::Place::Shared,
            needs_binary: false,
            play: |cluster, name| Box::pin(crate::gated::scenarios::play(cluster, name, $name)),
        }),*]
    };
}
use scenarios;

async fn play<F>(cluster: Arc<dyn Cluster>, name: &'static str, scenario: F)
where
    F: AsyncFnOnce(Gated),
{
    scenario(Gated::new(&cluster, name).await).await;
}

/// Every scenario, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Scenario> {
    [
        conflicts::all(),
        targets::all(),
        zones::all(),
        partition::all(),
        failing::all(),
        revisions::all(),
        peer::all(),
        asking::all(),
        people::all(),
        leaving::all(),
        replicas::all(),
        refusals::all(),
        basic::all(),
    ]
    .concat()
}
