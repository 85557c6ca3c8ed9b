package lean

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/keep"
)

// Option configures a TracerProvider.
type Option func(*config)

type config struct {
	exporter      Exporter
	sampler       sdktrace.Sampler
	resource      *resource.Resource
	limits        sdktrace.SpanLimits
	ids           sdktrace.IDGenerator
	batch         Batch
	redactor      Redactor
	meters        metric.MeterProvider
	ignoresPanics bool
	keep          *keep.Policy
}

// WithExporter sets where finished spans go. Without it, spans are recorded, and dropped at their
// end.
func WithExporter(e Exporter) Option { return func(c *config) { c.exporter = e } }

// WithSampler sets the sampler; nil is ignored. Default: the one that OTEL_TRACES_SAMPLER and
// OTEL_TRACES_SAMPLER_ARG name, else ParentBased(AlwaysSample).
func WithSampler(s sdktrace.Sampler) Option {
	return func(c *config) {
		if s != nil {
			c.sampler = s
		}
	}
}

// WithResource sets who produces the spans; as in the SDK, it is merged over what the environment
// says (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME). Default: resource.Default().
func WithResource(r *resource.Resource) Option {
	return func(c *config) {
		merged, err := resource.Merge(resource.Environment(), r)
		if err != nil {
			otel.Handle(err)
		}
		c.resource = merged
	}
}

// WithSpanLimits sets the limits, taken as they are (the SDK's WithRawSpanLimits): zero allows
// none, negative is no limit. Begin with sdktrace.NewSpanLimits(), the default, which reads the
// OTEL_*_LIMIT variables.
func WithSpanLimits(l sdktrace.SpanLimits) Option { return func(c *config) { c.limits = l } }

// WithIDGenerator sets the source of ids; nil is ignored. Default: random ids, as the SDK's.
func WithIDGenerator(g sdktrace.IDGenerator) Option {
	return func(c *config) {
		if g != nil {
			c.ids = g
		}
	}
}

// WithBatch sets how spans are queued and exported. What it sets wins over OTEL_BSP_* variables.
func WithBatch(b Batch) Option { return func(c *config) { c.batch = b } }

// WithRedactor lets everything that is written pass through r.
func WithRedactor(r Redactor) Option { return func(c *config) { c.redactor = r } }

// WithMeterProvider publishes the provider's Stats under the names of the semantic conventions for
// SDK metrics (otel.sdk.span.started and so on). They are observed when metrics are collected;
// spans cost the same with and without it.
func WithMeterProvider(m metric.MeterProvider) Option { return func(c *config) { c.meters = m } }

// WithoutPanicRecording leaves panics alone. By default, as in the SDK, a span that a deferred End
// ends during a panic gets an exception event, and the panic goes on.
func WithoutPanicRecording() Option { return func(c *config) { c.ignoresPanics = true } }

// WithKeep adds tail sampling within the process: local traces that the sampler does not sample are
// recorded all the same, though propagated as not sampled, held in memory within the policy's
// bounds, and exported if the policy keeps them. See package keep for what that means. The sampler
// is wrapped in keep.Sampler, unless it is one already (with exceptions, for instance). Rules see
// attributes as a Redactor leaves them. A policy that is not valid is reported to otel.Handle and
// left out.
func WithKeep(p keep.Policy) Option { return func(c *config) { c.keep = &p } }
