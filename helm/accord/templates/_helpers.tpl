{{- define "accord.fullname" -}}
{{- if contains "accord" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-accord" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "accord.cluster" -}}
{{- .Values.clusterName | default .Release.Name -}}
{{- end -}}

{{- define "accord.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* Labels of everything. */}}
{{- define "accord.labels" -}}
{{ include "accord.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "accord.selector" -}}
app.kubernetes.io/name: accord
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The secret with a service's certificate. Takes a list: the context, and "coordinator" or "agents". */}}
{{- define "accord.secret" -}}
{{- $context := index . 0 -}}
{{- $service := index . 1 -}}
{{- if eq $context.Values.certificates.mode "existing" -}}
{{- required (printf "certificates.existing.%s names the secret with its certificate" $service) (index $context.Values.certificates.existing $service) -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "accord.fullname" $context) $service -}}
{{- end -}}
{{- end -}}

{{/* All certificates of the cluster: for each the secret's name and what the certificate says its holder is. */}}
{{- define "accord.certificates" -}}
{{- $name := include "accord.fullname" . -}}
- secret: {{ $name }}-coordinator-tls
  role: coordinator
  issue: coordinator
- secret: {{ $name }}-agents-tls
  role: agent/*
  issue: agent '*'
{{- range .Values.certificates.tenants }}
- secret: {{ $name }}-tenant-{{ . }}
  role: tenant/{{ . }}
  issue: tenant {{ . }}
{{- end }}
{{- range .Values.certificates.admins }}
- secret: {{ $name }}-admin-{{ . }}
  role: admin/{{ . }}
  issue: admin {{ . }}
{{- end }}
{{- end -}}

{{/* What a container may not do, by the restricted pod security standard. */}}
{{- define "accord.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Probes and the port that they ask. */}}
{{- define "accord.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# Of several coordinators only the one that leads is ready: the service finds a new one as soon as this is seen.
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 1
  timeoutSeconds: 5
{{- end -}}
