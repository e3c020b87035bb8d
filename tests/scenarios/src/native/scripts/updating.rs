//! Other templates.

use serde_json::{Value, json};

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::{faulty, version};
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_in_a_rolling_update,
        same_in_a_rolling_update_at_once_with_claims,
        same_with_a_canary_and_phases,
        same_with_a_partition_above_the_replicas,
        same_with_a_partition_and_a_first_ordinal,
        same_on_delete,
        same_when_rolled_back,
        same_with_three_templates_in_a_row,
        same_when_a_broken_template_is_taken_back,
        same_when_a_broken_template_is_taken_back_at_once,
        same_when_only_labels_and_annotations_of_the_template_change,
        same_in_a_rolling_update_without_parameters,
        same_when_the_strategy_changes_midway,
        same_with_seconds_that_pass_before_a_pod_is_available,
        same_with_seconds_that_never_pass_and_are_taken_back,
        same_with_seconds_that_never_pass_at_once,
    ]
}

async fn same_in_a_rolling_update(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2 web-2:v2").revisions(2)).await;
    act.update("web", "v3").await;
    act.settled("updated again", pods("web-0:v3 web-1:v3 web-2:v3").revisions(3)).await;
}

async fn same_in_a_rolling_update_at_once_with_claims(act: &Act) {
    act.in_any_order("the pods are created together");
    let claims = "data-web-0 data-web-1 data-web-2";
    act.create_set(&Set::new("web", 3).parallel().claims(&["data"])).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1").claims(claims)).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2 web-2:v2").claims(claims)).await;
}

