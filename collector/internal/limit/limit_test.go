package limit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/span/text"
)

// passing is a receiver that a test feeds.
type passing struct {
	component.StartFunc
	component.ShutdownFunc
}

// fed is a wrapped receiver for each signal, with what it passes on.
type fed struct {
	traces  consumer.Traces
	metrics consumer.Metrics
	logs    consumer.Logs

	spans     consumertest.TracesSink
	points    consumertest.MetricsSink
	records   consumertest.LogsSink
	telemetry *componenttest.Telemetry
}

type hostOf map[component.ID]component.Component

func (h hostOf) GetExtensions() map[component.ID]component.Component { return h }

type configured struct {
	component.StartFunc
	component.ShutdownFunc
	of Limits
}

func (c configured) Limits() Limits { return c.of }

func start(t *testing.T, of Limits) *fed {
	t.Helper()
	f := &fed{telemetry: componenttest.NewTelemetry()}
	kind := component.MustNewType("passing")
	wrapped := Receivers(receiver.NewFactory(kind, func() component.Config { return nil },
		receiver.WithTraces(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Traces) (receiver.Traces, error) {
			f.traces = next
			return passing{}, nil
		}, component.StabilityLevelStable),
		receiver.WithMetrics(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Metrics) (receiver.Metrics, error) {
			f.metrics = next
			return passing{}, nil
		}, component.StabilityLevelStable),
		receiver.WithLogs(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Logs) (receiver.Logs, error) {
			f.logs = next
			return passing{}, nil
		}, component.StabilityLevelStable)))
	set := receivertest.NewNopSettings(kind)
	set.TelemetrySettings = f.telemetry.NewTelemetrySettings()
	all := make([]component.Component, 3)
	var errs [3]error
	all[0], errs[0] = wrapped.CreateTraces(t.Context(), set, nil, &f.spans)
	all[1], errs[1] = wrapped.CreateMetrics(t.Context(), set, nil, &f.points)
	all[2], errs[2] = wrapped.CreateLogs(t.Context(), set, nil, &f.records)
	host := componenttest.NewNopHost()
	if of != (Limits{}) {
		host = hostOf{component.MustNewID("tare_limits"): configured{of: of}}
	}
	for i, c := range all {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if err := c.Start(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = f.telemetry.Shutdown(context.WithoutCancel(t.Context())) })
	return f
}

// counted is the sum of a counter, by the value of one of its labels.
func (f *fed) counted(name, label string) map[string]int64 {
	sums := map[string]int64{}
	if m, err := f.telemetry.GetMetric(name); err == nil {
		for _, d := range m.Data.(metricdata.Sum[int64]).DataPoints {
			v, _ := d.Attributes.Value(attribute.Key(label))
			sums[v.AsString()] += d.Value
		}
	}
	return sums
}

var long = strings.Repeat("a", 900_000)

// strs calls f for every text of the telemetry.
func strs(v any, f func(about, s string, most int)) {
	value := func(about string, v pcommon.Value) {}
	each := func(about string, m pcommon.Map) {
		for key, v := range m.All() {
			f(about+" key", key, text.MaxKey)
			value(about+" "+key[:min(20, len(key))], v)
		}
	}
	value = func(about string, v pcommon.Value) {
		switch v.Type() {
		case pcommon.ValueTypeMap:
			each(about, v.Map())
		case pcommon.ValueTypeSlice:
			for _, e := range v.Slice().All() {
				value(about, e)
			}
		case pcommon.ValueTypeBytes:
			f(about, string(v.Bytes().AsRaw()), text.MaxValue)
		default:
			f(about, v.AsString(), text.MaxValue)
		}
	}
	scope := func(s pcommon.InstrumentationScope, schema string) {
		f("schema of a scope", schema, text.MaxName)
		f("scope", s.Name(), text.MaxName)
		f("version", s.Version(), text.MaxName)
		each("scope", s.Attributes())
	}
	switch v := v.(type) {
	case ptrace.Traces:
		for _, rs := range v.ResourceSpans().All() {
			f("schema", rs.SchemaUrl(), text.MaxName)
			each("resource", rs.Resource().Attributes())
			for _, ss := range rs.ScopeSpans().All() {
				scope(ss.Scope(), ss.SchemaUrl())
				for _, s := range ss.Spans().All() {
					f("span", s.Name(), text.MaxName)
					f("tracestate", s.TraceState().AsRaw(), text.MaxState)
					f("status", s.Status().Message(), text.MaxValue)
					each("span", s.Attributes())
					for _, e := range s.Events().All() {
						f("event", e.Name(), text.MaxName)
						each("event", e.Attributes())
					}
					for _, l := range s.Links().All() {
						f("tracestate of a link", l.TraceState().AsRaw(), text.MaxState)
						each("link", l.Attributes())
					}
				}
			}
		}
	case plog.Logs:
		for _, rl := range v.ResourceLogs().All() {
			f("schema", rl.SchemaUrl(), text.MaxName)
			each("resource", rl.Resource().Attributes())
			for _, sl := range rl.ScopeLogs().All() {
				scope(sl.Scope(), sl.SchemaUrl())
				for _, r := range sl.LogRecords().All() {
					f("event of a log record", r.EventName(), text.MaxName)
					f("severity", r.SeverityText(), text.MaxName)
					f("body", r.Body().AsString(), 80<<10)
					each("record", r.Attributes())
				}
			}
		}
	case pmetric.Metrics:
		for _, rm := range v.ResourceMetrics().All() {
			f("schema", rm.SchemaUrl(), text.MaxName)
			each("resource", rm.Resource().Attributes())
			for _, sm := range rm.ScopeMetrics().All() {
				scope(sm.Scope(), sm.SchemaUrl())
				for _, m := range sm.Metrics().All() {
					f("metric", m.Name(), text.MaxName)
					f("unit", m.Unit(), text.MaxName)
					f("description", m.Description(), text.MaxValue)
					each("metadata", m.Metadata())
					for _, p := range m.Sum().DataPoints().All() {
						each("point", p.Attributes())
						for _, e := range p.Exemplars().All() {
							each("exemplar", e.FilteredAttributes())
						}
					}
				}
			}
		}
	}
}

