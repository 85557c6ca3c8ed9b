package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

// errorsOf counts the received requests that failed, and all.
func errorsOf(r *servicetest.Receiver) (failed, all int) {
	for _, s := range r.Spans() {
		all++
		if s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR {
			failed++
		}
	}
	return failed, all
}

// Every failed request has a trace, however few are sampled.
func TestKeep(t *testing.T) {
	bothPipelines(t, func(t *testing.T, pipeline string) {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": "parentbased_traceidratiobased", "SAMPLING_RATE": "0.1",
			"KEEP": "true", "INJECT_ERRORS": "0.05",
		}))
		const requests = 1000
		for range requests {
			p.Get("/api/basic")
		}
		c := p.Config()
		if c["keep"] != true || c["head_rate"] != 0.1 || c["sampling_rate"] != nil || c["sampling_strategy"] != "parentbased_traceidratiobased" {
			t.Errorf("read back: %v", c)
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
		failed, all := errorsOf(r)
		// All of 50, and of the others 95 with a standard deviation of 9.
		if failed != 50 || all < 50+30 || all > 50+160 {
			t.Errorf("%d traces, %d of them failed", all, failed)
		}
	})
}

// A failure raises the rate of what comes after the next look at it.
func TestAdaptive(t *testing.T) {
	bothPipelines(t, func(t *testing.T, pipeline string) {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": "adaptive", "ADAPTIVE_BASE_RATE": "0.2", "ADAPTIVE_UPDATE_INTERVAL": "0.05",
			"INJECT_ERRORS": "0.01",
		}))
		c := p.Config()
		if c["sampling_strategy"] != "adaptive" || c["adaptive_base_rate"] != 0.2 || c["adaptive_update_interval"] != 0.05 || c["sampling_rate"] != nil {
			t.Errorf("read back: %v", c)
		}
		rate := func() float64 {
			status, body := p.Get("/adaptive-metrics")
			var state struct {
				Rate float64 `json:"rate"`
			}
			if err := json.Unmarshal([]byte(body), &state); err != nil || status != http.StatusOK {
				t.Fatalf("%d %q: %v", status, body, err)
			}
			return state.Rate
		}
		for deadline := time.Now().Add(time.Minute); rate() < 0.6-1e-9; p.Get("/api/basic") {
			if time.Now().After(deadline) {
				t.Fatalf("errors do not raise the rate: %v", rate())
			}
		}
		for deadline := time.Now().Add(time.Minute); rate() > 0.2+1e-9; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the rate stays at %v", rate())
			}
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
	})
}

func TestRateLimiting(t *testing.T) {
	bothPipelines(t, func(t *testing.T, pipeline string) {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		begin := time.Now()
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": "rate_limiting", "RATE_LIMIT": "10",
		}))
		for range 1000 {
			p.Get("/api/basic")
		}
		took := time.Since(begin)
		if c := p.Config(); c["sampling_strategy"] != "rate_limiting" {
			t.Errorf("read back: %v", c)
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
		// The rate for as long as it took, and a burst of a second.
		_, all := errorsOf(r)
		if most := int(10*took.Seconds()) + 10 + 1; all < 1 || all > most {
			t.Errorf("%d traces in %v, at most %d are allowed", all, took, most)
		}
	})
}

func TestContextAware(t *testing.T) {
	bothPipelines(t, func(t *testing.T, pipeline string) {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{
			"PIPELINE": pipeline, "SAMPLING_STRATEGY": "context_aware",
			"CONTEXT_SAMPLER_RULES": `{"default":0,"rules":[{"probability":1,"attributes":{"url.path":"/api/deep*"}}]}`,
		}))
		for range 10 {
			p.Get("/api/basic")
			p.Get("/api/deep-spans")
		}
		if c := p.Config(); c["sampling_strategy"] != "context_aware" {
			t.Errorf("read back: %v", c)
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
		if _, all := errorsOf(r); all != 10*(1+levels) {
			t.Errorf("%d spans", all)
		}
	})
	said := servicetest.Fails(t, "thesis", map[string]string{"TRACING_ENABLED": "true", "SAMPLING_STRATEGY": "context_aware"})
	assert.True(t, contains(said, "CONTEXT_SAMPLER_RULES"), "%q", said)
}

// What is sensitive does not leave.
func TestRedact(t *testing.T) {
	bothPipelines(t, func(t *testing.T, pipeline string) {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{"PIPELINE": pipeline, "REDACT": "true"}))
		p.Do("/api/basic", map[string]string{"User-Agent": "mail to someone@example.com"})
		require.Equal(t, 0, p.Terminate(), "exit status")
		spans := r.Spans()
		if len(spans) != 1 || spans[0].GetName() != "GET /api/basic" {
			t.Fatalf("%v", spans)
		}
		if agent := spans[0].Attribute("user_agent.original"); contains(agent, "someone@") || !contains(agent, "mail to") {
			t.Errorf("user agent %q", agent)
		}
	})
}
