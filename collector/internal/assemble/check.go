package assemble

import (
	"math/bits"
	"strings"
)

// Reasons why a trace is incomplete, in span.KeyTraceReason and in Stats.
const (
	ReasonNoRoot        = "no_root"        // every span has a parent
	ReasonSeveralRoots  = "several_roots"  // more than one has none
	ReasonParentMissing = "parent_missing" // a span's parent did not come
	ReasonServerMissing = "server_missing" // a client span towards a traced service has no server span
	ReasonCallMissing   = "call_missing"   // a server span tells of more calls than there are client spans below it
	ReasonRequestOpen   = "request_open"   // events of a request, and not all of them (events: only)
	ReasonIDConflict    = "id_conflict"    // two different spans have one id
	ReasonCycle         = "cycle"          // spans that are each other's ancestors
	ReasonSpanLimit     = "span_limit"     // a part of a trace with too many spans
	ReasonMemory        = "memory"         // given out early to make room
	ReasonShutdown      = "shutdown"       // given out early at the end
)

// Reasons is a set of reasons.
type Reasons uint16

const (
	noRoot Reasons = 1 << iota
	severalRoots
	parentMissing
	serverMissing
	callMissing
	requestOpen
	idConflict
	cycle
	spanLimit
	memory
	shutdown
)

var reasonNames = [...]string{
	ReasonNoRoot, ReasonSeveralRoots, ReasonParentMissing, ReasonServerMissing, ReasonCallMissing, ReasonRequestOpen,
	ReasonIDConflict, ReasonCycle, ReasonSpanLimit, ReasonMemory, ReasonShutdown,
}

// String is the reasons with commas between.
func (r Reasons) String() string {
	if r != 0 && r&(r-1) == 0 {
		return reasonNames[bits.TrailingZeros16(uint16(r))]
	}
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// complete reports whether nothing is missing. It goes on where it stopped the
// last time, so that a trace that comes in many pieces costs no more than one
// that comes whole.
func (t *trace) complete() bool {
	if t.split || t.roots != 1 || len(t.conflicts) > 0 || t.cyclic {
		return false
	}
	for ; t.checked < len(t.items); t.checked++ {
		if !t.place(t.checked) {
			return false
		}
	}
	if len(t.requests) > 0 && !t.closed() {
		return false
	}
	for ; t.wanted < len(t.items); t.wanted++ {
		if t.items[t.wanted].flags&(wantsServer|served) == wantsServer {
			return false
		}
	}
	for ; t.called < len(t.items); t.called++ {
		if x := &t.items[t.called]; x.below < x.calls {
			return false
		}
	}
	return t.isTree()
}

// sure reports whether a complete trace cannot have more spans than it has: all
// of them tell what is below them, as the agent's do. Spans of an SDK do not.
func (t *trace) sure() bool {
	for i := range t.items {
		if t.items[i].silent() {
			return false
		}
	}
	return true
}

// isTree follows every span up to where nothing is above it. A parent that was
// found stays the parent, so nothing is looked at twice.
func (t *trace) isTree() bool {
	for ; t.rooted < len(t.items) && !t.cyclic; t.rooted++ {
		steps := 0
		for at := int32(t.rooted); at != none && t.items[at].flags&visited == 0; at = t.items[at].up {
			if steps++; steps > len(t.items) {
				t.cyclic = true
				return false
			}
		}
		for at := int32(t.rooted); at != none && t.items[at].flags&visited == 0; at = t.items[at].up {
			t.items[at].flags |= visited
		}
	}
	return !t.cyclic
}

// reasons is everything that a trace misses. It looks at all of it.
func (t *trace) reasons() (r Reasons) {
	if t.split {
		// Where its other parts are, nobody knows what is missing.
		for i := range t.items {
			t.place(i)
		}
		return spanLimit
	}
	switch {
	case t.roots == 0:
		r |= noRoot
	case t.roots > 1:
		r |= severalRoots
	}
	if len(t.conflicts) > 0 {
		r |= idConflict
	}
	for i := range t.items {
		if !t.place(i) {
			r |= parentMissing
		}
	}
	if len(t.requests) > 0 && !t.closed() {
		r |= requestOpen
	}
	for i := range t.items {
		if t.items[i].flags&(wantsServer|served) == wantsServer {
			r |= serverMissing
		}
		if t.items[i].below < t.items[i].calls {
			r |= callMissing
		}
	}
	if !t.isTree() {
		r |= cycle
	}
	return r
}
