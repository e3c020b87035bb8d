//! Revisions.

use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use sts_plus_planner::revision;

use super::scripts;
use crate::native::act::Kind;
use crate::native::bout::Script;
use crate::native::manifest::version;
use crate::native::{Act, Set, pods};

pub(super) fn all() -> Vec<Script> {
    scripts![
        same_with_the_usual_history,
        same_with_a_history_of_two,
        same_without_a_history,
        same_when_the_name_of_a_revision_is_taken,
        same_when_revisions_lose_their_owner_or_go,
        same_with_a_rich_template,
        same_when_the_annotations_of_the_set_change,
    ]
}

fn limit(revisions: i32) -> Value {
    json!({ "revisionHistoryLimit": revisions })
}

/// Whether the controller has seen the present spec.
fn observed(set: &DynamicObject) -> bool {
    set.data["status"]["observedGeneration"].as_i64() == set.metadata.generation
}

async fn same_with_the_usual_history(act: &Act) {
    // Without pods every revision is the current one at once.
    act.create_set(&Set::new("web", 0)).await;
    act.settled("created", pods("").revisions(1)).await;
    for number in 2..=14 {
        act.update("web", &format!("v{number}")).await;
        act.object_is(Kind::Set, "web", "observed", observed).await;
    }
    act.settled("fourteen templates later", pods("").revisions(11)).await;
    act.update("web", "v7").await;
    act.settled("back to one of them", pods("").revisions(11)).await;
    act.respec("web", limit(3)).await;
    act.settled("a shorter history", pods("").revisions(4)).await;
}

async fn same_with_a_history_of_two(act: &Act) {
    act.create_set(&Set::new("web", 1).spec(limit(2))).await;
    act.settled("created", pods("web-0:v1").revisions(1)).await;
    for (number, revisions) in [(2, 2), (3, 3), (4, 3), (5, 3)] {
        act.update("web", &format!("v{number}")).await;
        let step = format!("updated to {number}");
        act.settled(&step, pods(&format!("web-0:v{number}")).revisions(revisions)).await;
    }
}

async fn same_without_a_history(act: &Act) {
    act.create_set(&Set::new("web", 2).partition(1).spec(limit(0))).await;
    act.settled("created", pods("web-0:v1 web-1:v1").revisions(1)).await;
    act.update("web", "v2").await;
    act.settled("both in use", pods("web-0:v1 web-1:v2").revisions(2)).await;
    act.update("web", "v3").await;
    act.settled("the one in between is not", pods("web-0:v1 web-1:v3").revisions(2)).await;
    act.partition("web", 0).await;
    act.settled("one in use", pods("web-0:v3 web-1:v3").revisions(1)).await;
}

async fn same_when_the_name_of_a_revision_is_taken(act: &Act) {
    let set = Set::new("web", 1);
    let defaulted: DynamicObject = serde_json::from_value(set.object()).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let defaulted = act.objects(Kind::Set).create(&dry_run, &defaulted).await.unwrap();
    let data = revision::patch(&defaulted.data["spec"]["template"]);
    let name = revision::name("web", &revision::hash(&data, 0));
    let other = json!({ "metadata": { "name": name }, "revision": 1, "data": { "spec": { "other": true } } });
    act.create(Kind::Revision, other).await;
    act.create_set(&set).await;
    let collided = |set: &DynamicObject| set.data["status"]["collisionCount"] == 1;
    act.object_is(Kind::Set, "web", "aware of the collision", collided).await;
    act.settled("created", pods("web-0:v1").revisions(2)).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2").revisions(3)).await;
    act.update("web", "v1").await;
    act.settled("back", pods("web-0:v1").revisions(3)).await;
}

