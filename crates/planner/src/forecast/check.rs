//! The Prometheus of a forecast: an answer that a check judges as it is assumed to.

use sts_plus_api::phased_rollout::Verdict;

use crate::phased_rollout::answer::{Answer, Data, QueryError};
use crate::phased_rollout::judge::{Judgement, judge};
use crate::phased_rollout::policy::{Check, Rule};
use crate::phased_rollout::query::{Outcome, Question};

/// What comes back for a question.
pub(super) fn outcome(question: &Question, passes: bool, asked_at: jiff::Timestamp) -> Outcome {
    let wanted = if passes { Verdict::Pass } else { Verdict::Fail };
    Outcome {
        check: question.check.name.clone(),
        gate: question.gate.clone(),
        asked_at,
        judgement: judgement(&question.check, wanted),
    }
}

/// How the first answer is judged that gets the wanted verdict: which one does is for the check to say.
fn judgement(check: &Check, wanted: Verdict) -> Judgement {
    let value = match &check.rule {
        Rule::Compare { compare, .. } => compare.threshold,
        Rule::NoData | Rule::Data { .. } => 1.0,
    };
    let guard = Ok(series(&[1.0]));
    let guard = check.guard.as_ref().map(|_| &guard);
    let candidates = [series(&[value]), series(&[value + 1.0]), series(&[value - 1.0]), series(&[])];
    let mut judged = candidates.into_iter().map(|answer| judge(check, &Ok(answer), guard));
    judged.find(|judgement| judgement.verdict == wanted).unwrap_or_else(|| {
        let unknown = QueryError::Failed("no answer is known that gets the assumed verdict".to_owned());
        judge(check, &Err(unknown), guard)
    })
}

fn series(values: &[f64]) -> Answer {
    Answer::new(Data::Series(values.to_vec()))
}
