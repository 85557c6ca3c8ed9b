package assemble

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// trace is what is known of one trace.
type trace struct {
	id    pcommon.TraceID
	items []item
	ids   []uint64         // of items, in the same order: what find reads
	index map[uint64]int32 // id to its first item, once there are many

	first, last int64 // when its first and last span came, ns since the epoch
	due         int64 // when it is given out, while it is in a list that says so
	bytes       int
	roots       int
	conflicts   []int32 // items with the id of another that are not its other side
	connections int     // spans that may be joined
	split       bool    // parts of it were given out
	cross       bool    // has a server span on another host than its client span
	hasMessages bool
	requests    []request

	checked int // items whose parent was found
	called  int // items that have all the calls below them that they tell of
	wanted  int // items that have the server span they want
	rooted  int // items that hang below the root
	cyclic  bool
	touched int // place in shard.touched, else none
	links   [lists]link
}

// request is a request whose span is made of its events.
type request struct {
	item  int32 // its span's
	ended int32 // the item that closes it, else none
	want  int   // messages, once it is ended
	got   int
}

// Up to here the ids of a trace are searched one by one: they lie side by side.
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

// append adds an item without any look at its id.
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
	return i
}

// verdict is what became of a span that was added.
type verdict uint8

const (
	added verdict = iota
	duplicate
	conflict // added, but another span has its id
)

// add takes a span. Two spans share an id where Zipkin's instrumentation made
// them: the client's and the server's side of one call.
func (t *trace) add(x *item) verdict {
	found := t.find(x.id)
	if found == none {
		i := t.append(x)
		if x.flags&requestBegun != 0 {
			t.begin(i)
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
			t.roots-- // it is the other one's child
		}
		t.cross = t.cross || c.origin.resource.host != s.origin.resource.host
		return added
	}
	t.items[i].flags |= conflicting
	t.items[i].flags &^= wantsServer // whose server spans are whose, nobody knows
	if len(t.conflicts) < maxConflicts {
		t.conflicts = append(t.conflicts, i)
	}
	return conflict
}

// maxConflicts is how many spans with another's id are looked at for
// duplicates: somebody may give all of them one id.
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

// parentOf finds the parent of an item. Where two spans share its id, it is the
// one of the same service, in doubt the server's.
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

// place finds the parent of item i and tells the parent; false if it is not there.
func (t *trace) place(i int) bool {
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
		p.flags |= served // a layer below makes the call: that one wants the server
	}
	return true
}

// maxKept is how many items a trace has room for that is kept for its next use.
const maxKept = 128

// reset empties a trace for its next use. What grew large is let go.
func (t *trace) reset() {
	clear(t.items)
	items, ids, index, requests := t.items[:0], t.ids[:0], t.index, t.requests[:0]
	if cap(items) > maxKept {
		items, ids, index, requests = nil, nil, nil, nil
	}
	clear(index)
	*t = trace{items: items, ids: ids, index: index, requests: requests, touched: none}
}
