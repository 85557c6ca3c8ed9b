package export

import (
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// losses is a LossCounter.
type losses struct {
	mu sync.Mutex
	m  map[string]uint64
}

func (l *losses) Lost(reason string, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = make(map[string]uint64)
	}
	l.m[reason] += n
}

func (l *losses) check(t *testing.T, want map[string]uint64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !maps.Equal(l.m, want) {
		t.Errorf("lost %v, want %v", l.m, want)
	}
}

func (l *losses) total() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.m {
		n += v
	}
	return n
}

// testConfig never sends before it is told to or a batch is full, and retries
// fast and long.
func testConfig(r *receiver, l *losses) Config {
	cfg := Config{
		FlushInterval: time.Hour, Loss: l,
		Retry: Retry{Initial: time.Millisecond, Max: 10 * time.Millisecond, For: time.Hour},
	}
	if r != nil {
		cfg.Protocol, cfg.Endpoint = r.protocol, r.url()
	}
	return cfg
}

func newExporter(t *testing.T, cfg Config) *Exporter {
	t.Helper()
	e, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // for tests that fail half-way
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
	return e
}

func mustFlush(t *testing.T, e *Exporter) {
	t.Helper()
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testSpan has a number as its id.
func testSpan(n int, res *span.Resource) *span.Span {
	s := &span.Span{
		TraceID: span.TraceID{1}, Kind: span.Client, Name: "GET", Start: 1, End: 2,
		Resource: res, Attrs: []span.Attr{span.Int("n", int64(n))},
	}
	binary.BigEndian.PutUint64(s.ID[:], uint64(n)+1)
	return s
}

func testSpans(n int, res *span.Resource) []*span.Span {
	spans := make([]*span.Span, n)
	for i := range spans {
		spans[i] = testSpan(i, res)
	}
	return spans
}

// spans are those that the receiver took, in order.
func (r *receiver) spans(t *testing.T) (spans []span.Span) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.requests {
		body, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		s, err := otlptest.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		spans = append(spans, s...)
	}
	return spans
}

// distinct counts them by id: delivery is at least once.
func (r *receiver) distinct(t *testing.T) int {
	t.Helper()
	ids := make(map[span.ID]bool)
	for _, s := range r.spans(t) {
		ids[s.ID] = true
	}
	return len(ids)
}

// metrics reads the exporter as Prometheus would.
func metrics(t *testing.T, e *Exporter) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(e)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for _, f := range families {
		v := f.GetMetric()[0]
		if f.GetType() == dto.MetricType_GAUGE {
			m[f.GetName()] = v.GetGauge().GetValue()
		} else {
			m[f.GetName()] = v.GetCounter().GetValue()
		}
	}
	return m
}

func checkMetrics(t *testing.T, e *Exporter, spans, failed float64) {
	t.Helper()
	want := map[string]float64{
		"tare_export_spans_total":          spans,
		"tare_export_failed_batches_total": failed,
		"tare_export_queue_bytes":          0,
	}
	got := metrics(t, e)
	const bytes = "tare_export_bytes_total" // of requests that were taken: a span has some
	if got[bytes] < 20*spans || failed > 0 && spans == 0 && got[bytes] > 0 {
		t.Errorf("%v bytes of %v spans", got[bytes], spans)
	}
	delete(got, bytes)
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}
