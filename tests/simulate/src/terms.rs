//! Rule C as somebody sees it who looks on: in a new term nothing is disrupted before the pods were read in it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::Call;

/// The last term of each operator. What an operator sent before a term began may arrive in it: that is judged by neither.
#[derive(Debug, Default)]
pub struct Terms(BTreeMap<String, Term>);

#[derive(Debug)]
struct Term {
    /// The transitions of the lease that the operator has written.
    transitions: i64,
    /// When it first did.
    began: Duration,
    /// When the pods were first read in it.
    read: Option<Duration>,
}

impl Terms {
    /// The server has acted on a write of the lease.
    pub fn lease_written(&mut self, now: Duration, who: &str, call: &Call) {
        let Some(transitions) = call.json()["spec"]["leaseTransitions"].as_i64() else { return };
        if self.0.get(who).is_none_or(|term| term.transitions != transitions) {
            self.0.insert(who.to_owned(), Term { transitions, began: now, read: None });
        }
    }

    /// A request was answered. A list counts, paged or streamed, where it may not be stale.
    pub fn answered(&mut self, now: Duration, who: &str, call: &Call) {
        let lists = !call.watches() || call.parameter("sendInitialEvents") == Some("true");
        let consistent = lists && call.parameter("resourceVersion").is_none_or(str::is_empty);
        if call.plural == "pods"
            && call.name.is_empty()
            && !call.writes()
            && consistent
            && let Some(term) = self.0.get_mut(who)
        {
            term.read.get_or_insert(now);
        }
    }

    /// Whether an operator has sent this in its term, and before it has read the pods in it.
    pub fn is_unread(&self, who: &str, call: &Call) -> bool {
        let unread = |term: &Term| call.left >= term.began && term.read.is_none_or(|read| read > call.left);
        self.0.get(who).is_some_and(unread)
    }
}
