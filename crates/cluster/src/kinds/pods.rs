//! Pods.

use serde_json::{Map, Value, json};

use super::{Kind, Strategy, meta, pod_rules, pod_spec};
use crate::machinery::answer::{self, About, Refusal};
use crate::machinery::object::{self, fill, text};
use crate::machinery::request::Query;
use crate::machinery::schema::Cause;
use crate::machinery::state::State;
use crate::machinery::store::Key;

/// Seconds that a pod has when neither it nor its deletion says.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// The labels of nodes that say where they are.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
/// Seconds that a pod stays on a node that does not answer.
const TOLERATED_SECONDS: i64 = 300;

pub(super) struct Pods;

impl Strategy for Pods {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        pod_spec::default(spec);
        fill(spec, "enableServiceLinks", true);
        for container in ["containers", "initContainers"] {
            for container in spec.get_mut(container).and_then(Value::as_array_mut).into_iter().flatten() {
                request_what_is_limited(object::child(container, "resources"));
            }
        }
    }

    fn admit(&self, object: &mut Value, state: &State) -> Result<(), Refusal> {
        let quality = object.get("spec").map_or("BestEffort", pod_spec::quality);
        let (namespace, name) = (object::namespace(object).to_owned(), object::name(object).to_owned());
        let spec = object::child(object, "spec");
        let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
        let account = if account.is_empty() { "default" } else { account }.to_owned();
        if state.object("", "serviceaccounts", &namespace, &account).is_none() {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            );
            return Err(Refusal::forbidden(About { group: "", name: "pods" }, &name, &why, None));
        }
        spec.insert("serviceAccountName".into(), account.clone().into());
        spec.insert("serviceAccount".into(), account.into());
        let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
        let priority = match state.object("scheduling.k8s.io", "priorityclasses", "", class) {
            Some(class) => object::number(class, "/value").unwrap_or_default(),
            None if class.is_empty() => 0,
            None => {
                let why = format!("no PriorityClass with name {class} was found");
                return Err(Refusal::forbidden(About { group: "", name: "pods" }, &name, &why, None));
            }
        };
        if let Some(said) = spec.get("priority").filter(|said| said.as_i64() != Some(priority)) {
            let why = format!(
                "the integer value of priority ({said}) must not be provided in pod spec; priority admission controller \
                 computed {priority} from the given PriorityClass name"
            );
            return Err(Refusal::forbidden(About { group: "", name: "pods" }, &name, &why, None));
        }
        fill(spec, "priority", priority);
        fill(spec, "preemptionPolicy", "PreemptLowerPriority");
        tolerate(spec);
        let status = object::child(object, "status");
        fill(status, "phase", "Pending");
        fill(status, "qosClass", quality);
        Ok(())
    }

    fn status_resets(&self) -> &'static [&'static str] {
        &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        let metadata = object::metadata(object);
        object::keep(metadata, old.get("metadata").unwrap_or(&Value::Null), "ownerReferences");
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        pod_rules::validate(spec, "spec", &[])
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let name = object::name(object);
        if meta::subdomain_problem(name).is_some() || meta::label_problem(name).is_none() {
            return Vec::new();
        }
        vec![
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [must not contain dots]"
                .to_owned(),
        ]
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        // What every pod tolerates cannot be taken from it.
        let spec = object::child(object, "spec");
        if object::list(old, "/spec/tolerations").iter().any(is_given) {
            tolerate(spec);
        }
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let mut causes = self.validate(object);
        let count = |pod: &Value, field: &str| object::list(pod, &format!("/spec/{field}")).len();
        for (field, what) in [("containers", "containers"), ("initContainers", "initContainers")] {
            if count(object, field) != count(before, field) {
                let why = format!("pod updates may not add or remove {what}");
                causes.push(Cause::forbidden(format!("spec.{field}"), &why));
                return causes;
            }
        }
        // Images are looked at a second time.
        let again: Vec<Cause> =
            causes.iter().filter(|cause| cause.field.ends_with("].image")).cloned().collect();
        causes.extend(again);
        let deadline = |pod: &Value| object::number(pod, "/spec/activeDeadlineSeconds");
        if let (Some(now), Some(then)) = (deadline(object), deadline(before))
            && now > then
        {
            let why = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &now.into(), why));
        }
        if frozen(object) != frozen(before) {
            let why = "pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                       to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                       was previously negative)";
            causes.push(Cause::forbidden("spec", why));
        }
        causes
    }

    fn grace(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        // What no node has taken on, and what has ended, has nothing to finish.
        if text(object, "/spec/nodeName").is_empty()
            || matches!(text(object, "/status/phase"), "Failed" | "Succeeded")
        {
            return Some(0);
        }
        let own = object::number(object, "/spec/terminationGracePeriodSeconds");
        let grace = asked.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
        Some(if grace < 0 { 1 } else { grace })
    }
}

