//! Volumes, claims and storage classes.

use serde_json::{Map, Value, json};

use super::{Strategy, meta, names, selectors};
use crate::machinery::answer::Refusal;
use crate::machinery::label_rules;
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;
use crate::machinery::state::State;
use crate::volumes;

/// What keeps a claim while a pod uses it.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// What keeps a volume while a claim uses it.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub(super) struct Claims;
pub(super) struct Volumes;
pub(super) struct Classes;

/// Fills in what a claim, or the template of one, leaves out.
pub(super) fn default(claim: &mut Map<String, Value>) {
    fill(object::entry(claim, "spec"), "volumeMode", "Filesystem");
    fill(object::entry(claim, "status"), "phase", "Pending");
}

/// What is wrong with the spec of a claim; `at` is where it stands.
pub(super) fn spec_causes(claim: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let modes = object::list(claim, "/spec/accessModes");
    if modes.is_empty() {
        causes.push(Cause::required(format!("{at}.accessModes"), "at least 1 access mode is required"));
    }
    let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().filter(|mode| !supported.iter().any(|known| *mode == known)) {
        causes.push(Cause::unsupported(format!("{at}.accessModes"), mode, &supported));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        causes.push(Cause::forbidden(format!("{at}.accessModes"), why));
    }
    if let Some(selector) = claim.pointer("/spec/selector").filter(|selector| selector.is_object()) {
        causes.extend(selectors::causes(selector, &format!("{at}.selector")));
    }
    match claim.pointer("/spec/resources/requests/storage") {
        None => causes.push(Cause::required(format!("{at}.resources[storage]"), "")),
        Some(said) if names::amount(said).is_none_or(|amount| amount <= 0) => {
            causes.push(Cause::invalid(
                format!("{at}.resources[storage]"),
                said,
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
    let class = text(claim, "/spec/storageClassName");
    if let Some(why) = meta::subdomain_problem(class).filter(|_| !class.is_empty()) {
        causes.push(Cause::invalid(format!("{at}.storageClassName"), &class.into(), &why));
    }
    let (mode, known) = (text(claim, "/spec/volumeMode"), ["Block", "Filesystem"]);
    if !mode.is_empty() && !known.contains(&mode) {
        causes.push(Cause::unsupported(format!("{at}.volumeMode"), &mode.into(), &known));
    }
    causes
}

fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut().filter(|all| !all.iter().any(|one| one == finalizer))
    {
        finalizers.push(finalizer.into());
    }
}

impl Strategy for Claims {
    fn default(&self, object: &mut Value) {
        fill(object::child(object, "spec"), "volumeMode", "Filesystem");
    }

    fn admit(&self, object: &mut Value, state: &State) -> Result<(), Refusal> {
        protect(object, CLAIM_PROTECTION);
        if object.pointer("/spec/storageClassName").is_none() {
            let classes = state.objects("storage.k8s.io", "storageclasses", None);
            if let Some(class) = volumes::default_class(&classes) {
                let name = object::name(class).to_owned();
                object::child(object, "spec").insert("storageClassName".into(), name.into());
            }
        }
        fill(object::child(object, "status"), "phase", "Pending");
        Ok(())
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        spec_causes(object, "spec")
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let frozen = |claim: &Value| {
            let mut spec = claim.get("spec").cloned().unwrap_or_default();
            let fields = object::fields(&mut spec);
            if text(before, "/status/phase") == "Bound" {
                fields.remove("resources");
                fields.remove("volumeAttributesClassName");
            }
            if text(before, "/spec/volumeName").is_empty() {
                fields.remove("volumeName");
            }
            spec
        };
        let mut causes = self.validate(object);
        if frozen(object) != frozen(before) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                       bound claims";
            causes.push(Cause::forbidden("spec", why));
        }
        let asked = |claim: &Value| claim.pointer("/spec/resources/requests/storage").and_then(names::amount);
        let capacity = before.pointer("/status/capacity/storage").and_then(names::amount);
        if text(before, "/status/phase") == "Bound"
            && asked(object) < asked(before)
            && asked(object) < capacity
        {
            let why = "field can not be less than status.capacity";
            causes.push(Cause::forbidden("spec.resources.requests.storage", why));
        }
        causes
    }
}

impl Strategy for Volumes {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if let Some(path) = spec.get_mut("hostPath").filter(|path| path.is_object()) {
            fill(object::fields(path), "type", "");
        }
    }

    fn admit(&self, object: &mut Value, state: &State) -> Result<(), Refusal> {
        protect(object, VOLUME_PROTECTION);
        let now = state.now();
        let status = object::child(object, "status");
        fill(status, "phase", "Pending");
        status.insert("lastPhaseTransitionTime".into(), now.into());
        Ok(())
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        if object::list(object, "/spec/accessModes").is_empty() {
            causes.push(Cause::required("spec.accessModes", ""));
        }
        if object.pointer("/spec/capacity/storage").is_none() {
            causes.push(Cause::required("spec.capacity", ""));
            let shown = object.pointer("/spec/capacity").unwrap_or(&Value::Null);
            causes.push(Cause::unsupported("spec.capacity", shown, &["storage"]));
        }
        let known =
            ["hostPath", "local", "nfs", "csi", "iscsi", "fc", "rbd", "cephfs", "awsElasticBlockStore"];
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if !known.iter().any(|source| spec.get(source).is_some_and(Value::is_object)) {
            causes.push(Cause::required("spec", "must specify a volume type"));
        }
        causes
    }
}

impl Strategy for Classes {
    fn default(&self, object: &mut Value) {
        let fields = object::fields(object);
        fill(fields, "reclaimPolicy", "Delete");
        fill(fields, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let provisioner = text(object, "/provisioner");
        if provisioner.is_empty() {
            return vec![Cause::required("provisioner", "")];
        }
        let lower = provisioner.to_lowercase();
        let problems = label_rules::key_problems(&lower, "a qualified name");
        let shown = Value::from(lower);
        let mut causes: Vec<Cause> =
            problems.iter().map(|why| Cause::invalid("provisioner", &shown, why)).collect();
        causes.extend(meta::one_of(object, "/reclaimPolicy", &["Delete", "Retain"]));
        causes.extend(meta::one_of(object, "/volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]));
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
            .into_iter()
            .filter_map(|field| meta::immutable(field, object, before))
            .collect()
    }
}
