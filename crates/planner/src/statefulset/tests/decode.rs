//! Rows of objects, as the operator's caches decode them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sts_plus_api::keys;

use super::super::world::{
    ClaimRow, ClaimTemplate, Counts, Keep, Management, OwnerRef, Retention, RevisionRow, Rolling, SetSpec,
};
use crate::amount::Amount;
use crate::plan::Kind;
use crate::pod::{ClaimVolume, Phase, PodRow, Waiting};
use crate::revision;
use crate::selector::{Labels, Selector};
use crate::set::{SetRow, Steering, Strategy};

/// What a cache keeps of an object.
#[derive(Clone, Debug)]
pub(super) enum Row {
    Set(Arc<SetRow>, Arc<SetSpec>),
    Pod(Arc<PodRow>),
    Claim(Arc<ClaimRow>),
    Revision(Arc<RevisionRow>),
}

impl Row {
    pub(super) fn decode(kind: Kind, value: &Value) -> Self {
        match kind {
            Kind::StatefulSet => Self::Set(Arc::new(set_row(value)), Arc::new(set_spec(value))),
            Kind::Pod => Self::Pod(Arc::new(pod_row(value))),
            Kind::Claim => Self::Claim(Arc::new(claim_row(value))),
            Kind::Revision => Self::Revision(Arc::new(revision_row(value))),
            _ => panic!("there are none here"),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_i64().unwrap_or_default()).unwrap()
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().map(|text| text.parse().unwrap())
}

fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str().into(), text(value).into())).collect()
}

/// UID of the controlling owner.
pub(super) fn controller(value: &Value) -> Option<&str> {
    let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().find(|owner| owner["controller"] == true).map(|owner| text(&owner["uid"]))
}

fn set_row(value: &Value) -> SetRow {
    let (metadata, spec, status) = (&value["metadata"], &value["spec"], &value["status"]);
    let replicas = spec["replicas"].as_i64().map_or(1, |count| u32::try_from(count).unwrap());
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]);
    let match_labels = labels(&spec["selector"]["matchLabels"]);
    let named = |key: &str| status[key].as_str().filter(|name| !name.is_empty()).map(Into::into);
    SetRow {
        namespace: text(&metadata["namespace"]).into(),
        name: text(&metadata["name"]).into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
        generation: metadata["generation"].as_i64().unwrap(),
        observed_generation: status["observedGeneration"].as_i64().unwrap_or_default(),
        deleting: metadata["deletionTimestamp"].is_string(),
        group: None,
        steering: Steering::default(),
        replicas,
        first_ordinal: number(&spec["ordinals"]["start"]),
        is_ordered: text(&spec["podManagementPolicy"]) != "Parallel",
        min_ready: SignedDuration::from_secs(number(&spec["minReadySeconds"]).into()),
        strategy: match text(&spec["updateStrategy"]["type"]) {
            "RollingUpdate" => Strategy::RollingUpdate { partition },
            "OnDelete" => Strategy::OnDelete,
            other => Strategy::Other(other.into()),
        },
        selector: Selector::labels(match_labels.iter().map(|(key, value)| (&**key, &**value))),
        template_labels: labels(&spec["template"]["metadata"]["labels"]),
        current_revision: named("currentRevision"),
        update_revision: named("updateRevision"),
        counted: number(&status["updatedReplicas"]) == replicas
            && number(&status["readyReplicas"]) == replicas,
        child: None,
        controller: None,
    }
}

