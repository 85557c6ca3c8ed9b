package keep_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/keep"
)

// model says in the plainest way what a processor with one shard has to export:
// slices instead of lists, searched from the oldest.
type model struct {
	policy  keep.Policy
	traces  []*modelTrace // open and late ones, those that came first in front
	dropped []trace.TraceID
	epoch   int
	order   int
	out     map[trace.SpanID]string // how a span has to come out: "kept" or "head"
}

type modelTrace struct {
	id    trace.TraceID
	roots int
	kept  bool
	since int
	spans []modelSpan
	first int // when its first span was buffered
}

type modelSpan struct {
	id      trace.SpanID
	sampled bool
	size    int
}

func (m *model) find(id trace.TraceID) *modelTrace {
	for _, t := range m.traces {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (m *model) remove(t *modelTrace) {
	m.traces = slices.DeleteFunc(m.traces, func(o *modelTrace) bool { return o == t })
}

// count returns how many traces are open or late, and the oldest of them.
func (m *model) count(open bool) (n int, oldest *modelTrace) {
	for _, t := range m.traces {
		if t.roots > 0 == open {
			if n++; oldest == nil {
				oldest = t
			}
		}
	}
	return n, oldest
}

func (m *model) bytes() (n int, oldest *modelTrace) {
	for _, t := range m.traces {
		for _, s := range t.spans {
			n += s.size
		}
		if len(t.spans) > 0 && (oldest == nil || t.first < oldest.first) {
			oldest = t
		}
	}
	return n, oldest
}

func (m *model) push(t *modelTrace) {
	t.since = m.epoch
	m.traces = append(m.traces, t)
}

func (m *model) settle(t *modelTrace) {
	m.remove(t)
	t.roots = 0
	if n, oldest := m.count(false); n >= m.policy.MaxLate {
		m.remove(oldest)
	}
	m.push(t)
}

// giveUp ends an undecided trace: only what the head took comes out.
func (m *model) giveUp(t *modelTrace) (any bool) {
	for _, s := range t.spans {
		any = m.head(s) || any
	}
	m.remove(t)
	return any
}

func (m *model) head(s modelSpan) bool {
	if s.sampled {
		m.out[s.id] = "head"
	}
	return s.sampled
}

func (m *model) evict(t *modelTrace) {
	if t.kept {
		m.settle(t)
	} else {
		m.giveUp(t)
	}
}

func (m *model) room() {
	if n, oldest := m.count(true); n >= m.policy.MaxTraces {
		m.evict(oldest)
	}
}

func (m *model) start(id trace.TraceID, waits, root bool) {
	if !waits || !root {
		return
	}
	t := m.find(id)
	switch {
	case t == nil:
		m.room()
		t = &modelTrace{id: id}
		m.push(t)
	case t.roots == 0:
		m.remove(t)
		m.room()
		m.push(t)
	}
	t.roots++
}

func (m *model) end(id trace.TraceID, s modelSpan, waits, root, failed bool) {
	if !waits {
		m.head(s)
		return
	}
	t := m.find(id)
	if t == nil {
		switch {
		case s.sampled:
			m.head(s)
		case !root && slices.Contains(m.dropped, id):
		case failed:
			m.out[s.id] = "kept"
			m.settle(&modelTrace{id: id, kept: true})
		}
		return
	}
	last := root && t.roots == 1
	if root && t.roots > 0 && !last {
		t.roots--
	}
	if t.kept || failed {
		t.kept = true
		for _, s := range append(t.spans, s) {
			m.out[s.id] = "kept"
		}
		t.spans = nil
		if last {
			m.settle(t)
		}
		return
	}
	if last {
		any := m.giveUp(t)
		if !m.head(s) && !any {
			m.dropped = append(m.dropped, id)
			m.dropped = m.dropped[max(0, len(m.dropped)-m.policy.MaxLate):]
		}
		return
	}
	if len(t.spans) >= m.policy.MaxSpansPerTrace || s.size > m.policy.MaxBytes {
		m.head(s)
		return
	}
	for {
		n, oldest := m.bytes()
		if n+s.size <= m.policy.MaxBytes {
			break
		}
		m.evict(oldest)
		if oldest == t {
			m.head(s)
			return
		}
	}
	if len(t.spans) == 0 {
		m.order++
		t.first = m.order
	}
	t.spans = append(t.spans, s)
}

func (m *model) sweep() {
	m.epoch++
	for _, open := range []bool{true, false} {
		for {
			_, oldest := m.count(open)
			if oldest == nil || m.epoch-oldest.since <= 8 {
				break
			}
			if open {
				m.evict(oldest)
			} else {
				m.remove(oldest)
			}
		}
	}
}

// TestModel runs random interleavings: traces that start and go on, roots from
// other services in known traces, children of ended spans, failures, spans that
// end long after their root, time that passes. What comes out is what the model
// says, once, and no bound is exceeded at any time.
func TestModel(t *testing.T) {
	tight := keep.Policy{Errors: true, MaxTraces: 6, MaxBytes: 3000, MaxSpansPerTrace: 5, MaxLate: 4, MaxAge: time.Hour}
	wide := keep.Policy{Errors: true, MaxTraces: 100, MaxBytes: 1 << 20, MaxSpansPerTrace: 100, MaxLate: 15, MaxAge: time.Hour}
	for name, policy := range map[string]keep.Policy{"tight": tight, "wide": wide} {
		for _, exact := range []bool{false, true} {
			policy.ExactCounts = exact
			t.Run(fmt.Sprintf("%s/exact=%t", name, exact), func(t *testing.T) {
				for seed := range uint64(60) {
					if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, policy, seed) }) {
						return
					}
				}
			})
		}
	}
}

