package assemble

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// chainTraces are traces of a chain of five services on five hosts as the agent
// sends them: two spans of each but the last, twelve attributes each. One
// Traces for each host.
func chainTraces(traces int, serial *uint64) []ptrace.Traces {
	const services = 5
	list := make([]ptrace.Traces, services)
	ids := make([]uint64, traces)
	for i := range ids {
		*serial++
		ids[i] = *serial * 0x9e3779b97f4a7c15
	}
	for s := range services {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		attrs := rs.Resource().Attributes()
		for k, v := range map[string]string{
			"service.name": fmt.Sprint("service-", s), "host.name": fmt.Sprint("host-", s), "service.instance.id": "7a3c",
			"telemetry.sdk.name": "tare", "process.executable.name": "nginx", "os.type": "linux",
		} {
			attrs.PutStr(k, v)
		}
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("github.com/tare-trace/tare")
		for _, id := range ids {
			benchSpan(ss.Spans().AppendEmpty(), id, uint64(2*s+1), uint64(2*s), ptrace.SpanKindServer)
			if s < services-1 {
				benchSpan(ss.Spans().AppendEmpty(), id, uint64(2*s+2), uint64(2*s+1), ptrace.SpanKindClient)
			}
		}
		list[s] = td
	}
	return list
}

func benchSpan(sp ptrace.Span, trace, id, parent uint64, kind ptrace.SpanKind) {
	var t pcommon.TraceID
	binary.BigEndian.PutUint64(t[:8], trace)
	binary.BigEndian.PutUint64(t[8:], trace)
	var i, p pcommon.SpanID
	binary.BigEndian.PutUint64(i[:], trace+id)
	if parent != 0 {
		binary.BigEndian.PutUint64(p[:], trace+parent)
	}
	sp.SetTraceID(t)
	sp.SetSpanID(i)
	sp.SetParentSpanID(p)
	sp.SetKind(kind)
	sp.SetName("GET")
	start := pcommon.Timestamp(1e18) + pcommon.Timestamp(id)*1000
	sp.SetStartTimestamp(start)
	sp.SetEndTimestamp(1e18 + 1e6 - pcommon.Timestamp(id)*1000)
	a := sp.Attributes()
	a.PutStr("http.request.method", "GET")
	a.PutStr("url.path", "/item/17")
	a.PutStr("network.protocol.version", "1.1")
	a.PutStr("url.full", "http://10.0.0.17:8080/item/17")
	a.PutInt("http.response.status_code", 200)
	a.PutStr("server.address", "10.0.0.17")
	a.PutInt("server.port", 8080)
	a.PutStr("network.peer.address", "10.0.0.17")
	a.PutInt("network.peer.port", 8080)
	a.PutInt("tare.bytes.received", 4096)
	a.PutInt("tare.bytes.sent", 512)
	if kind == ptrace.SpanKindClient {
		a.PutBool("tare.peer.traced", true)
	} else {
		a.PutStr("url.scheme", "http")
	}
}

// BenchmarkAdd measures the cost of a span from a decoded request to a batch that is
// ready to be sent, clock correction included: whole traces in one request, or the spans
// of each host in a request of their own.
func BenchmarkAdd(b *testing.B) {
	for _, split := range []bool{false, true} {
		b.Run(fmt.Sprintf("hosts_apart=%t", split), func(b *testing.B) {
			a := New(Options{Shards: 2})
			var serial uint64
			var spans, given int
			var took time.Duration
			var out Out
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				list := chainTraces(200, &serial)
				if !split {
					for _, td := range list[1:] {
						td.ResourceSpans().MoveAndAppendTo(list[0].ResourceSpans())
					}
					list = list[:1]
				}
				for _, td := range list {
					spans += td.SpanCount()
				}
				b.StartTimer()
				start := time.Now()
				for _, td := range list {
					a.Add(td, start, &out)
					for _, done := range out.Take() {
						given += done.SpanCount()
					}
				}
				took += time.Since(start)
			}
			if given != spans {
				b.Fatalf("%d spans in, %d out", spans, given)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(spans), "ns/span")
			b.ReportMetric(0, "ns/op")
		})
	}
}
