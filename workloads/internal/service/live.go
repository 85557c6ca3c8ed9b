package service

import (
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/contextaware"
	"github.com/tare-trace/tare/otel/ratelimit"
)

// Config describes the tracing as the running objects have it. Repeating the
// settings would report what was asked for even where nothing obeys it.
//
// sampling_rate is the share of the traces that begin here and are exported, and
// is there only if it is fixed; the sampler's share under keep is head_rate, the
// adaptive one's base is adaptive_base_rate, its interval in seconds
// adaptive_update_interval.
func (t *Tracing) Config() map[string]any {
	_, off := otel.GetTracerProvider().(noop.TracerProvider)
	c := map[string]any{
		"tracing_enabled":   !off,
		"tracer_provider":   fmt.Sprintf("%T", otel.GetTracerProvider()),
		"pipeline":          "none",
		"instrumentation":   "none",
		"sampler":           "",
		"sampling_strategy": "none",
		"sampling_rate":     0.0,
		"keep":              false,
		"redact":            false,
	}
	c["collector_endpoint"] = ""
	spans := t.spans()
	c["spans_exported"], c["spans_failed"], c["spans_dropped"] = spans.exported, spans.failed, spans.dropped
	if off || t.pipeline == nil {
		return c
	}
	c["pipeline"] = Official
	if _, lean := t.pipeline.(*leanPipeline); lean {
		c["pipeline"] = Lean
	}
	c["instrumentation"] = t.pipeline.names()
	c["collector_endpoint"] = t.pipeline.endpoint()
	c["keep"], c["redact"] = t.pipeline.keeps(), t.setup.Redact
	c["sampling_strategy"] = "unknown"
	delete(c, "sampling_rate")
	sampler := t.pipeline.sampler()
	if sampler == nil {
		return c
	}
	c["sampler"] = sampler.Description()
	strategy, rate, fixed := strategyOf(sampler)
	c["sampling_strategy"] = strategy
	switch {
	case t.learns != nil:
		c["adaptive_base_rate"] = t.learns.Config().BaseRate
		c["adaptive_update_interval"] = t.learns.Config().UpdateInterval.Seconds()
	case fixed && t.pipeline.keeps():
		c["head_rate"] = rate
	case fixed:
		c["sampling_rate"] = rate
	}
	return c
}

// strategyOf names a sampler as OTEL_TRACES_SAMPLER does, or as this package; rate
// is the share of the traces that begin here, if it is fixed.
func strategyOf(s sdktrace.Sampler) (strategy string, rate float64, fixed bool) {
	switch s.(type) {
	case *adaptive.Sampler:
		return Adaptive, 0, false
	case *ratelimit.Sampler:
		return RateLimiting, 0, false
	case *contextaware.Sampler:
		return ContextAware, 0, false
	}
	return parseSampler(s.Description())
}

// parseSampler reads the description of a sampler of the SDK, whose form the
// specification of the SDK prescribes, or of one of these under keep.
func parseSampler(description string) (strategy string, rate float64, fixed bool) {
	if inner, kept := strings.CutPrefix(description, "Keep{"); kept {
		description = strings.TrimSuffix(inner, "}")
	}
	root, parents := strings.CutPrefix(description, "ParentBased{root:")
	if parents {
		root, _, _ = strings.Cut(root, ",")
		strategy = "parentbased_"
	}
	ratio, ok := strings.CutPrefix(root, "TraceIDRatioBased{")
	switch {
	case root == "AlwaysOnSampler":
		return strategy + "always_on", 1, true
	case root == "AlwaysOffSampler":
		return strategy + "always_off", 0, true
	case strings.HasPrefix(root, "AdaptiveSampler{"):
		return Adaptive, 0, false
	case ok:
		rate, err := strconv.ParseFloat(strings.TrimSuffix(ratio, "}"), 64)
		if err == nil && rate >= 0 && rate <= 1 { // NaN is neither
			return strategy + "traceidratio", rate, true
		}
	}
	return "unknown", 0, false
}
