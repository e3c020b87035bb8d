//! Every label, annotation, environment variable, object name and field manager that other programs see.

/// Label on a StatefulSet: the name of its rollout group. A set with the label is a member of a group, also if the
/// value is empty.
pub const ROLLOUT_GROUP: &str = "rollout-group";

/// Annotation on a StatefulSet: how many of its pods may be unavailable at once during a rollout. A positive integer,
/// or an integer percentage from `1%` to `100%` of the replicas.
pub const MAX_UNAVAILABLE: &str = "rollout-max-unavailable";

/// Annotation on a StatefulSet: exactly `true` pauses the rollout of its pods.
pub const PAUSED: &str = "grafana.com/rollout-paused";

/// Annotation on a StatefulSet of a group, written by sts-plus: a [`crate::rollout_status::RolloutStatus`] as JSON.
pub const ROLLOUT_STATUS: &str = "sts.plus/rollout-status";

/// Annotation on a StatefulSet, written by sts-plus: the name of the PhasedRollout that manages its partition.
pub const PHASED_ROLLOUT: &str = "sts.plus/phasedRollout";

/// Annotation on a PhasedRollout, written by a person: the approval of one step, as `status.awaitedApproval` has it. It is
/// never removed; each value counts once.
pub const APPROVE: &str = "sts.plus/approve";

/// Finalizer on a PhasedRollout: the sets that it manages are released before it is deleted.
pub const FINALIZER: &str = "sts.plus/finalizer";

/// Label on a pod, written by the StatefulSet controller: the revision its spec was built from.
pub const CONTROLLER_REVISION: &str = "controller-revision-hash";

/// Label on a pod, written by the StatefulSet controller: the pod's own name.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Label on a pod, written by the StatefulSet controller: the pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Annotation on the last event of a streamed list.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Field manager of the writes of the rollout-group controller.
pub const MANAGER_ROLLOUT_GROUP: &str = "sts-plus/rollout-group";

/// Field manager of the partition of a set with a PhasedRollout.
pub const MANAGER_PHASED_ROLLOUT: &str = "sts-plus/phased-rollout";

/// Annotation on a StatefulSet: exactly `true` makes our StatefulSet controller replace a broken pod of an outdated
/// revision instead of waiting for it to become Ready.
pub const REPLACE_BROKEN_PODS: &str = "sts.plus/replace-broken-pods";

/// Label on a ControllerRevision: the hash in its name.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";

/// Field manager of the writes of the StatefulSet controller.
pub const MANAGER_STATEFULSET: &str = "sts-plus/statefulset";

/// Field manager of the writes of the command line on behalf of a user.
pub const MANAGER_CLI: &str = "sts-plus/cli";

/// Field manager of the leader lease.
pub const MANAGER_LEASE: &str = "sts-plus/lease";

/// Controller name in events, and the name in the user agent.
pub const CONTROLLER: &str = "sts.plus/operator";

/// Source of events.
pub const COMPONENT: &str = "sts-plus";

/// Source of events of our StatefulSet controller: the name that the built-in one uses, which alerting rules refer
/// to.
pub const STATEFULSET_COMPONENT: &str = "statefulset-controller";

/// Name of the leader lease in the operator's own namespace.
pub const LEASE: &str = "sts-plus";
