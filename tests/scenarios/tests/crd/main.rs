//! The PhasedRollout kind on a real API server: what it accepts and fills in, what it refuses and with which words, and
//! how it looks from kubectl.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]
#![expect(clippy::needless_pass_by_value, reason = "JSON is handed over where it is written")]

mod bed;
mod refusals;
mod samples;

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use sts_plus_api::phased_rollout::{PhasedRolloutSpec, PhasedRolloutStatus};
use sts_plus_harness::Assets;
use tokio::runtime::Runtime;

use bed::{Bed, NAME, object};

type Story = for<'a> fn(&'a Bed) -> BoxFuture<'a, ()>;

const STORIES: [(&str, Story); 9] = [
    // The first one: it installs the kind over that of somebody else.
    ("an_object_of_the_former_operator_can_be_taken_over", |bed| Box::pin(taken_over(bed))),
    ("the_kind_is_established_under_all_its_names", |bed| Box::pin(established(bed))),
    ("the_documented_manifest_is_accepted_and_gets_the_defaults", |bed| Box::pin(documented(bed))),
    ("a_null_counts_as_absent", |bed| Box::pin(nulls(bed))),
    ("every_field_survives_the_server", |bed| Box::pin(survives(bed))),
    ("conditions_and_checks_are_merged_by_their_key", |bed| Box::pin(merged(bed))),
    ("what_is_good_is_accepted", |bed| Box::pin(refusals::good_specs(bed))),
    ("what_is_bad_is_refused_with_a_reason", |bed| Box::pin(refusals::bad_specs(bed))),
    ("kubectl_lists_and_explains_the_kind", |bed| Box::pin(kubectl(bed))),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = Arc::new(Runtime::new().unwrap());
    let bed = Assets::find().map(|assets| runtime.block_on(Bed::start(&assets)));
    let bed = Arc::new(bed);
    let trials = STORIES.map(|(name, story)| {
        let (bed, runtime) = (Arc::clone(&bed), Arc::clone(&runtime));
        Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
            match &*bed {
                Ok(bed) => runtime.block_on(story(bed)),
                Err(missing) => return missing.verdict(),
            }
            Ok(Completion::Completed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.into());
    drop(bed);
    conclusion.exit_code()
}

/// The former operator's kind has the same name and asks for less: what it stored must not keep us from writing.
async fn taken_over(bed: &Bed) {
    bed.install_anything_goes().await;
    let mut old = object("old", samples::former_spec());
    old.data["status"] = samples::former_status();
    bed.rollouts.create(&PostParams::default(), &old).await.unwrap();
    bed.rollouts.replace_status("old", &PostParams::default(), &with_version(bed, old).await).await.unwrap();
    assert_eq!(bed.rollouts.get("old").await.unwrap().data["status"], samples::former_status());

    bed.install().await;
    let finalizer = json!({"metadata": {"finalizers": ["sts.plus/finalizer"]}});
    bed.rollouts.patch("old", &PatchParams::default(), &Patch::Merge(finalizer)).await.unwrap();
    let taken = bed.rollouts.get("old").await.unwrap();
    let spec: PhasedRolloutSpec = serde_json::from_value(taken.data["spec"].clone()).unwrap();
    assert!(spec.suspended());
}

async fn with_version(bed: &Bed, mut object: DynamicObject) -> DynamicObject {
    let name = object.metadata.name.as_deref().unwrap();
    object.metadata.resource_version = bed.rollouts.get(name).await.unwrap().metadata.resource_version;
    object
}

async fn established(bed: &Bed) {
    bed.install().await;
    let kinds = Api::<CustomResourceDefinition>::all(bed.server.admin());
    let kind = kinds.get(NAME).await.unwrap();
    let names = serde_json::to_value(kind.status.unwrap().accepted_names).unwrap();
    let expected = json!({
        "kind": "PhasedRollout",
        "listKind": "PhasedRolloutList",
        "plural": "phasedrollouts",
        "singular": "phasedrollout",
        "shortNames": ["phr"],
        "categories": ["all", "sts-plus"],
    });
    assert_eq!(names, expected);
    assert_eq!((kind.spec.scope.as_str(), kind.spec.versions[0].name.as_str()), ("Namespaced", "v1alpha1"));
}

/// The schema's defaults are the decoder's, so that it does not matter who fills them in.
async fn documented(bed: &Bed) {
    bed.install().await;
    for (manifest, expected) in [
        (samples::documented(), samples::documented_with_defaults()),
        (object("least", samples::least()), samples::least_with_defaults()),
    ] {
        let written: PhasedRolloutSpec = serde_json::from_value(manifest.data["spec"].clone()).unwrap();
        let stored = bed.rollouts.create(&PostParams::default(), &manifest).await.unwrap();
        assert_eq!(stored.data["spec"], expected);
        assert_eq!(serde_json::to_value(written).unwrap(), expected);
    }
}

async fn nulls(bed: &Bed) {
    bed.install().await;
    let spec = json!({
        "targetRef": "web",
        "verifyLast": null,
        "checks": null,
        "check": {
            "compare": null,
            "noDataPolicy": null,
            "passWhen": null,
            "query": {"expr": "up", "url": "prom", "secretRef": null, "headers": null},
        },
    });
    let stored = bed.rollouts.create(&PostParams::default(), &object("nulls", spec)).await.unwrap();
    let mut expected = samples::least_with_defaults();
    expected["check"]["query"]["url"] = json!("prom");
    assert_eq!(stored.data["spec"], expected);
}

/// What the schema does not know would be dropped without a word.
async fn survives(bed: &Bed) {
    bed.install().await;
    let (spec, status) = (samples::full_spec(), samples::full_status());
    let decoded: PhasedRolloutSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(decoded).unwrap(), spec, "the sample has every field of the spec");
    let decoded: PhasedRolloutStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(decoded).unwrap(), status, "the sample has every field of the status");

    let mut full = bed.rollouts.create(&PostParams::default(), &object("full", spec.clone())).await.unwrap();
    assert_eq!(full.data["spec"], spec);
    full.data["status"] = status.clone();
    let told = bed.rollouts.replace_status("full", &PostParams::default(), &full).await.unwrap();
    assert_eq!(told.data["status"], status);
    assert_eq!(told.metadata.generation, full.metadata.generation, "a status is no new wish");
}

