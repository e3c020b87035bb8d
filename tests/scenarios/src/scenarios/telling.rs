//! What the user can read, and that it is the same everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::controllers::rollout_group::world;
use sts_plus_operator::shell::api::{Api, Kind};
use sts_plus_operator::shell::cache::{Cache, Scope};
use sts_plus_operator::shell::events;
use sts_plus_operator::shell::executor::Domain;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_planner::reason::Reason;
use sts_plus_planner::rollout_group::plan;
use sts_plus_planner::rollout_group::report::Report;
use tokio::task::JoinSet;

use super::{Place, Scenario, scenarios};
use crate::fixture::{GROUP, Template, three_zones};
use crate::observer::DEADLINE;
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        transitions_are_told_in_the_same_words_on_the_set_as_event_and_by_the_planner,
        at_the_goal_nothing_is_written,
    ]
}

async fn transitions_are_told_in_the_same_words_on_the_set_as_event_and_by_the_planner(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    let operator = scene.operator().await;
    for zone in &zones {
        scene.says(zone.name(), "UpToDate").await;
    }
    operator.stop().await;
    // While nobody looks, so that all three changes are seen at once.
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let operator = scene.operator().await;
    scene.rolled(&zones, "v2").await;

    let revisions: Vec<_> =
        zones.iter().map(|zone| scene.view().sets[zone.name()].update_revision.clone()).collect();
    let [a, b, c] = [0, 1, 2].map(|zone| {
        let view = scene.view();
        let told = view.told_of(zones[zone].name());
        assert_eq!(told[0].0, "UpToDate", "of the first revision");
        told[1..].iter().map(|(state, subject)| format!("{state} {subject}")).collect::<Vec<_>>()
    });
    let told = |state: &str, zone: usize| format!("{state} {}", revisions[zone]);
    assert_eq!(a, [told("Rolling", 0), told("UpToDate", 0)]);
    assert_eq!(b, ["WaitingForTurn zone-a".into(), told("Rolling", 1), told("UpToDate", 1)]);
    assert_eq!(
        c,
        [
            "WaitingForTurn zone-a".into(),
            "WaitingForTurn zone-b".into(),
            told("Rolling", 2),
            told("UpToDate", 2)
        ]
    );

    let all_told = scene.view().told.clone();
    for zone in &zones {
        // Nothing is announced when a set that is up to date is seen for the first time.
        let announced = all_told.iter().filter(|(set, _)| set == zone.name()).skip(1).map(|(_, told)| told);
        let mut expected = Vec::new();
        for told in announced {
            let subject: Arc<str> = told.subject.as_deref().unwrap().into();
            let reason = match told.state.as_str() {
                "UpToDate" => Reason::UpToDate { revision: subject },
                "Rolling" => Reason::Rolling { revision: subject },
                _ => Reason::WaitingForTurn { set: subject },
            };
            assert_eq!((&told.message, &told.release), (&reason.to_string(), &reason.release()));
            expected.push(("Normal".to_owned(), told.state.clone(), told.message.clone()));
        }
        expected.sort();
        until(DEADLINE, "an event for each transition", || async {
            let mut events = scene.events(zone.name()).await?;
            events.sort();
            if events == expected { Ok(()) } else { Err(NotYet::saw(events)) }
        })
        .await;
    }
    for report in reports(&scene).await {
        assert_eq!(report.reason.kind(), "UpToDate");
        assert_eq!(report.pods.len(), 1, "one revision");
    }
    let states = format!(
        "sts_plus_rollout_sets{{namespace=\"{}\",rollout_group=\"{GROUP}\",state=\"UpToDate\"}} 3",
        scene.namespace
    );
    until(DEADLINE, &states, || async {
        let page = operator.metrics();
        if page.lines().any(|line| line == states) { Ok(()) } else { Err(NotYet::saw(page)) }
    })
    .await;
    assert_eq!(scene.finish().await, 9);
}

async fn at_the_goal_nothing_is_written(scene: Scene) {
    let zones = three_zones(1);
    scene.given(&zones).await;
    let account = scene.account("operator").await;
    let operator = scene.operator_of(&account);
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    for zone in &zones {
        scene.event(zone.name(), "Normal", "UpToDate").await;
    }
    operator.stop().await;
    let before = scene.requests().await.len();

    let operator = scene.operator_of(&account);
    until(DEADLINE, "the operator to have looked at everything", || async {
        let page = operator.metrics();
        let looked = page.lines().any(|line| {
            line.starts_with("rollout_operator_group_reconciles_total{") && !line.ends_with(" 0")
        });
        if looked { Ok(()) } else { Err(NotYet::saw(page)) }
    })
    .await;
    // Something that means nothing to a rollout happens to every set.
    for zone in &zones {
        scene.annotate_set(zone.name(), "example.com/note", Some("hello")).await;
    }
    scene.patch_set("zone-a", &serde_json::json!({ "spec": { "replicas": 2 } })).await;
    scene.served(&zones, "v2").await;
    operator.stop().await;
    let later = scene.requests().await.split_off(before);
    assert!(!later.iter().any(crate::cluster::Request::attempts_write), "{later:?}");
    assert_eq!(scene.finish().await, 3);
}

/// What `sts-plus status` would show: the planner on live objects.
pub(super) async fn reports(scene: &Scene) -> Vec<Report> {
    let api = Api::new(scene.cluster.user(), Metrics::new());
    let (recorder, _unsent) = events::channel(api.clone(), String::new());
    let scope = Scope::Namespaces(vec![scene.namespace.clone()]);
    let mut tasks = JoinSet::new();
    let cache = Cache::start(
        &api,
        (&[Kind::StatefulSet, Kind::Pod], &scope),
        &recorder,
        &(Arc::new(|_| {}) as _),
        &mut tasks,
    );
    cache.completed(Cache::first_round()).await;
    let domain = Domain { namespace: scene.namespace.as_str().into(), group: GROUP.into() };
    plan(&world(cache.store(), &domain, BTreeMap::new()), scene.cluster.outside().now()).reports
}
