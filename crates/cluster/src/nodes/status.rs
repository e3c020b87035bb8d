//! The status of a pod as its kubelet would report it: a patch with what has changed and nothing else.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::pod::{CRASHED, Container, Containers, Init, InitState, Phase, Pod, Stage};

/// What only the node knows of a pod.
pub(super) struct Report<'a> {
    pub(super) pod: &'a Pod,
    pub(super) host: Ipv4Addr,
    pub(super) address: Ipv4Addr,
    /// The present, as it is stamped on whatever begins with this report.
    pub(super) now: &'a str,
}

/// A condition as it is to be.
struct Wanted<'a> {
    kind: &'a str,
    holds: bool,
    reason: Option<&'a str>,
    message: Option<String>,
}

impl<'a> Wanted<'a> {
    fn met(kind: &'a str) -> Self {
        Wanted { kind, holds: true, reason: None, message: None }
    }

    fn unmet(kind: &'a str, reason: &'a str, message: String) -> Self {
        Wanted { kind, holds: false, reason: Some(reason), message: Some(message) }
    }
}

/// The condition of a pod that no node takes.
pub(super) fn unschedulable(pod: &Pod, reason: &str, now: &str) -> Value {
    let wanted = Wanted::unmet("PodScheduled", "Unschedulable", reason.to_owned());
    json!({ "conditions": [condition(pod, &wanted, now)] })
}

/// The condition of a pod whose node is lost; its other conditions stay as its kubelet last reported them.
pub(super) fn not_ready(pod: &Pod, now: &str) -> Value {
    let wanted = Wanted { kind: "Ready", holds: false, reason: None, message: None };
    json!({ "conditions": [condition(pod, &wanted, now)] })
}

