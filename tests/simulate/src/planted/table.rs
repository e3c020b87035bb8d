//! All planted faults.

use super::{Lie, Planted, extended, groups, rollouts, scaling, sets, shell};

/// What no row of the table does.
const NOTHING: Planted = Planted {
    name: "",
    what: "",
    extended: None,
    group: None,
    rollout: None,
    scaling: None,
    set: None,
    wire: None,
    shell: None,
};

/// All of them.
pub const PLANTED: &[Planted] = &[
    Planted {
        name: "old-label-stays",
        what: "the label of the active pod is added before it is removed from another",
        extended: Some(extended::labels_first),
        ..NOTHING
    },
    Planted {
        name: "version-removed-early",
        what: "a version is removed as soon as a newer one has a set",
        extended: Some(extended::removes_early),
        ..NOTHING
    },
    Planted {
        name: "promoted-everywhere",
        what: "a version that is promoted in one zone is promoted in all",
        extended: Some(extended::promotes_everywhere),
        ..NOTHING
    },
    Planted {
        name: "number-every-pass",
        what: "each pass makes a version with a number of its own",
        extended: Some(extended::counts_every_pass),
        ..NOTHING
    },
    Planted {
        name: "index-by-place",
        what: "the index of a zone is its place in the list",
        extended: Some(extended::indexes_by_place),
        ..NOTHING
    },
    Planted {
        name: "owned-by-label",
        what: "sets with the label of an object belong to it, whoever owns them",
        extended: Some(extended::owns_by_label),
        ..NOTHING
    },
    Planted {
        name: "restrictions-ignored",
        what: "the replicas of zones are not restricted",
        extended: Some(extended::scales_freely),
        ..NOTHING
    },
    Planted {
        name: "config-version-hashed",
        what: "the hash of the data includes the versions of the ConfigMaps",
        wire: Some(Lie::VersionAsData),
        ..NOTHING
    },
    Planted {
        name: "finished-init-broken",
        what: "an init container that ended well makes a pod broken",
        wire: Some(Lie::FailedInit),
        ..NOTHING
    },
    Planted {
        name: "no-preconditions",
        what: "deletions carry no UID and version (rule A)",
        wire: Some(Lie::NoPreconditions),
        ..NOTHING
    },
    Planted {
        name: "dead-watch-trusted",
        what: "a silent watch is never given up",
        wire: Some(Lie::LivelySilence),
        ..NOTHING
    },
    Planted {
        name: "one-too-many",
        what: "one pod more than the budget may be deleted",
        group: Some(groups::one_too_many),
        ..NOTHING
    },
    Planted {
        name: "terminating-serves",
        what: "a pod that terminates counts as one that serves",
        group: Some(groups::terminating_serves),
        ..NOTHING
    },
    Planted {
        name: "other-zones-ignored",
        what: "zones of a group do not wait for each other",
        group: Some(groups::ignores_zones),
        ..NOTHING
    },
    Planted {
        name: "stuck-pods-count",
        what: "a pod that is not Ready counts against its own replacement",
        group: Some(groups::stuck_pods_count),
        ..NOTHING
    },
    Planted {
        name: "error-passes",
        what: "a query without an answer is a pass",
        rollout: Some(rollouts::error_passes),
        ..NOTHING
    },
    Planted {
        name: "pass-counts-twice",
        what: "each pass counts twice",
        rollout: Some(rollouts::passes_count_twice),
        ..NOTHING
    },
    Planted {
        name: "all-time-counts",
        what: "the time of a gate runs whatever it waits for",
        rollout: Some(rollouts::counts_all_time),
        ..NOTHING
    },
    Planted {
        name: "rollback-forgotten",
        what: "pods of a failed revision stay",
        rollout: Some(rollouts::forgets_rollback),
        ..NOTHING
    },
    Planted {
        name: "freeze-not-held",
        what: "a frozen partition keeps the value that a third party writes",
        rollout: Some(rollouts::freeze_not_held),
        ..NOTHING
    },
    Planted {
        name: "set-stays-held",
        what: "a released set keeps its partition",
        rollout: Some(rollouts::stays_held),
        ..NOTHING
    },
    Planted {
        name: "partition-ignored",
        what: "the rolling update ignores the partition",
        set: Some(sets::ignores_partition),
        ..NOTHING
    },
    Planted {
        name: "updated-roll-again",
        what: "pods that are up to date are replaced as well",
        set: Some(sets::rolls_again),
        ..NOTHING
    },
    Planted {
        name: "claims-always-go",
        what: "claims of surplus pods are deleted whatever the policy is",
        set: Some(sets::deletes_claims),
        ..NOTHING
    },
    Planted {
        name: "surplus-stays",
        what: "surplus pods are not deleted",
        set: Some(sets::keeps_surplus),
        ..NOTHING
    },
    Planted {
        name: "orphans-left",
        what: "pods without an owner are not adopted",
        set: Some(sets::leaves_orphans),
        ..NOTHING
    },
    Planted {
        name: "unstored-revision-named",
        what: "a status names a revision that could not be stored",
        set: Some(sets::names_unstored),
        ..NOTHING
    },
    Planted {
        name: "timers-forgotten",
        what: "timers do not wake anything",
        extended: Some(extended::forgets_time),
        group: Some(groups::forgets_time),
        rollout: Some(rollouts::forgets_time),
        set: Some(sets::forgets_time),
        ..NOTHING
    },
    Planted {
        name: "inconsistent-view",
        what: "what a new term reads before it disrupts may be old (rule C)",
        wire: Some(Lie::StaleConfirmations),
        ..NOTHING
    },
    Planted {
        name: "stale-first-lists",
        what: "the first lists may be old (rule C)",
        wire: Some(Lie::StaleFirstLists),
        ..NOTHING
    },
    Planted {
        name: "stale-view-trusted",
        what: "a source that fails counts as one that is heard of",
        wire: Some(Lie::LivelyBlindness),
        ..NOTHING
    },
    Planted {
        name: "gone-without-list",
        what: "a watch from a compacted version begins with the newest one, without a list",
        wire: Some(Lie::CompactedUnseen),
        ..NOTHING
    },
    Planted {
        name: "failures-forgotten",
        what: "a failed pass is not retried",
        shell: Some(shell::forgetful),
        ..NOTHING
    },
    Planted {
        name: "gate-skipped",
        what: "gates let everything pass",
        rollout: Some(rollouts::skips_gates),
        ..NOTHING
    },
    Planted {
        name: "streak-survives-failure",
        what: "a failed query does not reset a streak of passes",
        rollout: Some(rollouts::streak_survives),
        ..NOTHING
    },
    Planted {
        name: "adopted-brought-back",
        what: "pods that a set was created over pass no gates",
        rollout: Some(rollouts::brings_adopted_back),
        ..NOTHING
    },
    Planted {
        name: "lowered-partition-ignored",
        what: "zones do not wait for a pod that another zone's partition has released",
        group: Some(groups::ignores_lowered_partitions),
        rollout: Some(rollouts::ignores_lowered_partitions),
        ..NOTHING
    },
    Planted {
        name: "revision-not-promoted",
        what: "a revision that is rolled out does not become the current one",
        set: Some(sets::never_promotes),
        ..NOTHING
    },
    Planted {
        name: "hook-skipped",
        what: "pods are removed without a call of their hook",
        scaling: Some(scaling::skips_hook),
        ..NOTHING
    },
    Planted {
        name: "record-after-call",
        what: "a pod is called before it is recorded",
        scaling: Some(scaling::calls_first),
        ..NOTHING
    },
    Planted {
        name: "uid-ignored",
        what: "what one pod has answered counts for its successor, and after a restart",
        scaling: Some(scaling::ignores_uid),
        ..NOTHING
    },
    Planted {
        name: "lowered-early",
        what: "a pod that has accepted the call is removed",
        scaling: Some(scaling::lowers_early),
        ..NOTHING
    },
    Planted {
        name: "cancel-forgotten",
        what: "a pod that is to stay is not called back",
        scaling: Some(scaling::forgets_cancel),
        ..NOTHING
    },
    Planted {
        name: "foreign-lowering-ignored",
        what: "replicas that somebody else has lowered are accepted",
        scaling: Some(scaling::accepts_lowering),
        ..NOTHING
    },
    Planted {
        name: "leaving-uncounted",
        what: "all pods that are not wanted leave at once",
        scaling: Some(scaling::counts_nobody),
        ..NOTHING
    },
    Planted {
        name: "zones-leave-together",
        what: "zones of a group do not wait for each other before their pods leave",
        scaling: Some(scaling::ignores_zones),
        ..NOTHING
    },
    Planted {
        name: "blocked-forced",
        what: "a pod is removed at the deadline of its hook, whatever the policy for failures",
        scaling: Some(scaling::forces_removal),
        ..NOTHING
    },
    Planted {
        name: "key-after-hook",
        what: "the key of a pod stays in the lock while its hook is called, and after it",
        scaling: Some(scaling::keeps_key),
        ..NOTHING
    },
    Planted {
        name: "drained-runs-on",
        what: "a drained pod that runs is not deleted before the replicas are lowered",
        scaling: Some(scaling::leaves_drained),
        ..NOTHING
    },
];
