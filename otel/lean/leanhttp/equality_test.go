package leanhttp_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
)

// options are those that both instrumentations have.
type options struct {
	server    string
	formatter func(string, *http.Request) string
	public    func(*http.Request) bool
	filter    func(*http.Request) bool
	events    bool
	span      []trace.SpanStartOption
}

var w3cOfficial = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// instrumentation is otelhttp or leanhttp.
type instrumentation struct {
	handler   func(h http.Handler, tp trace.TracerProvider, o options) http.Handler
	transport func(base http.RoundTripper, tp trace.TracerProvider, o options) http.RoundTripper
	startTime func(context.Context, time.Time) context.Context
}

var official = instrumentation{
	handler: func(h http.Handler, tp trace.TracerProvider, o options) http.Handler {
		return otelhttp.NewHandler(h, "operation", officialOptions(tp, o)...)
	},
	transport: func(base http.RoundTripper, tp trace.TracerProvider, o options) http.RoundTripper {
		return otelhttp.NewTransport(base, officialOptions(tp, o)...)
	},
	startTime: otelhttp.ContextWithStartTime,
}

func officialOptions(tp trace.TracerProvider, o options) []otelhttp.Option {
	opts := []otelhttp.Option{
		otelhttp.WithTracerProvider(tp),
		otelhttp.WithPropagators(w3cOfficial),
		otelhttp.WithServerName(o.server),
		otelhttp.WithPublicEndpointFn(o.public),
		otelhttp.WithSpanOptions(o.span...),
	}
	if o.formatter != nil {
		opts = append(opts, otelhttp.WithSpanNameFormatter(o.formatter))
	}
	if o.filter != nil {
		opts = append(opts, otelhttp.WithFilter(o.filter))
	}
	if o.events {
		opts = append(opts, otelhttp.WithMessageEvents(otelhttp.ReadEvents, otelhttp.WriteEvents))
	}
	return opts
}

var ours = instrumentation{
	handler: func(h http.Handler, tp trace.TracerProvider, o options) http.Handler {
		return leanhttp.NewHandler(h, "operation", leanOptions(tp, o)...)
	},
	transport: func(base http.RoundTripper, tp trace.TracerProvider, o options) http.RoundTripper {
		return leanhttp.NewTransport(base, leanOptions(tp, o)...)
	},
	startTime: leanhttp.ContextWithStartTime,
}

func leanOptions(tp trace.TracerProvider, o options) []leanhttp.Option {
	opts := []leanhttp.Option{
		leanhttp.WithTracerProvider(tp),
		leanhttp.WithPropagators(w3cOfficial),
		leanhttp.WithServerName(o.server),
		leanhttp.WithPublicEndpointFn(o.public),
		leanhttp.WithSpanOptions(o.span...),
	}
	if o.formatter != nil {
		opts = append(opts, leanhttp.WithSpanNameFormatter(o.formatter))
	}
	if o.filter != nil {
		opts = append(opts, leanhttp.WithFilter(o.filter))
	}
	if o.events {
		opts = append(opts, leanhttp.WithMessageEvents(leanhttp.ReadEvents, leanhttp.WriteEvents))
	}
	return opts
}

// world is what a case has: one instrumentation on one provider, and real
// servers and clients.
type world struct {
	*testing.T
	env   *equality.Env
	with  instrumentation
	opts  options
	close []func()
	busy  sync.WaitGroup // handlers that run
}

// server starts a server whose handler is h, instrumented. What is there when
// the test's client has its response may be before the handler's end: the case
// ends when no handler runs.
func (w *world) server(h http.Handler, change ...func(*httptest.Server)) *httptest.Server {
	return w.plainServer(w.with.handler(h, w.env.TracerProvider, w.opts), change...)
}

func (w *world) plainServer(h http.Handler, change ...func(*httptest.Server)) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.busy.Add(1)
		defer w.busy.Done()
		h.ServeHTTP(rw, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // panics are part of the cases
	tls := false
	for _, c := range change {
		c(s)
		tls = tls || s.EnableHTTP2 || s.TLS != nil
	}
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	w.close = append(w.close, s.Close)
	return s
}

// client is an instrumented client of s.
func (w *world) client(s *httptest.Server) *http.Client {
	c := *s.Client()
	c.Transport = w.with.transport(c.Transport, w.env.TracerProvider, w.opts)
	return &c
}

// fetch sends a request and notes what came back.
func (w *world) fetch(c *http.Client, r *http.Request) {
	w.Helper()
	res, err := c.Do(r)
	if err != nil {
		w.env.Note("error %s", ports.ReplaceAllString(err.Error(), "$1:PORT"))
		return
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	w.env.Note("%s %s, %d bytes, error %v", res.Proto, res.Status, len(b), err)
}

func (w *world) request(method, url, body string) *http.Request {
	w.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, url, b)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// equal runs a case with otelhttp on the SDK, with leanhttp on lean, and with
// leanhttp on the SDK: all must be the same.
func equal(t *testing.T, r *equality.Receiver, name string, o func(*equality.Env) equality.Options, opts options, run func(*world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		one := func(with instrumentation, pipe equality.Pipeline) equality.Result {
			p := equality.Program{Name: name, Options: o, Concurrent: true, Run: func(_ context.Context, e *equality.Env) {
				w := &world{T: t, env: e, with: with, opts: opts}
				run(w)
				for _, f := range w.close {
					f()
				}
				w.busy.Wait()
			}}
			res, err := equality.Run(p, pipe, r, false)
			require.NoError(t, err)
			for i, s := range res.Spans {
				mask(s)
				res.Spans[i] = &equality.Span{Span: s.Span} // scopes differ on purpose
			}
			return res
		}
		want := one(official, equality.Official)
		for _, got := range []struct {
			what   string
			result equality.Result
		}{{"leanhttp on lean", one(ours, equality.Lean)}, {"leanhttp on the SDK", one(ours, equality.Official)}} {
			assert.NoError(t, equality.Compare(want, got.result, false, false), "%s", got.what)
		}
		if testing.Verbose() {
			for _, s := range want.Spans {
				t.Logf("%v", s.Span)
			}
		}
	})
}

// ports are those that the system chose; they differ between runs.
var ports = regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d+`)

// mask takes away the ports.
func mask(s *equality.Span) {
	s.Status.Message = ports.ReplaceAllString(s.GetStatus().GetMessage(), "$1:PORT")
	maskAttributes(s.GetAttributes())
	for _, e := range s.GetEvents() {
		maskAttributes(e.GetAttributes())
	}
}

func maskAttributes(kvs []*commonpb.KeyValue) {
	for _, kv := range kvs {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			v.StringValue = ports.ReplaceAllString(v.StringValue, "$1:PORT")
		case *commonpb.AnyValue_IntValue:
			// Those that a case chooses are below.
			if strings.HasSuffix(kv.GetKey(), ".port") && v.IntValue >= 10000 {
				v.IntValue = -1
			}
		}
	}
}
