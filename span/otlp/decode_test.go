package otlp

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

// request wraps the contents of ResourceSpans messages.
func request(contents ...[]byte) []byte {
	var body []byte
	for _, c := range contents {
		body = protowire.AppendTag(body, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, c)
	}
	return body
}

func TestRoundTripGenerated(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range 40 {
		var contents [][]byte
		var sent []*span.Span
		for range r.IntN(4) {
			res := &span.Resource{Service: r.text(), Attrs: r.attrs()}
			var spans []*span.Span
			for range 1 + r.IntN(20) {
				spans = append(spans, r.span(res))
			}
			contents = append(contents, AppendResourceSpans(nil, res, "tare", "1", spans))
			sent = append(sent, spans...)
		}
		got, err := Decode(request(contents...))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(sent) {
			t.Fatalf("%d spans, want %d", len(got), len(sent))
		}
		for i := range got {
			if !reflect.DeepEqual(&got[i], sent[i]) {
				t.Fatalf("span %d:\ngot  %+v\nwant %+v", i, got[i], *sent[i])
			}
			if i > 0 && (got[i].Resource == got[i-1].Resource) != (sent[i].Resource == sent[i-1].Resource) {
				t.Fatalf("span %d: resources shared differently", i)
			}
		}
	}
}

func marshal(t *testing.T, rs ...*tracepb.ResourceSpans) []byte {
	t.Helper()
	body, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: rs})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func one(s *tracepb.Span) *tracepb.ResourceSpans {
	return &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{s}}}}
}

func TestDecodeInvalid(t *testing.T) {
	trace, id := make([]byte, 16), make([]byte, 8)
	trace[0], id[0] = 1, 1
	for name, body := range map[string][]byte{
		"not protobuf":    {0xff},
		"truncated":       {0x0a, 0x05, 0x12},
		"no trace id":     marshal(t, one(&tracepb.Span{SpanId: id})),
		"short trace id":  marshal(t, one(&tracepb.Span{TraceId: trace[:15], SpanId: id})),
		"long trace id":   marshal(t, one(&tracepb.Span{TraceId: append(trace, 1), SpanId: id})),
		"zero trace id":   marshal(t, one(&tracepb.Span{TraceId: make([]byte, 16), SpanId: id})),
		"no span id":      marshal(t, one(&tracepb.Span{TraceId: trace})),
		"zero span id":    marshal(t, one(&tracepb.Span{TraceId: trace, SpanId: make([]byte, 8)})),
		"short parent id": marshal(t, one(&tracepb.Span{TraceId: trace, SpanId: id, ParentSpanId: id[:7]})),
	} {
		if spans, err := Decode(body); err == nil {
			t.Errorf("%s: decoded %v", name, spans)
		}
	}
	if spans, err := Decode(nil); err != nil || len(spans) != 0 {
		t.Errorf("empty body: %v, %v", spans, err)
	}
}

func TestDecodeForeignValues(t *testing.T) {
	str := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	num := func(f float64) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
	}
	list := func(vs ...*commonpb.AnyValue) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: vs}}}
	}
	for want, v := range map[string]*commonpb.AnyValue{
		"":                   nil,
		"1.5":                num(1.5),
		"NaN":                num(math.NaN()),
		"-Infinity":          num(math.Inf(-1)),
		"AQI=":               {Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{1, 2}}},
		`["a",["b",1],null]`: list(str("a"), list(str("b"), &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1}}), &commonpb.AnyValue{}),
		`{"k":true}`: {Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{
			{Key: "k", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}},
		}}}},
	} {
		if got := attrOf(&commonpb.KeyValue{Key: "k", Value: v}); got != span.String("k", want) {
			t.Errorf("got %+v, want text %q", got, want)
		}
	}
}

func TestDecodeForeignSpan(t *testing.T) {
	trace, id := make([]byte, 16), make([]byte, 8)
	trace[0], id[0] = 1, 1
	text := func(key, v string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
	}
	rs := one(&tracepb.Span{TraceId: trace, SpanId: id, Kind: tracepb.Span_SPAN_KIND_CONSUMER, Status: &tracepb.Status{Code: 9}})
	rs.ScopeSpans[0].Spans = append(rs.ScopeSpans[0].Spans, &tracepb.Span{TraceId: trace, SpanId: id, ParentSpanId: make([]byte, 8)})
	rs.Resource = &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "first"), text("service.name", "second"), text("k", "v")}}
	got, err := Decode(marshal(t, rs))
	if err != nil {
		t.Fatal(err)
	}
	res := &span.Resource{Service: "first", Attrs: []span.Attr{span.String("k", "v")}}
	want := []span.Span{
		{TraceID: span.TraceID{1}, ID: span.ID{1}, Kind: 5, Resource: res},
		{TraceID: span.TraceID{1}, ID: span.ID{1}, Kind: span.Internal, Resource: res},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// FuzzDecode: whatever arrives, Decode returns; and what it accepts survives
// being encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(request(AppendResourceSpans(nil, &span.Resource{Service: "shop", Attrs: []span.Attr{span.Bool("b", true)}}, "tare", "1", []*span.Span{typicalSpan()})))
	r := random{rand.New(rand.NewPCG(5, 6))}
	for range 8 {
		f.Add(request(AppendResourceSpans(nil, nil, "", "", []*span.Span{r.span(nil)})))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		spans, err := Decode(body)
		if err != nil {
			return
		}
		var contents [][]byte
		for i := range spans {
			contents = append(contents, AppendResourceSpans(nil, spans[i].Resource, "tare", "", []*span.Span{&spans[i]}))
		}
		again, err := Decode(request(contents...))
		if err != nil {
			t.Fatalf("own encoding refused: %v", err)
		}
		if !reflect.DeepEqual(spans, again) {
			t.Fatalf("got  %+v\nwant %+v", again, spans)
		}
	})
}
