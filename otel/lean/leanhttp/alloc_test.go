package leanhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

// null is a writer of the kind that net/http's HTTP/1 server has, but for the
// network.
type null struct {
	all
	h http.Header
}

func (n *null) Header() http.Header           { return n.h }
func (*null) Write(p []byte) (int, error)     { return len(p), nil }
func (*null) WriteHeader(int)                 {}
func (*null) WriteString(string) (int, error) { return 0, nil }

// http1Writer hides Push, which makes all a writer of another kind.
type http1Writer struct {
	*null
	Push struct{}
}

func newWriter() http.ResponseWriter { return http1Writer{null: &null{h: http.Header{}}} }

func incoming(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/users/7", nil)
	r.Header.Set("User-Agent", "test/1.0")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestHandlerAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	never := lean.NewTracerProvider(lean.WithExporter(discard{}), lean.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))))
	always := lean.NewTracerProvider(lean.WithExporter(discard{}), lean.WithSampler(sdktrace.AlwaysSample()))
	defer func() { _, _ = never.Shutdown(context.Background()), always.Shutdown(context.Background()) }()
	patterned := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.Pattern = "GET /users/{id}" })
	writes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	observer := leanhttp.WithObserver(func(*http.Request, int, time.Duration) {})
	for _, c := range []struct {
		name string
		tp   *lean.TracerProvider
		next http.Handler
		r    *http.Request
		opts []leanhttp.Option
		want float64
	}{
		{"unsampled", never, writes, incoming(), nil, 1},
		{"unsampled parent", never, writes, incoming("traceparent", unsampled), nil, 1},
		{"unsampled, pattern", never, patterned, incoming(), nil, 1},
		{"unsampled, observed", never, writes, incoming(), []leanhttp.Option{observer}, 1},
		{"sampled", always, writes, incoming(), nil, 1},
		{"sampled, parent", always, writes, incoming("traceparent", parent), nil, 1},
		{"sampled, pattern", always, patterned, incoming(), nil, 1},
		{"sampled, observed", always, writes, incoming(), []leanhttp.Option{observer}, 1},
	} {
		h := leanhttp.NewHandler(c.next, "", append(c.opts, leanhttp.WithTracerProvider(c.tp), leanhttp.WithPropagators(w3c.Propagator{}))...)
		w := newWriter()
		assert.Equal(t, c.want, testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, c.r) }), "%s: allocations", c.name)
	}
}

func TestTransportAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	res := &http.Response{StatusCode: 200, Proto: "HTTP/1.1"}
	base := answers(func(*http.Request) (*http.Response, error) { res.Body = http.NoBody; return res, nil })
	r := httptest.NewRequest("GET", "http://example.com/users/7", nil)
	r.Header.Set("User-Agent", "test/1.0")
	for _, c := range []struct {
		name    string
		sampler sdktrace.Sampler
		want    float64
	}{
		{"unsampled", sdktrace.NeverSample(), 3}, // the request, and two for its header map
		{"sampled", sdktrace.AlwaysSample(), 4},  // and url.full
	} {
		tp := lean.NewTracerProvider(lean.WithExporter(discard{}), lean.WithSampler(c.sampler))
		tr := leanhttp.NewTransport(base, leanhttp.WithTracerProvider(tp), leanhttp.WithPropagators(w3c.Propagator{}))
		got := testing.AllocsPerRun(1000, func() {
			res, err := tr.RoundTrip(r)
			if err != nil || res.Body.Close() != nil {
				t.Fatal(err)
			}
		})
		assert.Equal(t, c.want, got, "%s: allocations", c.name)
		assert.NoError(t, tp.Shutdown(context.Background()))
	}
}

func TestBodiesOfUnsampledRequestsAreNotWrapped(t *testing.T) {
	tp, _ := provider(t, sdktrace.NeverSample())
	body := io.NopCloser(strings.NewReader("x"))
	w := newWriter()
	h := leanhttp.NewHandler(http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		if r.Body != body || inner != w {
			t.Errorf("body %T, writer %T", r.Body, inner)
		}
	}), "", leanhttp.WithTracerProvider(tp))
	r := incoming()
	r.Body = body
	h.ServeHTTP(w, r)
}
