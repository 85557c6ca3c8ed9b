package workloads

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
	"github.com/tare-trace/tare/span/semconv"
)

// traffic makes the bodies of OTLP requests as agents of two hosts send them:
// nine spans to a trace, in five services, with the agent's attributes. Body n
// holds what the first host saw of traces n and what the second saw of traces
// n-1, so that every trace arrives in two requests and has to be put together.
//
// A body is a template of which ids and times are overwritten, which costs
// little more than copying it: it is made in the load generator's loop.
type traffic struct {
	template []byte
	first    []patch // spans of the first host
	second   []patch
	base     uint64 // the template's beginning of time, ns
}

// patch says where in the template the changing parts of a span are; parent is
// -1 at a root.
type patch struct{ trace, id, parent, start, end int }

// TracesPerBody is how many traces begin with each body of a chain "collector".
const TracesPerBody = 64

// trafficServices, and on which of the two hosts each runs.
var trafficServices = []struct {
	name string
	host int
}{{"proxy", 0}, {"shop", 0}, {"redis", 1}, {"memcached", 1}, {"stock", 1}}

// hop is a span of the template's trace.
type hop struct {
	service int
	parent  int // index of the hop; -1: root
	client  bool
	name    string
	target  string
	start   time.Duration // since the trace's beginning
	length  time.Duration
}

var trafficHops = []hop{
	{0, -1, false, "GET", "/item/46044", 0, 10355 * time.Microsecond},
	{0, 0, true, "GET", "/item/46044", 15 * time.Microsecond, 10337 * time.Microsecond},
	{1, 1, false, "GET", "/item/46044", 65 * time.Microsecond, 10238 * time.Microsecond},
	{1, 2, true, "GET", "GET item:46044", 400 * time.Microsecond, 55 * time.Microsecond},
	{2, 3, false, "GET", "GET item:46044", 420 * time.Microsecond, 7 * time.Microsecond},
	{1, 2, true, "get", "get item:46044", 900 * time.Microsecond, 73 * time.Microsecond},
	{3, 5, false, "get", "get item:46044", 930 * time.Microsecond, 4 * time.Microsecond},
	{1, 2, true, "GET", "/stock/46044", 2 * time.Millisecond, 48 * time.Microsecond},
	{4, 7, false, "GET", "/stock/46044", 2020 * time.Microsecond, 7 * time.Microsecond},
}

// SpansPerTrace is how many spans each of them has.
const SpansPerTrace = 9

// SpansPerBody is how many spans a body holds, but for the first, which lacks
// the second host's.
const SpansPerBody = TracesPerBody * SpansPerTrace

// trafficStart is when the first traces start, in Unix ns.
const trafficStart = 1 << 60

func newTraffic() *traffic {
	t := &traffic{base: trafficStart}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // ids of a test's traces
	spans := make([][]*span.Span, len(trafficServices))
	for range TracesPerBody {
		var trace span.TraceID
		binary.BigEndian.PutUint64(trace[:8], rng.Uint64())
		binary.BigEndian.PutUint64(trace[8:], rng.Uint64())
		ids := make([]span.ID, len(trafficHops))
		for i, h := range trafficHops {
			binary.BigEndian.PutUint64(ids[i][:], rng.Uint64()|1)
			spans[h.service] = append(spans[h.service], h.span(trace, ids, i, t.base))
		}
	}
	for s, service := range trafficServices {
		res := &span.Resource{Service: service.name, Attrs: []span.Attr{
			span.String("host.name", fmt.Sprintf("host-%d", service.host)),
			span.String("telemetry.sdk.name", "tare"),
			span.Int("process.pid", int64(4000+s)),
			span.String("process.executable.path", "/usr/sbin/"+service.name),
		}}
		begin := len(t.template)
		rs := otlp.AppendResourceSpans(nil, res, "github.com/tare-trace/tare/agent", "1", spans[s])
		t.template = appendMessage(t.template, rs)
		for _, sp := range spans[s] {
			p := t.find(begin, sp)
			if service.host == 0 {
				t.first = append(t.first, p)
			} else {
				t.second = append(t.second, p)
			}
		}
	}
	return t
}

// appendMessage appends field 1 of an ExportTraceServiceRequest.
func appendMessage(dst, content []byte) []byte {
	dst = append(dst, 1<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(content)))
	return append(dst, content...)
}

