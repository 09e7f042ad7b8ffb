{{/* Address of the API server inside the cluster. */}}
{{- define "tidemill.apiServerUrl" -}}
http://{{ include "tidemill.name" (list . "api-server") }}:8080
{{- end }}

{{/* Key of the migration that the pods wait for. It changes with the image, because the schema may change with it. */}}
{{- define "tidemill.migrationKey" -}}
{{- list (include "tidemill.image" (list . .Values.images.airflow)) (include "tidemill.migrationPod" (dict "root" . "key" "")) | toJson | sha256sum | trunc 10 -}}
{{- end }}

{{/* One environment variable from a Secret. Call with (list $ <variable> "airflow" "fernet-key"). */}}
{{- define "tidemill.secretVariable" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef: {name: {{ include "tidemill.secretName" (list (index . 0) (index . 2)) }}, key: {{ index . 3 }}}
{{- end }}

{{/* Secrets of a part of Airflow. Only the API server and the scheduler sign tokens for tasks.
Call with (list $ <true for those two>). */}}
{{- define "tidemill.airflowSecrets" -}}
{{- $root := index . 0 -}}
{{ include "tidemill.secretVariable" (list $root "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" "database" "connection") }}
{{ include "tidemill.secretVariable" (list $root "AIRFLOW__CORE__FERNET_KEY" "airflow" "fernet-key") }}
{{ include "tidemill.secretVariable" (list $root "AIRFLOW__API__SECRET_KEY" "airflow" "api-secret-key") }}
{{- if index . 1 }}
{{ include "tidemill.secretVariable" (list $root "AIRFLOW__API_AUTH__JWT_SECRET" "airflow" "jwt-secret") }}
{{- end }}
{{- end }}

{{/* Init container that waits until the database is migrated for this image. */}}
{{- define "tidemill.waitForMigration" -}}
- name: wait-for-migration
  image: {{ include "tidemill.image" (list . .Values.images.airflow) }}
  imagePullPolicy: {{ .Values.images.pullPolicy }}
  args: [python, -m, tidemill_airflow.metadata_database, marked, {{ include "tidemill.migrationKey" . | quote }}]
  env: {{- include "tidemill.secretVariable" (list . "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" "database" "connection") | nindent 4 }}
  securityContext: {{- include "tidemill.containerSecurity" . | nindent 4 }}
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 128Mi}}
{{- end }}

{{/* Pod template of a permanently running part of Airflow.
Call with root, component, account, values, args, secrets (signs tokens), api (talks to Kubernetes), place ("read",
"view" or "act" on pipelines, or none), ports and probes. */}}
{{- define "tidemill.airflowPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "tidemill.selector" (list $root .component) | nindent 4 }}
    {{- with $root.Values.airflow.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed setting replaces the pod. A changed environment file does not, because each task reads it again.
    tidemill/settings: {{ include "tidemill.airflowSettings" $root | sha256sum | trunc 16 }}
    {{- if eq .place "view" }}
    # The Streams page reads the environment file once, so a changed file replaces the pod.
    tidemill/environment: {{ include "tidemill.environment" $root | sha256sum | trunc 16 }}
    {{- end }}
spec:
  {{- include "tidemill.podSpec" (list $root (include "tidemill.name" (list $root .account)) .api) | nindent 2 }}
  # A task needs seconds to record its end, and no task holds a stream.
  terminationGracePeriodSeconds: 60
  initContainers: {{- include "tidemill.waitForMigration" $root | nindent 4 }}
  containers:
    - name: {{ .component }}
      image: {{ include "tidemill.image" (list $root $root.Values.images.airflow) }}
      imagePullPolicy: {{ $root.Values.images.pullPolicy }}
      args: {{- toYaml .args | nindent 8 }}
      envFrom:
        - configMapRef: {name: {{ include "tidemill.name" (list $root "airflow-settings") }}}
        {{- if ne .place "read" }}
        {{- range $root.Values.airflow.envFromSecrets }}
        - secretRef: {name: {{ . }}}
        {{- end }}
        {{- end }}
      env: {{- include "tidemill.airflowSecrets" (list $root .secrets) | nindent 8 }}
      {{- with .ports }}
      ports: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- toYaml .probes | nindent 6 }}
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext: {{- include "tidemill.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        {{- include "tidemill.scratchMounts" $root | nindent 8 }}
        {{- if .place }}
        {{- include "tidemill.placeMounts" (list $root .place) | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "tidemill.scratchVolumes" $root | nindent 4 }}
    {{- if .place }}
    {{- include "tidemill.placeVolumes" (list $root .place) | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Probe that checks the heartbeat of a part in the database. */}}
{{- define "tidemill.heartbeatProbe" -}}
livenessProbe:
  exec:
    command: [python, -m, tidemill_airflow.metadata_database, beating, {{ . }}]
  # The first heartbeat follows the imports. Later, the probe fails after two minutes without one and three checks.
  initialDelaySeconds: 60
  periodSeconds: 60
  timeoutSeconds: 20
  failureThreshold: 3
{{- end }}
