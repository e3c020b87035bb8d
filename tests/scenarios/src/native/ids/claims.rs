//! Claims are watched: what waits for one goes on by itself, with nobody touching the set or its pods.

use kube::ResourceExt;
use serde_json::json;

use super::{USUAL, ids, since, so_far};
use crate::native::act::Kind;
use crate::native::{Act, Set, pods};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    ids![USUAL;
        c_s24_a_scale_up_goes_on_by_itself_once_a_stale_claim_is_gone,
        c_e29_the_claim_of_a_pending_pod_is_made_again,
    ]
}

async fn c_s24_a_scale_up_goes_on_by_itself_once_a_stale_claim_is_gone(act: &Act) {
    let finalizers = |held: &[&str]| json!({ "metadata": { "finalizers": held } });
    act.create_set(&Set::new("web", 3).claims(&["data"]).retention("Delete", "Retain")).await;
    act.settled("created", pods("web-0 web-1 web-2").claims("data-web-0 data-web-1 data-web-2")).await;
    act.merge(Kind::Claim, "data-web-2", finalizers(&["example.com/hold"])).await;
    let first = act.objects(Kind::Claim).get("data-web-2").await.unwrap();
    act.scale("web", 2).await;
    let stale = "data-web-0 data-web-1 data-web-2@web-2~";
    act.settled("scaled down", pods("web-0 web-1").claims(stale)).await;
    let known = so_far(act);
    act.scale("web", 3).await;
    act.settled("scaled up, but blocked", pods("web-0 web-1").claims(stale)).await;
    assert_eq!(since(act, known), Vec::<String>::new());
    let still = act.objects(Kind::Claim).get("data-web-2").await.unwrap();
    assert_eq!(still.uid(), first.uid());
    act.merge(Kind::Claim, "data-web-2", finalizers(&[])).await;
    act.settled("goes on", pods("web-0 web-1 web-2").claims("data-web-0 data-web-1 data-web-2")).await;
    assert_eq!(since(act, known), ["created web-2 #2"]);
}

async fn c_e29_the_claim_of_a_pending_pod_is_made_again(act: &Act) {
    // Nobody schedules it, as on a node that takes no pods, so nothing protects its claim.
    let scheduler = json!({ "spec": { "schedulerName": "nobody" } });
    act.create_set(&Set::new("web", 1).claims(&["data"]).template(scheduler)).await;
    act.settled("pending", pods("web-0!").claims("data-web-0")).await;
    let first = act.objects(Kind::Claim).get("data-web-0").await.unwrap().uid();
    act.delete(Kind::Claim, "data-web-0").await;
    act.object_is(Kind::Claim, "data-web-0", "made again", |claim| claim.uid() != first).await;
    act.settled("made again", pods("web-0!").claims("data-web-0")).await;
    act.bind("web-0", "node-a").await;
    act.settled("ready", pods("web-0").claims("data-web-0")).await;
    assert_eq!(act.trace().lives_of("web-0"), 1);
}
