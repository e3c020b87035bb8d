//! The state of the model: API objects, what the operator knows of them and has under way, applications, and what may still
//! go wrong.

use sts_plus_api::scaling_policy::{OnFailure, RecordPhase};
use sts_plus_planner::scaling::hook::Call;

use crate::guarantees::{Broken, Guarantee};
use crate::planted::Planted;

/// The pods that a model has at most.
pub(crate) const ORDINALS: usize = 3;

/// The size of a model and what may go wrong in it.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one way in which models differ, independent of the others"
)]
pub(crate) struct Model {
    /// The replicas at first.
    pub(crate) replicas: u8,
    /// What the user asks for at first.
    pub(crate) wanted: u8,
    /// What the user may change that to.
    pub(crate) edits: &'static [u8],
    /// How many pods may leave at the same time.
    pub(crate) concurrent: u8,
    pub(crate) on_failure: OnFailure,
    /// Whether a call can be taken back.
    pub(crate) cancel: bool,
    /// Whether a pod that has accepted the call is asked until it is done.
    pub(crate) polled: bool,
    /// Whether the deletion of the policy removes all pods, in order.
    pub(crate) drains: bool,
    /// Whether the StatefulSet controller may act on replicas that were changed since.
    pub(crate) controller_lags: bool,
    /// Whether a call may reach the pod that has got the address of the one that it was meant for.
    pub(crate) reuses_addresses: bool,
    /// Whether a write may outlive its sender.
    pub(crate) late: bool,
    pub(crate) fence: Fence,
    /// Whether the node shows the containers of a pod a lock that has changed since.
    pub(crate) stale_mounts: bool,
    /// Whether the call makes the container exit.
    pub(crate) exits: bool,
    /// Whether the claims of drained pods are deleted.
    pub(crate) deletes_claims: bool,
    /// Whether the set itself deletes the claims of pods that are removed.
    pub(crate) scaling_deletes: bool,
    pub(crate) faults: Faults,
    pub(crate) planted: Option<Planted>,
    /// What is not promised.
    pub(crate) unpromised: &'static [Guarantee],
}

impl Model {
    pub(crate) fn is_locked(&self) -> bool {
        self.fence != Fence::None
    }

    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

/// What keeps pods that leave from coming back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    None,
    /// The lock. By the rule a container that ends lets the init containers run again; otherwise it is restarted in its pod.
    Lock {
        rule: bool,
    },
}

/// How often each thing may still go wrong, or be changed by somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// The user changes the replicas of the policy.
    pub(crate) edits: u8,
    /// The user deletes the policy.
    pub(crate) deletions: u8,
    /// Somebody else writes the replicas of the set.
    pub(crate) foreign: u8,
    /// The operator crashes and starts again.
    pub(crate) crashes: u8,
    /// A write or its answer is lost.
    pub(crate) losses: u8,
    /// A container ends, and is restarted in its pod.
    pub(crate) restarts: u8,
    /// A pod is evicted.
    pub(crate) evictions: u8,
    /// The deadline of every record that has begun is over.
    pub(crate) deadlines: u8,
    /// A pod is created on a node that has not heard of the last change of the lock.
    pub(crate) stale_nodes: u8,
}

/// How a pod is, as the API server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// Created, and never started.
    Pending,
    /// Its containers have run, and its init containers run again.
    Again,
    /// Its container runs, and is not Ready since it was started. Only where calls end containers.
    Unready,
    Ready,
    /// Its container has ended.
    Down,
    Terminating,
}

/// What the API server has of a pod. UIDs are small numbers that differ where they must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) uid: u8,
    pub(crate) restarts: u8,
    pub(crate) life: Life,
    /// When its container was started, and has ended, last. Times are told apart only where calls end containers.
    pub(crate) started: u8,
    pub(crate) ended: u8,
}

/// What the application in a pod has done since it started last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum App {
    /// It has never run in this pod, or runs again and has not served since.
    Unstarted,
    Serving,
    /// It was called, and is not done.
    Called,
    /// It is done: nothing is lost with the pod.
    Done,
}

impl App {
    /// Whether it was called, and has not been called off since.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, Self::Called | Self::Done)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pod {
    pub(crate) seen: Seen,
    pub(crate) app: App,
    /// Whether its node shows it a lock with its key.
    pub(crate) mounted: bool,
}

impl Pod {
    /// Whether it is left prepared for its removal if nobody calls it off: not where its containers have ended.
    pub(crate) fn is_prepared(self) -> bool {
        self.app.is_prepared() && !matches!(self.seen.life, Life::Down | Life::Again)
    }
}

pub(crate) type Pods = [Option<Pod>; ORDINALS];
pub(crate) type Rows = [Option<Seen>; ORDINALS];

