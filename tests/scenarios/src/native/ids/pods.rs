//! End to end: whose pods these are, how many there are, and what users may ask for.

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use super::{USUAL, ids, lives, since, so_far};
use crate::native::act::Kind;
use crate::native::manifest::containers;
use crate::native::{Act, Set, pods};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    ids![USUAL;
        c_e2_orphans_are_adopted_and_strangers_released,
        c_e3_a_pod_comes_back_before_an_unready_one,
        c_e10_on_delete_pods_return_on_the_newest_template,
        c_e11_scaling_in_order_halts_at_an_unready_pod,
        c_e12_scaling_at_once_ignores_unready_pods,
        c_e13_a_rejected_pod_is_made_again_until_it_fits,
        c_e14_the_scale_subresource,
        c_e15_sets_are_listed_patched_and_deleted_together,
        c_e16_conditions_of_others_persist,
        c_e21_the_next_pod_waits_for_the_seconds_of_this_one,
        c_e22_available_follows_other_seconds,
    ]
}

async fn c_e2_orphans_are_adopted_and_strangers_released(act: &Act) {
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0")).await;
    let uid = act.objects(Kind::Pod).get("web-0").await.unwrap().uid();
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "ownerReferences": null } })).await;
    act.object_is(Kind::Pod, "web-0", "adopted", |pod| !pod.owner_references().is_empty()).await;
    act.settled("adopted", pods("web-0")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "labels": { "app": null } } })).await;
    act.settled("released", pods("web-0?").whatever_the_status()).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "labels": { "app": "web" } } })).await;
    act.settled("adopted again", pods("web-0")).await;
    assert_eq!(
        act.objects(Kind::Pod).get("web-0").await.unwrap().uid(),
        uid,
        "it is the same pod all the time"
    );
}

async fn c_e3_a_pod_comes_back_before_an_unready_one(act: &Act) {
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0 web-1")).await;
    act.afflict("web-1", "never-ready").await;
    act.settled("the second is unready", pods("web-0 web-1!")).await;
    act.delete(Kind::Pod, "web-0").await;
    act.settled("the first is back", pods("web-0 web-1!")).await;
    assert_eq!(lives(act, ["web-0", "web-1"]), [2, 1]);
    act.afflict("web-1", "").await;
    act.settled("both ready", pods("web-0 web-1")).await;
}

async fn c_e10_on_delete_pods_return_on_the_newest_template(act: &Act) {
    act.create_set(&Set::new("web", 3).strategy(json!({ "type": "OnDelete" }))).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    for pod in ["web-0", "web-1", "web-2"] {
        act.delete(Kind::Pod, pod).await;
    }
    act.object_is(Kind::Set, "web", "complete", |set| set.data["status"]["readyReplicas"] == 3).await;
    act.settled("back as they were", pods("web-0:v1 web-1:v1 web-2:v1").revisions(1)).await;
    let known = so_far(act);
    act.update("web", "v2").await;
    act.settled("nothing moves", pods("web-0:v1 web-1:v1 web-2:v1").revisions(2)).await;
    assert_eq!(since(act, known), Vec::<String>::new());
    for pod in ["web-0", "web-1", "web-2"] {
        act.delete(Kind::Pod, pod).await;
    }
    act.settled("back as asked for", pods("web-0:v2 web-1:v2 web-2:v2").revisions(2)).await;
}

async fn c_e11_scaling_in_order_halts_at_an_unready_pod(act: &Act) {
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0")).await;
    act.afflict("web-0", "never-ready").await;
    act.settled("unready", pods("web-0!")).await;
    let known = so_far(act);
    act.scale("web", 3).await;
    act.settled("scaling up halts", pods("web-0!")).await;
    act.afflict("web-0", "").await;
    act.settled("scaled up", pods("web-0 web-1 web-2")).await;
    assert_eq!(since(act, known), ["created web-1 #1", "created web-2 #1"]);
    for pod in ["web-0", "web-1", "web-2"] {
        act.afflict(pod, "never-ready").await;
    }
    act.settled("all unready", pods("web-0! web-1! web-2!")).await;
    let known = so_far(act);
    act.scale("web", 0).await;
    act.settled("scaling down halts", pods("web-0! web-1! web-2!")).await;
    act.afflict("web-2", "").await;
    act.settled("halts at the next", pods("web-0! web-1!")).await;
    // The lowest may be unready: nothing below it waits.
    act.afflict("web-1", "").await;
    act.settled("scaled down", pods("")).await;
    assert_eq!(since(act, known), ["deleted web-2 #1", "deleted web-1 #1", "deleted web-0 #1"]);
}

async fn c_e12_scaling_at_once_ignores_unready_pods(act: &Act) {
    act.create_set(&Set::new("web", 2).parallel().fault("never-ready", "")).await;
    act.settled("created", pods("web-0! web-1!")).await;
    act.scale("web", 4).await;
    act.settled("scaled up", pods("web-0! web-1! web-2! web-3!")).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0!")).await;
    act.scale("web", 0).await;
    act.settled("scaled to nothing", pods("")).await;
}

