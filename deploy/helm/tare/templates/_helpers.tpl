{{- define "tare.labels" -}}
app.kubernetes.io/part-of: tare
app.kubernetes.io/component: {{ ternary "agent" "collector" (eq .component "tare-agent") }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "tare.selector" . }}
{{- end }}

{{- define "tare.selector" -}}
app.kubernetes.io/name: {{ .component }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* An image's name; the root context and a key of .Values.image. */ -}}
{{- define "tare.image" -}}
{{- with .Values.image -}}
{{- with .registry }}{{ trimSuffix "/" . }}/{{ end }}{{ get . $.image }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "tare.imagePullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Pods of collectors: what they may do, which is nothing but to listen and to write their volume. */ -}}
{{- define "tare.collectorPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- include "tare.imagePullSecrets" . }}
{{- with .Values.collector.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.collector.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tare.podAnnotations" -}}
checksum/config: {{ .config | sha256sum }}
tare-trace/trace: "false"
{{- with .Values.collector.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tare.collectorContainer" -}}
image: {{ include "tare.image" (merge (dict "image" "tare") .) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - collector
  - --config=/etc/tare/collector.yaml
  {{- if not .Values.tls.secretName }}
  - --plaintext
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
readinessProbe:
  httpGet: {path: /, port: health}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /, port: health}
  initialDelaySeconds: 10
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

{{- define "tare.collectorPorts" -}}
- {name: otlp-grpc, containerPort: 4317}
- {name: otlp-http, containerPort: 4318}
- {name: metrics, containerPort: 8888}
- {name: health, containerPort: 13133}
{{- end }}

{{- define "tare.collectorMounts" -}}
- {name: config, mountPath: /etc/tare, readOnly: true}
{{- if .Values.tls.secretName }}
- {name: certificates, mountPath: /etc/tare-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "tare.certificates" -}}
{{- with .Values.tls.secretName }}
- name: certificates
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}

{{- /* Receivers: mutual TLS, if there are certificates. */ -}}
{{- define "tare.receivers" -}}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 0.0.0.0:4317
        {{- include "tare.serverTLS" . | nindent 8 }}
      http:
        endpoint: 0.0.0.0:4318
        {{- include "tare.serverTLS" . | nindent 8 }}
{{- end }}

{{- define "tare.serverTLS" -}}
{{- if .Values.tls.secretName }}
tls:
  cert_file: /etc/tare-tls/tls.crt
  key_file: /etc/tare-tls/tls.key
  client_ca_file: /etc/tare-tls/ca.crt
  min_version: "1.3"
  reload_interval: 1h
{{- end }}
{{- end }}

{{- define "tare.clientTLS" -}}
tls:
{{- if .Values.tls.secretName }}
  ca_file: /etc/tare-tls/ca.crt
  cert_file: /etc/tare-tls/tls.crt
  key_file: /etc/tare-tls/tls.key
  min_version: "1.3"
  reload_interval: 1h
{{- else }}
  insecure: true
{{- end }}
{{- end }}

{{- /* What memory_limiter takes: of a limit such as 1536Mi, two thirds, so that what is not heap has room. */ -}}
{{- define "tare.memoryLimiter" -}}
memory_limiter:
  check_interval: 100ms
  {{- $limit := dig "limits" "memory" "1Gi" .resources | toString }}
  {{- $mib := 0 }}
  {{- if hasSuffix "Gi" $limit }}{{ $mib = mulf (trimSuffix "Gi" $limit | float64) 1024 }}
  {{- else if hasSuffix "Mi" $limit }}{{ $mib = trimSuffix "Mi" $limit | float64 }}
  {{- else }}{{ fail (printf "a collector's resources.limits.memory is %q: give it in Mi or Gi" $limit) }}{{ end }}
  limit_mib: {{ divf (mulf $mib 2) 3 | floor | int }}
  spike_limit_mib: {{ divf $mib 6 | floor | int }}
{{- end }}

{{- define "tare.telemetry" -}}
telemetry:
  logs: {disable_caller: true, disable_stacktrace: true, disable_zap_resource: true}
  metrics:
    readers:
      - pull: {exporter: {prometheus: {host: 0.0.0.0, port: 8888, without_scope_info: true, without_type_suffix: true, without_units: true}}}
{{- end }}
