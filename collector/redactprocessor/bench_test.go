package redactprocessor

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/redact"
	"github.com/tare-trace/tare/span/semconv"
)

// agentTraces are spans as the agent sends them, of HTTP servers and clients and of
// redis, but without the peers' addresses, which the default rules would all change.
func agentTraces(spans int) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	rs.Resource().Attributes().PutStr("host.name", "node-7")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("github.com/tare-trace/tare")
	for i := range spans {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1, byte(i)})
		s.SetSpanID(pcommon.SpanID{1, byte(i)})
		a := s.Attributes()
		a.PutInt(semconv.BytesReceived, 311)
		a.PutInt(semconv.BytesSent, 2048)
		a.PutInt("network.peer.port", 45000+int64(i))
		switch i % 3 {
		case 0:
			s.SetName("GET /api/v1/items")
			s.SetKind(ptrace.SpanKindServer)
		case 1:
			s.SetName("GET")
			s.SetKind(ptrace.SpanKindClient)
		default:
			s.SetName("GET")
			s.SetKind(ptrace.SpanKindClient)
			a.PutStr("db.system.name", "redis")
			a.PutStr("db.operation.name", "GET")
			a.PutStr("db.query.text", fmt.Sprintf("GET item:%d", i))
			a.PutStr("server.address", "redis.shop")
			a.PutInt("server.port", 6379)
			continue
		}
		a.PutStr("http.request.method", "GET")
		a.PutStr("url.path", fmt.Sprintf("/api/v1/items/%d", i))
		a.PutInt("http.response.status_code", 200)
		a.PutStr("network.protocol.version", "1.1")
		a.PutStr("server.address", "shop.internal")
		a.PutInt("server.port", 8080)
	}
	return td
}

// peerTraces are the agent's spans as they are, with addresses to cut.
func peerTraces(spans int) ptrace.Traces {
	td := agentTraces(spans)
	for i, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		s.Attributes().PutStr("network.peer.address", fmt.Sprintf("10.1.2.%d", 1+i%200))
	}
	return td
}

// dirtyTraces have an e-mail address and a token in each span, too.
func dirtyTraces(spans int) ptrace.Traces {
	td := peerTraces(spans)
	for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		s.Attributes().PutStr("url.query", "user=anna@example.com&access_token=9f8e7d6c5b4a")
	}
	return td
}

func BenchmarkProcess(b *testing.B) {
	const spans = 1000
	safe := redact.Default()
	safe.Allow = &redact.AllowList{Safe: true, Keys: []string{ownKeys}}
	for _, c := range []struct {
		name   string
		config redact.Config
		td     ptrace.Traces
		copies bool
	}{
		{"clean", redact.Default(), agentTraces(spans), false},
		{"allow", safe, agentTraces(spans), true},
		{"peer", redact.Default(), peerTraces(spans), true},
		{"dirty", redact.Default(), dirtyTraces(spans), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRedactor(b, c.config)
			b.ReportAllocs()
			for b.Loop() {
				td := c.td
				if c.copies {
					b.StopTimer()
					td = ptrace.NewTraces()
					c.td.CopyTo(td)
					b.StartTimer()
				}
				if _, err := r.process(context.Background(), td); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/spans, "ns/span")
		})
	}
}
