//! What must hold for every plan, whatever the scenario: judged anew from the rows, without the planner's own words.
//! The numbers are those of the list of properties that the behaviour catalogue ends with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::keys;

use super::super::world::{ClaimRow, Keep, Management, Presence, World};
use super::super::{Decision, Purpose, Task, plan};
use super::{trim, work};
use crate::plan::{Kind, Verb};
use crate::pod::{Phase, PodRow};
use crate::set::Strategy;

/// Writes of a plan besides those to pods and claims: a revision and the status.
const WRITES_BESIDES: usize = 2;

/// Holds one plan against all invariants.
#[track_caller]
pub(super) fn check(world: &World, decided: &Decision, now: Timestamp) {
    let view = View { world, now };
    orderly(&view, decided);
    deterministic(&view, decided);
    guarded(&view, decided);
    creations(&view, decided);
    deletions(&view, decided);
    claims(&view, decided);
    status(&view, decided);
    history(&view, decided);
}

/// A world at a time.
struct View<'w> {
    world: &'w World,
    now: Timestamp,
}

impl View<'_> {
    fn first(&self) -> u64 {
        self.world.set.first_ordinal.into()
    }

    fn end(&self) -> u64 {
        self.first() + u64::from(self.world.set.replicas)
    }

    fn ordinal(&self, name: &str) -> Option<u64> {
        let number: u64 = name.strip_prefix(&format!("{}-", self.world.set.name))?.parse().ok()?;
        (name == format!("{}-{number}", self.world.set.name)).then_some(number)
    }

    fn in_range(&self, name: &str) -> bool {
        self.ordinal(name).is_some_and(|ordinal| (self.first()..self.end()).contains(&ordinal))
    }

    /// The pod in a slot.
    fn slot(&self, ordinal: u64) -> Option<&PodRow> {
        self.members().find(|pod| self.ordinal(&pod.name) == Some(ordinal))
    }

    /// The pods of the set with a name of it.
    fn members(&self) -> impl Iterator<Item = &PodRow> {
        self.world.pods.iter().map(|pod| &**pod).filter(|pod| self.ordinal(&pod.name).is_some())
    }

    fn available(&self, pod: &PodRow) -> bool {
        let min_ready = self.world.set.min_ready;
        pod.ready_since
            .is_some_and(|since| min_ready.is_zero() || self.now.duration_since(since) >= min_ready)
    }

    fn healthy(&self, pod: &PodRow) -> bool {
        pod.phase == Phase::Running && self.available(pod) && !pod.terminating
    }

    fn ordered(&self) -> bool {
        self.world.spec.management == Management::OrderedReady
    }

    /// The revisions that may be the update revision: of the present template, or the one in the status while the
    /// template has not changed.
    fn is_update(&self, name: &str) -> bool {
        let set = &self.world.set;
        let stored = self
            .world
            .revisions
            .iter()
            .chain(self.world.memory.taken.values())
            .find(|row| *row.name == *name);
        let kept = set.generation == set.observed_generation && set.update_revision.as_deref() == Some(name);
        let last = self.world.revisions.iter().max_by_key(|row| (row.number, row.created, &row.name));
        let rewritten = last.is_some_and(|row| *row.name == *name);
        kept || rewritten || stored.is_none_or(|row| row.data == self.world.spec.patch)
    }

    /// The current revision, where the status names a stored one.
    fn current(&self) -> Option<&str> {
        let named = self.world.set.current_revision.as_deref()?;
        self.world.revisions.iter().any(|row| *row.name == *named).then_some(named)
    }

    /// The claims that a pod of this ordinal needs, with what is there.
    fn claims(&self, ordinal: u64) -> Vec<(String, Option<&ClaimRow>)> {
        let templates = self.world.spec.claim_templates.iter().zip(&self.world.claims);
        let claims = templates.map(|(template, claims)| {
            let name = format!("{}-{}-{ordinal}", template.name, self.world.set.name);
            let there = u32::try_from(ordinal).ok().and_then(|ordinal| claims.get(&ordinal));
            (name, there.map(|claim| &**claim))
        });
        claims.collect()
    }
}

fn tasks(decided: &Decision) -> impl Iterator<Item = Task> {
    work(decided).into_iter().flatten()
}

