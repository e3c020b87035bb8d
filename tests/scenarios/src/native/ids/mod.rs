//! The ids of the behaviour catalogue that take an API server: integration (`c_i...`) and end to end (`c_e...`), under ours.
//!
//! A name begins with the id it shows; a test of the repository finds ids without one. Hollow nodes stand for machines, so
//! what a container would have to say is said for it: a pod gets unready by an annotation, and fails by its status.

use std::sync::Arc;

use futures::future::BoxFuture;
use sts_plus_planner::statefulset::world::Features;

use super::{Act, ours};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

mod budget;
mod claims;
mod integration;
mod ordinals;
mod pods;
mod retention;
mod updating;

/// Scenarios from functions of the same name, under ours with these features.
macro_rules! ids {
    ($features:expr; $($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: crate::scenarios::Place::Shared,
            needs_binary: false,
            play: |cluster, name| {
                Box::pin(crate::native::ids::play(cluster, name, $features, |act| Box::pin($name(act))))
            },
        }),*]
    };
}
use ids;

/// As Kubernetes 1.36 has them.
const USUAL: Features = Features { max_unavailable: false };

/// Every scenario, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Scenario> {
    [updating::all(), retention::all(), integration::all(), claims::all(), pods::all(), ordinals::all()]
        .concat()
}

async fn play(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
    features: Features,
    script: for<'a> fn(&'a Act) -> BoxFuture<'a, ()>,
) {
    let act = Act::new(&cluster, "c", name, None).await;
    let (_operator, account) = ours::start(&cluster, &act.namespace, features).await;
    script(&act).await;
    act.each_deletion_is_told_once().await;
    act.pods_come_from(&account).await;
}

/// What has happened to pods since so many moves, without when each was gone: that is the node's business.
fn since(act: &Act, known: usize) -> Vec<String> {
    let moves = &act.trace().moves[known..];
    let of_controllers = moves.iter().filter(|step| step.verb != super::trace::Verb::Gone);
    of_controllers.map(ToString::to_string).collect()
}

/// How many pods have had each of these names.
fn lives<const N: usize>(act: &Act, pods: [&str; N]) -> [usize; N] {
    let trace = act.trace();
    pods.map(|pod| trace.lives_of(pod))
}

/// How many moves there have been.
fn so_far(act: &Act) -> usize {
    act.trace().moves.len()
}
