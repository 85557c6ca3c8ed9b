package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

func TestMain(m *testing.M) { servicetest.Run(m) }

// bothPipelines runs a test with each; what leaves the service is the same.
func bothPipelines(t *testing.T, test func(t *testing.T, pipeline string)) {
	for _, pipeline := range []string{"official", "lean"} {
		t.Run(pipeline, func(t *testing.T) { test(t, pipeline) })
	}
}

func traced(r *servicetest.Receiver, more map[string]string) map[string]string {
	env := map[string]string{
		"TRACING_ENABLED":    "true",
		"COLLECTOR_ENDPOINT": r.URL,
		"LONG_RUNNING_MIN":   "1ms",
		"LONG_RUNNING_MAX":   "5ms",
	}
	for k, v := range more {
		env[k] = v
	}
	return env
}

func TestSpansOfEveryEndpoint(t *testing.T) { bothPipelines(t, spansOfEveryEndpoint) }

func spansOfEveryEndpoint(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	p := servicetest.Start(t, "thesis", traced(r, map[string]string{"PIPELINE": pipeline}))
	operations := map[string]string{
		"/api/basic": "computation", "/api/large-payload": "payload", "/api/long-running": "delay",
		"/api/deep-spans": "nesting", "/api/cpu-intensive": "cpu",
	}
	for path := range operations {
		if status, body := p.Get(path); status != 200 {
			t.Fatalf("%s: %d %q", path, status, body)
		}
	}
	for _, path := range []string{"/health", "/config", "/metrics", "/adaptive-metrics"} {
		p.Get(path)
	}
	require.Equal(t, 0, p.Terminate(), "exit status")
	spans := r.Spans()
	servers := map[string]servicetest.Span{}
	for _, s := range spans {
		assert.Equal(t, "tare-thesis", s.Service, "service of span %q", s.GetName())
		if s.GetKind() == trace.Span_SPAN_KIND_SERVER {
			servers[s.Attribute("http.route")] = s
		}
	}
	if len(spans) != 5+levels || len(servers) != 5 {
		t.Errorf("%d spans, of which %d of a server: %v", len(spans), len(servers), spans)
	}
	for path, operation := range operations {
		s, ok := servers[path]
		if !ok || s.GetName() != "GET "+path || s.Attribute("app.operation") != operation {
			t.Errorf("span of %s: %v", path, s.Span)
		}
	}
	// One inside the other, from the request's own downwards.
	parent := servers["/api/deep-spans"]
	for level := 1; level <= levels; level++ {
		var child servicetest.Span
		for _, s := range spans {
			if s.GetName() == fmt.Sprintf("level-%d", level) {
				child = s
			}
		}
		switch {
		case child.Span == nil:
			t.Fatalf("no span of level %d", level)
		case string(child.GetParentSpanId()) != string(parent.GetSpanId()),
			string(child.GetTraceId()) != string(parent.GetTraceId()):
			t.Errorf("level %d is not a child of the one above", level)
		case child.GetStartTimeUnixNano() < parent.GetStartTimeUnixNano(),
			child.GetEndTimeUnixNano() > parent.GetEndTimeUnixNano():
			t.Errorf("level %d is not within the one above", level)
		case child.GetEndTimeUnixNano()-child.GetStartTimeUnixNano() < uint64(time.Millisecond):
			t.Errorf("level %d is shorter than its delay", level)
		}
		parent = child
	}
}

// The share of requests of which a trace arrives, and what the service says of
// its own sampling.
func TestSampledShares(t *testing.T) { bothPipelines(t, sampledShares) }

func sampledShares(t *testing.T, pipeline string) {
	for _, c := range []struct {
		strategy, rate string
		share          float64
	}{
		{"always_on", "0.1", 1},
		{"always_off", "1", 0},
		{"traceidratiobased", "0", 0},
		{"traceidratiobased", "0.1", 0.1},
		{"traceidratiobased", "1", 1},
		{"parentbased_traceidratiobased", "0", 0},
		{"parentbased_traceidratiobased", "0.1", 0.1},
		{"parentbased_traceidratiobased", "1", 1},
	} {
		t.Run(c.strategy+"@"+c.rate, func(t *testing.T) {
			r := servicetest.NewReceiver(t, "127.0.0.1")
			p := servicetest.Start(t, "thesis", traced(r, map[string]string{
				"PIPELINE": pipeline, "SAMPLING_STRATEGY": c.strategy, "SAMPLING_RATE": c.rate,
			}))
			requests := 100
			if c.share != 0 && c.share != 1 {
				requests = 2000
			}
			for range requests {
				p.Get("/api/basic")
			}
			config := p.Config()
			if config["sampling_strategy"] != c.strategy || config["sampling_rate"] != c.share || config["pipeline"] != pipeline {
				t.Errorf("read back: %v", config)
			}
			require.Equal(t, 0, p.Terminate(), "exit status")
			got := float64(len(r.Spans()))
			// Seven standard deviations: one run in 10^11.
			n := float64(requests)
			assert.InDelta(t, n*c.share, got, 7*math.Sqrt(n*c.share*(1-c.share)), "traces of %d requests", requests)
		})
	}
}

