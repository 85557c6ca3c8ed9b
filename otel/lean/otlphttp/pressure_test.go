package otlphttp_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// A collector refuses for a while: the pressure rises while it does, the adaptive sampler samples less,
// and both go back when it accepts spans again. Its status says whether it is repeated.
func TestPressure(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var refuses atomic.Bool
		refuses.Store(true)
		c := newCollector(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if refuses.Load() {
				w.WriteHeader(status)
			}
		})
		e, err := otlphttp.New(otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(otlphttp.RetryConfig{
			Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Millisecond,
		}))
		require.NoError(t, err)
		config := adaptive.DefaultConfig()
		config.BaseRate, config.UpdateInterval = 1, time.Millisecond
		sampler, err := adaptive.New(adaptive.WithConfig(config))
		require.NoError(t, err)
		p := lean.NewTracerProvider(lean.WithExporter(e), lean.WithSampler(sampler))
		sampler.PollPressure(p.Pressure)
		export := func() {
			_, span := p.Tracer("t").Start(context.Background(), "n")
			span.End()
		}
		export() // is sampled: nothing is wrong yet
		flushed := make(chan error, 1)
		go func() { flushed <- p.ForceFlush(context.Background()) }()
		eventually(t, "the pressure rises", func() bool { return p.Pressure() > 0.9 })
		eventually(t, "the rate falls", func() bool { return sampler.Rate() < 0.1 })
		refuses.Store(false)
		require.NoError(t, <-flushed)
		before := p.Pressure()
		if before > 0.5 {
			t.Errorf("%d: the pressure is %v after an export was accepted", status, before)
		}
		eventually(t, "the pressure falls to nothing", func() bool {
			export()
			require.NoError(t, p.ForceFlush(context.Background()))
			return p.Pressure() < 0.01
		})
		eventually(t, "the rate is what it was", func() bool { return sampler.Rate() == 1 })
		if s := p.Stats(); s.Failed > 0 || s.Exported == 0 {
			t.Errorf("%d: %+v", status, s)
		}
		assert.NoError(t, p.Shutdown(context.Background()))
		assert.NoError(t, sampler.Shutdown(context.Background()))
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
