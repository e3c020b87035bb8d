use sts_plus_api::phased_rollout::WarningPolicy;
use sts_plus_api::phased_rollout::{Compare, ErrorPolicy, NoDataPolicy, Operator, Query, Reduce, Verdict};

use super::{Judgement, judge};
use crate::phased_rollout::answer::{Answer, Data, QueryError};
use crate::phased_rollout::policy::{Check, Rule};

fn check(rule: Rule) -> Check {
    Check {
        name: "check".to_owned(),
        delay: jiff::SignedDuration::ZERO,
        period: jiff::SignedDuration::from_secs(10),
        successes: 1,
        failures: None,
        errors: None,
        rule,
        on_error: ErrorPolicy::Wait,
        on_warnings: WarningPolicy::Error,
        guard: None,
        query: Query {
            expr: "up{}".to_owned(),
            url: "http://prom:9090".to_owned(),
            secret_ref: None,
            insecure_skip_verify: false,
            ca_secret_ref: None,
            client_cert_secret_ref: None,
            headers: Vec::new(),
            timeout_seconds: 5,
        },
    }
}

fn compare(operator: Operator, threshold: f64, reduce: Reduce) -> Rule {
    Rule::Compare { compare: Compare { operator, threshold, reduce }, no_data: NoDataPolicy::Fail }
}

#[expect(clippy::unnecessary_wraps, reason = "a reply like the others")]
fn answer(data: Data) -> Result<Answer, QueryError> {
    Ok(Answer::new(data))
}

fn verdict(rule: Rule, data: Data) -> Verdict {
    judge(&check(rule), &answer(data), None).verdict
}

/// Nobody flips the meaning of a query unnoticed.
#[test]
fn b_a14_2_the_verdict_of_each_rule_on_each_kind_of_answer() {
    use Verdict::{ConfigError, Fail, NoData, Pass};
    let data = |no_data| Rule::Data { no_data };
    let less = |no_data| Rule::Compare {
        compare: Compare { operator: Operator::Less, threshold: 5.0, reduce: Reduce::All },
        no_data,
    };
    let answers = [
        Data::Series(vec![]),
        Data::Series(vec![1.0]),
        Data::Series(vec![1.0, 9.0]),
        Data::Series(vec![0.0]),
        Data::Series(vec![f64::NAN]),
        Data::Series(vec![f64::NAN, 1.0]),
        Data::Scalar(1.0),
        Data::Scalar(9.0),
        Data::Scalar(f64::NAN),
        Data::Text(String::new()),
        Data::Text("words".to_owned()),
        Data::Text(" 1.5 ".to_owned()),
    ];
    let matrix: [(Rule, [Verdict; 12]); 7] = [
        (Rule::NoData, [Pass, Fail, Fail, Fail, Fail, Fail, Fail, Fail, Fail, Fail, Fail, Fail]),
        (data(NoDataPolicy::Fail), [Fail, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass]),
        (
            data(NoDataPolicy::Wait),
            [NoData, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass, Pass],
        ),
        (data(NoDataPolicy::Pass), [Pass; 12]),
        (
            less(NoDataPolicy::Fail),
            [Fail, Pass, Fail, Pass, Fail, Pass, Pass, Fail, Fail, ConfigError, ConfigError, Pass],
        ),
        (
            less(NoDataPolicy::Wait),
            [NoData, Pass, Fail, Pass, NoData, Pass, Pass, Fail, NoData, ConfigError, ConfigError, Pass],
        ),
        (
            less(NoDataPolicy::Pass),
            [Pass, Pass, Fail, Pass, Pass, Pass, Pass, Fail, Pass, ConfigError, ConfigError, Pass],
        ),
    ];
    for (rule, verdicts) in matrix {
        for (data, expected) in answers.iter().zip(verdicts) {
            assert_eq!(verdict(rule.clone(), data.clone()), expected, "{rule:?} on {data:?}");
        }
    }
}