// Who asks may have decided already: the parent-based strategy obeys, the
// other one does not.
func TestParentsDecide(t *testing.T) { bothPipelines(t, parentsDecide) }

func parentsDecide(t *testing.T, pipeline string) {
	for _, c := range []struct {
		strategy string
		rate     string
		flags    string
		want     int
	}{
		{"parentbased_traceidratiobased", "0", "01", 1},
		{"parentbased_traceidratiobased", "1", "00", 0},
		{"traceidratiobased", "0", "01", 0},
		{"traceidratiobased", "1", "00", 1},
	} {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": c.strategy, "SAMPLING_RATE": c.rate,
		}))
		const id = "0af7651916cd43dd8448eb211c80319c"
		p.Do("/api/basic", map[string]string{"traceparent": "00-" + id + "-b7ad6b7169203331-" + c.flags})
		require.Equal(t, 0, p.Terminate(), "exit status")
		spans := r.Spans()
		assert.Equal(t, c.want, len(spans), "%+v: spans", c)
		for _, s := range spans {
			assert.Equal(t, id, hex.EncodeToString(s.GetTraceId()), "trace")
		}
	}
}

// A collector that stalls: what does not fit the queue is dropped, and counted.
func TestDroppedSpansAreCounted(t *testing.T) { bothPipelines(t, droppedSpansAreCounted) }

func droppedSpansAreCounted(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	p := servicetest.Start(t, "thesis", traced(r, map[string]string{
		"PIPELINE": pipeline, "OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4", "OTEL_BSP_SCHEDULE_DELAY": "50",
	}))
	r.Stall()
	p.Get("/api/basic")
	r.AwaitStalled()
	const more = 100
	for range more {
		p.Get("/api/basic")
	}
	r.Resume()
	var config map[string]any
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		config = p.Config()
		if config["spans_exported"].(float64)+config["spans_dropped"].(float64) == 1+more || time.Now().After(deadline) {
			break
		}
	}
	received := len(r.Spans())
	if config["spans_exported"] != float64(received) || config["spans_dropped"] != float64(1+more-received) || config["spans_failed"] != 0.0 {
		t.Errorf("%d spans received: %v", received, config)
	}
	// The queue, and the batch that stalled, which lean counts as a part of it.
	assert.Equal(t, map[string]int{"official": 1 + 16, "lean": 16}[pipeline], received, "spans received")
	_, text := p.Get("/metrics")
	if want := fmt.Sprintf("\notel_spans_dropped_total %d\n", 1+more-received); !contains(text, want) {
		t.Errorf("no %q in the metrics:\n%s", want, text)
	}
}

func TestFailedAndRejectedSpansAreCounted(t *testing.T) {
	bothPipelines(t, failedAndRejectedSpansAreCounted)
}

func failedAndRejectedSpansAreCounted(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	r.Reject(3)
	p := servicetest.Start(t, "thesis", traced(r, map[string]string{"PIPELINE": pipeline, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "6"}))
	p.Get("/api/deep-spans") // six spans
	await(t, p, "spans_failed", 3)
	if c := p.Config(); c["spans_exported"] != 3.0 {
		t.Errorf("rejected: %v", c)
	}

	gone := servicetest.Start(t, "thesis", traced(r, map[string]string{
		"PIPELINE": pipeline, "COLLECTOR_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "6",
	}))
	gone.Get("/api/deep-spans")
	await(t, gone, "spans_failed", 6)
	if c := gone.Config(); c["spans_exported"] != 0.0 || c["collector_endpoint"] != "http://127.0.0.1:1" {
		t.Errorf("no collector: %v", c)
	}
}

func await(t *testing.T, p *servicetest.Process, key string, want float64) {
	t.Helper()
	testkit.Until(t, 15*time.Second, key+" is as wanted", func() bool { return p.Config()[key] == want })
}
