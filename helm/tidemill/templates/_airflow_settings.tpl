{{/* Environment variables of all parts of Airflow, without secrets. */}}
{{- define "tidemill.airflowSettings" -}}
{{- $settings := dict
  "AIRFLOW_HOME" "/home/tidemill/airflow"
  "TIDEMILL_ENV" (printf "/etc/tidemill/environment/%s.yaml" .Values.environment.name)
  "TIDEMILL_POOL" "tidemill_drivers"
  "AIRFLOW__CORE__AUTH_MANAGER" "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
  "AIRFLOW__CORE__EXECUTOR" "LocalExecutor"
  "AIRFLOW__CORE__PARALLELISM" (toString .Values.airflow.parallelism)
  "AIRFLOW__CORE__DAGS_FOLDER" "/opt/tidemill/project/dags"
  "AIRFLOW__CORE__LOAD_EXAMPLES" "False"
  "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION" (.Values.airflow.dagsPausedAtCreation | ternary "True" "False")
  "AIRFLOW__CORE__EXECUTION_API_SERVER_URL" (printf "%s/execution/" (include "tidemill.apiServerUrl" .))
  "AIRFLOW__WORKERS__EXECUTION_API_RETRIES" "40"
  "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX" "15"
  "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT" "30"
  "AIRFLOW__API__BASE_URL" .Values.airflow.baseUrl
  "AIRFLOW__API__WORKERS" (toString .Values.airflow.apiServer.workers)
  "AIRFLOW__API__EXPOSE_CONFIG" "False"
  "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK" "True"
  "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD" "120"
  "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL" "60"
-}}
{{- range $name, $value := mergeOverwrite $settings (deepCopy .Values.airflow.env) }}
{{ $name }}: {{ $value | toString | quote }}
{{- end }}
{{- end }}
