package keepprocessor

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// tally collects what the spans of one trace say, and holds the decision.
type tally struct {
	id       pcommon.TraceID
	top      ptrace.Span // the span that tare_tracer judged, or the root, or the earliest
	resource pcommon.Map // of top
	service  string      // of top
	rank     rank        // how top was chosen
	spans    int
	path     uint64
	rule     int  // index of the first rule that a span matches, else the number of rules
	late     bool // all spans are late

	failed       bool // a span with status error, or a server span with HTTP 500 or more
	serverFailed bool // such a server span
	topFailed    bool // top is such a span
	incomplete   bool
	sampled      weight.Trace // by what all spans say

	own     sampling // of top
	dropped bool
	raise   consistent.Threshold // new th; Always: unchanged
}

type rank uint8

const (
	unranked rank = iota
	earliest
	root
	judged // carries tare_tracer's verdict, so it is the top span
)

// scratch holds the data of one call and is reused.
type scratch struct {
	traces []tally
	index  map[pcommon.TraceID]int32
	of     []int32 // index in traces of each span's trace, in the order of the message
	share  []int32 // indices of traces that the share decides
	walk   walk
	states states
	before weight.States
}

var scratches = sync.Pool{New: func() any {
	return &scratch{
		index: map[pcommon.TraceID]int32{},
		walk:  walk{nodes: map[uint64]uint64{}, edges: map[uint64]struct{}{}},
	}
}}

// keptSpans bounds the scratch that is reused: clearing tables that a giant message has
// grown would slow down each small message after it.
const keptSpans = 1 << 14

func (s *scratch) free() {
	if len(s.of) > keptSpans {
		return
	}
	clear(s.traces) // they refer to the message
	s.traces, s.of, s.share = s.traces[:0], s.of[:0], s.share[:0]
	clear(s.index)
	s.walk.reset()
	s.states, s.before = states{}, weight.States{}
	scratches.Put(s)
}

// read fills in the tallies of a message.
func (k *keeper) read(s *scratch, td ptrace.Traces) {
	var last pcommon.TraceID
	at := int32(-1)
	for _, rs := range td.ResourceSpans().All() {
		resource := rs.Resource().Attributes()
		service := ""
		if v, ok := resource.Get("service.name"); ok {
			service = v.Str()
		}
		var hash uint64
		if k.seen != nil {
			hash = maphash.String(pathSeed, service)
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				if id := sp.TraceID(); at < 0 || id != last {
					last, at = id, s.trace(id, len(k.rules))
				}
				s.of = append(s.of, at)
				t := &s.traces[at]
				retro := k.readSpan(t, service, resource, sp)
				t.sampled.Add(s.before.Adjusted(sp.TraceState().AsRaw()), sp.ParentSpanID().IsEmpty(), retro)
				if k.seen != nil {
					s.walk.add(at, hash, sp)
				}
			}
		}
	}
	if k.seen != nil {
		s.walk.paths(s.traces)
	}
}

func (s *scratch) trace(id pcommon.TraceID, rules int) int32 {
	at, ok := s.index[id]
	if !ok {
		at = int32(len(s.traces))
		s.index[id] = at
		s.traces = append(s.traces, tally{id: id, late: true, rule: rules})
	}
	return at
}

// readSpan reads a span, and returns what it says of retroactive sampling.
func (k *keeper) readSpan(t *tally, service string, resource pcommon.Map, sp ptrace.Span) semconv.RetroSet {
	t.spans++
	m := readMarks(sp.Attributes())
	t.late = t.late && m.late
	isServer := sp.Kind() == ptrace.SpanKindServer
	failed := sp.Status().Code() == ptrace.StatusCodeError || isServer && m.status >= 500
	t.failed = t.failed || failed
	t.serverFailed = t.serverFailed || failed && isServer

	r := earliest
	switch {
	case m.state:
		r = judged
		t.incomplete = t.incomplete || m.incomplete
	case sp.ParentSpanID().IsEmpty():
		r = root
	}
	if r > t.rank || r == t.rank && sp.StartTimestamp() < t.top.StartTimestamp() {
		t.top, t.resource, t.service, t.rank, t.topFailed = sp, resource, service, r, failed
	}
	for i := 0; i < t.rule; i++ {
		if r := &k.rules[i]; !r.root && r.matches(service, resource, sp) {
			t.rule = i
		}
	}
	return m.retro
}

// marks are the attributes of a span that matter for a decision.
type marks struct {
	status     int64 // http.response.status_code, 0 if there is none
	late       bool
	state      bool // tare_tracer has judged the trace, and this is its top span
	incomplete bool
	retro      semconv.RetroSet // without reasons, which do not matter
}

func readMarks(attributes pcommon.Map) (m marks) {
	for key, v := range attributes.All() {
		switch key {
		case "http.response.status_code", "http.status_code":
			m.status = statusOf(v)
		case semconv.Late:
			m.late = v.Bool()
		case semconv.Retro:
			if v.Bool() {
				m.retro = semconv.RetroKept
			}
		case semconv.TraceState:
			m.state = true
			m.incomplete = v.Str() == semconv.StateIncomplete
		}
	}
	return m
}

// statusOf reads a number, or a string that contains one, as Zipkin's tags do.
func statusOf(v pcommon.Value) int64 {
	if v.Type() != pcommon.ValueTypeStr {
		return v.Int()
	}
	n, err := strconv.ParseInt(v.Str(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func durationOf(s ptrace.Span) time.Duration {
	return time.Duration(max(int64(s.EndTimestamp())-int64(s.StartTimestamp()), 0))
}