async fn c_e13_a_rejected_pod_is_made_again_until_it_fits(act: &Act) {
    // Nobody schedules it, so that the user can be the node that rejects it.
    let scheduler = json!({ "spec": { "schedulerName": "nobody" } });
    act.create_set(&Set::new("web", 1).template(scheduler)).await;
    for life in 1..=3 {
        act.settled("made", pods("web-0!")).await;
        assert_eq!(act.trace().lives_of("web-0"), life);
        let uid = act.objects(Kind::Pod).get("web-0").await.unwrap().uid();
        act.end("web-0", "Failed").await;
        act.object_is(Kind::Pod, "web-0", "another one", |pod| pod.uid() != uid).await;
    }
    act.bind("web-0", "node-a").await;
    act.settled("it fits", pods("web-0")).await;
    assert_eq!(act.trace().lives_of("web-0"), 4);
}

async fn c_e14_the_scale_subresource(act: &Act) {
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0")).await;
    let sets = act.objects(Kind::Set);
    let mut scale = sets.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.as_ref().and_then(|spec| spec.replicas), Some(1));
    assert_eq!(scale.status.as_ref().map(|status| status.replicas), Some(1));
    scale.spec.get_or_insert_default().replicas = Some(2);
    sets.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    act.settled("updated", pods("web-0 web-1")).await;
    let four = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    sets.patch_scale("web", &PatchParams::default(), &four).await.unwrap();
    act.settled("patched", pods("web-0 web-1 web-2 web-3")).await;
    let status = sets.get_scale("web").await.unwrap().status.unwrap();
    assert_eq!((status.replicas, status.selector.as_deref()), (4, Some("app=web")));
}

async fn c_e15_sets_are_listed_patched_and_deleted_together(act: &Act) {
    let listed = ListParams::default().labels("team=one");
    for name in ["web", "db"] {
        let labels = json!({ "metadata": { "labels": { "team": "one" } } });
        act.create_set(&Set::new(name, 1).fields(&labels)).await;
    }
    act.create_set(&Set::new("other", 1)).await;
    act.settled("created", pods("db-0 other-0 web-0")).await;
    let sets = act.objects(Kind::Set);
    let found = sets.list(&listed).await.unwrap();
    assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["db", "web"]);
    let template = json!({ "spec": { "containers": containers("v2"), "terminationGracePeriodSeconds": 1 } });
    act.respec("web", json!({ "replicas": 2, "template": template })).await;
    act.settled("patched", pods("db-0:v1 other-0:v1 web-0:v2 web-1:v2")).await;
    let pod = act.objects(Kind::Pod).get("web-0").await.unwrap();
    assert_eq!(pod.data["spec"]["terminationGracePeriodSeconds"], 1);
    let how =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    sets.delete_collection(&how, &listed).await.unwrap();
    act.settled("deleted together", pods("other-0").revisions(1)).await;
    assert!(sets.list(&listed).await.unwrap().items.is_empty());
}

async fn c_e16_conditions_of_others_persist(act: &Act) {
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0")).await;
    let sets = act.objects(Kind::Set);
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "reason": "E2E", "message": "by hand" });
    let kinds = |status: &Value| -> Vec<String> {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.filter_map(|condition| condition["type"].as_str()).map(str::to_owned).collect()
    };
    let mut set = sets.get_subresource("status", "web").await.unwrap();
    set.data["status"]["conditions"] = json!([condition("Updated")]);
    let updated = sets.replace_status("web", &PostParams::default(), &set).await.unwrap();
    assert_eq!(kinds(&updated.data["status"]), ["Updated"]);
    let patch = json!({ "status": { "conditions": [condition("Updated"), condition("Patched")] } });
    sets.patch_status("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    act.scale("web", 2).await;
    act.settled("scaled", pods("web-0 web-1")).await;
    let status = sets.get_subresource("status", "web").await.unwrap().data["status"].clone();
    assert_eq!(
        (kinds(&status), &status["readyReplicas"]),
        (vec!["Updated".into(), "Patched".into()], &json!(2))
    );
}

/// Seconds that are too long to be chance and short enough to be waited for.
const SECONDS: i64 = 3;

async fn c_e21_the_next_pod_waits_for_the_seconds_of_this_one(act: &Act) {
    act.create_set(&Set::new("web", 2).spec(json!({ "minReadySeconds": SECONDS }))).await;
    act.settled("created", pods("web-0 web-1")).await;
    let first = act.objects(Kind::Pod).get("web-0").await.unwrap();
    let conditions = first.data["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let ready: jiff::Timestamp = ready["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    let second = act.objects(Kind::Pod).get("web-1").await.unwrap().creation_timestamp().unwrap().0;
    // Not a matter of speed: both times are the API server's, and it may only be later.
    assert!(second.as_second() >= ready.as_second() + SECONDS, "{second} is too soon after {ready}");
}

async fn c_e22_available_follows_other_seconds(act: &Act) {
    let available = async |seconds: i64, wanted: u64| {
        act.respec("web", json!({ "minReadySeconds": seconds })).await;
        act.settled("changed", pods("web-0 web-1")).await;
        let set = act.objects(Kind::Set).get("web").await.unwrap();
        assert_eq!(set.data["status"]["availableReplicas"].as_u64().unwrap_or_default(), wanted);
    };
    act.create_set(&Set::new("web", 2).parallel().spec(json!({ "minReadySeconds": SECONDS }))).await;
    act.settled("created", pods("web-0 web-1")).await;
    available(SECONDS, 2).await;
    available(3600, 0).await;
    available(0, 2).await;
    assert_eq!(act.trace().moves.len(), 2, "no pod was made anew for it");
}
