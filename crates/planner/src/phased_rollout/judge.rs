//! From an answer to a verdict. Nobody flips the meaning of a query unnoticed: this file is the only place for it.

use sts_plus_api::phased_rollout::{
    Compare, ErrorPolicy, NoDataPolicy, Operator, Reduce, Verdict, WarningPolicy,
};

use super::answer::{Answer, Data, QueryError, Weight};
use super::policy::{Check, Rule};

/// Values that a verdict names before it counts the rest.
const NAMED_VALUES: usize = 3;

/// Characters of a text answer that are kept: it reaches the status.
const MAX_TEXT_CHARACTERS: usize = 64;

/// Warnings and infos of one answer that are kept: they reach the status.
pub const MAX_REMARKS: usize = 5;

/// What a query counts as, and why in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What it counts as.
    pub verdict: Verdict,
    /// What the answer was.
    pub value: Option<String>,
    /// What was wrong, where there was no usable answer.
    pub error: Option<String>,
    /// What the server warned of.
    pub warnings: Vec<String>,
}

/// Judges what came back for a check and its guard query.
pub fn judge(
    check: &Check,
    answer: &Result<Answer, QueryError>,
    guard: Option<&Result<Answer, QueryError>>,
) -> Judgement {
    match guard {
        Some(Err(error)) => return failed(check, "the guard query", error),
        Some(Ok(guard)) => {
            let empty = is_empty(&guard.data);
            let silent =
                || "the guard query in requireData returned no data: is anything scraped?".to_owned();
            let error = doubt(check, "the guard query", guard, empty).or_else(|| empty.then(silent));
            if let Some(error) = error {
                return unusable(check, guard, error);
            }
        }
        None => {}
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return failed(check, "the query", error),
    };
    let numbers = numbers(&answer.data);
    // A value that is not a number counts as absent where values are compared, so an answer of such values is empty.
    let empty = match &check.rule {
        Rule::Compare { .. } => matches!(&numbers, Ok(numbers) if numbers.is_empty()),
        Rule::NoData | Rule::Data { .. } => is_empty(&answer.data),
    };
    if let Some(error) = doubt(check, "the query", answer, empty) {
        return unusable(check, answer, error);
    }
    let passed = |passed: bool| if passed { Verdict::Pass } else { Verdict::Fail };
    let verdict = match &check.rule {
        Rule::NoData => passed(empty),
        Rule::Data { no_data } if empty => without_data(*no_data),
        Rule::Data { .. } => Verdict::Pass,
        Rule::Compare { compare, no_data } => match numbers {
            Ok(numbers) if numbers.is_empty() => without_data(*no_data),
            Ok(numbers) => passed(compares(compare, &numbers)),
            Err(text) => {
                let error = QueryError::Config(format!("its answer is a text and no number: {text:?}"));
                return failed(check, "the query", &error);
            }
        },
    };
    Judgement { verdict, value: Some(in_words(answer)), error: None, warnings: remarks(answer) }
}

/// What keeps an answer from being believed: it may lack the very series that matter.
fn doubt(check: &Check, what: &str, answer: &Answer, empty: bool) -> Option<String> {
    if answer.partial {
        let why = "its answer is partial: the server could not read all of the data (isPartial)";
        return Some(format!("{what} got no usable answer: {why}"));
    }
    let matters = |warning: &&String| match (check.on_warnings, Weight::of(warning)) {
        (WarningPolicy::Ignore, _) | (_, Weight::Info) => false,
        (WarningPolicy::Error, Weight::Evaluation) => empty,
        (WarningPolicy::Error, Weight::Incomplete) => true,
    };
    let warning = answer.warnings.iter().find(matters)?;
    Some(format!(
        "{what} got no usable answer: its answer carries a warning, which only onWarnings: Ignore accepts: {warning}"
    ))
}

fn unusable(check: &Check, answer: &Answer, error: String) -> Judgement {
    Judgement {
        verdict: counted(check, Verdict::Error),
        value: None,
        error: Some(error),
        warnings: remarks(answer),
    }
}

/// What the server said besides the result: it reaches the status.
fn remarks(answer: &Answer) -> Vec<String> {
    answer.warnings.iter().chain(&answer.infos).take(MAX_REMARKS).cloned().collect()
}

fn failed(check: &Check, what: &str, error: &QueryError) -> Judgement {
    let (verdict, message) = match error {
        QueryError::Config(message) => (Verdict::ConfigError, format!("{what} cannot be asked: {message}")),
        QueryError::Rejected { code, message } => {
            (Verdict::Rejected, format!("the server refuses {what} ({code}): {message}"))
        }
        QueryError::Failed(message) => (Verdict::Error, format!("{what} got no answer: {message}")),
    };
    Judgement { verdict: counted(check, verdict), value: None, error: Some(message), warnings: Vec::new() }
}

/// What an error counts as by the check's policy.
fn counted(check: &Check, verdict: Verdict) -> Verdict {
    match check.on_error {
        ErrorPolicy::Wait => verdict,
        ErrorPolicy::Fail => Verdict::Fail,
    }
}

fn without_data(policy: NoDataPolicy) -> Verdict {
    match policy {
        NoDataPolicy::Fail => Verdict::Fail,
        NoDataPolicy::Wait => Verdict::NoData,
        NoDataPolicy::Pass => Verdict::Pass,
    }
}

fn is_empty(data: &Data) -> bool {
    matches!(data, Data::Series(values) if values.is_empty())
}

/// The values that are numbers; a text that is none is handed back.
fn numbers(data: &Data) -> Result<Vec<f64>, &str> {
    let numbers = match data {
        Data::Series(values) => values.clone(),
        Data::Scalar(value) => vec![*value],
        Data::Text(text) => vec![text.trim().parse().map_err(|_| text.as_str())?],
    };
    Ok(numbers.into_iter().filter(|number| !number.is_nan()).collect())
}

fn compares(compare: &Compare, numbers: &[f64]) -> bool {
    let holds = |value: f64| match compare.operator {
        Operator::Less => value < compare.threshold,
        Operator::LessOrEqual => value <= compare.threshold,
        Operator::Greater => value > compare.threshold,
        Operator::GreaterOrEqual => value >= compare.threshold,
        Operator::Equal => (value - compare.threshold).abs() <= f64::EPSILON,
        Operator::NotEqual => (value - compare.threshold).abs() > f64::EPSILON,
    };
    let sum = || numbers.iter().sum::<f64>();
    let values = || numbers.iter().copied();
    match compare.reduce {
        Reduce::All => values().all(holds),
        Reduce::Any => values().any(holds),
        Reduce::Sum => holds(sum()),
        Reduce::Avg => holds(sum() / f64::from(u32::try_from(numbers.len()).unwrap_or(u32::MAX))),
        Reduce::Max => holds(values().fold(f64::NEG_INFINITY, f64::max)),
        Reduce::Min => holds(values().fold(f64::INFINITY, f64::min)),
    }
}

fn in_words(answer: &Answer) -> String {
    match &answer.data {
        Data::Series(values) if values.is_empty() => "no data".to_owned(),
        Data::Series(values) => {
            let named: Vec<_> = values.iter().take(NAMED_VALUES).map(ToString::to_string).collect();
            let rest = if values.len() > NAMED_VALUES { ", ..." } else { "" };
            let least = if answer.more { " or more" } else { "" };
            format!("{}{least} series: {}{rest}", values.len(), named.join(", "))
        }
        Data::Scalar(value) => format!("scalar {value}"),
        Data::Text(text) => {
            format!("text {:?}", text.chars().take(MAX_TEXT_CHARACTERS).collect::<String>())
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
