//! One script, played in a namespace of its own: the hands of its user, and what is written down after each step.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sts_plus_harness::wait::{NotYet, try_until, try_until_stable, until};
use tokio::time::Instant;

use super::compare::{Rival, differences, unexpected};
use super::events::Events;
use super::expect::Expect;
use super::manifest::{Set, version};
use super::picture::{Picture, Raw};
use super::trace::{Move, Trace, Verb};
use crate::cluster::{Account, Cluster};
use crate::observer::DEADLINE;
use crate::stage::Stage;

/// Between the two reads that have to be the same: many times what a controller takes for its next write.
const QUIET: Duration = Duration::from_millis(500);

/// The same where nothing is known of how it will be: what is written down too early is held against whoever plays next, and
/// on a busy machine the next write may take a second.
const QUIET_AT_FIRST: Duration = Duration::from_secs(2);

/// How long what has settled may still differ from what theirs has done: failed attempts are repeated with growing
/// pauses, and events may come late, each by ten seconds or so.
const AGREEMENT_DEADLINE: Duration = Duration::from_mins(2);

/// For how long nothing is told once everything is: longer than ours keeps an event back.
const TOLD: Duration = Duration::from_secs(6);

/// What was seen of a script.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub steps: Vec<Step>,
    /// What was told, from the first step to the last.
    pub events: Events,
    /// Why the order of moves is chance, where it is.
    any_order: Option<&'static str>,
    /// Reasons of events that are chance.
    untold: Vec<String>,
}

/// What was seen after a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name of the step.
    pub name: String,
    /// All there is.
    pub picture: Picture,
    /// What happened to pods since the step before.
    pub moves: Vec<Move>,
}

/// A script that is being played.
pub struct Act {
    stage: Stage<Trace>,
    script: String,
    user: Client,
    record: Mutex<Record>,
    theirs: Option<(Arc<Record>, Rival)>,
    disagreements: Mutex<Vec<String>>,
    pods_by_hand: AtomicUsize,
}

impl Deref for Act {
    type Target = Stage<Trace>;

    fn deref(&self) -> &Stage<Trace> {
        &self.stage
    }
}

/// The kinds that users of scripts write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// StatefulSets.
    Set,
    Pod,
    /// PersistentVolumeClaims.
    Claim,
    /// ControllerRevisions.
    Revision,
    /// ResourceQuotas.
    Quota,
    ConfigMap,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::Set => ("apps", "StatefulSet", "statefulsets"),
            Self::Pod => ("", "Pod", "pods"),
            Self::Claim => ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::Revision => ("apps", "ControllerRevision", "controllerrevisions"),
            Self::Quota => ("", "ResourceQuota", "resourcequotas"),
            Self::ConfigMap => ("", "ConfigMap", "configmaps"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }
}

impl Act {
    /// A fresh namespace, watched from the start; what is seen is held against what theirs has done, where given.
    pub async fn new(
        cluster: &Arc<dyn Cluster>,
        player: &str,
        script: &str,
        theirs: Option<(Arc<Record>, Rival)>,
    ) -> Self {
        let mut stage = Stage::named(cluster, &format!("{player}-{script}")).await;
        stage.watch::<StatefulSet>().await;
        stage.watch::<Pod>().await;
        stage.watch::<PersistentVolumeClaim>().await;
        Self {
            stage,
            script: script.to_owned(),
            user: cluster.user(),
            record: Mutex::default(),
            theirs,
            disagreements: Mutex::default(),
            pods_by_hand: AtomicUsize::new(0),
        }
    }

    /// The moves of a step may come in any order, for this reason.
    pub fn in_any_order(&self, reason: &'static str) {
        self.record.lock().unwrap().any_order = Some(reason);
    }

    /// From here on the order of moves is not chance any more.
    pub fn in_order_again(&self) {
        self.record.lock().unwrap().any_order = None;
    }

