//! The chart grants every verb that is used, and none that is not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use sts_plus_api::keys;
use sts_plus_harness::faults::{Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;

use super::{Scenario, Stage, scenarios};
use crate::binary::holder;
use crate::fixture::{Template, three_zones};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Stage::Shared; the_chart_grants_exactly_the_verbs_that_are_used]
}

/// Everything that an operator ever asks for: the lease from its creation to its release, lists streamed and paged, a
/// rollout, a lost answer, an event that is told again.
async fn the_chart_grants_exactly_the_verbs_that_are_used(scene: Scene) {
    let zones = three_zones(1);
    scene.given(&zones).await;
    let account = scene.account_with("operator", [rules::work(), rules::home()].concat()).await;
    let scope = || Scope::Namespaces(vec![scene.namespace.clone()]);
    let leader = Operator::start_elected(account.client.clone(), scope(), "leader", &scene.namespace);
    until(DEADLINE, "somebody to lead", || async {
        let holder = holder(&scene).await?;
        if holder.is_empty() { Err(NotYet::saw("nobody")) } else { Ok(()) }
    })
    .await;
    let standby =
        Operator::start_elected(old_and_lossy(&account.client), scope(), "standby", &scene.namespace);
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    until(DEADLINE, "the other to stand by", || async {
        let requests = scene.cluster.requests(&account)?;
        let watches =
            requests.iter().any(|request| (&*request.verb, &*request.resource) == ("watch", "leases"));
        if watches { Ok(()) } else { Err(NotYet::saw(requests)) }
    })
    .await;
    leader.stop().await;

    scene.change(&zones, &Template::new("v3")).await;
    scene.rolled(&zones, "v3").await;
    for paused in [Some("true"), None, Some("true")] {
        scene.annotate_set("zone-a", keys::PAUSED, paused).await;
        scene.says("zone-a", if paused.is_some() { "Paused" } else { "UpToDate" }).await;
    }
    until(DEADLINE, "an event to be told again", || async {
        let requests = scene.cluster.requests(&account)?;
        let again =
            requests.iter().any(|request| (&*request.verb, &*request.resource) == ("patch", "events"));
        if again { Ok(()) } else { Err(NotYet::saw(requests)) }
    })
    .await;
    standby.stop().await;

    let granted: BTreeSet<_> = [rules::work(), rules::home()]
        .concat()
        .into_iter()
        .flat_map(|rule| {
            let resources = rule.resources.unwrap_or_default();
            let verbs = rule.verbs;
            resources
                .into_iter()
                .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)))
        })
        .collect();
    let requests = scene.requests().await;
    let used: BTreeSet<_> = requests.into_iter().map(|request| (request.resource, request.verb)).collect();
    assert_eq!(used, granted);
    assert_eq!(scene.finish().await, 6);
}

/// A client of a server that does not stream lists, and loses the answer to the first deletion.
fn old_and_lossy(client: &kube::Client) -> kube::Client {
    let lost = AtomicBool::new(false);
    let faults = Faults::new(move |call| {
        if call.path.contains("sendInitialEvents") {
            Fault::Answer { status: 422, retry_after: None }
        } else if call.method == Method::DELETE && !lost.swap(true, Ordering::Relaxed) {
            Fault::LoseAnswer
        } else {
            Fault::None
        }
    });
    faults.client(client)
}