/// Steps have something in them, an object is written once, adoptions come alone, and a plan has an end.
fn orderly(view: &View<'_>, decided: &Decision) {
    let mut objects = BTreeSet::new();
    for action in decided.plan.writes() {
        assert!(objects.insert(action.object()), "{:?} is written twice in one plan", action.object());
        assert_eq!(action.object().namespace, view.world.set.namespace);
    }
    assert!(decided.plan.steps.iter().all(|step| !step.writes.is_empty()), "an empty step");
    if !decided.plan.asks.is_empty() {
        assert_eq!(objects.len(), 0, "nothing is written before the question is answered");
        assert_eq!(view.world.memory.presence, None, "nothing is asked twice");
    }
    let claims = |purpose: &Purpose| {
        matches!(purpose, Purpose::AdoptPod | Purpose::ReleasePod | Purpose::AdoptRevision)
    };
    let claiming = tasks(decided).filter(|task| claims(&task.purpose)).count();
    assert!(claiming == 0 || claiming == objects.len(), "adoption and release come alone");
    if let Some(wake_at) = decided.plan.wake_at {
        assert!(wake_at > view.now, "a wake-up lies in the future");
    }
    // L5
    let ordinals: BTreeSet<u64> =
        view.members().filter_map(|pod| view.ordinal(&pod.name)).chain(view.first()..view.end()).collect();
    let each = 1 + view.world.spec.claim_templates.len();
    let most = ordinals.len() * each
        + view.world.orphans.len()
        + view.world.pods.len()
        + view.world.revisions.len()
        + WRITES_BESIDES;
    assert!(objects.len() <= most, "L5: {} writes", objects.len());
}

/// S17: the same view in another order gives the same plan.
fn deterministic(view: &View<'_>, decided: &Decision) {
    let mut other = view.world.clone();
    other.pods.reverse();
    other.orphans.reverse();
    other.revisions.reverse();
    let again = plan(&other, view.now).unwrap();
    let sorted = |plan: &Decision| {
        let mut plan = plan.clone();
        for (step, purposes) in plan.plan.steps.iter_mut().zip(&mut plan.purposes) {
            let mut tasks: Vec<_> = step.writes.drain(..).zip(purposes.drain(..)).collect();
            tasks.sort_by(|left, right| left.0.object().cmp(right.0.object()));
            (step.writes, *purposes) = tasks.into_iter().unzip();
        }
        plan
    };
    assert_eq!(sorted(&again), sorted(decided), "S17: the order of rows does not matter");
}

/// Rule A, S11, S12: every write is for an object of the set, at the version that was looked at.
fn guarded(view: &View<'_>, decided: &Decision) {
    let World { set, pods, orphans, revisions, .. } = view.world;
    for Task { action, purpose } in tasks(decided).chain(trim(decided).into_iter().flatten()) {
        let (name, precondition) = (&action.object().name, action.precondition());
        let version = precondition.resource_version.as_deref();
        let adopts = matches!(purpose, Purpose::AdoptPod | Purpose::AdoptRevision);
        if set.deleting {
            assert_eq!(
                action.object().kind,
                Kind::Revision,
                "S12: a set that goes has no pod or claim written"
            );
        }
        if adopts {
            assert_eq!(view.world.memory.presence, Some(Presence::Alive), "S11: adoption after a look");
        }
        if let Verb::Create { .. } = action.verb() {
            assert!(precondition.uid.is_empty() && version.is_none());
            continue;
        }
        let (uid, found, owner) = match action.object().kind {
            Kind::Pod => {
                let rows = pods.iter().chain(orphans).find(|pod| pod.name == *name);
                let row = rows.unwrap_or_else(|| panic!("S11: {name} is not known"));
                (&row.uid, &row.resource_version, (!row.owner.is_empty()).then(|| Arc::clone(&row.owner)))
            }
            Kind::Revision => {
                let row = revisions.iter().find(|row| row.name == *name).expect("S11: a known revision");
                (&row.uid, &row.resource_version, row.owner.clone())
            }
            Kind::Claim => {
                let mut rows = view.world.claims.iter().flat_map(BTreeMap::values);
                let row = rows.find(|row| row.name == *name).expect("S11: a known claim");
                (&row.uid, &row.resource_version, Some(Arc::clone(&set.uid)))
            }
            other => panic!("S11: {other:?} is not written by tasks"),
        };
        assert_eq!(precondition.uid, *uid, "{name} is the one that was looked at");
        assert_eq!(version, Some(&**found), "{name} is as it was looked at");
        let expected = (!adopts).then(|| Arc::clone(&set.uid));
        assert_eq!(owner, expected, "S11: {name} is the set's, or nobody's and adopted");
    }
    if let Some(status) = decided.status() {
        assert_eq!(status.precondition().uid, (*set.uid).into());
        assert_eq!(status.precondition().resource_version.as_ref(), Some(&set.resource_version));
    }
}

