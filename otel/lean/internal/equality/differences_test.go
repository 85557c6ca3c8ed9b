package equality_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// The tests here show where lean differs on purpose, with what the official SDK does beside it, so that a
// change on either side is noticed.

// leanOnly skips a test when the official SDK is compared with itself.
func leanOnly(t *testing.T) {
	if against().Name != equality.Lean.Name {
		t.Skip("this is about lean")
	}
}

// TestNotUTF8: protobuf allows only UTF-8 in strings. The official exporter fails with the whole batch
// if one string in it is not; lean sends what is not UTF-8 as U+FFFD, and the other spans as they are.
func TestNotUTF8(t *testing.T) {
	leanOnly(t)
	const bad = "a\xff\xfe\xc3(b\xe6\x97"
	broken := func(text string) program {
		return program{Run: func(ctx context.Context, e *env) {
			ctx, root := e.Main().Start(ctx, "valid")
			_, s := e.Tracer(text, trace.WithInstrumentationVersion(text), trace.WithSchemaURL(text), trace.WithInstrumentationAttributes(attribute.String(text, text))).
				Start(ctx, text, trace.WithAttributes(attribute.String(text, text), attribute.StringSlice("s", []string{"ok", text}), attribute.ByteSlice("bytes stay", []byte(bad)),
					attribute.Slice("slice", attribute.StringValue(text)), attribute.Map("map", attribute.String(text, text)), attribute.Int("int "+text, 1)),
					trace.WithLinks(trace.Link{SpanContext: remote(1, ""), Attributes: []attribute.KeyValue{attribute.Bool(text, true)}}))
			s.AddEvent(text, trace.WithAttributes(attribute.String(text, text)))
			s.SetStatus(codes.Error, text)
			s.SetAttributes(attribute.String(text, "the same key again"))
			s.End()
			root.End()
		}}
	}
	official, err := equality.Run(broken(bad), equality.Official, receiver, true)
	if err == nil || len(official.Spans) != 0 {
		t.Errorf("the official exporter sent %d spans, error %v: it can be compared now", len(official.Spans), err)
	}
	got, err := equality.Run(broken(bad), equality.Lean, receiver, true)
	require.NoError(t, err)
	// The same program with texts made valid beforehand is what must arrive.
	want, err := equality.Run(broken(strings.ToValidUTF8(bad, "\ufffd")), equality.Official, receiver, true)
	require.NoError(t, err)
	assert.NoError(t, equality.Compare(want, got, true, true))
}

// TestAfterShutdown: a tracer that outlives its provider makes, with the official SDK, spans that record
// for nobody, and passes their ids on, so that others get a parent that will never arrive. lean passes on
// what came in.
func TestAfterShutdown(t *testing.T) {
	leanOnly(t)
	for _, c := range []struct {
		pipe      equality.Pipeline
		passes    bool
		recording bool
	}{{equality.Official, false, true}, {equality.Lean, true, false}} {
		p := program{Run: func(ctx context.Context, e *env) {
			tracer := e.Main()
			assert.NoError(t, e.Shutdown(ctx))
			_, s := tracer.Start(trace.ContextWithRemoteSpanContext(ctx, remote(1, "a=1")), "s")
			if s.IsRecording() != c.recording || (s.SpanContext().SpanID() == remote(1, "").SpanID()) != c.passes {
				t.Errorf("%s: recording %t, %v", c.pipe.Name, s.IsRecording(), s.SpanContext())
			}
			s.End()
		}}
		if r, err := equality.Run(p, c.pipe, receiver, false); err != nil || len(r.Spans) != 0 {
			t.Errorf("%s: %v, %d spans", c.pipe.Name, err, len(r.Spans))
		}
	}
}

