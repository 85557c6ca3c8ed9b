package bound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configtelemetry"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	otelconf "go.opentelemetry.io/contrib/otelconf/v0.3.0"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/internal/browser"
)

// Telemetry is the collector's own telemetry as the framework has it, but the metrics that are served for Prometheus
// refuse pages of other sites: the framework's server looks at no Host.
func Telemetry() telemetry.Factory {
	f := otelconftelemetry.NewFactory()
	return telemetry.NewFactory(f.CreateDefaultConfig,
		telemetry.WithCreateResource(f.CreateResource),
		telemetry.WithCreateLogger(f.CreateLogger),
		telemetry.WithCreateMeterProvider(func(ctx context.Context, set telemetry.MeterSettings, cfg component.Config) (telemetry.MeterProvider, error) {
			c := cfg.(*otelconftelemetry.Config) //nolint:errcheck // the factory's
			served := slices.ContainsFunc(c.Metrics.Readers, servesPrometheus)
			if !served || c.Metrics.Level == configtelemetry.LevelNone || set.Resource == nil {
				return f.CreateMeterProvider(ctx, set, cfg)
			}
			return newMeterProvider(ctx, set, c.Metrics)
		}),
		telemetry.WithCreateTracerProvider(f.CreateTracerProvider))
}

func servesPrometheus(r otelconf.MetricReader) bool {
	return r.Periodic == nil && r.Pull != nil && r.Pull.Exporter.Prometheus != nil
}

// newMeterProvider is the framework's, with servers of its own.
func newMeterProvider(ctx context.Context, set telemetry.MeterSettings, c otelconftelemetry.MetricsConfig) (_ telemetry.MeterProvider, err error) {
	if c.MigratedFromV02 {
		set.Logger.Warn("service::telemetry::metrics is written in the format 0.2.0, which is deprecated: use 0.3.0",
			zap.String("url", "https://opentelemetry.io/docs/specs/otel/configuration/#declarative-configuration"))
	}
	m := c.MeterProvider
	if m.Views == nil && set.DefaultViews != nil {
		m.Views = set.DefaultViews(c.Level)
	}
	m.Readers = nil
	var readers []sdkmetric.Option
	var servers []*metricsReader
	defer func() {
		if err != nil {
			for _, s := range servers {
				err = errors.Join(err, s.Shutdown(context.WithoutCancel(ctx)))
			}
		}
	}()
	for _, r := range c.Readers {
		if !servesPrometheus(r) {
			m.Readers = append(m.Readers, r)
			continue
		}
		s, err := serveMetrics(ctx, set.Logger, r.Pull.Exporter.Prometheus)
		if err != nil {
			return nil, fmt.Errorf("serve the collector's own metrics (service::telemetry::metrics::readers): %w", err)
		}
		servers, readers = append(servers, s), append(readers, sdkmetric.WithReader(s))
	}
	resource := &otelconf.Resource{}
	if set.SchemaURL != "" {
		resource.SchemaUrl = &set.SchemaURL
	}
	for key, value := range set.Resource.Attributes().All() {
		resource.Attributes = append(resource.Attributes, otelconf.AttributeNameValue{Name: key, Value: value.AsRaw()})
	}
	sdk, err := otelconf.NewSDK(otelconf.WithContext(ctx), otelconf.WithMeterProviderOptions(readers...),
		otelconf.WithOpenTelemetryConfiguration(otelconf.OpenTelemetryConfiguration{Resource: resource, MeterProvider: &m}))
	if err != nil {
		return nil, err
	}
	return sdk.MeterProvider().(telemetry.MeterProvider), nil //nolint:errcheck // of the SDK, as a MeterProvider is configured
}

// metricsReader is a reader that a server reads.
type metricsReader struct {
	sdkmetric.Reader
	server *http.Server
	ended  chan struct{}
}

func (r *metricsReader) Shutdown(ctx context.Context) error {
	err := errors.Join(r.Reader.Shutdown(ctx), r.server.Shutdown(ctx))
	<-r.ended
	return err
}

// serveMetrics serves what a configuration of otelconf 0.3.0 says.
func serveMetrics(ctx context.Context, log *zap.Logger, c *otelconf.Prometheus) (*metricsReader, error) {
	if c.Host == nil || c.Port == nil {
		return nil, errors.New("prometheus needs a host and a port")
	}
	registry := prometheus.NewRegistry()
	options := []otelprom.Option{otelprom.WithRegisterer(registry)}
	if isTrue(c.WithoutScopeInfo) {
		options = append(options, otelprom.WithoutScopeInfo())
	}
	names := otlptranslator.NoUTF8EscapingWithSuffixes
	if isTrue(c.WithoutTypeSuffix) && isTrue(c.WithoutUnits) {
		names = otlptranslator.NoTranslation
	}
	options = append(options, otelprom.WithTranslationStrategy(names))
	if l := c.WithResourceConstantLabels; l != nil {
		options = append(options, otelprom.WithResourceAsConstantLabels(func(a attribute.KeyValue) bool {
			return !slices.Contains(l.Excluded, string(a.Key)) && (len(l.Included) == 0 || slices.Contains(l.Included, string(a.Key)))
		}))
	}
	reader, err := otelprom.New(options...)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(*c.Host, "["), "]"), strconv.Itoa(*c.Port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, errors.Join(err, reader.Shutdown(ctx))
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", browser.Local(l.Addr(), promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})))
	r := &metricsReader{Reader: reader, ended: make(chan struct{}), server: &http.Server{
		Addr: l.Addr().String(), Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: bodyTimeout, IdleTimeout: idleTimeout,
	}}
	go func() {
		defer close(r.ended)
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the collector's own metrics are not served any more", zap.Error(err))
		}
	}()
	return r, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
