package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

const (
	// tracesPerBatch make batches of 8,190 spans, the most whole traces of the
	// 8,192 spans that the collector stores at once.
	tracesPerBatch = 910
	batchSpans     = tracesPerBatch * workloads.SpansPerTrace
	// spacing of the traces' starts. No span that a query selects starts later
	// than this after its trace, so that engines that sort by the span and those
	// that sort by the trace agree.
	spacing = time.Millisecond
	// Every rareEvery-th trace, three in all, has a call of stock that fails and
	// takes rareExtra longer.
	rareEvery = 1000
	rareCount = 3
	rareExtra = time.Second
)

// firstStart is when the first trace starts.
var firstStart = uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// traffic makes batches of whole traces, all different from each other, and the
// same ones in every process: it changes the spans of one batch in place. What
// the tracer's traces do not vary is drawn from the trace's number: how long
// they took (lognormal, median 1 and sigma 0.5 times the template's), which item
// they ask for, what they answer, which of them fail (one in a hundred).
type traffic struct {
	td    ptrace.Traces
	spans []templateSpan
}

type templateSpan struct {
	span       ptrace.Span
	trace      int // in the batch
	id, parent uint64
	offset     uint64 // ns, of its start in the trace
	length     uint64 // ns
	item       []templateText
	sent       pcommon.Value
	status     pcommon.Value // of HTTP, if it has one
	hasStatus  bool
	fails      bool // if the trace does
	failsRare  bool
	longer     bool // by rareExtra in a rare trace
}

type templateText struct {
	value         pcommon.Value
	before, after string
}

// templateItem is what the template's traces ask for.
const templateItem = "46044"

func newTraffic() (*traffic, error) {
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(workloads.WholeTraces(tracesPerBatch))
	if err != nil {
		return nil, err
	}
	t := &traffic{td: td}
	traces := map[pcommon.TraceID]int{}
	for _, rs := range td.ResourceSpans().All() {
		service, _ := rs.Resource().Attributes().Get("service.name")
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				n, ok := traces[s.TraceID()]
				if !ok {
					n = len(traces)
					traces[s.TraceID()] = n
				}
				if s.ParentSpanID().IsEmpty() {
					// As the collector's checks do.
					s.Attributes().PutStr(span.KeyTraceState, span.StateComplete)
				}
				t.spans = append(t.spans, newTemplateSpan(s, service.Str(), n))
			}
		}
	}
	if len(traces) != tracesPerBatch || len(t.spans) != batchSpans {
		return nil, fmt.Errorf("the template has %d traces of %d spans", len(traces), len(t.spans))
	}
	return t, nil
}

func newTemplateSpan(s ptrace.Span, service string, trace int) templateSpan {
	id, parent := s.SpanID(), s.ParentSpanID()
	ts := templateSpan{
		span: s, trace: trace, id: binary.BigEndian.Uint64(id[:]), parent: binary.BigEndian.Uint64(parent[:]),
		offset: uint64(s.StartTimestamp()) - workloads.WholeTracesStart,
		length: uint64(s.EndTimestamp() - s.StartTimestamp()),
	}
	ts.fails = service == "proxy" || service == "shop" && s.Kind() == ptrace.SpanKindServer
	ts.failsRare = service == "stock"
	ts.longer = ts.length > uint64(time.Millisecond) || ts.offset >= uint64(2*time.Millisecond)
	for key, v := range s.Attributes().All() {
		if v.Type() == pcommon.ValueTypeStr {
			if before, after, ok := strings.Cut(v.Str(), templateItem); ok {
				ts.item = append(ts.item, templateText{v, before, after})
			}
		}
		switch key {
		case span.KeyBytesSent:
			ts.sent = v
		case "http.response.status_code":
			ts.status, ts.hasStatus = v, true
		}
	}
	return ts
}

// traceOf is what varies of trace n.
type traceOf struct {
	id     pcommon.TraceID
	key    uint64 // of its span ids
	start  uint64
	scale  float64
	item   string
	sent   int64
	failed bool
	rare   bool
}

func newTraceOf(n uint64) traceOf {
	r := rand.New(rand.NewPCG(n, 1))
	t := traceOf{
		id: traceID(n), key: r.Uint64(), start: firstStart + n*uint64(spacing),
		scale: min(math.Exp(0.5*r.NormFloat64()), 8), item: fmt.Sprint(r.IntN(100_000)), sent: 200 + r.Int64N(4000),
		failed: r.IntN(100) == 0,
	}
	t.rare = n > 0 && n%rareEvery == 0 && n <= rareEvery*rareCount
	return t
}

// traceID of trace n.
func traceID(n uint64) (id pcommon.TraceID) {
	r := rand.New(rand.NewPCG(n, 2))
	binary.BigEndian.PutUint64(id[:8], r.Uint64())
	binary.BigEndian.PutUint64(id[8:], r.Uint64())
	return id
}

// batch n: traces n*tracesPerBatch and on. It is valid until the next call.
func (t *traffic) batch(n int) ptrace.Traces {
	var traces [tracesPerBatch]traceOf
	for i := range traces {
		traces[i] = newTraceOf(uint64(n*tracesPerBatch + i))
	}
	for i := range t.spans {
		t.spans[i].become(&traces[t.spans[i].trace])
	}
	return t.td
}

func (s *templateSpan) become(t *traceOf) {
	offset, length := uint64(float64(s.offset)*t.scale), uint64(float64(s.length)*t.scale)
	if t.rare && s.longer {
		length += uint64(rareExtra)
	}
	s.span.SetTraceID(t.id)
	s.span.SetSpanID(spanID(s.id ^ t.key))
	if s.parent != 0 {
		s.span.SetParentSpanID(spanID(s.parent ^ t.key))
	}
	s.span.SetStartTimestamp(pcommon.Timestamp(t.start + offset))
	s.span.SetEndTimestamp(pcommon.Timestamp(t.start + offset + length))
	for _, text := range s.item {
		text.value.SetStr(text.before + t.item + text.after)
	}
	s.sent.SetInt(t.sent)
	failed := t.failed && s.fails || t.rare && s.failsRare
	code, status := ptrace.StatusCodeUnset, int64(200)
	if failed {
		code, status = ptrace.StatusCodeError, 500
	}
	s.span.Status().SetCode(code)
	if s.hasStatus {
		s.status.SetInt(status)
	}
}

func spanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}
