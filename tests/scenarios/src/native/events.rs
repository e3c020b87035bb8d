//! What was told of sets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};

use super::picture::without_namespace;

/// Who tells, in the name of both.
const COMPONENT: &str = "statefulset-controller";

/// How the message of several events in one begins.
const COMBINED: &str = "(combined from similar events): ";

/// What separates the messages of several events in one.
const SEPARATOR: &str = "; ";

/// Theirs drops what goes beyond so many events about one set.
const THEIR_BURST: i32 = 25;

/// Theirs deletes a pod again, and tells it again, where its cache has not seen the first deletion yet.
const DELETED: &str = "SuccessfulDelete";

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

    /// Whether something about a set may have been dropped.
    fn incomplete(&self, set: &str) -> bool {
        let about: Vec<_> = self.told.iter().filter(|((known, _, _), _)| known == set).collect();
        about.iter().map(|(_, told)| told.count).sum::<i32>() >= THEIR_BURST
            || about.iter().any(|(_, told)| told.swallowed)
            || self.lost_races.contains(set)
    }

    /// Whether the others have told the same. Warnings tell of attempts, whose number is a question of time; where
    /// one has dropped some, the other has told at least the rest.
    pub fn compare(&self, ours: &Self) -> Vec<String> {
        let keys: BTreeSet<_> = self.told.keys().chain(ours.told.keys()).collect();
        let nothing = Told::default();
        let differs = |key: &&(String, String, String)| {
            let [theirs, told] = [self, ours].map(|side| side.told.get(*key).unwrap_or(&nothing));
            let [theirs_lack, ours_lack] = [self, ours].map(|side| side.incomplete(&key.0));
            let counts = key.1 == "Normal" && key.2 != DELETED && !theirs_lack && !ours_lack;
            (!ours_lack && !theirs.messages.is_subset(&told.messages))
                || (!theirs_lack && !told.messages.is_subset(&theirs.messages))
                || (counts && theirs.count != told.count)
        };
        let describe = |key: &(String, String, String)| {
            let shown = |events: &Self| format!("{:?}", events.told.get(key).unwrap_or(&nothing));
            format!(
                "events {} {} of {}\n    theirs: {}\n    ours:   {}",
                key.1,
                key.2,
                key.0,
                shown(self),
                shown(ours)
            )
        };
        keys.into_iter().filter(differs).map(describe).collect()
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
