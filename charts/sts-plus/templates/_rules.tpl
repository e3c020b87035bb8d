{{/*
Everything sts-plus may do, in four lists: where it works, what controlling sets takes beside that, where it lives, and
where it may read Secrets. Each verb is there because a request needs it; a test compares the lists with the API server's audit log.
*/}}

{{/* In each namespace it works in: the ClusterRole, or a Role per namespace. */}}
{{- define "sts-plus.rules.work" -}}
# Caches: a streaming watch, or a list where the server does not offer one. Patch: the annotation with the status, the
# partition. Get: who else writes the partition, and what became of a write whose answer was lost.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
- apiGroups: [apps]
  resources: [statefulsets/status]
  verbs: [patch]
# Get: what became of a deletion whose answer was lost.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# Patch: the same event again raises its count.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# Patch: the finalizer, and the approval that was used. Get: what became of a write that the watch does not show.
- apiGroups: [sts.plus]
  resources: [phasedrollouts]
  verbs: [get, list, watch, patch]
- apiGroups: [sts.plus]
  resources: [phasedrollouts/status]
  verbs: [update]
{{- end -}}

{{/* Beside it, where the controller statefulset runs. */}}
{{- define "sts-plus.rules.statefulset" -}}
# What a StatefulSet controller does. Patch: owners, and labels that identify a pod. Claims are never deleted by it.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
# Where the admission plugin OwnerReferencesPermissionEnforcement is on: to name a set or a pod as an owner.
- apiGroups: [apps]
  resources: [statefulsets/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods/finalizers]
  verbs: [update]
{{- end -}}

{{/* In each namespace of secrets.namespaces: what a PhasedRollout there names, read by that name. */}}
{{- define "sts-plus.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end -}}

{{/* In the namespace of the release. */}}
{{- define "sts-plus.rules.home" -}}
# A name cannot limit create: the object is not there yet when the request is judged.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [sts-plus]
  verbs: [get, watch, update]
{{- end -}}
