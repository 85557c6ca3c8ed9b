// Package spans builds OpenTelemetry spans from the kernel side's records:
// one server span per request on an accepted socket, one client span per
// request on a connected one. Ids and parents are the kernel's; nothing is
// inferred here. It never blocks and holds a bounded number of open spans.
package spans

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// Reasons under which the builder counts losses.
const (
	LostMalformed      = "record_malformed" // a record that could not be decoded
	LostOrphan         = "record_orphaned"  // bytes of a span whose start was lost
	LostUnknownService = "service_unknown"  // a record of a service that is not known
)

// Reasons to export a span before its request is over. It is no error of the
// service, and no loss.
const (
	UnfinishedEvicted = "evicted" // too many spans were open
	UnfinishedStopped = "stopped" // the agent ends
	UnfinishedTooOld  = "too_old" // nothing was sent or received for Config.MaxAge
	UnfinishedUnseen  = "unseen"  // the kernel side cannot follow its connection any more
)

// Config of a Builder. The zero value of each field means its default.
type Config struct {
	// Resource finds the resource of a service index; nil if unknown.
	Resource func(index uint16) *span.Resource
	// Peer names the service that has an address, "" if none is known. nil: none is.
	Peer func(addr netip.Addr, port uint16) string
	// Keep says which of two spans of one request is to be kept where an SDK has its
	// own, as semconv.SDKKeep; "" for both. nil: both always.
	Keep func(index uint16) string
	// Emit receives finished spans. They are reused after it returns.
	Emit func([]*span.Span)
	// Batch is how many spans Emit receives at most, default 512. Fewer stay in the
	// CPU's cache from their first byte until they are encoded.
	Batch int
	// Lost counts what could not become a span.
	Lost func(reason string, n uint64)
	// Unfinished counts a span that is emitted before its request is over.
	Unfinished func(reason string)
	// Kept says why the trace of a span is kept that was not sampled, "" if that is another span's to say. nil: spans are sampled.
	Kept func(trace span.TraceID, id uint64, root bool) string
	// Now is the time up to which records are handed over, CLOCK_MONOTONIC, ns. nil: now.
	Now func() uint64
	// TraceState is the tracestate of roots that were sampled by a threshold.
	TraceState func(threshold uint64) string
	// MaxOpen is how many spans may be open, default 65536.
	MaxOpen int
	// Quiet is how long after the last byte of its response a span is finished, unless
	// its protocol shows that the response goes on; default 500 ms.
	Quiet time.Duration
	// MaxAge is how long a span whose response is not over may be silent, default 5 minutes.
	MaxAge time.Duration
	// Sequence gives every span its offset in the connection's stream and its
	// local address; the kernel side must have been told, too. Without it those
	// have them that may have to be joined.
	Sequence bool
	// Headers of requests, in lower case, that spans have as attributes.
	Headers []string
	// Messages says whether messages are given out, default NoMessages.
	Messages Messages
	// Peers learns who answers tags; nil: nobody wants to.
	Peers Peers
}

// Peers learns where tags arrive.
type Peers interface {
	// TagSent: a request with a tag had its response; answered says whether the peer
	// showed the mark of a traced one.
	TagSent(addr netip.Addr, port uint16, answered bool)
	// TagReceived: a request came with a tag.
	TagReceived(addr netip.Addr)
}

// lookupTime is how long a look-up of a name waits for its answer: that of the kernel
// side, and a little for records that are still to be read.
const lookupTime = (time.Duration(bpf.TareLookupLimitTARE_LOOKUP_SECONDS) + 1) * time.Second

// Builder is not safe for concurrent use.
type Builder struct {
	cfg    Config
	open   table
	done   []*span.Span
	owners []*open // of done
	free   []*open
	attrs  [][]span.Attr // of spans that were emitted
	rec    event.Record
	names  addressNames
	texts  arena
	first  prefixes
	http2  connections
	offset uint64 // wall clock minus CLOCK_MONOTONIC, ns
	built  uint64

	pushing     map[uint64]struct{} // spans of subscriptions, finished or not, on whose connection more may come
	connections map[uint64]link     // of databases' finished spans
	statements  map[preparedKey]statement

	threshold uint64 // for which state is the tracestate
	state     string
}

// open is a span in progress.
type open struct {
	state
	request  [bpf.TarePayloadStart]byte // requestN bytes of it
	response [bpf.TarePayloadHead]byte  // responseN
}