async fn merged(bed: &Bed) {
    bed.install().await;
    let check = |name: &str| json!({"name": name, "query": {"expr": "up", "url": "prom"}});
    let condition = |kind: &str, manager: &str| {
        json!({
            "apiVersion": "sts.plus/v1alpha1",
            "kind": "PhasedRollout",
            "status": {"conditions": [{
                "type": kind, "status": "True", "reason": manager, "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }]},
        })
    };
    let spec = json!({"targetRef": "web", "checks": [check("one"), check("two")]});
    bed.rollouts.create(&PostParams::default(), &object("merged", spec)).await.unwrap();
    for (kind, manager) in [("Ready", "us"), ("Seen", "them")] {
        let apply = Patch::Apply(condition(kind, manager));
        bed.rollouts.patch_status("merged", &PatchParams::apply(manager), &apply).await.unwrap();
    }
    let kinds = |stored: &Value| -> Vec<String> {
        let conditions = stored["status"]["conditions"].as_array().unwrap();
        conditions.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    };
    let stored = bed.rollouts.get("merged").await.unwrap();
    assert_eq!(kinds(&stored.data), ["Ready", "Seen"]);

    let longer = json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "PhasedRollout",
        "spec": {"checks": [check("three")]},
    });
    let third = PatchParams::apply("them");
    let stored = bed.rollouts.patch("merged", &third, &Patch::Apply(longer)).await.unwrap();
    let names: Vec<_> = stored.data["spec"]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "two", "three"]);
}

async fn kubectl(bed: &Bed) {
    bed.install().await;
    let mut shown = object("shown", samples::least());
    shown = bed.rollouts.create(&PostParams::default(), &shown).await.unwrap();
    shown.data["status"] = samples::full_status();
    bed.rollouts.replace_status("shown", &PostParams::default(), &shown).await.unwrap();

    bed.kubectl_shows(&["get", "phr", "shown"], &["WaitForChecks"]).await;
    let table = bed.kubectl(&["get", "phr", "shown"]).await;
    let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let header = [
        "NAME",
        "TARGET-REF",
        "PHASE",
        "PARTITION",
        "ROLLING-POD-STATUS",
        "WAITING-FOR",
        "ROLLOUT-START-TIME",
        "ROLLOUT-END-TIME",
        "AGE",
    ];
    assert_eq!(lines[0], header, "{table}");
    let row = ["shown", "web", "Rolling", "2", "WaitForChecks", "Checks"];
    assert_eq!(lines[1][..row.len()], row, "{table}");
    assert_eq!(lines[1].len(), header.len(), "{table}");

    for category in ["all", "sts-plus"] {
        bed.kubectl_shows(&["get", category, "--output", "name"], &["phasedrollout.sts.plus/shown\n"]).await;
    }
    let words = ["successThreshold\t<integer>", "query\t<Object> -required-", "data returned means that the"];
    bed.kubectl_shows(&["explain", "phr.spec.check"], &words).await;
}
