package store

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	spantext "github.com/tare-trace/tare/span/text"
)

// Spans whose names have 900 KB, written past the limits of receivers: what all queries read is bounded, names
// that begin alike stay different, and the trace has what was written.
func TestLongNames(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	long, attribute := strings.Repeat("n", 900_000), strings.Repeat("a", 20_000)
	const n = 40
	for from := 0; from < n; from += 10 {
		td := ptrace.NewTraces()
		for i := from; i < from+10; i++ {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr("service.name", fmt.Sprint(long, i))
			sp := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			sp.SetTraceID(traceID(uint64(i + 1)))       //nolint:gosec // positive
			sp.SetSpanID(spanIDOf(uint64(i%2*100) + 1)) //nolint:gosec // positive
			sp.SetName(fmt.Sprint(long, i))
			sp.SetStartTimestamp(pcommon.Timestamp(hour0))
			sp.SetEndTimestamp(pcommon.Timestamp(hour0 + 1000))
			if sp.SetKind(ptrace.SpanKindClient); i%2 > 0 {
				sp.SetKind(ptrace.SpanKindServer)
			}
			sp.Attributes().PutStr("peer.service", attribute+"peer")
			sp.Attributes().PutStr(semconv.Behind, attribute+"behind")
			sp.Attributes().PutStr(semconv.TraceState, attribute)
			sp.Attributes().PutStr(semconv.TraceReason, attribute+"r")
			sp.Attributes().PutStr(semconv.KeepReason, attribute+"k")
		}
		write(t, s, td)
	}
	for more := true; more; { // chunks are merged: their names are made again
		var err error
		if more, err = s.mergeOnce(); err != nil {
			t.Fatal(err)
		}
	}
	within := func(what, name string) {
		t.Helper()
		if _, mark := spantext.Split(name); len(name) > spantext.MostName || mark == "" {
			t.Errorf("%s: %d bytes", what, len(name))
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	services, err := s.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range services {
		within("service", x.Name)
	}
	operations, err := s.Operations(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		within("operation", o.Name)
	}
	if len(services) != n || len(operations) != n {
		t.Errorf("%d services and %d operations, want %d", len(services), len(operations), n)
	}
	m, err := s.Map(t.Context(), timeOf(hour0).Add(-time.Hour), timeOf(hour0).Add(time.Hour))
	if err != nil || len(m.Edges) == 0 {
		t.Fatalf("%d edges, %v", len(m.Edges), err)
	}
	for _, e := range m.Edges {
		within("caller", e.From)
		within("callee", e.To)
	}
	found, err := s.Search(t.Context(), Query{Limit: n})
	if err != nil || len(found.Traces) != n {
		t.Fatalf("%d traces, %v", len(found.Traces), err)
	}
	for i := range found.Traces {
		x := &found.Traces[i]
		for what, name := range map[string]string{"root": x.Root, "top service": x.Service, "state": x.State, "reason": x.Reason, "keep": x.Keep} {
			within(what, name)
		}
	}
	runtime.ReadMemStats(&after)
	t.Logf("queries allocated %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)

	td, err := s.Trace(t.Context(), traceID(1))
	if err != nil || td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name() != long+"0" {
		t.Errorf("the trace has another name: %v", err)
	}
	// A reader of one of the services sees it by the name that the list has, in whichever way it is compared.
	for _, scope := range []*Scope{{Services: []string{services[7].Name}}, {Services: []string{services[7].Name}, Namespaces: []string{"*"}}} {
		seen, err := s.Services(WithScope(t.Context(), scope))
		if err != nil || len(seen) != 1 || seen[0].Name != services[7].Name {
			t.Errorf("%d services are seen, %v", len(seen), err)
		}
	}
}

// A trace of 200 spans with 100 attributes each, whose 20,000 keys are all different, is stored, found by any of them,
// and does not make the lists that every query reads longer.
func TestManyKeys(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "s")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for i := range 200 {
		sp := spans.AppendEmpty()
		sp.SetTraceID(traceID(1))
		sp.SetSpanID(spanIDOf(uint64(i + 1))) //nolint:gosec // positive
		sp.SetName("n")
		sp.SetStartTimestamp(pcommon.Timestamp(hour0))
		for k := range 100 {
			sp.Attributes().PutInt(fmt.Sprintf("key.%d.%s", 100*i+k, strings.Repeat("k", 200)), int64(k))
		}
	}
	write(t, s, td)
	for _, key := range []string{"key.0.", "key.19999."} {
		key += strings.Repeat("k", 200)
		value := "0"
		if strings.HasPrefix(key, "key.19999") {
			value = "99"
		}
		found, err := s.Search(context.Background(), Query{Limit: 10, Conditions: []Condition{{Key: key, Value: value}}})
		if err != nil || len(found.Traces) != 1 {
			t.Errorf("%.12s…: %d traces, %v", key, len(found.Traces), err)
		}
	}
	if err := s.read(t.Context(), func(v *view) error {
		for _, z := range v.chunks {
			c, err := v.chunk(z.chunk, z)
			if err != nil {
				return err
			}
			n, err := c.dictionary()
			if err != nil {
				return err
			}
			if size := len(n.append(nil)); size > 200 {
				t.Errorf("the names of a chunk take %d bytes", size)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
