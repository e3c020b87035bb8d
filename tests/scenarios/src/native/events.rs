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

/// What a writer that lost a race is told; theirs tells it on, and when that happens is chance.
const LOST_RACE: &str = "the object has been modified";

/// The events about all sets of a namespace: by set, type and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(BTreeMap<(String, String, String), Told>);

/// Events of one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    count: i32,
    messages: BTreeSet<String>,
    /// Several were made one, and with theirs some of the messages are lost.
    combined: bool,
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
        let message = event.message.unwrap_or_default();
        let theirs_or_ours = event.source.and_then(|source| source.component).as_deref() == Some(COMPONENT);
        if !theirs_or_ours || message.contains(LOST_RACE) {
            return;
        }
        let set = event.involved_object.name.unwrap_or_default();
        let key = (set, event.type_.unwrap_or_default(), event.reason.unwrap_or_default());
        let told = self.0.entry(key).or_default();
        told.count += event.count.unwrap_or(1);
        let message = without_namespace(&message, namespace);
        match message.strip_prefix(COMBINED) {
            Some(messages) => {
                told.combined = true;
                told.messages.extend(messages.split(SEPARATOR).map(str::to_owned));
            }
            None => drop(told.messages.insert(message)),
        }
    }

    /// Without the events of a reason.
    pub fn without(&mut self, reasons: &[String]) {
        self.0.retain(|(_, _, reason), _| !reasons.contains(reason));
    }

    /// Whether the others have told the same. Warnings tell of attempts, whose number is a question of time; where
    /// theirs has dropped or combined some, ours has told at least the rest.
    pub fn compare(&self, ours: &Self) -> Vec<String> {
        let cut = |set: &str| {
            let about: Vec<_> = self.0.iter().filter(|((known, _, _), _)| known == set).collect();
            about.iter().map(|(_, told)| told.count).sum::<i32>() >= THEIR_BURST
                || about.iter().any(|(_, told)| told.combined)
        };
        let keys: BTreeSet<_> = self.0.keys().chain(ours.0.keys()).collect();
        let nothing = Told::default();
        let differs = |key: &&(String, String, String)| {
            let theirs = self.0.get(*key).unwrap_or(&nothing);
            let ours = ours.0.get(*key).unwrap_or(&nothing);
            if cut(&key.0) {
                return !theirs.messages.is_subset(&ours.messages);
            }
            theirs.messages != ours.messages || (key.1 == "Normal" && theirs.count != ours.count)
        };
        let describe = |key: &(String, String, String)| {
            let shown = |events: &Self| format!("{:?}", events.0.get(key).unwrap_or(&nothing));
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
