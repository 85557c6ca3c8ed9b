package store

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/zeebo/xxh3"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// builder makes a chunk of spans: first all are added, in any order, then
// build sorts them by trace and lays the chunk out. It refers to the bytes that
// it was given until it is reset.
type builder struct {
	rows   []row
	hashes []uint64 // of attributes; rows say which are theirs

	traces     []traceRow
	traceOf    map[pcommon.TraceID]int32
	last       pcommon.TraceID // of the span before
	lastRow    int32
	groups     []group
	resourceIn []int32 // of the groups: index into resource
	groupOf    map[groupKey]int32
	resource   []resourceRow // by resource bytes
	resOf      map[string]int32
	names      names
	service    map[string]uint32
	opOf       map[opKey]uint32
	verdicts   map[verdict]uint32
	weights    map[float64]uint32
	edgeOf     map[edge]uint32
	states     weight.States

	// While a chunk is laid out.
	order  []int32
	byID   map[uint64]int32
	filter filterBuilder
	calls  []call
	raw    []byte
	packed []byte
}

// row is a span.
type row struct {
	field      []byte // of ScopeSpans, with its tag
	start, end uint64
	id, parent uint64
	attrs      uint32 // where its hashes begin
	attrsEnd   uint32
	trace      int32
	group      int32
	op         uint32
	service    uint32
	called     uint32 // 1 + the service that it is known to have called; 0: none, or not known
	behind     uint32 // 1 + the service that asked, of a root whose caller is not linked; 0: none, or not known
	kind       int32
	failed     bool
	late       bool
	answered   bool // a span of another service, or its server, is its child
}

func (r *row) duration() uint64 {
	if r.end < r.start {
		return 0
	}
	return r.end - r.start
}

// traceRow is what is known of a trace beside its spans.
type traceRow struct {
	id      pcommon.TraceID
	spans   int32
	verdict verdict
	weight  weight.Trace
}

type groupKey struct {
	resource int32
	scope    string
}

type resourceRow struct {
	bytes   []byte
	service uint32
	hashes  []uint64
}

type opKey struct {
	service uint32
	kind    int32
	name    string
}

// Builders keep their memory for the next chunk unless it was very large.
var builders = sync.Pool{New: func() any {
	return &builder{
		traceOf: map[pcommon.TraceID]int32{}, groupOf: map[groupKey]int32{}, resOf: map[string]int32{},
		service: map[string]uint32{}, opOf: map[opKey]uint32{}, verdicts: map[verdict]uint32{},
		weights: map[float64]uint32{}, edgeOf: map[edge]uint32{}, byID: map[uint64]int32{},
	}
}}

// keptRows bounds a builder that goes back to the pool.
const keptRows = 1 << 16

func newBuilder() *builder {
	b := builders.Get().(*builder)
	b.verdicts[verdict{}] = 0
	b.names.verdicts = append(b.names.verdicts, verdict{})
	return b
}

// release gives the builder back. Nothing of it must be in use any more.
func (b *builder) release() {
	if cap(b.rows) > keptRows || cap(b.raw) > 4<<20 {
		return
	}
	clear(b.rows)
	clear(b.traces)
	clear(b.groups)
	clear(b.resource)
	b.rows, b.hashes, b.traces, b.groups, b.resource = b.rows[:0], b.hashes[:0], b.traces[:0], b.groups[:0], b.resource[:0]
	b.resourceIn = b.resourceIn[:0]
	b.last, b.lastRow, b.states = pcommon.TraceID{}, 0, weight.States{}
	clear(b.traceOf)
	clear(b.groupOf)
	clear(b.resOf)
	clear(b.service)
	clear(b.opOf)
	clear(b.verdicts)
	clear(b.weights)
	clear(b.edgeOf)
	b.names = names{}
	builders.Put(b)
}

