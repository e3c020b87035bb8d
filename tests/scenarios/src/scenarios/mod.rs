//! All scenarios, by topic. A name is a sentence; where the catalogue of rollout groups has an id for it, the name
//! begins with it.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::cluster::Cluster;
use crate::scene::Scene;

mod crash;
mod faults;
mod lagging;
mod leadership;
mod outage;
pub(crate) mod refusals;
mod rollout;
mod steering;
mod telling;
mod waiting;

/// One story.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What it shows.
    pub name: &'static str,
    /// Where it plays.
    pub place: Place,
    /// Whether it starts the real binary.
    pub needs_binary: bool,
    /// Plays it; a panic is a failure.
    pub play: fn(Arc<dyn Cluster>, &'static str) -> BoxFuture<'static, ()>,
}

/// Where a scenario plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a cluster with other scenarios.
    Shared,
    /// On a cluster of its own, because it shakes it, or looks at all of it.
    Own,
    /// On a cluster of its own that does not stream lists.
    OwnWithoutStreaming,
    /// On a cluster of its own that keeps and heeds `maxUnavailable` of a set, which is off by default.
    OwnWithMaxUnavailable,
    /// On a cluster of its own without a StatefulSet controller, because it decides when there is one.
    OwnWithoutNative,
    /// On a cluster of its own whose pods answer over sockets, because a process calls them.
    OwnWithSockets,
}

/// Scenarios from functions of the same name that take a scene.
macro_rules! scenarios {
    ($place:expr; $($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: $place,
            needs_binary: false,
            play: |cluster, name| Box::pin(crate::scenarios::play(cluster, name, $name)),
        }),*]
    };
}
use scenarios;

async fn play<F>(cluster: Arc<dyn Cluster>, name: &'static str, scenario: F)
where
    F: AsyncFnOnce(Scene),
{
    scenario(Scene::new(&cluster, name).await).await;
}

/// Every scenario, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Scenario> {
    [
        outage::all(),
        leadership::all(),
        crash::all(),
        rollout::all(),
        waiting::all(),
        steering::all(),
        telling::all(),
        faults::all(),
        lagging::all(),
        refusals::all(),
    ]
    .concat()
}
