//! What a spec asks for, parsed once: from here on nothing about it can be wrong.

use std::collections::BTreeSet;
use std::fmt;

use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{
    self as api, Approval, Compare, ErrorPolicy, NoDataPolicy, OnFailure, PassWhen, PhasedRolloutSpec, Query,
    ReleasePolicy, WarningPolicy,
};

use super::answer::Extent;
use crate::reason::sentence;

/// Checks of one rollout: each is a query per period, and all of them must fit on a screen.
pub const MAX_CHECKS: usize = 16;

/// The shortest time between two queries of a check, also where the spec says 0: a server that is asked in a
/// loop is asked too often.
pub const MIN_PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// The longest a query may take: whoever waits for it longer has a server that does not answer.
pub const MAX_TIMEOUT_SECONDS: i32 = 60;

/// A spec without faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Whether gating is suspended.
    pub suspended: bool,
    /// What becomes of the partition then.
    pub suspend: ReleasePolicy,
    /// Whether the user has paused the rollout.
    pub paused: bool,
    /// Where somebody has to agree.
    pub approval: Approval,
    /// Whether there is a gate after the last pod.
    pub verify_last: bool,
    /// What to do when a gate fails.
    pub on_failure: OnFailure,
    /// How long a gate may take.
    pub deadline: Option<SignedDuration>,
    /// The checks, at least one.
    pub checks: Vec<Check>,
}

/// A check without faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: String,
    /// From all pods available to the first query.
    pub delay: SignedDuration,
    /// From one query to the next.
    pub period: SignedDuration,
    /// Consecutive passes that are needed.
    pub successes: i32,
    /// Consecutive failures that make the gate fail.
    pub failures: Option<i32>,
    /// Consecutive errors that make the gate fail.
    pub errors: Option<i32>,
    /// Which answer is a pass.
    pub rule: Rule,
    /// What an error counts as.
    pub on_error: ErrorPolicy,
    /// Whether warnings make an answer an error.
    pub on_warnings: WarningPolicy,
    /// The query that must return data first.
    pub guard: Option<String>,
    /// The query and whom to ask.
    pub query: Query,
}

/// Which answer is a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// None at all.
    NoData,
    /// Any.
    Data {
        /// What an empty one counts as.
        no_data: NoDataPolicy,
    },
    /// One whose values compare.
    Compare {
        compare: Compare,
        /// What an empty one counts as.
        no_data: NoDataPolicy,
    },
}

impl Rule {
    /// How much of an answer it needs.
    pub fn extent(&self) -> Extent {
        match self {
            // With a series the check has failed, whatever else there is.
            Self::NoData => Extent::First,
            Self::Data { .. } => Extent::Presence,
            Self::Compare { .. } => Extent::Values,
        }
    }
}

impl Check {
    /// A row of successes whose last one is older than this is discarded: nobody has looked since.
    pub fn freshness(&self) -> SignedDuration {
        let timeout = SignedDuration::from_secs(i64::from(self.query.timeout_seconds));
        let twice = self.period.saturating_add(self.period);
        twice.max(self.period.saturating_add(timeout).saturating_add(timeout))
    }

    /// The least time in which the check can pass.
    fn least(&self) -> SignedDuration {
        let waits = self.period.checked_mul(self.successes.saturating_sub(1)).unwrap_or(SignedDuration::MAX);
        self.delay.saturating_add(waits)
    }
}

/// What is wrong with a spec. The schema refuses all of it; a set of definitions that is older than this build, or
/// none, does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It could not be read.
    Unreadable(String),
    /// A field has a value that it may not have.
    Field {
        field: String,
        /// What it must be.
        must: &'static str,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the spec cannot be read: {error}"),
            Self::Field { field, must } => write!(f, "{field} must {must}"),
        }
    }
}

/// Something that works, and probably not as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The address has no scheme.
    NoScheme { check: String },
    /// No gate can pass in the time that it has.
    DeadlineTooShort {
        /// The check that takes longer.
        check: String,
    },
    /// A query looks wrong to the parser that is built in; the server may think otherwise.
    Syntax {
        check: String,
        /// What the parser says.
        fault: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheme { check } => {
                write!(f, "The url of {check} has no scheme: http:// is used.")
            }
            Self::DeadlineTooShort { check } => {
                write!(
                    f,
                    "progressDeadlineSeconds is shorter than {check} takes at best: every gate will fail."
                )
            }
            Self::Syntax { check, fault } => f.write_str(&sentence(format!(
                "The query of {check} does not look like PromQL; the server decides: {fault}"
            ))),
        }
    }
}

