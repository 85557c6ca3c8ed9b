package assemble

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// Outcomes of an attempt to join two traces: indices of Stats.Joins.
const (
	Joined       = iota
	Ambiguous    // several client or server spans at the same position of the stream
	Mismatched   // the server span lasts longer than the client span, or the two traces cannot be one
	Gone         // one of the two traces was emitted before
	Unregistered // too many positions are remembered
	joinOutcomes
)

// JoinOutcomes are the names of the outcomes.
var JoinOutcomes = [joinOutcomes]string{"joined", "ambiguous", "mismatched", "gone", "unregistered"}

// Bounds of the spans that wait for their other half, and of the joined traces whose
// ids are remembered, so that their late spans are found.
const (
	maxSightings = 200_000
	maxAliases   = 100_000
	// durationSlack is how much longer than its client span a server span may last,
	// because clocks run at slightly different speeds.
	durationSlack = uint64(time.Millisecond)
)

// position is a position in the stream of a connection, the same at both ends: the TCP
// sequence number counted from the beginning (ChainScope, section 3.3), and the number
// itself, because ports are soon used again.
type position struct {
	client, server netip.AddrPort
	offset         int64
	sequence       int64 // 0 with Options.Renumbered
}

// sighting is a client span, or a server span without a parent, seen at a position.
type sighting struct {
	position position
	trace    pcommon.TraceID
	id       uint64
	server   bool
}

// sight reads the position of a span; false if it has none.
func sight(trace pcommon.TraceID, x *item, e *ends) (g sighting, ok bool) {
	g.trace, g.id, g.position.offset, g.position.sequence = trace, x.id, e.offset, e.sequence
	peer, ok1 := addrPort(e.peer, e.peerPort)
	switch x.kind {
	case kindClient:
		local, ok2 := addrPort(e.local, e.localPort)
		g.position.client, g.position.server = local, peer
		return g, ok1 && ok2
	case kindServer:
		local, ok2 := addrPort(e.local, e.localPort)
		if !ok2 {
			local, ok2 = addrPort(e.server, e.serverPort)
		}
		g.position.client, g.position.server, g.server = peer, local, true
		return g, ok1 && ok2 && x.parent == 0
	}
	return g, false
}

func addrPort(address string, port int64) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(address)
	if err != nil || port <= 0 || port > 65535 {
		return netip.AddrPort{}, false
	}
	// The zone would keep the span's text in memory.
	return netip.AddrPortFrom(a.Unmap().WithZone(""), uint16(port)), true
}

// sight records where the request that is made from events (owner) was seen, and when it ended, both of which its closing
// event says: for traces of message events what Add does for spans.
func (t *trace) sight(owner, ended int32) {
	o, by := &t.items[owner], &t.items[ended]
	if o.flags&(built|onConnection) != built {
		return
	}
	var e ends
	var as item
	as.inspectAs(by.span, ptrace.SpanKind(o.kind), &e)
	g, ok := sight(t.id, o, &e)
	if !ok {
		return
	}
	o.span.SetEndTimestamp(by.span.EndTimestamp())
	o.flags |= onConnection
	t.connections++
	t.seen = append(t.seen, g)
}

// joins finds the two halves of a trace that no tag connects. The halves wait in
// their shards; joins only knows their positions. Lock order: this lock, then those
// of the shards by index.
type joins struct {
	mu        sync.Mutex
	wait      int64
	positions map[position][]sighting
	queue     []waiting // in the order in which they are due
	head      int
	aliases   map[pcommon.TraceID]pcommon.TraceID
	order     []pcommon.TraceID // ring of aliases
	slot      int
	some      atomic.Bool // aliases exist
	count     [joinOutcomes]uint64
}

type waiting struct {
	position position
	due      int64
}

func newJoins(wait time.Duration) *joins {
	return &joins{
		wait: int64(wait), positions: map[position][]sighting{},
		aliases: map[pcommon.TraceID]pcommon.TraceID{},
	}
}

// see records the positions at which spans begin.
func (j *joins) see(list []sighting, now int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range list {
		at := j.positions[g.position]
		same := false
		for _, other := range at {
			same = same || other == g // the same span, sent twice
		}
		switch {
		case same:
		case len(j.queue)-j.head >= maxSightings:
			j.count[Unregistered]++
		default:
			j.positions[g.position] = append(at, g)
			j.queue = append(j.queue, waiting{g.position, now + j.wait})
		}
	}
}

