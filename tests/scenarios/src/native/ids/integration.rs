//! Integration: API server and controller.

use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use sts_plus_harness::wait::{NotYet, until};

use super::{USUAL, ids, lives, since, so_far};
use crate::native::act::Kind;
use crate::native::scripts::pod;
use crate::native::{Act, Set, pods};
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;
use crate::scenarios::refusals::{WEBHOOK, install_for, nobody, remove};

pub(super) fn all() -> Vec<Scenario> {
    ids![USUAL;
        c_i1_the_first_manifest_is_accepted_again,
        c_i2_status_follows_scales_and_generations,
        c_i3_ended_pods_are_replaced_and_a_held_one_survives,
        c_i4_ready_is_not_available,
        c_i5_status_counts_what_admission_lets_through,
        c_i6_owners_of_claims_follow_the_policy,
        c_i7_a_pod_below_the_partition_comes_back_old,
        c_i8_ordinals_begin_where_asked,
        c_i9_the_subdomain_is_the_service,
    ]
}

const HOLD: &str = "example.com/hold";

/// The label with the name of a pod.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

async fn c_i1_the_first_manifest_is_accepted_again(act: &Act) {
    let set = Set::new("web", 2).parallel().claims(&["data"]);
    act.create_set(&set).await;
    act.settled("created", pods("web-0 web-1").claims("data-web-0 data-web-1").revisions(1)).await;
    let known = so_far(act);
    let same: DynamicObject = serde_json::from_value(set.object()).unwrap();
    let stored = act.objects(Kind::Set).replace("web", &PostParams::default(), &same).await.unwrap();
    assert_eq!(stored.metadata.generation, Some(1), "nothing has changed");
    act.settled("given again", pods("web-0 web-1").claims("data-web-0 data-web-1").revisions(1)).await;
    assert_eq!(since(act, known), Vec::<String>::new());
}

async fn c_i2_status_follows_scales_and_generations(act: &Act) {
    act.create_set(&Set::new("web", 2).parallel()).await;
    act.settled("created", pods("web-0 web-1")).await;
    for (replicas, names) in [(3, "web-0 web-1 web-2"), (0, ""), (2, "web-0 web-1")] {
        act.scale("web", replicas).await;
        act.settled("scaled", pods(names)).await;
        let set = act.objects(Kind::Set).get("web").await.unwrap();
        assert_eq!(set.data["status"]["replicas"], replicas);
    }
    let before = act.objects(Kind::Set).get("web").await.unwrap().metadata.generation;
    act.retemplate("web", json!({ "metadata": { "annotations": { "note": "new" } } })).await;
    act.settled("annotated", pods("web-0 web-1").revisions(2)).await;
    let set = act.objects(Kind::Set).get("web").await.unwrap();
    assert!(set.metadata.generation > before);
    assert_eq!(set.data["status"]["observedGeneration"].as_i64(), set.metadata.generation);
}

async fn c_i3_ended_pods_are_replaced_and_a_held_one_survives(act: &Act) {
    act.create_set(&Set::new("web", 3).parallel()).await;
    act.settled("created", pods("web-0 web-1 web-2")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "finalizers": [HOLD] } })).await;
    act.delete(Kind::Pod, "web-0").await;
    act.end("web-1", "Failed").await;
    act.end("web-2", "Succeeded").await;
    act.object_is(Kind::Pod, "web-1", "replaced", |pod| pod.data["status"]["phase"] == "Running").await;
    act.object_is(Kind::Pod, "web-2", "replaced", |pod| pod.data["status"]["phase"] == "Running").await;
    act.settled("two replaced", pods("web-0~ web-1 web-2")).await;
    assert_eq!(lives(act, ["web-0", "web-1", "web-2"]), [1, 2, 2]);
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("let go", pods("web-0 web-1 web-2")).await;
    assert_eq!(lives(act, ["web-0", "web-1", "web-2"]), [2, 2, 2]);
}

async fn c_i4_ready_is_not_available(act: &Act) {
    // Nobody schedules them: their readiness is what the user says.
    let set = Set::new("web", 4).parallel().template(json!({ "spec": { "schedulerName": "nobody" } }));
    act.create_set(&set.spec(json!({ "minReadySeconds": 3600 }))).await;
    act.settled("created", pods("web-0! web-1! web-2! web-3!")).await;
    let now = act.cluster.outside().now();
    let long_ago = now - SignedDuration::from_hours(2);
    for (pod, at) in [("web-0", long_ago), ("web-1", long_ago), ("web-2", now)] {
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": at.strftime("%FT%TZ").to_string() });
        let status = json!({ "status": { "phase": "Running", "conditions": [ready] } });
        let pods = act.objects(Kind::Pod);
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    let counts = |set: &DynamicObject| {
        ["replicas", "readyReplicas", "availableReplicas"].map(|field| set.data["status"][field].as_u64())
    };
    act.object_is(Kind::Set, "web", "counted", |set| counts(set) == [Some(4), Some(3), Some(2)]).await;
    act.settled("quiet", pods("web-0 web-1 web-2 web-3!").whatever_the_status()).await;
    let set = act.objects(Kind::Set).get("web").await.unwrap();
    assert_eq!(counts(&set), [Some(4), Some(3), Some(2)]);
}

/// A webhook rather than a quota: which pods are admitted is exact then. A quota may let one more pod pass, since an API server
/// admits pods without counting them until its admission has seen the quota.
async fn c_i5_status_counts_what_admission_lets_through(act: &Act) {
    let refused = json!({ "matchExpressions": [
        { "key": POD_NAME, "operator": "In", "values": ["web-2", "web-3"] }
    ] });
    install_for(&*act.cluster, &act.namespace, nobody(), ("", "pods", "CREATE"), &refused).await;
    until(DEADLINE, "pods of that name to be refused", || async {
        let mut probe = pod("probe", &json!({ POD_NAME: "web-2" }), &[]);
        (probe["apiVersion"], probe["kind"]) = (json!("v1"), json!("Pod"));
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let tried = act.objects(Kind::Pod).create(&parameters, &serde_json::from_value(probe)?).await;
        let refused = tried.as_ref().is_err_and(|error| error.to_string().contains(WEBHOOK));
        if refused { Ok(()) } else { Err(NotYet::saw(tried.map(|_| "admitted"))) }
    })
    .await;
    act.create_set(&Set::new("web", 4).parallel()).await;
    act.settled("two of four", pods("web-0 web-1")).await;
    let status = act.objects(Kind::Set).get("web").await.unwrap().data["status"].take();
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(2), &json!(2)), "{status}");
    remove(&*act.cluster, &act.namespace).await;
    act.settled("all let through", pods("web-0 web-1 web-2 web-3")).await;
}

