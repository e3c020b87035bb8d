//! More pods, fewer pods, other pods.

use serde_json::json;

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::{faulty, version};
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_when_scaled_in_order,
        same_when_scaled_at_once,
        same_when_scaled_in_order_with_claims,
        same_when_scaled_at_once_with_claims,
        same_when_the_first_ordinal_moves,
        same_when_the_first_ordinal_moves_at_once_with_claims,
        same_when_scaled_through_the_subresource,
        same_when_condemned_pods_are_unready,
        same_when_a_pod_that_stays_is_unready,
        same_when_a_pod_of_many_at_once_never_gets_ready,
        same_when_no_replicas_are_named,
        same_when_scaled_together_with_an_update,
    ]
}

const AT_ONCE: &str = "pods of a parallel set are created and deleted together";

async fn same_when_scaled_in_order(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2").revisions(1)).await;
    act.scale("web", 5).await;
    act.settled("scaled up", pods("web-0 web-1 web-2 web-3 web-4")).await;
    act.scale("web", 2).await;
    act.settled("scaled down", pods("web-0 web-1")).await;
    act.scale("web", 0).await;
    act.settled("scaled to nothing", pods("")).await;
    act.scale("web", 1).await;
    act.settled("scaled up again", pods("web-0")).await;
}

async fn same_when_scaled_at_once(act: &Act) {
    act.in_any_order(AT_ONCE);
    act.create_set(&Set::new("web", 4).parallel()).await;
    act.settled("created", pods("web-0 web-1 web-2 web-3")).await;
    act.scale("web", 6).await;
    act.settled("scaled up", pods("web-0 web-1 web-2 web-3 web-4 web-5")).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0")).await;
    act.scale("web", 0).await;
    act.settled("scaled to nothing", pods("")).await;
    act.scale("web", 2).await;
    act.settled("scaled up again", pods("web-0 web-1")).await;
}

async fn same_when_scaled_in_order_with_claims(act: &Act) {
    let claims = "data-web-0 data-web-1 data-web-2";
    act.create_set(&Set::new("web", 2).claims(&["data"])).await;
    act.settled("created", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
    act.scale("web", 3).await;
    act.settled("scaled up", pods("web-0 web-1 web-2").claims(claims)).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims(claims)).await;
    act.scale("web", 3).await;
    act.settled("scaled up again", pods("web-0 web-1 web-2").claims(claims)).await;
}

async fn same_when_scaled_at_once_with_claims(act: &Act) {
    act.in_any_order(AT_ONCE);
    let claims = "data-web-0 data-web-1 data-web-2 data-web-3";
    act.create_set(&Set::new("web", 4).parallel().claims(&["data"])).await;
    act.settled("created", pods("web-0 web-1 web-2 web-3").claims(claims)).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims(claims)).await;
    act.scale("web", 3).await;
    act.settled("scaled up again", pods("web-0 web-1 web-2").claims(claims)).await;
}

async fn same_when_the_first_ordinal_moves(act: &Act) {
    act.create_set(&Set::new("web", 3).spec(json!({ "ordinals": { "start": 2 } }))).await;
    act.settled("set", pods("web-2 web-3 web-4")).await;
    act.respec("web", json!({ "ordinals": { "start": 3 } })).await;
    act.settled("raised", pods("web-3 web-4 web-5")).await;
    act.respec("web", json!({ "ordinals": { "start": 1 } })).await;
    act.settled("lowered", pods("web-1 web-2 web-3")).await;
    act.respec("web", json!({ "ordinals": null })).await;
    act.settled("removed", pods("web-0 web-1 web-2")).await;
}

async fn same_when_the_first_ordinal_moves_at_once_with_claims(act: &Act) {
    act.in_any_order(AT_ONCE);
    let set = Set::new("web", 2).parallel().claims(&["data"]);
    act.create_set(&set.spec(json!({ "ordinals": { "start": 1 } }))).await;
    act.settled("set", pods("web-1 web-2").claims("data-web-1 data-web-2")).await;
    act.respec("web", json!({ "ordinals": { "start": 2 } })).await;
    act.settled("raised", pods("web-2 web-3").claims("data-web-1 data-web-2 data-web-3")).await;
    act.respec("web", json!({ "ordinals": null })).await;
    let claims = "data-web-0 data-web-1 data-web-2 data-web-3";
    act.settled("removed", pods("web-0 web-1").claims(claims)).await;
}