// due joins the halves that have waited long enough: no other span is expected at
// their position any more.
func (j *joins) due(a *Assembler, now int64, out *Out) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.head < len(j.queue) && j.queue[j.head].due <= now {
		p := j.queue[j.head].position
		j.head++
		at := j.positions[p]
		delete(j.positions, p)
		var client, server *sighting
		clients, servers := 0, 0
		for i := range at {
			if at[i].server {
				server = &at[i]
				servers++
			} else {
				client = &at[i]
				clients++
			}
		}
		if clients == 0 || servers == 0 {
			continue // the other half is not traced, or a tag connects it
		}
		if clients > 1 || servers > 1 {
			j.count[Ambiguous]++
			continue
		}
		j.count[j.join(a, client, server, now, out)]++
	}
	if j.head > 4096 && j.head > len(j.queue)/2 {
		j.queue = append(j.queue[:0], j.queue[j.head:]...)
		j.head = 0
	}
}

// join makes the server's trace part of the client's.
func (j *joins) join(a *Assembler, c, s *sighting, now int64, out *Out) int {
	from, to := j.resolve(s.trace), j.resolve(c.trace)
	if from == to {
		return Mismatched
	}
	x, y := a.shardOf(from), a.shardOf(to)
	a.shards[min(x, y)].mu.Lock()
	defer a.shards[min(x, y)].mu.Unlock()
	if x != y {
		a.shards[max(x, y)].mu.Lock()
		defer a.shards[max(x, y)].mu.Unlock()
	}
	half, whole := a.shards[x].traces[from], a.shards[y].traces[to]
	if half == nil || whole == nil {
		return Gone
	}
	si, ci := half.find(s.id), whole.find(c.id)
	if si == none || ci == none {
		return Gone // emitted with an earlier part
	}
	server, client := &half.items[si], &whole.items[ci]
	for i := range whole.items {
		whole.findParent(i) // sets served on client spans whose server span came by a tag
	}
	if !server.unpaired() || !client.unpaired() || len(half.conflicts) > 0 || whole.split || half.split ||
		len(whole.items)+len(half.items) > a.opts.MaxTraceSpans ||
		length(server) > length(client)+durationSlack {
		return Mismatched
	}
	for i := range half.items {
		if whole.find(half.items[i].id) != none {
			return Mismatched
		}
	}
	a.shards[y].adopt(whole, client, a.shards[x], half, server)
	j.remember(from, to)
	a.shards[y].judge(now, out)
	return Joined
}

// adopt moves the spans of half into t, whose client span caused half's server span.
func (s *shard) adopt(t *trace, client *item, other *shard, half *trace, server *item) {
	parent := client.span.SpanID()
	server.parent, server.flags = client.id, server.flags|joined
	server.span.SetParentSpanID(parent)
	server.span.SetFlags(server.span.Flags() | flagHasIsRemote | flagIsRemote)
	server.linkedBySequence()
	first, requests := int32(len(t.items)), int32(len(t.requests)) // added to the indices in half
	bytes := half.bytes
	for i := range half.items {
		x := half.items[i]
		x.span.SetTraceID(t.id)
		x.flags &^= visited
		if x.flags&built != 0 {
			x.request += requests
		}
		if x.up != none {
			x.up += first
		}
		if x.twin != none {
			x.twin += first
			if x.parent == 0 && isServer(x.kind) {
				t.roots-- // below the client span whose id it shares, but append counts it as a root
			}
		}
		t.append(&x)
	}
	for _, r := range half.requests {
		r.item += first
		t.requests = append(t.requests, r) // closed finds the closing events anew
	}
	t.bytes += bytes
	t.cross = t.cross || half.cross
	n := len(half.items)
	if since := min(half.since(other), t.since(s)); since < t.first {
		s.adopted[t] = since
	}
	other.remove(half)
	s.spans += n
	s.bytes += bytes
	if t.touched == none {
		t.touched = len(s.touched)
		s.touched = append(s.touched, t)
	}
	s.lists[settling].remove(t)
	s.lists[joinable].remove(t)
}

func (x *item) linkedBySequence() { x.span.Attributes().PutStr(semconv.LinkedBy, "sequence") }

func length(x *item) uint64 {
	start, end := uint64(x.span.StartTimestamp()), uint64(x.span.EndTimestamp())
	if end < start {
		return 0
	}
	return end - start
}

// alias returns the trace that a joined trace became part of.
func (j *joins) alias(id pcommon.TraceID) (pcommon.TraceID, bool) {
	if !j.some.Load() {
		return id, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	to := j.resolve(id)
	return to, to != id
}

// resolve follows aliases: the trace that another was joined to may be joined later.
func (j *joins) resolve(id pcommon.TraceID) pcommon.TraceID {
	for range 64 { // a cycle is not expected, but ids come from outside
		to, ok := j.aliases[id]
		if !ok {
			break
		}
		id = to
	}
	return id
}

func (j *joins) remember(from, to pcommon.TraceID) {
	if len(j.order) < maxAliases {
		j.order = append(j.order, from)
	} else {
		delete(j.aliases, j.order[j.slot])
		j.order[j.slot] = from
		j.slot = (j.slot + 1) % maxAliases
	}
	j.aliases[from] = to
	j.some.Store(true)
}

func (j *joins) counts() [joinOutcomes]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}
