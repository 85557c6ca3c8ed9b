package lean

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is an Exporter that decodes what it gets with OTLP's own Go package.
type sink struct {
	mu       sync.Mutex
	requests []*collectorpb.ExportTraceServiceRequest
	shutdown int
	errs     []error
	// before is called in Export, if set.
	before func(ctx context.Context, spans int) (int, error)
}

func (s *sink) Export(ctx context.Context, request []byte, spans int) (int, error) {
	if s.before != nil {
		if rejected, err := s.before(ctx, spans); rejected > 0 || err != nil {
			return rejected, err
		}
	}
	req := new(collectorpb.ExportTraceServiceRequest)
	err := proto.Unmarshal(request, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
	}
	s.requests = append(s.requests, req)
	if got := countSpans(req.ResourceSpans); got != spans {
		s.errs = append(s.errs, errCount{got, spans})
	}
	return 0, nil
}

type errCount struct{ got, said int }

func (e errCount) Error() string { return "a request does not hold as many spans as it is said to" }

func (s *sink) Shutdown(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown++
	return nil
}

// resourceSpans returns everything that arrived.
func (s *sink) resourceSpans(t testing.TB) (all []*tracepb.ResourceSpans) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.errs {
		t.Error(err)
	}
	for _, r := range s.requests {
		all = append(all, r.ResourceSpans...)
	}
	return all
}

func (s *sink) spans(t testing.TB) []*tracepb.Span {
	t.Helper()
	return spansOf(s.resourceSpans(t))
}

func spansOf(rs []*tracepb.ResourceSpans) (all []*tracepb.Span) {
	for _, r := range rs {
		for _, s := range r.ScopeSpans {
			all = append(all, s.Spans...)
		}
	}
	slices.SortFunc(all, func(a, b *tracepb.Span) int { return cmp.Compare(string(a.SpanId), string(b.SpanId)) })
	return all
}

func countSpans(rs []*tracepb.ResourceSpans) int { return len(spansOf(rs)) }

// officialClient receives what the official exporter would send.
type officialClient struct {
	mu  sync.Mutex
	all []*tracepb.ResourceSpans
}

func (*officialClient) Start(context.Context) error { return nil }
func (*officialClient) Stop(context.Context) error  { return nil }
func (c *officialClient) UploadTraces(_ context.Context, rs []*tracepb.ResourceSpans) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rs {
		c.all = append(c.all, proto.Clone(r).(*tracepb.ResourceSpans))
	}
	return nil
}

// official runs a program on the SDK.
func official(t testing.TB, program func(trace.TracerProvider), opts ...sdktrace.TracerProviderOption) []*tracepb.ResourceSpans {
	t.Helper()
	client := new(officialClient)
	exporter, err := otlptrace.New(t.Context(), client)
	require.NoError(t, err)
	p := sdktrace.NewTracerProvider(append(opts, sdktrace.WithBatcher(exporter))...)
	program(p)
	assert.NoError(t, p.Shutdown(context.Background()))
	return client.all
}

// leanly runs a program on this package.
func leanly(t testing.TB, program func(trace.TracerProvider), opts ...Option) []*tracepb.ResourceSpans {
	t.Helper()
	s := new(sink)
	p := NewTracerProvider(append(opts, WithExporter(s))...)
	program(p)
	assert.NoError(t, p.Shutdown(context.Background()))
	return s.resourceSpans(t)
}

// odd is a sampler that uses everything that a sampler can answer.
type odd struct{}

func (odd) Description() string { return "odd" }
func (odd) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	r := sdktrace.SamplingResult{Tracestate: parent.TraceState(), Decision: sdktrace.SamplingDecision(len(p.Name) % 3)}
	if r.Decision != sdktrace.Drop {
		r.Attributes = []attribute.KeyValue{
			attribute.Bool("sampler.remote", parent.IsRemote()), attribute.Int("k1", len(p.Attributes)),
			attribute.String("sampler.parent", parent.SpanID().String()), attribute.Int("sampler.links", len(p.Links)),
		}
		r.Tracestate, _ = r.Tracestate.Insert("odd", "1")
	}
	return r
}

// checkEqual compares what two pipelines have made: resource and scope of each span, and the span.
func checkEqual(t testing.TB, want, got []*tracepb.ResourceSpans) {
	t.Helper()
	w, g := bySpan(want), bySpan(got)
	for id, span := range w {
		if g[id] == nil {
			t.Errorf("span %x is missing", id)
		} else if !proto.Equal(span, g[id]) {
			t.Errorf("span %x differs; want\n%s\ngot\n%s", id, prototext.Format(span), prototext.Format(g[id]))
		}
	}
	for id, span := range g {
		if w[id] == nil {
			t.Errorf("span %x is too much:\n%s", id, prototext.Format(span))
		}
	}
}

// bySpan makes a message of its own of each span, with its resource and scope.
func bySpan(all []*tracepb.ResourceSpans) map[string]*tracepb.ResourceSpans {
	m := make(map[string]*tracepb.ResourceSpans)
	for _, r := range all {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				m[string(span.SpanId)] = &tracepb.ResourceSpans{
					Resource: r.Resource, SchemaUrl: r.SchemaUrl,
					ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.Scope, SchemaUrl: s.SchemaUrl, Spans: []*tracepb.Span{span}}},
				}
			}
		}
	}
	return m
}

// counter gives ids in order, so that two runs have the same.
type counter struct{ n atomic.Uint64 }

func (c *counter) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], c.n.Add(1))
	return id
}

func (c *counter) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	binary.BigEndian.PutUint64(t[8:], c.n.Add(1)*0x9e3779b97f4a7c15)
	return t, c.NewSpanID(ctx, t)
}
