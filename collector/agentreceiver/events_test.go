package agentreceiver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/tare-trace/tare/agent/spans"
	"github.com/tare-trace/tare/agent/spans/spanstest"
	"github.com/tare-trace/tare/collector/tracerprocessor"
	"github.com/tare-trace/tare/span"
)

// tare_tracer makes the same spans from the same records, exported as spans or as events
// only.
func TestEventsOnlyEqualSpans(t *testing.T) {
	whole, events := traced(t, spans.NoMessages), traced(t, spans.OnlyMessages)
	if len(whole) != 7 {
		t.Errorf("%d spans, want 7", len(whole))
	}
	for i := range max(len(whole), len(events)) {
		var a, b string
		if i < len(whole) {
			a = whole[i]
		}
		if i < len(events) {
			b = events[i]
		}
		if a != b {
			t.Errorf("span %d of events\n     %s\nwant %s", i, b, a)
		}
	}
}

// traced returns the spans that a builder and tare_tracer make of the records, as sorted
// text, with times relative to the first.
func traced(t *testing.T, messages spans.Messages) []string {
	t.Helper()
	f := tracerprocessor.NewFactory()
	cfg := f.CreateDefaultConfig().(*tracerprocessor.Config)
	cfg.Messages = "drop" // events would be part of their spans, and nothing else has them
	sink := new(consumertest.TracesSink)
	p, err := f.CreateTraces(t.Context(), processortest.NewNopSettings(f.Type()), cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	web := &span.Resource{Service: "web"}
	b := spans.New(spans.Config{
		Messages: messages,
		Resource: func(index uint16) *span.Resource {
			if index == spanstest.Service {
				return web
			}
			return nil
		},
		Emit: func(finished []*span.Span) {
			if err := p.ConsumeTraces(t.Context(), traces(finished)); err != nil {
				t.Error(err)
			}
		},
		Lost:       func(string, uint64) {},
		TraceState: func(th uint64) string { return fmt.Sprintf("ot=th:%x", th) },
	})
	for _, r := range spanstest.Requests() {
		b.Handle(r)
	}
	b.FinishAll()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	var all []ptrace.Span
	for _, td := range sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					all = append(all, s)
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("nothing came out")
	}
	slices.SortFunc(all, func(a, b ptrace.Span) int { return cmp.Compare(a.StartTimestamp(), b.StartTimestamp()) })
	first := all[0].StartTimestamp()
	text := make([]string, len(all))
	for i, s := range all {
		var attrs []string
		for k, v := range s.Attributes().All() {
			attrs = append(attrs, k+"="+v.AsString())
		}
		slices.Sort(attrs)
		text[i] = fmt.Sprintf("%v %v<-%v %v %q %q %d+%d %v %x %d events %s", s.TraceID(), s.SpanID(), s.ParentSpanID(), s.Kind(), s.Name(),
			s.TraceState().AsRaw(), s.StartTimestamp()-first, s.EndTimestamp()-s.StartTimestamp(), s.Status().Code(), s.Flags(),
			s.Events().Len(), strings.Join(attrs, " "))
	}
	return text
}
