//! A controller of a few lines, as somebody who embeds the operator would write it: one file and one row.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_planner::plan::{Action, Awaited, Note, Plan, Step};
use sts_plus_planner::reason::Severity;
use sts_plus_planner::set::SetName;
use tokio::task::JoinSet;

use super::{
    Concern, Controller, Key, Label, Lanes, Made, Options, Pass, Planned, Registration, Row, Running,
    Runtime, made,
};
use crate::controllers::test_server::{Ground, Server, refusal};
use crate::shell::api::Kind;
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{Domain, SETS_AND_PODS};
use crate::shell::queue::Outcome;
use crate::shell::surroundings::Clock;

/// Stamps every set that is in a group, once the set `first` is stamped.
struct Stamps;

const ROW: Row = Row {
    name: "stamps",
    is_default: false,
    workers: 2,
    about: "Stamps the sets of groups",
    make: |_: &Options| -> Made { made(Stamps) },
};

const STAMP: &str = keys::ROLLOUT_STATUS;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Stamped {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key for Stamped {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn label(&self) -> Label<'_> {
        Label::Object(&self.name)
    }
}

impl Controller for Stamps {
    type Key = Stamped;
    type Memory = u32;
    type Detail = ();

    fn kind(&self) -> Kind {
        Kind::StatefulSet
    }

    fn reads(&self) -> &'static [Kind] {
        &SETS_AND_PODS
    }

    fn concerned(&self, _: &Store, touched: &Touched) -> Vec<Concern<Stamped>> {
        let Touched::Set { namespace, set, group: Some(_) } = touched else { return Vec::new() };
        vec![Concern::of(Stamped { namespace: Arc::clone(namespace), name: Arc::clone(set) })]
    }

    fn all(&self, rows: &Store) -> Vec<Stamped> {
        let groups = rows.groups().into_iter();
        let sets = groups.flat_map(|(namespace, group)| rows.group(&namespace, &group));
        let key = |set: &sts_plus_planner::set::SetRow| Stamped {
            namespace: Arc::clone(&set.namespace),
            name: Arc::clone(&set.name),
        };
        sets.map(|member| key(&member.set)).collect()
    }

    fn lanes(&self, rows: &Store, key: &Stamped) -> Option<Lanes> {
        let set = rows.set(&key.namespace, &key.name)?;
        Some(Lanes { domains: vec![Domain::of(&set)], own: Some(Arc::clone(&set.uid)) })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<()>> {
        *pass.memory += 1;
        let set = pass.rows.set(&pass.key.namespace, &pass.key.name)?;
        let domains = vec![Domain::of(&set)];
        let first: Arc<str> = "first".into();
        let is_stamped = |name| {
            let set = pass.rows.set(&pass.key.namespace, name);
            set.is_some_and(|set| set.steering.rollout_status.is_some())
        };
        if is_stamped(&set.name) {
            return Some(Planned::new(domains, Plan::default(), ()));
        }
        if set.name != first && !is_stamped(&first) {
            let first = Awaited::Set(SetName { namespace: Arc::clone(&set.namespace), name: first });
            return Some(Planned::new(domains, Plan { waits_on: vec![first], ..Plan::default() }, ()));
        }
        let stamp = Action::annotate(&set, STAMP, Some("{}"), "example");
        let note = Note::of_set(&set, Severity::Normal, "Stamped", "it is stamped".to_owned());
        let plan = Plan { steps: vec![Step::one(stamp)], notes: vec![note], ..Plan::default() };
        Some(Planned::new(domains, plan, ()))
    }
}

struct Bench {
    server: Server,
    events: Server,
    ground: Ground,
}

impl Bench {
    fn new() -> Self {
        let (server, events) = (Server::default(), Server::default());
        let ground = Ground::new(server.api(), events.api(), Clock::Machine);
        Self { server, events, ground }
    }

