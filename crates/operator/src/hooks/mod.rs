//! Hooks in code: what a ScalingPolicy calls by name, for those who build an operator of their own.
//!
//! A [`ScaleDown`] prepares a pod for its removal, a [`ScaleUp`] completes one that was added. Each is registered under a name
//! in [`Hooks`], which is part of the operator's [settings](crate::operator::Settings::hooks), and called where a ScalingPolicy
//! has that name in the field `named` of its hook. What is built in, HTTP, needs no code.
//!
//! ```text
//!   prepare ──> Pending ──> poll ──> Pending ──> poll ──> Done: the pod is removed
//!      │           │          │
//!      └── Done    └──────────┴── the pod is to stay after all ──> cancel ──> Done: it stays, and is not restarted
//! ```
//!
//! The operator decides when a call is made, one at a time for each pod, and keeps the progress in the status of the
//! ScalingPolicy. So an implementation keeps nothing, and every call may be made again, by this process or by the next one:
//!
//! - A call must be idempotent. It is repeated when its answer was lost, when it failed, and when the pod or one of its
//!   containers was restarted, since a restarted application has forgotten what it was asked for.
//! - A call is dropped when its time is over, or when the pod is to stay. A future that is dropped must leave nothing behind
//!   that a later call cannot repair.
//! - A call is about the pod that it is given, by UID. A successor of the same name is another pod.
//! - Calls run beside the operator's own work, at most 64 at once for one ScalingPolicy. One that blocks its thread holds up
//!   everything else.
//!
//! ```
//! use sts_plus_operator::hooks::{HookContext, HookError, HookProgress, Hooks, PodTarget, ScaleDown};
//!
//! /// Moves the partitions of a broker to others before its pod is removed.
//! struct MovePartitions;
//!
//! impl MovePartitions {
//!     async fn left_on(&self, _broker: u32) -> Result<u32, HookError> {
//!         Ok(0)
//!     }
//! }
//!
//! impl ScaleDown for MovePartitions {
//!     async fn prepare(&self, pod: &PodTarget, context: &HookContext) -> Result<HookProgress, HookError> {
//!         self.poll(pod, context).await
//!     }
//!
//!     async fn poll(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
//!         match self.left_on(pod.ordinal).await? {
//!             0 => Ok(HookProgress::Done),
//!             left => Ok(HookProgress::pending(format!("{left} partitions are left"))),
//!         }
//!     }
//!
//!     async fn cancel(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
//!         Ok(HookProgress::Done)
//!     }
//! }
//!
//! let hooks = Hooks::default().scale_down("move-partitions", MovePartitions);
//! # drop(hooks);
//! ```

#![deny(missing_docs, reason = "whoever embeds the operator begins here")]

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sts_plus_planner::scaling::hook::Call;
use thiserror::Error;

use crate::shell::api::describe;

/// Prepares pods for their removal.
pub trait ScaleDown: Send + Sync + 'static {
    /// Asks the application in a pod to get ready for its removal. The pod stays until this call, or a later [`Self::poll`],
    /// has answered [`HookProgress::Done`].
    fn prepare(
        &self,
        pod: &PodTarget,
        context: &HookContext,
    ) -> impl Future<Output = Result<HookProgress, HookError>> + Send;

    /// Looks how far a pod is that was asked. An error counts as an attempt that failed, not as a refusal: it is called again.
    fn poll(
        &self,
        pod: &PodTarget,
        context: &HookContext,
    ) -> impl Future<Output = Result<HookProgress, HookError>> + Send;

    /// Takes [`Self::prepare`] back, because the pod is to stay. It may also be called for a pod whose preparation has failed,
    /// is done, or was never begun.
    fn cancel(
        &self,
        pod: &PodTarget,
        context: &HookContext,
    ) -> impl Future<Output = Result<HookProgress, HookError>> + Send;
}

/// Completes pods that were added.
pub trait ScaleUp: Send + Sync + 'static {
    /// Lets the application in a pod that is Ready join the others. The pod counts as added once the answer is
    /// [`HookProgress::Done`]; until then it is called again.
    fn join(
        &self,
        pod: &PodTarget,
        context: &HookContext,
    ) -> impl Future<Output = Result<HookProgress, HookError>> + Send;
}