fn request_what_is_limited(resources: &mut Map<String, Value>) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = object::entry(resources, "requests");
    for (what, amount) in limits {
        fill(requests, &what, amount);
    }
}

/// Whether every pod is given a toleration.
fn is_given(toleration: &Value) -> bool {
    GIVEN_TOLERATIONS.contains(&text(toleration, "/key"))
}

const GIVEN_TOLERATIONS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

fn tolerate(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in GIVEN_TOLERATIONS {
        let tolerates = |toleration: &Value| {
            let effect = text(toleration, "/effect");
            let said = text(toleration, "/key");
            (said == key || said.is_empty() && text(toleration, "/operator") == "Exists")
                && (effect.is_empty() || effect == "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

/// The spec without what may change.
fn frozen(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    let fields = object::fields(&mut spec);
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
        fields.remove(field);
    }
    for field in ["containers", "initContainers"] {
        for container in fields.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            object::fields(container).remove("image");
        }
    }
    spec
}

/// Gives a pod to a node.
pub(super) fn bind(
    state: &mut State,
    kind: &Kind,
    key: &Key,
    binding: &Value,
    query: &Query,
) -> Result<Value, Refusal> {
    let dry_run = query.dry_run("CreateOptions")?;
    assign(state, kind, key, binding, dry_run)?;
    Ok(answer::created())
}

/// As a binding asks for it, from whomever that comes.
pub(crate) fn assign(
    state: &mut State,
    kind: &Kind,
    key: &Key,
    binding: &Value,
    dry_run: bool,
) -> Result<(), Refusal> {
    let name = &key.name;
    let row = state.row("", &kind.plural).ok_or_else(Refusal::no_such_resource)?;
    let Some(pod) = state.store.get(key).cloned() else {
        return Err(Refusal::not_found(kind.resource(), name));
    };
    let (node, target) = (text(binding, "/target/name"), text(binding, "/target/kind"));
    if !matches!(target, "" | "Node") {
        let why = Cause::unsupported("target.kind", &target.into(), &["Node", "<empty>"]);
        return Err(Refusal::internal(format!("{}: {}", why.field, why.message)));
    }
    if node.is_empty() {
        return Err(Refusal::internal("target.name: Required value"));
    }
    let uid = text(binding, "/metadata/uid");
    if !uid.is_empty() && uid != object::uid(&pod) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            key.namespace,
            object::uid(&pod)
        );
        return Err(Refusal::conflict(kind.resource(), name, &why));
    }
    let about = About { group: "", name: "pods/binding" };
    if object::is_deleting(&pod) {
        let why = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(Refusal::conflict(about, name, &why));
    }
    let bound = text(&pod, "/spec/nodeName");
    if !bound.is_empty() {
        let why = format!("pod {name} is already assigned to node \"{bound}\"");
        return Err(Refusal::conflict(about, name, &why));
    }
    if !dry_run {
        let now = state.now();
        let place = topology(state, node);
        crate::machinery::write::amend(state, &row, key, |pod| {
            object::child(pod, "spec").insert("nodeName".into(), node.into());
            let annotations = binding.pointer("/metadata/annotations").and_then(Value::as_object).cloned();
            if let Some(mut annotations) = annotations.filter(|annotations| !annotations.is_empty()) {
                object::entry(object::metadata(pod), "annotations").append(&mut annotations);
            }
            if !place.is_empty() {
                object::entry(object::metadata(pod), "labels").extend(place);
            }
            let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null });
            set_condition(pod, scheduled, &now);
        });
    }
    Ok(())
}

/// The labels of a node that its pods get, so that they know where they are.
fn topology(state: &State, node: &str) -> Map<String, Value> {
    let labels = state.object("", "nodes", "", node).and_then(|node| node.pointer("/metadata/labels"));
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let told = labels.filter(|(key, _)| TOPOLOGY.contains(&key.as_str()));
    told.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Sets a condition of an object; it keeps its time where its status stays.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value, now: &str) {
    let conditions = object::child(object, "status").entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let kind = text(&condition, "/type").to_owned();
    let found = conditions.iter_mut().find(|shown| text(shown, "/type") == kind);
    let since = found
        .as_ref()
        .filter(|shown| text(shown, "/status") == text(&condition, "/status"))
        .map_or(now, |shown| text(shown, "/lastTransitionTime"))
        .to_owned();
    object::fields(&mut condition).insert("lastTransitionTime".into(), since.into());
    match found {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}
