package tracerprocessor

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span/semconv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a trace of a root and, if whole, what it needs.
func add(td ptrace.Traces, trace, id, parent uint64) ptrace.Span {
	rss := td.ResourceSpans()
	if rss.Len() == 0 {
		rs := rss.AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "shop")
		rs.ScopeSpans().AppendEmpty()
	}
	x := rss.At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	var t pcommon.TraceID
	var i, p pcommon.SpanID
	binary.BigEndian.PutUint64(t[8:], trace)
	binary.BigEndian.PutUint64(i[:], id)
	binary.BigEndian.PutUint64(p[:], parent)
	x.SetTraceID(t)
	x.SetSpanID(i)
	x.SetParentSpanID(p)
	x.SetKind(ptrace.SpanKindInternal)
	return x
}

func start(t *testing.T, change func(*Config), next consumer.Traces) (processor.Traces, *componenttest.Telemetry) {
	t.Helper()
	tel := componenttest.NewTelemetry()
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	set := processortest.NewNopSettings(Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, err := NewFactory().CreateTraces(t.Context(), set, cfg, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Shutdown(context.Background()), tel.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return p, tel
}

func atOnce(c *Config) { c.Settle = 0 }

func consume(t *testing.T, p processor.Traces, td ptrace.Traces) {
	t.Helper()
	if err := p.ConsumeTraces(t.Context(), td); err != nil {
		t.Fatal(err)
	}
}

// metrics are the values of a metric by their attributes, "key=value" with commas.
func metrics(t *testing.T, tel *componenttest.Telemetry, name string) map[string]float64 {
	t.Helper()
	m, err := tel.GetMetric(name)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	note := func(set attribute.Set, v float64) {
		values[set.Encoded(attribute.DefaultEncoder())] = v
	}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			note(p.Attributes, p.Value)
		}
	default:
		t.Fatalf("%s is a %T", name, d)
	}
	return values
}

func TestTracesPassAndAreCounted(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, tel := start(t, func(c *Config) { c.Settle, c.Expiry = 0, 200*time.Millisecond }, sink)
	if !p.Capabilities().MutatesData {
		t.Error("it owns what it gets")
	}
	td := ptrace.NewTraces()
	add(td, 1, 1, 0)
	add(td, 1, 2, 1)
	add(td, 2, 2, 1)
	add(td, 0, 2, 1)
	consume(t, p, td)
	if n := sink.SpanCount(); n != 2 {
		t.Errorf("%d spans of a complete trace came at once", n)
	}
	if got := metrics(t, tel, "tare_tracer_pending_spans")[""]; got != 1 {
		t.Errorf("%g spans wait", got)
	}
	testkit.Until(t, 15*time.Second, "the other trace expires", func() bool { return sink.SpanCount() == 3 })
	td = ptrace.NewTraces()
	add(td, 1, 3, 1)
	add(td, 1, 3, 1)
	consume(t, p, td)
	for name, want := range map[string]map[string]float64{
		"tare_tracer_received_spans_total": {"": 6},
		"tare_tracer_given_spans_total":    {"": 4},
		"tare_tracer_late_spans_total":     {"": 1},
		"tare_tracer_pending_spans":        {"": 0},
		"tare_tracer_pending_bytes":        {"": 0},
		"tare_tracer_pending_traces":       {"": 0},
		"tare_tracer_dropped_spans_total": {
			"reason=invalid_id": 1, "reason=duplicate": 1, "reason=late": 0, "reason=message": 0, "reason=refused": 0,
		},
		"tare_tracer_traces_total": {"reason=,state=complete": 1, `reason=no_root\,parent_missing,state=incomplete`: 1},
	} {
		got := metrics(t, tel, name)
		for k, v := range want {
			if g, ok := got[k]; !ok || g != v {
				t.Errorf("%s{%s} is %g (there: %t), want %g; all: %v", name, k, g, ok, v, got)
			}
		}
	}
}

func TestClockOffsetIsPublished(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, tel := start(t, atOnce, sink)
	td := ptrace.NewTraces()
	c := add(td, 1, 1, 0)
	c.SetKind(ptrace.SpanKindClient)
	c.SetStartTimestamp(1e18)
	c.SetEndTimestamp(1e18 + 1e9)
	other := ptrace.NewTraces()
	s := add(other, 1, 2, 1)
	s.SetKind(ptrace.SpanKindServer)
	s.SetStartTimestamp(1e18 + 10e9)
	s.SetEndTimestamp(1e18 + 11e9)
	other.ResourceSpans().At(0).Resource().Attributes().PutStr("host.id", "b")
	other.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	consume(t, p, td)
	if got := metrics(t, tel, "tare_tracer_clock_offset_seconds"); len(got) != 1 || got["host=host.id=b"] != -10 && got[`host=host.id\=b`] != -10 {
		t.Errorf("offsets %v", got)
	}
}

