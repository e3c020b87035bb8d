//! Which sets have had broken pods: whoever calls a pod broken must have seen one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sts_plus_api::keys;

use crate::truth::{BEHIND, Truth, text};

/// The state of a set in its group that says so.
const BROKEN: &str = "PodBroken";

/// When a pod of each set was last broken, or was there no more and had been.
#[derive(Debug, Default)]
pub struct Defects(BTreeMap<String, Duration>);

impl Defects {
    /// A pod is about to change, or has changed.
    pub fn note(&mut self, now: Duration, truth: &Truth, pod: &str) {
        let is_broken = truth.pods.get(pod).is_some_and(|pod| pod.broken);
        if is_broken && let Some((set, _)) = pod.rsplit_once('-') {
            self.0.insert(set.to_owned(), now);
        }
    }

    /// What is wrong with a change of a set: it says that a pod is broken and nobody can have seen one.
    pub fn judge(
        &self,
        now: Duration,
        truth: &Truth,
        name: &str,
        before: &Value,
        after: &Value,
    ) -> Option<String> {
        let told = |object: &Value| {
            let told = text(&object["metadata"]["annotations"][keys::ROLLOUT_STATUS]);
            serde_json::from_str::<Value>(&told).unwrap_or_default()
        };
        let (before, after) = (told(before), told(after));
        let is_new = (&before["state"], &before["subject"]) != (&after["state"], &after["subject"]);
        let is_so = truth.pods_of(name).any(|pod| pod.broken)
            || self.0.get(name).is_some_and(|last| *last + BEHIND >= now);
        (after["state"] == BROKEN && is_new && !is_so)
            .then(|| format!("broken: {name} calls a pod broken, and none has been: {}", after["message"]))
    }
}
