package adaptive

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Option sets what stays as it is while the sampler runs.
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	config         Config
	configured     bool
	maxRoutes      int
	routeAttribute attribute.Key
	rules          []Rule
	pressure       func() float64
	incidentFile   string
	ignoreParent   bool
	recordOnly     bool
	meters         metric.MeterProvider
	clock          clock
}

// WithConfig sets the configuration to begin with. Without it, it is the
// environment's: see [FromEnv].
func WithConfig(c Config) Option {
	return optionFunc(func(o *options) { o.config, o.configured = c, true })
}

// WithRoutes gives each route a rate: its errors and its slow requests raise
// only its own. The first limit routes that are observed are learned (0 means
// 256, at most 65536), the rest share one rate. A route is a span's name at
// its start, unless [WithRouteAttribute] says otherwise, and
// [Observation].Route must be the same text.
//
// Instrumentation that only knows the route when the work is done (otelhttp
// around a ServeMux) starts all spans with one name: they are one route.
func WithRoutes(limit int) Option {
	return optionFunc(func(o *options) {
		if limit == 0 {
			limit = defaultRoutes
		}
		o.maxRoutes = limit
	})
}

// WithRouteAttribute takes the route from a string attribute that the span has
// at its start, such as http.route, and from its name only if it has none.
func WithRouteAttribute(key attribute.Key) Option {
	return optionFunc(func(o *options) { o.routeAttribute = key })
}

// WithRules sets the rules; the first that matches a root span decides.
func WithRules(rules ...Rule) Option {
	return optionFunc(func(o *options) { o.rules = append(o.rules, rules...) })
}

// WithPressure makes the sampler call f once a second, or once an interval if that
// is shorter. f returns how full the exporter's queue is, 0 to 1, as for
// [Sampler.SetPressure]. lean.TracerProvider.Pressure and package pressure have
// such functions; [Sampler.PollPressure] takes one later.
func WithPressure(f func() float64) Option {
	return optionFunc(func(o *options) { o.pressure = f })
}

// WithIncidentFile raises the rate while the file says so. The sampler reads it as
// often as it calls WithPressure's function. The package documentation has the
// file's format.
func WithIncidentFile(path string) Option {
	return optionFunc(func(o *options) { o.incidentFile = path })
}

// WithoutParent decides about traces that come from elsewhere, too, instead of
// following their sampled flag. Spans with a local parent always follow it.
func WithoutParent() Option {
	return optionFunc(func(o *options) { o.ignoreParent = true })
}

// WithRecordOnly records the local root spans that are not sampled, so that
// [Sampler.Processor] sees every request; it costs what recording costs. What
// Never rules match is not recorded. With [Sampler.Observe] it is not needed.
func WithRecordOnly() Option {
	return optionFunc(func(o *options) { o.recordOnly = true })
}

// WithMeterProvider reports the sampler's state as metrics, until Shutdown.
// The package documentation lists them.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(o *options) { o.meters = p })
}

func newOptions(opts []Option) (options, error) {
	var o options
	for _, opt := range opts {
		opt.apply(&o)
	}
	var errs []error
	if !o.configured {
		c, err := FromEnv()
		if err != nil {
			return o, err
		}
		o.config = c
	}
	if err := o.config.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.maxRoutes < 0 || o.maxRoutes > maxRoutes {
		errs = append(errs, fmt.Errorf("adaptive: WithRoutes(%d): want 0 to %d", o.maxRoutes, maxRoutes))
	}
	if o.routeAttribute != "" && o.maxRoutes == 0 {
		errs = append(errs, errors.New("adaptive: WithRouteAttribute has no effect without WithRoutes: add it"))
	}
	for _, r := range o.rules {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("adaptive: %w", err))
		}
	}
	return o, errors.Join(errs...)
}