// addTraces adds the spans of an encoded TracesData, which must not change
// until the chunk is built.
func (b *builder) addTraces(data []byte) error {
	return eachAlong(data, func(rs []byte) error {
		var resource []byte
		err := eachField(rs, func(tag, _ uint64, _, whole []byte) error {
			if tag != wire.ResourceSpansScope {
				resource = append(resource, whole...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return eachAlong(rs, func(ss []byte) error { return b.addScope(resource, ss) }, wire.ResourceSpansScope)
	}, wire.TracesResourceSpans)
}

func (b *builder) addScope(resource, ss []byte) error {
	var scope []byte
	spans := false
	err := eachField(ss, func(tag, _ uint64, _, whole []byte) error {
		if tag == wire.ScopeSpansSpan {
			spans = true
		} else {
			scope = append(scope, whole...)
		}
		return nil
	})
	if err != nil || !spans {
		return err
	}
	g, err := b.group(resource, scope)
	if err != nil {
		return err
	}
	return b.addSpans(g, ss)
}

// addSpans adds the fields of ScopeSpans that are spans.
func (b *builder) addSpans(g int32, spans []byte) error {
	service := b.resource[b.resourceIn[g]].service
	return eachSpan(spans, func(value, whole []byte) error { return b.addSpan(g, service, value, whole) })
}

func (b *builder) group(resource, scope []byte) (int32, error) {
	r, ok := b.resOf[text(resource)]
	if !ok {
		name, hashes, err := readResource(resource)
		if err != nil {
			return 0, err
		}
		r = int32(len(b.resource))
		b.resource = append(b.resource, resourceRow{resource, indexIn(&b.names.services, b.service, name), hashes})
		b.resOf[string(resource)] = r
	}
	g, ok := b.groupOf[groupKey{r, text(scope)}]
	if !ok {
		g = int32(len(b.groups))
		b.groups = append(b.groups, group{b.resource[r].bytes, scope})
		b.resourceIn = append(b.resourceIn, r)
		b.groupOf[groupKey{r, string(scope)}] = g
	}
	return g, nil
}

// readResource returns the service's name and the hashes of the attributes of
// a ResourceSpans without scopes.
func readResource(resource []byte) (service string, hashes []uint64, err error) {
	service = UnknownService
	err = eachAlong(resource, func(kv []byte) error {
		hashes = append(hashes, xxh3.Hash(kv))
		key, value, err := keyValue(kv)
		if string(key) == "service.name" && err == nil {
			if s := nameValue(value); s != "" {
				service = s
			}
		}
		return err
	}, wire.ResourceSpansResource, wire.ResourceAttribute)
	return service, hashes, err
}

// addSpan reads what the columns need of a span.
func (b *builder) addSpan(g int32, service uint32, value, whole []byte) error {
	r := row{field: whole, group: g, service: service, attrs: uint32(len(b.hashes))}
	var trace pcommon.TraceID
	var state, name []byte
	var found own
	err := eachField(value, func(tag, v uint64, value, _ []byte) error {
		switch tag {
		case wire.SpanTraceID:
			if len(value) == len(trace) {
				copy(trace[:], value)
			}
		case wire.SpanID:
			r.id = spanID(value)
		case wire.SpanTraceState:
			state = value
		case wire.SpanParentID:
			r.parent = spanID(value)
		case wire.SpanName:
			name = nameOf(value)
		case wire.SpanKind:
			r.kind = int32(v)
		case wire.SpanStart:
			r.start = v
		case wire.SpanEnd:
			r.end = v
		case wire.SpanAttribute:
			b.hashes = append(b.hashes, xxh3.Hash(value))
			if bytes.Contains(value, ownKeys) { // cheaper than to split every attribute
				return found.read(value)
			}
		case wire.SpanStatus:
			return eachField(value, func(tag, v uint64, _, _ []byte) error {
				if tag == wire.StatusCode {
					r.failed = v == wire.StatusError
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if trace.IsEmpty() || r.id == 0 {
		return fmt.Errorf("%w: span %q of %s has no trace id or no span id", ErrInvalid, clip(name), b.names.services[service])
	}
	if found.behind != "" && r.parent == 0 && isServer(r.kind) {
		r.behind = 1 + indexIn(&b.names.services, b.service, found.behind)
	}
	r.late = found.late
	r.attrsEnd = uint32(len(b.hashes))
	r.trace = b.trace(trace)
	r.op = b.operation(&r, name)
	t := &b.traces[r.trace]
	t.spans++
	t.verdict.join(found.verdict)
	t.weight.Add(b.states.Adjusted(text(state)), r.parent == 0, found.retro)
	b.rows = append(b.rows, r)
	return nil
}

// trace returns the index of the trace.
func (b *builder) trace(id pcommon.TraceID) int32 {
	if id == b.last {
		return b.lastRow
	}
	i, ok := b.traceOf[id]
	if !ok {
		i = int32(len(b.traces))
		b.traces = append(b.traces, traceRow{id: id})
		b.traceOf[id] = i
	}
	b.last, b.lastRow = id, i
	return i
}

// operation counts the span in its operation, and returns its index.
func (b *builder) operation(r *row, name []byte) uint32 {
	i, ok := b.opOf[opKey{r.service, r.kind, text(name)}]
	if !ok {
		i = uint32(len(b.names.operations))
		o := operation{service: r.service, name: string(name), kind: r.kind, minDuration: 1<<64 - 1}
		b.names.operations = append(b.names.operations, o)
		b.opOf[opKey{r.service, r.kind, o.name}] = i
	}
	o := &b.names.operations[i]
	o.spans++
	if r.failed {
		o.errors++
	}
	if r.parent == 0 {
		o.roots++
	}
	d := r.duration()
	o.minDuration, o.maxDuration = min(o.minDuration, d), max(o.maxDuration, d)
	o.maxStart = max(o.maxStart, r.start)
	return i
}

// join takes over what v lacks.
func (v *verdict) join(w verdict) {
	if v.state == "" {
		v.state, v.reason = w.state, w.reason
	}
	if v.keep == "" {
		v.keep = w.keep
	}
}

// ownKeys is how Tare's own keys begin.
var ownKeys = []byte("tare.")

// own is what Tare's own attributes of a span say.
type own struct {
	verdict
	late   bool
	behind string
	retro  semconv.RetroSet
}

// read reads an attribute, if it is one of these.
func (o *own) read(kv []byte) error {
	key, value, err := keyValue(kv)
	if err != nil {
		return err
	}
	switch string(key) {
	case semconv.TraceState:
		o.state = nameValue(value)
	case semconv.TraceReason:
		o.reason = nameValue(value)
	case semconv.KeepReason:
		o.keep = nameValue(value)
	case semconv.Late:
		o.late = boolValue(value)
	case semconv.Behind:
		o.behind = nameValue(value)
	case semconv.Retro:
		if boolValue(value) {
			o.retro |= semconv.RetroKept
		}
	case semconv.RetroReason:
		o.retro |= semconv.RetroSetOf(stringValue(value))
	}
	return nil
}

// spanID is a span id as a number; 0 if there is none.
func spanID(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// text is b as a string, for looking up only: b changes, or goes away.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func clip(b []byte) string {
	if len(b) > 100 {
		b = b[:100]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// encode is the official encoding, on which every comparison of bytes relies.
func encode(td ptrace.Traces) ([]byte, error) {
	var m ptrace.ProtoMarshaler
	return m.MarshalTraces(td)
}
