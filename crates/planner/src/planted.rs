//! Faults that a test plants, to see whether it would have caught them. Nothing of this is in an optimised build.

use std::cell::Cell;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Rule A is dropped.
    NoPreconditions,
    /// Rule B is dropped.
    OwnWritesNotAwaited,
    /// Rule C is dropped.
    InconsistentView,
    /// Rule D is dropped.
    LostAnswersForgotten,
    /// A source that fails or is silent is believed.
    StaleViewTrusted,
    /// The first lists may come from a cache that lags.
    StaleFirstLists,
    /// Whoever runs believes that it leads.
    LeaseIgnored,
    /// After 410 the watch goes on from now, without a list.
    GoneWithoutList,
    /// A watch that says nothing is waited for without end.
    DeadWatchTrusted,
    /// A pass that failed is not tried again.
    FailuresForgotten,
    /// Nothing is looked at because of the time alone.
    TimersForgotten,
    /// Zones do not wait for each other.
    OtherZonesIgnored,
    /// A pod that a lowered partition has released counts as one that stays, until it is deleted.
    LoweredPartitionIgnored,
    /// One pod more than the budget may go.
    OneTooMany,
    /// A pod that terminates counts as one that serves.
    TerminatingServes,
    /// Gates let everything pass.
    GateSkipped,
    /// A query without an answer is a pass.
    ErrorPasses,
    /// A failed query does not end a row of passes.
    RowSurvivesFailure,
    /// Each pass counts twice.
    PassCountsTwice,
    /// A failed revision is not rolled back.
    RollbackForgotten,
    /// A suspended rollout with `Freeze` lets anybody write the partition.
    FreezeNotHeld,
    /// The partition does not protect pods.
    PartitionIgnored,
    /// Pods that are up to date are replaced as well.
    UpdatedRollAgain,
    /// Claims go with surplus pods whatever the policy says.
    ClaimsAlwaysGo,
    /// Surplus pods stay.
    SurplusStays,
    /// Pods without an owner are not adopted.
    OrphansLeft,
    /// A revision that is rolled out does not become the current one.
    RevisionNotPromoted,
    /// A status names a revision that could not be stored.
    UnstoredRevisionNamed,
    /// Pods that a set was created over are replaced without gates, as those of a revision that was taken back are.
    AdoptedBroughtBack,
    /// A set keeps its partition when its rollout is deleted or gets another target.
    SetStaysHeld,
    /// An outdated pod that is not Ready counts against its own replacement.
    StuckPodsCount,
}

/// All of them, with a name and what they do.
pub const BUGS: [(Bug, &str, &str); 31] = [
    (Bug::NoPreconditions, "no-preconditions", "deletions carry no UID and version (rule A)"),
    (Bug::OwnWritesNotAwaited, "own-writes-not-awaited", "plans on a view that lacks own writes (rule B)"),
    (Bug::InconsistentView, "inconsistent-view", "acts in a new term before it has listed anew (rule C)"),
    (Bug::LostAnswersForgotten, "lost-answers-forgotten", "an unanswered write counts as not done (rule D)"),
    (Bug::StaleViewTrusted, "stale-view-trusted", "disrupts on a view whose source fails or is silent"),
    (Bug::StaleFirstLists, "stale-first-lists", "the first lists ask for version 0"),
    (Bug::LeaseIgnored, "lease-ignored", "acts without the lease"),
    (Bug::GoneWithoutList, "gone-without-list", "after 410 the watch goes on from now, without a list"),
    (Bug::DeadWatchTrusted, "dead-watch-trusted", "a silent watch is waited for without end"),
    (Bug::FailuresForgotten, "failures-forgotten", "a pass that failed is not tried again"),
    (Bug::TimersForgotten, "timers-forgotten", "nothing is looked at because of the time alone"),
    (Bug::OtherZonesIgnored, "other-zones-ignored", "zones of a group do not wait for each other"),
    (
        Bug::LoweredPartitionIgnored,
        "lowered-partition-ignored",
        "zones do not wait for a pod that another zone's partition has released",
    ),
    (Bug::OneTooMany, "one-too-many", "one pod more than the budget may go"),
    (Bug::TerminatingServes, "terminating-serves", "a pod that terminates counts as one that serves"),
    (Bug::GateSkipped, "gate-skipped", "gates let everything pass"),
    (Bug::ErrorPasses, "error-passes", "a query without an answer is a pass"),
    (Bug::RowSurvivesFailure, "row-survives-failure", "a failed query does not end a row of passes"),
    (Bug::PassCountsTwice, "pass-counts-twice", "each pass counts twice"),
    (Bug::RollbackForgotten, "rollback-forgotten", "pods of a failed revision stay"),
    (Bug::FreezeNotHeld, "freeze-not-held", "a frozen partition stays what a third party makes it"),
    (Bug::PartitionIgnored, "partition-ignored", "the rolling update looks at no partition"),
    (Bug::UpdatedRollAgain, "updated-roll-again", "pods that are up to date are replaced as well"),
    (Bug::ClaimsAlwaysGo, "claims-always-go", "claims of surplus pods go whatever the policy says"),
    (Bug::SurplusStays, "surplus-stays", "surplus pods are not deleted"),
    (Bug::OrphansLeft, "orphans-left", "pods without an owner are not adopted"),
    (Bug::RevisionNotPromoted, "revision-not-promoted", "a revision that is rolled out stays the next one"),
    (Bug::UnstoredRevisionNamed, "unstored-revision-named", "a status names a revision that is not stored"),
    (Bug::AdoptedBroughtBack, "adopted-brought-back", "pods that a set was created over pass no gates"),
    (Bug::SetStaysHeld, "set-stays-held", "a released set keeps its partition"),
    (Bug::StuckPodsCount, "stuck-pods-count", "a pod that is not Ready counts against its own replacement"),
];

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a fault in everything that this thread does from now on; `None` removes it.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this fault is planted here.
#[inline]
pub fn has(bug: Bug) -> bool {
    cfg!(debug_assertions) && PLANTED.get() == Some(bug)
}