type state struct {
	span       span.Span
	id         uint64
	connection uint64 // id of the first span of those in a row on its connection
	awaits     myAwaited
	role       bpf.TareRole
	service    uint16
	flags      uint8
	family     uint8
	transport  bpf.TareTransport
	path       string // of the unix socket
	responded  bool
	localPort  uint16
	remotePort uint16
	local      [16]byte
	remote     [16]byte
	start      uint64 // CLOCK_MONOTONIC, ns, as are the next two
	last       uint64 // last byte in either direction
	answered   uint64 // last byte of the response
	sent       uint64 // bytes
	received   uint64 // bytes
	requestN   int
	responseN  int
	unlinked   uint32 // server: enum unlinked, why calls of it were not linked
	unfinished bool   // emitted before its request was over
	behind     [bpf.TareName]byte
	messages   int  // given out
	calls      int  // server: client spans begun below it
	byHeader   bool // server: one of them was linked by a correlation header
	peerTraced bool
	framing    framing // once it was needed
	chunksOpen bool    // what came last of the response does not end a body in chunks
	pushes     bool    // what follows the first bytes of the response is not counted
	offset     uint64
	sequence   uint32
	http2      uint64  // its connection
	fields     *fields // likewise; nil: none yet
}

// New makes a builder.
func New(cfg Config) *Builder {
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = 65536
	}
	if cfg.Batch == 0 {
		cfg.Batch = 512
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 500 * time.Millisecond
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = 5 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = Monotonic
	}
	if cfg.Unfinished == nil {
		cfg.Unfinished = func(string) {}
	}
	if cfg.Keep == nil {
		cfg.Keep = func(uint16) string { return "" }
	}
	if cfg.TraceState == nil {
		cfg.TraceState = func(uint64) string { return "" }
	}
	return &Builder{cfg: cfg, names: addressNames{all: map[addressKey]string{}}, offset: clockOffset(),
		http2: connections{}, connections: map[uint64]link{}, pushing: map[uint64]struct{}{}, statements: map[preparedKey]statement{}}
}

// Open is how many spans are in progress.
func (b *Builder) Open() int { return b.open.spans }

// Built is how many spans were finished.
func (b *Builder) Built() uint64 { return b.built }

// Handle takes one record as it came from the ring.
func (b *Builder) Handle(raw []byte) {
	r := &b.rec
	if err := r.Decode(raw); err != nil {
		b.cfg.Lost(LostMalformed, 1)
		return
	}
	switch r.Type {
	case bpf.TareRecordTypeTARE_START:
		b.begin(r.Start)
	case bpf.TareRecordTypeTARE_DATA:
		b.data(&r.Data)
	case bpf.TareRecordTypeTARE_PATH:
		b.path(&r.Path)
	case bpf.TareRecordTypeTARE_PUBLISHED:
		b.published(&r.Published)
	case bpf.TareRecordTypeTARE_END:
		switch o, reason := b.open.find(r.End.SpanId), bpf.TareEndReason(r.End.Reason); {
		case o == nil:
		case reason == bpf.TareEndReasonTARE_END_LOST:
			b.unfinish(o, UnfinishedUnseen)
		default:
			b.finish(o, reason, r.End.Error)
		}
		b.forget(r.End.SpanId)
	}
}

