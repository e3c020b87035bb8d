//! Every label, annotation, environment variable, object name and field manager that leaves the process.

/// Label on a StatefulSet: its value names the rollout group. Mere presence makes the set a member,
/// also with an empty value.
pub const ROLLOUT_GROUP: &str = "rollout-group";

/// Annotation on a StatefulSet: how many of its pods may be not Ready at once while it rolls.
/// A positive integer or an integer percentage from `1%` to `100%` of the replicas.
pub const MAX_UNAVAILABLE: &str = "rollout-max-unavailable";

/// Annotation on a StatefulSet: exactly `true` keeps its pods from being rolled.
pub const PAUSED: &str = "grafana.com/rollout-paused";

/// Annotation that we write on a StatefulSet of a group: a [`crate::rollout_status::RolloutStatus`] as JSON.
pub const ROLLOUT_STATUS: &str = "sts.plus/rollout-status";

/// Annotation that we write on a StatefulSet: the name of the PhasedRollout that manages its partition.
pub const PHASED_ROLLOUT: &str = "sts.plus/phasedRollout";

/// Annotation on a PhasedRollout: the revision that somebody agrees to. Taken away once it was used.
pub const APPROVE: &str = "sts.plus/approve";

/// Finalizer on a PhasedRollout: its set is let go before it goes.
pub const FINALIZER: &str = "sts.plus/finalizer";

/// Label on a pod, written by the StatefulSet controller: the revision its spec was built from.
pub const CONTROLLER_REVISION: &str = "controller-revision-hash";

/// Label on a pod, written by the StatefulSet controller: the pod's own name.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Label on a pod, written by the StatefulSet controller: the pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Annotation on the last event of a streamed list.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Field manager of what the rollout-group controller applies.
pub const MANAGER_ROLLOUT_GROUP: &str = "sts-plus/rollout-group";

/// Field manager of the partition of a set with a PhasedRollout.
pub const MANAGER_PHASED_ROLLOUT: &str = "sts-plus/phased-rollout";

/// Annotation on a StatefulSet: exactly `true` has our StatefulSet controller replace a broken pod of a superseded revision
/// instead of waiting for it to become Ready.
pub const REPLACE_BROKEN_PODS: &str = "sts.plus/replace-broken-pods";

/// Label on a ControllerRevision: the hash in its name.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";

/// Field manager of what the StatefulSet controller writes.
pub const MANAGER_STATEFULSET: &str = "sts-plus/statefulset";

/// Field manager of what the command line writes on a user's behalf.
pub const MANAGER_CLI: &str = "sts-plus/cli";

/// Field manager of the leader lease.
pub const MANAGER_LEASE: &str = "sts-plus/lease";

/// Controller name in events, and the name that peers see in the user agent.
pub const CONTROLLER: &str = "sts.plus/operator";

/// Where events come from, as people see it.
pub const COMPONENT: &str = "sts-plus";

/// Where events of our StatefulSet controller come from: upstream's own name, which alerting rules know.
pub const STATEFULSET_COMPONENT: &str = "statefulset-controller";

/// Name of the leader lease in the operator's own namespace.
pub const LEASE: &str = "sts-plus";
