package otlp

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

// want is what the official types make of the same spans.
func want(res *span.Resource, scopeName, scopeVersion string, spans []*span.Span) *tracepb.ResourceSpans {
	ss := &tracepb.ScopeSpans{}
	if scopeName != "" || scopeVersion != "" {
		ss.Scope = &commonpb.InstrumentationScope{Name: scopeName, Version: scopeVersion}
	}
	for _, s := range spans {
		ss.Spans = append(ss.Spans, wantSpan(s))
	}
	rs := &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{ss}}
	if res != nil {
		rs.Resource = &resourcepb.Resource{}
		if res.Service != "" {
			rs.Resource.Attributes = wantAttrs([]span.Attr{span.String("service.name", res.Service)})
		}
		rs.Resource.Attributes = append(rs.Resource.Attributes, wantAttrs(res.Attrs)...)
	}
	return rs
}

func wantSpan(s *span.Span) *tracepb.Span {
	p := &tracepb.Span{
		TraceId:           s.TraceID[:],
		SpanId:            s.ID[:],
		TraceState:        strings.ToValidUTF8(s.TraceState, "\ufffd"),
		Name:              strings.ToValidUTF8(s.Name, "\ufffd"),
		Kind:              tracepb.Span_SpanKind(s.Kind),
		StartTimeUnixNano: s.Start,
		EndTimeUnixNano:   s.End,
		Attributes:        wantAttrs(s.Attrs),
		Flags:             0x101,
	}
	if !s.Parent.IsZero() {
		p.ParentSpanId = s.Parent[:]
		if s.Kind == span.Server {
			p.Flags = 0x301
		}
	}
	if !s.Link.ID.IsZero() {
		p.Links = []*tracepb.Span_Link{{TraceId: s.Link.TraceID[:], SpanId: s.Link.ID[:], Flags: 0x100 | uint32(s.Link.Flags)}}
	}
	if s.Status != span.Unset {
		p.Status = &tracepb.Status{Code: tracepb.Status_StatusCode(s.Status)}
	}
	return p
}

func wantAttrs(attrs []span.Attr) []*commonpb.KeyValue {
	var kvs []*commonpb.KeyValue
	for _, a := range attrs {
		v := &commonpb.AnyValue{}
		switch a.Type {
		case span.IntType:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: a.Num}
		case span.BoolType:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Num != 0}
		default:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(a.Str, "\ufffd")}
		}
		kvs = append(kvs, &commonpb.KeyValue{Key: strings.ToValidUTF8(a.Key, "\ufffd"), Value: v})
	}
	return kvs
}

// check compares bytes with the message that they must be, and with its size:
// a length in more bytes than needed would decode as well.
func check(t *testing.T, got []byte, want *tracepb.ResourceSpans) {
	t.Helper()
	var m tracepb.ResourceSpans
	if err := proto.Unmarshal(got, &m); err != nil {
		t.Fatalf("official decoder: %v", err)
	}
	if !proto.Equal(&m, want) {
		t.Fatalf("got  %v\nwant %v", &m, want)
	}
	if len(got) != proto.Size(want) {
		t.Fatalf("%d bytes, want %d", len(got), proto.Size(want))
	}
}

