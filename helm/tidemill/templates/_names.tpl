{{/* Name of an object of the release: tidemill-scheduler. Call with (list $ "scheduler"). A label of a StatefulSet's
pods holds its name and 11 characters more, 63 at most: of them, `-scheduler` and `-triggerer` take 10. */}}
{{- define "tidemill.name" -}}
{{- $root := index . 0 -}}
{{- if gt (len $root.Release.Name) 42 -}}
{{- fail (printf "the release's name has %d characters; 42 at most, or Kubernetes makes no pods of its StatefulSets" (len $root.Release.Name)) -}}
{{- end -}}
{{- printf "%s-%s" $root.Release.Name (index . 1) -}}
{{- end }}

{{/* What finds an object's pods: never changes over the life of a release. Call with (list $ "scheduler"). */}}
{{- define "tidemill.selector" -}}
app.kubernetes.io/name: tidemill
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of an object. Call with (list $ "scheduler"). */}}
{{- define "tidemill.labels" -}}
{{- $root := index . 0 -}}
{{ include "tidemill.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* Reference of an image. Call with (list $ .Values.images.airflow). */}}
{{- define "tidemill.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default (index . 0).Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/* Name of a Secret: the one that the values name, else the one that the chart generates, else none.
Call with (list $ "database"). */}}
{{- define "tidemill.secretName" -}}
{{- $root := index . 0 -}}
{{- $given := get $root.Values.secrets (index . 1) -}}
{{- if $given -}}
{{- $given -}}
{{- else if $root.Values.evaluation.generateSecrets -}}
{{- include "tidemill.name" . -}}
{{- else -}}
{{- fail (printf "secrets.%s: name an existing Secret; only evaluation.generateSecrets makes one (helm/README.md, Secrets)" (index . 1)) -}}
{{- end -}}
{{- end }}

{{/* Whether the chart makes this Secret: "true" or nothing. Call with (list $ "database"). */}}
{{- define "tidemill.generates" -}}
{{- $root := index . 0 -}}
{{- if and $root.Values.evaluation.generateSecrets (not (get $root.Values.secrets (index . 1))) }}true{{ end -}}
{{- end }}

{{/* A value of a generated Secret: the one on the cluster, else the new one.
Call with (list $ "airflow" "fernet-key" <new>). The result is base64. */}}
{{- define "tidemill.keptValue" -}}
{{- $root := index . 0 -}}
{{- $found := lookup "v1" "Secret" $root.Release.Namespace (include "tidemill.name" (list $root (index . 1))) -}}
{{- $data := dict -}}
{{- if $found }}{{ $data = $found.data | default dict }}{{ end -}}
{{- get $data (index . 2) | default (index . 3 | b64enc) -}}
{{- end }}

{{/* Annotations that keep an object when the release is uninstalled. */}}
{{- define "tidemill.keep" -}}
{{- if .Values.data.persistence.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* Name of a PriorityClass of the release. Call with (list $ "streams") or (list $ "controlPlane"). */}}
{{- define "tidemill.priorityClass" -}}
{{- $root := index . 0 -}}
{{- $who := index . 1 -}}
{{- printf "%s-%s-%s-%d" $root.Release.Namespace $root.Release.Name (kebabcase $who) (get $root.Values.priorityClasses $who | int) -}}
{{- end }}

{{/* The claim mounted at /data, or nothing. */}}
{{- define "tidemill.dataClaim" -}}
{{- if .Values.data.persistence.enabled -}}
{{- .Values.data.persistence.existingClaim | default (include "tidemill.name" (list . "data")) -}}
{{- end -}}
{{- end }}
