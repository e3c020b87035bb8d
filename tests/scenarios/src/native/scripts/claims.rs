//! Claims.

use kube::ResourceExt;
use serde_json::{Value, json};

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::{claim_spec, claim_template};
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_when_a_claim_has_another_controller,
        same_when_the_claim_of_a_pending_pod_goes,
        same_when_a_claim_is_being_deleted,
        same_when_a_claim_of_that_name_is_there,
        same_with_several_claim_templates_and_volumes_of_their_names,
    ]
}

fn claim(name: &str, owners: &[Value]) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners }, "spec": claim_spec() })
}

async fn same_when_a_claim_has_another_controller(act: &Act) {
    let keeper = act.foreigner("keeper").await;
    act.create(Kind::Claim, claim("data-web-0", &[keeper])).await;
    // The claim is told of while its pod is Pending: the pod stays so until that was heard.
    let scheduler = json!({ "spec": { "schedulerName": "nobody" } });
    let set = Set::new("web", 2).claims(&["data"]).retention("Retain", "Delete").template(scheduler);
    act.create_set(&set).await;
    act.settled("pending", pods("web-0!").claims("data-web-0@keeper")).await;
    act.told("ConflictingController").await;
    act.bind("web-0", "node-a").await;
    act.settled("the next is pending", pods("web-0 web-1!").claims("data-web-0@keeper data-web-1@web")).await;
    act.bind("web-1", "node-b").await;
    act.settled("created", pods("web-0 web-1").claims("data-web-0@keeper data-web-1@web")).await;
    act.merge(Kind::Claim, "data-web-0", json!({ "metadata": { "ownerReferences": null } })).await;
    act.nudge("web", Kind::Claim, "data-web-0", |claim| !claim.owner_references().is_empty()).await;
    act.settled("it lets go", pods("web-0 web-1").claims("data-web-0@web data-web-1@web")).await;
}

async fn same_when_the_claim_of_a_pending_pod_goes(act: &Act) {
    // Nobody schedules it, so nothing protects its claim.
    let scheduler = json!({ "spec": { "schedulerName": "nobody" } });
    act.create_set(&Set::new("web", 1).claims(&["data"]).template(scheduler)).await;
    act.settled("pending", pods("web-0!").claims("data-web-0")).await;
    let first = act.objects(Kind::Claim).get("data-web-0").await.unwrap().uid();
    act.delete(Kind::Claim, "data-web-0").await;
    act.nudge("web", Kind::Claim, "data-web-0", |claim| claim.uid() != first).await;
    act.settled("made again", pods("web-0!").claims("data-web-0")).await;
    act.bind("web-0", "node-a").await;
    act.settled("scheduled after all", pods("web-0").claims("data-web-0")).await;
}

async fn same_when_a_claim_is_being_deleted(act: &Act) {
    let mut held = claim("data-web-1", &[]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    act.create(Kind::Claim, held).await;
    act.delete(Kind::Claim, "data-web-1").await;
    act.settled("a claim on its way out", pods("").claims("data-web-1~")).await;
    act.create_set(&Set::new("web", 2).claims(&["data"])).await;
    act.settled("created, but blocked", pods("web-0").claims("data-web-0 data-web-1~")).await;
    act.merge(Kind::Claim, "data-web-1", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("let go", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
}

async fn same_when_a_claim_of_that_name_is_there(act: &Act) {
    act.create(Kind::Claim, claim("data-web-0", &[])).await;
    act.settled("there", pods("").claims("data-web-0")).await;
    act.create_set(&Set::new("web", 2).claims(&["data"])).await;
    act.settled("used as it is", pods("web-0 web-1").claims("data-web-0 data-web-1")).await;
}

async fn same_with_several_claim_templates_and_volumes_of_their_names(act: &Act) {
    let mut logs = claim_template("logs");
    logs["metadata"]["labels"] = json!({ "app": "something-else", "kind": "logs" });
    logs["metadata"]["annotations"] = json!({ "note": "kept" });
    logs["spec"]["storageClassName"] = json!("");
    let templates = json!({ "volumeClaimTemplates": [logs, claim_template("data"), claim_template("a")] });
    let volumes = json!({ "spec": { "volumes": [
        { "name": "z-scratch", "emptyDir": {} },
        { "name": "data", "emptyDir": {} },
        { "name": "b-scratch", "emptyDir": { "medium": "Memory" } },
    ] } });
    // Nobody makes volumes for claims that ask for no class.
    for number in 0..2 {
        act.volume(number).await;
    }
    act.create_set(&Set::new("web", 2).spec(templates).template(volumes)).await;
    let claims = "logs-web-0 data-web-0 a-web-0 logs-web-1 data-web-1 a-web-1";
    act.settled("created", pods("web-0:v1 web-1:v1").claims(claims)).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2 web-1:v2").claims(claims)).await;
}
