//! The operator on the embedded cluster: everything in one process, under a paused clock.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test, of which clippy recognises only the functions with an attribute"
)]
#![expect(clippy::needless_pass_by_value, reason = "JSON is handed over where it is written")]

mod bed;
mod config_maps;
mod group;
#[path = "../crd/refusals.rs"]
mod refusals;
#[path = "../crd/samples.rs"]
#[expect(dead_code, reason = "the real server is shown more of them")]
mod samples;
mod stamps;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};

use bed::{Bed, object};

fn server() -> Server {
    Server::new(Settings::new(Clock::start())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_good_is_accepted() {
    refusals::good_specs(&Bed::new()).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_bad_is_refused_with_a_reason() {
    refusals::bad_specs(&Bed::new()).await;
}

#[tokio::test(start_paused = true)]
async fn the_documented_manifest_is_accepted_and_gets_the_defaults() {
    let bed = Bed::new();
    bed.install().await;
    let stored = bed.rollouts.create(&PostParams::default(), &samples::documented()).await.unwrap();
    assert_eq!(stored.data["spec"], samples::documented_with_defaults());
}

/// The former operator's kind has the same name and asks for less: what it stored must not keep us from writing.
#[tokio::test(start_paused = true)]
async fn an_object_of_the_former_operator_can_be_taken_over() {
    let bed = Bed::new();
    bed.install_anything_goes().await;
    bed.rollouts.create(&PostParams::default(), &object("old", samples::former_spec())).await.unwrap();
    bed.install().await;
    let finalizer = json!({"metadata": {"finalizers": ["sts.plus/finalizer"]}});
    bed.rollouts.patch("old", &PatchParams::default(), &Patch::Merge(finalizer)).await.unwrap();
}
