//! Events: what controllers tell the owner of an object.

use serde_json::{Value, json};

use crate::chance;
use crate::machinery::object::{self, text};
use crate::machinery::state::State;
use crate::machinery::write;

/// What happened, and how it is told.
pub(super) struct Event<'a> {
    /// `Normal` or `Warning`.
    pub(super) kind: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    pub(super) component: &'a str,
}

/// Tells once: the same of the same object again changes nothing.
pub(super) fn event(state: &mut State, about: &Value, event: &Event<'_>) {
    let Some(row) = state.row("", "events") else {
        return;
    };
    let Event { kind, reason, message, component } = event;
    let (name, uid) = (object::name(about), object::uid(about));
    let namespace = match object::namespace(about) {
        "" => "default",
        namespace => namespace,
    };
    let now = state.now();
    let suffix = chance::draw(0, &format!("{uid}/{reason}/{message}"));
    let told = json!({
        "metadata": { "namespace": namespace, "name": format!("{name}.{suffix:016x}") },
        "involvedObject": {
            "apiVersion": text(about, "/apiVersion"), "kind": text(about, "/kind"),
            "namespace": object::namespace(about), "name": name, "uid": uid,
            "resourceVersion": text(about, "/metadata/resourceVersion"),
        },
        "type": kind, "reason": reason, "message": message,
        "source": { "component": component }, "reportingComponent": component,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    write::introduce(state, &row, told);
}
