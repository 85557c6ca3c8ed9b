package tracer

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads"
)

func TestSamplerIsAsked(t *testing.T) {
	target := answers(t, `{"rate": 0.3, "decisions": {"total": 10, "sampled": 3}}`, nil, 0.1)
	target.Variant.Tracer.Sampler = "/adaptive-metrics"
	s, err := env{}.Start(t.Context(), target)
	require.NoError(t, err)
	defer func() { _ = s.Stop() }()
	state, err := s.(Sampling).Sampler(t.Context())
	if err != nil || state != (record.SamplerState{Rate: 0.3, Decided: 10, Sampled: 3}) {
		t.Errorf("%+v, %v", state, err)
	}
	r, err := s.ReadBack(t.Context())
	if err != nil || !r.Expected || !r.HasRoots || r.Sampled != 3 || r.Unsampled != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	target.Variant.Tracer.Sampler = ""
	if r, err := s.ReadBack(t.Context()); err != nil || r.Expected || r.HasRoots {
		t.Errorf("not asked for: %+v, %v", r, err)
	}
}

func TestWrongSamplerStates(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:            "has no rate",
		`{"rate": 0.1}`: "no decisions",
		`[]`:            "not a JSON object",
		`{"rate": 1.1, "decisions": {"total": 1, "sampled": 1}}`: "cannot be",
		`{"rate": 0.1, "decisions": {"total": 1, "sampled": 2}}`: "sampled 2 of 1",
		`{"rate": 0.1, "decisions": {"total": -1}}`:              "not a JSON object",
	} {
		if _, err := parseSampler([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
	target := answers(t, "hello", nil)
	target.Variant.Tracer.Sampler = "/adaptive-metrics"
	if _, err := newService(target).Sampler(t.Context()); err == nil || !strings.Contains(err.Error(), "not a JSON object") {
		t.Errorf("%v", err)
	}
}

func FuzzParseSampler(f *testing.F) {
	f.Add([]byte(`{"rate": 0.3, "decisions": {"total": 10, "sampled": 3}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSampler(b); err == nil && (s.Sampled > s.Decided || !(s.Rate >= 0 && s.Rate <= 1)) {
			t.Errorf("%+v", s)
		}
	})
}

// Services of the entry's program are asked as the entry is; others are not.
func TestServicesBehindAreReadBack(t *testing.T) {
	serve := func(rate float64, dropped int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"tracing_enabled": true, "sampling_rate": %v, "spans_dropped": %d, "spans_failed": 1}`, rate, dropped)
		}))
		t.Cleanup(s.Close)
		return s
	}
	service := func(name string, s *httptest.Server, alike bool) workloads.Service {
		host, port, err := net.SplitHostPort(s.Listener.Addr().String())
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		return workloads.Service{Name: name, Host: host, Port: n, Alike: alike}
	}
	first, second, other := serve(0.1, 2), serve(0.1, 4), serve(1, 8)
	target := func(third bool) Target {
		return Target{
			Chain: &workloads.Chain{Entry: first.Listener.Addr().String(), Services: []workloads.Service{
				service("first", first, true), service("second", second, true), service("third", other, third),
			}},
			Workload: &experiment.Workload{Name: "w", Kind: "thesis-3", ReadBack: "/config"},
			Variant:  experiment.Variant{Name: "sdk@0.1", Tracer: &experiment.Tracer{Expect: map[string]string{"sampling_rate": "{rate}"}, Rates: []float64{0.1}}, Rate: 0.1},
		}
	}
	r, err := newService(target(false)).ReadBack(t.Context())
	if err != nil || !r.Counts || r.Dropped != 8 || r.Lost["dropped"] != 6 || r.Lost["export_failed"] != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := newService(target(true)).ReadBack(t.Context()); err == nil || !strings.Contains(err.Error(), "service third says sampling_rate=1, and should say 0.1") {
		t.Errorf("a service behind with another rate: %v", err)
	}
}
