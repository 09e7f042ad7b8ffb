{{/* Name of an object of the release: tidemill-scheduler. Call with (list $ "scheduler"). A label of a StatefulSet's
pods contains its name and 11 more characters, and has at most 63. `-scheduler` and `-triggerer` take 10 of them. */}}
{{- define "tidemill.name" -}}
{{- $root := index . 0 -}}
{{- if gt (len $root.Release.Name) 42 -}}
{{- fail (printf "the release's name has %d characters; 42 at most, or Kubernetes makes no pods of its StatefulSets" (len $root.Release.Name)) -}}
{{- end -}}
{{- printf "%s-%s" $root.Release.Name (index . 1) -}}
{{- end }}

{{/* Selector of an object's pods; never changes over the life of a release. Call with (list $ "scheduler"). */}}
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

{{/* Name of a Secret: the one in the values, otherwise the one that the chart generates, otherwise none.
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

{{/* "true" if the chart creates this Secret, otherwise empty. Call with (list $ "database"). */}}
{{- define "tidemill.generates" -}}
{{- $root := index . 0 -}}
{{- if and $root.Values.evaluation.generateSecrets (not (get $root.Values.secrets (index . 1))) }}true{{ end -}}
{{- end }}

{{/* A value of a generated Secret: the one on the cluster, otherwise the new one.
Call with (list $ <namespace> "airflow" "fernet-key" <new>). The result is base64. */}}
{{- define "tidemill.keptValue" -}}
{{- $root := index . 0 -}}
{{- $found := lookup "v1" "Secret" (index . 1) (include "tidemill.name" (list $root (index . 2))) -}}
{{- $data := dict -}}
{{- if $found }}{{ $data = $found.data | default dict }}{{ end -}}
{{- get $data (index . 3) | default (index . 4 | b64enc) -}}
{{- end }}

{{/* Annotations that keep an object when the release is uninstalled. */}}
{{- define "tidemill.keep" -}}
{{- if .Values.data.persistence.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* Name of a cluster-wide object, which contains the namespace. Call with (list $ "executors"). */}}
{{- define "tidemill.clusterName" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s" $root.Release.Namespace $root.Release.Name (index . 1) -}}
{{- end }}

{{/* Name of a PriorityClass of the release. Call with (list $ "streams") or (list $ "controlPlane"). */}}
{{- define "tidemill.priorityClass" -}}
{{- $root := index . 0 -}}
{{- $who := index . 1 -}}
{{- printf "%s-%d" (include "tidemill.clusterName" (list $root (kebabcase $who))) (get $root.Values.priorityClasses $who | int) -}}
{{- end }}

{{/* "true" if admission policies limit the pods that drivers create, otherwise empty. */}}
{{- define "tidemill.admissionPolicy" -}}
{{- $known := semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
{{- if and .Values.streams.admissionPolicy $known }}true{{ end -}}
{{- end }}

{{/* Namespace of drivers, executors and all objects created for them. An account that can create pods in a namespace
can act as its service accounts and mount its Secrets, so Airflow is never in it. */}}
{{- define "tidemill.streamsNamespace" -}}
{{- $name := .Values.streams.namespace | default (printf "%s-streams" .Release.Namespace) -}}
{{- if and .Values.airflow.enabled (eq $name .Release.Namespace) -}}
{{- fail (printf "streams.namespace: %s is the namespace of Airflow; a driver could act as Airflow there. Name another one" $name) -}}
{{- end -}}
{{- $given := (.Values.environment.file.kubernetes | default dict).namespace | default $name -}}
{{- if ne $given $name -}}
{{- fail (printf "environment.file.kubernetes.namespace: %s; give it as streams.namespace" $given) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/* "true" if streams have a separate namespace, otherwise empty. */}}
{{- define "tidemill.streamsApart" -}}
{{- if ne (include "tidemill.streamsNamespace" .) .Release.Namespace }}true{{ end -}}
{{- end }}

{{/* Name of the claim that is mounted at /data, or empty. */}}
{{- define "tidemill.dataClaim" -}}
{{- if .Values.data.persistence.enabled -}}
{{- .Values.data.persistence.existingClaim | default (include "tidemill.name" (list . "data")) -}}
{{- end -}}
{{- end }}

{{/* "true" if the chart creates claims for one volume in both namespaces, otherwise empty. */}}
{{- define "tidemill.sharesVolume" -}}
{{- $persistence := .Values.data.persistence -}}
{{- if and $persistence.enabled (not $persistence.existingClaim) .Values.airflow.enabled }}true{{ end -}}
{{- end }}
