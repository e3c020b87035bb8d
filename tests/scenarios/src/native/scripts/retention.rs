//! What becomes of claims when their pod or their set goes.

use serde_json::json;

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::retention;
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_when_claims_are_kept,
        same_when_claims_go_with_the_set,
        same_when_claims_go_with_their_pod,
        same_when_claims_go_with_their_pod_and_the_set,
        same_when_the_retention_changes_midway,
        same_when_scaled_up_onto_claims_that_are_about_to_go,
        same_when_a_pod_is_deleted_whose_claims_go_with_it,
    ]
}

/// Created with three pods, scaled to one and to two, deleted: the claims after each step.
async fn play(act: &Act, when_scaled: &str, when_deleted: &str, claims: [&str; 4]) {
    act.in_any_order("the garbage collector removes pods in any order");
    let [created, down, up, deleted] = claims;
    act.create_set(&Set::new("web", 3).claims(&["data"]).retention(when_scaled, when_deleted)).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(created)).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims(down)).await;
    act.scale("web", 2).await;
    act.settled("scaled up", pods("web-0 web-1").claims(up)).await;
    act.delete(Kind::Set, "web").await;
    act.settled("deleted", pods("").claims(deleted).revisions(0)).await;
}

async fn same_when_claims_are_kept(act: &Act) {
    let all = "data-web-0 data-web-1 data-web-2";
    play(act, "Retain", "Retain", [all; 4]).await;
}

async fn same_when_claims_go_with_the_set(act: &Act) {
    let all = "data-web-0@web data-web-1@web data-web-2@web";
    play(act, "Retain", "Delete", [all, all, all, ""]).await;
}

async fn same_when_claims_go_with_their_pod(act: &Act) {
    let (one, two) = ("data-web-0", "data-web-0 data-web-1");
    play(act, "Delete", "Retain", ["data-web-0 data-web-1 data-web-2", one, two, two]).await;
}

async fn same_when_claims_go_with_their_pod_and_the_set(act: &Act) {
    let (one, two) = ("data-web-0@web", "data-web-0@web data-web-1@web");
    play(act, "Delete", "Delete", ["data-web-0@web data-web-1@web data-web-2@web", one, two, ""]).await;
}

async fn same_when_the_retention_changes_midway(act: &Act) {
    let policy = |when_scaled, when_deleted| json!({ "persistentVolumeClaimRetentionPolicy": retention(when_scaled, when_deleted) });
    let (kept, owned) = ("data-web-0 data-web-1", "data-web-0@web data-web-1@web");
    act.create_set(&Set::new("web", 2).claims(&["data"])).await;
    act.settled("created", pods("web-0 web-1").claims(kept)).await;
    act.respec("web", policy("Delete", "Delete")).await;
    act.settled("delete both", pods("web-0 web-1").claims(owned)).await;
    act.respec("web", policy("Delete", "Retain")).await;
    act.settled("delete when scaled", pods("web-0 web-1").claims(kept)).await;
    act.respec("web", policy("Retain", "Delete")).await;
    act.settled("delete when deleted", pods("web-0 web-1").claims(owned)).await;
    act.respec("web", policy("Retain", "Retain")).await;
    act.settled("retain both", pods("web-0 web-1").claims(kept)).await;
    act.respec(
        "web",
        json!({ "replicas": 1, "persistentVolumeClaimRetentionPolicy": retention("Delete", "Retain") }),
    )
    .await;
    act.settled("changed with the replicas", pods("web-0").claims("data-web-0")).await;
}

async fn same_when_scaled_up_onto_claims_that_are_about_to_go(act: &Act) {
    act.create_set(&Set::new("web", 2).claims(&["data"]).retention("Delete", "Retain")).await;
    act.settled("created", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
    act.merge(Kind::Claim, "data-web-1", json!({ "metadata": { "finalizers": ["example.com/hold"] } })).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims("data-web-0 data-web-1@web-1~")).await;
    act.scale("web", 2).await;
    act.settled("scaled up, but blocked", pods("web-0").claims("data-web-0 data-web-1@web-1~")).await;
    act.merge(Kind::Claim, "data-web-1", json!({ "metadata": { "finalizers": null } })).await;
    act.nudge("web", Kind::Pod, "web-1", |_| true).await;
    act.settled("the claim is gone", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
}

async fn same_when_a_pod_is_deleted_whose_claims_go_with_it(act: &Act) {
    let claims = "data-web-0@web data-web-1@web";
    act.create_set(&Set::new("web", 2).claims(&["data"]).retention("Delete", "Delete")).await;
    act.settled("created", pods("web-0 web-1").claims(claims)).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("deleted by hand: the claim stays", pods("web-0 web-1").claims(claims)).await;
    act.update("web", "v2").await;
    act.settled("updated: the claims stay", pods("web-0:v2 web-1:v2").claims(claims)).await;
}
