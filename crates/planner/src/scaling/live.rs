//! A pod as the API server has it: what a record is bound to, and where the pod is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::extended::IntOrString;
use sts_plus_api::keys;

use super::hook::{Hook, HookKind};
use super::template;
use crate::set::SetRow;

/// What is known of a pod in this pass.
#[derive(Debug)]
pub(super) enum Live<'w> {
    /// It has not been read, or could not be.
    Unknown,
    /// The set has no pod of this name.
    Gone,
    Pod(LivePod<'w>),
}

/// A pod that exists.
#[derive(Debug)]
pub(super) struct LivePod<'w> {
    value: &'w Value,
    pub(super) uid: &'w str,
    /// How often each of its containers was restarted.
    pub(super) restarts: BTreeMap<String, i32>,
    /// Whether a container of it runs and it is not on its way out, so that it can be called.
    pub(super) callable: bool,
    /// Whether it is on its way out.
    pub(super) terminates: bool,
    /// Whether a container of it runs.
    pub(super) runs: bool,
}

/// The containers that serve, in lists of a pod: regular ones. A sidecar has the status of an init container.
const REGULAR: &str = "/status/containerStatuses";

impl<'w> LivePod<'w> {
    /// Reads a pod; `None` for one that the set does not control: it is not removed with the set's replicas.
    pub(super) fn of(value: &'w Value, set: &SetRow) -> Option<Self> {
        let uid = value.pointer("/metadata/uid").and_then(Value::as_str)?;
        let owners = value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let is_owner = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
        let owner = owners.into_iter().flatten().find(is_owner)?;
        if owner.get("uid").and_then(Value::as_str) != Some(&*set.uid) {
            return None;
        }
        let statuses = value.pointer(REGULAR).and_then(Value::as_array);
        let statuses = || statuses.into_iter().flatten();
        let restarts = statuses().filter_map(|status| {
            let name = status.get("name").and_then(Value::as_str)?.to_owned();
            let count = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
            Some((name, i32::try_from(count).unwrap_or(i32::MAX)))
        });
        let runs = statuses().any(|status| status.pointer("/state/running").is_some());
        let terminates = value.pointer("/metadata/deletionTimestamp").is_some();
        let callable = runs && !terminates;
        Some(Self { value, uid, restarts: restarts.collect(), callable, terminates, runs })
    }

    /// The version at which it was read.
    pub(super) fn version(&self) -> &str {
        self.value.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn ready(&self) -> bool {
        let conditions = self.value.pointer("/status/conditions").and_then(Value::as_array);
        let is_true = |key: &str, wanted: &str, condition: &Value| {
            condition.get(key).and_then(Value::as_str) == Some(wanted)
        };
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| is_true("type", "Ready", it) && is_true("status", "True", it))
    }

    /// Whether it was created with the lock.
    pub(super) fn has_lock(&self) -> bool {
        let init = self.value.pointer("/spec/initContainers").and_then(Value::as_array);
        init.into_iter().flatten().any(is_lock)
    }

    /// Whether it has the lock, and waits for it with none of its containers running.
    pub(super) fn waits_for_lock(&self) -> bool {
        let statuses = self.value.pointer("/status/initContainerStatuses").and_then(Value::as_array);
        let mut lock = statuses.into_iter().flatten().filter(|status| is_lock(status));
        let has_passed =
            |status: &Value| status.pointer("/state/terminated/exitCode").and_then(Value::as_i64) == Some(0);
        self.has_lock() && !self.runs && !lock.any(has_passed)
    }

    /// Whether an exit of a container restarts all of them: each has the rule for it.
    pub(super) fn restarts_all(&self) -> bool {
        let containers = self.value.pointer("/spec/containers").and_then(Value::as_array);
        self.has_lock() && containers.is_some_and(|all| all.iter().all(template::has_rules))
    }