// fill puts long keys, long values and nested ones into attributes.
func fill(m pcommon.Map) {
	m.PutStr("first", long)
	m.PutStr(long, "x")
	m.PutStr("peer.service", long)
	m.PutStr("tare.behind", long)
	m.PutEmptyBytes("bytes").FromRaw([]byte(long))
	list := m.PutEmptySlice("list")
	for range 20_000 {
		list.AppendEmpty().SetStr("element")
	}
	inner := m.PutEmptyMap("map")
	inner.PutStr(long, "x")
	inner.PutEmptyMap("deeper").PutStr("k", long)
}

func fillScope(s pcommon.InstrumentationScope) {
	s.SetName(long)
	s.SetVersion(long)
	fill(s.Attributes())
}

// A request in which everything is 900 KB: of each signal, no text that is passed on is longer than its limit, and
// the receiver counts each kind.
func TestEveryText(t *testing.T) {
	f := start(t, Limits{})
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl(long)
	fill(rs.Resource().Attributes())
	rs.Resource().Attributes().PutStr("service.name", long)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.SetSchemaUrl(long)
	fillScope(ss.Scope())
	s := ss.Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetName(long)
	s.TraceState().FromRaw("ot=th:8,a=" + long)
	s.Status().SetMessage(long)
	fill(s.Attributes())
	for range 1000 {
		s.Events().AppendEmpty().SetName("e")
		s.Links().AppendEmpty().TraceState().FromRaw("a=" + long[:1000])
	}
	s.Events().At(0).SetName(long)
	fill(s.Events().At(0).Attributes())
	fill(s.Links().At(0).Attributes())

	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.SetSchemaUrl(long)
	fill(rl.Resource().Attributes())
	sl := rl.ScopeLogs().AppendEmpty()
	sl.SetSchemaUrl(long)
	fillScope(sl.Scope())
	r := sl.LogRecords().AppendEmpty()
	r.SetEventName(long)
	r.SetSeverityText(long)
	fill(r.Body().SetEmptyMap())
	fill(r.Attributes())

	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.SetSchemaUrl(long)
	fill(rm.Resource().Attributes())
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.SetSchemaUrl(long)
	fillScope(sm.Scope())
	m := sm.Metrics().AppendEmpty()
	m.SetName(long)
	m.SetUnit(long)
	m.SetDescription(long)
	fill(m.Metadata())
	p := m.SetEmptySum().DataPoints().AppendEmpty()
	fill(p.Attributes())
	fill(p.Exemplars().AppendEmpty().FilteredAttributes())

	found := 0
	strs(td, func(_, s string, most int) {
		if len(s) > most {
			found++
		}
	})
	if found < 20 {
		t.Fatalf("only %d long texts are sent: this tests nothing", found)
	}
	for _, err := range []error{
		f.traces.ConsumeTraces(t.Context(), td), f.metrics.ConsumeMetrics(t.Context(), md), f.logs.ConsumeLogs(t.Context(), ld),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []any{f.spans.AllTraces()[0], f.points.AllMetrics()[0], f.records.AllLogs()[0]} {
		strs(v, func(about, s string, most int) {
			if len(s) > most {
				t.Errorf("%T: %s of %d bytes, limit %d", v, about, len(s), most)
			}
		})
		if n := sizeOf(t, v); n > 1<<20 {
			t.Errorf("%T: %d bytes are passed on", v, n)
		}
	}
	counts := f.counted("tare_receiver_cut", "what")
	for _, w := range what {
		if counts[w] == 0 && w != what[attributes] {
			t.Errorf("%s is not counted: %v", w, counts)
		}
	}
	got := f.spans.AllTraces()[0].ResourceSpans().At(0)
	cut, _ := got.ScopeSpans().At(0).Spans().At(0).Attributes().Get(semconv.Cut)
	if cut.AsString() != "name,key,value,events,links,tracestate" {
		t.Errorf("the span says %q", cut.AsString())
	}
	if cut, _ := got.Resource().Attributes().Get(semconv.Cut); cut.AsString() != "name,key,value" {
		t.Errorf("the resource says %q", cut.AsString())
	}
	s = got.ScopeSpans().At(0).Spans().At(0)
	if s.TraceState().AsRaw() != "ot=th:8" || s.DroppedAttributesCount() != 1 || s.DroppedEventsCount() != 872 || s.DroppedLinksCount() != 872 {
		t.Errorf("tracestate %q, dropped: %d, %d, %d", s.TraceState().AsRaw(), s.DroppedAttributesCount(), s.DroppedEventsCount(), s.DroppedLinksCount())
	}
}

func sizeOf(t *testing.T, v any) int {
	t.Helper()
	switch v := v.(type) {
	case ptrace.Traces:
		return (&ptrace.ProtoMarshaler{}).TracesSize(v)
	case plog.Logs:
		return (&plog.ProtoMarshaler{}).LogsSize(v)
	case pmetric.Metrics:
		return (&pmetric.ProtoMarshaler{}).MetricsSize(v)
	}
	t.Fatalf("%T", v)
	return 0
}

// Names and services that begin alike stay different, and the same ones the same.
func TestNamesStayDifferent(t *testing.T) {
	f := start(t, Limits{})
	seen := map[string]int{}
	for _, tail := range []string{"b", "c", "b"} {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", long+tail)
		s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(pcommon.SpanID{1})
		s.SetName(long + tail)
		if err := f.traces.ConsumeTraces(t.Context(), td); err != nil {
			t.Fatal(err)
		}
		service, _ := rs.Resource().Attributes().Get("service.name")
		if service.Str() != s.Name() {
			t.Error("a service and a span of one name differ")
		}
		seen[s.Name()]++
	}
	if len(seen) != 2 {
		t.Errorf("%d different names of 2", len(seen))
	}
}

// A span with 20,000 attributes keeps the first of them, and says how many it had; a service keeps its name, wherever it is.
func TestManyAttributes(t *testing.T) {
	f := start(t, Limits{})
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	others, tares := map[string]any{}, map[string]any{}
	for i := range 20_000 {
		others[fmt.Sprintf("key.%d", i)], tares[fmt.Sprintf("key.%d", i)], tares[fmt.Sprintf("tare.%d", i)] = i, i, i
	}
	if err := errors.Join(s.Attributes().FromRaw(tares), rs.Resource().Attributes().FromRaw(others)); err != nil {
		t.Fatal(err)
	}
	rs.Resource().Attributes().PutStr("service.name", "shop")
	if err := f.traces.ConsumeTraces(t.Context(), td); err != nil {
		t.Fatal(err)
	}
	if n := s.Attributes().Len(); n > 128+own+1 || n < 128 || s.DroppedAttributesCount() != uint32(40_000-n+1) { //nolint:gosec // a count
		t.Errorf("%d attributes, %d dropped", n, s.DroppedAttributesCount())
	}
	if cut, _ := s.Attributes().Get(semconv.Cut); cut.AsString() != what[attributes] {
		t.Errorf("the span says %q", cut.AsString())
	}
	if v, ok := rs.Resource().Attributes().Get("service.name"); !ok || v.Str() != "shop" || rs.Resource().Attributes().Len() != 130 {
		t.Errorf("the service is %q, of %d attributes", v.AsString(), rs.Resource().Attributes().Len())
	}
	if n := f.counted("tare_receiver_cut", "what")[what[attributes]]; n != int64(s.DroppedAttributesCount())+20_001-129 {
		t.Errorf("%d dropped attributes are counted", n)
	}
	// Again, as from another collector: what it added is not dropped.
	before := s.Attributes().Len()
	if err := f.traces.ConsumeTraces(t.Context(), td); err != nil || s.Attributes().Len() != before {
		t.Errorf("%d attributes became %d: %v", before, s.Attributes().Len(), err)
	}
}

// Series that differ in what is cut or dropped stay different.
func TestSeriesStayDifferent(t *testing.T) {
	f := start(t, Limits{})
	seen := map[string]bool{}
	for i := range 6 {
		md := pmetric.NewMetrics()
		p := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptySum().DataPoints().AppendEmpty()
		switch {
		case i < 2:
			p.Attributes().PutStr(long+fmt.Sprint(i), "x")
		case i < 4:
			p.Attributes().PutStr("x", long+fmt.Sprint(i))
		default:
			for k := range 200 {
				p.Attributes().PutInt(fmt.Sprintf("key.%d", k), int64(k*i))
			}
		}
		if err := f.metrics.ConsumeMetrics(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(p.Attributes().AsRaw())] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d of 6 series are left", len(seen))
	}
}

// What is within the limits is passed on as it came, and costs no memory.
func TestNothingToCut(t *testing.T) {
	f := start(t, Limits{})
	td := ordinary()
	want, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.traces.ConsumeTraces(t.Context(), td); err != nil {
		t.Fatal(err)
	}
	if got, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(f.spans.AllTraces()[0]); err != nil || string(got) != string(want) {
		t.Errorf("it changed: %v", err)
	}
	l := Default()
	if n := testing.AllocsPerRun(10, func() {
		c := cutter{Limits: &l}
		c.traces(td)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
	if counts := f.counted("tare_receiver_cut", "what"); len(counts) > 0 {
		t.Errorf("counted: %v", counts)
	}
}

func ordinary() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	ss := rs.ScopeSpans().AppendEmpty()
	for i := range 100 {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(pcommon.SpanID{byte(i + 1)})
		s.SetName("GET /item/{id}")
		for k := range 18 {
			s.Attributes().PutStr(fmt.Sprintf("http.request.key.%d", k), "a value of some length")
		}
		s.Attributes().PutEmptySlice("list").AppendEmpty().SetStr("x")
	}
	return td
}

// The extension's limits count instead of the default ones.
func TestConfigured(t *testing.T) {
	f := start(t, Limits{Name: 100, Key: 70, Value: 200, Attributes: 3, Events: 0, Links: 1})
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetName(long)
	s.Events().AppendEmpty()
	for i := range 5 {
		s.Attributes().PutStr(fmt.Sprint(i), long)
		s.Links().AppendEmpty()
	}
	if err := f.traces.ConsumeTraces(t.Context(), td); err != nil {
		t.Fatal(err)
	}
	v, _ := s.Attributes().Get("0")
	if len(s.Name()) != 100 || len(v.Str()) > 200 || s.Attributes().Len() != 4 || s.Events().Len() != 0 || s.Links().Len() != 1 {
		t.Errorf("%d, %d, %d, %d, %d", len(s.Name()), len(v.Str()), s.Attributes().Len(), s.Events().Len(), s.Links().Len())
	}
	bad := Limits{Name: 10, Attributes: -1}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "name: 10 is not between 64 and") || !strings.Contains(err.Error(), "attributes") {
		t.Errorf("%v", err)
	}
	good := Default()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// Spans without ids are rejected and counted; the others of their request are passed on.
func TestZeroIDs(t *testing.T) {
	f := start(t, Limits{})
	td := ptrace.NewTraces()
	for i := range 8 {
		s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		if i%4 != 1 {
			s.SetTraceID(pcommon.TraceID{1})
		}
		if i%4 > 1 || i%4 == 1 {
			s.SetSpanID(pcommon.SpanID{byte(i)})
		}
	}
	ctx, rejected := Watch(t.Context())
	if err := f.traces.ConsumeTraces(ctx, td); err != nil {
		t.Fatal(err)
	}
	counts := f.counted("tare_receiver_rejected_spans", "reason")
	if n := f.spans.SpanCount(); n != 4 || counts["no_trace_id"] != 2 || counts["no_span_id"] != 2 || rejected.Spans() != 4 || rejected.All() {
		t.Errorf("%d passed on; %v; %q", n, counts, rejected.Text())
	}
	f.spans.Reset()
	td = ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	ctx, rejected = Watch(t.Context())
	if err := f.traces.ConsumeTraces(ctx, td); err != nil || len(f.spans.AllTraces()) != 0 || !rejected.All() || !strings.HasPrefix(rejected.Text(), "1 of 1 spans were rejected") {
		t.Errorf("%v, %d requests passed on, %q", err, len(f.spans.AllTraces()), rejected.Text())
	}
}

func BenchmarkTraces(b *testing.B) {
	td, l := ordinary(), Default()
	for b.Loop() {
		c := cutter{Limits: &l}
		_, _ = reject(nil, td)
		c.traces(td)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/span")
}
