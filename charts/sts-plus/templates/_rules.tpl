{{/*
All permissions of sts-plus, in four lists: for the managed namespaces, additionally for the controller statefulset, for
namespaces in which Secrets may be read, and for the namespace of the release. A request needs each of the verbs; a test compares the lists with the API server's audit log.
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

{{/* In each namespace of secrets.namespaces: the Secrets that PhasedRollouts name, read by name. */}}
{{- define "sts-plus.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
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
