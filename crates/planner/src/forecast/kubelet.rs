//! The kubelets of a forecast: a pod's next step, and what it makes of the row.

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

/// The next step of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Its containers have ended, and it is gone.
    Remove,
    /// Its containers start.
    Start,
    /// It meets its fate.
    Finish,
}

impl Step {
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
    /// Lets a pod take a step.
    pub fn advance(&mut self, namespace: &str, pod: &str, (step, fate): (Step, Fate), now: Timestamp) {
        match step {
            Step::Remove => self.pods.retain(|row| *row.name != *pod || *row.namespace != *namespace),
            Step::Start => self.change_pod(namespace, pod, |row| {
                (row.phase, row.running) = (Phase::Running, true);
            }),
            Step::Finish => self.change_pod(namespace, pod, |row| match fate {
                Fate::Ready => (row.waiting, row.running, row.ready_since) = (None, true, Some(now)),
                Fate::Crashes => (row.waiting, row.running) = (Some(Waiting::CrashLoopBackOff), false),
                Fate::Hangs => (row.waiting, row.running) = (None, true),
            }),
        }
    }
}
