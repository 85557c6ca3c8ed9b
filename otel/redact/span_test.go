package redact_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "bob@example.com"

// dirtySpan has the secret wherever a span can have a text.
func dirtySpan(tp trace.TracerProvider) {
	tracer := tp.Tracer("t", trace.WithInstrumentationAttributes(attribute.String("by", secret)))
	link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1}}), Attributes: []attribute.KeyValue{attribute.String("l", secret)}}
	_, s := tracer.Start(context.Background(), "mail "+secret, trace.WithLinks(link), trace.WithAttributes(attribute.String("a", secret), attribute.String("process.command_line", secret), attribute.Int("n", 1)))
	s.AddEvent("to "+secret, trace.WithAttributes(attribute.String("e", secret)))
	s.RecordError(errors.New("no such user: "+secret), trace.WithStackTrace(true))
	s.SetStatus(codes.Error, secret)
	s.End()
}

func cleanSpan(tp trace.TracerProvider) {
	_, s := tp.Tracer("t").Start(context.Background(), "GET /x", trace.WithAttributes(attribute.String("a", "b")))
	s.AddEvent("e", trace.WithAttributes(attribute.String("e", "f")))
	s.End()
}

func dirtyResource() *resource.Resource {
	return resource.NewSchemaless(attribute.String("service.name", "s"), attribute.String("owner", secret))
}

func newRedactor(t testing.TB) *redact.Redactor {
	t.Helper()
	r, err := redact.New(redact.Default())
	require.NoError(t, err)
	return r
}

func TestExporterAndProcessor(t *testing.T) {
	for name, option := range map[string]func(*tracetest.InMemoryExporter, *redact.Redactor) sdktrace.TracerProviderOption{
		"exporter": func(e *tracetest.InMemoryExporter, r *redact.Redactor) sdktrace.TracerProviderOption {
			return sdktrace.WithBatcher(redact.NewExporter(e, r))
		},
		"processor": func(e *tracetest.InMemoryExporter, r *redact.Redactor) sdktrace.TracerProviderOption {
			return sdktrace.WithSpanProcessor(redact.NewProcessor(sdktrace.NewBatchSpanProcessor(e), r))
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := tracetest.NewInMemoryExporter()
			plain := tracetest.NewInMemoryExporter()
			tp := sdktrace.NewTracerProvider(option(memory, newRedactor(t)), sdktrace.WithSyncer(plain), sdktrace.WithResource(dirtyResource()))
			t.Cleanup(func() { assert.NoError(t, tp.Shutdown(context.Background())) })
			dirtySpan(tp)
			require.NoError(t, tp.ForceFlush(context.Background()))
			got, untouched := dump(t, memory.GetSpans()), dump(t, plain.GetSpans())
			assert.NotContains(t, got, secret, "the secret leaves")
			assert.GreaterOrEqual(t, strings.Count(got, "REDACTED"), 8, "redacted places in %s", got)
			if strings.Contains(untouched, "REDACTED") || !strings.Contains(untouched, secret) {
				t.Error("another pipeline's span was changed")
			}
			spans := memory.GetSpans()
			if len(spans) != 1 || len(spans[0].Attributes) != 2 || spans[0].Attributes[1] != attribute.Int("n", 1) || len(spans[0].Events) != 2 || !spans[0].SpanContext.IsValid() || spans[0].Status.Code != codes.Error {
				t.Errorf("%+v", spans)
			}
		})
	}
}

func dump(t *testing.T, spans tracetest.SpanStubs) string {
	t.Helper()
	var b bytes.Buffer
	for _, s := range spans {
		e := json.NewEncoder(&b)
		for _, part := range []any{s.Name, s.Attributes, s.Events, s.Links, s.Status, s.Resource.Attributes(), s.InstrumentationScope.Attributes.ToSlice()} {
			require.NoError(t, e.Encode(part))
		}
	}
	return b.String()
}

// The view answers from what was worked out once.
func TestViewIsComputedOnce(t *testing.T) {
	r := newRedactor(t)
	memory := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory), sdktrace.WithResource(dirtyResource()))
	dirtySpan(tp)
	cleanSpan(tp)
	spans := memory.GetSpans().Snapshots()
	require.NoError(t, tp.Shutdown(context.Background()))
	v := r.Span(spans[0])
	before := r.Stats().Redacted["email"]
	for range 3 {
		if v.Name() != "mail REDACTED" || v.Status().Description != "REDACTED" || len(v.Attributes()) != 2 || len(v.Events()) != 2 || len(v.Links()) != 1 || v.Resource() == nil || v.InstrumentationScope().Name != "t" {
			t.Fatal("wrong view")
		}
	}
	if n := r.Stats().Redacted["email"]; n != before {
		t.Errorf("%d finds while the view was read", n-before)
	}
}

func TestNoAllocationWhereNothingMatches(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := newRedactor(t)
	kvs := []attribute.KeyValue{
		attribute.String("http.request.method", "GET"), attribute.String("url.full", "https://shop.example/cart?id=12&sort=asc"),
		attribute.Int("http.response.status_code", 200), attribute.Float64("x", 1.5), attribute.Bool("b", true),
		attribute.String("db.query.text", "SELECT a FROM t WHERE b = $1"),
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, kv := range kvs {
			if _, ok := r.Attribute(kv); !ok {
				t.Fatal("dropped")
			}
		}
		r.Text("dial tcp 10.0.0.1:443: connect: connection refused")
		r.Name("GET /users/{id}")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	memory := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory), sdktrace.WithResource(resource.Empty()))
	cleanSpan(tp)
	span := memory.GetSpans().Snapshots()[0]
	require.NoError(t, tp.Shutdown(context.Background()))
	assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { r.Span(span) }), "allocations for a clean span")
}

func TestConcurrentUse(t *testing.T) {
	r := newRedactor(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := strings.Repeat("k", i%97+g)
				kv, ok := r.Attribute(attribute.String(key+".password", "x"))
				if !ok || kv.Value.AsString() != "REDACTED" {
					t.Errorf("%s leaves", key)
				}
				assert.NotContains(t, r.Text(key+"=1 to "+secret), secret, "leaves")
				r.Stats()
			}
		})
	}
	wg.Wait()
}
