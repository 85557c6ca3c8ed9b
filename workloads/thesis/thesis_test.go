package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

var contains = strings.Contains

func TestBaselines(t *testing.T) {
	for baseline, want := range map[string]string{"": "none", "bare": "none", "noop": "otelhttp"} {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"TRACING_ENABLED": "false", "BASELINE": baseline,
		}))
		if status, _ := p.Get("/api/deep-spans"); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		c := p.Config()
		if c["tracing_enabled"] != false || c["sampling_strategy"] != "none" || c["sampling_rate"] != 0.0 ||
			c["collector_endpoint"] != "" || c["instrumentation"] != want || c["tracer_provider"] != "noop.TracerProvider" {
			t.Errorf("baseline %q: %v", baseline, c)
		}
		if name := map[string]string{"": "bare"}[baseline]; c["baseline"] != baseline && c["baseline"] != name {
			t.Errorf("baseline %q: %v", baseline, c["baseline"])
		}
		if code := p.Terminate(); code != 0 || len(r.Spans()) > 0 {
			t.Errorf("exit status %d, %d spans", code, len(r.Spans()))
		}
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for key, values := range map[string][]string{
		"TRACING_ENABLED":            {"maybe"},
		"SAMPLING_STRATEGY":          {"sometimes"},
		"SAMPLING_RATE":              {"-0.1", "1.1", "NaN", "x"},
		"COLLECTOR_ENDPOINT":         {"127.0.0.1:4318", "grpc://x:1", "http://"},
		"BASELINE":                   {"off"},
		"ADAPTIVE_BASE_RATE":         {"2"},
		"ADAPTIVE_ERROR_BOOST":       {"0.5"},
		"ADAPTIVE_LATENCY_THRESHOLD": {"-1"},
		"ADAPTIVE_LATENCY_BOOST":     {"x"},
		"ADAPTIVE_UPDATE_INTERVAL":   {"0"},
		"ADAPTIVE_MAX_RATE":          {"0.01"},
		"PAYLOAD_SIZE":               {"-1", "67108865", "1k"},
		"LONG_RUNNING_MIN":           {"5", "6s", "-1s"},
		"LONG_RUNNING_MAX":           {"2m", "1ms"},
		"DEEP_SPANS_DELAY":           {"1"},
		"CPU_PRIMES":                 {"0"},
		"INJECT_ERRORS":              {"2"},
		"PIPELINE":                   {"fat"},
		"KEEP":                       {"some"},
		"KEEP_SLOWER_THAN":           {"1"},
		"REDACT":                     {"x"},
		"INJECT_PATTERN":             {"odd"},
		"INJECT_SEED":                {"-1", "x"},
		"INJECT_SLOW":                {"-1"},
		"INJECT_SLOW_DELAY":          {"soon"},
		"LISTEN":                     {"nowhere"},
		"NEXT":                       {"127.0.0.1:8080", "ftp://x", "http://x?y"},
	} {
		for _, v := range values {
			if said := servicetest.Fails(t, "thesis", map[string]string{key: v}); !contains(said, key) {
				t.Errorf("%s=%s: %q", key, v, said)
			}
		}
	}
	said := servicetest.Fails(t, "thesis", map[string]string{"SAMPLING_RATE": "2", "INJECT_SLOW": "2"})
	if !contains(said, "SAMPLING_RATE") || !contains(said, "INJECT_SLOW") {
		t.Errorf("two wrong ones: %q", said)
	}
}

