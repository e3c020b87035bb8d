//! What a table says of a pod: one word for how it is, whatever its containers do.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::built_in_columns::{NONE, condition};
use super::columns::ago;
use crate::machinery::object::{is_deleting, list, number, text};

/// What a table shows of a pod besides its name.
pub(super) struct Shown {
    pub(super) ready: String,
    pub(super) status: String,
    pub(super) restarts: String,
}

/// Restarts, and when the last one was.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += number(status, "/restartCount").unwrap_or_default();
        let ended = text(status, "/lastState/terminated/finishedAt").parse().ok();
        self.last = self.last.max(ended);
    }
}

impl Shown {
    pub(super) fn of(pod: &Value, now: Timestamp) -> Self {
        let phase = text(pod, "/status/phase");
        let said = text(pod, "/status/reason");
        let mut status = if said.is_empty() { phase.to_owned() } else { said.to_owned() };
        let gated = |condition: &Value| {
            text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
        };
        if list(pod, "/status/conditions").iter().any(gated) {
            "SchedulingGated".clone_into(&mut status);
        }
        let mut sidecars = Sidecars::default();
        let mut restarts = Restarts::default();
        let initializing = sidecars.look(pod, &mut restarts);
        if let Some(reason) = &initializing {
            status.clone_from(reason);
        }
        let mut ready = sidecars.ready;
        if initializing.is_none() || condition(pod, "Initialized") == Some("True") {
            restarts = sidecars.restarts;
            let mut is_running = false;
            for container in list(pod, "/status/containerStatuses").iter().rev() {
                restarts.add(container);
                match Container::of(container) {
                    Container::Waiting(reason) | Container::Ended(reason) => status = reason,
                    Container::Ready => {
                        is_running = true;
                        ready += 1;
                    }
                    Container::Other => {}
                }
            }
            if status == "Completed" && is_running {
                let is_ready = condition(pod, "Ready") == Some("True");
                if is_ready { "Running" } else { "NotReady" }.clone_into(&mut status);
            }
        }
        if is_deleting(pod) && said == "NodeLost" {
            "Unknown".clone_into(&mut status);
        } else if is_deleting(pod) && !is_over(phase) {
            "Terminating".clone_into(&mut status);
        }
        let total = list(pod, "/spec/containers").len() + sidecars.names.len();
        let last = restarts.last.filter(|_| restarts.count > 0).map(|last| last.to_string());
        let restarts = match last {
            Some(last) => format!("{} ({} ago)", restarts.count, ago(&last.into(), "", now)),
            None => restarts.count.to_string(),
        };
        Shown { ready: format!("{ready}/{total}"), status, restarts }
    }
}

fn is_over(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// Init containers that go on.
#[derive(Default)]
struct Sidecars<'a> {
    names: Vec<&'a str>,
    ready: usize,
    restarts: Restarts,
}

impl<'a> Sidecars<'a> {
    /// Looks at init containers up to the one that all wait for, and says what that one does.
    fn look(&mut self, pod: &'a Value, restarts: &mut Restarts) -> Option<String> {
        let all = list(pod, "/spec/initContainers");
        let goes_on = |container: &&Value| text(container, "/restartPolicy") == "Always";
        self.names = all.iter().filter(goes_on).map(|container| text(container, "/name")).collect();
        for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            restarts.add(status);
            let goes_on = self.names.contains(&text(status, "/name"));
            if goes_on {
                self.restarts.add(status);
            }
            if number(status, "/state/terminated/exitCode") == Some(0) {
                continue;
            }
            if goes_on && status.get("started") == Some(&Value::Bool(true)) {
                self.ready += usize::from(status.get("ready") == Some(&Value::Bool(true)));
                continue;
            }
            return Some(match Container::of(status) {
                Container::Waiting(reason) if reason == "PodInitializing" => {
                    format!("Init:{index}/{}", all.len())
                }
                Container::Waiting(said) | Container::Ended(said) => format!("Init:{said}"),
                Container::Ready | Container::Other => format!("Init:{index}/{}", all.len()),
            });
        }
        None
    }
}

/// How a container is.
enum Container {
    Waiting(String),
    Ended(String),
    Ready,
    Other,
}

impl Container {
    fn of(status: &Value) -> Self {
        let (waiting, ended) =
            (text(status, "/state/waiting/reason"), text(status, "/state/terminated/reason"));
        if !waiting.is_empty() {
            return Container::Waiting(waiting.to_owned());
        }
        if !ended.is_empty() {
            return Container::Ended(ended.to_owned());
        }
        if status.pointer("/state/terminated").is_some() {
            let signal = number(status, "/state/terminated/signal").unwrap_or_default();
            let code = number(status, "/state/terminated/exitCode").unwrap_or_default();
            return Container::Ended(if signal == 0 {
                format!("ExitCode:{code}")
            } else {
                format!("Signal:{signal}")
            });
        }
        let is_ready = status.get("ready") == Some(&Value::Bool(true));
        if is_ready && status.pointer("/state/running").is_some() {
            Container::Ready
        } else {
            Container::Other
        }
    }
}

/// How many of its gates are open.
pub(super) fn gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_open = |gate: &&Value| condition(pod, text(gate, "/conditionType")) == Some("True");
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

/// What a row says of a pod that is over.
pub(crate) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}