func (b *Builder) begin(s *bpf.Start) {
	if s.SpanId == 0 {
		b.headersAlone(s)
		return
	}
	if s.Ends != 0 {
		if o := b.open.find(s.Ends); o != nil {
			b.finish(o, bpf.TareEndReasonTARE_END_NEXT, 0)
		}
	}
	res := b.cfg.Resource(s.Service)
	if res == nil {
		b.cfg.Lost(LostUnknownService, 1)
		return
	}
	if b.open.spans >= b.cfg.MaxOpen {
		b.evict()
	}
	o := b.take()
	o.id, o.connection = s.SpanId, s.SpanId
	if before, ok := b.connections[s.Ends]; ok {
		o.connection, o.awaits = before.connection, before.awaits
	}
	b.forget(s.Ends)
	o.role, o.service = bpf.TareRole(s.Role), s.Service
	o.flags, o.family = s.Flags, s.Family
	o.localPort, o.remotePort = s.LocalPort, s.RemotePort
	o.local, o.remote = s.Local, s.Remote
	o.start, o.last = s.Ts, s.Ts
	o.offset, o.sequence = s.Offset, s.Sequence
	o.transport = bpf.TareTransport(s.Transport)
	o.behind = s.Behind
	if !o.has(bpf.TareStartFlagsTARE_F_HTTP2) {
		o.requestN = copy(o.request[:], s.Payload[:s.PayloadLen])
	}
	sp := &o.span
	sp.Resource = res
	binary.NativeEndian.PutUint64(sp.TraceID[:8], s.TraceHi)
	binary.NativeEndian.PutUint64(sp.TraceID[8:], s.TraceLo)
	binary.NativeEndian.PutUint64(sp.ID[:], s.SpanId)
	binary.NativeEndian.PutUint64(sp.Parent[:], s.ParentId)
	if o.has(bpf.TareStartFlagsTARE_F_HTTP2) {
		o.http2 = s.Connection
		b.headers(o, s.Payload[:s.PayloadLen], true)
	}
	if o.role == bpf.TareRoleTARE_SERVER {
		sp.Kind = span.Server
		o.received = uint64(s.Bytes)
	} else {
		sp.Kind = span.Client
		o.sent = uint64(s.Bytes)
		if caller := b.open.find(s.ParentId); caller != nil {
			caller.calls++
			caller.byHeader = caller.byHeader || o.has(bpf.TareStartFlagsTARE_F_HEADER)
		}
	}
	if s.Flags&uint8(bpf.TareStartFlagsTARE_F_ROOT) != 0 && b.cfg.Kept == nil {
		sp.TraceState = b.traceState(s.Threshold)
	}
	b.open.add(o)
	if b.cfg.Messages != NoMessages {
		b.message(o, s.Ts, s.Bytes, o.role == bpf.TareRoleTARE_CLIENT)
	}
}

// forget lets go of what was kept for the span after this one on its connection.
func (b *Builder) forget(id uint64) {
	if len(b.connections) > 0 {
		delete(b.connections, id)
	}
	if len(b.pushing) > 0 {
		delete(b.pushing, id)
	}
}

// traceState keeps the text for the threshold of the last root: it hardly changes.
func (b *Builder) traceState(threshold uint64) string {
	if b.state == "" || threshold != b.threshold {
		b.threshold, b.state = threshold, b.cfg.TraceState(threshold)
	}
	return b.state
}

func (b *Builder) data(d *event.Data) {
	o := b.open.find(d.SpanID)
	if o == nil {
		if _, ok := b.pushing[d.SpanID]; !ok {
			b.cfg.Lost(LostOrphan, 1)
		}
		return
	}
	sent := bpf.TareDirection(d.Direction)&bpf.TareDirectionTARE_SENT != 0
	if o.responded && o.pushes {
		return
	}
	if sent {
		o.sent += uint64(d.Bytes)
	} else {
		o.received += uint64(d.Bytes)
	}
	o.last = d.TS
	o.peerTraced = o.peerTraced || d.Flags&uint8(bpf.TareDataFlagsTARE_D_PEER_TRACED) != 0
	if b.cfg.Messages != NoMessages {
		b.message(o, d.TS, d.Bytes, sent)
	}
	request := sent != (o.role == bpf.TareRoleTARE_SERVER)
	if d.Flags&uint8(bpf.TareDataFlagsTARE_D_HEADERS) != 0 {
		b.headers(o, d.Payload, request)
		d.Payload = nil
	}
	if request {
		// the beginning of the request came in pieces
		o.requestN += copy(o.request[o.requestN:], d.Payload)
	} else {
		o.answered = d.TS
		if reason := uint32(d.Flags >> bpf.UnlinkedShift); reason != 0 && o.role == bpf.TareRoleTARE_SERVER {
			o.unlinked = reason
		}
		if !o.responded {
			o.responded = true
			o.responseN = copy(o.response[:], d.Payload)
			if o.pushes = isSubscription(o.request[:o.requestN]); o.pushes && len(b.pushing) < b.cfg.MaxOpen {
				b.pushing[o.id] = struct{}{}
			}
		}
		if d.Bytes > 0 {
			o.chunksOpen = bpf.TareDirection(d.Direction)&bpf.TareDirectionTARE_NO_LAST_CHUNK != 0
		}
	}
}

// finish completes a span; reason 0 means that it was quiet for long enough.
func (b *Builder) finish(o *open, reason bpf.TareEndReason, errno uint16) {
	b.open.remove(o)
	end := o.answered
	if !o.responded {
		end = o.last
	}
	o.span.Start, o.span.End, o.span.UTF8 = o.start+b.offset, end+b.offset, true
	b.takeAttrs(o)
	b.describe(o, reason, errno)
	if b.cfg.Messages == OnlyMessages {
		b.ended(o)
	}
	b.built++
	b.done = append(b.done, &o.span)
	b.owners = append(b.owners, o)
	if len(b.done) >= b.cfg.Batch {
		b.Flush()
	}
}