/// S1, S2, S3, S6, S9: where pods are created, from what, and when.
fn creations(view: &View<'_>, decided: &Decision) {
    let spec = &view.world.spec;
    let mut created_claims = BTreeSet::new();
    let mut count = 0;
    for step in &work(decided) {
        for task in step {
            let Verb::Create { body, .. } = task.action.verb() else { continue };
            let name = &task.action.object().name;
            if task.action.object().kind != Kind::Pod {
                continue;
            }
            count += 1;
            let ordinal = view.ordinal(name).expect("S1: a canonical name");
            assert!(view.in_range(name), "S2: {name} is asked for");
            // An orphan that is on its way out is found by the refusal, as upstream does: nobody is woken when it is gone.
            let occupied = view.world.pods.iter().any(|pod| pod.name == *name);
            assert!(!occupied, "S1: {name} exists");
            if view.ordered() {
                for below in view.first()..ordinal {
                    let healthy = view.slot(below).is_some_and(|pod| view.healthy(pod));
                    assert!(healthy, "S3: {name} is created although {below} is not healthy");
                }
            }
            let revision = body["metadata"]["labels"][keys::CONTROLLER_REVISION].as_str().unwrap();
            built_from(view, ordinal, revision);
            for (claim, there) in view.claims(ordinal) {
                let ours = there.is_some_and(|claim| !claim.terminating && !stale(view, claim, ordinal));
                assert!(ours || created_claims.contains(&*claim), "S9: {name} is created without {claim}");
            }
        }
        let claims = step.iter().filter(|task| matches!(task.purpose, Purpose::CreateClaim { .. }));
        created_claims.extend(claims.map(|task| &*task.action.object().name));
    }
    assert!(!view.ordered() || count <= 1, "S3: {count} pods are created at once");
    let known: BTreeSet<_> = spec.claim_templates.iter().map(|template| &template.name).collect();
    assert_eq!(known.len(), spec.claim_templates.len(), "the fixtures have one template of each name");
}

/// S6 and the table of revisions for new pods.
fn built_from(view: &View<'_>, ordinal: u64, revision: &str) {
    let World { set, spec, .. } = view.world;
    let kept = match (spec.rolling, &set.strategy) {
        (Some(rolling), _) => rolling.partition,
        (None, _) if view.world.features.max_unavailable && !view.ordered() => 0,
        (None, Strategy::RollingUpdate { .. }) => {
            let of_current = |pod: &&PodRow| {
                !pod.terminating && view.in_range(&pod.name) && pod.revision.as_deref() == view.current()
            };
            // The status may still count what was deleted to be updated, and counts what is condemned.
            spec.counts.current.min(u32::try_from(view.members().filter(of_current).count()).unwrap())
        }
        _ => 0,
    };
    match view.current() {
        Some(current) if ordinal < view.first() + u64::from(kept) => {
            assert_eq!(revision, current, "S6: {ordinal} is built from the current revision");
        }
        _ => assert!(view.is_update(revision), "S6: {ordinal} is built from {revision}"),
    }
}

fn stale(view: &View<'_>, claim: &ClaimRow, ordinal: u64) -> bool {
    let pod = format!("{}-{ordinal}", view.world.set.name);
    let of_pod = claim.owners.iter().any(|owner| *owner.kind == *"Pod" && *owner.name == *pod);
    view.world.spec.retention.when_scaled == Keep::Delete && of_pod
}

