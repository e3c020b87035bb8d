//! End to end: other templates.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use sts_plus_planner::statefulset::world::Features;

use super::budget::Budget;
use super::{USUAL, ids, lives, since, so_far};
use crate::native::act::Kind;
use crate::native::manifest::{faulty, version};
use crate::native::{Act, Set, pods};
use crate::observer::Observer;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    let usual = ids![USUAL;
        c_e4_update_and_rollback_with_claims,
        c_e5_update_and_rollback,
        c_e6_a_canary_and_phases,
        c_e7_a_held_pod_below_the_partition_comes_back_old,
        c_e8_a_held_pod_below_the_partition_that_failed_comes_back_old,
    ];
    let several = ids![Features { max_unavailable: true }; c_e9_no_more_than_two_are_unavailable];
    [usual, several].concat()
}

/// What the status says about a revision.
async fn revision(act: &Act, field: &str) -> String {
    let set = act.objects(Kind::Set).get("web").await.unwrap();
    set.data["status"][field].as_str().unwrap().to_owned()
}

/// Updated and rolled back, each blocked by an unready pod first and then from the highest pod down.
async fn there_and_back(act: &Act, set: &Set) {
    act.create_set(set).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1").revisions(1)).await;
    let first = revision(act, "currentRevision").await;
    for (turn, (from, to)) in [("v1", "v2"), ("v2", "v1")].into_iter().enumerate() {
        act.afflict("web-1", "never-ready").await;
        act.settled("one unready", pods(&format!("web-0:{from} web-1:{from}! web-2:{from}"))).await;
        let known = so_far(act);
        act.update("web", to).await;
        let blocked = pods(&format!("web-0:{from} web-1:{from}! web-2:{from}")).revisions(2);
        act.settled("blocked", blocked).await;
        assert_ne!(revision(act, "currentRevision").await, revision(act, "updateRevision").await);
        act.afflict("web-1", "").await;
        act.settled("updated", pods(&format!("web-0:{to} web-1:{to} web-2:{to}")).revisions(2)).await;
        let (old, new) = (turn + 1, turn + 2);
        let highest_first = ["web-2", "web-1", "web-0"]
            .map(|pod| [format!("deleted {pod} #{old}"), format!("created {pod} #{new}")]);
        assert_eq!(since(act, known), highest_first.concat());
        assert_eq!(revision(act, "currentRevision").await, revision(act, "updateRevision").await);
    }
    assert_eq!(
        revision(act, "currentRevision").await,
        first,
        "the revision of that template is there already"
    );
}

async fn c_e4_update_and_rollback_with_claims(act: &Act) {
    there_and_back(act, &Set::new("web", 3).claims(&["data"])).await;
    let claims = "data-web-0 data-web-1 data-web-2";
    act.settled("the claims are there", pods("web-0 web-1 web-2").claims(claims)).await;
}

async fn c_e5_update_and_rollback(act: &Act) {
    there_and_back(act, &Set::new("web", 3)).await;
}

async fn c_e6_a_canary_and_phases(act: &Act) {
    act.create_set(&Set::new("web", 3).partition(3)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    let known = so_far(act);
    act.update("web", "v2").await;
    act.settled("no pod moves", pods("web-0:v1 web-1:v1 web-2:v1").revisions(2)).await;
    assert_eq!(since(act, known), Vec::<String>::new());
    act.partition("web", 2).await;
    act.settled("canary", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.delete(Kind::Pod, "web-0").await;
    act.delete(Kind::Pod, "web-2").await;
    act.settled("deleted ones come back as they were", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    assert_eq!(lives(act, ["web-0", "web-1", "web-2"]), [2, 1, 3]);
    for (partition, names) in [(1, "web-0:v1 web-1:v2 web-2:v2"), (0, "web-0:v2 web-1:v2 web-2:v2")] {
        act.partition("web", partition).await;
        act.settled("another phase", pods(names)).await;
    }
    assert_eq!(lives(act, ["web-0", "web-1", "web-2"]), [3, 2, 3]);
    assert_eq!(revision(act, "currentRevision").await, revision(act, "updateRevision").await);
}

/// A pod below the partition is deleted, held by a finalizer, perhaps fails meanwhile, and is let go.
async fn held(act: &Act, fails: bool) {
    act.create_set(&Set::new("web", 2).partition(1)).await;
    act.settled("created", pods("web-0:v1 web-1:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v1 web-1:v2")).await;
    let finalizers =
        |held: bool| json!({ "metadata": { "finalizers": held.then_some(["example.com/hold"]) } });
    act.merge(Kind::Pod, "web-0", finalizers(true)).await;
    act.delete(Kind::Pod, "web-0").await;
    if fails {
        act.end("web-0", "Failed").await;
        act.settled("held and failed", pods("web-0:v1!~ web-1:v2")).await;
    } else {
        act.settled("held", pods("web-0:v1~ web-1:v2")).await;
    }
    act.merge(Kind::Pod, "web-0", finalizers(false)).await;
    act.settled("back on the old template", pods("web-0:v1 web-1:v2")).await;
    assert_eq!(lives(act, ["web-0", "web-1"]), [2, 2]);
}

async fn c_e7_a_held_pod_below_the_partition_comes_back_old(act: &Act) {
    held(act, false).await;
}

async fn c_e8_a_held_pod_below_the_partition_that_failed_comes_back_old(act: &Act) {
    held(act, true).await;
}

async fn c_e9_no_more_than_two_are_unavailable(act: &Act) {
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } });
    act.create_set(&Set::new("web", 5).strategy(strategy)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1 web-3:v1 web-4:v1")).await;
    let mut onlooker = Observer::<Budget>::new();
    onlooker.follow(Api::<Pod>::namespaced(act.cluster.user(), &act.namespace)).await;
    onlooker.view().begin(5, 2);
    let mut template = version("v2");
    template["metadata"] = faulty("never-ready", "3")["metadata"].clone();
    act.retemplate("web", template).await;
    // The fifth is not made before the fourth is ready.
    act.settled("two down", pods("web-0:v1 web-1:v1 web-2:v1 web-3:v2!")).await;
    act.afflict("web-3", "").await;
    act.settled("updated", pods("web-0:v2 web-1:v2 web-2:v2 web-3:v2 web-4:v2")).await;
    onlooker.until("all to be ready", Budget::all_ready).await;
    assert_eq!(onlooker.view().most_unavailable(), 2);
}