#[test]
fn b_a14_2_each_comparison_with_each_way_to_reduce() {
    let values = || Data::Series(vec![1.0, 2.0, 6.0]);
    for (operator, threshold, reduce, holds) in [
        (Operator::Less, 7.0, Reduce::All, true),
        (Operator::Less, 6.0, Reduce::All, false),
        (Operator::LessOrEqual, 6.0, Reduce::All, true),
        (Operator::Greater, 5.0, Reduce::Any, true),
        (Operator::Greater, 6.0, Reduce::Any, false),
        (Operator::GreaterOrEqual, 6.0, Reduce::Any, true),
        (Operator::Equal, 9.0, Reduce::Sum, true),
        (Operator::NotEqual, 9.0, Reduce::Sum, false),
        (Operator::Equal, 3.0, Reduce::Avg, true),
        (Operator::Equal, 6.0, Reduce::Max, true),
        (Operator::Equal, 1.0, Reduce::Min, true),
        (Operator::NotEqual, 1.0, Reduce::Min, false),
    ] {
        let expected = if holds { Verdict::Pass } else { Verdict::Fail };
        let found = verdict(compare(operator, threshold, reduce), values());
        assert_eq!(found, expected, "{operator:?} {threshold} {reduce:?}");
    }
    let infinite = || Data::Series(vec![f64::INFINITY]);
    assert_eq!(verdict(compare(Operator::Greater, 5.0, Reduce::All), infinite()), Verdict::Pass);
    assert_eq!(verdict(compare(Operator::Equal, 5.0, Reduce::All), infinite()), Verdict::Fail);
    assert_eq!(verdict(compare(Operator::NotEqual, 5.0, Reduce::All), infinite()), Verdict::Pass);
}

#[test]
fn a_guard_query_must_return_data_before_the_check_is_judged() {
    let judged = |guard: Result<Answer, QueryError>, policy| {
        let check = Check { on_error: policy, ..check(Rule::NoData) };
        judge(&check, &answer(Data::Series(vec![])), Some(&guard))
    };
    let dead = || answer(Data::Series(vec![]));
    assert_eq!(judged(answer(Data::Series(vec![1.0])), ErrorPolicy::Wait).verdict, Verdict::Pass);
    let Judgement { verdict, error, .. } = judged(dead(), ErrorPolicy::Wait);
    assert_eq!(verdict, Verdict::Error, "silence is not success");
    assert!(error.unwrap().contains("requireData returned no data"));
    assert_eq!(judged(dead(), ErrorPolicy::Fail).verdict, Verdict::Fail);
    let refused = QueryError::Rejected { code: 400, message: "parse error".to_owned() };
    let Judgement { verdict, error, .. } = judged(Err(refused), ErrorPolicy::Wait);
    assert_eq!(verdict, Verdict::Rejected);
    assert_eq!(error.unwrap(), "the server refuses the guard query (400): parse error");
}

fn remarked(data: Data, partial: bool, warnings: &[&str], infos: &[&str]) -> Answer {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Answer { partial, warnings: owned(warnings), infos: owned(infos), ..Answer::new(data) }
}

