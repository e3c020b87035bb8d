{{/*
Everything sts-plus may do, in two lists: where it works, and where it lives. Each verb is there because a
request needs it; a test compares both lists with the API server's audit log.
*/}}

{{/* In each namespace it works in: the ClusterRole, or a Role per namespace. */}}
{{- define "sts-plus.rules.work" -}}
# Caches: a streaming watch, or a list where the server does not offer one. Patch: the annotation with the status.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch, patch]
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
