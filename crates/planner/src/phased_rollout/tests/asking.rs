//! What each kind of answer does to a gate (A14.1, A14.4): verdict, counters, the next look, what is said.

use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{ErrorPolicy, GateState, NoDataPolicy, Verdict};

use super::cluster::{Cluster, Reply, SECONDS, WEB, broken, data, empty, series};
use super::states::at;
use crate::phased_rollout::answer::{Answer, Data, QueryError};
use crate::phased_rollout::gate::REJECTED_RETRY;
use crate::phased_rollout::judge::judge;
use crate::phased_rollout::plan;

fn failed(message: &str) -> Reply {
    Err(QueryError::Failed(message.to_owned()))
}

fn refused(code: u16, message: &str) -> Reply {
    Err(QueryError::Rejected { code, message: message.to_owned() })
}

fn config(message: &str) -> Reply {
    Err(QueryError::Config(message.to_owned()))
}

#[expect(clippy::unnecessary_wraps, reason = "a reply like the others")]
fn answer(data: Data) -> Reply {
    Ok(Answer::new(data))
}

/// The answer, what it counts as, what the condition says, and how long until the next question.
type Row = (&'static str, Reply, Verdict, &'static str, i64);

fn table() -> Vec<Row> {
    let period = i64::from(SECONDS);
    let rejected = REJECTED_RETRY.as_secs();
    let ok = "Waiting for the checks: check passed 1 of 3 times";
    vec![
        ("data", data(), Verdict::Pass, ok, period),
        ("empty", empty(), Verdict::Fail, "check has failed once: no data", period),
        ("NaN", series(&[f64::NAN]), Verdict::Pass, ok, period),
        ("scalar", answer(Data::Scalar(0.0)), Verdict::Pass, ok, period),
        ("string", answer(Data::Text("hello".to_owned())), Verdict::Pass, ok, period),
        ("matrix", series(&[1.0, 2.0, 3.0, 4.0]), Verdict::Pass, ok, period),
        (
            "200 with an error envelope",
            failed("the server answered 200 with an error: timeout"),
            Verdict::Error,
            "the query got no answer: the server answered 200 with an error: timeout",
            period,
        ),
        (
            "422 of an execution",
            failed("the server answered 422: execution: no store matched"),
            Verdict::Error,
            "the query got no answer: the server answered 422: execution: no store matched",
            period,
        ),
        (
            "204",
            failed("the answer is empty"),
            Verdict::Error,
            "the query got no answer: the answer is empty",
            period,
        ),
        ("301", failed("HTTP 301"), Verdict::Error, "the query got no answer: HTTP 301", period),
        (
            "400",
            refused(400, "parse error"),
            Verdict::Rejected,
            "check gets no verdict: the server refuses the query (400): parse error",
            rejected,
        ),
        ("401", failed("HTTP 401"), Verdict::Error, "the query got no answer: HTTP 401", period),
        (
            "422",
            refused(422, "too many samples"),
            Verdict::Rejected,
            "check gets no verdict: the server refuses the query (422): too many samples",
            rejected,
        ),
        ("503", failed("HTTP 503"), Verdict::Error, "the query got no answer: HTTP 503", period),
        ("500", failed("HTTP 500"), Verdict::Error, "the query got no answer: HTTP 500", period),
        ("garbage", failed("not JSON"), Verdict::Error, "the query got no answer: not JSON", period),
        (
            "slow",
            failed("no answer in 5 s"),
            Verdict::Error,
            "the query got no answer: no answer in 5 s",
            period,
        ),
        (
            "huge",
            failed("more than 1 MiB"),
            Verdict::Error,
            "the query got no answer: more than 1 MiB",
            period,
        ),
        ("refused", broken(), Verdict::Error, "the query got no answer: connection refused", period),
        (
            "unknown authority",
            failed("invalid peer certificate: UnknownIssuer"),
            Verdict::Error,
            "the query got no answer: invalid peer certificate: UnknownIssuer",
            period,
        ),
        (
            "no Secret",
            config("there is no Secret prom"),
            Verdict::ConfigError,
            "check gets no verdict: the query cannot be asked: there is no Secret prom",
            period,
        ),
    ]
}

