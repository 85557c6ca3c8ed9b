package lean

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	rtrace "runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

var someTime = time.Unix(1700000000, 123456789)

func attr(kvs []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range kvs {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

func newProvider(t testing.TB, opts ...Option) (*TracerProvider, *sink) {
	t.Helper()
	s := new(sink)
	p := NewTracerProvider(append([]Option{WithExporter(s)}, opts...)...)
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, s
}

func flushed(t testing.TB, p *TracerProvider, s *sink) []*tracepb.Span {
	t.Helper()
	require.NoError(t, p.ForceFlush(context.Background()))
	return s.spans(t)
}

type key struct{}

func TestContextOfSpans(t *testing.T) {
	for _, sampler := range []sdktrace.Sampler{sdktrace.AlwaysSample(), sdktrace.NeverSample()} {
		p, _ := newProvider(t, WithSampler(sampler))
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		ctx, s := p.Tracer("t").Start(parent, "n")
		if got := trace.SpanFromContext(ctx); got != s {
			t.Errorf("the context holds %v, not the span", got)
		}
		if ctx.Value(key{}) != "value" {
			t.Error("the parent's values are gone")
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the parent's deadline is gone")
		}
		child, cancelChild := context.WithCancel(ctx)
		if got := trace.SpanFromContext(context.WithValue(child, key{}, 1)); got != s {
			t.Error("derived contexts lose the span")
		}
		s.End()
		cancel()
		if <-child.Done(); !errors.Is(child.Err(), context.Canceled) || ctx.Err() == nil {
			t.Error("the parent's end does not arrive")
		}
		cancelChild()
		if s.TracerProvider() != p {
			t.Error("not the span's provider")
		}
	}
}

func TestNilContext(t *testing.T) {
	p, s := newProvider(t)
	//nolint:staticcheck // what the SDK tolerates must not break here
	ctx, span := p.Tracer("t").Start(nil, "n")
	if ctx == nil || trace.SpanFromContext(ctx) != span {
		t.Error("no context")
	}
	span.End()
	assert.Len(t, flushed(t, p, s), 1)
}

func TestAfterEndNothingHappens(t *testing.T) {
	p, s := newProvider(t)
	_, span := p.Tracer("t").Start(t.Context(), "n")
	assert.True(t, span.IsRecording(), "not recording")
	span.End(trace.WithTimestamp(someTime))
	assert.False(t, span.IsRecording(), "still recording")
	// Another span has the record now; it must not see what the old one is told.
	_, other := p.Tracer("t").Start(t.Context(), "other")
	span.SetName("x")
	span.SetAttributes(attribute.Int("x", 1))
	span.SetStatus(codes.Error, "x")
	span.AddEvent("x")
	span.AddLink(trace.Link{SpanContext: span.SpanContext()})
	span.RecordError(errors.New("x"))
	span.End()
	other.End()
	got := flushed(t, p, s)
	require.Len(t, got, 2, "spans")
	for _, g := range got {
		if g.Name == "x" || len(g.Attributes)+len(g.Events)+len(g.Links) > 0 || g.Status.Code != 0 {
			t.Errorf("%v", g)
		}
	}
}

func TestNilAndZeroSpans(*testing.T) {
	for _, s := range []*Span{nil, new(Span)} {
		s.SetName("n")
		s.SetAttributes(attribute.Int("a", 1))
		s.SetString("a", "b")
		s.AddEvent("e")
		s.AddLink(trace.Link{Attributes: []attribute.KeyValue{attribute.Int("a", 1)}})
		s.RecordError(errors.New("e"))
		s.SetStatus(codes.Ok, "")
		s.IsRecording()
		s.SpanContext()
		s.End()
	}
}

func TestPanicIsRecordedAndGoesOn(t *testing.T) {
	p, s := newProvider(t)
	cause := fmt.Errorf("out of %s", "luck")
	func() {
		defer func() {
			if r := recover(); r != error(cause) {
				t.Errorf("recovered %v", r)
			}
		}()
		_, span := p.Tracer("t").Start(t.Context(), "n")
		defer span.End(trace.WithStackTrace(true))
		panic(cause)
	}()
	got := flushed(t, p, s)
	if len(got) != 1 || len(got[0].Events) != 1 {
		t.Fatalf("%v", got)
	}
	e := got[0].Events[0]
	if e.Name != "exception" || attr(e.Attributes, "exception.type").GetStringValue() != fmt.Sprintf("%T", cause) ||
		attr(e.Attributes, "exception.message").GetStringValue() != "out of luck" ||
		!strings.Contains(attr(e.Attributes, "exception.stacktrace").GetStringValue(), "goroutine") {
		t.Errorf("%v", e)
	}
}

// A panicking value may use the very span that its text ends up in.
type nosy struct{ s trace.Span }

func (n nosy) String() string {
	n.s.SetAttributes(attribute.Bool("seen", true))
	return "nosy"
}

func TestPanicValueMayUseTheSpan(t *testing.T) {
	p, s := newProvider(t)
	func() {
		defer func() { _ = recover() }()
		_, span := p.Tracer("t").Start(t.Context(), "n")
		defer span.End()
		panic(nosy{span})
	}()
	got := flushed(t, p, s)
	if len(got) != 1 || !attr(got[0].Attributes, "seen").GetBoolValue() {
		t.Errorf("%v", got)
	}
}

func TestWithoutPanicRecording(t *testing.T) {
	p, s := newProvider(t, WithoutPanicRecording())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, span := p.Tracer("t").Start(t.Context(), "n")
		defer span.End()
		panic("x")
	}()
	if got := flushed(t, p, s); len(got) != 1 || len(got[0].Events) != 0 {
		t.Errorf("%v", got)
	}
}

func TestConcurrentUseOfOneSpan(t *testing.T) {
	p, s := newProvider(t)
	ctx, span := p.Tracer("t").Start(t.Context(), "n")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				span.SetAttributes(attribute.Int(fmt.Sprint("k", i%10), g))
				span.AddEvent("e", trace.WithAttributes(attribute.Int("i", i)))
				span.SetName(fmt.Sprint(g))
				span.SetStatus(codes.Error, "e")
				span.RecordError(errors.New("x"))
				span.AddLink(trace.Link{SpanContext: span.SpanContext()})
				span.IsRecording()
				_, child := p.Tracer("t").Start(ctx, "child")
				child.End()
				if i == 99 {
					span.End()
				}
			}
		})
	}
	wg.Wait()
	assert.Len(t, flushed(t, p, s), 801, "spans")
	if st := p.Stats(); st.Started != 801 || st.Recorded != 801 || st.Ended != 801 || st.Exported != 801 || st.QueuedSpans != 0 || st.QueuedBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestRuntimeTraceTasks(t *testing.T) {
	if rtrace.IsEnabled() {
		t.Skip("runtime/trace is in use")
	}
	p, s := newProvider(t)
	var out bytes.Buffer
	if err := rtrace.Start(&out); err != nil {
		t.Skip(err)
	}
	ctx, span := p.Tracer("t").Start(t.Context(), "a task of runtime/trace")
	rtrace.Log(ctx, "category", "message")
	span.End()
	rtrace.Stop()
	assert.Contains(t, out.String(), "a task of runtime/trace", "no task in the trace")
	assert.Len(t, flushed(t, p, s), 1)
}
