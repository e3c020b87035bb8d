//! What stands in the way.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sts_plus_harness::wait::{NotYet, until};

use super::identity::pod;
use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::version;
use crate::native::{Act, Set, pods};
use crate::observer::DEADLINE;

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_when_a_quota_refuses_pods,
        same_when_a_quota_refuses_pods_of_many_at_once,
        same_when_a_quota_refuses_claims,
        same_when_a_pod_of_somebody_else_is_in_the_way,
        same_with_a_name_that_is_too_long,
        same_with_two_sets_of_one_selector,
        same_when_a_stored_revision_does_not_decode,
    ]
}

/// Allows no more than that, and no ConfigMap: an API server admits objects without counting them until its admission has seen
/// a quota, which may be later than its controller has counted for it (seen with 1.36.3 in one of 60 namespaces). It has when
/// a ConfigMap is refused.
pub async fn quota(act: &Act, hard: &Value) {
    let mut hard = hard.clone();
    hard["configmaps"] = json!("0");
    act.create(Kind::Quota, json!({ "metadata": { "name": "few" }, "spec": { "hard": hard } })).await;
    until(DEADLINE, "the quota to be enforced", || async {
        let probe = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "probe" } });
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let tried = act.objects(Kind::ConfigMap).create(&parameters, &serde_json::from_value(probe)?).await;
        let refused = tried.as_ref().is_err_and(|error| error.to_string().contains("exceeded quota"));
        if refused { Ok(()) } else { Err(NotYet::saw(tried.map(|_| "admitted"))) }
    })
    .await;
}

async fn same_when_a_quota_refuses_pods(act: &Act) {
    quota(act, &json!({ "pods": "2" })).await;
    act.create_set(&Set::new("web", 3)).await;
    act.settled("one too many", pods("web-0 web-1")).await;
    act.merge(Kind::Quota, "few", json!({ "spec": { "hard": { "pods": "3" } } })).await;
    act.settled("as many as asked for", pods("web-0 web-1 web-2")).await;
}

async fn same_when_a_quota_refuses_pods_of_many_at_once(act: &Act) {
    act.in_any_order("pods of a parallel set are created together");
    act.whatever_is_told_of("FailedCreate", "which pods are refused is chance");
    quota(act, &json!({ "pods": "1" })).await;
    act.create_set(&Set::new("web", 2).parallel()).await;
    act.settled("one too many", pods("web-0")).await;
    act.merge(Kind::Quota, "few", json!({ "spec": { "hard": { "pods": "2" } } })).await;
    act.settled("as many as asked for", pods("web-0 web-1")).await;
}

async fn same_when_a_quota_refuses_claims(act: &Act) {
    quota(act, &json!({ "persistentvolumeclaims": "1" })).await;
    act.create_set(&Set::new("web", 2).claims(&["data"])).await;
    act.settled("one too many", pods("web-0").claims("data-web-0")).await;
    act.merge(Kind::Quota, "few", json!({ "spec": { "hard": { "persistentvolumeclaims": "2" } } })).await;
    act.settled("as many as asked for", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
}

async fn same_when_a_pod_of_somebody_else_is_in_the_way(act: &Act) {
    let keeper = act.foreigner("keeper").await;
    act.create(Kind::Pod, pod("web-1", &json!({ "app": "web" }), &[keeper])).await;
    act.settled("there", pods("web-1?")).await;
    act.create_set(&Set::new("web", 3)).await;
    act.settled("in the way", pods("web-0 web-1?")).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("gone", pods("web-0 web-1 web-2")).await;
}

/// A name of a set that fits into a label, while that of its revision, which is a label of its pods, does not.
pub fn too_long() -> String {
    "w".repeat(58)
}

/// Stores a revision that no template can be read from, and makes it the current one of a set.
pub async fn broken_revision(act: &Act, set: &str) {
    let uid = act.objects(Kind::Set).get(set).await.unwrap().uid();
    let name = format!("{set}-broken");
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": uid, "controller": true,
    });
    act.create(
        Kind::Revision,
        json!({
            "metadata": { "name": name, "labels": { "app": set }, "ownerReferences": [owner] },
            "data": { "spec": { "template": 5 } },
            "revision": 1,
        }),
    )
    .await;
    let status = json!({ "status": { "currentRevision": name } });
    let sets = act.objects(Kind::Set);
    sets.patch_status(set, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

async fn same_when_a_stored_revision_does_not_decode(act: &Act) {
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0 web-1").revisions(1)).await;
    broken_revision(act, "web").await;
    act.scale("web", 3).await;
    act.settled("stuck", pods("web-0 web-1").revisions(2).whatever_the_status()).await;
    act.delete(Kind::Revision, "web-broken").await;
    // Theirs does not look by itself when a revision goes.
    act.scale("web", 4).await;
    act.settled("mended", pods("web-0 web-1 web-2 web-3").revisions(1)).await;
}

async fn same_with_a_name_that_is_too_long(act: &Act) {
    let name = too_long();
    act.create_set(&Set::new(&name, 2)).await;
    act.settled("no pod has a label of that length", pods("").revisions(1)).await;
    act.respec(&name, json!({ "template": version("v2") })).await;
    act.settled("nor after an update", pods("").revisions(2)).await;
}

async fn same_with_two_sets_of_one_selector(act: &Act) {
    act.in_any_order("the sets know nothing of each other");
    let shared = json!({
        "selector": { "matchLabels": { "app": "shared" } },
        "template": { "metadata": { "labels": { "app": "shared" } } },
    });
    act.create_set(&Set::new("a", 2).spec(shared.clone())).await;
    act.settled("the first created", pods("a-0 a-1").revisions(1)).await;
    act.create_set(&Set::new("b", 2).spec(shared).template(version("v2"))).await;
    act.settled("the second created", pods("a-0:v1 a-1:v1 b-0:v2 b-1:v2").revisions(2)).await;
    act.update("a", "v3").await;
    act.settled("the first updated", pods("a-0:v3 a-1:v3 b-0:v2 b-1:v2").revisions(3)).await;
    act.scale("b", 1).await;
    act.settled("the second scaled", pods("a-0:v3 a-1:v3 b-0:v2").revisions(3)).await;
}
