{{/* The environment file. The release fills in missing keys that it knows. */}}
{{- define "tidemill.environment" -}}
{{- $file := deepCopy .Values.environment.file -}}
{{- if and .Values.evaluation.broker.enabled (not $file.kafka) -}}
{{- $_ := set $file "kafka" (dict "bootstrap_servers" (include "tidemill.broker" .)) -}}
{{- end -}}
{{- $_ := set $file "runtime" "kubernetes" -}}
{{- $_ := set $file "kubernetes" (mergeOverwrite (include "tidemill.kubernetes" . | fromYaml) ($file.kubernetes | default dict)) -}}
{{- $lasts := contains "://" (trimPrefix "file://" $file.root) -}}
{{- range $file.kubernetes.volumes -}}
{{- $lasts = or $lasts (eq (include "tidemill.holdsRoot" (list $file.root .path)) "true") -}}
{{- end -}}
{{- if not $lasts -}}
{{- fail (printf "environment.file.root: %s vanishes with its pod; give an object store, or a folder on a volume: below /data with data.persistence.enabled, or one of environment.file.kubernetes.volumes" $file.root) -}}
{{- end -}}
{{- toYaml $file -}}
{{- end }}

{{/* "true" if a volume contains the storage root, otherwise empty. Call with (list <root> <path of the volume>). */}}
{{- define "tidemill.holdsRoot" -}}
{{- if hasPrefix (printf "%s/" (index . 1)) (printf "%s/" (trimPrefix "file://" (index . 0))) }}true{{ end -}}
{{- end }}

{{/* Keys of the `kubernetes` section that the release knows. */}}
{{- define "tidemill.kubernetes" -}}
namespace: {{ include "tidemill.streamsNamespace" . }}
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

{{/* Address of the evaluation broker, from either namespace. */}}
{{- define "tidemill.broker" -}}
{{ include "tidemill.name" (list . "broker") }}.{{ .Release.Namespace }}.svc:9092
{{- end }}