func runModel(t *testing.T, policy keep.Policy, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	p := newPipeline(t, consistent.ParentBased(consistent.NewRate(0.2)), policy)
	m := &model{policy: policy, out: map[trace.SpanID]string{}}
	type live struct {
		ctx    context.Context
		span   trace.Span
		parent trace.SpanContext
	}
	var open, past []live
	ended := 0
	waits := func(sc trace.SpanContext) bool { return policy.ExactCounts || !sc.IsSampled() }
	root := func(l live) bool {
		return !l.parent.IsValid() || l.parent.IsRemote() || !waits(l.parent)
	}
	start := func(ctx context.Context) {
		l := live{parent: trace.SpanContextFromContext(ctx)}
		l.ctx, l.span = p.tracer.Start(ctx, "span")
		sc := l.span.SpanContext()
		m.start(sc.TraceID(), waits(sc), root(l))
		open = append(open, l)
	}
	end := func(i int, failed bool) {
		l := open[i]
		open = slices.Delete(open, i, i+1)
		past = append(past, l)
		if failed {
			fail(l.span)
		}
		sc := l.span.SpanContext()
		s := modelSpan{sc.SpanID(), sc.IsSampled(), keep.Size(l.span.(sdktrace.ReadOnlySpan))}
		l.span.End()
		ended++
		m.end(sc.TraceID(), s, waits(sc), root(l), failed)
	}
	any := func() (live, bool) {
		all := append(slices.Clone(open), past[max(0, len(past)-20):]...)
		if len(all) == 0 {
			return live{}, false
		}
		return all[random.IntN(len(all))], true
	}
	check := func() {
		s := p.processor.Stats()
		if s.OpenTraces > policy.MaxTraces || s.BufferedBytes > policy.MaxBytes || s.RememberedTraces > policy.MaxLate {
			t.Fatalf("a bound is exceeded: %+v", s)
		}
		traces, _ := m.count(true)
		bytes, _ := m.bytes()
		if s.OpenTraces != traces || s.BufferedBytes != bytes {
			t.Fatalf("%d open traces, %d bytes; the model has %d, %d", s.OpenTraces, s.BufferedBytes, traces, bytes)
		}
		total := s.SpansPassed + s.SpansKept + uint64(s.BufferedSpans)
		for _, n := range s.SpansDropped {
			total += n
		}
		require.Equal(t, uint64(ended), total, "spans that are accounted for: %+v", s)
	}
	for range 600 {
		switch n := random.IntN(100); {
		case n < 20 && len(open) < 40:
			start(context.Background())
		case n < 45 && len(open) < 40:
			if l, ok := any(); ok {
				start(l.ctx)
			}
		case n < 52 && len(open) < 40: // another service calls in the same trace
			if l, ok := any(); ok {
				start(trace.ContextWithRemoteSpanContext(context.Background(), l.span.SpanContext()))
			}
		case n < 97:
			if len(open) > 0 {
				end(random.IntN(len(open)), random.IntN(20) == 0)
			}
		default:
			p.processor.Sweep()
			m.sweep()
		}
		check()
	}
	for len(open) > 0 {
		end(random.IntN(len(open)), random.IntN(20) == 0)
		check()
	}
	for _, s := range p.recorder.Ended() {
		sc := s.SpanContext()
		want, ok := m.out[sc.SpanID()]
		if !ok {
			t.Fatalf("span %s came out, or twice; the model does not have it", sc.SpanID())
		}
		delete(m.out, sc.SpanID())
		if !sc.IsSampled() {
			t.Errorf("span %s came out without the sampled flag", sc.SpanID())
		}
		state := ""
		switch {
		case want == "head":
			state = "ot=th:cccd"
		case policy.ExactCounts:
			state = "ot=th:0"
		}
		assert.Equal(t, state, sc.TraceState().String(), "tracestate of a %s span", want)
	}
	require.Zero(t, len(m.out), "spans did not come out")
}
