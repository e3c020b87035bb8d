use strum::VariantNames;

use super::Wait;

#[test]
fn the_kinds_of_waits_are_those_that_statuses_and_alerts_know() {
    let kinds = [
        "TargetNotFound",
        "TargetDeleting",
        "CannotManage",
        "CannotManage",
        "InvalidSpec",
        "Releasing",
        "Suspended",
        "NotObserved",
        "UpToDate",
        "PodToBeUpdated",
        "PodsToBeAvailable",
        "InitialDelay",
        "Checks",
        "ChecksFailing",
        "PrometheusError",
        "PrometheusConfigError",
        "Approval",
        "Paused",
        "GatePassed",
        "Promotion",
        // Its kind is that of its reason.
        "Held",
        "PartitionContested",
        "GateFailed",
        "RollingBack",
        "RolledBack",
    ];
    assert_eq!(Wait::VARIANTS, kinds);
}
