package otlptest

import (
	"reflect"
	"testing"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
)

func TestDecode(t *testing.T) {
	res := &span.Resource{Service: "shop", Attrs: []span.Attr{span.String("k", "v")}}
	want := span.Span{
		TraceID: span.TraceID{1}, ID: span.ID{2}, Parent: span.ID{3}, Kind: span.Client, Name: "GET", TraceState: "ot=th:8",
		Start: 1, End: 2, Status: span.Error, Resource: res,
		Attrs: []span.Attr{span.String("s", ""), span.Int("i", -1), span.Bool("b", true)},
	}
	body := func(s *span.Span) []byte {
		return wire.AppendBytes(nil, wire.TracesResourceSpans, otlp.AppendResourceSpans(nil, res, "tare", "1", []*span.Span{s}))
	}
	got, err := Decode(append(body(&want), body(&want)...))
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], want) || !reflect.DeepEqual(got[1], want) {
		t.Errorf("got %+v, %v, want twice %+v", got, err, want)
	}
	for name, body := range map[string][]byte{
		"not protobuf": {0xff},
		"no trace id":  body(&span.Span{ID: span.ID{1}}),
		"no span id":   body(&span.Span{TraceID: span.TraceID{1}}),
	} {
		if spans, err := Decode(body); err == nil {
			t.Errorf("%s: decoded %v", name, spans)
		}
	}
}
