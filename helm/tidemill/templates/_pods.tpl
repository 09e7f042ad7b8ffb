{{/* Fields of every pod's spec: who it runs as, where, and nothing mounted that it did not ask for.
Call with (list $ <service account> <true if it talks to the Kubernetes API>). */}}
{{- define "tidemill.podSpec" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 1 }}
automountServiceAccountToken: {{ index . 2 }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  # A big volume's files are not all touched at every start.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- if $root.Values.priorityClasses.enabled }}
priorityClassName: {{ include "tidemill.priorityClass" (list $root "controlPlane") }}
{{- end }}
{{- with $root.Values.scheduling.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.scheduling.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.scheduling.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Security context of every container. */}}
{{- define "tidemill.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- end }}

{{/* The two folders that a container may write to. */}}
{{- define "tidemill.scratchVolumes" -}}
- name: tmp
  emptyDir: {}
- name: home
  # Logs of tasks lie here. A pod with more is evicted and begins anew, before it fills the disk of its node.
  emptyDir: {sizeLimit: 10Gi}
{{- end }}
{{- define "tidemill.scratchMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /home/tidemill}
{{- end }}

{{/* What pods that read or act on pipelines need: the environment file, and to act also the
volumes and secrets that drivers have.
Call with (list $ "read") or (list $ "act"). */}}
{{- define "tidemill.placeVolumes" -}}
{{- $root := index . 0 -}}
{{- $file := include "tidemill.environment" $root | fromYaml -}}
- name: environment
  configMap: {name: {{ include "tidemill.name" (list $root "environment") }}}
{{- if eq (index . 1) "act" }}
{{- range $number, $volume := $file.kubernetes.volumes }}
- name: claim-{{ $number }}
  persistentVolumeClaim: {claimName: {{ $volume.claim }}}
{{- end }}
{{- with $file.kubernetes.secrets }}
- name: secrets
  projected:
    # Group-readable: fsGroup is the pod's group.
    defaultMode: 0440
    sources:
    {{- range . }}
      - secret: {name: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "tidemill.placeMounts" -}}
{{- $file := include "tidemill.environment" (index . 0) | fromYaml -}}
- {name: environment, mountPath: /etc/tidemill/environment, readOnly: true}
{{- if eq (index . 1) "act" }}
{{- range $number, $volume := $file.kubernetes.volumes }}
- {name: claim-{{ $number }}, mountPath: {{ $volume.path }}}
{{- end }}
{{- if $file.kubernetes.secrets }}
- {name: secrets, mountPath: {{ ($file.secrets | default dict).folder | default "/run/secrets/tidemill" }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