/// The pod that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTarget {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its UID, which no other pod has.
    pub uid: Box<str>,
    /// Its address; `None` where it has none yet.
    pub ip: Option<IpAddr>,
    /// The StatefulSet that it belongs to.
    pub set: Arc<str>,
    /// Its number in the set.
    pub ordinal: u32,
}

/// What a call is made for, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookContext {
    /// The ScalingPolicy, in the namespace of the pod.
    pub policy: Arc<str>,
    /// How long this call may take before it is dropped.
    pub timeout: Duration,
    /// How long all calls for the pod may take together, counted from the first one.
    pub deadline: Duration,
}

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookProgress {
    /// Nothing is left to do.
    Done,
    /// It goes on.
    Pending {
        /// What is the case, for the status of the ScalingPolicy. A line is shown, cut where it is long. It must hold no secret.
        message: String,
        /// When to look again, between 2 s and 60 s; 5 s where nothing is said.
        retry_after: Option<Duration>,
    },
}

impl HookProgress {
    /// It goes on, and is looked at again in the usual time.
    pub fn pending(message: impl Into<String>) -> Self {
        Self::Pending { message: message.into(), retry_after: None }
    }
}

/// Why a call has failed, for the status of the ScalingPolicy. A line is shown, cut where it is long. It must hold no secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct HookError(String);

impl HookError {
    /// A failure in words.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// An error with what has caused it.
    pub fn of(error: impl StdError + 'static) -> Self {
        Self(describe(&error))
    }
}

/// Hooks by name. A name is for `scaleDown` or for `scaleUp`, not for both. Clones share them.
#[derive(Clone, Default)]
pub struct Hooks(BTreeMap<Box<str>, Arc<dyn AnyHook>>);

impl Hooks {
    /// These, and one more for `scaleDown`, in the place of one of the same name.
    #[must_use]
    pub fn scale_down(mut self, name: &str, hook: impl ScaleDown) -> Self {
        self.0.insert(name.into(), Arc::new(Down(hook)));
        self
    }

    /// These, and one more for `scaleUp`, in the place of one of the same name.
    #[must_use]
    pub fn scale_up(mut self, name: &str, hook: impl ScaleUp) -> Self {
        self.0.insert(name.into(), Arc::new(Up(hook)));
        self
    }

    /// The hook of a name, where it is one for that call.
    pub(crate) fn find(&self, name: &str, call: Call) -> Option<&dyn AnyHook> {
        self.0.get(name).map(|hook| &**hook).filter(|hook| hook.is_for(call))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A call under way.
pub(crate) type Calling<'a> = Pin<Box<dyn Future<Output = Result<HookProgress, HookError>> + Send + 'a>>;

/// A hook of whatever type.
pub(crate) trait AnyHook: Send + Sync {
    fn is_for(&self, call: Call) -> bool;

    fn call<'a>(&'a self, call: Call, pod: &'a PodTarget, context: &'a HookContext) -> Calling<'a>;
}

struct Down<H>(H);

impl<H: ScaleDown> AnyHook for Down<H> {
    fn is_for(&self, call: Call) -> bool {
        call != Call::Join
    }

    fn call<'a>(&'a self, call: Call, pod: &'a PodTarget, context: &'a HookContext) -> Calling<'a> {
        match call {
            Call::Prepare | Call::Join => Box::pin(self.0.prepare(pod, context)),
            Call::Poll => Box::pin(self.0.poll(pod, context)),
            Call::Cancel => Box::pin(self.0.cancel(pod, context)),
        }
    }
}

struct Up<H>(H);

impl<H: ScaleUp> AnyHook for Up<H> {
    fn is_for(&self, call: Call) -> bool {
        call != Call::Prepare
    }

    fn call<'a>(&'a self, call: Call, pod: &'a PodTarget, context: &'a HookContext) -> Calling<'a> {
        match call {
            Call::Join | Call::Poll | Call::Prepare => Box::pin(self.0.join(pod, context)),
            // There is nothing to take back: a pod that is not wanted leaves, with the hook for that.
            Call::Cancel => Box::pin(ready(Ok(HookProgress::Done))),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
