{{/* The environment file, with what the release knows itself filled in where it is not given. */}}
{{- define "tidemill.environment" -}}
{{- $file := deepCopy .Values.environment.file -}}
{{- if and .Values.evaluation.broker.enabled (not $file.kafka) -}}
{{- $_ := set $file "kafka" (dict "bootstrap_servers" (printf "%s:9092" (include "tidemill.name" (list . "broker")))) -}}
{{- end -}}
{{- if eq ($file.runtime | default "local") "kubernetes" -}}
{{- $_ := set $file "kubernetes" (mergeOverwrite (include "tidemill.kubernetes" . | fromYaml) ($file.kubernetes | default dict)) -}}
{{- if and (hasPrefix "/" $file.root) (not $file.kubernetes.volumes) -}}
{{- fail (printf "environment.file.root: %s vanishes with its pod; give an object store, or set data.persistence.enabled" $file.root) -}}
{{- end -}}
{{- end -}}
{{- toYaml $file -}}
{{- end }}

{{/* What the release knows of the `kubernetes` section. */}}
{{- define "tidemill.kubernetes" -}}
namespace: {{ .Release.Namespace }}
image: {{ include "tidemill.image" (list . .Values.images.spark) }}
image_pull_policy: {{ .Values.images.pullPolicy }}
image_pull_secrets: {{ toJson .Values.images.pullSecrets }}
service_accounts:
  driver: {{ include "tidemill.name" (list . "driver") }}
  executor: {{ include "tidemill.name" (list . "executor") }}
owner: {{ include "tidemill.name" (list . "streams") }}
rpc_secret: {{ include "tidemill.secretName" (list . "rpc") }}
secrets: {{ toJson .Values.secrets.drivers }}
{{- with include "tidemill.dataClaim" . }}
volumes:
  - {claim: {{ . }}, path: /data}
{{- end }}
{{- if .Values.priorityClasses.enabled }}
pods:
  priority_class: {{ include "tidemill.priorityClass" (list . "streams") }}
{{- end }}
{{- end }}
