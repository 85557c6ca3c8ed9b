package keepprocessor

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// start creates and starts the processor as a collector does.
func start(t testing.TB, c *Config, set processor.Settings) (processor.Traces, *consumertest.TracesSink) {
	t.Helper()
	sink := new(consumertest.TracesSink)
	p, err := NewFactory().CreateTraces(context.Background(), set, c, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { assert.NoError(t, p.Shutdown(context.Background())) })
	return p, sink
}

func consume(t testing.TB, p processor.Traces, td ptrace.Traces) {
	t.Helper()
	require.NoError(t, p.ConsumeTraces(context.Background(), td))
}

// By default everything passes unchanged.
func TestDefaultPasses(t *testing.T) {
	p, sink := start(t, defaultConfig(), processortest.NewNopSettings(Type))
	assert.False(t, p.Capabilities().MutatesData, "what changes nothing must not ask for a copy")
	td := one(1, change(request("shop", "GET /"), 0, fails)...)
	want := ptrace.NewTraces()
	td.CopyTo(want)
	consume(t, p, td)
	assert.Equal(t, want, sink.AllTraces()[0], "the message was changed")
}

// A message whose spans were all dropped is not passed on.
func TestNothingEmptyIsHandedOn(t *testing.T) {
	c := quiet()
	c.Errors = ErrorsAny
	p, sink := start(t, c, processortest.NewNopSettings(Type))
	assert.True(t, p.Capabilities().MutatesData, "it changes messages")
	consume(t, p, one(1, request("shop", "GET /")...))
	consume(t, p, ptrace.NewTraces())
	assert.Equal(t, 0, len(sink.AllTraces()), "messages handed on")
	consume(t, p, one(1, change(request("shop", "GET /"), 1, fails)...))
	// Of what is handed on, no resource and no scope is empty.
	mixed := one(2, request("only-dropped", "GET /")...)
	one(3, change([]spec{{service: "kept", name: "x"}}, 0, fails)...).ResourceSpans().MoveAndAppendTo(mixed.ResourceSpans())
	consume(t, p, mixed)
	require.Equal(t, 2, len(sink.AllTraces()), "messages handed on")
	if last := sink.AllTraces()[1]; last.ResourceSpans().Len() != 1 || last.SpanCount() != 1 {
		t.Errorf("%d resources, %d spans; want one of each", last.ResourceSpans().Len(), last.SpanCount())
	}
}

func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	set := processortest.NewNopSettings(Type)
	set.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	c := quiet()
	c.Errors = ErrorsAny
	c.Slow.Learn = Learn{Quantile: 0.99, Operations: 1}
	c.Rare = Rare{First: 1, Interval: 1e12, AtMost: 1}
	c.Share.Probability = 0.5
	p, _ := start(t, c, set)
	consume(t, p, one(1, request("shop", "GET /")...))                   // rare
	consume(t, p, one(1, request("shop", "GET /x")...))                  // beyond at_most, dropped; not learned
	consume(t, p, one(1<<56-1, request("shop", "GET /")...))             // share
	consume(t, p, one(2, change(request("shop", "GET /"), 2, fails)...)) // error
	consume(t, p, one(3, retro(request("shop", "GET /"))...))            // retro
	consume(t, p, lateOf(77))                                            // unknown
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &rm))
	got := map[string]float64{}
	for _, m := range ownMetrics(&rm) {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				reason, _ := p.Attributes.Value("reason")
				decision, _ := p.Attributes.Value("decision")
				got[m.Name+" "+reason.AsString()+decision.AsString()] = float64(p.Value)
			}
		case metricdata.Gauge[int64]:
			got[m.Name] = float64(d.DataPoints[0].Value)
		case metricdata.Gauge[float64]:
			got[m.Name] = d.DataPoints[0].Value
		}
	}
	want := map[string]float64{
		"tare_keep_traces_kept retro": 1, "tare_keep_traces_kept error": 1, "tare_keep_traces_kept slow": 0, "tare_keep_traces_kept rare": 1,
		"tare_keep_traces_kept rule": 0, "tare_keep_traces_kept incomplete": 0, "tare_keep_traces_kept share": 1,
		"tare_keep_traces_dropped share": 1, "tare_keep_traces_dropped rule": 0, "tare_keep_traces_dropped incomplete": 0,
		"tare_keep_spans_dropped ": 3, "tare_keep_late_spans kept": 0, "tare_keep_late_spans dropped": 0, "tare_keep_late_spans reversed": 0, "tare_keep_late_spans unknown": 1,
		"tare_keep_rare_over_limit ": 1, "tare_keep_unlearned ": 1, "tare_keep_operations": 1, "tare_keep_share_probability": 0.5,
	}
	assert.Equal(t, want, got)
}

// Several pipelines may call at the same time; each span is kept or counted.
func TestConcurrent(t *testing.T) {
	c := defaultConfig()
	c.Share.TracesPerSecond = 100
	k, err := newKeeper(c)
	require.NoError(t, err)
	const callers, each = 8, 200
	var kept [callers]uint64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				td := one(uint64(i)<<32|uint64(j)<<8, request("shop", "GET /")...)
				lateOf(uint64(i)<<32 | uint64(j)<<8).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
				out, _ := k.process(context.Background(), td)
				kept[i] += uint64(out.SpanCount())
			}
		})
	}
	wg.Wait()
	var spans uint64
	for _, n := range kept {
		spans += n
	}
	var traces uint64
	for i := range k.counts.kept {
		traces += k.counts.kept[i] + k.counts.dropped[i]
	}
	if traces != callers*each || spans+k.counts.spansDropped != callers*each*4 {
		t.Errorf("%d traces, %d spans kept, %d dropped", traces, spans, k.counts.spansDropped)
	}
}

// ownMetrics are those of this package: the collector adds others.
func ownMetrics(rm *metricdata.ResourceMetrics) []metricdata.Metrics {
	for _, s := range rm.ScopeMetrics {
		if strings.HasSuffix(s.Scope.Name, "/keepprocessor") {
			return s.Metrics
		}
	}
	return nil
}
