//! What the StatefulSet controller and the kubelets would do next, one thing at a time: tests choose the order.

use jiff::Timestamp;

use super::kubelet::{Fate, PodChange};
use super::objects::Objects;
use crate::plan::{Action, Kind, Object};
use crate::pod::PodRow;
use crate::set::SetRow;

/// What the name of a revision ends in whose pods crash for ever.
pub(crate) const CRASHES: &str = "-bad";
/// What the name of a revision ends in whose pods run and never become Ready.
pub(crate) const HANGS: &str = "-hangs";

/// Something that the StatefulSet controller or a kubelet would do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A write of the StatefulSet controller.
    Write(Box<Action>),
    /// A change that a kubelet makes to a pod.
    Change(Object, PodChange, Fate),
}

impl Work {
    /// Whether the StatefulSet controller creates, deletes or repairs a pod.
    pub(crate) fn writes_pod(&self) -> bool {
        matches!(self, Self::Write(action) if action.object().kind == Kind::Pod)
    }
}

/// What becomes of a pod, by the name of its revision.
pub(crate) fn fate_by_name(pod: &PodRow) -> Fate {
    let ends = |suffix| pod.revision.as_deref().is_some_and(|revision| revision.ends_with(suffix));
    match (ends(CRASHES), ends(HANGS)) {
        (true, _) => Fate::Crashes,
        (_, true) => Fate::Hangs,
        _ => Fate::Ready,
    }
}

impl Objects {
    /// All writes that the controller of a set would do now, the status first.
    pub(crate) fn control_work(&self, set: &SetRow, now: Timestamp) -> Vec<Work> {
        let decision = self.control(set, now);
        let status = decision.status();
        let others = decision.plan.writes().filter(|action| Some(*action) != status);
        status.into_iter().chain(others).cloned().map(Box::new).map(Work::Write).collect()
    }

    /// All changes that pods could go through now.
    pub(crate) fn pod_work(&self, fate: impl Fn(&PodRow) -> Fate) -> Vec<Work> {
        let changes = self.pods.iter().filter_map(|pod| {
            let fate = fate(pod);
            let (namespace, name) = (std::sync::Arc::clone(&pod.namespace), pod.name.clone());
            Some(Work::Change(Object { kind: Kind::Pod, namespace, name }, PodChange::of(pod, fate)?, fate))
        });
        changes.collect()
    }

    /// Does one of them.
    #[track_caller]
    pub(crate) fn perform(&mut self, work: &Work, now: Timestamp) {
        match work {
            Work::Write(action) => self.apply(action).unwrap(),
            Work::Change(pod, change, fate) => self.advance(&pod.namespace, &pod.name, (*change, *fate), now),
        }
    }
}