func TestAnswers(t *testing.T) {
	p := servicetest.Start(t, "thesis", map[string]string{
		"PAYLOAD_SIZE": "1000", "LONG_RUNNING_MIN": "0s", "LONG_RUNNING_MAX": "20ms", "CPU_PRIMES": "100",
	})
	for _, c := range []struct {
		path   string
		status int
		body   string // that it holds
		length int    // -1: any
	}{
		{"/api/basic", 200, `"sum_of_squares":332833500`, -1},
		{"/api/large-payload", 200, "", 1000},
		{"/api/large-payload?size=0", 200, "", 0},
		{"/api/large-payload?size=70000", 200, "", 70000},
		{"/api/large-payload?size=67108864", 200, "", 64 << 20},
		{"/api/large-payload?size=67108865", 400, "size:", -1},
		{"/api/large-payload?size=-1", 400, "size:", -1},
		{"/api/large-payload?size=x", 400, "not an integer from 0 to 67108864", -1},
		// The cycle: five steps, then from the start.
		{"/api/long-running", 200, `"seconds":0}`, -1},
		{"/api/long-running", 200, `"seconds":0.005}`, -1},
		{"/api/long-running", 200, `"seconds":0.01}`, -1},
		{"/api/long-running", 200, `"seconds":0.015}`, -1},
		{"/api/long-running", 200, `"seconds":0.02}`, -1},
		{"/api/long-running", 200, `"seconds":0}`, -1},
		{"/api/long-running?seconds=0.001", 200, `"seconds":0.001}`, -1},
		{"/api/long-running?seconds=61", 400, "seconds:", -1},
		{"/api/long-running?seconds=NaN", 400, "seconds:", -1},
		{"/api/deep-spans", 200, `"levels":5`, -1},
		{"/api/cpu-intensive", 200, `"primes":25`, -1},
		{"/api/cpu-intensive?limit=1000", 200, `"primes":168`, -1},
		{"/api/cpu-intensive?limit=0", 400, "limit:", -1},
		{"/health", 200, `"status":"ok"`, -1},
		{"/adaptive-metrics", 404, `"error":"there are no adaptive metrics`, -1},
		{"/adaptive-alerts", 404, `"error":"no alerts are received`, -1},
		{"/debug/pprof/goroutine?debug=1", 200, "goroutine profile", -1},
		{"/debug/pprof/", 200, "heap", -1},
		{"/nothing", 404, "", -1},
	} {
		status, body := p.Get(c.path)
		if status != c.status || !contains(body, c.body) || c.length >= 0 && len(body) != c.length {
			t.Errorf("%s: %d, %d bytes %.200q", c.path, status, len(body), body)
		}
	}
	_, text := p.Get("/metrics")
	servicetest.CheckMetrics(t, text)
	for _, want := range []string{
		`http_request_duration_seconds_count{endpoint="/api/large-payload",status="200"} 4`,
		`http_request_duration_seconds_count{endpoint="/api/large-payload",status="400"} 3`,
		`http_requests_total{endpoint="/api/large-payload"} 7`,
		`http_requests_2xx_total{endpoint="/api/large-payload"} 4`,
		"otel_spans_exported_total 0", "otel_spans_failed_total 0", "otel_spans_dropped_total 0",
		"process_cpu_seconds_total", "go_goroutines",
	} {
		assert.True(t, contains(text, want), "no %q in the metrics", want)
	}
}

// Bodies of all sizes are read to their ends, with a length and without (chunked).
func TestPostedPayloads(t *testing.T) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	p := servicetest.Start(t, "thesis", traced(r, nil))
	for _, size := range []int{0, 1000, 1 << 20} {
		for _, body := range []io.Reader{bytes.NewReader(make([]byte, size)), io.MultiReader(bytes.NewReader(make([]byte, size)))} {
			if status, answer := p.Post("/api/large-payload", body); status != http.StatusOK || !contains(answer, fmt.Sprintf(`"received":%d}`, size)) {
				t.Errorf("%d bytes: %d %q", size, status, answer)
			}
		}
	}
	if status, answer := p.Post("/api/large-payload", bytes.NewReader(make([]byte, maxPayload+1))); status != http.StatusRequestEntityTooLarge || !contains(answer, "up to 67108864 bytes") {
		t.Errorf("a body that is too large: %d %q", status, answer)
	}
	if status, _ := p.Post("/api/basic", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("a POST where none is read: %d", status)
	}
	assert.Equal(t, 0, p.Terminate(), "exit status")
	sizes := map[string]int{}
	for _, s := range r.Spans() {
		sizes[s.Attribute("app.payload.size")]++
	}
	if len(r.Spans()) != 7 || sizes["int_value:1000"] != 2 || sizes["int_value:1048576"] != 2 {
		t.Errorf("sizes that spans have: %v", sizes)
	}
}

