package adaptive

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

// Whatever a configuration request says, it is refused or leaves a
// configuration that is valid and whose rates are within its bounds.
func FuzzConfigHandler(f *testing.F) {
	for _, seed := range []string{
		`{"base_rate":0.2}`, `{"budget":{"traces_per_second":1e-3,"p99_ms":1}}`, `{"max_rate":0}`, `null`, `{}{}`,
		`{"latency_trigger":"p99.99"}`, `{"update_interval_s":1e308}`, `{"min_rate":1,"max_rate":0.5}`, `{"error_boost":1e6}`,
		`{"latency_trigger":"p1e1"}`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, body string, put bool) {
		r := newRig(t, DefaultConfig())
		r.observe("", true, time.Hour)
		method := http.MethodPatch
		if put {
			method = http.MethodPut
		}
		code, _, answer := call(r.ConfigHandler(), method, body)
		c := r.Config()
		require.NoError(t, c.Validate(), "%d, and now", code)
		if code != http.StatusOK && c != DefaultConfig() {
			t.Fatalf("refused with %d, and changed", code)
		}
		require.True(t, json.Valid([]byte(answer)), "answer %q", answer)
		r.Update()
		if rate := r.Rate(); rate > c.MaxRate*(1+1.0/4096) || rate < min(c.MinRate, c.MaxRate)*(1-1.0/4096) {
			t.Fatalf("rate %v is out of bounds: %+v", rate, c)
		}
		if got, err := ParseDescription(r.Description()); err != nil || got != c {
			t.Fatalf("%s: %+v, %v", r.Description(), got, err)
		}
	})
}

// Whatever an incident's file or request says, the rate stays within bounds,
// and what a request began is over after 7 days.
func FuzzIncident(f *testing.F) {
	for _, seed := range []string{
		"", " \n", `{"rate":0.5,"duration":"15m","reason":"checkout"}`, `{"until":"2026-01-02T00:00:00Z"}`,
		`{"rate":-1}`, `{"duration":"9999999h"}`, `{"until":"9999-12-31T23:59:59+23:59"}`, `[]`, "\xff", `{"reason":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "incident")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r := newRig(t, DefaultConfig(), WithIncidentFile(path))
		r.Update()
		if rate := r.Rate(); rate < 0.0499 || rate > 1 {
			t.Fatalf("rate %v", rate)
		}
		if code, _, answer := call(r.StateHandler(), http.MethodGet, ""); code != http.StatusOK || !json.Valid([]byte(answer)) {
			t.Fatalf("state: %d %s", code, answer)
		}
		r = newRig(t, DefaultConfig())
		code, _, answer := call(r.IncidentHandler(), http.MethodPost, text)
		if code != http.StatusOK && code != http.StatusBadRequest || !json.Valid([]byte(answer)) {
			t.Fatalf("POST: %d %s", code, answer)
		}
		if rate := r.Rate(); (code == http.StatusOK) != (r.State().Incident.Rate > 0) || rate < 0.0499 || rate > 1 {
			t.Fatalf("POST: %d, rate %v", code, rate)
		}
		r.now = r.now.Add(maxIncident)
		r.step(false)
		r.wantRate(0.05)
	})
}

func FuzzParseDescription(f *testing.F) {
	f.Add("AdaptiveSampler{" + describe(DefaultConfig()) + "}")
	f.Add("AdaptiveSampler{a:b,,}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseDescription(text)
		if err != nil {
			return
		}
		if again, err := ParseDescription("AdaptiveSampler{" + describe(c) + "}"); err != nil || again != c {
			t.Fatalf("%+v is read back as %+v, %v", c, again, err)
		}
	})
}

// A tracestate from elsewhere: the decision is the randomness's, th says so,
// and other members stay.
func FuzzShouldSample(f *testing.F) {
	f.Add("ot=rv:80000000000000", "GET /", uint64(1))
	f.Add("a=b,ot=th:8;rv:7fffffffffffff;x:y", "", uint64(2))
	f.Add("ot=th:;rv:1", "GET /b", uint64(3))
	r := newRig(f, withRates(0.5), WithoutParent(), WithRoutes(4))
	r.observe("GET /", true, ok)
	r.wait(30 * time.Second)
	f.Fuzz(func(t *testing.T, state, name string, seed uint64) {
		ts, err := trace.ParseTraceState(state)
		if err != nil {
			return
		}
		p := root(rand.New(rand.NewPCG(seed, seed)), name)
		p.ParentContext = trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: p.TraceID, SpanID: trace.SpanID{1}, TraceState: ts,
		}))
		res := r.ShouldSample(p)
		th := consistent.FromProbability(r.RateOf(name))
		require.Equal(t, th.Samples(consistent.OfParent(ts, p.TraceID)), yes(res), "sampled")
		if got, has := consistent.ThresholdOf(res.Tracestate); has && (!yes(res) || got != th) {
			t.Fatalf("th %v in %q", got, res.Tracestate)
		}
		require.Equal(t, ts.Get("a"), res.Tracestate.Get("a"), "%q became %q", ts, res.Tracestate)
	})
}
