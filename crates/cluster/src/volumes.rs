//! Volumes and the claims on them: what a new volume looks like, and what is true of a pair of them. The hollow nodes
//! use it on servers where nobody else binds claims, the embedded cluster's own binder uses all of it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::machinery::object::{self, text};
use crate::machinery::stored::Stored;

/// The provisioner that the volumes of the hollow nodes name.
pub(crate) const PROVISIONER: &str = "hollow.sts.plus/volumes";
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of the class that claims without one get.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// A volume that is made for a claim.
pub(crate) struct NewVolume<'a> {
    pub(crate) uid: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) claim: &'a str,
    pub(crate) storage: Option<&'a str>,
    pub(crate) access_modes: Value,
    pub(crate) volume_mode: Option<&'a str>,
    pub(crate) class: Option<&'a str>,
    pub(crate) provisioner: &'a str,
    pub(crate) reclaim: &'a str,
}

/// The name of the volume that is made for a claim.
pub(crate) fn name_for(uid: &str) -> String {
    format!("pvc-{uid}")
}

impl NewVolume<'_> {
    pub(crate) fn object(self) -> Value {
        let name = name_for(self.uid);
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": name, "annotations": { PROVISIONED_BY: self.provisioner } },
            "spec": {
                "capacity": { "storage": self.storage },
                "accessModes": self.access_modes,
                "volumeMode": self.volume_mode,
                "storageClassName": self.class,
                "persistentVolumeReclaimPolicy": self.reclaim,
                "claimRef": claim_ref(self.namespace, self.claim, self.uid),
                // Nothing ever opens it.
                "hostPath": { "path": format!("/hollow/{name}") },
            },
        })
    }
}

/// How a volume names its claim.
pub(crate) fn claim_ref(namespace: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": namespace, "name": name, "uid": uid,
    })
}

/// What becomes of a volume whose claim is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Delete,
    Keep,
}

impl Fate {
    pub(crate) fn of(policy: &str) -> Self {
        if policy == "Delete" { Fate::Delete } else { Fate::Keep }
    }
}

/// The class of claims that name none: the newest that is marked so, the first by name among equals.
pub(crate) fn default_class(classes: &[Arc<Stored>]) -> Option<&Arc<Stored>> {
    let is_default = |class: &&Arc<Stored>| {
        let annotations = class.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(DEFAULT_CLASS)).and_then(Value::as_str) == Some("true")
    };
    let age = |class: &&Arc<Stored>| {
        (
            text(class, "/metadata/creationTimestamp").to_owned(),
            std::cmp::Reverse(object::name(class).to_owned()),
        )
    };
    classes.iter().filter(is_default).max_by_key(age)
}

/// A class that is there when a cluster begins, so that claims without one get a volume.
pub fn standard_class() -> Value {
    json!({
        "metadata": { "name": "standard", "annotations": { DEFAULT_CLASS: "true" } },
        "provisioner": PROVISIONER,
        "allowVolumeExpansion": true,
    })
}
