package keep_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/keep"
)

// receiver is an OTLP/HTTP receiver that holds what it gets.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		assert.NoError(t, err)
		var m collectorpb.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(data, &m))
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// service is a process with the official exporter and batch processor. Its
// policy is left out if nil: then it has the head sampler only.
func (r *receiver) service(t *testing.T, head sdktrace.Sampler, policy *keep.Policy) *sdktrace.TracerProvider {
	t.Helper()
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(r.URL))
	require.NoError(t, err)
	processor := sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBlocking(), sdktrace.WithBatchTimeout(time.Hour))
	if policy != nil {
		head = keep.Sampler(head)
		if processor, err = keep.NewProcessor(processor, *policy); err != nil {
			t.Fatal(err)
		}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(head), sdktrace.WithSpanProcessor(processor))
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.Background())) })
	return provider
}

// flush returns what has arrived since the last call.
func (r *receiver) flush(t *testing.T, providers ...*sdktrace.TracerProvider) []*tracepb.Span {
	t.Helper()
	for _, p := range providers {
		require.NoError(t, p.ForceFlush(context.Background()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := r.spans
	r.spans = nil
	return spans
}

func handler(provider trace.TracerProvider, name string, h http.HandlerFunc) http.Handler {
	return otelhttp.NewHandler(h, name,
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(operation string, _ *http.Request) string { return operation }))
}

// 1% errors at a base rate of 10%: all failed requests have a trace, and about
// 10% of the others. The thresholds of what was exported estimate how many
// requests there were.
func TestFailedRequestsHaveATrace(t *testing.T) {
	const requests, failing, rate = 20_000, 100, 0.1 // one in `failing` fails
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact=%t", exact), func(t *testing.T) {
			r := newReceiver(t)
			provider := r.service(t, consistent.ParentBased(consistent.NewRate(rate)),
				&keep.Policy{Errors: true, ServerErrors: true, ExactCounts: exact})
			tracer := provider.Tracer("test")
			ids := make([]trace.TraceID, requests)
			served := 0
			h := handler(provider, "GET /", func(w http.ResponseWriter, req *http.Request) {
				ids[served] = trace.SpanContextFromContext(req.Context()).TraceID()
				_, s := tracer.Start(req.Context(), "query")
				s.End()
				if served%failing == 0 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			for ; served < requests; served++ {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
			spans := map[trace.TraceID]int{}
			count := map[bool]float64{} // by failed
			for _, s := range r.flush(t, provider) {
				spans[trace.TraceID(s.TraceId)]++
				if s.Kind != tracepb.Span_SPAN_KIND_SERVER {
					continue
				}
				ts, err := trace.ParseTraceState(s.TraceState)
				require.NoError(t, err)
				if th, ok := consistent.ThresholdOf(ts); ok {
					count[s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR] += consistent.AdjustedCount(th)
				} else if exact {
					t.Fatalf("a span without a threshold: %q", s.TraceState)
				}
			}
			others := 0
			for i, id := range ids {
				switch {
				case i%failing == 0 && spans[id] != 2:
					t.Fatalf("failed request %d has %d of its 2 spans", i, spans[id])
				case i%failing != 0 && spans[id] == 2:
					others++
				case i%failing != 0 && spans[id] != 0:
					t.Fatalf("request %d has %d of its 2 spans", i, spans[id])
				}
			}
			const failed, fine = requests / failing, requests - requests/failing
			// ±8 standard deviations: 0.21% of the requests each.
			if share := float64(others) / fine; share < 0.083 || share > 0.117 {
				t.Errorf("%.2f%% of the requests that did not fail have a trace, want about 10%%", 100*share)
			}
			if count[false] < 0.83*fine || count[false] > 1.17*fine {
				t.Errorf("the thresholds say %.0f requests did not fail, %d did not", count[false], fine)
			}
			if exact && count[true] != failed {
				t.Errorf("the thresholds say %.0f requests failed, %d did", count[true], failed)
			}
			// Without exact counts the head's sample estimates: mean 200, s.d. 42.
			if !exact && count[true] > 3*failed {
				t.Errorf("the thresholds say %.0f requests failed, %d did", count[true], failed)
			}
		})
	}
}

// A gateway calls a backend; their head samplers take nothing. Who has what when
// one of them fails is what the package comment says.
func TestServices(t *testing.T) {
	policy := &keep.Policy{Errors: true, ServerErrors: true}
	never := sdktrace.ParentBased(sdktrace.NeverSample())
	for _, c := range []struct {
		name             string
		gateway, backend *keep.Policy
		fails            string // who answers 500 of its own
		want             string
	}{
		{"both keep, backend fails", policy, policy, "backend", "backend call gateway"},
		{"both keep, gateway fails", policy, policy, "gateway", "call gateway"},
		{"both keep, none fails", policy, policy, "", ""},
		{"gateway keeps, backend fails", policy, nil, "backend", "call gateway"},
		{"backend keeps, backend fails", nil, policy, "backend", "backend"},
		{"backend keeps, gateway fails", nil, policy, "gateway", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver(t)
			front, back := r.service(t, never, c.gateway), r.service(t, never, c.backend)
			serve(t, front, back, c.fails)
			var names []string
			ids := map[string]bool{}
			for _, s := range r.flush(t, front, back) {
				names = append(names, s.Name)
				ids[string(s.TraceId)] = true
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != c.want || len(ids) > 1 {
				t.Errorf("exported %q in %d traces, want %q in one", got, len(ids), c.want)
			}
		})
	}
}

// serve sends one request through a gateway to a backend, which belong to the
// providers given; it returns when all spans have ended.
func serve(t *testing.T, front, back trace.TracerProvider, fails string) {
	t.Helper()
	backend := httptest.NewServer(handler(back, "backend", func(w http.ResponseWriter, _ *http.Request) {
		if fails == "backend" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	transport := &http.Transport{}
	client := &http.Client{Transport: otelhttp.NewTransport(transport,
		otelhttp.WithTracerProvider(front), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return "call" }))}
	gateway := handler(front, "gateway", func(w http.ResponseWriter, req *http.Request) {
		out, err := http.NewRequestWithContext(req.Context(), "GET", backend.URL, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, res.Body) //nolint:errcheck // empty
		res.Body.Close()
		if fails == "gateway" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(res.StatusCode)
	})
	gateway.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	transport.CloseIdleConnections()
	backend.Close() // waits until the backend's span has ended
}