/// What the API server has of the pods.
pub(crate) fn rows(pods: &Pods) -> Rows {
    pods.map(|pod| pod.map(|pod| pod.seen))
}

/// The set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) version: u8,
    pub(crate) replicas: u8,
    /// The ordinals in the annotation, as bits.
    pub(crate) leaving: u8,
    /// Counts changes of the spec.
    pub(crate) generation: u8,
    /// Whether the claims of pods that are removed are deleted.
    pub(crate) deletes: bool,
}

/// The ConfigMap of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) version: u8,
    /// The ordinals that may run, as bits.
    pub(crate) keys: u8,
}

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Policy {
    pub(crate) version: u8,
    pub(crate) wanted: u8,
    pub(crate) deleting: bool,
    pub(crate) status: Status,
}

/// The status of the policy, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Status {
    /// Whether it speaks of the present spec.
    pub(crate) observed: bool,
    pub(crate) desired: u8,
    pub(crate) held: u8,
    /// The generation of the set at which its template was found to have the lock.
    pub(crate) template: u8,
    /// Whether the set gets its deletion of claims back.
    pub(crate) retention: bool,
    /// By ordinal.
    pub(crate) leaving: [Option<Record>; ORDINALS],
}

/// The record of a pod that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// `None` until there is a pod.
    pub(crate) uid: Option<u8>,
    pub(crate) restarts: u8,
    pub(crate) phase: RecordPhase,
    pub(crate) exceeded: bool,
    /// When its call was accepted.
    pub(crate) accepted: Option<u8>,
    /// Whether its hook has succeeded.
    pub(crate) drained: bool,
    /// The claim that is deleted with it, once that is recorded.
    #[expect(clippy::option_option, reason = "that there is none is recorded, too")]
    pub(crate) claim: Option<Option<u8>>,
    /// Whether its deadline is over.
    pub(crate) overdue: bool,
}

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// The version of the object that it insists on.
    pub(crate) version: u8,
    pub(crate) write: Write,
    /// What it breaks if it lands: judged by the pods as they were when they were looked at last.
    pub(crate) breaks: Broken,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Status(Status),
    Announce(u8),
    Scale(u8),
    /// Whether the set deletes the claims of pods that are removed.
    Retention(bool),
    /// The policy is let go.
    Depart,
    /// The ordinals that may run.
    Keys(u8),
    DeletePod(usize, Seen),
    DeleteClaim(usize, u8),
}

/// What a write is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Set,
    Policy,
    Lock,
    Pod,
    Claim,
}

impl Write {
    pub(crate) fn to(self) -> To {
        match self {
            Self::Announce(_) | Self::Scale(_) | Self::Retention(_) => To::Set,
            Self::Status(_) | Self::Depart => To::Policy,
            Self::Keys(_) => To::Lock,
            Self::DeletePod(..) => To::Pod,
            Self::DeleteClaim(..) => To::Claim,
        }
    }
}

/// A call of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Calling {
    pub(crate) ordinal: usize,
    pub(crate) uid: u8,
    pub(crate) call: Call,
    /// Whether a deadline has passed since it was sent.
    pub(crate) overdue: bool,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outcome {
    pub(crate) calling: Calling,
    pub(crate) answer: Answer,
    pub(crate) at: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Done,
    Pending,
    /// The application has ended the connection without an answer.
    Broken,
    Failed,
}

/// What follows once all writes of a pass are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Then {
    /// The calls that begin.
    pub(crate) begin: Vec<Calling>,
    /// The calls whose outcome still counts, by ordinal and UID; all others are given up.
    pub(crate) keep: Vec<(usize, u8, Call)>,
}

/// The operator: what it has seen, and its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "what is awaited is awaited of each object by itself")]
pub(crate) struct Operator {
    pub(crate) set: Set,
    pub(crate) policy: Option<Policy>,
    pub(crate) pods: Rows,
    pub(crate) lock: Lock,
    /// Whether it has written to the set, the policy or the lock, and has not seen that.
    pub(crate) awaits_set: bool,
    pub(crate) awaits_policy: bool,
    pub(crate) awaits_lock: bool,
    /// The pod that it has deleted and that it has not seen to be gone or on its way out.
    pub(crate) awaits_pod: Option<(usize, u8)>,
    /// A write was not answered.
    pub(crate) unknown: bool,
    /// The writes of a pass that are left, in order.
    pub(crate) sent: Vec<Request>,
    pub(crate) then: Option<Then>,
    pub(crate) calls: Vec<Calling>,
    pub(crate) outcomes: Vec<Outcome>,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) pods: Pods,
    /// What the last pod of each ordinal had done when it was gone.
    pub(crate) left_behind: [App; ORDINALS],
    pub(crate) set: Set,
    /// `None` once it is gone.
    pub(crate) policy: Option<Policy>,
    /// The pods that stay prepared for their removal because their call could not be taken back.
    pub(crate) stays_prepared: [bool; ORDINALS],
    /// The replicas that the StatefulSet controller acts on.
    pub(crate) controller: u8,
    pub(crate) lock: Lock,
    /// The claims, by ordinal; each that is created has another number.
    pub(crate) claims: [Option<u8>; ORDINALS],
    pub(crate) operator: Operator,
    /// Writes that have outlived their sender.
    pub(crate) late: Vec<Request>,
    pub(crate) left: Faults,
    pub(crate) broken: Broken,
}

