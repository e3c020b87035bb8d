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

/// Annotation on a StatefulSet, written by sts-plus: the ordinals of its pods that leave, ascending and separated by commas.
/// Nobody but the ScalingPolicy of the set replaces these pods.
pub const LEAVING: &str = "sts.plus/leaving";

/// Name of the init container of a lock, and of the volume that it mounts.
pub const LOCK: &str = "sts-plus-lock";

/// Environment variable of the init container of a lock: the name of the pod.
pub const LOCK_POD_ENV: &str = "POD_NAME";

/// Where the init container of a lock finds the keys of its ConfigMap, as files.
pub const LOCK_PATH: &str = "/etc/sts-plus-lock";

/// Feature of nodes, as their status declares it: a container may restart all containers of its pod when it exits, the init
/// containers included.
pub const RESTARTS_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";

/// Annotation on a PhasedRollout, written by a person: the approval of one step, as `status.awaitedApproval` has it. It is
/// never removed; each value counts once.
pub const APPROVE: &str = "sts.plus/approve";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: how many of its pods stay. Those above
/// leave, and are not replaced before.
pub const STAYING: &str = "staying";

/// Finalizer on a PhasedRollout and on a ScalingPolicy: the sets that it manages are released before it is deleted; on an
/// ExtendedStatefulSet with the deletion policy `Drain`: its pods leave in order before it is deleted.
pub const FINALIZER: &str = "sts.plus/finalizer";

/// Label on a pod, written by the StatefulSet controller: the revision its spec was built from.
pub const CONTROLLER_REVISION: &str = "controller-revision-hash";

/// Label on a pod, written by the StatefulSet controller: the pod's own name.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Label on a pod, written by the StatefulSet controller: the pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Label on a pod, `true` where its volumes refer to claims with stable names by [`CLAIM_PLACEHOLDER`]: admission selects the
/// pod by it.
pub const STABLE_CLAIMS: &str = "sts.plus/stable-claims";

/// Value of [`STABLE_CLAIMS`].
pub const STABLE_CLAIMS_ON: &str = "true";

/// How the name of a claim ends in a pod template with [`STABLE_CLAIMS`], where the pod's claim has a dash and its ordinal.
pub const CLAIM_PLACEHOLDER: &str = ".ordinal";

/// Annotation on the last event of a streamed list.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Field manager of the writes of the rollout-group controller.
pub const MANAGER_ROLLOUT_GROUP: &str = "sts-plus/rollout-group";

/// Field manager of the partition of a set with a PhasedRollout.
pub const MANAGER_PHASED_ROLLOUT: &str = "sts-plus/phased-rollout";

/// Field manager of the replicas of a set with a ScalingPolicy, and of [`LEAVING`].
pub const MANAGER_SCALING: &str = "sts-plus/scaling";

/// Annotation on a StatefulSet: exactly `true` makes our StatefulSet controller replace a broken pod of an outdated
/// revision instead of waiting for it to become Ready.
pub const REPLACE_BROKEN_PODS: &str = "sts.plus/replace-broken-pods";

/// Label on a ControllerRevision: the hash in its name.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";

/// Field manager of the writes of the StatefulSet controller.
pub const MANAGER_STATEFULSET: &str = "sts-plus/statefulset";

/// Field manager of the certificate of the admission server, and of the CA bundle of its webhooks.
pub const MANAGER_WEBHOOK: &str = "sts-plus/webhook";

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

/// Field manager of the writes of the extended-statefulset controller.
pub const MANAGER_EXTENDED: &str = "sts-plus/extended";

/// Label on objects that sts-plus creates, so that only these are followed.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_STS_PLUS: &str = "sts-plus";

/// Labels of a Secret in versions, by whoever has written it.
pub const SECRET_KIND: [&str; 3] =
    ["sts.plus/secret-kind", "fissile.cloudfoundry.org/secret-kind", "quarks.cloudfoundry.org/secret-kind"];

/// Value of [`SECRET_KIND`].
pub const VERSIONED_SECRET: &str = "versionedSecret";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: the number of its version.
pub const VERSION: &str = "version";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: the hash of its version's content.
pub const CONTENT_HASH: &str = "content-hash";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: the hash of the claim templates that it
/// was created with, as they were given.
pub const CLAIMS_HASH: &str = "claims-hash";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: the name of the StatefulSet that takes
/// ordinals of its zone. It is the same on all of them before one does, so that a write that was sent for another one fails.
pub const TAKER: &str = "taker";

/// What stands between the name of a claim template and the rest of the name of a claim that all versions of an
/// ExtendedStatefulSet use: `data-volume-management-db-0`.
pub const STABLE_CLAIM_INFIX: &str = "-volume-management-";

/// Label on a claim with a stable name, below the prefix of the group of its ExtendedStatefulSet: the ordinal of its pods. For
/// the group `fissile.cloudfoundry.org` that is [`POD_ORDINAL`].
pub const CLAIM_ORDINAL: &str = "pod-ordinal";

/// Annotation on a StatefulSet of an ExtendedStatefulSet and on its pods, below the prefix of its group: all zones as a JSON
/// array.
pub const ZONES: &str = "zones";

/// Annotation on a StatefulSet of an ExtendedStatefulSet, below the prefix of its group: the zones that its pod template has,
/// which stay those of the time when the version was made.
pub const TEMPLATE_ZONES: &str = "template-zones";

/// Label on a StatefulSet of an ExtendedStatefulSet and on its pods, below the prefix of its group: the index of its zone,
/// from 0.
pub const AZ_INDEX: &str = "az-index";

/// Label on a StatefulSet of an ExtendedStatefulSet and on its pods, below the prefix of its group: the name of its zone.
pub const AZ_NAME: &str = "az-name";

/// Label on a StatefulSet of an ExtendedStatefulSet and on its pods, below the prefix of its group: the object's name.
pub const EXTENDED_NAME: &str = "extendedstatefulset-name";

/// Label on a pod, below the prefix of its group: `active` for the one that is.
pub const POD_DESIGNATION: &str = "pod-designation";

/// Label on a pod, below the prefix of its group: `true` on those of promoted versions while zones run different versions.
pub const PROMOTED: &str = "promoted";

/// Label on a pod of an ExtendedStatefulSet of the group `fissile.cloudfoundry.org`: the pod's ordinal.
pub const POD_ORDINAL: &str = "fissile.cloudfoundry.org/pod-ordinal";

/// Value of [`POD_DESIGNATION`].
pub const ACTIVE: &str = "active";

/// Environment variables with the name of the zone.
pub const ZONE_ENV: [&str; 3] = ["KUBE_AZ", "BOSH_AZ", "CF_OPERATOR_AZ"];

/// Environment variable with the index of the zone, from 1.
pub const ZONE_INDEX_ENV: &str = "AZ_INDEX";
