{{/* Labels by which the controller's pods are selected. */}}
{{- define "linkerd-proxy.selector" -}}
app.kubernetes.io/name: linkerd-control
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "linkerd-proxy.labels" -}}
{{ include "linkerd-proxy.selector" . }}
app.kubernetes.io/part-of: linkerd-proxy
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The end of all identities of the mesh. */}}
{{- define "linkerd-proxy.identities" -}}
serviceaccount.identity.{{ .Release.Namespace }}.{{ .Values.trustDomain }}
{{- end }}