async fn same_with_a_canary_and_phases(act: &Act) {
    act.create_set(&Set::new("web", 3).partition(3)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("held", pods("web-0:v1 web-1:v1 web-2:v1").revisions(2)).await;
    act.partition("web", 2).await;
    act.settled("canary", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.delete(Kind::Pod, "web-0").await;
    act.settled("an old one comes back", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.delete(Kind::Pod, "web-2").await;
    act.settled("a new one comes back", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.partition("web", 1).await;
    act.settled("second phase", pods("web-0:v1 web-1:v2 web-2:v2")).await;
    act.partition("web", 0).await;
    act.settled("last phase", pods("web-0:v2 web-1:v2 web-2:v2")).await;
}

async fn same_with_a_partition_above_the_replicas(act: &Act) {
    act.create_set(&Set::new("web", 1).partition(2)).await;
    act.settled("created", pods("web-0:v1")).await;
    act.update("web", "v2").await;
    act.settled("held", pods("web-0:v1")).await;
    act.scale("web", 4).await;
    act.settled("scaled over the partition", pods("web-0:v1 web-1:v1 web-2:v2 web-3:v2")).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0:v1")).await;
}

async fn same_with_a_partition_and_a_first_ordinal(act: &Act) {
    act.create_set(&Set::new("web", 3).partition(2).spec(json!({ "ordinals": { "start": 5 } }))).await;
    act.settled("created", pods("web-5:v1 web-6:v1 web-7:v1")).await;
    act.update("web", "v2").await;
    act.settled("canary", pods("web-5:v1 web-6:v1 web-7:v2")).await;
    act.delete(Kind::Pod, "web-6").await;
    act.settled("an old one comes back", pods("web-5:v1 web-6:v1 web-7:v2")).await;
}

async fn same_on_delete(act: &Act) {
    act.create_set(&Set::new("web", 3).strategy(json!({ "type": "OnDelete" }))).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("nothing happens", pods("web-0:v1 web-1:v1 web-2:v1").revisions(2)).await;
    act.delete(Kind::Pod, "web-1").await;
    act.settled("one deleted", pods("web-0:v1 web-1:v2 web-2:v1")).await;
    act.scale("web", 4).await;
    act.settled("scaled up", pods("web-0:v1 web-1:v2 web-2:v1 web-3:v2")).await;
    act.delete(Kind::Pod, "web-2").await;
    act.settled("another deleted", pods("web-0:v1 web-1:v2 web-2:v2 web-3:v2")).await;
    act.delete(Kind::Pod, "web-0").await;
    act.settled("the last deleted", pods("web-0:v2 web-1:v2 web-2:v2 web-3:v2")).await;
}

async fn same_when_rolled_back(act: &Act) {
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0:v1 web-1:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2").revisions(2)).await;
    act.update("web", "v1").await;
    act.settled("rolled back", pods("web-0:v1 web-1:v1").revisions(2)).await;
    act.update("web", "v2").await;
    act.settled("and forth", pods("web-0:v2 web-1:v2").revisions(2)).await;
}

async fn same_with_three_templates_in_a_row(act: &Act) {
    act.create_set(&Set::new("web", 3).partition(2)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("the second begun", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.update("web", "v3").await;
    act.settled("the third begun", pods("web-0:v1 web-1:v1 web-2:v3").revisions(3)).await;
    act.partition("web", 1).await;
    act.settled("the third goes on", pods("web-0:v1 web-1:v3 web-2:v3")).await;
    act.update("web", "v1").await;
    act.settled("back to the first", pods("web-0:v1 web-1:v1 web-2:v1").revisions(3)).await;
    act.respec(
        "web",
        json!({ "template": version("v2"), "updateStrategy": { "rollingUpdate": { "partition": 0 } } }),
    )
    .await;
    act.settled("the second after all", pods("web-0:v2 web-1:v2 web-2:v2").revisions(3)).await;
}

/// A template of a version with a fault.
fn broken(version_of: &str, ordinals: &str) -> Value {
    let mut template = version(version_of);
    crate::gated::manifest::merge(&mut template, &faulty("never-ready", ordinals));
    template
}

/// A template of a version without a fault, as a merge patch.
fn sound(version_of: &str) -> Value {
    let mut template = version(version_of);
    template["metadata"] = faulty("", "")["metadata"].clone();
    template
}

async fn same_when_a_broken_template_is_taken_back(act: &Act) {
    act.create_set(&Set::new("web", 3)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.retemplate("web", broken("v2", "2")).await;
    act.settled("stuck", pods("web-0:v1 web-1:v1 web-2:v2!")).await;
    act.retemplate("web", sound("v1")).await;
    act.settled("taken back, still stuck", pods("web-0:v1 web-1:v1 web-2:v2!")).await;
    act.delete(Kind::Pod, "web-2").await;
    act.settled("helped by the user", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.retemplate("web", broken("v3", "1")).await;
    act.settled("stuck in the middle", pods("web-0:v1 web-1:v3! web-2:v3")).await;
    act.retemplate("web", sound("v4")).await;
    act.settled("still stuck in the middle", pods("web-0:v1 web-1:v3! web-2:v3")).await;
    act.afflict("web-1", "").await;
    act.settled("it gets ready after all", pods("web-0:v4 web-1:v4 web-2:v4")).await;
}

async fn same_when_a_broken_template_is_taken_back_at_once(act: &Act) {
    act.in_any_order("the pods are created together");
    act.create_set(&Set::new("web", 3).parallel()).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.retemplate("web", broken("v2", "1")).await;
    act.settled("stuck", pods("web-0:v1 web-1:v2! web-2:v2")).await;
    act.retemplate("web", sound("v3")).await;
    act.settled("healed by an update", pods("web-0:v3 web-1:v3 web-2:v3")).await;
}

async fn same_when_only_labels_and_annotations_of_the_template_change(act: &Act) {
    act.create_set(&Set::new("web", 2)).await;
    act.settled("created", pods("web-0 web-1")).await;
    act.retemplate("web", json!({ "metadata": { "annotations": { "note": "a <b> & c" } } })).await;
    act.settled("an annotation", pods("web-0 web-1").revisions(2)).await;
    act.retemplate("web", json!({ "metadata": { "labels": { "tier": "front" } } })).await;
    act.settled("a label", pods("web-0 web-1").revisions(3)).await;
    act.retemplate("web", json!({ "metadata": { "annotations": null, "labels": { "tier": null } } })).await;
    act.settled("both taken back", pods("web-0 web-1").revisions(3)).await;
}

async fn same_in_a_rolling_update_without_parameters(act: &Act) {
    act.create_set(&Set::new("web", 3).strategy(json!({ "type": "RollingUpdate" }))).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2 web-2:v2")).await;
    act.retemplate("web", broken("v3", "1")).await;
    act.settled("stuck", pods("web-0:v2 web-1:v3! web-2:v3")).await;
    // No pod is counted as current while the last of them goes, and so it does not come back as such.
    act.afflict("web-0", "stuck-terminating").await;
    act.delete(Kind::Pod, "web-0").await;
    act.settled("an old one goes", pods("web-0:v2~ web-1:v3! web-2:v3")).await;
    act.afflict("web-0", "").await;
    act.settled("it comes back as a new one", pods("web-0:v3 web-1:v3! web-2:v3")).await;
    act.afflict("web-1", "").await;
    act.settled("done", pods("web-0:v3 web-1:v3 web-2:v3")).await;
}

async fn same_when_the_strategy_changes_midway(act: &Act) {
    act.create_set(&Set::new("web", 3).partition(2)).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("canary", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.respec("web", json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } })).await;
    act.settled("on delete", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.delete(Kind::Pod, "web-0").await;
    act.settled("one deleted", pods("web-0:v2 web-1:v1 web-2:v2")).await;
    act.respec("web", json!({ "updateStrategy": { "type": "RollingUpdate" } })).await;
    act.settled("rolling again", pods("web-0:v2 web-1:v2 web-2:v2")).await;
}

async fn same_with_seconds_that_pass_before_a_pod_is_available(act: &Act) {
    act.create_set(&Set::new("web", 2).spec(json!({ "minReadySeconds": 1 }))).await;
    act.settled("created", pods("web-0:v1 web-1:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2")).await;
    act.scale("web", 1).await;
    act.settled("scaled down", pods("web-0:v2")).await;
}

async fn same_with_seconds_that_never_pass_and_are_taken_back(act: &Act) {
    act.create_set(&Set::new("web", 3).spec(json!({ "minReadySeconds": 3600 }))).await;
    act.settled("the first waits", pods("web-0")).await;
    act.respec("web", json!({ "minReadySeconds": 0 })).await;
    act.settled("taken back", pods("web-0 web-1 web-2")).await;
    act.respec("web", json!({ "minReadySeconds": 3600 })).await;
    act.settled("asked for again", pods("web-0 web-1 web-2")).await;
    act.respec("web", json!({ "replicas": 1, "template": version("v2") })).await;
    act.settled("nothing goes on", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.respec("web", json!({ "minReadySeconds": 0 })).await;
    act.settled("all goes on", pods("web-0:v2")).await;
}

async fn same_with_seconds_that_never_pass_at_once(act: &Act) {
    act.in_any_order("the pods are created together");
    act.create_set(&Set::new("web", 3).parallel().spec(json!({ "minReadySeconds": 3600 }))).await;
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1")).await;
    act.update("web", "v2").await;
    act.settled("one updated", pods("web-0:v1 web-1:v1 web-2:v2")).await;
    act.scale("web", 2).await;
    act.settled("scaled down, one more updated", pods("web-0:v1 web-1:v2")).await;
    act.respec("web", json!({ "minReadySeconds": null })).await;
    act.settled("all updated", pods("web-0:v2 web-1:v2")).await;
}
