{{- /* Configurations of the collectors, which deploy/collector explains. */ -}}
{{- define "tare.gatewayConfig" -}}
{{ include "tare.receivers" . }}
processors:
  {{- include "tare.memoryLimiter" . | nindent 2 }}
exporters:
  load_balancing:
    routing_key: traceID
    protocol:
      otlp:
        {{- include "tare.clientTLS" . | nindent 8 }}
        sending_queue:
          queue_size: 10000
        retry_on_failure:
          max_elapsed_time: 5m
    resolver:
      static:
        hostnames:
          {{- range $n := until (int .Values.collector.tracing.replicas) }}
          - tare-tracing-{{ $n }}.tare-tracing.{{ $.Release.Namespace }}.svc:4317
          {{- end }}
extensions:
  health_check:
    endpoint: 0.0.0.0:13133
service:
  extensions: [health_check]
  {{- include "tare.telemetry" . | nindent 2 }}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter]
      exporters: [load_balancing]
{{- end }}

{{- define "tare.tracingConfig" -}}
{{ include "tare.receivers" . }}
processors:
  {{- include "tare.memoryLimiter" . | nindent 2 }}
  tare_tracer:
    {{- toYaml (merge (deepCopy .Values.collector.tracer) (dict "journal" "tare_store")) | nindent 4 }}
  tare_keep:
    {{- with .Values.collector.keep }}{{ toYaml . | nindent 4 }}{{ end }}
  tare_redact:
    {{- with .Values.collector.redact }}{{ toYaml . | nindent 4 }}{{ end }}
exporters:
  {{- $exporters := keys .Values.collector.exporters | sortAlpha }}
  {{- if .Values.collector.store.enabled }}
  {{- $exporters = prepend $exporters "otlp_grpc/store" }}
  otlp_grpc/store:
    endpoint: tare-store.{{ .Release.Namespace }}.svc:4317
    {{- include "tare.clientTLS" . | nindent 4 }}
    sending_queue:
      wait_for_result: true # the journal keeps spans until the store has them
      sizer: items
      queue_size: 100000 # spans
      batch:
        sizer: bytes
        min_size: 1000000
        max_size: 3000000 # gRPC servers take 4 MiB, unless told otherwise
    retry_on_failure:
      max_elapsed_time: 5m # the store has one pod, which may move to another node
  {{- end }}
  {{- with .Values.collector.exporters }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
extensions:
  tare_store: # only for the journal: no span is stored here
    directory: /var/lib/tare/tracing
    retention: {size: 64MiB}
  health_check:
    endpoint: 0.0.0.0:13133
service:
  extensions: [tare_store, health_check]
  {{- include "tare.telemetry" . | nindent 2 }}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter, tare_tracer, tare_keep, tare_redact]
      exporters: [{{ join ", " $exporters }}]
{{- end }}

{{- define "tare.storeConfig" -}}
{{- $public := and .Values.page.tlsSecretName .Values.page.authSecretName -}}
{{ include "tare.receivers" . }}
processors:
  {{- include "tare.memoryLimiter" . | nindent 2 }}
exporters:
  tare_store:
extensions:
  tare_store:
    directory: /var/lib/tare/store
    retention:
      {{- toYaml .Values.collector.store.retention | nindent 6 }}
  tare_page:
    endpoint: {{ ternary "0.0.0.0" "127.0.0.1" (not (empty $public)) }}:4680
    health:
      - http://127.0.0.1:8888/metrics
      {{- range $n := until (int .Values.collector.tracing.replicas) }}
      - http://tare-tracing-{{ $n }}.tare-tracing.{{ $.Release.Namespace }}.svc:8888/metrics
      {{- end }}
    {{- if $public }}
    auth:
      authenticator: basicauth
    tls:
      cert_file: /etc/tare-page/tls.crt
      key_file: /etc/tare-page/tls.key
      reload_interval: 1h
  basicauth:
    htpasswd:
      file: /etc/tare-auth/htpasswd
    {{- end }}
  health_check:
    endpoint: 0.0.0.0:13133
service:
  extensions: [tare_store, {{ if $public }}basicauth, {{ end }}tare_page, health_check]
  {{- include "tare.telemetry" . | nindent 2 }}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter]
      exporters: [tare_store]
{{- end }}
