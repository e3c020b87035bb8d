{{/*
All permissions of sts-plus, in eleven lists: for the managed namespaces, additionally for the controllers statefulset, extended-statefulset and scaling, for nodes and for the commands of active probes, for
namespaces in which Secrets may be read, for the admission server, and for the namespace of the release. A request needs each of the verbs; a test compares the lists with the API server's audit log.
*/}}

{{/* In each managed namespace: the ClusterRole, or a Role per namespace. */}}
{{- define "sts-plus.rules.work" -}}
# List, watch: the caches, by a streaming watch, or by a list if the server does not support streaming. Patch: the status
# annotation and the partition. Get: the field managers of the partition, and the outcome of a write whose answer was lost.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
- apiGroups: [apps]
  resources: [statefulsets/status]
  verbs: [patch]
# Get: the outcome of a deletion whose answer was lost.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# Patch: the count of a repeated event.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# Patch: the finalizer. Get: the outcome of a write that the watch does not show.
- apiGroups: [sts.plus]
  resources: [phasedrollouts]
  verbs: [get, list, watch, patch]
- apiGroups: [sts.plus]
  resources: [phasedrollouts/status]
  verbs: [update]
{{- end -}}

{{/* In addition, if the controller statefulset runs. */}}
{{- define "sts-plus.rules.statefulset" -}}
# The writes of a StatefulSet controller. Patch: owners, and labels that identify a pod. It never deletes claims.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
# To set a StatefulSet or a pod as an owner if the admission plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [apps]
  resources: [statefulsets/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods/finalizers]
  verbs: [update]
{{- end -}}

{{/* In addition, if the controller extended-statefulset runs. */}}
{{- define "sts-plus.rules.extended" -}}
# Patch: the finalizer, where deletionPolicy is Drain.
- apiGroups: [sts.plus, fissile.cloudfoundry.org]
  resources: [extendedstatefulsets]
  verbs: [get, list, watch, patch]
- apiGroups: [sts.plus, fissile.cloudfoundry.org]
  resources: [extendedstatefulsets/status]
  verbs: [update]
# The StatefulSets of each version and zone. Update: a new version in place.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [create, update, delete]
# Patch: the label of the active pod, and the list of zones.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
# The ScalingPolicies of the StatefulSets, where pods are prepared before they leave. Get: one that somebody has changed.
- apiGroups: [sts.plus]
  resources: [scalingpolicies]
  verbs: [get, list, watch, create, patch, delete]
# The claims that all versions of an ExtendedStatefulSet use. Delete: those of ordinals that are no longer asked for, where the
# retention policy says so.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# The Services that an ExtendedStatefulSet asks for.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# List, watch: the ConfigMaps that pods refer to, each by name, where updateOnConfigChange is set.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
# To set an ExtendedStatefulSet as an owner if the admission plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [sts.plus, fissile.cloudfoundry.org]
  resources: [extendedstatefulsets/finalizers]
  verbs: [update]
{{- end -}}

{{/* In addition, if the controller scaling runs. */}}
{{- define "sts-plus.rules.scaling" -}}
# Patch: the finalizer, and the number of replicas where the policy has none.
- apiGroups: [sts.plus]
  resources: [scalingpolicies]
  verbs: [get, list, watch, patch]
- apiGroups: [sts.plus]
  resources: [scalingpolicies/status]
  verbs: [update]
# The ConfigMaps of locks. Get: one of the name of a lock that somebody else has created.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, delete]
# Delete: the claims of drained pods, where a policy asks for their deletion. Patch: claims that a policy asks to grow.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, patch, delete]
# A StatefulSet whose claims have grown is deleted without its pods and created again; meanwhile a ControllerRevision holds it.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [create, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, create, delete]
{{- end -}}

{{/* In addition, if the controller scaling runs with a ClusterRole: whether all nodes can restart all containers of a pod, and whether claims can grow. */}}
{{- define "sts-plus.rules.nodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get]
{{- end -}}

{{/* In addition, if the admission server runs and makes its own certificate: the CA bundle of its webhook. rbac.yaml puts in the name. */}}
{{- define "sts-plus.rules.webhook" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [sts-plus-webhook]
  verbs: [list, watch, patch]
{{- end -}}

{{/* The same in the namespace of the release: the one Secret with the certificate. */}}
{{- define "sts-plus.rules.webhook-secret" -}}
# A resource name cannot restrict create: the object does not exist when the request is authorized.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [sts-plus-webhook]
  verbs: [list, watch, update]
{{- end -}}

{{/* In addition, if commands of active probes are enabled. */}}
{{- define "sts-plus.rules.exec" -}}
# Get: the WebSocket handshake; since Kubernetes 1.35 it needs create, too.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
{{- end -}}

{{/* In each namespace of secrets.namespaces: the Secrets that PhasedRollouts and hooks name, read by name. */}}
{{- define "sts-plus.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end -}}

{{/* In the same namespaces, if the controller extended-statefulset runs: the Secrets that pods refer to, each followed by name. */}}
{{- define "sts-plus.rules.followed-secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
{{- end -}}

{{/* In the namespace of the release. */}}
{{- define "sts-plus.rules.home" -}}
# A resource name cannot restrict create: the object does not exist when the request is authorized.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [sts-plus]
  verbs: [get, watch, update]
{{- end -}}
