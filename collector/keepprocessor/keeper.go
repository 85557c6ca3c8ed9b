package keepprocessor

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processorhelper"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/span/semconv"
)

// reason says why a trace is kept or dropped.
type reason uint8

const (
	byRetro reason = iota
	byError
	bySlow
	byRare
	byRule
	byIncomplete
	byShare
	numReasons = iota
)

var reasonNames = [numReasons]string{"retro", "error", "slow", "rare", "rule", "incomplete", "share"}

// keeper decides about traces.
type keeper struct {
	errors     string
	incomplete string
	rules      []compiledRule
	limits     limits
	now        func() time.Time

	mu      sync.Mutex
	learned *learned // nil without learning
	seen    *seen    // nil if rare paths are not kept
	share   share
	memory  memory
	counts  counts
}

// counts are the decisions so far.
type counts struct {
	kept, dropped [numReasons]uint64 // traces
	spansDropped  uint64             // spans of dropped traces, late ones included
	lateKept      uint64             // late spans whose trace was kept
	lateDropped   uint64             // late spans whose trace was dropped
	lateReversed  uint64             // late spans that had their trace kept, of which the others were dropped
	lateUnknown   uint64             // late spans whose trace is not remembered
}

func newKeeper(c *Config) (*keeper, error) { return newKeeperAt(c, time.Now) }

func newKeeperAt(c *Config, clock func() time.Time) (*keeper, error) {
	rules, err := compileRules(c.Rules)
	if err != nil {
		return nil, err
	}
	operations, err := compileOperations(c.Slow.Operations)
	if err != nil {
		return nil, err
	}
	now := clock()
	return &keeper{
		errors:     c.Errors,
		incomplete: c.Incomplete,
		rules:      rules,
		limits:     limits{c.Slow.SlowerThan, operations},
		now:        clock,
		learned:    newLearned(c.Slow.Learn),
		seen:       newSeen(c.Rare, now),
		share:      newShare(c.Share, now),
		memory:     newMemory(c.Remember),
	}, nil
}

// pass replaces process if the configuration keeps everything.
func pass(_ context.Context, td ptrace.Traces) (ptrace.Traces, error) { return td, nil }

// process decides about the traces of a message and removes those that are dropped.
func (k *keeper) process(_ context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	k.read(s, td)
	if k.decide(s) {
		s.apply(td)
	}
	if td.ResourceSpans().Len() == 0 {
		return td, processorhelper.ErrSkipProcessingData
	}
	return td, nil
}

// decide sets the decision of each trace. It reports whether spans have to be removed or
// changed.
func (k *keeper) decide(s *scratch) (changes bool) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.share.advance(now)
	if k.seen != nil {
		k.seen.advance(now)
	}
	for i := range s.traces {
		t := &s.traces[i]
		if t.late {
			k.follow(s, t)
			continue
		}
		t.own = s.states.of(t.top.TraceState().AsRaw(), t.id)
		switch why, th, drop := k.judge(t, now); {
		case drop:
			k.drop(t, why)
		case why == byShare:
			k.share.observe(t.own.threshold)
			s.share = append(s.share, int32(i))
		default:
			k.sample(t, th, why)
		}
	}
	k.share.settle()
	for _, i := range s.share {
		k.sample(&s.traces[i], k.share.threshold, byShare)
	}
	for i := range s.traces {
		t := &s.traces[i]
		changes = changes || t.dropped || t.raise > consistent.Always
	}
	return changes
}

// judge returns why the trace is kept and with which threshold, or why it is dropped. The
// threshold of the share is set later.
func (k *keeper) judge(t *tally, now time.Time) (why reason, th consistent.Threshold, drop bool) {
	if t.incomplete && k.incomplete == IncompleteDrop {
		return byIncomplete, 0, true
	}
	k.matchTop(t)
	if t.rule < len(k.rules) {
		th = k.rules[t.rule].threshold
		if th >= consistent.Never {
			return byRule, 0, true
		}
	}
	if t.sampled.Kept() != 0 {
		// The agent chose it for what it is like: it shows neither what is usual nor how much comes.
		return byRetro, consistent.Always, false
	}
	slow, rare := k.observe(t, now)
	switch {
	case k.isError(t):
		return byError, consistent.Always, false
	case slow:
		return bySlow, consistent.Always, false
	case rare && k.seen.take():
		return byRare, consistent.Always, false
	case t.rule < len(k.rules):
		return byRule, th, false
	case t.incomplete && k.incomplete == IncompleteKeep:
		return byIncomplete, consistent.Always, false
	}
	return byShare, 0, false
}