func TestAppendResourceSpans(t *testing.T) {
	id := span.TraceID{15: 1}
	long := strings.Repeat("x", 300)
	huge := strings.Repeat("x", 20_000)
	vast := strings.Repeat("x", 3<<20)
	res := &span.Resource{Service: "shop", Attrs: []span.Attr{span.String("host.name", "h"), span.Int("process.pid", 7)}}
	for name, tc := range map[string]struct {
		res            *span.Resource
		scope, version string
		spans          []*span.Span
	}{
		"nothing":        {},
		"empty resource": {res: &span.Resource{}},
		"no service":     {res: &span.Resource{Attrs: []span.Attr{span.Bool("b", true)}}, scope: "tare"},
		"large resource": {res: &span.Resource{Service: huge}, version: "1"},
		"minimal":        {res: res, spans: []*span.Span{{}}},
		"root":           {res: res, scope: "tare", version: "1.2", spans: []*span.Span{{TraceID: id, ID: span.ID{1}, Kind: span.Server, Name: "GET", TraceState: "ot=th:8", Start: 1, End: 2}}},
		"remote parent":  {res: res, spans: []*span.Span{{TraceID: id, ID: span.ID{1}, Parent: span.ID{7: 9}, Kind: span.Server}}},
		"local parent":   {res: res, spans: []*span.Span{{TraceID: id, ID: span.ID{1}, Parent: span.ID{7: 9}, Kind: span.Client}}},
		"kinds": {spans: []*span.Span{
			{Kind: span.Internal}, {Kind: 4}, {Kind: 5}, {Kind: 200}}},
		"status": {spans: []*span.Span{{Status: span.OK}, {Status: span.Error}, {Status: 200}}},
		"values": {spans: []*span.Span{{Attrs: []span.Attr{
			span.String("", ""), span.String("k", ""), span.String("k", long), span.String(long, huge),
			span.Int("k", 0), span.Int("k", -1), span.Int("", 1<<62), span.Int(long, 127), span.Int("k", 128),
			span.Bool("k", false), span.Bool("k", true), span.Bool(long, true), {Key: "k", Num: 5, Type: span.BoolType},
		}}}},
		"not UTF-8": {scope: "tare", spans: []*span.Span{{
			Name: "GET \xff\xfe", TraceState: "a=\xc3", Attrs: []span.Attr{span.String("k", "v\xf0\x28"), span.Int("i", 1), span.Bool("b", true)}}},
			res: &span.Resource{Service: "s\xff", Attrs: []span.Attr{span.String("k\x80", "v\xf0\x28"), span.Int("\xff", 1)}}},
		"long":  {spans: []*span.Span{{Name: long}, {Name: huge}, {Name: vast}}},
		"times": {spans: []*span.Span{{Start: 1<<64 - 1, End: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := want(tc.res, tc.scope, tc.version, tc.spans)
			prefix := []byte("prefix")
			got := AppendResourceSpans(bytes.Clone(prefix), tc.res, tc.scope, tc.version, tc.spans)
			if !bytes.HasPrefix(got, prefix) {
				t.Fatalf("prefix overwritten: %q", got[:len(prefix)])
			}
			check(t, got[len(prefix):], w)

			var encoded []byte
			for _, s := range tc.spans {
				encoded = AppendSpan(encoded, s)
			}
			assembled := AppendHeader(bytes.Clone(prefix), tc.res, tc.scope, tc.version, len(encoded))
			assembled = append(assembled, encoded...)
			if !bytes.Equal(assembled, got) {
				t.Fatal("header and spans apart differ from AppendResourceSpans")
			}
		})
	}
}

func TestAppendScopeRepairsText(t *testing.T) {
	got := AppendResourceSpans(nil, nil, "\xff", "v\xff", nil)
	check(t, got, want(nil, "\ufffd", "v\ufffd", nil))
}

// random makes spans of every shape; valid ones can be decoded to themselves.
type random struct{ *rand.Rand }

func (r random) text() string {
	if r.IntN(10) == 0 {
		return ""
	}
	n := r.IntN(40)
	if r.IntN(50) == 0 {
		n = r.IntN(20_000)
	}
	var b strings.Builder
	for range n {
		if r.IntN(8) == 0 {
			b.WriteRune(rune(r.IntN(utf8.MaxRune)))
			continue
		}
		b.WriteByte(byte(' ' + r.IntN(95)))
	}
	return b.String()
}

func (r random) attrs() []span.Attr {
	var attrs []span.Attr
	for range r.IntN(14) {
		switch r.IntN(3) {
		case 0:
			attrs = append(attrs, span.String(r.text(), r.text()))
		case 1:
			attrs = append(attrs, span.Int(r.text(), int64(r.Uint64()>>r.IntN(64))))
		default:
			attrs = append(attrs, span.Bool(r.text(), r.IntN(2) == 0))
		}
	}
	return attrs
}

func (r random) span(res *span.Resource) *span.Span {
	s := &span.Span{
		Kind: span.Kind(1 + r.IntN(3)), Name: r.text(), TraceState: r.text(),
		Start: r.Uint64(), End: r.Uint64(), Status: span.Status(r.IntN(3)), Resource: res, Attrs: r.attrs(),
	}
	for i := range s.TraceID {
		s.TraceID[i] = byte(r.IntN(256))
	}
	for i := range s.ID {
		s.ID[i] = byte(r.IntN(256))
		if i == 0 || r.IntN(2) == 0 {
			s.Parent[i] = byte(r.IntN(2))
		}
	}
	s.TraceID[0] |= 1
	s.ID[0] |= 1
	return s
}

func TestAppendResourceSpansGenerated(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	var dst []byte
	for range 40 {
		res := &span.Resource{Service: r.text(), Attrs: r.attrs()}
		var spans []*span.Span
		for range r.IntN(120) {
			s := r.span(res)
			if r.IntN(2) == 0 {
				s.Prefix = NewPrefix(s.Attrs[:r.IntN(len(s.Attrs)+1)])
			}
			spans = append(spans, s)
		}
		name, version := r.text(), r.text()
		dst = AppendResourceSpans(dst[:0], res, name, version, spans)
		check(t, dst, want(res, name, version, spans))
	}
}

func TestAppendSpanDoesNotAllocate(t *testing.T) {
	s := typicalSpan()
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst = AppendSpan(dst[:0], s) }); n != 0 {
		t.Errorf("%v allocations per span", n)
	}
}

// Text that is known to be UTF-8 is not looked at, and comes out the same.
func TestKnownText(t *testing.T) {
	s := &span.Span{TraceID: span.TraceID{1}, ID: span.ID{1}, Name: "GET /ö", TraceState: "ot=th:8",
		Attrs: []span.Attr{span.String("url.path", "/ö"), span.String("empty", ""), span.Int("n", 7), span.Bool("is", true)}}
	looked := AppendSpan(nil, s)
	s.UTF8 = true
	if known := AppendSpan(nil, s); !bytes.Equal(known, looked) {
		t.Errorf("%x\nwant %x", known, looked)
	}
}