func (h hop) span(trace span.TraceID, ids []span.ID, i int, base uint64) *span.Span {
	s := &span.Span{TraceID: trace, ID: ids[i], Kind: span.Server, Name: h.name}
	// Times tell the spans of the template apart, to be found in it.
	s.Start = base + uint64(h.start) //nolint:gosec // positive
	s.End = s.Start + uint64(h.length)
	address, port := "10.0.0.2", int64(8000+h.service)
	if h.client {
		s.Kind = span.Client
	}
	if h.parent >= 0 {
		s.Parent = ids[h.parent]
	} else {
		s.TraceState = "ot=th:0"
	}
	if h.target[0] == '/' {
		s.Attrs = append(s.Attrs, span.String("http.request.method", h.name), span.String("url.path", h.target),
			span.String("network.protocol.version", "1.1"), span.Int("http.response.status_code", 200))
		if h.client {
			s.Attrs = append(s.Attrs, span.String("url.full", "http://"+address+h.target))
		} else {
			s.Attrs = append(s.Attrs, span.String("url.scheme", "http"))
		}
	} else {
		s.Attrs = append(s.Attrs, span.String("db.system.name", trafficServices[2].name),
			span.String("db.operation.name", h.name), span.String("db.query.text", h.target))
	}
	s.Attrs = append(s.Attrs, span.String("server.address", address), span.Int("server.port", port),
		span.String("network.peer.address", address), span.Int("network.peer.port", port),
		span.Int(semconv.BytesReceived, 187), span.Int(semconv.BytesSent, 1233))
	if h.client {
		s.Attrs = append(s.Attrs, span.Bool(semconv.PeerTraced, true))
	} else {
		calls := int64(0)
		for _, other := range trafficHops {
			if other.client && other.parent == i {
				calls++
			}
		}
		s.Attrs = append(s.Attrs, span.Int(semconv.Calls, calls))
	}
	return s
}

// find finds a span's changing parts behind begin: its id is random, and what
// stands before and after it has fixed sizes (span/otlp writes the fields in
// the order of their numbers).
func (t *traffic) find(begin int, s *span.Span) patch {
	const idField = 10                                     // tag, length, 8 bytes
	id := begin + bytes.Index(t.template[begin:], s.ID[:]) // may be a child's parent first
	for !bytes.Equal(t.template[id-2-16:id-2], s.TraceID[:]) {
		id += 1 + bytes.Index(t.template[id+1:], s.ID[:])
	}
	p := patch{trace: id - 2 - 16, id: id, parent: -1}
	if !s.Parent.IsZero() {
		p.parent = id + 8 + bytes.Index(t.template[id+8:id+8+2*idField], s.Parent[:])
	}
	at := func(v uint64) int {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		return id + 8 + bytes.Index(t.template[id+8:], b[:])
	}
	p.start, p.end = at(s.Start), at(s.End)
	return p
}

// Traffic makes the bodies of a chain "collector" for a test that runs the
// collector itself: they are sent with POST and Content-Type
// application/x-protobuf. What it returns may be called by several goroutines.
func Traffic() (appendBody func(dst []byte, n uint64) []byte) { return newTraffic().AppendBody }

// AppendBody appends body n.
func (t *traffic) AppendBody(dst []byte, n uint64) []byte {
	at := len(dst)
	dst = append(dst, t.template...)
	body := dst[at:]
	now := uint64(time.Now().UnixNano()) //nolint:gosec // after 1970
	t.patch(body, t.first, n, now)
	t.patch(body, t.second, n-1, now)
	return dst
}

// patch gives the spans the ids of the traces n.
func (t *traffic) patch(body []byte, patches []patch, n, now uint64) {
	high, low, key := mix(n), mix(n^0x9e3779b97f4a7c15), mix(n+1)|1
	for i := range patches {
		p := &patches[i]
		xor(body[p.trace:], high)
		xor(body[p.trace+8:], low)
		xor(body[p.id:], key)
		if p.parent >= 0 {
			xor(body[p.parent:], key)
		}
		for _, at := range [2]int{p.start, p.end} {
			b := body[at:]
			binary.LittleEndian.PutUint64(b, now+binary.LittleEndian.Uint64(b)-t.base)
		}
	}
}

func xor(b []byte, with uint64) {
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^with)
}

// mix is a bijection that spreads (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