func (k *keeper) isError(t *tally) bool {
	switch k.errors {
	case ErrorsAny:
		return t.failed
	case ErrorsServer:
		return t.serverFailed
	case ErrorsRoot:
		return t.topFailed
	}
	return false
}

// matchTop tries the rules that only the top span can match.
func (k *keeper) matchTop(t *tally) {
	for i := 0; i < t.rule; i++ {
		if r := &k.rules[i]; r.root && r.matches(t.service, t.resource, t.top) {
			t.rule = i
		}
	}
}

// observe learns from the trace and reports whether it is slow or rare. Neither the path
// nor the duration of an incomplete trace shows what is usual.
func (k *keeper) observe(t *tally, now time.Time) (slow, rare bool) {
	d := durationOf(t.top)
	slow = k.limits.exceeded(t.service, t.top.Name(), d)
	if t.incomplete {
		return slow, false
	}
	if k.learned != nil && t.top.ParentSpanID().IsEmpty() {
		unusual := k.learned.observe(t.service, t.top.Name(), d, now)
		slow = slow || unusual
	}
	if k.seen != nil {
		rare = k.seen.observe(t.path)
	}
	return slow, rare
}

// sample keeps the trace with the probability of th, or drops it, and counts the result.
func (k *keeper) sample(t *tally, th consistent.Threshold, why reason) {
	if !k.keep(t, th, why) {
		k.drop(t, why)
		return
	}
	k.counts.kept[why]++
}

// keep keeps the trace with the probability of th, applied to the trace's random bits.
func (k *keeper) keep(t *tally, th consistent.Threshold, why reason) bool {
	if !th.Samples(t.own.randomness) {
		return false
	}
	if th > t.own.threshold {
		t.raise = th
	}
	k.memory.put(t.id, t.raise)
	t.top.Attributes().PutStr(semconv.KeepReason, reasonNames[why])
	return true
}

func (k *keeper) drop(t *tally, why reason) {
	t.dropped = true
	k.counts.dropped[why]++
	k.counts.spansDropped += uint64(t.spans)
	th := consistent.Never
	if why == byIncomplete || why == byRule && k.rules[t.rule].threshold >= consistent.Never {
		th = refused
	}
	k.memory.put(t.id, th)
}

// refused is remembered of a trace that is dropped whatever its late spans show.
const refused = consistent.Never + 1

// reverse keeps the late spans of a dropped trace, and those that follow, if they show a
// reason to keep it: the trace is incomplete then. Several collectors may differ here: each
// knows what came too late for it.
func (k *keeper) reverse(s *scratch, t *tally) bool {
	if t.rank == root {
		k.matchTop(t)
	}
	why, th := byRule, consistent.Always
	if t.rule < len(k.rules) {
		th = k.rules[t.rule].threshold
	}
	switch {
	case th >= consistent.Never || k.incomplete == IncompleteDrop:
		return false
	case t.sampled.Kept() != 0:
		why, th = byRetro, consistent.Always
	case k.isError(t) && (k.errors != ErrorsRoot || t.rank == root):
		why, th = byError, consistent.Always
	case t.rank == root && k.limits.exceeded(t.service, t.top.Name(), durationOf(t.top)):
		why, th = bySlow, consistent.Always
	case t.rule == len(k.rules):
		return false
	}
	t.own = s.states.of(t.top.TraceState().AsRaw(), t.id)
	if !k.keep(t, th, why) {
		return false
	}
	a := t.top.Attributes()
	a.PutStr(semconv.TraceState, semconv.StateIncomplete)
	a.PutStr(semconv.TraceReason, reasonSpansDropped)
	return true
}

const reasonSpansDropped = "spans_dropped" // the others had been dropped when these arrived

// follow applies the decision about a trace to its late spans, unless they reverse it.
func (k *keeper) follow(s *scratch, t *tally) {
	th, ok := k.memory.get(t.id)
	n := uint64(t.spans)
	switch {
	case !ok:
		k.counts.lateUnknown += n
	case th == consistent.Never && k.reverse(s, t):
		k.counts.lateReversed += n
	case th >= consistent.Never:
		t.dropped = true
		k.counts.lateDropped += n
		k.counts.spansDropped += n
	default:
		t.raise = th
		k.counts.lateKept += n
	}
}

// apply removes dropped spans and raises thresholds.
func (s *scratch) apply(td ptrace.Traces) {
	next := 0
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			ss.Spans().RemoveIf(func(sp ptrace.Span) bool {
				t := &s.traces[s.of[next]]
				next++
				if t.dropped {
					return true
				}
				if t.raise > consistent.Always {
					ts := sp.TraceState()
					ts.FromRaw(s.states.raise(ts.AsRaw(), t.raise))
				}
				return false
			})
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
}
