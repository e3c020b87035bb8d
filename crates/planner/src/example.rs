//! Example rows for tests: a set of three pods and the pods of it, all well.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::pod::{Phase, PodRow};
use crate::selector::Selector;
use crate::set::{SetRow, Steering, Strategy};

/// The namespace of everything.
pub(crate) const NAMESPACE: &str = "prod";

/// A set in the namespace `prod` that selects by the label `name`, observed, of the revision `new`.
pub(crate) fn set(name: &str) -> SetRow {
    SetRow {
        namespace: NAMESPACE.into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        generation: 2,
        observed_generation: 2,
        deleting: false,
        group: None,
        steering: Steering::default(),
        replicas: 3,
        first_ordinal: 0,
        is_ordered: false,
        min_ready: SignedDuration::ZERO,
        strategy: Strategy::OnDelete,
        selector: Selector::labels([("name", name)]),
        template_labels: [("name".into(), name.into())].into(),
        current_revision: Some("new".into()),
        update_revision: Some("new".into()),
        counted: true,
        child: None,
        controller: None,
    }
}

/// A pod of the set, of the set's revision, Ready since long ago.
pub(crate) fn pod(set: &SetRow, ordinal: u32) -> PodRow {
    let name = format!("{}-{ordinal}", set.name);
    PodRow {
        namespace: Arc::clone(&set.namespace),
        uid: format!("uid-{name}").into(),
        name: name.into(),
        resource_version: "1".into(),
        owner: Arc::clone(&set.uid),
        revision: set.update_revision.as_deref().map(Into::into),
        labels: Arc::new(set.template_labels.clone()),
        phase: Phase::Running,
        ready_since: Some(Timestamp::UNIX_EPOCH),
        terminating: false,
        waiting: None,
        terminated_restarts: None,
        running: true,
        named: true,
        numbered: false,
        ip: None,
        zones: None,
        volumes: Arc::default(),
    }
}
