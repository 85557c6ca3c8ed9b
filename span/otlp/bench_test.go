package otlp

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

// typicalSpan is a client span as the agent makes it: 12 attributes.
func typicalSpan() *span.Span {
	return &span.Span{
		TraceID: span.TraceID{0: 0xab, 15: 1}, ID: span.ID{0: 1, 7: 2}, Parent: span.ID{0: 1, 7: 1},
		Kind: span.Client, Name: "GET", Start: 1_700_000_000_000_000_000, End: 1_700_000_000_000_250_000,
		Attrs: []span.Attr{
			span.String("http.request.method", "GET"),
			span.String("url.path", "/items/123456"),
			span.String("url.scheme", "http"),
			span.Int("http.response.status_code", 200),
			span.String("network.protocol.name", "http"),
			span.String("network.protocol.version", "1.1"),
			span.String("network.transport", "tcp"),
			span.String("network.peer.address", "127.0.0.1"),
			span.Int("network.peer.port", 8080),
			span.String("server.address", "127.0.0.1"),
			span.Int("http.request.size", 87),
			span.Int("http.response.size", 233),
		},
	}
}

func BenchmarkAppendSpan(b *testing.B) {
	s := typicalSpan()
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendSpan(dst[:0], s)
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkAppendResourceSpans(b *testing.B) {
	res := &span.Resource{Service: "shop"}
	for _, n := range []int{1, 512} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			spans := make([]*span.Span, n)
			for i := range spans {
				spans[i] = typicalSpan()
			}
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendResourceSpans(dst[:0], res, "tare", "1", spans)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/span")
		})
	}
}

// BenchmarkOfficial is what the generated code takes for the same span, with
// the structs already built.
func BenchmarkOfficial(b *testing.B) {
	m := wantSpan(typicalSpan())
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = (proto.MarshalOptions{}).MarshalAppend(dst[:0], m); err != nil {
			b.Fatal(err)
		}
	}
}
