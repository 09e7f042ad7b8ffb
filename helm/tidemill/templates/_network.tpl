{{/* Pods of these components of the release. Call with (list $ "scheduler" "triggerer"). */}}
{{- define "tidemill.components" -}}
matchLabels: {app.kubernetes.io/name: tidemill, app.kubernetes.io/instance: {{ (index . 0).Release.Name }}}
matchExpressions:
  - {key: app.kubernetes.io/component, operator: In, values: {{ toJson (rest .) }}}
{{- end }}

{{/* One egress rule to targets outside the release. Without targets, it allows none instead of all.
Call with {cidrs, to, ports}. */}}
{{- define "tidemill.egressTo" -}}
{{- if and (or .cidrs .to) .ports -}}
- to:
  {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
  {{- end }}
  {{- with .to }}
  {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
  {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end -}}
{{- end }}
