package rule

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// benchList is a list as a service may have it, and a span that only the last
// rule matches, which has one condition of every sort.
func benchList(t testing.TB) (List[int], Span) {
	t.Helper()
	rules, err := CompileAll(
		Spec{Name: "GET /health*"},
		Spec{Attributes: map[string]string{"url.path": "/auth/**"}},
		Spec{Kind: "client", Name: "redis"},
		Spec{Attributes: map[string]string{"url.path": "~^/v[0-9]+/login$"}},
		Spec{Name: "POST **", Kind: "server", Attributes: map[string]string{
			"url.path": "/**/pay?", "http.request.method": "POST", "server.port": "~^8", "ratio": "0.*", "tls": "true", "size": "1??",
		}},
	)
	require.NoError(t, err)
	var entries []Entry[int]
	for i, r := range rules {
		entries = append(entries, Entry[int]{r, i})
	}
	return NewList(entries...), Span{Name: "POST /orders/42/pays", Kind: trace.SpanKindServer, Attributes: []attribute.KeyValue{
		attribute.String("http.request.method", "POST"), attribute.String("url.path", "/orders/42/pays"),
		attribute.Int("server.port", 8080), attribute.Float64("ratio", 0.25), attribute.Bool("tls", true), attribute.Int("size", 123),
	}}
}

func BenchmarkList(b *testing.B) {
	l, span := benchList(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.Index(span) < 0 {
				b.Error("no match")
			}
		}
	})
}

func BenchmarkPattern(b *testing.B) {
	for _, c := range []struct{ name, pattern string }{
		{"exact", "/orders/42/items"}, {"glob", "/orders/*/items"}, {"doublestar", "/**/items"}, {"regexp", "~^/orders/[0-9]+/items$"},
	} {
		p, err := CompilePattern(c.pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !p.Match("/orders/42/items") {
					b.Fatal("no match")
				}
			}
		})
	}
}