impl Policy {
    /// Parses a spec, or says all that is wrong with it.
    pub fn parse(spec: &PhasedRolloutSpec) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut named: Vec<_> = spec.checks.iter().map(|named| (named.name.clone(), &named.check)).collect();
        named.extend(spec.check.as_ref().map(|check| (api::Check::ONLY.to_owned(), check)));
        let mut must = |wrong: bool, field: &str, must: &'static str| {
            if wrong {
                faults.push(Fault::Field { field: field.to_owned(), must });
            }
        };
        must(spec.target_ref.is_empty(), "targetRef", "name a StatefulSet");
        must(
            spec.check.is_some() != spec.checks.is_empty(),
            "check",
            "be given, or else checks, and not both",
        );
        must(spec.checks.len() > MAX_CHECKS, "checks", "be 16 or fewer");
        let distinct: BTreeSet<_> = named.iter().map(|(name, _)| name).collect();
        must(distinct.len() < named.len(), "checks", "have names that differ");
        must(
            spec.progress_deadline_seconds.is_some_and(|s| s < 1),
            "progressDeadlineSeconds",
            "be at least 1",
        );
        let checks = named.into_iter().filter_map(|(name, check)| Check::parse(name, check, &mut faults));
        let checks = checks.collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            suspended: spec.suspended(),
            suspend: spec.suspend_policy,
            paused: spec.paused,
            approval: spec.approval,
            verify_last: spec.verify_last,
            on_failure: spec.on_failure,
            deadline: spec.progress_deadline_seconds.map(seconds),
            checks,
        })
    }

    /// The deadline as the user wrote it.
    pub(super) fn deadline_seconds(&self) -> i64 {
        self.deadline.map_or(0, |deadline| deadline.as_secs())
    }

    /// What works, and probably not as meant.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for check in &self.checks {
            if !check.query.url.contains("://") {
                warnings.push(Warning::NoScheme { check: check.name.clone() });
            }
            if self.deadline.is_some_and(|deadline| deadline <= check.least()) {
                warnings.push(Warning::DeadlineTooShort { check: check.name.clone() });
            }
        }
        warnings
    }
}

impl Check {
    fn parse(name: String, check: &api::Check, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let mut must = |wrong: bool, field: &str, must: &'static str| {
            if wrong {
                faults.push(Fault::Field { field: format!("{field} of {name}"), must });
            }
        };
        let below_one = |value: Option<i32>| value.is_some_and(|value| value < 1);
        must(check.initial_delay_seconds < 0, "initialDelaySeconds", "not be negative");
        must(check.period_seconds < 0, "periodSeconds", "not be negative");
        must(check.success_threshold < 1, "successThreshold", "be at least 1");
        must(below_one(check.failure_threshold), "failureThreshold", "be at least 1");
        must(below_one(check.consecutive_error_limit), "consecutiveErrorLimit", "be at least 1");
        must(check.query.expr.trim().is_empty(), "query.expr", "not be empty");
        must(check.query.url.trim().is_empty(), "query.url", "not be empty");
        let timeout = check.query.timeout_seconds;
        must(!(1..=MAX_TIMEOUT_SECONDS).contains(&timeout), "query.timeoutSeconds", "be from 1 to 60");
        let guard = check.require_data.as_ref();
        must(guard.is_some_and(|guard| guard.trim().is_empty()), "requireData", "not be empty");
        let no_data = check.no_data_policy.unwrap_or_default();
        let rule = match (check.pass_when, &check.compare) {
            (PassWhen::NoData, None) => {
                let wrong = check.no_data_policy.is_some();
                must(wrong, "noDataPolicy", "be absent with passWhen NoData, where no data is the pass");
                Some(Rule::NoData)
            }
            (PassWhen::Data, None) => Some(Rule::Data { no_data }),
            (PassWhen::Compare, Some(compare)) => {
                must(!compare.threshold.is_finite(), "compare.threshold", "be a number");
                Some(Rule::Compare { compare: compare.clone(), no_data })
            }
            (PassWhen::Compare, None) => {
                must(true, "compare", "be given with passWhen Compare");
                None
            }
            (_, Some(_)) => {
                must(true, "compare", "be absent unless passWhen is Compare");
                None
            }
        };
        if faults.len() > before {
            return None;
        }
        Some(Self {
            name,
            delay: seconds(check.initial_delay_seconds),
            period: seconds(check.period_seconds).max(MIN_PERIOD),
            successes: check.success_threshold,
            failures: check.failure_threshold,
            errors: check.consecutive_error_limit,
            rule: rule?,
            on_error: check.error_policy,
            on_warnings: check.on_warnings,
            guard: check.require_data.clone(),
            query: check.query.clone(),
        })
    }
}

fn seconds(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
