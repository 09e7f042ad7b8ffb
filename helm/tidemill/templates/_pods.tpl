{{/* Fields of every pod's spec: user, scheduling, and a token only if requested.
Call with (list $ <service account> <true if it uses the Kubernetes API>). */}}
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
  # Avoids changing the group of every file of a big volume at every start.
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

{{/* The two writable folders of a container. */}}
{{- define "tidemill.scratchVolumes" -}}
- name: tmp
  emptyDir: {}
- name: home
  # Contains the logs of tasks. A pod with more data is evicted and restarted before it fills the disk of its node.
  emptyDir: {sizeLimit: 10Gi}
{{- end }}
{{- define "tidemill.scratchMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /home/tidemill}
{{- end }}

{{/* Volumes of pods that work with pipelines. All get the environment file. With "act", they also get the drivers'
volumes and secrets. With "view", they get only the volume of the storage root, or the keys of its store.
Call with (list $ "read"), (list $ "view") or (list $ "act"). */}}
{{- define "tidemill.placeVolumes" -}}
{{- $root := index . 0 -}}
{{- $file := include "tidemill.environment" $root | fromYaml -}}
- name: environment
  configMap: {name: {{ include "tidemill.name" (list $root "environment") }}}
{{- range include "tidemill.placeClaims" . | fromYamlArray }}
- name: {{ .name }}
  persistentVolumeClaim: {claimName: {{ .claim }}}
{{- end }}
{{- with include "tidemill.placeSecrets" . | fromYamlArray }}
- name: secrets
  projected:
    # Group-readable: fsGroup is the pod's group.
    defaultMode: 0440
    sources: {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}
{{- define "tidemill.placeMounts" -}}
{{- $file := include "tidemill.environment" (index . 0) | fromYaml -}}
{{- $views := eq (index . 1) "view" -}}
- {name: environment, mountPath: /etc/tidemill/environment, readOnly: true}
{{- range include "tidemill.placeClaims" . | fromYamlArray }}
- {name: {{ .name }}, mountPath: {{ .path }}{{ if $views }}, readOnly: true{{ end }}}
{{- end }}
{{- if include "tidemill.placeSecrets" . | fromYamlArray }}
- {name: secrets, mountPath: {{ ($file.secrets | default dict).folder | default "/run/secrets/tidemill" }}, readOnly: true}
{{- end }}
{{- end }}

{{/* Claims of a pod: with "act" those of drivers, with "view" only those that contain the storage root. */}}
{{- define "tidemill.placeClaims" -}}
{{- $file := include "tidemill.environment" (index . 0) | fromYaml -}}
{{- $found := list -}}
{{- range $number, $volume := $file.kubernetes.volumes -}}
{{- $holds := eq (include "tidemill.holdsRoot" (list $file.root $volume.path)) "true" -}}
{{- if or (eq (index $ 1) "act") (and (eq (index $ 1) "view") $holds) -}}
{{- $found = append $found (dict "name" (printf "claim-%d" $number) "claim" $volume.claim "path" $volume.path) -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end }}

{{/* Secrets of a pod, as sources of a volume: with "act" those of drivers, with "view" only the store's keys from any
of these Secrets. */}}
{{- define "tidemill.placeSecrets" -}}
{{- $file := include "tidemill.environment" (index . 0) | fromYaml -}}
{{- $keys := list -}}
{{- range $store := values ($file.storage | default dict) -}}
{{- range list "account_key" "access_key" "secret_key" -}}
{{- with get ($store | default dict) . -}}{{- $keys = append $keys (dict "key" . "path" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $found := list -}}
{{- range $file.kubernetes.secrets -}}
{{- if eq (index $ 1) "act" -}}
{{- $found = append $found (dict "secret" (dict "name" .)) -}}
{{- else if and (eq (index $ 1) "view") $keys -}}
{{- $found = append $found (dict "secret" (dict "name" . "items" $keys "optional" true)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end }}
