package service

import (
	"context"
	"errors"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/keep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSamplersAreReadFromTheProvider(t *testing.T) {
	for _, c := range []struct {
		sampler  sdktrace.Sampler
		strategy string
		rate     float64
	}{
		{sdktrace.AlwaysSample(), "always_on", 1},
		{sdktrace.NeverSample(), "always_off", 0},
		{sdktrace.TraceIDRatioBased(0.05), "traceidratio", 0.05},
		{sdktrace.TraceIDRatioBased(1e-7), "traceidratio", 1e-7},
		{sdktrace.TraceIDRatioBased(1), "traceidratio", 1},
		{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.3)), "parentbased_traceidratio", 0.3},
		{sdktrace.ParentBased(sdktrace.AlwaysSample()), "parentbased_always_on", 1},
		{sdktrace.ParentBased(sdktrace.NeverSample()), "parentbased_always_off", 0},
		{strange{}, "unknown", 0},
		{keep.Sampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.3))), "parentbased_traceidratio", 0.3},
	} {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(c.sampler))
		s := samplerOf(provider)
		if s == nil || s.Description() != c.sampler.Description() {
			t.Fatalf("%s: read %v", c.sampler.Description(), s)
		}
		if strategy, rate, fixed := strategyOf(s); strategy != c.strategy || rate != c.rate || fixed != (c.strategy != "unknown") {
			t.Errorf("%s: %s, %v", s.Description(), strategy, rate)
		}
	}
}

type strange struct{ sdktrace.Sampler }

func (strange) Description() string { return "TraceIDRatioBased{often}" }

func TestEndpointIsReadFromTheClient(t *testing.T) {
	for url, want := range map[string]string{
		"http://10.0.0.1:4318/v1/traces": "http://10.0.0.1:4318",
		"https://collector/x":            "https://collector",
	} {
		assert.Equal(t, want, endpointOf(otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(url))), url)
	}
	assert.Equal(t, "", endpointOf(nil), "no client")
}

func TestWarningsAndErrorsOfTheSDKAreWritten(t *testing.T) {
	var text strings.Builder
	var counts Counts
	l := logr.New(sink{&counts, log.New(&text, "", 0)})
	l.V(levelDebug).Info("exporting spans", "count", 3, "total_dropped", uint32(7))
	l.V(4).Info("TracerProvider created", "config", "much")
	if text.Len() > 0 || counts.dropped.Load() != 7 {
		t.Errorf("%q, %d dropped", text.String(), counts.dropped.Load())
	}
	l.V(levelWarn).Info("limit reached")
	l.Error(io.EOF, "cannot")
	if got := text.String(); !strings.Contains(got, "limit reached") || !strings.Contains(got, "cannot: EOF") {
		t.Errorf("%q", got)
	}
}

// failing is an exporter with an error of its own.
type failing struct {
	sdktrace.SpanExporter
	err error
}

func (f failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }

func TestExportsAreCounted(t *testing.T) {
	for _, c := range []struct {
		err              error
		exported, failed uint64
	}{
		{nil, 5, 0},
		{io.EOF, 0, 5},
		{errors.New("OTLP partial success: no room (2 spans rejected)"), 3, 2},
		{errors.New("OTLP partial success: careful (0 spans rejected)"), 5, 0},
		{errors.New("OTLP partial success: wrong (99 spans rejected)"), 0, 5},
		{errors.New("OTLP partial success: wrong (99999999999999999999 spans rejected)"), 0, 5},
	} {
		var counts Counts
		err := exporter{failing{err: c.err}, &counts}.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 5))
		if !errors.Is(err, c.err) || counts.exported.Load() != c.exported || counts.failed.Load() != c.failed {
			t.Errorf("%v: %d exported, %d failed", c.err, counts.exported.Load(), counts.failed.Load())
		}
	}
}

func TestEnv(t *testing.T) {
	env := NewEnv(func(key string) string {
		return map[string]string{"SHARE": "0.25", "N": "12", "D": "1.5s", "B": "1", "W": "two", "U": "https://x:1/y", "BAD": "x"}[key]
	})
	if env.Float("SHARE", 0, 0, 1) != 0.25 || env.Int("N", 0, 0, 20) != 12 || env.Duration("D", 0, time.Minute) != 1500*time.Millisecond ||
		!env.Bool("B", false) || env.OneOf("W", "", "one", "two") != "two" || env.URL("U") != "https://x:1/y" || env.String("N", "") != "12" {
		t.Error("values")
	}
	if env.Float("-", 0.5, 0, 1) != 0.5 || env.Int("-", 7, 0, 1) != 7 || env.Duration("-", 1, 2) != 1 || !env.Bool("-", true) ||
		env.OneOf("-", "z", "a") != "z" || env.URL("-") != "" || env.String("-", "d") != "d" {
		t.Error("defaults")
	}
	assert.NoError(t, env.Err())
	env.Float("BAD", 0, 0, 1)
	env.Int("BAD", 0, 0, 1)
	env.Duration("BAD", 0, 1)
	env.Bool("BAD", false)
	env.OneOf("BAD", "", "a", "b")
	env.URL("BAD")
	if err := env.Err(); err == nil || strings.Count(err.Error(), `BAD: "x" is not`) != 6 {
		t.Errorf("%v", err)
	}
}

// The description of a sampler may be any text: samplers are anybody's.
func FuzzParseSampler(f *testing.F) {
	for _, s := range []string{
		"AlwaysOnSampler", "TraceIDRatioBased{0.1}", "ParentBased{root:TraceIDRatioBased{1},remoteParentSampled:AlwaysOnSampler}",
		"ParentBased{root:", "Keep{AlwaysOnSampler}", "AdaptiveSampler{base:0.1}", "TraceIDRatioBased{", "", "TraceIDRatioBased{NaN}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		strategy, rate, fixed := parseSampler(s)
		if !(rate >= 0 && rate <= 1) || fixed == (strategy == "unknown") && strategy != Adaptive {
			t.Errorf("%q: rate %v", s, rate)
		}
	})
}