async fn same_when_scaled_through_the_subresource(act: &Act) {
    let sets = act.objects(Kind::Set);
    let patch = |replicas: u32| json!({ "spec": { "replicas": replicas } });
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0")).await;
    let scaling = kube::api::PatchParams::default();
    sets.patch_scale("web", &scaling, &kube::api::Patch::Merge(patch(3))).await.unwrap();
    act.settled("scaled up", pods("web-0 web-1 web-2")).await;
    let mut scale = sets.get_scale("web").await.unwrap();
    assert_eq!(scale.status.as_ref().map(|status| status.replicas), Some(3));
    scale.spec.get_or_insert_default().replicas = Some(2);
    sets.replace_scale("web", &kube::api::PostParams::default(), &scale).await.unwrap();
    act.settled("scaled down", pods("web-0 web-1")).await;
}

async fn same_when_condemned_pods_are_unready(act: &Act) {
    act.create_set(&Set::new("web", 5)).await;
    act.settled("created", pods("web-0 web-1 web-2 web-3 web-4")).await;
    act.afflict("web-3", "never-ready").await;
    act.settled("one unready", pods("web-0 web-1 web-2 web-3! web-4")).await;
    // One of them may be unready.
    act.scale("web", 3).await;
    act.settled("scaled down over it", pods("web-0 web-1 web-2")).await;
    act.afflict("web-2", "never-ready").await;
    act.afflict("web-1", "never-ready").await;
    act.settled("two unready", pods("web-0 web-1! web-2!")).await;
    // Two of them are one too many: the higher one is waited for.
    act.scale("web", 1).await;
    act.settled("blocked", pods("web-0 web-1! web-2!")).await;
    act.afflict("web-2", "").await;
    act.settled("released", pods("web-0")).await;
}

async fn same_when_a_pod_that_stays_is_unready(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.afflict("web-0", "never-ready").await;
    act.settled("unready", pods("web-0! web-1 web-2")).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0! web-1 web-2")).await;
    act.scale("web", 4).await;
    act.settled("scaled up", pods("web-0! web-1 web-2")).await;
    act.afflict("web-0", "").await;
    act.settled("ready again", pods("web-0 web-1 web-2 web-3")).await;
}

async fn same_when_a_pod_of_many_at_once_never_gets_ready(act: &Act) {
    act.in_any_order(AT_ONCE);
    act.create_set(&Set::new("web", 3).parallel().fault("never-ready", "1")).await;
    act.settled("created", pods("web-0 web-1! web-2")).await;
    act.scale("web", 4).await;
    act.settled("scaled up", pods("web-0 web-1! web-2 web-3")).await;
    act.scale("web", 2).await;
    act.settled("scaled down", pods("web-0 web-1!")).await;
    act.retemplate("web", faulty("", "")).await;
    act.settled("healed by an update", pods("web-0 web-1")).await;
}

async fn same_when_no_replicas_are_named(act: &Act) {
    act.create_set(&Set::new("web", 1).spec(json!({ "replicas": null }))).await;
    act.settled("created", pods("web-0")).await;
    act.respec("web", json!({ "replicas": 2 })).await;
    act.settled("named", pods("web-0 web-1")).await;
    act.respec("web", json!({ "replicas": null })).await;
    act.settled("not named any more", pods("web-0")).await;
}

async fn same_when_scaled_together_with_an_update(act: &Act) {
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0:v1 web-1:v1")).await;
    act.respec("web", json!({ "replicas": 4, "template": version("v2") })).await;
    act.settled("up", pods("web-0:v2 web-1:v2 web-2:v2 web-3:v2")).await;
    act.respec("web", json!({ "replicas": 1, "template": version("v3") })).await;
    act.settled("down", pods("web-0:v3")).await;
}
