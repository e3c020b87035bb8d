{{- define "sts-plus.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{/* At most 57 characters, so that the name with a suffix of the chart still fits into a label value. */}}
{{- define "sts-plus.fullname" -}}
{{- $name := include "sts-plus.name" . -}}
{{- $default := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $default | trunc 57 | trimSuffix "-" -}}
{{- end -}}

{{- define "sts-plus.serviceAccountName" -}}
{{- $default := .Values.serviceAccount.create | ternary (include "sts-plus.fullname" .) "default" -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{- define "sts-plus.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sts-plus.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "sts-plus.labels" -}}
{{ include "sts-plus.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sts-plus.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "sts-plus.subjects" -}}
- kind: ServiceAccount
  name: {{ include "sts-plus.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/*
How pods get claims with stable names: Policy, Webhook or None. Without a server Helm does not know which kinds there are, and a
webhook works on every server. It needs a permission in the whole cluster, so among listed namespaces it is only used on request.
*/}}
{{- define "sts-plus.stableClaims" -}}
{{- if not (has "extended-statefulset" .Values.controllers) -}}
None
{{- else if ne .Values.stableClaims.mode "Auto" -}}
{{ .Values.stableClaims.mode }}
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
Policy
{{- else if .Values.namespaces -}}
None
{{- else -}}
Webhook
{{- end -}}
{{- end -}}

{{/* The webhook configuration, and the Secret with its certificate. */}}
{{- define "sts-plus.webhookName" -}}
{{ include "sts-plus.fullname" . }}-webhook
{{- end -}}
