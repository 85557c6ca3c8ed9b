package main

import (
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

// The trace goes on in the next service, whose sampler obeys the entry's, and a
// failure there is one here.
func TestNextServiceIsInTheTrace(t *testing.T) { bothPipelines(t, nextServiceIsInTheTrace) }

func nextServiceIsInTheTrace(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	env := func(name, rate string, more ...string) map[string]string {
		all := traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": "parentbased_traceidratiobased", "SAMPLING_RATE": rate,
			"OTEL_SERVICE_NAME": name,
		})
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	back := servicetest.Start(t, "thesis", env("back", "0", "INJECT_ERRORS", "0.5"))
	front := servicetest.Start(t, "thesis", env("front", "1", "NEXT", back.URL+"/"))
	if front.Config()["next"] != back.URL+"/" {
		t.Errorf("%v", front.Config())
	}
	for i, want := range []int{http.StatusOK, http.StatusBadGateway} {
		if status, body := front.Get([]string{"/api/basic/7?a=b", "/api/deep-spans"}[i]); status != want {
			t.Errorf("request %d: %d %s", i, status, body)
		}
	}
	for _, p := range []*servicetest.Process{front, back} {
		assert.Equal(t, 0, p.Terminate(), "exit status")
	}
	byTrace := map[string]map[string]servicetest.Span{}
	for _, s := range r.Spans() {
		id := hex.EncodeToString(s.GetTraceId())
		if byTrace[id] == nil {
			byTrace[id] = map[string]servicetest.Span{}
		}
		byTrace[id][s.Service+" "+s.GetKind().String()] = s
	}
	require.Equal(t, 2, len(byTrace), "traces: %v", byTrace)
	for id, spans := range byTrace {
		entry, call, behind := spans["front SPAN_KIND_SERVER"], spans["front SPAN_KIND_CLIENT"], spans["back SPAN_KIND_SERVER"]
		if entry.Span == nil || call.Span == nil || behind.Span == nil {
			t.Fatalf("trace %s: %v", id, spans)
		}
		if string(call.GetParentSpanId()) != string(entry.GetSpanId()) || string(behind.GetParentSpanId()) != string(call.GetSpanId()) {
			t.Errorf("trace %s is no chain: %v", id, spans)
		}
		path := entry.Attribute("url.path")
		assert.Equal(t, path, behind.Attribute("url.path"), "path that the next service was asked for")
		failed := path == "/api/deep-spans"
		for _, s := range []servicetest.Span{entry, call, behind} {
			if (s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR) != failed {
				t.Errorf("%s: status %v of %s %s", path, s.GetStatus(), s.Service, s.GetKind())
			}
		}
	}
}

// Without tracing, and where nobody answers.
func TestNextServiceWithoutTracing(t *testing.T) {
	back := servicetest.Start(t, "thesis", nil)
	for _, baseline := range []string{"bare", "noop"} {
		front := servicetest.Start(t, "thesis", map[string]string{"BASELINE": baseline, "NEXT": back.URL})
		if status, body := front.Get("/api/basic/1"); status != http.StatusOK {
			t.Errorf("%s: %d %s", baseline, status, body)
		}
	}
	if _, text := back.Get("/metrics"); !contains(text, `http_requests_total{endpoint="/api/basic"} 2`) {
		t.Errorf("the next service was not asked twice: %s", text)
	}
	alone := servicetest.Start(t, "thesis", map[string]string{"NEXT": "http://127.0.0.1:1"})
	if status, body := alone.Get("/api/basic"); status != http.StatusBadGateway || !contains(body, "NEXT") {
		t.Errorf("nobody answers: %d %s", status, body)
	}
}
