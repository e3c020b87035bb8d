//! The status of PodDisruptionBudgets: how many pods there are, should be, and may go.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::machinery::object::{self, text};
use crate::machinery::selector::Selector;
use crate::machinery::state::State;
use crate::machinery::stored::Stored;
use crate::machinery::write;

/// How long an eviction counts against a budget while its pod is not seen to go.
const DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Counts the budgets of a namespace anew.
pub(super) fn count(state: &mut State, namespace: &str) {
    let Some(row) = state.row("policy", "poddisruptionbudgets") else {
        return;
    };
    let budgets = state.objects("policy", "poddisruptionbudgets", Some(namespace));
    if budgets.is_empty() {
        return;
    }
    let pods = state.objects("", "pods", Some(namespace));
    for budget in budgets {
        let Some(selector) = budget.pointer("/spec/selector").and_then(Selector::from_json) else {
            continue;
        };
        let covered: Vec<&Arc<Stored>> = pods.iter().filter(|pod| selector.matches(pod)).collect();
        let status = status(state, &budget, &covered);
        let key = row.key(namespace, object::name(&budget));
        let now = state.now();
        write::amend(state, &row, &key, |budget| {
            let conditions = conditions(budget, &status, &now);
            let said = object::child(budget, "status");
            for (field, value) in status {
                said.insert(field.to_owned(), value);
            }
            if said.get("disruptedPods").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
                said.remove("disruptedPods");
            }
            said.insert("conditions".into(), conditions);
        });
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = object::list(pod, "/status/conditions");
    conditions.iter().any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

type Status = Vec<(&'static str, Value)>;

fn status(state: &State, budget: &Value, pods: &[&Arc<Stored>]) -> Status {
    let now = state.clock.timestamp();
    let is_recent = |stamp: &Value| {
        let since = stamp.as_str().and_then(|stamp| stamp.parse::<Timestamp>().ok());
        since.is_some_and(|since| now.duration_since(since) < DISRUPTION_TIMEOUT)
    };
    let mut disrupted = serde_json::Map::new();
    for (name, stamp) in
        budget.pointer("/status/disruptedPods").and_then(Value::as_object).into_iter().flatten()
    {
        let is_here = pods.iter().any(|pod| object::name(pod) == name && !object::is_deleting(pod));
        if is_here && is_recent(stamp) {
            disrupted.insert(name.clone(), stamp.clone());
        }
    }
    let healthy = pods
        .iter()
        .filter(|pod| {
            !object::is_deleting(pod) && is_ready(pod) && !disrupted.contains_key(object::name(pod))
        })
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let present = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let (expected, desired) = match (spec.get("maxUnavailable"), spec.get("minAvailable")) {
        (Some(most), _) => {
            let expected = expected(state, pods);
            (expected, (expected - amount(most, expected)).max(0))
        }
        (None, Some(least @ Value::String(_))) => {
            let expected = expected(state, pods);
            (expected, amount(least, expected))
        }
        (None, Some(least)) => (present, least.as_i64().unwrap_or_default()),
        (None, None) => (present, 1),
    };
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    vec![
        ("currentHealthy", healthy.into()),
        ("desiredHealthy", desired.into()),
        ("expectedPods", expected.into()),
        ("disruptionsAllowed", allowed.into()),
        ("disruptedPods", disrupted.into()),
        ("observedGeneration", object::number(budget, "/metadata/generation").unwrap_or_default().into()),
    ]
}

/// How many pods there should be: the replicas of those who control the ones there are.
fn expected(state: &State, pods: &[&Arc<Stored>]) -> i64 {
    let mut controllers: std::collections::BTreeMap<&str, i64> = std::collections::BTreeMap::new();
    for pod in pods {
        let references = object::list(pod, "/metadata/ownerReferences");
        let Some(owner) = references.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
        else {
            continue;
        };
        let (group, _) = text(owner, "/apiVersion").split_once('/').unwrap_or_default();
        let Some(row) = state.table.named(group, text(owner, "/kind")) else {
            continue;
        };
        let scale = row.versions.first().and_then(|version| version.scale.as_ref());
        let found = state.store.get(&row.key(object::namespace(pod), text(owner, "/name")));
        if let (Some(scale), Some(found)) = (scale, found) {
            let replicas = object::number(found, &scale.spec_replicas).unwrap_or_default();
            controllers.insert(text(owner, "/uid"), replicas);
        }
    }
    controllers.values().sum()
}

/// A number, or a share that is rounded up.
fn amount(value: &Value, of: i64) -> i64 {
    match value {
        Value::String(share) => {
            let share: i64 = share.trim_end_matches('%').parse().unwrap_or_default();
            (share * of + 99) / 100
        }
        number => number.as_i64().unwrap_or_default(),
    }
}

fn conditions(budget: &Value, status: &Status, now: &str) -> Value {
    let allowed = status.iter().find(|(field, _)| *field == "disruptionsAllowed").map(|(_, value)| value);
    let is_allowed = allowed.and_then(Value::as_i64).unwrap_or_default() > 0;
    let (said, reason) = if is_allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let before = object::list(budget, "/status/conditions").iter().find(|one| text(one, "/status") == said);
    let since = before.map_or(now, |before| text(before, "/lastTransitionTime"));
    json!([{
        "type": "DisruptionAllowed", "status": said, "reason": reason, "message": "",
        "lastTransitionTime": since,
        "observedGeneration": object::number(budget, "/metadata/generation"),
    }])
}