// TestLinkAttributesAreCopied: the official SDK keeps the caller's slice of a link's attributes until the
// export; who reuses it changes the link. lean has written it by then.
func TestLinkAttributesAreCopied(t *testing.T) {
	leanOnly(t)
	p := program{Run: func(ctx context.Context, e *env) {
		kv := []attribute.KeyValue{attribute.Int("k", 1)}
		_, s := e.Main().Start(ctx, "s")
		s.AddLink(trace.Link{SpanContext: remote(1, ""), Attributes: kv})
		kv[0] = attribute.Int("k", 2)
		s.End()
	}}
	for _, c := range []struct {
		pipe equality.Pipeline
		want int64
	}{{equality.Official, 2}, {equality.Lean, 1}} {
		r, err := equality.Run(p, c.pipe, receiver, false)
		if err != nil || len(r.Spans) != 1 {
			t.Fatal(err)
		}
		assert.Equal(t, c.want, r.Spans[0].GetLinks()[0].GetAttributes()[0].GetValue().GetIntValue(), "%s: the link", c.pipe.Name)
	}
}

// TestRaces: when End races with everything else, what is in the span depends on who was first, and there
// is nothing to compare; but one span arrives, and what is in it is whole.
func TestRaces(t *testing.T) {
	for _, pipe := range []equality.Pipeline{equality.Official, against()} {
		p := program{Run: func(ctx context.Context, e *env) {
			for range 20 {
				ctx, s := e.Main().Start(ctx, "s")
				together(8, func(i int) {
					for range i {
						s.SetAttributes(attribute.Int("a", 7), attribute.StringSlice("b", []string{"x", "y"}))
						s.AddEvent("event", trace.WithAttributes(attribute.Int("a", 7)))
						s.AddLink(numberedLink(1, attribute.Int("a", 7)))
						s.SetName("s")
						s.SetStatus(codes.Error, "text")
						_ = s.IsRecording()
						_, c := e.Main().Start(ctx, "child")
						c.End()
					}
					s.End()
				})
				assert.NoError(t, e.Flush(ctx))
			}
		}}
		r, err := equality.Run(p, pipe, receiver, false)
		require.NoError(t, err)
		parents := slices.DeleteFunc(r.Spans, func(s *equality.Span) bool { return s.GetName() != "s" })
		assert.Len(t, parents, 20, "%s: spans", pipe.Name)
		for _, s := range parents {
			for _, kv := range s.GetAttributes() {
				if kv.GetKey() == "a" && kv.GetValue().GetIntValue() != 7 || kv.GetKey() == "b" && len(kv.GetValue().GetArrayValue().GetValues()) != 2 {
					t.Errorf("%s: %v", pipe.Name, kv)
				}
			}
			for _, e := range s.GetEvents() {
				if e.GetName() != "event" || len(e.GetAttributes()) != 1 {
					t.Errorf("%s: %v", pipe.Name, e)
				}
			}
			for _, l := range s.GetLinks() {
				assert.Len(t, l.GetAttributes(), 1, "%s: %v", pipe.Name, l)
			}
		}
	}
}

// TestShutdownRaces: spans that end while the provider flushes and shuts down are exported whole, or
// counted; nothing hangs, nothing is exported twice.
func TestShutdownRaces(t *testing.T) {
	for _, pipe := range []equality.Pipeline{equality.Official, against()} {
		p := program{Run: func(ctx context.Context, e *env) {
			together(8, func(i int) {
				for j := range 100 {
					_, s := e.Main().Start(ctx, "s", trace.WithAttributes(attribute.Int("i", i*1000+j)))
					s.End()
					switch {
					case i == 0 && j == 50:
						_ = e.Shutdown(ctx) // accounts are checked by Run, when all have ended
					case i == 1 && j%10 == 0:
						_ = e.Flush(ctx) // may come after Shutdown
					}
				}
			})
		}}
		r, err := equality.Run(p, pipe, receiver, false)
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, s := range r.Spans {
			if seen[string(s.GetSpanId())] || len(s.GetAttributes()) != 1 {
				t.Errorf("%s: %v arrived twice, or not whole", pipe.Name, s.Span)
			}
			seen[string(s.GetSpanId())] = true
		}
		if len(seen) < 51 { // those of goroutine 0 before it called Shutdown
			t.Errorf("%s: %d spans", pipe.Name, len(seen))
		}
	}
}