async fn same_when_revisions_lose_their_owner_or_go(act: &Act) {
    act.create_set(&Set::new("web", 1)).await;
    act.settled("created", pods("web-0:v1")).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2").revisions(2)).await;
    let set = act.objects(Kind::Set).get("web").await.unwrap();
    let name = set.data["status"]["updateRevision"].as_str().unwrap();
    act.merge(Kind::Revision, name, json!({ "metadata": { "ownerReferences": null } })).await;
    act.nudge("web", Kind::Revision, name, |revision| !revision.owner_references().is_empty()).await;
    act.settled("adopted", pods("web-0:v2").revisions(2)).await;
    let first = act.objects(Kind::Revision).get(name).await.unwrap().uid();
    act.delete(Kind::Revision, name).await;
    act.nudge("web", Kind::Revision, name, |revision| revision.uid() != first).await;
    act.settled("made again", pods("web-0:v2").revisions(2)).await;
}

async fn same_with_a_rich_template(act: &Act) {
    act.create_set(&Set::new("web", 1).template(rich())).await;
    act.settled("created", pods("web-0:v1").revisions(1)).await;
    act.retemplate("web", json!({ "spec": { "terminationGracePeriodSeconds": 0, "hostAliases": [] } })).await;
    act.settled("updated", pods("web-0:v1").revisions(2)).await;
    act.retemplate("web", json!({ "spec": { "affinity": {}, "securityContext": { "runAsUser": 0 } } })).await;
    act.settled("with empty parts", pods("web-0:v1").revisions(3)).await;
}

/// Whatever is easily written otherwise than Go writes it.
fn rich() -> Value {
    let probe = json!({ "httpGet": { "path": "/ready?a=1&b=<2>", "port": 8080 }, "periodSeconds": 7 });
    let sidecar = json!({ "name": "side", "image": "side:v1", "restartPolicy": "Always" });
    let init = json!({ "name": "first", "image": "first:v1", "command": ["sh", "-c", "echo \"a\\b\"\t> /dev/null"] });
    let main = json!({
        "name": "main",
        "image": "app:v1",
        "args": ["", "--text=ü€😀", "line\nline\u{2028}end\u{2029}\u{1}\u{7f}"],
        "env": [
            { "name": "EMPTY", "value": "" },
            { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        ],
        "ports": [{ "containerPort": 8080, "name": "http" }],
        "resources": { "limits": { "cpu": "1500m", "memory": "128Mi" }, "requests": { "cpu": "0.5" } },
        "readinessProbe": probe,
        "livenessProbe": { "tcpSocket": { "port": "http" }, "initialDelaySeconds": 0 },
        "securityContext": {},
        "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
    });
    json!({
        "metadata": { "annotations": { "quotes": "\"'`", "empty": "", "angle": "<&>", "number": "1.0" } },
        "spec": {
            "containers": [main],
            "initContainers": [init, sidecar],
            "securityContext": { "fsGroup": 2_147_483_647 },
            "nodeSelector": {},
            "tolerations": [
                { "operator": "Exists", "effect": "NoExecute", "key": "a", "tolerationSeconds": 9_007_199_254_740_993_i64 },
                { "operator": "Exists", "effect": "NoExecute", "key": "b", "tolerationSeconds": 0 },
            ],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {},
            }],
            "shareProcessNamespace": false,
            "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["a.example"] }],
        },
    })
}

async fn same_when_the_annotations_of_the_set_change(act: &Act) {
    let note = |text: &str| json!({ "metadata": { "annotations": { "note": text } } });
    act.create_set(&Set::new("web", 1).fields(&note("one"))).await;
    act.settled("created", pods("web-0:v1").revisions(1)).await;
    act.merge(Kind::Set, "web", note("two")).await;
    act.settled("annotated", pods("web-0:v1").revisions(1)).await;
    act.update("web", "v2").await;
    act.settled("updated", pods("web-0:v2").revisions(2)).await;
    act.merge(
        Kind::Set,
        "web",
        json!({ "metadata": { "annotations": { "note": null, "other": "<>" } }, "spec": { "template": version("v3") } }),
    )
    .await;
    act.settled("both at once", pods("web-0:v3").revisions(3)).await;
}
