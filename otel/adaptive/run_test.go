package adaptive

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func started(t *testing.T, opts ...Option) *Sampler {
	t.Helper()
	s, err := New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// The goroutine does what step does in the other tests.
func TestRuns(t *testing.T) {
	c := DefaultConfig()
	s := started(t, WithConfig(c))
	s.Observe(Observation{Failed: true})
	c.UpdateInterval = time.Millisecond // wakes a goroutine that sleeps for 30 s
	require.NoError(t, s.Set(c))
	eventually(t, "the interval ends", func() bool { return s.State().Observations.Failed == 1 })
	eventually(t, "the boost ends", func() bool { return close4(s.Rate(), 0.05) })
	require.NoError(t, s.StartIncident(1, time.Millisecond, ""))
	eventually(t, "the incident expires", func() bool { return close4(s.Rate(), 0.05) })
	require.NoError(t, s.StartIncident(1, time.Hour, ""))
	require.NoError(t, s.Shutdown(context.Background()))
	if got := s.Rate(); !close4(got, 0.05) {
		t.Errorf("an incident that nobody will end stays: rate %v", got)
	}
	assert.NoError(t, s.Shutdown(context.Background()), "second shutdown")
}

func TestShutdownHonoursContext(t *testing.T) {
	block := make(chan struct{})
	entered := make(chan struct{}, 1)
	c := DefaultConfig()
	c.UpdateInterval = time.Millisecond
	s := started(t, WithConfig(c), WithPressure(func() float64 {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-block
		return 0
	}))
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, s.Shutdown(ctx), context.Canceled, "shutdown")
	close(block)
}

// Everything at once, for the race detector; and nothing is lost on the way.
func TestConcurrently(t *testing.T) {
	c := DefaultConfig()
	c.UpdateInterval = time.Millisecond
	c.Budget.TracesPerSecond = 1000
	s := started(t, WithConfig(c), WithRoutes(8), WithIncidentFile(filepath.Join(t.TempDir(), "none")),
		WithRules(Never(named("GET /1")), Always(named("GET /2"))), WithPressure(func() float64 { return 0.1 }))
	const workers, rounds = 8, 2000
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range rounds {
				name := "GET /" + string(rune('0'+i%20))
				s.ShouldSample(root(rnd, name))
				s.Observe(Observation{Route: name, Failed: i%100 == 0, Duration: time.Duration(i) * time.Millisecond})
				switch i % 500 {
				case 100:
					s.SetPressure(rnd.Float64())
				case 200:
					c := c
					c.BaseRate = rnd.Float64()
					c.Budget.TracesPerSecond = float64(rnd.IntN(2)) * 100
					assert.NoError(t, s.Set(c))
				case 300:
					assert.NoError(t, s.StartIncident(0.5, time.Millisecond, ""))
				case 400:
					s.StateHandler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
					_ = s.Description()
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, workers*rounds, s.State().Decisions.Total, "decisions")
	// Routes that were forgotten are read one interval later.
	eventually(t, "all observations are counted", func() bool {
		o := s.State().Observations
		return o.Total == workers*rounds && o.Failed == workers*rounds/100
	})
}

// With the SDK, by spans alone.
func TestProcessor(t *testing.T) {
	for _, recordOnly := range []bool{false, true} {
		c := DefaultConfig()
		c.BaseRate, c.MinRate, c.UpdateInterval = 0, 0, time.Hour
		opts := []Option{WithConfig(c), WithRoutes(0), WithRules(Always(named("GET /paid")), Never(named("GET /health")))}
		if recordOnly {
			opts = append(opts, WithRecordOnly())
		}
		s := started(t, opts...)
		exported := tracetest.NewInMemoryExporter()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(s), sdktrace.WithSpanProcessor(s.Processor()), sdktrace.WithSyncer(exported))
		tracer := tp.Tracer("test")
		for _, name := range []string{"GET /paid", "GET /", "GET /health"} {
			ctx, span := tracer.Start(context.Background(), name)
			_, child := tracer.Start(ctx, "child")
			child.SetStatus(codes.Error, "a child's error is not the request's")
			child.End()
			if name == "GET /" {
				span.SetStatus(codes.Error, "")
			}
			span.End()
		}
		s.Update()
		st := s.State()
		want, failed := uint64(1), uint64(0)
		if recordOnly {
			want, failed = 2, 1
		}
		if st.Observations.Total != want || st.Observations.Failed != failed || len(st.Routes) != int(want) {
			t.Errorf("record only %v: %+v, %+v", recordOnly, st.Observations, st.Routes)
		}
		assert.Equal(t, 2, len(exported.GetSpans()), "record only %v: spans of the paid request", recordOnly)
		for _, span := range exported.GetSpans() {
			assert.Equal(t, "ot=th:0", span.SpanContext.TraceState().String(), "tracestate of %s", span.Name)
		}
		// What an unsampled remote parent began is recorded, too.
		p := root(rand.New(rand.NewPCG(1, 1)), "GET /")
		ctx, span := tracer.Start(remote(p.TraceID, "", 0), "GET /")
		if span.IsRecording() != recordOnly || span.SpanContext().IsSampled() {
			t.Errorf("record only %v: recording %v, sampled %v", recordOnly, span.IsRecording(), span.SpanContext().IsSampled())
		}
		span.End()
		assert.NoError(t, tp.Shutdown(ctx))
	}
}

