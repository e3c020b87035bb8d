//! The monitor, as far as it looks at ExtendedStatefulSets.

use std::time::Duration;

use sts_plus_cluster::machinery::chronicle::Told;

use super::rules;
use crate::call::Call;
use crate::monitor::{Inner, Monitor, Sent};
use crate::truth::{Pod, text};

/// Whether an ExtendedStatefulSet may have to do with objects of a kind.
fn concerns(plural: &str) -> bool {
    matches!(plural, "extendedstatefulsets" | "configmaps" | "services" | "statefulsets" | "pods")
}

impl Monitor {
    /// Looks at a change, which `inner.truth` has already; `pod` is what a pod was before.
    pub(crate) fn look_at_extended(&self, inner: &mut Inner, now: Duration, told: &Told, pod: Option<&Pod>) {
        let Told { plural, name, object, deleted, .. } = told;
        if !concerns(plural) {
            return;
        }
        let mut broken = Vec::new();
        let mut known = std::mem::take(&mut inner.truth.extended);
        let (extended, truth) = (&mut known, &inner.truth);
        match plural.as_str() {
            "extendedstatefulsets" => extended.take_object(now, object, *deleted),
            "configmaps" => extended.take_config(now, name, object, *deleted),
            "services" => extended.take_service(name, object, *deleted),
            "statefulsets" if !deleted => {
                let uid = text(&object["metadata"]["uid"]);
                if let Some(carried) = extended.take_set(&uid, object) {
                    broken = rules::of_set(extended, truth, name, &uid, &carried);
                }
            }
            "pods" => {
                let after = Pod::read(name, object);
                extended.take_pod(now, &after, *deleted);
                let was_active = pod.is_some_and(|pod| pod.uid == after.uid && pod.active);
                if after.active && !was_active && !deleted && inner.fences_labels {
                    broken.extend(rules::of_label(extended, truth, &after));
                }
            }
            _ => {}
        }
        extended.note_promoted(now, truth);
        inner.truth.extended = known;
        for words in broken {
            self.violate(inner, words);
        }
    }

    /// Judges a write of an operator that the server has accepted.
    pub(crate) fn judge_extended(
        &self,
        inner: &mut Inner,
        now: Duration,
        who: &str,
        call: &Call,
        sent: &Sent,
    ) {
        let deletes = call.method == http::Method::DELETE;
        let Inner { truth, absence, .. } = inner;
        let extended = &truth.extended;
        let mut broken = Vec::new();
        match call.plural.as_str() {
            "services" if deletes && !sent.owns_service => {
                broken.push(format!(
                    "owned: {who} deletes the Service {}, which belongs to somebody else",
                    call.name
                ));
            }
            "statefulsets" if deletes => {
                if let Some(set) = &sent.set {
                    broken = rules::of_removal(extended, now, truth, who, &call.name, set);
                }
                if !rules::is_bound(&call.json()) {
                    broken.push(format!("I5: {who} deletes {} without preconditions", call.name));
                }
                if absence.is_blind() {
                    broken.push(format!(
                        "I14: {who} deletes {} although nobody can see what there is",
                        call.name
                    ));
                }
            }
            "statefulsets" if call.subresource.is_empty() => {
                let name = if call.name.is_empty() {
                    text(&call.json()["metadata"]["name"])
                } else {
                    call.name.clone()
                };
                if let Some(after) = truth.sets.get(&name) {
                    broken = rules::of_write(extended, who, sent.set.as_ref(), &name, after);
                }
            }
            _ => {}
        }
        for words in broken {
            self.violate(inner, words);
        }
    }
}
