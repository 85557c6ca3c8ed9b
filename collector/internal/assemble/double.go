package assemble

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/tare-trace/tare/span/semconv"
)

// A service that has an SDK has two spans of a request or a call: the agent's, which names the
// SDK's span that was current, and that span itself, or one below it. Where the service's rule
// says which one to keep, the other is dropped and its children become the kept one's. Both are
// kept where it is not certain that they are of the same call.

// Outcomes of an attempt to keep one of two spans: indices of Stats.Doubles.
const (
	DoubleReplaced  = iota
	DoubleAbsent    // the SDK's span has not arrived
	DoubleUncalled  // the SDK's span is of another kind: the SDK has none of this call
	DoubleShared    // several spans of the agent name it: it may be around another call
	DoubleUnrelated // it is not of the same request: their parents are not of one call
	DoubleCyclic    // spans would be each other's ancestors
	doubleOutcomes
)

// DoubleOutcomes are the names of the outcomes.
var DoubleOutcomes = [doubleOutcomes]string{"replaced", "absent", "no_call", "shared", "unrelated", "cyclic"}

// hexID reads an id in hex; 0 if it is none.
func hexID(text string) uint64 {
	var id [8]byte
	if len(text) != 2*len(id) {
		return 0
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(id[:])
}

// awaitsDouble reports whether a span that an SDK has beside one of the agent's is still to
// come: the SDK sends its spans less often.
func (t *trace) awaitsDouble() bool {
	for i := range t.items {
		if x := &t.items[i]; x.flags&(keepSDK|keepTare) != 0 && x.sdk != 0 && t.find(x.sdk) == none {
			return true
		}
	}
	return false
}

// call identifies the spans of one kind that name the same span of an SDK.
type call struct {
	sdk  uint64
	kind uint8
}

// doubleOf finds the SDK's span of the same request or call as item i.
func (t *trace) doubleOf(i int32, named map[call]int) (double int32, outcome int) {
	x := &t.items[i]
	double = t.find(x.sdk)
	if x.sdk == 0 || double == none {
		return none, DoubleAbsent
	}
	y := &t.items[double]
	switch {
	case y.sdk != 0 || y.twin != none || x.twin != none || (x.flags|y.flags)&conflicting != 0:
		return none, DoubleUnrelated
	case x.kind != y.kind || x.kind != kindServer && x.kind != kindClient:
		return double, DoubleUncalled
	case named[call{x.sdk, x.kind}] > 1:
		return none, DoubleShared
	case x.kind == kindServer && x.parent != y.parent && (x.up == none || t.items[x.up].sdk != y.parent || y.parent == 0):
		return none, DoubleUnrelated // of one request, both have its caller above them
	}
	return double, DoubleReplaced
}

// replace drops one of each two spans of the same request or call.
func (s *shard) replace(t *trace) {
	named, by, outcomes := map[call]int{}, map[int32]int32{}, map[int32]int{}
	roots := map[int32]int32{}        // kept, and in whose place, without a parent that is there
	up := make([]int32, len(t.items)) // as parents will be
	for i := range t.items {
		if x := &t.items[i]; x.sdk != 0 {
			named[call{x.sdk, x.kind}]++
		}
		up[i] = t.items[i].up
	}
	for i := range int32(len(t.items)) {
		x := &t.items[i]
		if x.flags&(keepSDK|keepTare) == 0 || x.flags&folded != 0 {
			continue
		}
		x.span.Attributes().Remove(semconv.SDKKeep)
		double, outcome := t.doubleOf(i, named)
		outcomes[i] = outcome
		switch {
		case outcome == DoubleUncalled && x.flags&keepSDK != 0:
			up[i] = double // the SDK's span was current when the call was made
		case outcome != DoubleReplaced:
		case x.flags&keepSDK != 0:
			by[i] = double
		default:
			by[double] = i
		}
	}
	for dropped, kept := range by {
		// A server span's parent is at the other end of the connection, where the agent
		// sees further; around a client span, an SDK may have spans that only it knows.
		sdk, agent := kept, dropped
		if t.items[sdk].sdk != 0 {
			sdk, agent = dropped, kept
		}
		place := sdk
		if t.items[kept].kind == kindServer {
			place = agent
		}
		if up[kept] = t.items[place].up; up[kept] == none && place != kept {
			roots[kept] = place
		}
	}
	for i := range up {
		if kept, ok := by[up[i]]; ok {
			up[i] = kept
		}
	}
	if cyclic(up) {
		for i := range outcomes {
			outcomes[i] = DoubleCyclic
		}
		clear(by)
	} else {
		for i, to := range up {
			t.items[i].move(to, t)
		}
		for kept, place := range roots {
			x, p := &t.items[kept], &t.items[place]
			x.up, x.parent = none, p.parent
			x.span.SetParentSpanID(p.span.ParentSpanID())
		}
	}
	for _, outcome := range outcomes {
		s.stats.Doubles[outcome]++
	}
	for dropped := range by {
		t.items[dropped].flags |= folded
		s.stats.Dropped[DropDouble]++
	}
}

// move makes an item the child of another.
func (x *item) move(to int32, t *trace) {
	if to == x.up || to == none {
		return
	}
	p := &t.items[to]
	x.up, x.parent = to, p.id
	x.span.SetParentSpanID(p.span.SpanID())
}

// cyclic reports whether some item is its own ancestor.
func cyclic(up []int32) bool {
	const fresh, under, done = 0, 1, 2
	state := make([]uint8, len(up))
	for i := range up {
		at := int32(i)
		for ; at != none && state[at] == fresh; at = up[at] {
			state[at] = under
		}
		if at != none && state[at] == under {
			return true
		}
		for at = int32(i); at != none && state[at] == under; at = up[at] {
			state[at] = done
		}
	}
	return false
}