fn set_spec(value: &Value) -> SetSpec {
    let (spec, status) = (&value["spec"], &value["status"]);
    let templates = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    let keep = |value: &Value| if value == "Delete" { Keep::Delete } else { Keep::Retain };
    let amount = match &rolling["maxUnavailable"] {
        Value::Number(count) => Amount::parse(&count.to_string()),
        Value::String(percent) => Amount::parse(percent),
        _ => None,
    };
    SetSpec {
        patch: revision::patch(&spec["template"]).into(),
        claim_templates: templates.map(claim_template).collect(),
        service_name: text(&spec["serviceName"]).into(),
        management: match text(&spec["podManagementPolicy"]) {
            "Parallel" => Management::Parallel,
            _ => Management::OrderedReady,
        },
        rolling: rolling
            .is_object()
            .then(|| Rolling { partition: number(&rolling["partition"]), max_unavailable: amount }),
        retention: Retention {
            when_scaled: keep(&retention["whenScaled"]),
            when_deleted: keep(&retention["whenDeleted"]),
        },
        history_limit: spec["revisionHistoryLimit"].as_i64().unwrap_or(10),
        match_labels: labels(&spec["selector"]["matchLabels"]),
        annotations: labels(&value["metadata"]["annotations"]),
        counts: Counts {
            replicas: number(&status["replicas"]),
            ready: number(&status["readyReplicas"]),
            available: number(&status["availableReplicas"]),
            current: number(&status["currentReplicas"]),
            updated: number(&status["updatedReplicas"]),
        },
        collisions: status["collisionCount"].as_u64().map(|count| u32::try_from(count).unwrap()),
    }
}

fn claim_template(value: &Value) -> ClaimTemplate {
    let metadata = &value["metadata"];
    ClaimTemplate {
        name: text(&metadata["name"]).into(),
        labels: labels(&metadata["labels"]),
        annotations: labels(&metadata["annotations"]),
        spec: value["spec"].clone(),
    }
}

fn pod_row(value: &Value) -> PodRow {
    let (metadata, status) = (&value["metadata"], &value["status"]);
    let name = text(&metadata["name"]);
    let mut labels = labels(&metadata["labels"]);
    let named = labels.remove(keys::POD_NAME).is_some_and(|label| *label == *name);
    let revision = labels.remove(keys::CONTROLLER_REVISION).map(|label| (*label).into());
    labels.remove(keys::POD_INDEX);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|one| one["type"] == "Ready" && one["status"] == "True");
    let containers = status["containerStatuses"].as_array().into_iter().flatten();
    let running = containers.clone().any(|container| container["state"]["running"].is_object());
    let waits = containers.filter_map(|container| container["state"]["waiting"]["reason"].as_str());
    let volumes = value["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let (volume_name, claim) =
            (text(&volume["name"]), volume["persistentVolumeClaim"]["claimName"].as_str()?);
        let usual = claim == format!("{volume_name}-{name}");
        Some(ClaimVolume { name: volume_name.into(), claim: (!usual).then(|| claim.into()) })
    });
    PodRow {
        namespace: text(&metadata["namespace"]).into(),
        name: name.into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
        owner: controller(value).unwrap_or_default().into(),
        revision,
        labels: Arc::new(labels),
        phase: match text(&status["phase"]) {
            "Pending" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Unknown,
        },
        ready_since: ready.and_then(|ready| time(&ready["lastTransitionTime"])),
        terminating: metadata["deletionTimestamp"].is_string(),
        waiting: waits.map(Waiting::parse).max(),
        terminated_restarts: None,
        running,
        named,
        volumes: claims.collect(),
        ip: None,
        zones: None,
        numbered: false,
    }
}

fn owner_ref(value: &Value) -> OwnerRef {
    OwnerRef {
        api_version: text(&value["apiVersion"]).into(),
        kind: text(&value["kind"]).into(),
        name: text(&value["name"]).into(),
        uid: text(&value["uid"]).into(),
        controller: value["controller"].as_bool(),
        block_owner_deletion: value["blockOwnerDeletion"].as_bool(),
    }
}

fn claim_row(value: &Value) -> ClaimRow {
    let metadata = &value["metadata"];
    ClaimRow {
        name: text(&metadata["name"]).into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
        terminating: metadata["deletionTimestamp"].is_string(),
        owners: metadata["ownerReferences"].as_array().into_iter().flatten().map(owner_ref).collect(),
        stable: None,
    }
}

fn revision_row(value: &Value) -> RevisionRow {
    let metadata = &value["metadata"];
    // As a server written in Go prints it.
    let data = value["data"].to_string();
    let data = data.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    RevisionRow {
        name: text(&metadata["name"]).into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
        owner: controller(value).map(Into::into),
        number: value["revision"].as_i64().unwrap(),
        created: time(&metadata["creationTimestamp"]).unwrap(),
        data: data.into(),
    }
}
