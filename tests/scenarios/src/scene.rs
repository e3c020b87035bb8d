//! The stage of rollout groups: zones, and those who roll them.

use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use sts_plus_harness::wait::{NotYet, until};

use crate::cluster::{Account, Cluster};
use crate::fixture::{Template, Zone, image};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::stage::{Stage, Told};
use crate::view::View;

/// The HTTP status for what nobody has permitted.
const FORBIDDEN: u16 = 403;

/// Where one scenario about rollout groups plays.
pub struct Scene {
    stage: Stage<View>,
    /// Whether the operator is meant to lack a permission.
    pub lacks_permission: bool,
}

impl Deref for Scene {
    type Target = Stage<View>;

    fn deref(&self) -> &Stage<View> {
        &self.stage
    }
}

impl Scene {
    /// A fresh namespace, watched from the start.
    pub async fn new(cluster: &Arc<dyn Cluster>, name: &str) -> Self {
        let mut stage = Stage::fresh(cluster, name).await;
        stage.watch::<Pod>().await;
        stage.watch::<StatefulSet>().await;
        Self { stage, lacks_permission: false }
    }

    /// Sets with all their pods Ready.
    pub async fn given(&self, zones: &[Zone]) {
        for zone in zones {
            self.create(zone).await;
        }
        self.served(zones, "v1").await;
    }

    /// Creates a set, whether its pods come up or not.
    pub async fn create(&self, zone: &Zone) {
        self.sets().create(&PostParams::default(), &zone.object()).await.unwrap();
    }

    /// Somebody with the chart's permissions in this namespace.
    pub async fn account(&self, name: &str) -> Account {
        self.account_with(name, rules::by_default()).await
    }

    /// An operator for this namespace with an account of its own.
    pub async fn operator(&self) -> Operator {
        self.operator_of(&self.account("operator").await)
    }

    /// The user gives zones a new template, one after the other.
    pub async fn change(&self, zones: &[Zone], template: &Template) {
        for zone in zones {
            self.patch_set(zone.name(), &json!({ "spec": { "template": template.patch() } })).await;
        }
    }

    /// The same, and the StatefulSet controller has named the new revisions when this returns.
    pub async fn change_and_observe(&self, zones: &[Zone], template: &Template) {
        let revision = |view: &View, zone: &Zone| view.sets[zone.name()].update_revision.clone();
        let before: Vec<_> = zones.iter().map(|zone| revision(&self.view(), zone)).collect();
        self.change(zones, template).await;
        self.until("the new revisions to be known", |view| {
            let known = zones.iter().zip(&before).all(|(zone, before)| revision(view, zone) != *before);
            if known { Ok(()) } else { Err(format!("{:?}", view.sets)) }
        })
        .await;
    }

    /// The user changes something of a set.
    pub async fn patch_set(&self, set: &str, fields: &Value) {
        self.change_set_as(set, fields, "user").await;
    }

    /// The user writes an annotation on a set, or with `None` removes it.
    pub async fn annotate_set(&self, set: &str, key: &str, value: Option<&str>) {
        self.patch_set(set, &json!({ "metadata": { "annotations": { key: value } } })).await;
    }

    /// Something goes wrong with a live pod, or with `None` no longer does.
    pub async fn afflict(&self, pod: &str, fault: Option<&str>) {
        self.set_fault(pod, fault).await;
    }

    /// Somebody other than the operator deletes a pod.
    pub async fn delete_pod(&self, pod: &str, parameters: &DeleteParams) {
        self.view().announce_deletion(pod);
        self.pods().delete(pod, parameters).await.unwrap();
    }

    /// Waits until all pods of the zones are of this version and serve.
    pub async fn served(&self, zones: &[Zone], version: &str) {
        self.until(&format!("all pods to serve {version}"), |view| {
            zones.iter().try_for_each(|zone| serves(view, zone.name(), version))
        })
        .await;
    }

    /// Waits for the end of a rollout: all pods of the zones are of this version and serve, and the sets say so.
    pub async fn rolled(&self, zones: &[Zone], version: &str) {
        self.until(&format!("the rollout to {version} to end"), |view| {
            zones.iter().try_for_each(|zone| {
                serves(view, zone.name(), version)?;
                let set = &view.sets[zone.name()];
                let told = set.told.as_ref().map(|told| (told.state.as_str(), told.subject.as_deref()));
                let done = told == Some(("UpToDate", Some(&set.update_revision)))
                    && set.current_revision == set.update_revision;
                if done { Ok(()) } else { Err(format!("{set:?}")) }
            })
        })
        .await;
    }

    /// Waits until a set says that it is in this state, and returns its words.
    pub async fn says(&self, set: &str, state: &str) -> String {
        self.until(&format!("{set} to say {state}"), |view| {
            let told = view.state_of(set).ok_or("nothing")?;
            if told.state == state { Ok(told.message.clone()) } else { Err(format!("{told:?}")) }
        })
        .await
    }

    /// The events about a set that the operator has written so far.
    pub async fn events(&self, set: &str) -> Result<Vec<Told>, kube::Error> {
        self.events_about("StatefulSet", set).await
    }

    /// Waits for an event about a set, and returns its words.
    pub async fn event(&self, set: &str, kind: &str, reason: &str) -> String {
        until(DEADLINE, format!("a {kind} event {reason} about {set}"), || async {
            let events = self.events(set).await?;
            let found = events.iter().find(|event| event.0 == kind && event.1 == reason);
            found.map(|event| event.2.clone()).ok_or_else(|| NotYet::saw(&events))
        })
        .await
    }

    /// The end of every scenario: no guarantee was broken, and the onlooker has seen as many deletions as the API
    /// server's own record has of the operators. Returns how many that were.
    pub async fn finish(self) -> usize {
        let requests = self.requests().await;
        let forbidden: Vec<_> = requests.iter().filter(|request| request.code == FORBIDDEN).collect();
        assert!(self.lacks_permission || forbidden.is_empty(), "the chart grants too little: {forbidden:#?}");
        let recorded = requests.iter().filter(|request| request.deleted_pod()).count();
        let abandoned =
            requests.iter().filter(|request| request.deletes_pod() && request.abandoned()).count();
        let view = self.view();
        assert!(view.violations.is_empty(), "{:#?}", view.violations);
        if view.gaps > 0 {
            return recorded;
        }
        let seen = view.deletions.len();
        assert!(
            (recorded..=recorded + abandoned).contains(&seen),
            "{seen} deletions seen, {recorded} recorded and perhaps {abandoned} more: {requests:#?}"
        );
        seen
    }
}

fn serves(view: &View, set: &str, version: &str) -> Result<(), String> {
    let row = view.sets.get(set).ok_or_else(|| format!("no set {set}"))?;
    let pods: Vec<_> = view.pods_of(set).collect();
    let good = pods.iter().filter(|pod| {
        pod.serves()
            && pod.image == image(version)
            && pod.revision.as_deref() == Some(row.update_revision.as_str())
    });
    let all = row.replicas as usize;
    let done = row.observed && good.count() == all && pods.len() == all;
    if done { Ok(()) } else { Err(format!("{row:?} with {pods:?}")) }
}
