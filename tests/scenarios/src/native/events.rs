//! What was told of sets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};

use serde_json::{Value, json};

use super::compare::Difference;
use super::picture::without_namespace;

/// Who tells, in the name of both.
const COMPONENT: &str = "statefulset-controller";

/// How the message of several events in one begins.
const COMBINED: &str = "(combined from similar events): ";

/// What separates the messages of several events in one.
const SEPARATOR: &str = "; ";

/// Theirs drops what goes beyond so many events about one set.
const THEIR_BURST: i32 = 25;

/// The type of events that tell of successes.
const NORMAL: &str = "Normal";

/// The reason of events that tell of deletions.
pub const DELETED: &str = "SuccessfulDelete";

/// What a writer that lost a race is told; theirs tells it on, and when that happens is chance. Where it happens to the
/// claim of a new pod, the creation of that pod is not told at all.
const LOST_RACE: &str = "the object has been modified";

/// The events about all sets of a namespace: by set, type and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    told: BTreeMap<(String, String, String), Told>,
    /// The sets for which a race was lost.
    lost_races: BTreeSet<String>,
}

/// Events of one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    count: i32,
    messages: BTreeSet<String>,
    /// Several were made one in the way of theirs, so that all messages but one are lost.
    swallowed: bool,
}

impl Events {
    /// Reads what has been told so far.
    pub async fn read(client: &Client, namespace: &str) -> kube::Result<Self> {
        let events = Api::<Event>::namespaced(client.clone(), namespace);
        let about = ListParams::default().fields("involvedObject.kind=StatefulSet");
        let mut told = Self::default();
        for event in events.list(&about).await? {
            told.take_in(event, namespace);
        }
        Ok(told)
    }

    fn take_in(&mut self, event: Event, namespace: &str) {
        if event.source.and_then(|source| source.component).as_deref() != Some(COMPONENT) {
            return;
        }
        let message = event.message.unwrap_or_default();
        let set = event.involved_object.name.unwrap_or_default();
        if message.contains(LOST_RACE) {
            self.lost_races.insert(set);
            return;
        }
        let key = (set, event.type_.unwrap_or_default(), event.reason.unwrap_or_default());
        let told = self.told.entry(key).or_default();
        told.count += event.count.unwrap_or(1);
        let message = without_namespace(&message, namespace);
        match message.strip_prefix(COMBINED) {
            Some(messages) => {
                told.swallowed |= !messages.contains(SEPARATOR);
                told.messages.extend(messages.split(SEPARATOR).map(str::to_owned));
            }
            None => drop(told.messages.insert(message)),
        }
    }

    /// Without the events of a reason.
    pub fn without(&mut self, reasons: &[String]) {
        self.told.retain(|(_, _, reason), _| !reasons.contains(reason));
    }

    /// How many deletions were told.
    pub fn deletions(&self) -> usize {
        let told = self.told.iter().filter(|((_, _, reason), _)| reason == DELETED);
        told.map(|(_, told)| usize::try_from(told.count).unwrap_or_default()).sum()
    }

    /// How often something went wrong, as far as it was told.
    pub fn warnings(&self) -> i32 {
        let told = self.told.iter().filter(|((_, severity, _), _)| severity != NORMAL);
        told.map(|(_, told)| told.count).sum()
    }

    /// What was told for a reason.
    pub fn messages<'a>(&'a self, reason: &'a str) -> impl Iterator<Item = &'a String> {
        let told = self.told.iter().filter(move |((_, _, known), _)| known == reason);
        told.flat_map(|(_, told)| &told.messages)
    }

    /// Whether something about a set may have been dropped.
    fn incomplete(&self, set: &str) -> bool {
        let about: Vec<_> = self.told.iter().filter(|((known, _, _), _)| known == set).collect();
        about.iter().map(|(_, told)| told.count).sum::<i32>() >= THEIR_BURST
            || about.iter().any(|(_, told)| told.swallowed)
            || self.lost_races.contains(set)
    }

    /// What the others have told otherwise, one difference for each set, type and reason.
    pub fn compare(&self, ours: &Self) -> Vec<Difference> {
        let keys: BTreeSet<_> = self.told.keys().chain(ours.told.keys()).collect();
        let differing = keys.into_iter().filter_map(|key| {
            let (theirs, ours) = (self.describe(key), ours.describe(key));
            let path = ["events", &key.0, &key.1, &key.2].map(str::to_owned).to_vec();
            (facts(&theirs) != facts(&ours)).then_some(Difference { path, theirs, ours })
        });
        differing.collect()
    }

    fn describe(&self, key: &(String, String, String)) -> Value {
        let nothing = Told::default();
        let told = self.told.get(key).unwrap_or(&nothing);
        // Warnings tell of attempts, and how many there are is a question of time.
        let count = (key.1 == NORMAL).then_some(told.count);
        json!({ "count": count, "messages": told.messages, "incomplete": self.incomplete(&key.0) })
    }
}

fn facts(told: &Value) -> (&Value, &Value) {
    (&told["count"], &told["messages"])
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
