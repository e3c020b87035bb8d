//! What no controller can make right: it says so, tries again later and later, and all other sets go on.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::Cluster;
use crate::native::act::{Act, Kind};
use crate::native::events::Events;
use crate::native::expect::{Expect, pods};
use crate::native::manifest::Set;
use crate::native::ours;
use crate::native::scripts::{broken_revision, pod, quota, too_long};
use crate::observer::DEADLINE;
use crate::scenarios::{Place, Scenario};

/// The set beside the bad one.
const WELL: &str = "well";

const BAD: &str = "bad";

/// From Running to Ready, for pods of the set beside it: three of them in a row are time enough for a loop without pauses
/// to show itself with hundreds of requests.
const READY_DELAY: &str = "1s";

/// Requests while the other set is rolled. That takes about 20. Beside it, with pauses that double from 50 ms on, there
/// are 7 attempts in 5 seconds and 12 in 2 minutes, each with a creation, a status and an event at the most.
const MAX_REQUESTS: usize = 60;

/// Failures told meanwhile: as many as there are attempts, twice that where claim and pod are told of.
const MAX_WARNINGS: i32 = 24;

/// The API server does not take it.
const INVALID: u16 = 422;

/// Something bad.
struct Trouble {
    /// Makes it, and its set.
    spoil: for<'a> fn(&'a Act) -> BoxFuture<'a, ()>,
    /// The pods of the bad set then, and as long as nothing is done about it.
    stuck: &'static str,
    /// Whether the status tells how it is.
    status: bool,
    /// Reason and part of the message of the event that tells of it; none where upstream has none either.
    told: Option<(&'static str, &'static str)>,
    /// Does something about it.
    mend: for<'a> fn(&'a Act) -> BoxFuture<'a, ()>,
    /// The pods of the bad set then.
    mended: &'static str,
}

/// Scenarios from constants.
macro_rules! troubles {
    ($($name:ident: $trouble:expr),* $(,)?) => {
        vec![$(Scenario {
            name: stringify!($name),
            place: Place::Shared,
            needs_binary: false,
            play: |cluster, name| Box::pin(play(cluster, name, $trouble)),
        }),*]
    };
}

pub(super) fn all() -> Vec<Scenario> {
    troubles![
        bad_input_labels_edited_so_that_the_selector_does_not_match: Trouble {
            spoil: |act| Box::pin(a_pod_gets_other_labels(act)),
            stuck: "bad-0 bad-1?",
            status: true,
            told: None,
            mend: |act| Box::pin(relabel(act, BAD)),
            mended: "bad-0 bad-1",
        },
        bad_input_a_claim_template_over_quota: Trouble {
            spoil: |act| Box::pin(too_many_claims(act)),
            stuck: "bad-0",
            status: true,
            told: Some(("FailedCreate", "exceeded quota")),
            mend: |act| Box::pin(more_claims(act)),
            mended: "bad-0 bad-1",
        },
        bad_input_a_name_that_is_too_long_for_a_label: Trouble {
            spoil: |act| Box::pin(async { act.create_set(&Set::new(&too_long(), 2)).await }),
            stuck: "",
            status: true,
            told: Some(("FailedCreate", "must be no more than 63 ")),
            mend: |act| Box::pin(async { act.scale(&too_long(), 0).await }),
            mended: "",
        },
        bad_input_a_pod_of_a_foreign_owner_in_the_way: Trouble {
            spoil: |act| Box::pin(a_foreign_pod(act)),
            stuck: "bad-0 bad-1?",
            status: true,
            told: None,
            mend: |act| Box::pin(act.delete(Kind::Pod, "bad-1")),
            mended: "bad-0 bad-1 bad-2",
        },
        bad_input_two_sets_with_one_selector: Trouble {
            spoil: |act| Box::pin(two_of_one_selector(act)),
            // Who has the right name takes the orphan; nobody takes what has no name of a set.
            stuck: "bad-0 bad-1 worse-0 worse-1 stray?",
            status: true,
            told: None,
            mend: |act| Box::pin(act.scale("worse", 1)),
            mended: "bad-0 bad-1 worse-0 stray?",
        },
        bad_input_a_stored_revision_that_does_not_decode: Trouble {
            spoil: |act| Box::pin(an_unreadable_revision(act)),
            stuck: "bad-0 bad-1",
            // Its last words are those of whoever broke it.
            status: false,
            told: Some(("RevisionUnreadable", "bad-broken holds no pod template")),
            mend: |act| Box::pin(act.delete(Kind::Revision, "bad-broken")),
            mended: "bad-0 bad-1 bad-2",
        },
    ]
}

