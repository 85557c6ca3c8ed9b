package leanhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

type discardSpans struct{}

func (discardSpans) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discardSpans) Shutdown(context.Context) error                             { return nil }

// A variant is one instrumentation, on the pipeline that belongs to it.
type variant struct {
	name      string
	handler   func(http.Handler) http.Handler
	transport func(http.RoundTripper) http.RoundTripper
}

func variants(b *testing.B, s sdktrace.Sampler) []variant {
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discardSpans{}), sdktrace.WithSampler(s))
	own := lean.NewTracerProvider(lean.WithExporter(discard{}), lean.WithSampler(s))
	b.Cleanup(func() { _, _ = sdk.Shutdown(context.Background()), own.Shutdown(context.Background()) })
	observer := leanhttp.WithObserver(func(*http.Request, int, time.Duration) {})
	leanly := func(tp trace.TracerProvider, opts ...leanhttp.Option) (func(http.Handler) http.Handler, func(http.RoundTripper) http.RoundTripper) {
		opts = append(opts, leanhttp.WithTracerProvider(tp), leanhttp.WithPropagators(w3c.Propagator{}))
		return leanhttp.NewMiddleware("", opts...), func(base http.RoundTripper) http.RoundTripper { return leanhttp.NewTransport(base, opts...) }
	}
	plain, plainClient := leanly(own)
	observed, observedClient := leanly(own, observer)
	onSDK, onSDKClient := leanly(sdk)
	opts := []otelhttp.Option{otelhttp.WithTracerProvider(sdk), otelhttp.WithPropagators(w3cOfficial)}
	return []variant{
		{"none", func(h http.Handler) http.Handler { return h }, func(t http.RoundTripper) http.RoundTripper { return t }},
		{"official", otelhttp.NewMiddleware("", opts...), func(t http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(t, opts...) }},
		{"lean", plain, plainClient},
		{"lean-observed", observed, observedClient},
		{"lean-on-sdk", onSDK, onSDKClient},
	}
}

var samplers = []struct {
	name    string
	sampler sdktrace.Sampler
}{
	{"unsampled", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))},
	{"sampled", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1))},
}

func routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	return m
}

// BenchmarkHandler is a request to a mux with one route, without a network.
func BenchmarkHandler(b *testing.B) {
	for _, s := range samplers {
		for _, v := range variants(b, s.sampler) {
			b.Run(s.name+"/"+v.name, func(b *testing.B) {
				h, w, r := v.handler(routes()), newWriter(), incoming()
				b.ReportAllocs()
				for b.Loop() {
					h.ServeHTTP(w, r)
				}
			})
		}
	}
}

// BenchmarkTransport is a request without a network.
func BenchmarkTransport(b *testing.B) {
	res := &http.Response{StatusCode: 200, Proto: "HTTP/1.1"}
	base := answers(func(*http.Request) (*http.Response, error) { res.Body = http.NoBody; return res, nil })
	for _, s := range samplers {
		for _, v := range variants(b, s.sampler) {
			b.Run(s.name+"/"+v.name, func(b *testing.B) {
				t := v.transport(base)
				r := httptest.NewRequest("GET", "http://example.com/users/7", nil)
				r.Header.Set("User-Agent", "test/1.0")
				b.ReportAllocs()
				for b.Loop() {
					res, err := t.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					res.Body.Close()
				}
			})
		}
	}
}

// BenchmarkServer is a request over the loopback to a net/http server; the
// client, which is in the same process and counts, is net/http's without
// instrumentation.
func BenchmarkServer(b *testing.B) {
	for _, s := range samplers {
		for _, v := range variants(b, s.sampler) {
			b.Run(s.name+"/"+v.name, func(b *testing.B) {
				srv := httptest.NewServer(v.handler(routes()))
				defer srv.Close()
				get(b, srv.Client(), srv.URL+"/users/7")
			})
		}
	}
}

// BenchmarkClient is the same with an instrumented client of a plain server.
func BenchmarkClient(b *testing.B) {
	for _, s := range samplers {
		for _, v := range variants(b, s.sampler) {
			b.Run(s.name+"/"+v.name, func(b *testing.B) {
				srv := httptest.NewServer(routes())
				defer srv.Close()
				c := srv.Client()
				c.Transport = v.transport(c.Transport)
				get(b, c, srv.URL+"/users/7")
			})
		}
	}
}

func get(b *testing.B, c *http.Client, url string) {
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// Many requests at once are many goroutines with one handler: nothing in it
// may be shared unprotected.
func TestConcurrentRequests(t *testing.T) {
	tp, spans := provider(t, sdktrace.AlwaysSample())
	h := leanhttp.NewHandler(routes(), "", leanhttp.WithTracerProvider(tp))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h.ServeHTTP(httptest.NewRecorder(), incoming())
			}
		})
	}
	wg.Wait()
	got := spans()
	for _, s := range got {
		require.Equal(t, "GET /users/{id}", s.GetName(), "span")
	}
	assert.Len(t, got, 800, "spans")
}
