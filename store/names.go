package store

import (
	"encoding/binary"
	"math"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// UnknownService is the name of a service whose resource has none, as in the
// semantic conventions.
const UnknownService = "unknown_service"

// names are the dictionaries of a chunk.
type names struct {
	services   []string
	operations []operation
	verdicts   []verdict // the first is empty
	weights    []float64 // as storedWeight writes them
	edges      []edge
}

// operation is a span name of a service, with what its spans are like, so that
// a search can tell from here that none matches.
type operation struct {
	service     uint32 // index into services
	name        string
	kind        int32
	spans       uint32
	errors      uint32
	roots       uint32
	minDuration uint64
	maxDuration uint64
	maxStart    uint64
}

// isEntry reports whether its spans are requests that the service answers:
// those by which its latency is judged, besides roots.
func (o *operation) isEntry() bool {
	return o.kind == int32(ptrace.SpanKindServer) || o.kind == int32(ptrace.SpanKindConsumer)
}

// verdict is what the collector found out about a trace.
type verdict struct{ state, reason, keep string }

// storedWeight is a number of names.weights: 0 if spans say nothing, else 1/probability, or, of a trace that was kept
// retroactively, its reasons as the bits of a number below all normal ones. So the layout stays the same, and an earlier
// version of this package adds such a trace with a weight below 10^-300.
func storedWeight(t weight.Trace) float64 {
	if kept := t.Kept(); kept != 0 {
		return math.Float64frombits(uint64(kept))
	}
	return t.Adjusted
}

// weightOf is the inverse of storedWeight.
func weightOf(stored float64) weight.Trace {
	if b := math.Float64bits(stored); b <= math.MaxUint16 {
		return weight.Trace{Retro: semconv.RetroSet(b)}
	}
	return weight.Trace{Adjusted: stored}
}

// retroBit is in zone.states if a trace was kept retroactively.
const retroBit = 32

// stateBit is the trace state's bit in zone.states; all unknown states share one.
func stateBit(state string) uint32 {
	switch state {
	case "":
		return 1
	case semconv.StateComplete:
		return 2
	case semconv.StateIncomplete:
		return 4
	case semconv.StateUnlinked:
		return 16
	}
	return 8
}

// How an edge is stored.
const (
	edgeTraced = 1 << iota
	edgeBehind
)

// edge is a caller and a callee.
type edge struct {
	from   uint32 // index into services
	to     string
	traced bool
	behind bool // measured by the callee's request, as the caller's calls are not linked
}

func (n *names) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(n.services)))
	for _, s := range n.services {
		b = appendBytes(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(n.operations)))
	for i := range n.operations {
		o := &n.operations[i]
		b = appendBytes(b, o.name)
		for _, v := range []uint64{
			uint64(o.service), uint64(uint32(o.kind)), uint64(o.spans), uint64(o.errors), uint64(o.roots),
			o.minDuration, o.maxDuration, o.maxStart,
		} {
			b = binary.AppendUvarint(b, v)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(n.verdicts)))
	for _, v := range n.verdicts {
		b = appendBytes(appendBytes(appendBytes(b, v.state), v.reason), v.keep)
	}
	b = binary.AppendUvarint(b, uint64(len(n.weights)))
	for _, w := range n.weights {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(w))
	}
	b = binary.AppendUvarint(b, uint64(len(n.edges)))
	for _, e := range n.edges {
		b = binary.AppendUvarint(b, uint64(e.from))
		b = appendBytes(b, e.to)
		how := byte(0)
		if e.traced {
			how |= edgeTraced
		}
		if e.behind {
			how |= edgeBehind
		}
		b = append(b, how)
	}
	return b
}

// size is about how much memory the names take, in bytes.
func (n *names) size() int64 {
	sum := 72*len(n.operations) + 40*len(n.edges) + 16*len(n.services) + 48*len(n.verdicts) + 8*len(n.weights)
	for _, s := range n.services {
		sum += len(s)
	}
	for i := range n.operations {
		sum += len(n.operations[i].name)
	}
	for _, v := range n.verdicts {
		sum += len(v.state) + len(v.reason) + len(v.keep)
	}
	for _, e := range n.edges {
		sum += len(e.to)
	}
	return int64(sum)
}

// parseNames reads what append wrote, but for names that are longer than text.MostName, which are cut as those that
// arrive (short): the cost of a query does not depend on how long a name somebody sent.
func parseNames(b []byte) (_ *names, short bool, err error) {
	d := decoder{b: b}
	n := &names{}
	n.services = make([]string, d.count(1))
	for i := range n.services {
		n.services[i] = d.name()
	}
	n.operations = make([]operation, d.count(9))
	for i := range n.operations {
		o := operation{
			name: d.name(), service: d.uint32(), kind: int32(d.uint32()), spans: d.uint32(), errors: d.uint32(),
			roots: d.uint32(), minDuration: d.uint64(), maxDuration: d.uint64(), maxStart: d.uint64(),
		}
		if int(o.service) >= len(n.services) {
			return nil, false, corrupt("an operation of service %d of %d", o.service, len(n.services))
		}
		n.operations[i] = o
	}
	n.verdicts = make([]verdict, d.count(3))
	for i := range n.verdicts {
		n.verdicts[i] = verdict{d.name(), d.name(), d.name()}
	}
	n.weights = make([]float64, d.count(8))
	for i := range n.weights {
		n.weights[i] = d.float64()
	}
	n.edges = make([]edge, d.count(3))
	for i := range n.edges {
		e := edge{from: d.uint32(), to: d.name()}
		how := d.take(1)
		if d.bad || int(e.from) >= len(n.services) {
			return nil, false, corrupt("a call from service %d of %d", e.from, len(n.services))
		}
		e.traced, e.behind = how[0]&edgeTraced != 0, how[0]&edgeBehind != 0
		n.edges[i] = e
	}
	return n, d.short, d.done("names of a chunk")
}
