//! Rule C as somebody sees it who looks on: in a new term nothing is disrupted before the pods were read in it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::Call;
use crate::faults::{Fault, Plan};

/// What an operator sends just before its term ends may arrive after it has begun another one: a request takes 5 s at most.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// When the terms of operators began, and when they last read the pods.
#[derive(Debug, Default)]
pub struct Terms {
    /// By operator: the transitions of the lease that it has written last, and when it first did.
    began: BTreeMap<String, (i64, Duration)>,
    read: BTreeMap<String, Duration>,
    is_judged: bool,
}

impl Terms {
    /// No term has begun. A write that arrives long after it was decided may belong to an earlier term than it arrives in.
    pub fn new(plan: &Plan) -> Self {
        Self { is_judged: !plan.has(Fault::LateWrite), ..Self::default() }
    }

    /// The server has acted on a write of the lease.
    pub fn lease_written(&mut self, now: Duration, who: &str, call: &Call) {
        let Some(transitions) = call.json()["spec"]["leaseTransitions"].as_i64() else { return };
        let known = self.began.get(who).map(|(transitions, _)| *transitions);
        if known != Some(transitions) {
            self.began.insert(who.to_owned(), (transitions, now));
        }
    }

    /// A request was answered. A list counts, paged or streamed, where it may not be stale.
    pub fn answered(&mut self, now: Duration, who: &str, call: &Call) {
        let lists = !call.watches() || call.parameter("sendInitialEvents") == Some("true");
        let consistent = lists && call.parameter("resourceVersion").is_none_or(str::is_empty);
        if call.plural == "pods" && call.name.is_empty() && !call.writes() && consistent {
            self.read.insert(who.to_owned(), now);
        }
    }

    /// Whether an operator disrupts something although it has not read the pods in its term.
    pub fn is_unread(&self, now: Duration, who: &str) -> bool {
        let unread = |began: Duration| self.read.get(who).is_none_or(|read| *read < began);
        let began = self.began.get(who).map(|(_, began)| *began);
        self.is_judged && began.is_some_and(|began| unread(began) && began + UNDER_WAY < now)
    }
}
