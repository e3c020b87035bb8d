use strum::VariantNames;

use super::Wait;

#[test]
fn the_reasons_of_waits_are_those_that_conditions_and_alerts_know() {
    let reasons = [
        // Its reason is that of its fault.
        "Invalid",
        "Deleting",
        "NameTaken",
        "ConfigPending",
        "ConfigMissing",
        "ConfigUnreadable",
        "ConfigSettling",
        "Paused",
        "ImmutableField",
        "Changing",
        "Terminating",
        "Unobserved",
        "Rolling",
        "PartitionHeld",
        "GroupPaused",
        "VersionStarting",
        "HandingOver",
        "HandoverBlocked",
        "VolumeInUse",
        "ClaimTaken",
        "ClaimTerminating",
        "ClaimLost",
        "ClaimPending",
        "ClaimsStayBehind",
        "NotMutated",
        "ZoneWaiting",
        "AwaitingApproval",
        "RemovingVersion",
        "Draining",
        // RolledBack once it is.
        "ProgressDeadlineExceeded",
        "Scaling",
        "ScalingBlocked",
        "LeavingFirst",
        "PolicyTaken",
        // Emptying: it is being deleted.
        "Deleting",
        "ViewUnconfirmed",
        "WriteRefused",
        "PodsNotReady",
    ];
    assert_eq!(Wait::VARIANTS, reasons);
}