// Flush emits what is finished.
func (b *Builder) Flush() {
	if len(b.done) == 0 {
		return
	}
	b.cfg.Emit(b.done)
	for i, o := range b.owners {
		if len(b.attrs) < b.cfg.Batch {
			b.attrs = append(b.attrs, o.span.Attrs[:0])
		}
		o.state = state{}
		if len(b.free) < 1024 {
			b.free = append(b.free, o)
		}
		b.owners[i] = nil
		b.done[i] = nil
	}
	b.done, b.owners = b.done[:0], b.owners[:0]
}

func (b *Builder) take() *open {
	if n := len(b.free); n > 0 {
		o := b.free[n-1]
		b.free = b.free[:n-1]
		return o
	}
	return &open{}
}

// takeAttrs gives a span that is over room for its attributes: those in progress, of which there may be many, have none.
func (b *Builder) takeAttrs(o *open) {
	if n := len(b.attrs); n > 0 {
		o.span.Attrs, b.attrs = b.attrs[n-1], b.attrs[:n-1]
	} else {
		o.span.Attrs = make([]span.Attr, 0, 16)
	}
}

// unfinish emits a span before its request is over, as far as it is known.
func (b *Builder) unfinish(o *open, why string) {
	if !o.responded || o.goesOn() {
		o.unfinished = true
		b.cfg.Unfinished(why)
	}
	b.finish(o, 0, 0)
}

// evict emits some span so that another can be kept. Which one does not matter
// much: the bound is for hosts where something goes wrong already.
func (b *Builder) evict() {
	for _, s := range b.open.slots {
		if s.open != nil {
			b.unfinish(s.open, UnfinishedEvicted)
			return
		}
	}
}

// Sweep finishes spans that have been quiet since their response, and emits
// those that have waited for too long. Call it every 100 ms or so.
func (b *Builder) Sweep() {
	now := b.cfg.Now()
	if wall := clockOffset(); diff(wall, b.offset) > uint64(time.Millisecond) {
		b.offset = wall // the wall clock was set
	}
	b.open.each(func(o *open) {
		idle := time.Duration(int64(now - o.last))
		switch {
		case o.responded && idle > b.cfg.Quiet && !o.has(bpf.TareStartFlagsTARE_F_HTTP2) && !o.goesOn(): // streams have an end
			b.finish(o, 0, 0)
		case o.transport == bpf.TareTransportTARE_OVER_UDP && idle > lookupTime:
			b.finish(o, 0, 0)
		case idle > b.cfg.MaxAge:
			b.unfinish(o, UnfinishedTooOld)
		}
	})
	b.open.shrink()
	b.Flush()
}

// FinishAll emits every open span, at shutdown.
func (b *Builder) FinishAll() {
	b.open.each(func(o *open) { b.unfinish(o, UnfinishedStopped) })
	b.Flush()
}

func diff(a, b uint64) uint64 {
	if a > b {
		return a - b
	}
	return b - a
}

// Monotonic is the time by the clock of records, CLOCK_MONOTONIC, in ns.
func Monotonic() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return uint64(ts.Nano())
}

func clockOffset() uint64 { return uint64(time.Now().UnixNano()) - Monotonic() }

// addressNames caches the text of addresses; it forgets all when it has grown
// too large. Nearly all are those of few peers.
type addressNames struct {
	lately [64]addressName
	all    map[addressKey]string
}

type addressName struct {
	addressKey
	text string
}

type addressKey struct {
	addr   [16]byte
	family uint8
}

func (n *addressNames) text(addr [16]byte, family uint8) string {
	key := addressKey{addr, family}
	last := &n.lately[(addr[3]^addr[2]<<3^addr[15])%uint8(len(n.lately))]
	if last.text != "" && last.addressKey == key {
		return last.text
	}
	s, ok := n.all[key]
	if !ok {
		if len(n.all) > 8192 {
			clear(n.all)
		}
		s = addressOf(addr, family).String()
		n.all[key] = s
	}
	*last = addressName{key, s}
	return s
}

func addressOf(addr [16]byte, family uint8) netip.Addr {
	if family == unix.AF_INET6 {
		return netip.AddrFrom16(addr).Unmap()
	}
	return netip.AddrFrom4([4]byte(addr[:4]))
}
