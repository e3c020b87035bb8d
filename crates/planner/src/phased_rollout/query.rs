//! A query that is due, which gate it is asked for, and what came back.

use std::sync::Arc;

use jiff::Timestamp;

use super::answer::QueryError;
use super::judge::Judgement;
use super::placeholders::QueryContext;
use super::policy::Check;
use crate::pod::PodRow;
use crate::set::SetRow;

/// What came back from a query, judged once, when it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub check: String,
    /// The gate that it was asked for.
    pub gate: GateId,
    /// When the query was sent, in whole milliseconds, which is what a status keeps.
    pub asked_at: Timestamp,
    /// What the answer counts as.
    pub judgement: Judgement,
}

/// The gate that a query is asked for: an answer for another gate, or for another wording of the spec, does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateId {
    /// The generation of the rollout.
    pub generation: i64,
    /// The revision that is rolled out.
    pub revision: Box<str>,
    pub partition: i32,
}

/// A query that is due. It may wait for its turn for long and beside thousands, so its placeholders are filled in when
/// that has come: it costs no more than the check does in the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub check: Check,
    /// The gate it is asked for.
    pub gate: GateId,
    pub(super) set: Arc<SetRow>,
    /// The pod that the gate is about.
    pub(super) pod: Box<str>,
    /// The pods of the new revision.
    pub(super) updated: Vec<Arc<PodRow>>,
}

/// The expressions of a question, placeholders filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expressions {
    pub query: String,
    pub guard: Option<String>,
}

impl Question {
    /// Fills the placeholders in.
    pub fn fill(&self) -> Result<Expressions, QueryError> {
        let subject = QueryContext {
            namespace: &self.set.namespace,
            set: &self.set.name,
            pod: &self.pod,
            updated: self.updated.iter().map(|pod| &*pod.name).collect(),
            revision: &self.gate.revision,
        };
        let guard = self.check.guard.as_ref().map(|guard| subject.fill(guard)).transpose()?;
        Ok(Expressions { query: subject.fill(&self.check.query.expr)?, guard })
    }
}