func TestInjectedFaults(t *testing.T) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	p := servicetest.Start(t, "thesis", traced(r, map[string]string{
		"INJECT_ERRORS": "0.01", "INJECT_SLOW": "0.02", "INJECT_SLOW_DELAY": "1ms",
	}))
	for n := 1; n <= 300; n++ {
		want := http.StatusOK
		if n%100 == 0 {
			want = http.StatusInternalServerError
		}
		status, body := p.Get("/api/basic")
		require.Equal(t, want, status, "request %d: %q", n, body)
		if want != http.StatusOK && !json.Valid([]byte(body)) {
			t.Errorf("no JSON: %q", body)
		}
	}
	require.Equal(t, 0, p.Terminate(), "exit status")
	injected := map[string]int{}
	for _, s := range r.Spans() {
		injected[s.Attribute("app.injected")]++
		if failed := s.GetStatus().GetCode() == 2; failed != (s.Attribute("app.injected") == "error") {
			t.Errorf("status of span %v", s.Span)
		}
	}
	if injected["error"] != 3 || injected["delay"] != 6 || injected[""] != 291 {
		t.Errorf("spans: %v", injected)
	}
}

// A request that is under way when the service is told to end comes to its end.
func TestRequestsUnderWayEnd(t *testing.T) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	p := servicetest.Start(t, "thesis", traced(r, map[string]string{"DEEP_SPANS_DELAY": "200ms"}))
	got := make(chan int, 1)
	go func() {
		status, _ := p.Get("/api/deep-spans")
		got <- status
	}()
	for { // until its handler runs
		if _, stacks := p.Get("/debug/pprof/goroutine?debug=2"); contains(stacks, "main.pause") {
			break
		}
	}
	assert.Equal(t, 0, p.Terminate(), "exit status")
	if status := <-got; status != http.StatusOK || len(r.Spans()) != 1+levels {
		t.Errorf("status %d, %d spans", status, len(r.Spans()))
	}
}

func TestEveryIsExact(t *testing.T) {
	for _, share := range []float64{0, 0.000001, 0.01, 0.29, 1.0 / 3, 0.5, 0.999, 1} {
		for _, phase := range []uint64{0, million / 2} {
			e := newEvery(share, phase)
			var hits, calls uint64
			for calls < million {
				calls++
				if e.hit() {
					hits++
				}
				if d := float64(hits) - share*float64(calls); d > 1 || d < -1 {
					t.Fatalf("share %v: %d hits in %d calls", share, hits, calls)
				}
			}
			assert.Equal(t, e.millionth, hits, "share %v: hits in a million", share)
		}
	}
}

// Scattered faults are the same in every run of one seed and others with another, as many as the share says (within
// seven standard deviations), and do not know of each other: of the calls after a
// hit, as many are hit as of all.
func TestScatteredFaults(t *testing.T) {
	const n, share = 200_000, 0.05
	of := func(seed int) *every {
		return newFaults(settings{errors: share, pattern: scattered, seed: seed}).errors
	}
	first, again, other := of(1), of(1), of(2)
	same := 0.0 // hits that the other seed has, too
	hits, pairs, last := 0.0, 0.0, false
	for range n {
		hit := first.hit()
		require.Equal(t, hit, again.hit(), "two runs of one seed have different faults")
		if other.hit() && hit {
			same++
		}
		if hit {
			hits++
			if last {
				pairs++
			}
		}
		last = hit
	}
	for _, c := range []struct{ got, of float64 }{{hits, n}, {pairs, hits}, {same, hits}} {
		assert.InDelta(t, share*c.of, c.got, 7*math.Sqrt(c.of*share*(1-share)), "hits of %v at a share of %v", c.of, share)
	}
}