async fn c_i6_owners_of_claims_follow_the_policy(act: &Act) {
    let policies = [
        ("a", "Retain", "Retain"),
        ("b", "Retain", "Delete"),
        ("c", "Delete", "Retain"),
        ("d", "Delete", "Delete"),
    ];
    for (set, scaled, deleted) in policies {
        act.create_set(&Set::new(set, 2).parallel().claims(&["data"]).retention(scaled, deleted)).await;
    }
    let first = "data-a-0 data-b-0@b data-c-0 data-d-0@d";
    let all = pods("a-0 a-1 b-0 b-1 c-0 c-1 d-0 d-1");
    act.settled("created", all.claims(&format!("{first} data-a-1 data-b-1@b data-c-1 data-d-1@d"))).await;
    for (set, ..) in policies {
        // So that the pod is still there to be seen as an owner.
        act.merge(Kind::Pod, &format!("{set}-1"), json!({ "metadata": { "finalizers": [HOLD] } })).await;
        act.scale(set, 1).await;
    }
    let held = pods("a-0 a-1~ b-0 b-1~ c-0 c-1~ d-0 d-1~");
    let condemned = "data-a-1 data-b-1@b data-c-1@c-1 data-d-1@d-1";
    act.settled("scaled down", held.claims(&format!("{first} {condemned}"))).await;
    for (set, ..) in policies {
        act.merge(Kind::Pod, &format!("{set}-1"), json!({ "metadata": { "finalizers": null } })).await;
    }
    act.settled("let go", pods("a-0 b-0 c-0 d-0").claims(&format!("{first} data-a-1 data-b-1@b"))).await;
}

async fn c_i7_a_pod_below_the_partition_comes_back_old(act: &Act) {
    act.create_set(&Set::new("web", 2).parallel().partition(1)).await;
    act.settled("created", pods("web-0:v1 web-1:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v1 web-1:v2")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "finalizers": [HOLD] } })).await;
    act.end("web-0", "Failed").await;
    act.settled("failed and held", pods("web-0:v1!~ web-1:v2")).await;
    act.merge(Kind::Pod, "web-0", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("back on the old template", pods("web-0:v1 web-1:v2")).await;
    assert_eq!(lives(act, ["web-0", "web-1"]), [2, 2]);
}

async fn c_i8_ordinals_begin_where_asked(act: &Act) {
    let start = |start: u32| json!({ "ordinals": { "start": start } });
    act.create_set(&Set::new("a", 3).parallel()).await;
    act.create_set(&Set::new("b", 3).parallel().spec(json!({ "ordinals": {} }))).await;
    act.create_set(&Set::new("c", 4).parallel().spec(start(4))).await;
    act.create_set(&Set::new("d", 7).parallel().spec(start(2))).await;
    let all = "a-0 a-1 a-2 b-0 b-1 b-2 c-4 c-5 c-6 c-7 d-2 d-3 d-4 d-5 d-6 d-7 d-8";
    act.settled("created", pods(all)).await;
    for pod in act.objects(Kind::Pod).list(&ListParams::default()).await.unwrap() {
        let (name, index) = (pod.name_any(), pod.labels().get("apps.kubernetes.io/pod-index"));
        assert_eq!(name.split('-').nth(1), index.map(String::as_str), "the index of {name}");
    }
    for set in ["a", "b", "c", "d"] {
        act.scale(set, 1).await;
    }
    act.settled("the first stays", pods("a-0 b-0 c-4 d-2")).await;
}

async fn c_i9_the_subdomain_is_the_service(act: &Act) {
    act.create_set(&Set::new("web", 2).parallel().spec(json!({ "serviceName": "front" }))).await;
    act.settled("created", pods("web-0 web-1")).await;
    for name in ["web-0", "web-1"] {
        let pod = act.objects(Kind::Pod).get(name).await.unwrap();
        assert_eq!(
            (&pod.data["spec"]["subdomain"], &pod.data["spec"]["hostname"]),
            (&json!("front"), &json!(name))
        );
    }
}
