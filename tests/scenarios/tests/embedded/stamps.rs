//! A controller that the operator knows nothing of, as somebody who embeds it would add one: this file, and one row. It watches
//! ConfigMaps, a kind without a table of its own, and stamps an annotation on each.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::controllers::Controllers;
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{Settings, run};
use sts_plus_operator::outbound::{Reach, Tcp};
use sts_plus_operator::runtime::{
    Concern, Controller, Key, Label, Lanes, Pass, Planned, Registration, Row, made,
};
use sts_plus_operator::shell::cache::{Scope, Store, Touched};
use sts_plus_operator::shell::executor::Domain;
use sts_plus_operator::shell::kinds::{Definition, Kind};
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::surroundings::Surroundings;
use sts_plus_planner::metadata::MetadataRow;
use sts_plus_planner::plan::{Action, Object, Plan, Precondition, Step};
use sts_plus_planner::statefulset::world::Features;
use tokio::sync::watch;

use crate::server;

const ROW: Row =
    Row { name: "stamps", is_default: false, workers: 2, about: "Stamps ConfigMaps", make: |_| made(Stamps) };

const CONFIG_MAP: Kind = Kind::Other(&Definition::built_in("v1", "ConfigMap", "configmaps"));

const STAMP: &str = "example.sts.plus/stamp";

/// Bounds hanging, in virtual time.
const DEADLINE: Duration = Duration::from_mins(10);

struct Stamps;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Stamped {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Stamped {
    fn row(&self, rows: &Store) -> Option<Arc<MetadataRow>> {
        let (namespace, name) = (Arc::clone(&self.namespace), (*self.name).into());
        rows.metadata(&Object { kind: CONFIG_MAP, namespace, name })
    }

    /// Nothing is disrupted, so each object is a domain by itself.
    fn domains(&self) -> Vec<Domain> {
        vec![Domain { namespace: Arc::clone(&self.namespace), group: format!("stamps/{}", self.name).into() }]
    }
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
    type Memory = ();
    type Detail = ();

    fn kind(&self) -> Kind {
        CONFIG_MAP
    }

    fn reads(&self) -> &'static [Kind] {
        &[CONFIG_MAP]
    }

    fn concerned(&self, _: &Store, touched: &Touched) -> Vec<Concern<Stamped>> {
        let Touched::Object { kind: CONFIG_MAP, namespace, name, .. } = touched else { return Vec::new() };
        vec![Concern::of(Stamped { namespace: Arc::clone(namespace), name: Arc::clone(name) })]
    }

    fn all(&self, rows: &Store) -> Vec<Stamped> {
        let key = |row: Arc<MetadataRow>| Stamped {
            namespace: Arc::clone(&row.namespace),
            name: Arc::clone(&row.name),
        };
        rows.all_metadata(CONFIG_MAP).into_iter().map(key).collect()
    }

    fn lanes(&self, rows: &Store, key: &Stamped) -> Option<Lanes> {
        let row = key.row(rows)?;
        Some(Lanes { domains: key.domains(), own: Some(Arc::clone(&row.uid)) })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<()>> {
        let row = pass.key.row(pass.rows)?;
        let is_stamped = row.annotations.iter().any(|(key, _)| **key == *STAMP);
        let mut plan = Plan::default();
        if !is_stamped && !row.terminating {
            let precondition = Precondition::exactly(&row.uid, &row.resource_version);
            let body = json!({ "metadata": { "annotations": { STAMP: "yes" } } });
            plan.steps.push(Step::one(Action::merge(row.object(), &row.uid, precondition, (body, "stamps"))));
        }
        Some(Planned::new(pass.key.domains(), plan, ()))
    }
}

fn settings() -> Settings {
    Settings {
        scope: Scope::Cluster,
        controllers: Controllers::named(&[]).unwrap().and(Registration::from(&ROW)),
        features: Features::default(),
        image: None,
        reach: Reach::default(),
        hooks: Hooks::default(),
        dial: Arc::new(Tcp),
        surroundings: Surroundings::default(),
        lease: None,
        listener: None,
        webhook: None,
        instance: "operator".to_owned(),
    }
}

async fn stamped(maps: &Api<ConfigMap>, name: &str) -> ConfigMap {
    until(DEADLINE, "the stamp", || async {
        let map = maps.get(name).await.unwrap();
        if map.annotations().contains_key(STAMP) { Ok(map) } else { Err(NotYet::saw(format!("{map:?}"))) }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_another_kind_is_one_file_and_one_row() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let create = async |name: &str| {
        let map = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    };
    create("before").await;
    let (_stop, stopped) = watch::channel(false);
    let metrics = Metrics::new();
    let operator = run(Client::new(server.clone(), "default"), settings(), metrics.clone(), stopped);
    let operator = tokio::spawn(operator);
    let first = stamped(&maps, "before").await;
    create("while-it-runs").await;
    stamped(&maps, "while-it-runs").await;
    // Whoever removes the stamp gets another one; whoever has it is left alone.
    let none = json!({ "metadata": { "annotations": { STAMP: null } } });
    maps.patch("while-it-runs", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    stamped(&maps, "while-it-runs").await;
    assert_eq!(maps.get("before").await.unwrap().resource_version(), first.resource_version());
    maps.delete("before", &DeleteParams::default()).await.unwrap();
    create("before").await;
    let second = stamped(&maps, "before").await;
    assert_ne!(second.uid(), first.uid(), "another object of the name");
    operator.abort();
}
