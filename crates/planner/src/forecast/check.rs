//! The Prometheus of a forecast: an answer that a check judges as it is assumed to.

use sts_plus_api::phased_rollout::Verdict;

use crate::phased_rollout::answer::{Answer, Data, QueryError};
use crate::phased_rollout::gate::{Outcome, Question};
use crate::phased_rollout::judge::judge;
use crate::phased_rollout::policy::{Check, Rule};

/// What comes back for a question.
pub(super) fn outcome(question: &Question, passes: bool, asked_at: jiff::Timestamp) -> Outcome {
    let wanted = if passes { Verdict::Pass } else { Verdict::Fail };
    Outcome {
        check: question.check.name.clone(),
        step: question.step.clone(),
        asked_at,
        answer: answer(&question.check, wanted),
        guard: question.check.guard.as_ref().map(|_| Ok(series(&[1.0]))),
    }
}

/// The first answer that gets the wanted verdict: which one does is for the check to say.
fn answer(check: &Check, wanted: Verdict) -> Result<Answer, QueryError> {
    let value = match &check.rule {
        Rule::Compare { compare, .. } => compare.threshold,
        Rule::NoData | Rule::Data { .. } => 1.0,
    };
    let guard = Ok(series(&[1.0]));
    let guard = check.guard.as_ref().map(|_| &guard);
    let candidates = [series(&[value]), series(&[value + 1.0]), series(&[value - 1.0]), series(&[])];
    let fits = |answer: &Result<Answer, QueryError>| judge(check, answer, guard).verdict == wanted;
    let unknown = || Err(QueryError::Failed("no answer is known that gets the assumed verdict".to_owned()));
    candidates.into_iter().map(Ok).find(fits).unwrap_or_else(unknown)
}

fn series(values: &[f64]) -> Answer {
    Answer::new(Data::Series(values.to_vec()))
}
