package integration

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-trace/tare/lab/record"
)

// The services' own instrumentation, on both pipelines and between two nodes: of every
// request under load, all that it can see is complete.
func TestHotelTracedWithin(t *testing.T) {
	need(t, "redis-server", "memcached", "postgres")
	dir := t.TempDir()
	file := filepath.Join(dir, "hotel.yaml")
	const experiment = `name: hotel-within
title: hotel, traced within
workloads:
  - {name: hotel, kind: hotel, read_back: /config}
tracers:
  - {name: none, driver: none, expect: {tracing_enabled: "false"}}
  - name: official
    driver: env
    env: &sdk
      ENABLE_OTEL: "1"
      OTEL_TRACES_SAMPLER: always_on
      OTEL_BSP_MAX_QUEUE_SIZE: "100000"
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "{otlp}/v1/traces"
    expect: {pipeline: official, instrumentation: otelhttp}
  - name: lean
    driver: env
    env: {<<: *sdk, PIPELINE: lean}
    expect: {pipeline: lean}
loads:
  - {name: closed, connections: 64}
profiles:
  smoke: {rounds: 1, warmup: 100ms, window: 500ms, check: 2000}
metrics: [throughput]
`
	if err := os.WriteFile(file, []byte(experiment), 0o600); err != nil {
		t.Fatal(err)
	}
	_, runs := experimentOf(t, dir, file, "smoke")
	checked := 0
	for _, r := range runs {
		if r.Failures > 0 {
			t.Errorf("%s: %d requests failed: %v", r.ID, r.Failures, r.Errors)
		}
		if r.Kind != record.Checked || r.Tracer == "none" {
			continue
		}
		checked++
		want := map[string]int{"complete": 2000, "wrong": 0, "orphaned spans": 0, "split requests": 0}
		if !maps.Equal(r.Fidelity, want) {
			t.Errorf("%s: %v", r.ID, r.Fidelity)
		}
	}
	if checked != 2 {
		t.Errorf("%d checked runs of %d", checked, len(runs))
	}
}
