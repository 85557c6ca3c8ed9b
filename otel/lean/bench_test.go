package lean

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// discard is a collector that throws everything away.
func discard(b *testing.B) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(s.Close)
	return s
}

type provider interface {
	trace.TracerProvider
	Shutdown(context.Context) error
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// both runs a benchmark on the SDK and on this package. cpu-ns/op is what the whole process has
// used: the exporting goroutine and the collector too. Neither may save work by dropping: the SDK
// is told to block when its queue is full, here the loop waits; drops/op tells whether it worked.
func both(b *testing.B, sampler sdktrace.Sampler, prepare func(context.Context, trace.Tracer) context.Context,
	op func(context.Context, trace.Tracer)) {
	for _, pipeline := range []string{"sdk", "lean"} {
		for _, mode := range []string{"serial", "parallel"} {
			b.Run("pipeline="+pipeline+"/"+mode, func(b *testing.B) {
				s := discard(b)
				var p provider
				if pipeline == "sdk" {
					e, err := otlptracehttp.New(b.Context(), otlptracehttp.WithEndpointURL(s.URL+"/v1/traces"))
					if err != nil {
						b.Fatal(err)
					}
					p = sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler),
						sdktrace.WithBatcher(e, sdktrace.WithMaxQueueSize(benchQueue), sdktrace.WithBlocking()))
				} else {
					e, err := otlphttp.New(otlphttp.WithEndpointURL(s.URL + "/v1/traces"))
					if err != nil {
						b.Fatal(err)
					}
					p = NewTracerProvider(WithSampler(sampler), WithExporter(e),
						WithBatch(Batch{MaxQueueSize: benchQueue, MaxQueueBytes: 64 << 20}))
				}
				tracer := p.Tracer("bench")
				ctx := context.Background()
				if prepare != nil {
					ctx = prepare(ctx, tracer)
				}
				b.ReportAllocs()
				before := cpu()
				b.ResetTimer()
				if mode == "serial" {
					for n := range b.N {
						op(ctx, tracer)
						breathe(p, n)
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for n := 0; pb.Next(); n++ {
							op(ctx, tracer)
							breathe(p, n)
						}
					})
				}
				b.StopTimer()
				if err := p.Shutdown(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
				if l, ok := p.(*TracerProvider); ok {
					st := l.Stats()
					b.ReportMetric(float64(st.Dropped.QueueFull+st.Dropped.QueueBytes)/float64(b.N), "drops/op")
				}
			})
		}
	}
}

const benchQueue = 1 << 14

// breathe waits until half of lean's queue is empty again.
func breathe(p provider, n int) {
	if l, ok := p.(*TracerProvider); ok && n%256 == 0 {
		for l.queue.spans.Load() > benchQueue/2 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

var (
	keyMethod = attribute.Key("http.request.method")
	keyRoute  = attribute.Key("http.route")
	keyStatus = attribute.Key("http.response.status_code")
	keyScheme = attribute.Key("url.scheme")
	keyRetry  = attribute.Key("app.retry")
)

func BenchmarkSetAttributes(b *testing.B) {
	both(b, sdktrace.AlwaysSample(), nil, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}")
		s.SetAttributes(keyMethod.String("GET"), keyRoute.String("/users/{id}"), keyStatus.Int(200),
			keyScheme.String("https"), keyRetry.Bool(false))
		s.End()
	})
}

func BenchmarkWithAttributes(b *testing.B) {
	both(b, sdktrace.AlwaysSample(), nil, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}", trace.WithAttributes(keyMethod.String("GET"), keyRoute.String("/users/{id}"),
			keyStatus.Int(200), keyScheme.String("https"), keyRetry.Bool(false)))
		s.End()
	})
}

// The SDK has no typed setters: it gets SetAttributes, one by one.
func BenchmarkTypedSetters(b *testing.B) {
	both(b, sdktrace.AlwaysSample(), nil, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}")
		if l, ok := s.(*Span); ok {
			l.SetString(keyMethod, "GET")
			l.SetString(keyRoute, "/users/{id}")
			l.SetInt(keyStatus, 200)
			l.SetString(keyScheme, "https")
			l.SetBool(keyRetry, false)
		} else {
			s.SetAttributes(keyMethod.String("GET"))
			s.SetAttributes(keyRoute.String("/users/{id}"))
			s.SetAttributes(keyStatus.Int(200))
			s.SetAttributes(keyScheme.String("https"))
			s.SetAttributes(keyRetry.Bool(false))
		}
		s.End()
	})
}

func BenchmarkUnsampledRoot(b *testing.B) {
	both(b, sdktrace.ParentBased(sdktrace.NeverSample()), nil, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}")
		s.End()
	})
}

func BenchmarkUnsampledChild(b *testing.B) {
	both(b, sdktrace.ParentBased(sdktrace.NeverSample()), func(ctx context.Context, t trace.Tracer) context.Context {
		ctx, _ = t.Start(ctx, "root")
		return ctx
	}, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}")
		s.End()
	})
}

func BenchmarkSampledChild(b *testing.B) {
	both(b, sdktrace.ParentBased(sdktrace.AlwaysSample()), func(ctx context.Context, t trace.Tracer) context.Context {
		ctx, _ = t.Start(ctx, "root")
		return ctx
	}, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}")
		s.SetAttributes(keyMethod.String("GET"), keyRoute.String("/users/{id}"), keyStatus.Int(200),
			keyScheme.String("https"), keyRetry.Bool(false))
		s.End()
	})
}

func BenchmarkEventsAndLinks(b *testing.B) {
	link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})}
	both(b, sdktrace.AlwaysSample(), nil, func(ctx context.Context, t trace.Tracer) {
		_, s := t.Start(ctx, "GET /users/{id}", trace.WithLinks(link))
		s.AddEvent("cache miss", trace.WithAttributes(keyRoute.String("/users/{id}")))
		s.AddEvent("done")
		s.End()
	})
}