/// One success of three, and a question due.
fn due() -> Cluster {
    let mut cluster = at(GateState::WaitForInitialDelay).checked(|check| check.success_threshold = 3);
    cluster.wake();
    assert_eq!(cluster.gate().consecutive_successful_checks, 1);
    cluster
}

#[test]
fn b_a14_1_each_kind_of_answer_has_its_verdict_counters_next_look_and_words() {
    for (what, reply, verdict, words, next) in table() {
        let mut cluster = due();
        cluster.say(reply.clone());
        cluster.wake();
        let row = cluster.gate().checks[0].clone();
        assert_eq!(row.last_verdict, Some(verdict), "{what}");
        let successes = if verdict == Verdict::Pass { 2 } else { 0 };
        let failures = i32::from(verdict == Verdict::Fail);
        let errors = i32::from(matches!(verdict, Verdict::Error | Verdict::ConfigError | Verdict::Rejected));
        assert_eq!(row.consecutive_successful_checks, successes, "{what}");
        assert_eq!((row.consecutive_failed_checks, row.total_failed_checks), (failures, failures), "{what}");
        assert_eq!(row.consecutive_errors, errors, "{what}");
        let gate = cluster.gate();
        assert_eq!(gate.consecutive_successful_checks, successes, "{what}");
        assert_eq!(
            (gate.consecutive_failed_checks, gate.total_failed_checks),
            (failures, failures),
            "{what}"
        );
        let at = row.last_check_time.unwrap() + SignedDuration::from_secs(next);
        assert_eq!((cluster.wake_at, gate.next_check_time), (Some(at), Some(at)), "{what}");
        assert_eq!(row.last_error.is_some(), errors > 0, "{what}");
        assert_eq!(row.last_value.is_none(), errors > 0, "{what}");

        let words = words.replace("passed 1 of", "passed 2 of");
        let condition = cluster.status().conditions.iter().find(|found| found.kind == "Ready").unwrap();
        assert!(condition.message.contains(&words), "{what}: {}", condition.message);
        let ready = match verdict {
            Verdict::Pass => ("True", "Ready"),
            Verdict::Fail => ("False", "ChecksFailing"),
            Verdict::Error => ("False", "PrometheusError"),
            _ => ("False", "PrometheusConfigError"),
        };
        assert_eq!(cluster.condition("Ready"), Some(ready), "{what}");
        let stalled = matches!(verdict, Verdict::ConfigError | Verdict::Rejected);
        assert_eq!(cluster.condition("Stalled").unwrap().0 == "True", stalled, "{what}");
    }
}

#[test]
fn b_a14_1_a_warning_of_the_server_reaches_the_status() {
    let mut cluster = due();
    let warnings = vec!["exceeded the maximum number of points".to_owned()];
    let answer = |data| Answer { warnings: warnings.clone(), ..Answer::new(data) };
    cluster.say(Ok(answer(Data::Series(vec![]))));
    cluster.wake();
    assert_eq!(cluster.gate().checks[0].warnings, warnings);
    assert_eq!(cluster.condition("Ready"), Some(("False", "PrometheusError")), "it may lack series");
    cluster.say(data());
    cluster.wake();
}

/// Answers one after the other, and the partition after each with the consecutive successes and failures.
fn streak(
    change: impl FnOnce(&mut sts_plus_api::phased_rollout::Check),
    replies: &[Reply],
) -> Vec<(u32, i32, i32)> {
    let mut cluster = at(GateState::WaitForInitialDelay);
    cluster.recheck(change);
    cluster.quiet();
    cluster.native = false;
    let script = Arc::new(Mutex::new(replies.iter().rev().cloned().collect::<Vec<_>>()));
    cluster.prometheus = Arc::new(move |_, _| script.lock().unwrap().pop().unwrap_or_else(empty));
    let mut seen = Vec::new();
    for _ in replies {
        cluster.wake();
        let gate = cluster.gate();
        seen.push((cluster.partition(), gate.consecutive_successful_checks, gate.consecutive_failed_checks));
    }
    seen
}