func TestShutdownGivesOutEverything(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, _ := start(t, nil, sink)
	td := ptrace.NewTraces()
	add(td, 1, 2, 1)
	consume(t, p, td)
	if err := errors.Join(p.Shutdown(t.Context()), p.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := sink.SpanCount(); n != 1 {
		t.Fatalf("%d spans", n)
	}
	x := sink.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	if v, ok := x.Attributes().Get(semconv.TraceReason); !ok || v.Str() != "no_root,parent_missing,shutdown" {
		t.Errorf("%v", x.Attributes().AsRaw())
	}
	// What comes after passes through, it cannot wait any more.
	td = ptrace.NewTraces()
	add(td, 7, 2, 1)
	consume(t, p, td)
	if n := sink.SpanCount(); n != 2 {
		t.Errorf("%d spans", n)
	}
}

func TestRefusedSpansAreCounted(t *testing.T) {
	p, tel := start(t, atOnce, consumertest.NewErr(errors.New("queue is full")))
	td := ptrace.NewTraces()
	add(td, 1, 1, 0)
	add(td, 1, 2, 1)
	consume(t, p, td) // it accepted others of the trace before: no error
	if got := metrics(t, tel, "tare_tracer_dropped_spans_total")["reason=refused"]; got != 2 {
		t.Errorf("%g", got)
	}
}

// TestConcurrently sends the spans of each trace from several goroutines, in
// requests with those of others, while traces expire and metrics are read.
func TestConcurrently(t *testing.T) {
	const senders, traces = 4, 500
	sink := new(consumertest.TracesSink)
	p, tel := start(t, func(c *Config) {
		c.Settle, c.Shards = 0, 3
		c.Peers = "learned"
		c.Sequence.Enabled = true
	}, sink)
	var wg sync.WaitGroup
	for s := range uint64(senders) {
		wg.Go(func() {
			for n := uint64(0); n < traces; n += 10 {
				td := ptrace.NewTraces()
				for i := range uint64(10) {
					// Sender 0 has the root, and each span hangs below that of
					// the sender before: complete in whatever order.
					add(td, 1+n+i, s+1, s)
				}
				if err := p.ConsumeTraces(context.Background(), td); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	_ = metrics(t, tel, "tare_tracer_traces_total")
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sink.SpanCount(); n != senders*traces {
		t.Errorf("%d spans of %d", n, senders*traces)
	}
	// Every trace has one span that speaks for it, and the rest is late.
	states := 0
	for _, td := range sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, x := range ss.Spans().All() {
					if _, ok := x.Attributes().Get(semconv.TraceState); ok {
						states++
					}
				}
			}
		}
	}
	if states != traces {
		t.Errorf("%d states of %d traces", states, traces)
	}
}

func TestFactory(t *testing.T) {
	f := NewFactory()
	if f.Type().String() != "tare_tracer" {
		t.Error(f.Type())
	}
	if err := componenttest.CheckConfigStruct(f.CreateDefaultConfig()); err != nil {
		t.Error(err)
	}
	// processortest.VerifyShutdown sends one span ten times, which are nine
	// duplicates here; see TestShutdownGivesOutEverything.
}

func TestConfig(t *testing.T) {
	if err := createDefaultConfig().(*Config).Validate(); err != nil {
		t.Error(err)
	}
	read := func(values map[string]any) error {
		cfg := createDefaultConfig().(*Config)
		if err := confmap.NewFromStringMap(values).Unmarshal(cfg); err != nil {
			return err
		}
		return cfg.Validate()
	}
	if err := read(map[string]any{
		"messages": "keep", "settle": "1s", "expiry": "20s", "max_age": "2m", "late": "drop", "remember": 10, "clock": "mark",
		"peers": "learned", "sequence": map[string]any{"enabled": true, "wait": "2s"}, "max_spans": 100, "max_bytes": 1 << 20,
		"max_trace_spans": 10, "shards": 2,
	}); err != nil {
		t.Error(err)
	}
	for key, value := range map[string]any{
		"messages": "merged", "settle": "-1s", "expiry": "1ms", "max_age": "1s", "late": "", "remember": 0, "clock": "on",
		"peers": "all", "max_spans": 0, "max_bytes": 10, "max_trace_spans": 0, "shards": 65, "sequence.wait": nil, "unknown": 1,
	} {
		values := map[string]any{key: value}
		if key == "sequence.wait" {
			values = map[string]any{"sequence": map[string]any{"enabled": true, "wait": "11s"}}
		}
		if err := read(values); err == nil {
			t.Errorf("%s: %v is taken", key, value)
		} else if !strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error does not name it: %v", key, err)
		}
	}
}

var _ component.Component = (*tracer)(nil)

func TestOptionsFollowTheConfig(t *testing.T) {
	c := createDefaultConfig().(*Config)
	if o := c.options(); o.DropLate || o.LearnPeers || o.SequenceWait != 0 || o.Settle != 2*time.Second || o.Expiry != 10*time.Second {
		t.Errorf("%+v", o)
	}
	c.Late, c.Peers, c.Sequence.Enabled = "drop", "learned", true
	if o := c.options(); !o.DropLate || !o.LearnPeers || o.SequenceWait != 3*time.Second {
		t.Errorf("%+v", o)
	}
}

// Without a journal, what is acknowledged and waits is lost when the process is killed: one line of the log warns of it at the start.
func TestStartSaysWhatIsAtStake(t *testing.T) {
	e := storeIn(t, t.TempDir(), false)
	defer func() { _ = e.Shutdown(t.Context()) }()
	for _, journal := range []bool{false, true} {
		core, lines := observer.New(zap.WarnLevel)
		set := processortest.NewNopSettings(Type)
		set.Logger = zap.New(core)
		cfg := createDefaultConfig().(*Config)
		if journal {
			cfg.Journal = &storeID
		}
		p, err := NewFactory().CreateTraces(t.Context(), set, cfg, consumertest.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context(), extensions{storeID: e}); err != nil {
			t.Fatal(err)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		said := lines.FilterMessageSnippet("lost if the process is killed").FilterField(zap.Duration("they_wait_up_to", cfg.MaxAge)).Len()
		if journal == (said == 1) || lines.Len() > 1 {
			t.Errorf("journal: %v: %v", journal, lines.All())
		}
	}
}