impl Report<'_> {
    /// The patch of `status` that shows a stage.
    pub(super) fn patch(&self, stage: Stage) -> Value {
        let mut status = Map::new();
        status.insert("phase".to_owned(), json!(<&str>::from(stage.phase)));
        if self.pod.start_time.is_none() {
            status.insert("startTime".to_owned(), json!(self.now));
        }
        if self.pod.ip.is_none() {
            status.insert("hostIP".to_owned(), json!(self.host));
            status.insert("hostIPs".to_owned(), json!([{ "ip": self.host }]));
            status.insert("podIP".to_owned(), json!(self.address));
            status.insert("podIPs".to_owned(), json!([{ "ip": self.address }]));
        }
        let conditions: Vec<Value> = self.changed_conditions(stage);
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        let containers =
            self.pod.containers.iter().map(|container| self.container(container, stage)).collect();
        status.insert("containerStatuses".to_owned(), Value::Array(containers));
        if !self.pod.init_containers.is_empty() {
            let containers =
                self.pod.init_containers.iter().map(|container| self.init_container(container, stage.init));
            status.insert("initContainerStatuses".to_owned(), containers.collect());
        }
        Value::Object(status)
    }

    fn changed_conditions(&self, stage: Stage) -> Vec<Value> {
        let names: Vec<&str> = self.pod.containers.iter().map(|container| container.name.as_str()).collect();
        let containers = |kind| {
            let message = format!("containers with unready status: [{}]", names.join(" "));
            match stage.phase {
                _ if stage.containers_ready => Wanted::met(kind),
                Phase::Succeeded => {
                    Wanted { kind, holds: false, reason: Some("PodCompleted"), message: None }
                }
                Phase::Failed => Wanted { kind, holds: false, reason: Some("PodFailed"), message: None },
                Phase::Pending | Phase::Running => Wanted::unmet(kind, "ContainersNotReady", message),
            }
        };
        let ready = match self.pod.closed_gate() {
            Some(gate) if stage.containers_ready && !stage.ready => {
                let message = format!("the condition of readiness gate \"{gate}\" is not True");
                Wanted::unmet("Ready", "ReadinessGatesNotReady", message)
            }
            _ => containers("Ready"),
        };
        let wanted = [
            Wanted::met("PodReadyToStartContainers"),
            self.initialized(stage.init),
            ready,
            containers("ContainersReady"),
            Wanted::met("PodScheduled"),
        ];
        let differs = |wanted: &&Wanted<'_>| {
            self.pod.condition(wanted.kind).is_none_or(|shown| {
                (shown.status == "True") != wanted.holds || shown.reason.as_deref() != wanted.reason
            })
        };
        wanted.iter().filter(differs).map(|wanted| condition(self.pod, wanted, self.now)).collect()
    }

    fn initialized(&self, init: Init) -> Wanted<'static> {
        let done = match init {
            Init::Done => return Wanted::met("Initialized"),
            Init::Waiting => 0,
            Init::At { index, .. } => index,
        };
        let left: Vec<&str> =
            self.pod.initializing().skip(done).map(|container| container.name.as_str()).collect();
        let message = format!("containers with incomplete status: [{}]", left.join(" "));
        Wanted::unmet("Initialized", "ContainersNotInitialized", message)
    }

    fn container(&self, container: &Container, stage: Stage) -> Value {
        let crashed = stage.restarts > 0 || stage.containers == Containers::CrashLoopBackOff;
        let started_at = self.pod.container_started_at.as_deref().filter(|_| {
            // The same run goes on only while neither state nor count has changed.
            (stage.containers, stage.restarts) == (self.pod.stage.containers, self.pod.stage.restarts)
        });
        // The next run begins as the last one ends.
        let ended = started_at.unwrap_or(self.now);
        let shown = match stage.containers {
            Containers::Running => json!({ "running": { "startedAt": ended } }),
            Containers::Creating if stage.init != Init::Done => {
                json!({ "waiting": { "reason": "PodInitializing" } })
            }
            Containers::Creating => json!({ "waiting": { "reason": "ContainerCreating" } }),
            Containers::Ended => self.terminated(container, stage.exit, stage.restarts, self.now),
            Containers::ImagePullBackOff => json!({ "waiting": {
                "reason": "ImagePullBackOff",
                "message": format!("Back-off pulling image \"{}\"", container.image),
            } }),
            Containers::CrashLoopBackOff => self.backing_off(container),
        };
        let last_state = if crashed {
            self.terminated(container, stage.exit, stage.restarts.saturating_sub(1), ended)
        } else {
            json!({})
        };
        let pulled = stage.containers != Containers::ImagePullBackOff;
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": if pulled { container.image.as_str() } else { "" },
            "containerID": if pulled { self.container_id(container, stage.restarts) } else { String::new() },
            "ready": stage.containers_ready,
            "started": stage.started,
            "restartCount": stage.restarts,
            "state": shown,
            "lastState": last_state,
        })
    }

    fn backing_off(&self, container: &Container) -> Value {
        json!({ "waiting": {
            "reason": "CrashLoopBackOff",
            "message": format!(
                "back-off restarting failed container={} pod={}_{}({})",
                container.name, self.pod.name, self.pod.namespace, self.pod.key
            ),
        } })
    }

    /// A run that ended then; when it began is not kept.
    fn terminated(&self, container: &Container, exit: u8, run: u32, ended: &str) -> Value {
        let reason = if exit == 0 { "Completed" } else { "Error" };
        json!({ "terminated": {
            "exitCode": exit, "reason": reason, "startedAt": ended, "finishedAt": ended,
            "containerID": self.container_id(container, run),
        } })
    }

    /// Sidecars run from the beginning; the others have their turn.
    fn init_container(&self, container: &Container, init: Init) -> Value {
        let since = self.pod.start_time.as_deref().unwrap_or(self.now);
        let place = self.pod.initializing().position(|one| one.name == container.name).unwrap_or_default();
        // The count stays when a container is done.
        let shown = container.restarts;
        let completed = || {
            let id = self.container_id(container, shown);
            json!({ "terminated": {
                "exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": since, "containerID": id,
            } })
        };
        let waiting = || json!({ "waiting": { "reason": "PodInitializing" } });
        let (state, restarts, last_state) = match init {
            _ if container.sidecar => (json!({ "running": { "startedAt": since } }), 0, json!({})),
            Init::Done => (completed(), shown, json!({})),
            Init::Waiting => (waiting(), 0, json!({})),
            Init::At { index, .. } if place < index => (completed(), shown, json!({})),
            Init::At { index, .. } if place > index => (waiting(), 0, json!({})),
            Init::At { state: InitState::Running, restarts, .. } => {
                (json!({ "running": { "startedAt": self.now } }), restarts, json!({}))
            }
            Init::At { state: InitState::CrashLoopBackOff, restarts, .. } => {
                let last = self.terminated(container, CRASHED, restarts.saturating_sub(1), self.now);
                (self.backing_off(container), restarts, last)
            }
            Init::At { state: InitState::Failed, restarts, .. } => {
                (self.terminated(container, CRASHED, restarts, self.now), restarts, json!({}))
            }
        };
        let ready = container.sidecar || state.pointer("/terminated/exitCode") == Some(&json!(0));
        let begun = state.get("waiting").is_none() || restarts > 0;
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": if begun { container.image.as_str() } else { "" },
            "containerID": if begun { self.container_id(container, restarts) } else { String::new() },
            "ready": ready,
            "started": container.sidecar,
            "restartCount": restarts,
            "state": state,
            "lastState": last_state,
        })
    }

    fn container_id(&self, container: &Container, restarts: u32) -> String {
        format!("hollow://{}/{}/{restarts}", self.pod.key, container.name)
    }
}

fn condition(pod: &Pod, wanted: &Wanted<'_>, now: &str) -> Value {
    let status = if wanted.holds { "True" } else { "False" };
    let mut condition = Map::new();
    condition.insert("type".to_owned(), json!(wanted.kind));
    condition.insert("status".to_owned(), json!(status));
    let shown = pod.condition(wanted.kind);
    if shown.is_none_or(|shown| shown.status != status) {
        condition.insert("lastTransitionTime".to_owned(), json!(now));
    }
    // The patch merges into the condition that is there, so what no longer applies must be named to go.
    let stale = shown.is_some_and(|shown| shown.reason.is_some());
    if stale || wanted.reason.is_some() {
        condition.insert("reason".to_owned(), json!(wanted.reason));
        condition.insert("message".to_owned(), json!(wanted.message));
    }
    Value::Object(condition)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