func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	s := started(t, WithConfig(DefaultConfig()), WithRoutes(0), WithMeterProvider(mp))
	s.Observe(Observation{Route: "GET /", Failed: true})
	s.Observe(Observation{Route: "GET /"})
	s.Update()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		s.ShouldSample(root(rnd, "GET /"))
	}
	alerts := alertHandler(t, s, AlertConfig{})
	for _, a := range []string{firing(time.Now(), "severity", "warning"), firing(time.Now(), "severity", "none"), "no JSON"} {
		call(alerts, "POST", a)
	}
	got := collect(t, reader)
	d := s.State().Decisions
	for name, want := range map[string]float64{
		"adaptive_sampler.rate":                s.Rate(),
		"adaptive_sampler.rate GET /":          s.RateOf("GET /"),
		"adaptive_sampler.boost":               1,
		"adaptive_sampler.boost GET /":         3,
		"adaptive_sampler.budget.factor":       1,
		"adaptive_sampler.budget.demand":       0,
		"adaptive_sampler.pressure":            0,
		"adaptive_sampler.incident.rate":       0.25,
		"adaptive_sampler.decisions sampled":   float64(d.Sampled),
		"adaptive_sampler.decisions unsampled": float64(100 - d.Sampled),
		"adaptive_sampler.decisions never":     0,
		"adaptive_sampler.decisions capped":    0,
		"adaptive_sampler.observations ok":     1,
		"adaptive_sampler.observations failed": 1,

		"adaptive_sampler.alerts.active":            1,
		"adaptive_sampler.alerts.received raised":   1,
		"adaptive_sampler.alerts.received repeated": 0,
		"adaptive_sampler.alerts.received resolved": 0,
		"adaptive_sampler.alerts.received ignored":  1,
		"adaptive_sampler.alerts.received over":     0,
		"adaptive_sampler.alerts.received full":     0,
		"adaptive_sampler.alerts.requests accepted": 2,
		"adaptive_sampler.alerts.requests refused":  1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
		delete(got, name)
	}
	assert.Zero(t, len(got), "not documented: %v", got)
	require.NoError(t, s.Shutdown(context.Background()))
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("after the shutdown: %v", got)
	}
}

// collect returns values by the metric's name and its attribute's value.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &rm))
	got := map[string]float64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			}
		}
	}
	return got
}

func key(name string, attributes attribute.Set) string {
	for _, kv := range attributes.ToSlice() {
		name += " " + kv.Value.String()
	}
	return name
}
