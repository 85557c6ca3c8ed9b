package lean

import (
	"context"
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/intrusive"
	"github.com/tare-trace/tare/otel/keep"
)

// keeper holds the spans of local traces, encoded, until package keep's policy can say whether they
// are exported. It works as keep.Processor does for the SDK, except that a local trace is known by
// a pointer, which spans inherit from their parents: no search by trace id, and spans that end late
// find their trace's decision as long as they live. Two local roots of one trace are two local
// traces here.
type keeper struct {
	p            *TracerProvider
	policy       *keep.Compiled
	exact        bool // spans that the head sampled wait, too
	serverErrors bool
	learns       bool
	maxSpans     int
	maxAge       time.Duration
	shards       []keepShard
}

// keepShard has a part of the local traces and of the bounds, by trace id.
type keepShard struct {
	mu        sync.Mutex
	maxTraces int
	maxBytes  int
	open      intrusive.List[localTrace]
	holding   intrusive.List[localTrace]
	spans     int
	bytes     int
	closed    bool
	free      []*heldSpans
	stats     keep.Stats // the counters of it

	_ [128]byte
}

// localTrace is what this process knows of a trace: a local root, and what is below it. All its
// fields but the first two are guarded by its shard's lock.
type localTrace struct {
	shard *keepShard
	root  trace.SpanID

	reason  keep.Reason // why it is kept
	decided bool        // the root has ended, or the trace was evicted
	late    keep.Cause  // decided, not kept: why a span that ends now is dropped
	lost    bool        // spans were dropped because of a bound
	since   int64       // the clock's monotonic time
	held    *heldSpans

	open, holding intrusive.Link[localTrace]
}

// A local trace can be in two lists: of the open ones, and of those that hold spans.
func openLink(t *localTrace) *intrusive.Link[localTrace]    { return &t.open }
func holdingLink(t *localTrace) *intrusive.Link[localTrace] { return &t.holding }

// heldSpans are ended spans without the fields that the decision changes: flags and trace state.
type heldSpans struct {
	buf   []byte
	spans []heldSpan
}

type heldSpan struct {
	extent
	scope  int
	sc     trace.SpanContext
	remote bool // the parent
}

// Of bytes, a held span costs those of its message and heldBytes. Buffers beyond maxKeptHeld are
// not reused.
const (
	heldBytes   = 112
	maxKeptHeld = 32 << 10
	maxFreeHeld = 64
)

func newKeeper(p *TracerProvider, policy *keep.Compiled) *keeper {
	c := policy.Policy()
	k := &keeper{
		p: p, policy: policy, exact: c.ExactCounts, serverErrors: c.ServerErrors, learns: c.Learn.Quantile > 0,
		maxSpans: c.MaxSpansPerTrace, maxAge: c.MaxAge,
	}
	// So many shards that processors rarely meet, so few that a share still holds uneven parts.
	n := 1
	for n < 4*runtime.GOMAXPROCS(0) && n < 64 && c.MaxTraces/(2*n) >= 128 && c.MaxBytes/(2*n) >= 1<<20 {
		n *= 2
	}
	k.shards = make([]keepShard, n)
	for i := range k.shards {
		s := &k.shards[i]
		s.maxTraces, s.maxBytes = max(1, c.MaxTraces/n), c.MaxBytes/n
		s.open.Of, s.holding.Of = openLink, holdingLink
	}
	return k
}

// shard of a trace id; the multiplication spreads ids that are not random in all their bits.
func (k *keeper) shard(id trace.TraceID) *keepShard {
	h := binary.LittleEndian.Uint64(id[8:]) * 0x9e3779b97f4a7c15
	return &k.shards[h>>(64-bits.TrailingZeros(uint(len(k.shards))))&uint64(len(k.shards)-1)]
}

// enter returns the local trace of a span that starts: its parent's, or a new one. nil: the span
// does not wait for a decision.
func (k *keeper) enter(ctx context.Context, d *Decision, now int64) *localTrace {
	if d.sc.IsSampled() && !k.exact {
		return nil
	}
	if d.origin == localParent {
		if s, ok := ctx.Value(spanKey).(*Span); ok && s.local != nil && s.p == k.p && s.sc.SpanID() == d.parent {
			return s.local
		}
	}
	t := &localTrace{shard: k.shard(d.sc.TraceID()), root: d.sc.SpanID(), since: now}
	var out export
	s := t.shard
	s.mu.Lock()
	if s.closed {
		t.decided, t.late = true, keep.ShutDown
	} else {
		if s.open.Len >= s.maxTraces {
			s.evict(s.open.Oldest, keep.TooManyOpen, &out)
		}
		s.open.Push(t)
	}
	s.mu.Unlock()
	k.send(s, &out)
	return t
}

// observe passes a span that has ended to the policy; end is its time in ns since 1970.
func (k *keeper) observe(v *keep.Verdict, r *record, end int64) {
	e := keep.Ended{
		Name: r.name, Kind: r.kind, Failed: r.status == codes.Error, LocalRoot: r.localRoot,
		Duration: time.Duration(end - r.startWall),
	}
	if k.serverErrors && r.kind == trace.SpanKindServer {
		e.Status = r.httpStatus()
	}
	if k.policy.NeedsAttributes() {
		e.Attributes = r.readAttributes()
	}
	k.policy.Observe(v, e)
	clear(e.Attributes)
}

// learn passes the duration of a local root that does not wait to a policy that learns thresholds.
func (k *keeper) learn(r *record, end int64) {
	if k.learns && r.localRoot {
		var v keep.Verdict
		k.observe(&v, r, end)
	}
}
