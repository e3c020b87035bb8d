//! The kubelets of a forecast: what happens to a pod next, and what that makes of its row.

use jiff::Timestamp;

use super::objects::Objects;
use crate::pod::{Phase, PodRow, Waiting};

/// What becomes of a pod once its containers have started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It becomes Ready.
    #[default]
    Ready,
    /// Its containers crash again and again.
    Crashes,
    /// Its containers run, and it never becomes Ready.
    Hangs,
}

/// What happens to a pod next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodChange {
    /// Its containers have ended, and it is gone.
    Remove,
    /// Its containers start.
    Start,
    /// It meets its fate.
    Finish,
}

impl PodChange {
    /// What a pod does next; nothing for one that stays as it is.
    pub fn of(pod: &PodRow, fate: Fate) -> Option<Self> {
        if pod.terminating {
            return Some(Self::Remove);
        }
        let met = match fate {
            Fate::Ready => false,
            Fate::Crashes => pod.defect().is_some(),
            Fate::Hangs => pod.running,
        };
        match pod.phase {
            Phase::Pending => Some(Self::Start),
            Phase::Running if pod.ready_since.is_none() && !met => Some(Self::Finish),
            Phase::Running | Phase::Succeeded | Phase::Failed | Phase::Unknown => None,
        }
    }
}

impl Objects {
    /// Changes the row of a pod as its kubelet would.
    pub fn advance(&mut self, namespace: &str, pod: &str, (change, fate): (PodChange, Fate), now: Timestamp) {
        match change {
            PodChange::Remove => self.pods.retain(|row| *row.name != *pod || *row.namespace != *namespace),
            PodChange::Start => self.change_pod(namespace, pod, |row| {
                (row.phase, row.running) = (Phase::Running, true);
            }),
            PodChange::Finish => self.change_pod(namespace, pod, |row| match fate {
                Fate::Ready => (row.waiting, row.running, row.ready_since) = (None, true, Some(now)),
                Fate::Crashes => (row.waiting, row.running) = (Some(Waiting::CrashLoopBackOff), false),
                Fate::Hangs => (row.waiting, row.running) = (None, true),
            }),
        }
    }
}
