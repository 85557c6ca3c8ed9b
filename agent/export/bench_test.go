package export

import (
	"testing"
	"time"

	"github.com/tare-trace/tare/span"
)

// BenchmarkExport is what a span costs its builder: encoding and queueing.
func BenchmarkExport(b *testing.B) {
	cfg, err := Config{Loss: &losses{}, FlushInterval: time.Hour}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	e := start(b.Context(), cfg, &scripted{upload: fine})
	spans := []*span.Span{testSpan(1, &span.Resource{Service: "a"})}
	b.ReportAllocs()
	for b.Loop() {
		e.Export(spans)
	}
	b.StopTimer()
	if err := e.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRequest is what the sender adds for a batch of four services.
func BenchmarkRequest(b *testing.B) {
	var (
		g     grouper
		batch batch
	)
	for i := range 2048 {
		batch.add(testSpan(i, nil))
		batch.spans[i].res = resources[i%len(resources)]
	}
	b.ReportAllocs()
	for b.Loop() {
		g.request(&batch, scope{"tare", "1"})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.spans)), "ns/span")
}

var resources = []*span.Resource{{Service: "a"}, {Service: "b"}, {Service: "c"}, {Service: "d"}}
