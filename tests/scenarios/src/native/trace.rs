//! Who came and went in a namespace, in which order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Resource, ResourceExt};

use crate::observer::{Followed, Onlooking};

/// What has been seen of sets, pods and claims.
#[derive(Debug, Default)]
pub struct Trace {
    /// Every move of a pod, in the order in which the API server made them.
    pub moves: Vec<Move>,
    /// What each object that was ever seen is called, by UID: the same in every run.
    pub callings: HashMap<String, String>,
    /// For each deletion of a pod, how many other pods that had been there were not Ready at that time.
    pub down_at_deletions: Vec<usize>,
    /// The live objects of each kind by name.
    live: BTreeMap<(&'static str, String), Live>,
    lives: HashMap<(&'static str, String), usize>,
    pub(super) violations: Vec<String>,
}

#[derive(Debug)]
struct Live {
    uid: String,
    leaving: bool,
    ready: bool,
}

/// Something that happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// What.
    pub verb: Verb,
    /// The pod, and its which life this is.
    pub pod: String,
}

/// What happens to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// It is there.
    Created,
    /// Its deletion was asked for.
    Deleted,
    /// It is not there any more.
    Gone,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Created => "created",
            Verb::Deleted => "deleted",
            Verb::Gone => "gone",
        };
        write!(f, "{verb} {}", self.pod)
    }
}

const POD: &str = "Pod";
const SET: &str = "StatefulSet";
const CLAIM: &str = "PersistentVolumeClaim";

impl Trace {
    /// The UIDs of the live objects of all kinds, and whether each is on its way out.
    pub fn live(&self) -> impl Iterator<Item = (&str, bool)> {
        self.live.values().map(|live| (live.uid.as_str(), live.leaving))
    }

    /// How many pods have had this name.
    pub fn lives_of(&self, pod: &str) -> usize {
        self.lives.get(&(POD, pod.to_owned())).copied().unwrap_or_default()
    }

    /// All moves as text, one a line.
    pub fn timeline(&self) -> String {
        let lines: Vec<_> = self.moves.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    /// `ready` matters for pods only.
    fn seen(&mut self, kind: &'static str, object: &impl Resource, ready: bool) {
        let name = object.name_any();
        let uid = object.uid().unwrap_or_default();
        let leaving = object.meta().deletion_timestamp.is_some();
        let key = (kind, name.clone());
        let known = self.live.get(&key).filter(|live| live.uid == uid).map(|live| live.leaving);
        if known.is_none() {
            self.gone(kind, &name);
            let life = self.lives.entry(key.clone()).or_default();
            *life += 1;
            self.callings.insert(uid.clone(), format!("{kind} {name} #{life}"));
            self.note(kind, Verb::Created, &uid);
        }
        if leaving && known != Some(true) {
            self.note(kind, Verb::Deleted, &uid);
        }
        self.live.insert(key, Live { uid, leaving, ready });
    }

    fn gone(&mut self, kind: &'static str, name: &str) {
        let Some(live) = self.live.remove(&(kind, name.to_owned())) else { return };
        // Without grace the deletion is the end.
        if !live.leaving {
            self.note(kind, Verb::Deleted, &live.uid);
        }
        self.note(kind, Verb::Gone, &live.uid);
    }

    fn note(&mut self, kind: &str, verb: Verb, uid: &str) {
        if kind == POD {
            let pod = self.callings[uid].trim_start_matches("Pod ").to_owned();
            if verb == Verb::Deleted {
                let down = self.others_down(&pod);
                self.down_at_deletions.push(down);
            }
            self.moves.push(Move { verb, pod });
        }
    }

    fn others_down(&self, pod: &str) -> usize {
        let itself = pod.rsplit_once(" #").map_or(pod, |(name, _)| name);
        let up = |key| self.live.get(key).is_some_and(|live| live.ready && !live.leaving);
        let others = self.lives.keys().filter(|(kind, name)| *kind == POD && name != itself);
        others.filter(|key| !up(*key)).count()
    }

    fn names(&self, kind: &str) -> Vec<(String, Option<String>)> {
        let of_kind = self.live.iter().filter(|((known, _), _)| *known == kind);
        of_kind.map(|((_, name), live)| (name.clone(), Some(live.uid.clone()))).collect()
    }
}

impl Onlooking for Trace {
    fn timeline(&self) -> String {
        self.timeline()
    }

    fn violations(&self) -> &[String] {
        &self.violations
    }

    fn violate(&mut self, words: String) {
        self.violations.push(words);
    }

    fn after_a_gap(&mut self, look: impl FnOnce(&mut Self)) {
        look(self);
        self.violate("the onlooker was cut off, so the order of things is not known".to_owned());
    }
}

/// The kinds whose comings and goings are followed.
macro_rules! followed {
    ($($kind:ty: $word:ident, $ready:expr;)*) => {$(
        impl Followed<Trace> for $kind {
            fn seen(self, trace: &mut Trace) {
                trace.seen($word, &self, ($ready)(&self));
            }

            fn gone(name: &str, trace: &mut Trace) {
                trace.gone($word, name);
            }

            fn names(trace: &Trace) -> Vec<(String, Option<String>)> {
                trace.names($word)
            }
        }
    )*};
}
followed!(Pod: POD, is_ready; StatefulSet: SET, |_| true; PersistentVolumeClaim: CLAIM, |_| true;);

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|known| known.type_ == "Ready" && known.status == "True")
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