    /// Events of this kind are a matter of chance with theirs, for this reason, and are not compared.
    pub fn whatever_is_told_of(&self, event: &str, _reason: &'static str) {
        self.record.lock().unwrap().untold.push(event.to_owned());
    }

    /// The objects of a kind, in the user's hands.
    pub fn objects(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.user.clone(), &self.namespace, &kind.resource())
    }

    /// Creates an object.
    pub async fn create(&self, kind: Kind, object: Value) -> DynamicObject {
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        object.types = Some(kube::api::TypeMeta {
            api_version: kind.resource().api_version,
            kind: kind.resource().kind,
        });
        let created = self.objects(kind).create(&PostParams::default(), &object).await.unwrap();
        if kind == Kind::Pod {
            self.pods_by_hand.fetch_add(1, Ordering::Relaxed);
        }
        created
    }

    /// Makes a volume of no class that any claim may have.
    pub async fn volume(&self, number: usize) {
        let volume = json!({
            "metadata": { "name": format!("{}-{number}", self.namespace) },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "1Gi" },
                "hostPath": { "path": "/nowhere" },
            },
        });
        let volumes = Api::<PersistentVolume>::all(self.user.clone());
        volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    }

    pub async fn create_set(&self, set: &Set) {
        self.create(Kind::Set, set.object()).await;
    }

    /// Changes fields of an object.
    pub async fn merge(&self, kind: Kind, name: &str, fields: Value) {
        self.objects(kind).patch(name, &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
    }

    /// Changes fields of the spec of a set.
    pub async fn respec(&self, set: &str, fields: Value) {
        self.merge(Kind::Set, set, json!({ "spec": fields })).await;
    }

    /// Changes fields of the template of a set.
    pub async fn retemplate(&self, set: &str, fields: Value) {
        self.respec(set, json!({ "template": fields })).await;
    }

    /// Gives a set's template another version.
    pub async fn update(&self, set: &str, to: &str) {
        self.retemplate(set, version(to)).await;
    }

    /// Gives a set other replicas.
    pub async fn scale(&self, set: &str, replicas: u32) {
        self.respec(set, json!({ "replicas": replicas })).await;
    }

    /// Moves the partition of a set.
    pub async fn partition(&self, set: &str, partition: u32) {
        self.respec(set, json!({ "updateStrategy": { "rollingUpdate": { "partition": partition } } })).await;
    }

    /// Has a set looked at again and again until an object is there as asked for: theirs does not look by itself when
    /// claims and revisions change, and when it looks its cache may lag.
    pub async fn nudge(&self, set: &str, kind: Kind, name: &str, is: impl Fn(&DynamicObject) -> bool) {
        let nudge = async |mark: &str| {
            self.merge(Kind::Set, set, json!({ "metadata": { "labels": { "nudge": mark } } })).await;
        };
        let mark = AtomicUsize::new(0);
        until(DEADLINE, format!("{name} to be as wanted for {set}"), || async {
            nudge(&mark.fetch_add(1, Ordering::Relaxed).to_string()).await;
            let object = self.objects(kind).get(name).await?;
            if is(&object) { Ok(()) } else { Err(NotYet::saw(object)) }
        })
        .await;
        nudge("done").await;
    }

    /// Something goes wrong with a live pod; an empty fault heals it.
    pub async fn afflict(&self, pod: &str, fault: &str) {
        self.set_fault(pod, Some(fault)).await;
    }

    /// Ends a pod with this phase, as a node does that has no more use for it.
    pub async fn end(&self, pod: &str, phase: &str) {
        let status = json!({ "status": { "phase": phase } });
        let pods = self.objects(Kind::Pod);
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Kind, name: &str) {
        self.delete_with(kind, name, &DeleteParams::default()).await;
    }

    /// Deletes an object in this way.
    pub async fn delete_with(&self, kind: Kind, name: &str, how: &DeleteParams) {
        self.objects(kind).delete(name, how).await.unwrap();
    }

    /// Waits until an object is as asked for, and returns it.
    pub async fn object_is(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        is: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        until(DEADLINE, format!("{name} to be {what}"), || async {
            let object = self.objects(kind).get(name).await?;
            if is(&object) { Ok(object) } else { Err(NotYet::saw(object)) }
        })
        .await
    }

    /// Somebody who controls things and has nothing to do with sets, as an owner reference.
    pub async fn foreigner(&self, name: &str) -> Value {
        let uid = self.create(Kind::ConfigMap, json!({ "metadata": { "name": name } })).await.uid().unwrap();
        self.trace().callings.insert(uid.clone(), format!("ConfigMap {name}"));
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true })
    }

    /// Schedules a pod, as its scheduler would.
    pub async fn bind(&self, pod: &str, node: &str) {
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod }, "target": target,
        });
        let parameters = PostParams::default();
        let pods = self.objects(Kind::Pod);
        let _: Value = pods.create_subresource("binding", pod, &parameters, &binding).await.unwrap();
    }

    /// Waits until something was told for a reason.
    pub async fn told(&self, reason: &str) {
        until(DEADLINE, format!("{reason} to be told"), || async {
            let events = Events::read(&self.user, &self.namespace).await?;
            let is_told = events.messages(reason).next().is_some();
            if is_told { Ok(()) } else { Err(NotYet::saw(events)) }
        })
        .await;
    }

    /// Waits until an object is not there.
    pub async fn absent(&self, kind: Kind, name: &str) {
        until(DEADLINE, format!("{name} to be gone"), || async {
            let object = self.objects(kind).get_opt(name).await?;
            object.map_or(Ok(()), |object| Err(NotYet::saw(object)))
        })
        .await;
    }

    /// What has been seen so far.
    pub fn trace(&self) -> MutexGuard<'_, Trace> {
        self.view()
    }

    /// The end of a step: waits until it looks as expected and nothing moves any more, and writes it down.
    pub async fn settled(&self, step: &str, expected: Expect) {
        let deadline = Instant::now() + AGREEMENT_DEADLINE;
        loop {
            let (picture, moves) = self.quiet(step, &expected).await;
            let known: usize = self.record.lock().unwrap().steps.iter().map(|step| step.moves.len()).sum();
            let seen = Step { name: step.to_owned(), picture, moves: moves[known..].to_vec() };
            let disagreement = self.disagreement(&seen);
            if let Some(words) = disagreement {
                if Instant::now() < deadline {
                    continue;
                }
                self.disagreements.lock().unwrap().push(words);
            }
            self.record.lock().unwrap().steps.push(seen);
            return;
        }
    }

    /// Two reads of everything that are the same, and as expected.
    async fn quiet(&self, step: &str, expected: &Expect) -> (Picture, Vec<Move>) {
        let what = format!("{} to settle after {step:?}", self.namespace);
        let quiet = if self.theirs.is_some() { QUIET } else { QUIET_AT_FIRST };
        let settled = try_until_stable(DEADLINE, quiet, what, || async {
            let seen = self.look().await?;
            expected.check(&seen.0).map_err(NotYet::saw)?;
            Ok(seen)
        });
        settled.await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Everything there is, if the onlooker knows of all of it.
    async fn look(&self) -> Result<(Picture, Vec<Move>), NotYet> {
        let raw = Raw::read(&self.user, &self.namespace).await?;
        let trace = self.trace();
        assert!(trace.violations.is_empty(), "{:#?}", trace.violations);
        let (mut read, mut seen): (Vec<_>, Vec<_>) = (raw.live().collect(), trace.live().collect());
        read.sort_unstable();
        seen.sort_unstable();
        if read != seen {
            return Err(NotYet::saw("the onlooker lags behind"));
        }
        let moves = trace.moves.clone();
        Ok((raw.tidy(&self.namespace, &trace.callings), moves))
    }

    /// How what is seen differs from what theirs has done.
    fn disagreement(&self, seen: &Step) -> Option<String> {
        let (theirs, rival) = self.theirs.as_ref()?;
        let record = self.record.lock().unwrap();
        let known = theirs.steps.get(record.steps.len());
        let Some(known) = known else { return Some(format!("theirs has no step {:?}", seen.name)) };
        assert_eq!(known.name, seen.name, "the script is not the same twice");
        let found = differences(&known.picture.0, &seen.picture.0);
        let found = unexpected(found, &self.script, *rival);
        let mut words: Vec<_> = found.iter().map(ToString::to_string).collect();
        let moves = |step: &Step| {
            let mut moves = step.moves.clone();
            if record.any_order.is_some() {
                moves.sort();
            }
            moves.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        if moves(known) != moves(seen) {
            words.push(format!("moves\n    theirs: {}\n    ours:   {}", moves(known), moves(seen)));
        }
        (!words.is_empty()).then(|| format!("after {:?}:\n  {}", seen.name, words.join("\n  ")))
    }

    /// What was written down, without the events, which may still be on their way.
    pub fn into_record(self) -> Record {
        std::mem::take(&mut *self.record.lock().unwrap())
    }

    /// The end of a script: what was told is the same too, and nothing was different on the way.
    pub async fn conclude(&self) {
        let Some((theirs, rival)) = &self.theirs else { return };
        let untold = self.record.lock().unwrap().untold.clone();
        let told = Mutex::new(Vec::new());
        let agreed = try_until(AGREEMENT_DEADLINE, "both to tell the same", || async {
            let mut ours = Events::read(&self.user, &self.namespace).await?;
            ours.without(&untold);
            let differences = unexpected(theirs.events.compare(&ours), &self.script, *rival);
            if differences.is_empty() {
                return Ok(());
            }
            let words: Vec<_> = differences.iter().map(ToString::to_string).collect();
            told.lock().unwrap().clone_from(&words);
            Err(NotYet::saw(words.join(", ")))
        });
        if agreed.await.is_err() {
            self.disagreements.lock().unwrap().extend(told.into_inner().unwrap());
        }
        self.agreed();
    }

    /// Nothing was different so far, whatever was told of it.
    pub fn agreed(&self) {
        let words = self.disagreements.lock().unwrap();
        assert!(words.is_empty(), "{} differs:\n{}", self.namespace, words.join("\n"));
    }

    /// Waits until ours has told everything: it keeps back what comes too fast.
    pub async fn all_is_told(&self) {
        let told = try_until_stable(DEADLINE, TOLD, "everything to be told", || async {
            Ok(Events::read(&self.user, &self.namespace).await?)
        });
        told.await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Ours deletes nothing twice, and so does not tell of it twice.
    pub async fn each_deletion_is_told_once(&self) {
        let told = Events::read(&self.user, &self.namespace).await.unwrap().deletions();
        let seen = self.trace().moves.iter().filter(|step| step.verb == Verb::Deleted).count();
        assert!(told <= seen, "{told} deletions told, {seen} seen");
    }

    /// Every pod that ever was came from this account, but for those that the user made by hand.
    pub async fn pods_come_from(&self, account: &Account) {
        let makers = self.cluster.makers_of_pods(&self.namespace).await.unwrap();
        let (ours, others): (Vec<_>, Vec<_>) = makers.into_iter().partition(|maker| *maker == account.user);
        let by_hand = self.pods_by_hand.load(Ordering::Relaxed);
        assert_eq!(others.len(), by_hand, "pods that are not ours: {others:?}");
        // Every controller of Kubernetes is one of its users.
        assert!(others.iter().all(|maker| !maker.starts_with("system:")), "{others:?}");
        let seen = self.trace().moves.iter().filter(|step| step.verb == Verb::Created).count();
        assert_eq!(ours.len() + by_hand, seen, "pods made and pods seen");
    }
}

impl Record {
    /// Writes down what was told.
    pub async fn listen(&mut self, user: &Client, namespace: &str) -> kube::Result<()> {
        self.events = Events::read(user, namespace).await?;
        self.events.without(&self.untold);
        Ok(())
    }
}