async fn play(cluster: Arc<dyn Cluster>, name: &str, trouble: Trouble) {
    let act = Act::new(&cluster, "o", name, None).await;
    let (_operator, account) = ours::start(&cluster, &act.namespace, Features::default()).await;
    let pace = json!({ "metadata": { "annotations": { behaviour::READY_DELAY: READY_DELAY } } });
    act.create_set(&Set::new(WELL, 3).template(pace)).await;
    (trouble.spoil)(&act).await;
    let stuck = |version: &str| {
        let expected = with(trouble.stuck, version);
        if trouble.status { expected } else { expected.whatever_the_status() }
    };
    act.settled("stuck", stuck("v1")).await;
    if let Some((reason, words)) = trouble.told {
        told(&act, reason, words).await;
    }

    let asked = async || cluster.requests(&account).unwrap().len();
    let warned = async || Events::read(&cluster.user(), &act.namespace).await.unwrap().warnings();
    let (requests, warnings) = (asked().await, warned().await);
    act.update(WELL, "v2").await;
    act.object_is(Kind::Set, WELL, "rolled", is_rolled).await;
    let (requests, warnings) = (asked().await - requests, warned().await - warnings);
    println!("{name}: {requests} requests and {warnings} warnings while another set was rolled");
    assert!(requests <= MAX_REQUESTS, "a hot loop: {requests} requests");
    assert!(warnings <= MAX_WARNINGS, "a hot loop: {warnings} warnings");
    act.settled("still stuck", stuck("v2")).await;
    for pod in ["well-0", "well-1", "well-2"] {
        assert_eq!(act.trace().lives_of(pod), 2, "{pod}");
    }

    (trouble.mend)(&act).await;
    act.settled("mended", with(trouble.mended, "v2")).await;
}

/// These pods, and those of the other set, of this version.
fn with(bad: &str, version: &str) -> Expect {
    pods(&format!("{bad} well-0:{version} well-1:{version} well-2:{version}"))
}

fn is_rolled(set: &DynamicObject) -> bool {
    let status = &set.data["status"];
    status["observedGeneration"].as_i64() == set.metadata.generation
        && status["currentRevision"] == status["updateRevision"]
        && status["updatedReplicas"] == 3
        && status["readyReplicas"] == 3
}

async fn told(act: &Act, reason: &str, words: &str) {
    until(DEADLINE, format!("{reason} to be told"), || async {
        let events = Events::read(&act.cluster.user(), &act.namespace).await?;
        let messages: Vec<_> = events.messages(reason).collect();
        let found = messages.iter().any(|message| message.contains(words));
        if found { Ok(()) } else { Err(NotYet::saw(messages)) }
    })
    .await;
}

/// Nobody can create a set whose selector does not match its own template; but pods can be changed.
async fn a_pod_gets_other_labels(act: &Act) {
    let mismatched = Set::new(BAD, 2).template(json!({ "metadata": { "labels": { "app": "other" } } }));
    let mismatched: DynamicObject = serde_json::from_value(mismatched.object()).unwrap();
    let answer = act.objects(Kind::Set).create(&PostParams::default(), &mismatched).await;
    assert!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == INVALID), "{answer:?}");
    act.create_set(&Set::new(BAD, 2)).await;
    act.settled("created", with("bad-0 bad-1", "v1")).await;
    relabel(act, "other").await;
}

async fn relabel(act: &Act, app: &str) {
    act.merge(Kind::Pod, "bad-1", json!({ "metadata": { "labels": { "app": app } } })).await;
}

async fn too_many_claims(act: &Act) {
    quota(act, &json!({ "persistentvolumeclaims": "1" })).await;
    act.create_set(&Set::new(BAD, 2).claims(&["data"])).await;
}

async fn more_claims(act: &Act) {
    act.merge(Kind::Quota, "few", json!({ "spec": { "hard": { "persistentvolumeclaims": "2" } } })).await;
}

async fn a_foreign_pod(act: &Act) {
    let keeper = act.foreigner("keeper").await;
    act.create(Kind::Pod, pod("bad-1", &json!({ "app": BAD }), &[keeper])).await;
    act.create_set(&Set::new(BAD, 3)).await;
}

async fn two_of_one_selector(act: &Act) {
    let shared = json!({
        "selector": { "matchLabels": { "app": "shared" } },
        "template": { "metadata": { "labels": { "app": "shared" } } },
    });
    for orphan in ["bad-1", "stray"] {
        act.create(Kind::Pod, pod(orphan, &json!({ "app": "shared" }), &[])).await;
    }
    act.create_set(&Set::new(BAD, 2).spec(shared.clone())).await;
    act.create_set(&Set::new("worse", 2).spec(shared)).await;
}

async fn an_unreadable_revision(act: &Act) {
    act.create_set(&Set::new(BAD, 2)).await;
    act.settled("created", with("bad-0 bad-1", "v1").revisions(2)).await;
    broken_revision(act, BAD).await;
    act.scale(BAD, 3).await;
}