/// S2, S4, S5, S6, S7, S8, S10: which pods go, and why.
fn deletions(view: &View<'_>, decided: &Decision) {
    let World { set, spec, features, .. } = view.world;
    let deleted: Vec<&PodRow> = tasks(decided)
        .filter(|task| task.action.object().kind == Kind::Pod && task.action.is_deletion())
        .map(|task| &**view.world.pods.iter().find(|pod| pod.name == task.action.object().name).unwrap())
        .collect();
    let repairs = spec.annotations.get(keys::REPLACE_BROKEN_PODS).is_some_and(|value| **value == *"true");
    let partition = spec.rolling.map_or(0, |rolling| rolling.partition);
    let (mut condemned, mut costly, mut outdated) = (Vec::new(), 0_u64, Vec::new());
    for pod in &deleted {
        let ordinal = view.ordinal(&pod.name).expect("S2: only pods with an ordinal go");
        assert!(!pod.terminating, "S5: {} is on its way out already", pod.name);
        let terminal = matches!(pod.phase, Phase::Failed | Phase::Succeeded);
        if !view.in_range(&pod.name) {
            condemned.push(ordinal);
        } else if !terminal {
            let broken = repairs && pod.defect().is_some();
            assert!(matches!(set.strategy, Strategy::RollingUpdate { .. }), "S8: {} goes", pod.name);
            assert!(broken || ordinal >= view.first() + u64::from(partition), "S6: {} is kept", pod.name);
            if !broken {
                let revision = pod.revision.as_deref().unwrap_or_default();
                let up_to_date = view.is_update(revision)
                    && view
                        .world
                        .revisions
                        .iter()
                        .any(|row| *row.name == *revision && row.data == spec.patch);
                assert!(!up_to_date, "{} is of the update revision", pod.name);
                outdated.push(ordinal);
            }
            costly += u64::from(view.available(pod));
        }
    }
    let unavailable = (view.first()..view.end())
        .filter(|slot| view.slot(*slot).is_none_or(|pod| pod.terminating || !view.available(pod)));
    let unavailable: Vec<u64> = unavailable.collect();
    let all_healthy =
        (view.first()..view.end()).all(|slot| view.slot(slot).is_some_and(|pod| view.healthy(pod)));
    if view.ordered() {
        let highest =
            view.members().filter(|pod| !view.in_range(&pod.name)).filter_map(|pod| view.ordinal(&pod.name));
        let highest = highest.max();
        assert!(
            condemned.len() <= 1 && condemned.first().copied().is_none_or(|one| Some(one) == highest),
            "S4"
        );
        assert!(condemned.is_empty() || all_healthy, "S4: {condemned:?} goes although a slot is not healthy");
        assert!(outdated.is_empty() || (all_healthy && highest.is_none()), "scaling comes before updating");
    }
    if features.max_unavailable {
        let budget = spec.rolling.and_then(|rolling| rolling.max_unavailable);
        let budget = u64::from(budget.map_or(1, |budget| budget.of(set.replicas)));
        let down = unavailable.len() as u64;
        assert!(costly == 0 || down + costly <= budget.max(down), "S7: {down} and {costly} of {budget}");
    } else {
        assert!(outdated.len() <= 1, "S7: one at a time");
        for ordinal in &outdated {
            assert!(
                unavailable.iter().all(|down| down <= ordinal),
                "S7: {ordinal} goes while one above is down"
            );
        }
    }
    for ordinal in condemned {
        retention_precedes(view, decided, ordinal);
    }
}

/// S10: the owners of a condemned pod's claims are right before it goes.
fn retention_precedes(view: &View<'_>, decided: &Decision, ordinal: u64) {
    let pod = format!("{}-{ordinal}", view.world.set.name);
    let deleted = |task: &Task| *task.action.object().name == *pod && task.action.is_deletion();
    let work = work(decided);
    let at = work.iter().position(|step| step.iter().any(deleted)).unwrap();
    for (name, claim) in view.claims(ordinal) {
        let Some(claim) = claim else { continue };
        let written = work.iter().take(at).any(|step| {
            step.iter().any(|task| {
                matches!(task.purpose, Purpose::OwnClaim { .. }) && *task.action.object().name == *name
            })
        });
        let foreign = claim.owners.iter().any(|owner| {
            owner.controller == Some(true) && *owner.uid != *view.world.set.uid && *owner.name != *pod
        });
        let by_set = claim.owners.iter().any(|owner| owner.uid == (*view.world.set.uid).into());
        let by_pod = claim.owners.iter().any(|owner| *owner.kind == *"Pod" && *owner.name == *pod);
        let stale = claim.owners.iter().any(|owner| {
            (*owner.name == *pod || *owner.name == *view.world.set.name)
                && ![&*view.world.set.uid, &*view.slot(ordinal).unwrap().uid].contains(&&*owner.uid)
        });
        let retention = view.world.spec.retention;
        let (scaled, deleted) =
            (retention.when_scaled == Keep::Delete, retention.when_deleted == Keep::Delete);
        let right = by_pod == scaled && by_set == (deleted && !scaled);
        assert!(written || right || foreign || stale, "S10: {pod} goes before {name} has its owners");
    }
}