impl State {
    /// A set whose policy has just been changed, all of it seen.
    pub(crate) fn initial(model: &Model) -> Self {
        let seen = Seen { uid: 0, restarts: 0, life: Life::Ready, started: 0, ended: 0 };
        let pod = Pod { seen, app: App::Serving, mounted: true };
        let is_there = |ordinal: usize| ordinal < usize::from(model.replicas);
        let pods: Pods = std::array::from_fn(|ordinal| is_there(ordinal).then_some(pod));
        let set = Set {
            version: 0,
            replicas: model.replicas,
            leaving: 0,
            generation: 0,
            deletes: model.scaling_deletes,
        };
        let lock = Lock { version: 0, keys: (1 << model.replicas) - 1 };
        let (held, desired) = (model.replicas, model.replicas);
        let (template, retention, leaving) = (0, false, [None; ORDINALS]);
        let status = Status { observed: false, desired, held, template, retention, leaving };
        let policy = Some(Policy { version: 0, wanted: model.wanted, deleting: false, status });
        let operator = Operator {
            set,
            policy,
            pods: rows(&pods),
            lock,
            awaits_set: false,
            awaits_policy: false,
            awaits_lock: false,
            awaits_pod: None,
            unknown: false,
            sent: Vec::new(),
            then: None,
            calls: Vec::new(),
            outcomes: Vec::new(),
        };
        Self {
            pods,
            left_behind: [App::Done; ORDINALS],
            stays_prepared: [false; ORDINALS],
            set,
            policy,
            controller: model.replicas,
            lock,
            claims: std::array::from_fn(|ordinal| is_there(ordinal).then_some(0)),
            operator,
            late: Vec::new(),
            left: model.faults,
            broken: Broken::default(),
        }
    }

    /// Whether all is as it was asked for, and nothing is under way.
    pub(crate) fn at_goal(&self, model: &Model) -> bool {
        let is_well = |(ordinal, pod): (usize, &Option<Pod>)| match pod {
            None => ordinal >= usize::from(self.set.replicas),
            Some(pod) => {
                ordinal < usize::from(self.set.replicas)
                    && pod.seen.life == Life::Ready
                    && (!model.cancel || self.stays_prepared[ordinal] || pod.app == App::Serving)
            }
        };
        let is_met = self.policy.is_none_or(|policy| {
            let failed =
                |record: &Option<Record>| record.is_none_or(|record| record.phase == RecordPhase::Failed);
            let is_kept = policy.status.leaving.iter().any(Option::is_some);
            let is_reported = policy.status.observed && policy.status.held == self.set.replicas;
            !policy.deleting
                && is_reported
                && (self.set.replicas == policy.wanted || is_kept)
                && policy.status.leaving.iter().all(failed)
        });
        let operator = &self.operator;
        let is_given_back = self.policy.is_none_or(|policy| !policy.status.retention);
        let is_found = |policy: Policy| policy.status.template == self.set.generation;
        let is_locked_right = !model.is_locked()
            || self.lock.keys == (1 << self.set.replicas) - 1 && self.policy.is_none_or(is_found);
        is_met
            && is_given_back
            && is_locked_right
            && self.set.leaving == 0
            && operator.sent.is_empty()
            && operator.calls.is_empty()
            && operator.outcomes.is_empty()
            && self.pods.iter().enumerate().all(is_well)
    }

    /// What would be lost with the pod of an ordinal.
    pub(crate) fn holds_of(&self, ordinal: usize) -> App {
        let app = self.pods[ordinal].map_or(App::Unstarted, |pod| pod.app);
        if app == App::Unstarted { self.left_behind[ordinal] } else { app }
    }

    /// Whether the operator has seen everything.
    pub(crate) fn is_seen(&self) -> bool {
        let operator = &self.operator;
        (operator.set, operator.policy, operator.lock, operator.pods)
            == (self.set, self.policy, self.lock, rows(&self.pods))
    }
}