    /// Whether a container has exited since it was restarted so often, and whatever has accepted a call at that time has ended:
    /// one that was running again by then may be the one that has accepted it.
    pub(super) fn has_exited_after(&self, restarts: &BTreeMap<String, i32>, accepted: Timestamp) -> bool {
        let statuses = self.value.pointer(REGULAR).and_then(Value::as_array);
        let has_exited = |status: &&Value| {
            let name = status.get("name").and_then(Value::as_str).unwrap_or_default();
            let before = restarts.get(name).copied().unwrap_or_default();
            status.pointer("/state/terminated").is_some()
                || self.restarts.get(name).is_some_and(|count| *count > before)
        };
        // Pods have whole seconds. Within the second of the answer a start is not after it, and an exit is.
        let is_after = |status: &Value| {
            let second = |pointer: &str| {
                let text = status.pointer(pointer).and_then(Value::as_str)?;
                Some(text.parse::<Timestamp>().ok()?.as_second())
            };
            if status.pointer("/state/running").is_some() {
                return second("/state/running/startedAt").is_some_and(|at| at > accepted.as_second());
            }
            let ended = second("/state/terminated/finishedAt");
            let ended = ended.or_else(|| second("/lastState/terminated/finishedAt"));
            ended.is_some_and(|at| at >= accepted.as_second())
        };
        self.waits_for_lock() || statuses.into_iter().flatten().filter(has_exited).any(is_after)
    }

    /// Whether no container of it has exited more than once since it was restarted so often: the first exit is the one that is
    /// looked for, and what was started after it and has exited may have served.
    pub(super) fn has_exited_once_since(&self, restarts: &BTreeMap<String, i32>) -> bool {
        let statuses = self.value.pointer(REGULAR).and_then(Value::as_array);
        let is_named = |status: &Value, name: &str| status.get("name").and_then(Value::as_str) == Some(name);
        let runs = |name: &str| {
            let mut named = statuses.into_iter().flatten().filter(|status| is_named(status, name));
            named.any(|status| status.pointer("/state/running").is_some())
        };
        let before = |name: &str| restarts.get(name).copied().unwrap_or_default();
        // One that was started again and does not run has exited again, unless all start again.
        let is_once = |name: &str, more: i32| more <= 0 || more == 1 && (runs(name) || self.waits_for_lock());
        self.restarts.iter().all(|(name, count)| is_once(name, count.saturating_sub(before(name))))
    }

    /// Whether no container of it has ever run.
    pub(super) fn has_never_run(&self) -> bool {
        let statuses = self.value.pointer(REGULAR).and_then(Value::as_array);
        let has_run = |status: &Value| {
            let ended = |key: &str| status.pointer(key).is_some();
            ended("/state/running") || ended("/state/terminated") || ended("/lastState/terminated")
        };
        !statuses.into_iter().flatten().any(has_run) && self.restarts.values().all(|count| *count == 0)
    }

    /// Its address.
    pub(super) fn ip(&self) -> Option<Box<str>> {
        let ip = self.value.pointer("/status/podIP").and_then(Value::as_str);
        ip.filter(|ip| !ip.is_empty()).map(Into::into)
    }

    /// The port that a hook calls.
    pub(super) fn port(&self, hook: &Hook) -> Result<u16, Arc<str>> {
        let wanted = match &hook.kind {
            HookKind::Named(_) => return Ok(0),
            HookKind::Http(http) => &http.port,
        };
        match wanted {
            IntOrString::Int(number) => {
                u16::try_from(*number).map_err(|_| format!("{number} is not a port").into())
            }
            IntOrString::String(name) => self.named_port(name),
        }
    }

    fn named_port(&self, name: &str) -> Result<u16, Arc<str>> {
        let list = |key| self.value.pointer(key).and_then(Value::as_array).into_iter().flatten();
        let containers = list("/spec/containers").chain(list("/spec/initContainers"));
        let ports = containers.filter_map(|container| container.get("ports")?.as_array()).flatten();
        let mut found = ports.filter(|port| port.get("name").and_then(Value::as_str) == Some(name));
        let number = found.find_map(|port| u16::try_from(port.get("containerPort")?.as_u64()?).ok());
        number.ok_or_else(|| format!("no container of the pod has a port named {name}").into())
    }
}

/// Whether a container, or the status of one, is that of the lock.
fn is_lock(container: &Value) -> bool {
    container.get("name").and_then(Value::as_str) == Some(keys::LOCK)
}
