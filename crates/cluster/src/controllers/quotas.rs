//! The status of ResourceQuotas: what they limit, and how much of it there is.

use serde_json::Value;

use crate::kinds::quotas;
use crate::machinery::object;
use crate::machinery::state::State;
use crate::machinery::write;

/// Counts the quotas of a namespace anew.
pub(super) fn count(state: &mut State, namespace: &str) {
    let Some(row) = state.row("", "resourcequotas") else {
        return;
    };
    for quota in state.objects("", "resourcequotas", Some(namespace)) {
        let used = quotas::used(state, &quota);
        let hard = quota.pointer("/spec/hard").cloned();
        write::amend(state, &row, &row.key(namespace, object::name(&quota)), |quota| {
            let status = object::child(quota, "status");
            status.insert("used".into(), used.into());
            status.insert("hard".into(), hard.unwrap_or_else(|| Value::Object(serde_json::Map::new())));
        });
    }
}
