use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{self as api, NamedCheck, PassWhen, PhasedRolloutSpec};

use super::{MAX_CHECKS, MIN_PERIOD, Policy, Warning};

fn spec() -> PhasedRolloutSpec {
    serde_json::from_value(serde_json::json!({
        "targetRef": "web",
        "check": { "query": { "expr": "up{}", "url": "http://prom:9090" } },
    }))
    .unwrap()
}

#[track_caller]
fn faults(change: impl FnOnce(&mut PhasedRolloutSpec)) -> Vec<String> {
    let mut spec = spec();
    change(&mut spec);
    let faults = Policy::parse(&spec).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

fn of_check(change: impl FnOnce(&mut api::Check)) -> Vec<String> {
    faults(|spec| change(spec.check.as_mut().unwrap()))
}

#[test]
fn the_documents_manifest_is_accepted_with_a_warning_for_its_address() {
    let spec: PhasedRolloutSpec = serde_json::from_value(serde_json::json!({
        "targetRef": "web",
        "skipCheck": false,
        "check": {
            "initialDelaySeconds": 30,
            "periodSeconds": 30,
            "successThreshold": 3,
            "query": { "expr": "up{}", "url": "prom:9000/xx", "secretRef": "prom-secret" },
        },
    }))
    .unwrap();
    let policy = Policy::parse(&spec).unwrap();
    assert_eq!(policy.warnings(), [Warning::NoScheme { check: "check".to_owned() }]);
    assert!(policy.verify_last && !policy.suspended);
    let check = &policy.checks[0];
    assert_eq!((check.delay.as_secs(), check.period.as_secs(), check.successes), (30, 30, 3));
    assert_eq!(check.rule, super::Rule::NoData, "data returned means failed");
}

#[test]
fn what_is_left_out_has_the_documented_value() {
    let policy = Policy::parse(&spec()).unwrap();
    let check = &policy.checks[0];
    assert_eq!((check.delay.as_secs(), check.period.as_secs(), check.successes), (60, 60, 3));
    assert_eq!((check.failures, check.errors, policy.deadline), (None, None, None));
}

#[test]
fn either_name_suspends() {
    for (skip, standard, suspended) in
        [(false, false, false), (true, false, true), (false, true, true), (true, true, true)]
    {
        let spec = PhasedRolloutSpec { skip_check: skip, standard_rolling_update: standard, ..spec() };
        assert_eq!(Policy::parse(&spec).unwrap().suspended, suspended);
    }
}

#[test]
fn an_explicit_0_is_0_and_a_period_of_0_is_a_second() {
    let mut spec = spec();
    let check = spec.check.as_mut().unwrap();
    (check.initial_delay_seconds, check.period_seconds) = (0, 0);
    let policy = Policy::parse(&spec).unwrap();
    assert_eq!((policy.checks[0].delay, policy.checks[0].period), (SignedDuration::ZERO, MIN_PERIOD));
}

#[test]
fn each_fault_is_named_with_its_field() {
    let one = |found: Vec<String>, expected: &str| assert_eq!(found, [expected]);
    one(faults(|spec| spec.target_ref.clear()), "targetRef must name a StatefulSet");
    one(faults(|spec| spec.check = None), "check must be given, or else checks, and not both");
    one(
        faults(|spec| spec.progress_deadline_seconds = Some(0)),
        "progressDeadlineSeconds must be at least 1",
    );
    one(
        of_check(|check| check.initial_delay_seconds = -1),
        "initialDelaySeconds of check must not be negative",
    );
    one(of_check(|check| check.period_seconds = -1), "periodSeconds of check must not be negative");
    one(of_check(|check| check.success_threshold = 0), "successThreshold of check must be at least 1");
    one(of_check(|check| check.failure_threshold = Some(0)), "failureThreshold of check must be at least 1");
    one(
        of_check(|check| check.consecutive_error_limit = Some(-3)),
        "consecutiveErrorLimit of check must be at least 1",
    );
    one(of_check(|check| check.query.expr = " ".to_owned()), "query.expr of check must not be empty");
    one(of_check(|check| check.query.url.clear()), "query.url of check must not be empty");
    one(
        of_check(|check| check.query.timeout_seconds = 61),
        "query.timeoutSeconds of check must be from 1 to 60",
    );
    one(of_check(|check| check.require_data = Some(String::new())), "requireData of check must not be empty");
    one(
        of_check(|check| check.no_data_policy = Some(api::NoDataPolicy::Pass)),
        "noDataPolicy of check must be absent with passWhen NoData, where no data is the pass",
    );
    one(
        of_check(|check| check.pass_when = PassWhen::Compare),
        "compare of check must be given with passWhen Compare",
    );
    let compare =
        |threshold: f64| api::Compare { operator: api::Operator::Less, threshold, reduce: api::Reduce::All };
    one(
        of_check(|check| check.compare = Some(compare(1.0))),
        "compare of check must be absent unless passWhen is Compare",
    );
    one(
        of_check(|check| (check.pass_when, check.compare) = (PassWhen::Compare, Some(compare(f64::NAN)))),
        "compare.threshold of check must be a number",
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let found = faults(|spec| {
        spec.target_ref.clear();
        spec.check.as_mut().unwrap().success_threshold = -1;
        spec.check.as_mut().unwrap().period_seconds = -1;
    });
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn checks_have_names_that_differ_and_are_not_too_many() {
    let named = |names: Vec<String>| {
        let check = spec().check.unwrap();
        let checks = names.into_iter().map(|name| NamedCheck { name, check: check.clone() }).collect();
        faults(|spec| (spec.check, spec.checks) = (None, checks))
    };
    let numbered = |count: usize| (0..count).map(|number| format!("c{number}")).collect();
    assert_eq!(named(numbered(MAX_CHECKS)), Vec::<String>::new());
    assert_eq!(named(numbered(MAX_CHECKS + 1)), ["checks must be 16 or fewer"]);
    assert_eq!(named(vec!["a".to_owned(), "a".to_owned()]), ["checks must have names that differ"]);
}

#[test]
fn a_row_is_fresh_for_two_periods_or_for_a_period_and_two_timeouts() {
    for (period, timeout, fresh) in [(10, 5, 20), (10, 4, 20), (10, 6, 22), (1, 60, 121), (0, 1, 3)] {
        let mut spec = spec();
        let check = spec.check.as_mut().unwrap();
        (check.period_seconds, check.query.timeout_seconds) = (period, timeout);
        let policy = Policy::parse(&spec).unwrap();
        assert_eq!(policy.checks[0].freshness().as_secs(), fresh, "{period} {timeout}");
    }
}

#[test]
fn a_deadline_that_no_gate_can_meet_is_warned_of() {
    for (deadline, warned) in [(180, true), (181, false), (1, true)] {
        let spec = PhasedRolloutSpec { progress_deadline_seconds: Some(deadline), ..spec() };
        let warnings = Policy::parse(&spec).unwrap().warnings();
        assert_eq!(!warnings.is_empty(), warned, "{deadline}: {warnings:?}");
    }
}

#[test]
fn the_longest_times_do_not_overflow() {
    let mut spec = spec();
    let check = spec.check.as_mut().unwrap();
    (check.initial_delay_seconds, check.period_seconds) = (i32::MAX, i32::MAX);
    check.success_threshold = i32::MAX;
    spec.progress_deadline_seconds = Some(i32::MAX);
    let policy = Policy::parse(&spec).unwrap();
    assert_eq!(policy.warnings().len(), 1);
    assert!(policy.checks[0].freshness() > SignedDuration::ZERO);
}
