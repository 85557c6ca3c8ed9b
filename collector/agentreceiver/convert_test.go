package agentreceiver

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
)

var examples = func() []*span.Span {
	web := &span.Resource{Service: "web", Attrs: []span.Attr{span.String("host.name", "a\xff"), span.Int("process.pid", 7)}}
	return []*span.Span{
		{TraceID: span.TraceID{1}, ID: span.ID{1}, Kind: span.Server, Name: "GET", TraceState: "ot=th:8", Start: 5, End: 9, Resource: web,
			Attrs: []span.Attr{span.String("url.path", "/"), span.Int("http.response.status_code", 500), span.Bool("tare.pipelined", true)}, Status: span.Error},
		{TraceID: span.TraceID{1}, ID: span.ID{2}, Parent: span.ID{1}, Kind: span.Client, Name: "GET", Start: 6, End: 8, Resource: web},
		{TraceID: span.TraceID{1}, ID: span.ID{3}, Parent: span.ID{2}, Kind: span.Server, Name: "", Start: 6, End: 8, Resource: &span.Resource{}},
		{TraceID: span.TraceID{2}, ID: span.ID{4}, Kind: span.Internal, Name: "sent", Start: 1, End: 1, Resource: web},
	}
}()

// The converted spans equal those that would arrive by OTLP.
func TestTracesAreWhatOTLPCarries(t *testing.T) {
	var body []byte
	for _, group := range [][]int{{0, 1, 3}, {2}} {
		var list []*span.Span
		for _, i := range group {
			list = append(list, examples[i])
		}
		content := otlp.AppendResourceSpans(nil, list[0].Resource, scopeName, agent.Version, list)
		body = protowire.AppendTag(body, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, content)
	}
	want, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(body)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, traces(examples)); got != asJSON(t, want) {
		t.Errorf("got  %s\nwant %s", got, asJSON(t, want))
	}
}

func asJSON(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	b, err := new(ptrace.JSONMarshaler).MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func BenchmarkTraces(b *testing.B) {
	res := &span.Resource{Service: "shop"}
	batch := make([]*span.Span, 512)
	for i := range batch {
		batch[i] = &span.Span{TraceID: span.TraceID{1}, ID: span.ID{byte(i), byte(i >> 8), 1}, Kind: span.Client, Name: "GET", Resource: res}
		for k := range 12 {
			batch[i].Attrs = append(batch[i].Attrs, span.String(fmt.Sprintf("some.attribute.%d", k), "value"))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		traces(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/span")
}
