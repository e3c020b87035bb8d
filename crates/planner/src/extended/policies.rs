//! The ScalingPolicies of an object: one for each of its sets, where pods that leave or join have to be prepared. From its creation
//! on the ScalingPolicy is the one writer of the replicas of its set, and this controller writes the number of the ScalingPolicy.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::extended::{DeletionPolicy, ExtendedStatefulSetSpec};
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{
    self as api, PodRecord, ScaleDown, ScaleUp, ScalingPolicySpec, TargetRef,
};

use super::World;
use super::fault::Fault;
use super::moves::{Moves, Scene};
use super::render::{owner_reference, set_name};
use super::wait::Wait;
use crate::health::Member;
use crate::ordinal;
use crate::plan::{Action, Ask, Kind, Note, Object, Precondition, Subject, When};
use crate::reason::Severity;
use crate::scaling::policy::{MAX_REPLICAS, Policy};
use crate::scaling::row::{ParsedSpec, ScalingRow};
use crate::set::SetRow;

/// How pods leave and join.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    down: ScaleDown,
    up: ScaleUp,
    /// Whether pods that leave are prepared.
    pub prepares: bool,
}

impl Rules {
    /// The rules of a spec; `None` where a number is all that it takes.
    pub fn of(spec: &ExtendedStatefulSetSpec) -> Result<Option<Self>, Fault> {
        let (down, up) =
            (spec.scale_down.clone().unwrap_or_default(), spec.scale_up.clone().unwrap_or_default());
        // Whatever else is asked for of pods that leave is more than a number.
        let plain = ScaleDown { max_concurrent: down.max_concurrent, ..ScaleDown::default() };
        let rules = Self { prepares: down != plain, down, up };
        Policy::parse(&rules.spec("any", 0)).map_err(|faults| {
            Fault::BadScaling(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let is_drained = spec.deletion_policy == DeletionPolicy::Drain;
        let is_needed = rules.prepares || rules.up != ScaleUp::default() || is_drained;
        Ok(is_needed.then_some(rules))
    }

    /// The spec of the ScalingPolicy of a set.
    pub fn spec(&self, set: &str, replicas: u32) -> ScalingPolicySpec {
        let target_ref = TargetRef {
            api_version: TargetRef::API_VERSION.to_owned(),
            kind: TargetRef::KIND.to_owned(),
            name: set.to_owned(),
        };
        ScalingPolicySpec {
            target_ref,
            replicas: i32::try_from(replicas.min(MAX_REPLICAS)).ok(),
            paused: false,
            scale_down: self.down.clone(),
            scale_up: self.up.clone(),
            volume_claims: Vec::new(),
            deletion_policy: api::DeletionPolicy::Release,
        }
    }
}

/// Who has the ScalingPolicy with the name of a set.
#[derive(Clone, Copy, Debug)]
enum Holder<'w> {
    /// There is none.
    Nobody,
    /// The object.
    Own(&'w Arc<ScalingRow>),
    /// An object of this name has left it behind.
    LeftBehind(&'w Arc<ScalingRow>),
    /// Somebody else.
    Foreign(&'w Arc<ScalingRow>),
}

/// The ScalingPolicies of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policies<'w> {
    pub(super) world: &'w World,
    /// `None` where there are to be none, and where that is not known.
    pub(super) rules: Option<&'w Rules>,
}

impl<'w> Policies<'w> {
    fn holder(self, set: &str) -> Holder<'w> {
        let Some(policy) = self.world.policies.iter().find(|policy| *policy.name == *set) else {
            return Holder::Nobody;
        };
        let row = &self.world.row;
        let created_for = policy.created_for.as_ref();
        let is_left = |(group, name): &(_, Arc<str>)| *group == row.group && *name == row.name;
        match &*policy.controller {
            controller if *controller == *row.uid => Holder::Own(policy),
            "" if created_for.is_some_and(is_left) => Holder::LeftBehind(policy),
            _ => Holder::Foreign(policy),
        }
    }

    /// The ScalingPolicy of a set, where the object has one.
    pub(super) fn own(self, set: &str) -> Option<&'w Arc<ScalingRow>> {
        match self.holder(set) {
            Holder::Own(policy) => Some(policy),
            _ => None,
        }
    }

    /// Whether nobody but this controller writes the replicas of a set.
    pub(super) fn writes_replicas(self, set: &SetRow) -> bool {
        self.rules.is_none() && self.own(&set.name).is_none()
    }

    /// Whether a set has no pods, and its ScalingPolicy has nothing left to do for those that it had.
    pub(super) fn is_emptied(self, member: &Member) -> bool {
        let is_busy = self.own(&member.set.name).is_some_and(|policy| !policy.status.leaving.is_empty());
        member.set.replicas == 0 && member.pods.is_empty() && !is_busy
    }

    /// Asks for so many pods of a set, and says what the ScalingPolicy waits for. The last word of a pass counts.
    pub(super) fn scale(self, set: &SetRow, replicas: u32, moves: &mut Moves) -> Option<Wait> {
        let object = Object {
            kind: Kind::ScalingPolicy,
            namespace: Arc::clone(&set.namespace),
            name: (*set.name).into(),
        };
        moves.writes.retain(|write| *write.object() != object);
        let says =
            |message: String| Some(Wait::Scaling { policy: Arc::clone(&set.name), message: message.into() });
        match self.holder(&set.name) {
            Holder::Foreign(policy) => Some(Wait::PolicyTaken { policy: Arc::clone(&policy.name) }),
            Holder::Nobody => {
                let rules = self.rules?;
                let body = self.body(set, &rules.spec(&set.name, replicas));
                let message = format!("Created ScalingPolicy {}.", set.name);
                moves.notes.push(self.note("PolicyCreated", message, object.clone()));
                let owner = &self.world.row.uid;
                moves.writes.push(Action::create(object, owner, body, keys::MANAGER_EXTENDED));
                says("It is being created.".to_owned())
            }
            Holder::LeftBehind(policy) => {
                self.adopt(policy, moves);
                says("It is being adopted.".to_owned())
            }
            Holder::Own(policy) if policy.deleting => says("It is being deleted.".to_owned()),
            Holder::Own(policy) => {
                if self.bring(policy, replicas, moves) {
                    return says(format!("It is asked for {replicas} replicas."));
                }
                waits_for(policy)
            }
        }
    }

    fn note(self, reason: &'static str, message: String, object: Object) -> Note {
        let on = vec![Subject::from(&*self.world.row)];
        Note { on, severity: Severity::Normal, reason, message, when: When::Written(object) }
    }

    fn body(self, set: &SetRow, spec: &ScalingPolicySpec) -> Value {
        let row = &self.world.row;
        let labels = json!({
            keys::MANAGED_BY: keys::MANAGED_BY_STS_PLUS,
            row.group.key(keys::EXTENDED_NAME): row.name,
        });
        json!({
            "metadata": { "name": set.name, "labels": labels, "ownerReferences": [owner_reference(row)] },
            "spec": spec,
        })
    }

    /// Makes the spec of a ScalingPolicy what it shall be; whether that takes a write.
    fn bring(self, policy: &Arc<ScalingRow>, replicas: u32, moves: &mut Moves) -> bool {
        let number = policy.spec.policy.as_ref().ok().and_then(|policy| policy.replicas);
        let is_number = number == Some(replicas.min(MAX_REPLICAS));
        let wanted = self.rules.map(|rules| rules.spec(&policy.name, replicas));
        let is_rest = wanted.as_ref().is_none_or(|wanted| are_alike(&policy.spec, &ParsedSpec::of(wanted)));
        if is_rest {
            let body = json!({ "spec": { "replicas": replicas.min(MAX_REPLICAS) } });
            moves.writes.extend((!is_number).then(|| self.merge(policy, &policy.resource_version, &body)));
            return !is_number;
        }
        let (Some(live), Some(wanted)) = (self.live(policy, moves), wanted) else { return true };
        let wanted = serde_json::to_value(&wanted).unwrap_or_default();
        let spec = difference(live.get("spec").unwrap_or(&Value::Null), &wanted);
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        moves.writes.push(self.merge(policy, version, &json!({ "spec": spec })));
        true
    }

    fn adopt(self, policy: &Arc<ScalingRow>, moves: &mut Moves) {
        let Some(live) = self.live(policy, moves) else { return };
        let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = owners.cloned().unwrap_or_default();
        owners.push(owner_reference(&self.world.row));
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let body = json!({ "metadata": { "ownerReferences": owners } });
        moves.writes.push(self.merge(policy, version, &body));
    }

    fn live(self, policy: &ScalingRow, moves: &mut Moves) -> Option<&'w Value> {
        let object = policy.object();
        let read = self.world.reads.get(&object);
        if read.is_none() {
            moves.asks.push(Ask::Read(object));
        }
        let uid = |live: &&Value| live.pointer("/metadata/uid").and_then(Value::as_str) == Some(&*policy.uid);
        read.and_then(Option::as_ref).filter(uid)
    }

    fn merge(self, policy: &ScalingRow, version: &str, body: &Value) -> Action {
        let precondition = Precondition::exactly(&policy.uid, version);
        let written = (body.clone(), keys::MANAGER_EXTENDED);
        Action::merge(policy.object(), &self.world.row.uid, precondition, written)
    }
}

/// Whether two specs ask for the same, but for the number.
fn are_alike(one: &ParsedSpec, other: &ParsedSpec) -> bool {
    let without = |policy: &Policy| Policy { replicas: None, ..policy.clone() };
    let alike = match (&one.policy, &other.policy) {
        (Ok(one), Ok(other)) => without(one) == without(other),
        _ => false,
    };
    alike && one.target == other.target && one.deletion == other.deletion
}

/// What turns a value into another one by a merge: what is too much becomes null.
fn difference(present: &Value, wanted: &Value) -> Value {
    let (Value::Object(present), Value::Object(wanted)) = (present, wanted) else { return wanted.clone() };
    let surplus = present.keys().filter(|key| !wanted.contains_key(*key));
    let mut changes: Map<String, Value> = surplus.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in wanted {
        match present.get(key) {
            Some(known) if known == value => {}
            Some(known) => drop(changes.insert(key.clone(), difference(known, value))),
            None => drop(changes.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(changes)
}

/// What a ScalingPolicy waits for, by its own words; `None` where that is not about its number.
fn waits_for(policy: &ScalingRow) -> Option<Wait> {
    let status = &policy.status;
    let name = Arc::clone(&policy.name);
    let of = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
    let ready = of(conditions::READY).filter(|_| status.observed_generation == Some(policy.generation));
    let Some(ready) = ready else {
        return Some(Wait::Scaling {
            policy: name,
            message: "The controller scaling has not observed it.".into(),
        });
    };
    if ready.status == Truth::True || ready.reason == "PodsNotReady" {
        return None;
    }
    let message: Box<str> = ready.message.as_str().into();
    let is_stalled = of(conditions::STALLED).is_some_and(|stalled| stalled.status == Truth::True);
    Some(if is_stalled {
        Wait::ScalingBlocked { policy: name, reason: ready.reason.as_str().into(), message }
    } else {
        Wait::Scaling { policy: name, message }
    })
}

/// The pods that leave, in the order of their names.
pub(super) fn leaving(world: &World) -> Vec<PodRecord> {
    let own = world.policies.iter().filter(|policy| policy.controller == world.row.uid);
    let mut leaving: Vec<_> = own.flat_map(|policy| policy.status.leaving.iter().cloned()).collect();
    leaving.sort_by(|one, other| ordinal::natural(&one.pod_name, &other.pod_name));
    leaving
}

/// Deletes the ScalingPolicies that are no longer needed. Their sets keep the pods that they have.
pub(super) fn clear(scene: &Scene<'_>, moves: &mut Moves) {
    let (world, spec) = (scene.world, scene.spec);
    let is_needed = |policy: &ScalingRow| {
        let mut sets = world.children.iter().filter(|member| !member.set.deleting);
        let names = scene.layout.zones.iter().map(|zone| set_name(&world.row, spec, zone, scene.number));
        spec.rules.is_some()
            && policy.target() == Some(&*policy.name)
            && (sets.any(|member| member.set.name == policy.name)
                || names.into_iter().any(|name| *name == *policy.name))
    };
    let surplus = world.policies.iter().filter(|policy| !policy.deleting && !is_needed(policy));
    for policy in surplus {
        if let Some(deletion) = Action::delete_policy(&world.row, policy) {
            moves.writes.push(deletion);
        }
    }
}
