package assemble

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// trace is a trace that waits for its spans.
type trace struct {
	id    pcommon.TraceID
	items []item
	ids   []uint64         // of items, in the same order, for find
	index map[uint64]int32 // id to its first item, once there are many items

	first, last int64 // when its first and last span arrived, ns since Assembler.epoch
	due         int64 // when it is emitted, while it is in settling or joinable
	bytes       int
	roots       int
	conflicts   []int32 // items with another's id that are not the two sides of one call
	connections int     // items that may be joined
	doubles     int     // items of which another of the same call may be kept, or be dropped
	split       bool    // parts of it were emitted
	cross       bool    // some server span is on another host than its client span
	hasMessages bool
	requests    []request
	seen        []sighting // of requests that ended, which the shard has not taken yet

	// How many items, from the first, complete has found in order.
	checked int // their parents arrived
	called  int // all the calls that they count arrived
	wanted  int // the server spans that they want arrived
	rooted  int // they lead up to the root
	cyclic  bool
	touched int // index in shard.touched, else none
	links   [lists]link
}

// request is a request whose span is made from its events.
type request struct {
	item  int32 // of its span
	ended int32 // item of its closing event, else none
	want  int   // messages, as the closing event counts them
	got   int
}

// Up to this size find scans the ids of a trace instead of using the index.
const fewSpans = 32

// find returns the first item with the id, else none.
func (t *trace) find(id uint64) int32 {
	if len(t.ids) <= fewSpans {
		for i, other := range t.ids {
			if other == id {
				return int32(i)
			}
		}
		return none
	}
	if t.index == nil {
		t.index = make(map[uint64]int32, 4*fewSpans)
	}
	if len(t.index) == 0 {
		for i, other := range t.ids {
			if _, ok := t.index[other]; !ok {
				t.index[other] = int32(i)
			}
		}
	}
	if i, ok := t.index[id]; ok {
		return i
	}
	return none
}

// append adds an item without looking for others with its id.
func (t *trace) append(x *item) int32 {
	i := int32(len(t.items))
	t.items = append(t.items, *x)
	t.ids = append(t.ids, x.id)
	if len(t.index) > 0 {
		if _, ok := t.index[x.id]; !ok {
			t.index[x.id] = i
		}
	}
	if x.parent == 0 {
		t.roots++
	}
	if x.flags&onConnection != 0 {
		t.connections++
	}
	if x.flags&(message|requestEnded) != 0 {
		t.hasMessages = true
	}
	if x.flags&(keepSDK|keepTare) != 0 {
		t.doubles++
	}
	return i
}

// verdict is the result of add.
type verdict uint8

const (
	added verdict = iota
	duplicate
	conflict // added, but another span has its id
)

// add takes a span. The client's and the server's span of one call share an id if
// Zipkin's instrumentation made them.
func (t *trace) add(x *item) verdict {
	found := t.find(x.id)
	if found == none {
		i := t.append(x)
		switch {
		case x.flags&requestBegun != 0:
			t.buildSpan(i)
		case x.flags&(requestEnded|onConnection) == requestEnded|onConnection:
			if owner := t.find(x.parent); owner != none {
				t.sight(owner, i)
			}
		}
		return added
	}
	for other := found; other != none; {
		o := &t.items[other]
		if o.is(x) {
			return duplicate
		}
		if other = o.twin; other == found {
			break
		}
	}
	for _, i := range t.conflicts {
		if o := &t.items[i]; o.id == x.id && o.is(x) {
			return duplicate
		}
	}
	i := t.append(x)
	if o := &t.items[found]; o.twin == none && sides(o.kind, x.kind) {
		client, server := found, i
		if isClient(x.kind) {
			client, server = i, found
		}
		c, s := &t.items[client], &t.items[server]
		c.twin, s.twin = server, client
		s.up = client
		c.flags |= served
		if s.parent == 0 {
			t.roots-- // it is the child of the client span
		}
		t.cross = t.cross || c.origin.resource.host != s.origin.resource.host
		return added
	}
	t.items[i].flags |= conflicting
	t.items[i].flags &^= wantsServer // a server span cannot be assigned to either of them
	if len(t.conflicts) < maxConflicts {
		t.conflicts = append(t.conflicts, i)
	}
	return conflict
}

// maxConflicts bounds the conflicting spans that are compared to find duplicates: a
// sender may give the same id to all its spans.
const maxConflicts = 64

// OTLP's span kinds.
const (
	kindServer   = 2
	kindClient   = 3
	kindProducer = 4
	kindConsumer = 5
)

func isClient(kind uint8) bool { return kind == kindClient || kind == kindProducer }
func isServer(kind uint8) bool { return kind == kindServer || kind == kindConsumer }

func sides(a, b uint8) bool { return isClient(a) && isServer(b) || isServer(a) && isClient(b) }

// parentOf finds the parent of an item. If two spans share its id, the parent is the
// one of the item's service, else the server span.
func (t *trace) parentOf(x *item) int32 {
	i := t.find(x.parent)
	if i == none {
		return none
	}
	p := &t.items[i]
	if p.twin == none {
		return i
	}
	other := &t.items[p.twin]
	here, there := p.origin.resource == x.origin.resource, other.origin.resource == x.origin.resource
	if here != there {
		if here {
			return i
		}
		return p.twin
	}
	if isServer(p.kind) {
		return i
	}
	return p.twin
}

// findParent links item i to its parent and updates the parent's counts. It returns
// false if the parent has not arrived.
func (t *trace) findParent(i int) bool {
	x := &t.items[i]
	if x.up != none || x.parent == 0 {
		return true
	}
	x.up = t.parentOf(x)
	if x.up == none {
		return false
	}
	p := &t.items[x.up]
	if x.kind == kindClient {
		p.below++
	}
	switch {
	case isServer(x.kind) && isClient(p.kind):
		p.flags |= served
		t.cross = t.cross || x.origin.resource.host != p.origin.resource.host
	case isClient(x.kind) && isClient(p.kind) && x.origin.resource == p.origin.resource:
		p.flags |= served // the inner client span makes the call, and wants the server span
	}
	return true
}

// maxKept bounds the items for which a reused trace keeps memory.
const maxKept = 128

// reset empties a trace for reuse, and releases slices that grew large.
func (t *trace) reset() {
	clear(t.items)
	clear(t.seen)
	items, ids, index, requests, seen := t.items[:0], t.ids[:0], t.index, t.requests[:0], t.seen[:0]
	if cap(items) > maxKept {
		items, ids, index, requests, seen = nil, nil, nil, nil, nil
	}
	clear(index)
	*t = trace{items: items, ids: ids, index: index, requests: requests, seen: seen, touched: none}
}
