package equality_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// rich is a tree whose spans use every field of OTLP that a tracer can set.
func rich(ctx context.Context, e *env) {
	some := []attribute.KeyValue{attribute.Bool("b", true), attribute.Int("i", 1), attribute.Float64("f", 1.5), attribute.String("s", "text"), attribute.ByteSlice("y", []byte{1}),
		attribute.StringSlice("ss", []string{"a", "b"}), attribute.Map("m", attribute.Slice("l", attribute.IntValue(1), attribute.Value{})), {Key: "empty"}, attribute.Int("dropped", 1)}
	fill := func(s trace.Span, to trace.SpanContext) {
		s.AddEvent("dropped")
		s.AddEvent("given", at(time.Second), trace.WithAttributes(some...))
		s.AddEvent("by the clock")
		s.RecordError(context.Canceled, trace.WithStackTrace(true))
		addLinks(1)(s)
		s.AddLink(trace.Link{SpanContext: to, Attributes: some})
		s.AddLink(numberedLink(1))
		s.SetAttributes(some...)
		s.SetStatus(codes.Error, "failed")
	}
	tracer := e.Tracer("tracer", trace.WithInstrumentationVersion("1"), trace.WithSchemaURL("schema"), trace.WithInstrumentationAttributes(attribute.Int("i", 1)))
	ctx, root := e.Main().Start(trace.ContextWithRemoteSpanContext(ctx, remote(1, "a=1")), "root")
	in, child := tracer.Start(ctx, "child", trace.WithSpanKind(trace.SpanKindClient), at(0))
	_, other := tracer.Start(ctx, "other")
	_, leaf := tracer.Start(in, "leaf")
	fill(child, root.SpanContext())
	leaf.AddLink(trace.Link{SpanContext: child.SpanContext()})
	leaf.End()
	child.End(at(time.Minute))
	other.End()
	root.End()
	e.NoteSpan("root", root)
	e.NoteHeaders("child", in)
}

func richProgram() program {
	return limited(program{Run: rich}, func(l *sdktrace.SpanLimits) {
		l.AttributeCountLimit, l.AttributePerEventCountLimit, l.AttributePerLinkCountLimit, l.EventCountLimit, l.LinkCountLimit = 8, 8, 8, 3, 2
	})
}

// TestCompareSeesEveryField: a suite that overlooks a field would call anything equal.
func TestCompareSeesEveryField(t *testing.T) {
	want, err := equality.Run(richProgram(), equality.Official, receiver, true)
	require.NoError(t, err)
	child := slices.IndexFunc(want.Spans, func(s *equality.Span) bool { return s.GetName() == "child" })
	changed := 0
	for _, part := range []func(s *equality.Span) proto.Message{
		func(s *equality.Span) proto.Message { return s.Span },
		func(s *equality.Span) proto.Message { return s.Scope },
		func(s *equality.Span) proto.Message { return s.Resource },
	} {
		for n := 0; ; n++ {
			got := clone(want)
			countdown, what := n, ""
			change1(part(got.Spans[child]).ProtoReflect(), "", &countdown, &what)
			if what == "" {
				break
			}
			changed++
			for _, exact := range []bool{true, false} {
				if !exact && strings.HasPrefix(what, ".links[1].") && strings.HasSuffix(what, "_id") {
					continue // of no exported span: by place it is some id that the other run has not
				}
				assert.Error(t, equality.Compare(want, got, exact, true), "exact %t: nobody noticed that %s was changed", exact, what)
			}
		}
	}
	assert.GreaterOrEqual(t, changed, 150)
	t.Logf("%d fields", changed)
}

// change1 changes the n-th field of m, except for what the comparison leaves out: a clock's times, the
// text of stack traces.
func change1(m protoreflect.Message, path string, n *int, what *string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := path + "." + string(f.Name())
		if *what != "" || !m.Has(f) {
			continue
		}
		switch v := m.Get(f); {
		case f.IsList():
			for j := 0; j < v.List().Len() && *what == ""; j++ {
				change1(v.List().Get(j).Message(), fmt.Sprintf("%s[%d]", name, j), n, what)
			}
			if hit(n, what) {
				*what = name + ", shortened"
				v.List().Truncate(v.List().Len() - 1)
			}
		case f.Message() != nil:
			change1(v.Message(), name, n, what)
			if hit(n, what) {
				*what = name + ", removed"
				m.Clear(f)
			}
		case f.Kind() == protoreflect.Fixed64Kind && v.Uint() > uint64(time.Now().Add(-time.Hour).UnixNano()):
		case f.Kind() == protoreflect.StringKind && strings.HasPrefix(v.String(), "goroutine "):
		case hit(n, what):
			*what = name
			m.Set(f, other(f, v))
		}
	}
}

func hit(n *int, what *string) bool {
	*n--
	return *what == "" && *n == -1
}

func other(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String() + "x")
	case protoreflect.BytesKind:
		b := slices.Clone(v.Bytes())
		if len(b) == 0 {
			return protoreflect.ValueOfBytes([]byte{1})
		}
		b[len(b)-1] ^= 1
		return protoreflect.ValueOfBytes(b)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(v.Enum() ^ 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(-v.Float() - 1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int() ^ 1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) ^ 1)
	case protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	}
	panic(f.Kind())
}

func clone(r equality.Result) equality.Result {
	out := r
	out.Spans = nil
	for _, s := range r.Spans {
		c := *s
		c.Span, c.Scope, c.Resource = proto.CloneOf(s.Span), proto.CloneOf(s.Scope), proto.CloneOf(s.Resource)
		out.Spans = append(out.Spans, &c)
	}
	out.Notes = slices.Clone(r.Notes)
	return out
}