#[test]
fn b_a14_4_an_error_breaks_the_row_under_each_policy() {
    for (policy, failures) in [(ErrorPolicy::Wait, 0), (ErrorPolicy::Fail, 1)] {
        let seen = streak(|check| check.error_policy = policy, &[data(), broken(), data(), data()]);
        assert_eq!(seen, [(2, 1, 0), (2, 0, failures), (2, 1, 0), (1, 0, 0)], "{policy:?}");
    }
}

#[test]
fn b_a14_4_no_data_breaks_or_makes_the_row_as_the_policy_says() {
    for (policy, expected) in [
        (NoDataPolicy::Fail, [(2, 1, 0), (2, 0, 1), (2, 1, 0), (1, 0, 0)]),
        (NoDataPolicy::Wait, [(2, 1, 0), (2, 0, 0), (2, 1, 0), (1, 0, 0)]),
    ] {
        let seen = streak(|check| check.no_data_policy = Some(policy), &[data(), empty(), data(), data()]);
        assert_eq!(seen, expected, "{policy:?}");
    }
    let seen = streak(|check| check.no_data_policy = Some(NoDataPolicy::Pass), &[data(), empty()]);
    assert_eq!(seen, [(2, 1, 0), (1, 0, 0)]);
}

#[test]
fn b_a14_4_errors_under_the_policy_fail_make_the_gate_fail() {
    let mut cluster = at(GateState::WaitForInitialDelay).checked(|check| {
        check.error_policy = ErrorPolicy::Fail;
        check.failure_threshold = Some(2);
    });
    cluster.say(broken());
    cluster.until(|cluster| cluster.status().failure.is_some());
    assert_eq!(cluster.status().failure.as_ref().unwrap().reason, "CheckFailed");
    assert!(cluster.status().failure.as_ref().unwrap().message.contains("connection refused"));
}

#[test]
fn of_several_checks_all_must_pass_each_at_its_own_pace() {
    let mut cluster = at(GateState::WaitForInitialDelay).with(|spec| {
        let check = spec.check.take().unwrap();
        let mut slow = check.clone();
        (slow.period_seconds, slow.success_threshold) = (25, 1);
        spec.checks = [("fast", check), ("slow", slow)]
            .map(|(name, check)| sts_plus_api::phased_rollout::NamedCheck { name: name.to_owned(), check })
            .into();
    });
    let bad = Arc::new(Mutex::new(3));
    cluster.prometheus = Arc::new(move |question, _| {
        let mut left = bad.lock().unwrap();
        if question.check.name == "slow" && *left > 0 {
            *left -= 1;
            return empty();
        }
        data()
    });
    cluster.quiet();
    let begun = cluster.now;
    cluster.until(|cluster| cluster.partition() == 1);
    let took = cluster.now.duration_since(begun).as_secs();
    assert!((85..=90).contains(&took), "the delay, and the fourth of the slow ones: {took}");
}

#[test]
fn a_check_whose_answers_come_late_and_together_counts_each_once_in_order() {
    let mut cluster = due();
    cluster.now = cluster.wake_at.unwrap();
    cluster.pass();
    let first = cluster.outcomes[0].clone();
    let mut second = first.clone();
    second.asked_at += SignedDuration::from_secs(SECONDS.into());
    let policy = cluster.rollout(WEB).spec.policy.as_ref().unwrap();
    second.judgement = judge(&policy.checks[0], &empty(), None);
    let mut world = cluster.world(WEB);
    world.outcomes = vec![second.clone(), first.clone(), first, second];
    let gate = plan(&world, cluster.now + SignedDuration::from_secs(60)).status.rolling_pod_status.unwrap();
    assert_eq!((gate.total_failed_checks, gate.consecutive_successful_checks), (1, 0));
}
