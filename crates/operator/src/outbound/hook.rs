//! Calls of hooks: a request to a pod's own address, or an implementation that was built into the operator.
//!
//! Where a request goes is not the user's choice: the address is the pod's, the port one number, and the path nothing but a
//! path. What comes back is read up to a limit, judged by its code and at most one value in it, and searched for what the
//! Secrets hold before anybody sees a word of it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sts_plus_planner::scaling::hook::{Call, HookKind, HookOutcome, HookRequest, HookResult};
use tokio::time::{Instant, timeout};

use super::dial::Dial;
use super::hook_http::Exchange;
use super::reach::Reach;
use super::secrets::{Hidden, Reader, printable};
use super::slots::Slots;
use crate::hooks::{HookContext, HookError, HookProgress, Hooks, PodTarget};
use crate::shell::api::Api;

/// Calls at once for one ScalingPolicy: more of its pods never leave at the same time for long, and there is room for the other
/// policies of its namespace.
const PER_POLICY: usize = 64;

/// The longest time limit of a call: so long does a pod that hangs hold one of the slots.
const MAX_TIMEOUT: Duration = Duration::from_mins(1);

/// How much is kept of what a pod or an implementation says: a sentence that is shown in a status.
pub(super) const MAX_MESSAGE_CHARACTERS: usize = 300;

/// Carries out calls of hooks. Clones share the slots.
#[derive(Clone)]
pub struct HookCaller {
    api: Api,
    reach: Reach,
    dial: Arc<dyn Dial>,
    named: Hooks,
    /// By namespace, and in it by ScalingPolicy.
    slots: Slots<Arc<str>>,
}

impl fmt::Debug for HookCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookCaller")
            .field("reach", &self.reach)
            .field("named", &self.named)
            .finish_non_exhaustive()
    }
}

impl HookCaller {
    /// One that reads Secrets through `api`, reaches pods through `dial`, and knows these implementations by name.
    pub fn new(api: Api, (reach, dial): (Reach, Arc<dyn Dial>), named: Hooks) -> Self {
        Self { api, reach, dial, named, slots: Slots::new(PER_POLICY) }
    }

    /// Makes a call on behalf of a ScalingPolicy, and says how long it took. The waits for a slot and for Secrets are no part
    /// of its time.
    pub async fn call(&self, policy: &Arc<str>, request: &HookRequest) -> (HookOutcome, Duration) {
        let _slot = self.slots.take(&request.pod.namespace, policy).await;
        let (at, started) = (self.api.now(), Instant::now());
        let result = match &request.hook.kind {
            HookKind::Http(http) => {
                let mut hidden = Hidden::default();
                let mut secrets = Reader::new(&self.api, &request.pod.namespace);
                let (way, about) = ((self.reach, &*self.dial), (request, &**http));
                let exchange = Exchange::prepare(way, about, &mut secrets, &mut hidden).await;
                match exchange {
                    Ok(None) => HookResult::Done,
                    Ok(Some(exchange)) => {
                        let result = within(request, exchange.carry_out(&hidden)).await;
                        result.unwrap_or_else(HookResult::Failed)
                    }
                    Err(why) => HookResult::Failed(hidden.tell(&why, MAX_MESSAGE_CHARACTERS).into()),
                }
            }
            HookKind::Named(name) => self.call_named(policy, name, request).await,
        };
        let (uid, hash) = (request.uid.clone(), Arc::clone(&request.hook.hash));
        let ended = self.api.now();
        (HookOutcome { uid, call: request.call, hash, at, ended, result }, started.elapsed())
    }

    async fn call_named(&self, policy: &Arc<str>, name: &str, request: &HookRequest) -> HookResult {
        let Some(hook) = self.named.find(name, request.call) else {
            let field = if request.call == Call::Join { "scaleUp" } else { "scaleDown" };
            let name = printable(name, MAX_MESSAGE_CHARACTERS);
            return HookResult::Failed(format!("this operator has no hook {name:?} for {field}").into());
        };
        let pod = PodTarget {
            namespace: Arc::clone(&request.pod.namespace),
            name: request.pod.name.clone(),
            uid: request.uid.clone(),
            ip: request.ip.as_deref().and_then(|ip| ip.parse().ok()),
            set: Arc::clone(&request.set),
            ordinal: request.ordinal,
        };
        let context = HookContext {
            policy: Arc::clone(policy),
            timeout: request.hook.timeout.min(MAX_TIMEOUT),
            deadline: Duration::try_from(request.hook.deadline).unwrap_or_default(),
        };
        // One that panics has failed: its task must end with an outcome, since the pod has no other call meanwhile.
        let called = AssertUnwindSafe(hook.call(request.call, &pod, &context)).catch_unwind();
        match within(request, called).await {
            Err(late) => HookResult::Failed(late),
            Ok(Err(_)) => HookResult::Failed("the hook panicked".into()),
            Ok(Ok(answer)) => progress(answer),
        }
    }
}

/// The outcome of a call, unless its time is over before it has one; then that in words.
async fn within<T>(request: &HookRequest, call: impl Future<Output = T>) -> Result<T, Arc<str>> {
    let limit = request.hook.timeout.min(MAX_TIMEOUT);
    timeout(limit, call).await.map_err(|_| format!("no answer within {} s", limit.as_secs()).into())
}

fn progress(answer: Result<HookProgress, HookError>) -> HookResult {
    let shown = |text: &str| printable(text, MAX_MESSAGE_CHARACTERS).into();
    match answer {
        Ok(HookProgress::Done) => HookResult::Done,
        Ok(HookProgress::Pending { message, retry_after }) => {
            HookResult::Pending { message: shown(&message), retry_after }
        }
        Err(error) => HookResult::Failed(shown(&error.to_string())),
    }
}

#[cfg(test)]
#[path = "hook_tests.rs"]
mod hook_tests;
