package keepprocessor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span/semconv"
)

// benchMessage has traces of ten spans of three services, with the attributes
// that the agent sends.
func benchMessage(traces int) ptrace.Traces {
	td := ptrace.NewTraces()
	resources := map[string]ptrace.SpanSlice{}
	for i := range traces {
		attributes := map[string]any{
			"http.request.method": "GET", "url.path": "/api/v1/items", "http.response.status_code": 200, "server.address": "shop.internal",
			"server.port": 8080, "network.peer.address": "10.1.2.3", semconv.BytesReceived: 311, semconv.BytesSent: 2048,
		}
		specs := request("shop", fmt.Sprint("GET /", i%10))
		for j := range 7 {
			specs = append(specs, spec{service: "db", name: "GET", kind: ptrace.SpanKind(2 + j%2), parent: 3 + j})
		}
		for j := range specs {
			specs[j].attributes = attributes
			specs[j].duration = time.Millisecond
			specs[j].state = "ot=th:8"
		}
		id := idOf(uint64(i) << 40)
		id[15], id[14] = byte(i), byte(i>>8)
		addTrace(td, resources, id, specs)
	}
	return td
}

func benchConfigs() map[string]*Config {
	all := defaultConfig()
	all.Share.TracesPerSecond = 1e6
	errors := quiet()
	errors.Errors, errors.Share.Probability = ErrorsAny, 0.9999
	return map[string]*Config{"everything on": all, "errors and share": errors}
}

// Keeping a trace allocates for its reason, but nothing for each span.
func TestAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	const traces = 50
	td := benchMessage(traces)
	for name, c := range benchConfigs() {
		k := keeperOf(t, c, newClock())
		process := func() {
			if _, err := k.process(context.Background(), td); err != nil {
				t.Fatal(err)
			}
		}
		process() // learns the operations, writes the reasons
		if n := testing.AllocsPerRun(20, process); n > traces+10 {
			t.Errorf("%s: %v allocations for %d traces of 10 spans", name, n, traces)
		}
	}
}

func BenchmarkProcess(b *testing.B) {
	const traces = 100
	for name, c := range benchConfigs() {
		b.Run(name, func(b *testing.B) {
			k := keeperOf(b, c, newClock())
			td := benchMessage(traces)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.process(context.Background(), td); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(td.SpanCount()), "ns/span")
		})
	}
	b.Run("most dropped", func(b *testing.B) {
		c := defaultConfig()
		c.Rare.First, c.Share.Probability = 0, 0.01
		k := keeperOf(b, c, newClock())
		from := benchMessage(traces)
		for _, rs := range from.ResourceSpans().All() { // unsampled so far
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				s.TraceState().FromRaw("")
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			td := ptrace.NewTraces()
			from.CopyTo(td)
			b.StartTimer()
			_, _ = k.process(context.Background(), td)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(from.SpanCount()), "ns/span")
	})
}
