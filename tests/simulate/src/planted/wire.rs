//! Faults that are planted in what passes over the wire.

use serde_json::{Value, json};

/// A pod, a list or an event of pods in which each init container that ended well has failed.
pub fn with_failed_init(mut answer: Value) -> Value {
    let fail = |pod: &mut Value| {
        let statuses = pod.pointer_mut("/status/initContainerStatuses").and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten() {
            if let Some(code) = status.pointer_mut("/state/terminated/exitCode") {
                *code = json!(1);
            }
        }
    };
    if let Some(items) = answer["items"].as_array_mut() {
        items.iter_mut().for_each(fail);
    } else if answer["object"].is_object() {
        fail(&mut answer["object"]);
    } else {
        fail(&mut answer);
    }
    answer
}