/// An answer from which series are missing must not let a pod pass, nor count as a failure.
#[test]
fn a_partial_answer_or_one_with_a_warning_is_no_verdict() {
    use Verdict::{Error, Fail, Pass};
    const INFO: &str = "PromQL info: metric might not be a counter";
    const PROMQL: &str = "PromQL warning: ignored histograms in a range";
    const OTHER: &str = "store 10.0.0.7:10901 is not reachable";
    let no_data = || Rule::NoData;
    let data = || Rule::Data { no_data: NoDataPolicy::Pass };
    let less = || Rule::Compare {
        compare: Compare { operator: Operator::Less, threshold: 5.0, reduce: Reduce::All },
        no_data: NoDataPolicy::Pass,
    };
    let (none, some) = (Data::Series(vec![]), Data::Series(vec![1.0]));
    let not_a_number = Data::Series(vec![f64::NAN]);
    let none_info = || remarked(none.clone(), false, &[INFO], &["anything"]);
    let cases: [(Rule, Answer, [Verdict; 2]); 19] = [
        // Per rule: with onWarnings Error, and with Ignore.
        (no_data(), none_info(), [Pass, Pass]),
        (data(), none_info(), [Pass, Pass]),
        (less(), none_info(), [Pass, Pass]),
        (no_data(), remarked(none.clone(), false, &[PROMQL], &[]), [Error, Pass]),
        (no_data(), remarked(some.clone(), false, &[PROMQL], &[]), [Fail, Fail]),
        (data(), remarked(none.clone(), false, &[PROMQL], &[]), [Error, Pass]),
        (data(), remarked(some.clone(), false, &[PROMQL], &[]), [Pass, Pass]),
        (less(), remarked(none.clone(), false, &[PROMQL], &[]), [Error, Pass]),
        (less(), remarked(some.clone(), false, &[PROMQL], &[]), [Pass, Pass]),
        (less(), remarked(not_a_number.clone(), false, &[PROMQL], &[]), [Error, Pass]),
        (no_data(), remarked(none.clone(), false, &[INFO, PROMQL, OTHER], &[]), [Error, Pass]),
        (no_data(), remarked(some.clone(), false, &[OTHER], &[]), [Error, Fail]),
        (data(), remarked(some.clone(), false, &[OTHER], &[]), [Error, Pass]),
        (less(), remarked(some.clone(), false, &[OTHER], &[]), [Error, Pass]),
        (less(), remarked(Data::Scalar(1.0), false, &[OTHER], &[]), [Error, Pass]),
        (no_data(), remarked(none.clone(), true, &[], &[]), [Error, Error]),
        (no_data(), remarked(some.clone(), true, &[], &[]), [Error, Error]),
        (data(), remarked(some.clone(), true, &[], &[]), [Error, Error]),
        (less(), remarked(some.clone(), true, &[], &[]), [Error, Error]),
    ];
    for (rule, answer, verdicts) in cases {
        for (on_warnings, expected) in [WarningPolicy::Error, WarningPolicy::Ignore].into_iter().zip(verdicts)
        {
            let check = Check { on_warnings, ..check(rule.clone()) };
            let judged = judge(&check, &Ok(answer.clone()), None);
            assert_eq!(judged.verdict, expected, "{rule:?} {on_warnings:?} {answer:?}");
            assert_eq!(judged.error.is_some(), expected == Error, "{judged:?}");
            let strict = Check { on_error: ErrorPolicy::Fail, ..check };
            let counted = if expected == Error { Fail } else { expected };
            assert_eq!(judge(&strict, &Ok(answer.clone()), None).verdict, counted, "errorPolicy Fail");
        }
    }
    let judged = judge(&check(Rule::NoData), &Ok(remarked(none.clone(), false, &[OTHER], &["i"])), None);
    assert_eq!(judged.warnings, [OTHER, "i"], "the status shows both");
    assert!(judged.error.unwrap().contains(OTHER));
}

#[test]
fn the_guard_query_is_held_to_the_same_rules() {
    let guarded = |guard: Answer, on_warnings| {
        let check = Check { on_warnings, ..check(Rule::NoData) };
        judge(&check, &answer(Data::Series(vec![])), Some(&Ok(guard))).verdict
    };
    let some = || Data::Series(vec![1.0]);
    for (guard, verdicts) in [
        (remarked(some(), true, &[], &[]), [Verdict::Error; 2]),
        (remarked(some(), false, &["cut"], &[]), [Verdict::Error, Verdict::Pass]),
        (remarked(some(), false, &["PromQL warning: w"], &[]), [Verdict::Pass; 2]),
        (remarked(some(), false, &["PromQL info: i"], &["i"]), [Verdict::Pass; 2]),
        (remarked(Data::Series(vec![]), false, &["PromQL warning: w"], &[]), [Verdict::Error; 2]),
    ] {
        for (on_warnings, expected) in [WarningPolicy::Error, WarningPolicy::Ignore].into_iter().zip(verdicts)
        {
            assert_eq!(guarded(guard.clone(), on_warnings), expected, "{guard:?} {on_warnings:?}");
        }
    }
}

#[test]
fn values_are_told_in_few_words() {
    let told = |data| judge(&check(Rule::NoData), &answer(data), None).value.unwrap();
    assert_eq!(told(Data::Series(vec![])), "no data");
    assert_eq!(told(Data::Series(vec![1.5, 2.0])), "2 series: 1.5, 2");
    assert_eq!(told(Data::Series(vec![1.0; 9])), "9 series: 1, 1, 1, ...");
    let stopped = Answer { more: true, ..Answer::new(Data::Series(vec![5.0])) };
    let value = judge(&check(Rule::NoData), &Ok(stopped), None).value.unwrap();
    assert_eq!(value, "1 or more series: 5", "reading stops at the first");
    assert_eq!(told(Data::Scalar(0.25)), "scalar 0.25");
    assert_eq!(told(Data::Text("\"é".repeat(100))).chars().filter(|c| *c == 'é').count(), 32, "bounded");
}
