package service

import (
	"context"
	"net/http"
	"net/url"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
	"github.com/tare-trace/tare/otel/redact"
)

// leanPipeline is Tare's.
type leanPipeline struct {
	tracers *lean.TracerProvider
	to      *otlphttp.Exporter
	keep    bool
}

func startLean(s Setup) (*leanPipeline, error) {
	l := &leanPipeline{keep: s.Keep}
	var to []otlphttp.Option
	if s.Traces != "" {
		to = append(to, otlphttp.WithEndpointURL(s.Traces))
	}
	var err error
	if l.to, err = otlphttp.New(to...); err != nil {
		return nil, err
	}
	options := []lean.Option{lean.WithExporter(l.to)}
	if s.Sampler != nil {
		options = append(options, lean.WithSampler(s.Sampler))
	}
	if s.Resource != nil {
		options = append(options, lean.WithResource(s.Resource))
	}
	if s.Keep {
		options = append(options, lean.WithKeep(s.policy()))
	}
	if s.Redact {
		r, err := redact.New(redact.Default())
		if err != nil {
			return nil, err
		}
		options = append(options, lean.WithRedactor(r))
	}
	l.tracers = lean.NewTracerProvider(options...)
	return l, nil
}

func (l *leanPipeline) provider() trace.TracerProvider     { return l.tracers }
func (l *leanPipeline) sampler() sdktrace.Sampler          { return l.tracers.Sampler() }
func (l *leanPipeline) keeps() bool                        { return l.keep }
func (l *leanPipeline) names() string                      { return "leanhttp" }
func (l *leanPipeline) shutdown(ctx context.Context) error { return l.tracers.Shutdown(ctx) }

func (l *leanPipeline) endpoint() string {
	u, err := url.Parse(l.to.Endpoint())
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (l *leanPipeline) spans() spanCounts {
	s := l.tracers.Stats()
	return spanCounts{exported: s.Exported, failed: s.Failed + s.Rejected, dropped: s.Dropped.Total()}
}

func (l *leanPipeline) http() []leanhttp.Option {
	return []leanhttp.Option{leanhttp.WithTracerProvider(l.tracers), leanhttp.WithPropagators(w3c.Propagator{})}
}

func (l *leanPipeline) transport(base http.RoundTripper) http.RoundTripper {
	return leanhttp.NewTransport(base, l.http()...)
}

func (l *leanPipeline) handler(h http.Handler, operation string, learns *adaptive.Sampler) http.Handler {
	options := l.http()
	if learns != nil {
		options = append(options, leanhttp.WithObserver(func(_ *http.Request, status int, took time.Duration) {
			observe(learns, operation, status, took)
		}))
	}
	return leanhttp.NewHandler(h, operation, options...)
}