    fn see(&self, name: &str, version: &str, is_stamped: bool) {
        let annotations = if is_stamped { json!({ STAMP: "{}" }) } else { json!({}) };
        let set = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1,
                "resourceVersion": version, "labels": { "rollout-group": format!("group-of-{name}") }, "annotations": annotations
            },
            "spec": { "replicas": 0, "selector": { "matchLabels": { "app": name } }, "template": {} },
            "status": { "observedGeneration": 1, "currentRevision": "new", "updateRevision": "new" }
        });
        self.ground.around.cache.store().upsert(Kind::StatefulSet, &set.to_string());
    }

    fn runtime(&self) -> Runtime<Stamps> {
        Runtime::new(ROW.name, ROW.workers, Stamps, &self.ground.around)
    }
}

fn key(name: &str) -> Stamped {
    Stamped { namespace: "ns".into(), name: name.into() }
}

fn touched(name: &str) -> Touched {
    Touched::Set { namespace: "ns".into(), set: name.into(), group: Some("g".into()) }
}

async fn nothing_is_left_to_do() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_one_file_and_one_row_runs() {
    let bench = Bench::new();
    for name in ["first", "second"] {
        bench.see(name, "3", false);
    }
    let running: Arc<dyn Running> =
        Registration::from(&ROW).make(&Options::default()).start(&bench.ground.around);
    let mut workers = JoinSet::new();
    Arc::clone(&running).start(&mut workers);
    running.enqueue_all();
    nothing_is_left_to_do().await;
    assert_eq!(bench.server.take(), ["PATCH statefulsets/first"]);
    bench.see("first", "100", true);
    running.touched(&touched("first"));
    nothing_is_left_to_do().await;
    assert_eq!(bench.server.take(), ["PATCH statefulsets/second"], "what it waits for has changed");
    assert_eq!(bench.events.reported_of("second").await, [("Stamped".to_owned(), 1)]);
    running.close();
    while workers.join_next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_set_by_name_is_woken_by_it_and_by_no_other() {
    let bench = Bench::new();
    for name in ["first", "second", "third"] {
        bench.see(name, "3", false);
    }
    let runtime = bench.runtime();
    assert_eq!(runtime.look_at(&key("second")).await, Outcome::Settled);
    let ungrouped = |name: &str| Touched::Set { namespace: "ns".into(), set: name.into(), group: None };
    runtime.touched(&ungrouped("third"));
    assert_eq!(runtime.queue().depth(), 0);
    runtime.touched(&ungrouped("first"));
    assert_eq!(runtime.queue().next().await, Some(key("second")));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_fails_the_pass_and_what_was_not_done_is_not_reported() {
    let bench = Bench::new();
    bench.see("first", "3", false);
    bench.server.prepare(Method::PATCH, "statefulsets/first", Some(refusal(403, "no")));
    let runtime = bench.runtime();
    assert_eq!(runtime.look_at(&key("first")).await, Outcome::Failed);
    assert_eq!(runtime.look_at(&key("first")).await, Outcome::Settled);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_key_that_is_gone_and_its_successor_of_the_same_name_begins_anew() {
    let bench = Bench::new();
    bench.see("first", "3", true);
    let runtime = bench.runtime();
    let passes = |runtime: &Runtime<Stamps>| runtime.with_memory(&key("first"), |passes| *passes);
    for _ in 0..2 {
        runtime.look_at(&key("first")).await;
    }
    assert_eq!((passes(&runtime), runtime.lanes().len()), (Some(2), 1));
    let store = bench.ground.around.cache.store();
    let object = |uid: &str, version: &str| {
        json!({
            "metadata": { "name": "first", "namespace": "ns", "uid": uid, "resourceVersion": version },
            "spec": { "selector": { "matchLabels": { "app": "first" } }, "template": {} }
        })
        .to_string()
    };
    store.upsert(Kind::StatefulSet, &object("uid-next", "5"));
    runtime.look_at(&key("first")).await;
    assert_eq!(passes(&runtime), Some(1), "another set of the same name");
    tokio::time::sleep(Duration::from_mins(1)).await;
    store.remove(Kind::StatefulSet, &object("uid-next", "200"));
    assert_eq!(runtime.look_at(&key("first")).await, Outcome::Settled);
    assert_eq!((runtime.kept(), runtime.lanes()), (0, vec![]));
}
