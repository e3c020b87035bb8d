//! Volumes, claims and storage classes.

use serde_json::{Map, Value, json};

use super::{Strategy, meta};
use crate::machinery::answer::Refusal;
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
    if claim.pointer("/spec/resources/requests/storage").is_none() {
        causes.push(Cause::required(format!("{at}.resources[storage]"), ""));
    }
    let class = text(claim, "/spec/storageClassName");
    if let Some(why) = meta::subdomain_problem(class).filter(|_| !class.is_empty()) {
        causes.push(Cause::invalid(format!("{at}.storageClassName"), &class.into(), &why));
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
            fields.remove("resources");
            fields.remove("volumeAttributesClassName");
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

    fn admit(&self, object: &mut Value, _: &State) -> Result<(), Refusal> {
        protect(object, VOLUME_PROTECTION);
        fill(object::child(object, "status"), "phase", "Pending");
        Ok(())
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        if object::list(object, "/spec/accessModes").is_empty() {
            causes.push(Cause::required("spec.accessModes", ""));
        }
        if object.pointer("/spec/capacity/storage").is_none() {
            causes.push(Cause::required("spec.capacity", ""));
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
        let missing = text(object, "/provisioner").is_empty();
        missing.then(|| Cause::required("provisioner", "")).into_iter().collect()
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let forbidden = |field: &str, what: &str| {
            (object.get(field) != before.get(field))
                .then(|| Cause::forbidden(field, &format!("updates to {what} are forbidden.")))
        };
        [("parameters", "parameters"), ("provisioner", "provisioner"), ("reclaimPolicy", "reclaimPolicy")]
            .into_iter()
            .filter_map(|(field, what)| forbidden(field, what))
            .chain(meta::immutable("volumeBindingMode", object, before))
            .collect()
    }
}
