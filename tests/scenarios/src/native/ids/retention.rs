//! End to end: what becomes of claims.

use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use super::{USUAL, ids, so_far};
use crate::native::act::Kind;
use crate::native::{Act, Set, pods};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    ids![USUAL;
        c_e23_claims_go_with_the_set,
        c_e24_claims_go_with_their_pods,
        c_e25_a_claim_of_another_controller_is_kept_until_it_lets_go,
        c_e26_claims_go_with_a_set_that_has_adopted_its_pods,
        c_e27_claims_go_with_pods_that_were_adopted,
        c_e28_owners_of_claims_that_are_not_ours_or_not_right,
    ]
}

const CLAIMS: &str = "data-web-0 data-web-1 data-web-2";
const CLAIMS_OF_THE_SET: &str = "data-web-0@web data-web-1@web data-web-2@web";

fn set(when_scaled: &str, when_deleted: &str) -> Set {
    Set::new("web", 3).claims(&["data"]).retention(when_scaled, when_deleted)
}

async fn c_e23_claims_go_with_the_set(act: &Act) {
    act.create_set(&set("Retain", "Delete")).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(CLAIMS_OF_THE_SET)).await;
    act.delete(Kind::Set, "web").await;
    act.settled("deleted", pods("").claims("")).await;
}

async fn c_e24_claims_go_with_their_pods(act: &Act) {
    act.create_set(&set("Delete", "Retain")).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(CLAIMS)).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims("data-web-0")).await;
    act.scale("web", 0).await;
    act.settled("scaled to nothing", pods("").claims("")).await;
}

async fn c_e25_a_claim_of_another_controller_is_kept_until_it_lets_go(act: &Act) {
    act.create_set(&set("Delete", "Retain")).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(CLAIMS)).await;
    let keeper = act.foreigner("keeper").await;
    act.merge(Kind::Claim, "data-web-1", json!({ "metadata": { "ownerReferences": [keeper] } })).await;
    act.scale("web", 0).await;
    act.settled("scaled down", pods("").claims("data-web-1@keeper")).await;
    act.merge(Kind::Claim, "data-web-1", json!({ "metadata": { "ownerReferences": null } })).await;
    act.scale("web", 3).await;
    act.settled("it lets go", pods("web-0 web-1 web-2").claims(CLAIMS)).await;
    act.scale("web", 0).await;
    act.settled("scaled down again", pods("").claims("")).await;
}

/// The set goes without its pods and is made again, which changes no pod.
async fn adopted(act: &Act, set: &Set, owned: &str) {
    act.create_set(set).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(owned)).await;
    let orphaning =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    act.delete_with(Kind::Set, "web", &orphaning).await;
    act.absent(Kind::Set, "web").await;
    act.settled("orphaned", pods("web-0? web-1? web-2?").claims(CLAIMS)).await;
    act.create_set(set).await;
    act.settled("adopted", pods("web-0 web-1 web-2").claims(owned)).await;
    assert_eq!(so_far(act), 3, "no pod was made anew for it");
}

async fn c_e26_claims_go_with_a_set_that_has_adopted_its_pods(act: &Act) {
    adopted(act, &set("Retain", "Delete"), CLAIMS_OF_THE_SET).await;
    act.delete(Kind::Set, "web").await;
    act.settled("deleted", pods("").claims("")).await;
}

async fn c_e27_claims_go_with_pods_that_were_adopted(act: &Act) {
    adopted(act, &set("Delete", "Retain"), CLAIMS).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0").claims("data-web-0")).await;
}

async fn c_e28_owners_of_claims_that_are_not_ours_or_not_right(act: &Act) {
    act.create_set(&set("Delete", "Delete")).await;
    act.settled("created", pods("web-0 web-1 web-2").claims(CLAIMS_OF_THE_SET)).await;
    let keeper = act.foreigner("keeper").await;
    let uid = act.objects(Kind::Set).get("web").await.unwrap().uid();
    let owners = |owners: &[&Value]| json!({ "metadata": { "ownerReferences": owners } });
    let the_set = |uid: &str, controller: bool| json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": controller });
    // Another controller comes on top of ours, which steps back.
    let ours = the_set(&uid.clone().unwrap_or_default(), false);
    act.merge(Kind::Claim, "data-web-0", owners(&[&keeper, &ours])).await;
    // Ours has lost its flag.
    act.merge(Kind::Claim, "data-web-1", owners(&[&ours])).await;
    // A former set of that name, and somebody without whom the garbage collector would remove the claim with it.
    let (former, mut friend) = (the_set("00000000-0000-4000-8000-000000000000", true), keeper.clone());
    friend["controller"] = json!(false);
    act.merge(Kind::Claim, "data-web-2", owners(&[&former, &friend])).await;
    let right = "data-web-0@keeper data-web-1@web data-web-2@web";
    act.settled("as they should be", pods("web-0 web-1 web-2").claims(right)).await;
    let names = async |claim: &str| -> Vec<String> {
        let claim = act.objects(Kind::Claim).get(claim).await.unwrap();
        claim.owner_references().iter().map(|owner| owner.name.clone()).collect()
    };
    assert_eq!(names("data-web-0").await, ["keeper"]);
    assert_eq!(names("data-web-1").await, ["web"]);
    assert_eq!(names("data-web-2").await, ["keeper", "web"]);
    act.delete(Kind::Set, "web").await;
    act.settled("deleted", pods("").claims("data-web-0@keeper data-web-2")).await;
}
