package assemble

import (
	"math/bits"
	"strings"
)

// Reasons why a trace is incomplete, in semconv.TraceReason and in Stats.
const (
	ReasonNoRoot        = "no_root"        // every span names a parent
	ReasonSeveralRoots  = "several_roots"  // more than one span names no parent
	ReasonParentMissing = "parent_missing" // the parent of a span did not arrive
	ReasonServerMissing = "server_missing" // the peer of a client span is traced, but its server span did not arrive
	ReasonCallMissing   = "call_missing"   // a server span counted more calls than client spans arrived
	ReasonRequestOpen   = "request_open"   // events of a request are missing (events: only)
	ReasonIDConflict    = "id_conflict"    // two different spans have the same id
	ReasonCycle         = "cycle"          // spans are each other's ancestors
	ReasonSpanLimit     = "span_limit"     // the trace has too many spans and was emitted in parts
	ReasonMemory        = "memory"         // evicted before its time because memory was full
	ReasonShutdown      = "shutdown"       // emitted before its time at shutdown
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

// String lists the reasons, separated by commas.
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

// complete reports whether nothing is missing. Each check continues where it stopped
// at the last call, so that a trace that arrives in many pieces costs no more than
// one that arrives at once.
func (t *trace) complete() bool {
	if t.split || t.roots != 1 || len(t.conflicts) > 0 || t.cyclic {
		return false
	}
	for ; t.checked < len(t.items); t.checked++ {
		if !t.findParent(t.checked) {
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

// final reports whether a complete trace cannot get further spans, because each span
// says how many it has below it. The agent's spans do, an SDK's do not.
func (t *trace) final() bool {
	for i := range t.items {
		if t.items[i].silent() {
			return false
		}
	}
	return true
}

// isTree reports whether every span leads up to a root, without a cycle. A parent
// once found does not change, so each span is visited once.
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

// reasons checks the whole trace and returns everything that is missing.
func (t *trace) reasons() (r Reasons) {
	if t.split {
		// Other parts were emitted earlier; what is missing cannot be told any more.
		for i := range t.items {
			t.findParent(i)
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
		if !t.findParent(i) {
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
