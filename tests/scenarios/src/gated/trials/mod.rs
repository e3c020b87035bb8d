//! What a phased rollout has to get through: crashes, servers that are silent, wrong or want to know who asks.

use std::sync::Arc;

use super::Gated;
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

mod crash;
mod credentials;
mod process;
mod replies;
mod silence;

/// Scenarios from functions of the same name that take a stage, with or without the binary.
macro_rules! trials {
    (needs_binary: $needs_binary:expr; $($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: crate::scenarios::Place::Shared,
            needs_binary: $needs_binary,
            play: |cluster, name| Box::pin(crate::gated::trials::play(cluster, name, $name)),
        }),*]
    };
}
use trials;

async fn play<F>(cluster: Arc<dyn Cluster>, name: &'static str, scenario: F)
where
    F: AsyncFnOnce(Gated),
{
    scenario(Gated::new(&cluster, name).await).await;
}

/// Every trial, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Scenario> {
    [crash::all(), process::all(), credentials::all(), silence::all(), replies::all()].concat()
}