/// S9, S10: claims are created for slots of the set, never deleted, and others' claims never get our reference.
fn claims(view: &View<'_>, decided: &Decision) {
    for Task { action, .. } in tasks(decided).filter(|task| task.action.object().kind == Kind::Claim) {
        let name = &action.object().name;
        let row = view.world.claims.iter().flat_map(BTreeMap::values).find(|claim| claim.name == *name);
        match action.verb() {
            Verb::Create { .. } => assert!(row.is_none(), "S9: {name} is there"),
            Verb::Merge { body, .. } => {
                let owners = body["metadata"]["ownerReferences"].as_array().unwrap();
                let gained = |owner: &&Value| {
                    let uid = owner["uid"].as_str().unwrap();
                    row.unwrap().owners.iter().all(|other| *other.uid != *uid)
                };
                let gained: Vec<_> = owners.iter().filter(gained).collect();
                let controlled = owners.iter().filter(|owner| owner["controller"] == true).count();
                assert!(controlled <= 1, "S10: {name} has one controller at most");
                for owner in gained {
                    assert!(owner["controller"] == true && owner["blockOwnerDeletion"] == true);
                }
            }
            other => panic!("S9: {other:?} for {name}"),
        }
    }
}

/// S13: the status is one that the server takes, and names revisions that exist.
fn status(view: &View<'_>, decided: &Decision) {
    let Some(status) = decided.status() else { return };
    let Verb::MergeStatus { body, .. } = status.verb() else { panic!("a status is merged: {status:?}") };
    let World { set, spec, revisions, .. } = view.world;
    assert_eq!(body.as_object().unwrap().len(), 1, "nothing but the status is written");
    let status = &body["status"];
    let count = |key: &str| status[key].as_u64().unwrap_or_else(|| panic!("S13: {key} of {status}"));
    let (replicas, ready) = (count("replicas"), count("readyReplicas"));
    assert!(count("availableReplicas") <= ready && ready <= replicas, "S13: {status}");
    assert!(count("currentReplicas") <= replicas && count("updatedReplicas") <= replicas, "S13: {status}");
    assert!(status["observedGeneration"].as_i64().unwrap() >= set.observed_generation, "S13");
    assert!(count("collisionCount") >= u64::from(spec.collisions.unwrap_or(0)), "S13");
    let known = revisions.iter().chain(view.world.memory.taken.values()).map(|row| &*row.name);
    let made: Vec<_> = tasks(decided).filter(|task| task.purpose == Purpose::CreateRevision).collect();
    let known: BTreeSet<_> = known.chain(made.iter().map(|task| &*task.action.object().name)).collect();
    for key in ["currentRevision", "updateRevision"] {
        let name = status[key].as_str().unwrap();
        assert!(known.contains(name), "S13: {key} {name} exists");
    }
    assert!(view.is_update(status["updateRevision"].as_str().unwrap()), "S13: {status}");
}

/// S14: nothing that is in use is trimmed, and a template that is known makes no new revision.
fn history(view: &View<'_>, decided: &Decision) {
    let World { set, spec, revisions, pods, .. } = view.world;
    let trimmed: Vec<_> = trim(decided).into_iter().flatten().collect();
    let selected = pods.iter().filter(|pod| set.selector.matches(|key| pod.label(key)));
    let used: BTreeSet<&str> =
        selected.filter_map(|pod| pod.revision.as_deref()).chain(view.current()).collect();
    for task in &trimmed {
        assert!(task.purpose == Purpose::TrimRevision && task.action.is_deletion());
        let name = &*task.action.object().name;
        let row = revisions.iter().find(|row| *row.name == *name).unwrap();
        let equal = revisions.iter().filter(|row| row.data == spec.patch);
        let latest = equal.max_by_key(|row| (row.number, row.created, &row.name));
        assert!(
            !used.contains(name) && latest.is_none_or(|latest| *latest.name != *name),
            "S14: {name} is in use"
        );
        let older = revisions.iter().filter(|other| {
            (other.number, other.created, &other.name) < (row.number, row.created, &row.name)
                && !used.contains(&*other.name)
        });
        for other in older {
            let goes = trimmed.iter().any(|task| task.action.object().name == other.name);
            assert!(goes || other.data == spec.patch, "S14: {name} goes before the older {}", other.name);
        }
    }
    let limit = usize::try_from(spec.history_limit);
    assert!(limit.is_ok() || trimmed.is_empty(), "S14: everything is kept");
    if let Ok(limit) = limit {
        let left = revisions.len() - trimmed.len();
        assert!(trimmed.is_empty() || left >= limit, "S14: {left} are left of {limit}");
    }
    for task in tasks(decided).filter(|task| task.purpose == Purpose::CreateRevision) {
        let known = revisions.iter().any(|row| row.data == spec.patch);
        assert!(!known, "S14: {} is made for a known template", task.action.object().name);
    }
}