func TestCompare(t *testing.T) {
	want, err := equality.Run(richProgram(), equality.Official, receiver, true)
	require.NoError(t, err)
	named := func(r equality.Result, name string) *equality.Span {
		return r.Spans[slices.IndexFunc(r.Spans, func(s *equality.Span) bool { return s.GetName() == name })]
	}
	// rename gives all spans of the program other ids, as another run would.
	rename := func(r *equality.Result) {
		for _, s := range r.Spans {
			s.SpanId[0] ^= 0x80
			if s.GetName() != "root" { // the root's parent is remote
				s.ParentSpanId[0] ^= 0x80
			}
			for _, l := range s.GetLinks() {
				if l.GetSpanId()[0] == 0x50 {
					l.SpanId[0] ^= 0x80
				}
			}
		}
		for i, n := range r.Notes {
			r.Notes[i] = strings.ReplaceAll(n, " span 5", " span d")
			r.Notes[i] = strings.ReplaceAll(r.Notes[i], "-50000000", "-d0000000")
		}
	}
	for _, c := range []struct {
		name          string
		change        func(r *equality.Result)
		exact, places bool // is it equal?
	}{
		{"nothing", func(*equality.Result) {}, true, true},
		{"order in the request", func(r *equality.Result) { slices.Reverse(r.Spans) }, true, true},
		{"other ids", rename, false, true},
		{"a span twice", func(r *equality.Result) { r.Spans = append(r.Spans, r.Spans[0]) }, false, false},
		{"a span lost", func(r *equality.Result) { r.Spans = r.Spans[1:] }, false, false},
		{"all spans lost", func(r *equality.Result) { r.Spans = nil }, false, false},
		{"another parent", func(r *equality.Result) { named(*r, "leaf").ParentSpanId = named(*r, "other").GetSpanId() }, false, false},
		{"another parent in another run", func(r *equality.Result) {
			rename(r)
			named(*r, "leaf").ParentSpanId = named(*r, "other").GetSpanId()
		}, false, false},
		{"a link to another span in another run", func(r *equality.Result) {
			rename(r)
			named(*r, "leaf").Links[0].SpanId = named(*r, "other").GetSpanId()
		}, false, false},
		{"ids exchanged", func(r *equality.Result) {
			a, b := named(*r, "leaf"), named(*r, "other")
			a.SpanId, b.SpanId = b.GetSpanId(), a.GetSpanId()
		}, false, false},
		{"order of attributes", func(r *equality.Result) { slices.Reverse(named(*r, "child").Attributes) }, false, false},
		{"order of events", func(r *equality.Result) { slices.Reverse(named(*r, "child").Events) }, false, false},
		{"order of links", func(r *equality.Result) { slices.Reverse(named(*r, "child").Links) }, false, false},
		{"an empty status", func(r *equality.Result) { named(*r, "leaf").Status = nil }, false, false},
		{"no resource", func(r *equality.Result) { named(*r, "leaf").Resource = nil }, false, false},
		{"schema of the scope", func(r *equality.Result) { named(*r, "leaf").ScopeSchema = "x" }, false, false},
		{"schema of the resource", func(r *equality.Result) { named(*r, "leaf").ResourceSchema = "" }, false, false},
		{"an unknown field", func(r *equality.Result) { named(*r, "leaf").ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 1}) }, false, false},
		{"end before start", func(r *equality.Result) {
			named(*r, "leaf").EndTimeUnixNano = named(*r, "leaf").GetStartTimeUnixNano() - 1
		}, false, false},
		{"start before the parent's", func(r *equality.Result) {
			named(*r, "other").StartTimeUnixNano = named(*r, "root").GetStartTimeUnixNano() - 1
		}, false, false},
		{"an event before the start", func(r *equality.Result) {
			named(*r, "leaf").Events = append(named(*r, "leaf").Events, proto.CloneOf(named(*r, "child").Events[0]))
			named(*r, "leaf").Events[0].TimeUnixNano = named(*r, "leaf").GetStartTimeUnixNano() - 1
		}, false, false},
		{"a time that the clock did not give", func(r *equality.Result) { named(*r, "leaf").StartTimeUnixNano = 5 }, false, false},
		{"a stack trace that is empty", func(r *equality.Result) {
			for _, e := range named(*r, "child").Events {
				for _, kv := range e.GetAttributes() {
					if kv.GetKey() == "exception.stacktrace" {
						kv.Value = &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{}}
					}
				}
			}
		}, false, false},
		{"ids of zeros", func(r *equality.Result) { clear(named(*r, "leaf").SpanId) }, false, false},
		{"a short trace id", func(r *equality.Result) { named(*r, "leaf").TraceId = named(*r, "leaf").TraceId[:8] }, false, false},
		{"a note", func(r *equality.Result) { r.Notes[0] += "x" }, false, false},
		{"a note lost", func(r *equality.Result) { r.Notes = r.Notes[1:] }, false, false},
		{"order of notes", func(r *equality.Result) { slices.Reverse(r.Notes) }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, exact := range []bool{true, false} {
				got := clone(want)
				c.change(&got)
				err := equality.Compare(want, got, exact, true)
				if equal := exact && c.exact || !exact && c.places; (err == nil) != equal {
					t.Errorf("exact %t: want equal: %t, got %v", exact, equal, err)
				}
			}
		})
	}
}
