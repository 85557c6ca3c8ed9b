package keep

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Processor is a span processor for the official SDK. It hands on to the next
// processor the spans that the head sampler took and those that the policy keeps.
// The provider needs a [Sampler]; without one there is nothing to keep.
//
// The next processor sees the start of every recorded span, because it may add
// attributes then, and the end of those that are exported. Kept spans are
// handed over by the goroutine that ended the span which made the decision, all
// at once: a batch processor's queue should hold a few traces.
type Processor struct {
	next   sdktrace.SpanProcessor
	policy *Compiled
	shards []shard
	shift  uint // 64 - log2(len(shards))

	epoch  atomic.Uint32 // counts eighths of MaxAge
	closed atomic.Bool
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	result error // of Shutdown
}

var _ sdktrace.SpanProcessor = (*Processor)(nil)

// epochs in MaxAge.
const epochs = 8

// NewProcessor returns a processor in front of next. It has a goroutine that
// looks for traces which are too old; Shutdown ends it.
func NewProcessor(next sdktrace.SpanProcessor, policy Policy) (*Processor, error) {
	if next == nil {
		return nil, errors.New("keep: the next span processor is nil; pass the one that exports, as from sdktrace.NewBatchSpanProcessor")
	}
	compiled, err := policy.Compile()
	if err != nil {
		return nil, err
	}
	p := &Processor{next: next, policy: compiled, stop: make(chan struct{}), done: make(chan struct{})}
	c := &compiled.policy
	n := shardCount(c, runtime.GOMAXPROCS(0))
	p.shards = make([]shard, n)
	p.shift = uint(64 - bits.TrailingZeros(uint(n)))
	for i := range p.shards {
		p.shards[i].init(limits{c.MaxTraces / n, c.MaxBytes / n, c.MaxSpansPerTrace, c.MaxLate / n})
	}
	go p.age(max(c.MaxAge/epochs, time.Millisecond))
	return p, nil
}

// shardCount returns a power of two: enough that cores rarely meet, and so few
// that a shard's share of the bounds still holds uneven parts.
func shardCount(p *Policy, cores int) int {
	n := 1
	for n < 4*cores && n < 64 && p.MaxTraces/(2*n) >= 128 && p.MaxLate/(2*n) >= 16 && p.MaxBytes/(2*n) >= 1<<20 {
		n *= 2
	}
	return n
}

// shard returns the shard of a trace id. The multiplication spreads ids that
// are not random in all their bits.
func (p *Processor) shard(id trace.TraceID) *shard {
	if len(p.shards) == 1 {
		return &p.shards[0]
	}
	return &p.shards[binary.LittleEndian.Uint64(id[8:])*0x9e3779b97f4a7c15>>p.shift]
}

// begin registers a call so that Shutdown waits for it. It returns false after
// Shutdown has begun.
func (p *Processor) begin(s *shard) bool {
	s.calls.Add(1)
	if p.closed.Load() {
		s.calls.Add(-1)
		return false
	}
	return true
}

// OnStart registers local roots, and is passed on.
func (p *Processor) OnStart(parent context.Context, span sdktrace.ReadWriteSpan) {
	sc := span.SpanContext()
	s := p.shard(sc.TraceID())
	if !p.begin(s) {
		return
	}
	defer s.calls.Add(-1)
	if p.waits(sc) && p.isRoot(span.Parent()) {
		var out export
		s.mu.Lock()
		s.start(sc.TraceID(), p.epoch.Load(), &out)
		s.mu.Unlock()
		p.hand(&out)
	}
	p.next.OnStart(parent, span)
}

// waits reports whether a span is buffered until its trace is decided.
func (p *Processor) waits(sc trace.SpanContext) bool {
	return !sc.IsSampled() || p.policy.policy.ExactCounts
}

// isRoot reports whether a span with that parent is a local root, among those
// that wait: below a local parent that does not wait, there is a local trace of
// its own.
func (p *Processor) isRoot(parent trace.SpanContext) bool {
	return !parent.IsValid() || parent.IsRemote() || !p.waits(parent)
}

// OnEnd hands the span on, buffers it or drops it.
func (p *Processor) OnEnd(span sdktrace.ReadOnlySpan) {
	sc := span.SpanContext()
	s := p.shard(sc.TraceID())
	if !p.begin(s) {
		s.ignored.Add(1)
		return
	}
	defer s.calls.Add(-1)
	parent := span.Parent()
	if !p.waits(sc) {
		if l := p.policy.learned; l != nil && p.isLocalRoot(parent) {
			l.observe(span.Name(), span.EndTime().Sub(span.StartTime()))
		}
		s.passed.Add(1)
		p.next.OnEnd(span)
		return
	}
	var v Verdict
	p.policy.Observe(&v, p.ended(span, parent))
	var out export
	s.mu.Lock()
	now := s.end(span, sc.TraceID(), p.isRoot(parent), v, p.epoch.Load(), &out)
	s.mu.Unlock()
	p.hand(&out)
	switch now {
	case NotKept:
	case Head:
		p.next.OnEnd(span)
	default:
		k := new(kept)
		k.wrap(p.policy, span, now)
		p.next.OnEnd(k)
	}
}

func (p *Processor) isLocalRoot(parent trace.SpanContext) bool {
	return !parent.IsValid() || parent.IsRemote()
}

// ended is what the policy wants to know of the span.
func (p *Processor) ended(span sdktrace.ReadOnlySpan, parent trace.SpanContext) Ended {
	e := Ended{
		Name:      span.Name(),
		Kind:      span.SpanKind(),
		Failed:    span.Status().Code == codes.Error,
		LocalRoot: p.isLocalRoot(parent),
		Duration:  span.EndTime().Sub(span.StartTime()),
	}
	if p.policy.needs {
		e.Attributes = span.Attributes()
	}
	if p.policy.policy.ServerErrors && e.Kind == trace.SpanKindServer {
		e.Status = httpStatus(span.Attributes())
	}
	return e
}

// httpStatus returns the HTTP status code in a server span's attributes, by the
// stable semantic conventions or those before v1.21; 0 without.
func httpStatus(attributes []attribute.KeyValue) int {
	for i := range attributes {
		if k := attributes[i].Key; k == "http.response.status_code" || k == "http.status_code" {
			return int(attributes[i].Value.AsInt64())
		}
	}
	return 0
}

// hand hands over what a step of a shard collected.
func (p *Processor) hand(out *export) {
	for _, span := range out.passed {
		p.next.OnEnd(span)
	}
	if len(out.spans) == 0 {
		return
	}
	all := make([]kept, len(out.spans))
	for i, span := range out.spans {
		all[i].wrap(p.policy, span, out.reason)
		p.next.OnEnd(&all[i])
	}
}
