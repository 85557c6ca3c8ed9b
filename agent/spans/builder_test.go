package spans

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

type fixture struct {
	*Builder
	spans      []span.Span
	lost       map[string]uint64
	unfinished map[string]uint64
}

func newFixture(cfg Config) *fixture {
	f := &fixture{lost: map[string]uint64{}, unfinished: map[string]uint64{}}
	web := &span.Resource{Service: "web"}
	cfg.Resource = func(i uint16) *span.Resource {
		if i == 1 {
			return web
		}
		return nil
	}
	cfg.Emit = func(list []*span.Span) {
		for _, s := range list {
			c := *s
			c.Attrs = slices.Clone(s.Attrs)
			if s.Prefix != nil && !slices.Equal(s.Attrs[:len(s.Prefix.Attrs)], s.Prefix.Attrs) {
				panic(fmt.Sprintf("a span with attributes %v has the prefix %v", s.Attrs, s.Prefix.Attrs))
			}
			f.spans = append(f.spans, c)
		}
	}
	cfg.Lost = func(reason string, n uint64) { f.lost[reason] += n }
	cfg.Unfinished = func(reason string) { f.unfinished[reason]++ }
	f.Builder = New(cfg)
	return f
}

func raw[T any](v T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

func (f *fixture) start(id uint64, role bpf.TareRole, ts uint64, payload string, change func(*bpf.Start)) {
	s := bpf.Start{
		Type: uint8(bpf.TareRecordTypeTARE_START), Role: uint8(role), Family: 2, Service: 1, Ts: ts, SpanId: id,
		TraceHi: 1, TraceLo: 2, LocalPort: 8080, RemotePort: 40000, Bytes: uint32(len(payload)),
		Local: [16]byte{127, 0, 0, 1}, Remote: [16]byte{10, 0, 0, 9},
	}
	s.PayloadLen = uint16(copy(s.Payload[:], payload))
	if change != nil {
		change(&s)
	}
	f.Handle(raw(s))
}

func (f *fixture) data(id uint64, direction bpf.TareDirection, ts uint64, payload string) {
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(direction), Ts: ts, SpanId: id, Bytes: uint32(len(payload))}
	d.PayloadLen = uint8(copy(d.Payload[:], payload))
	f.Handle(raw(d))
}

func (f *fixture) end(id uint64, reason bpf.TareEndReason, errno uint16) {
	f.Handle(raw(bpf.End{Type: uint8(bpf.TareRecordTypeTARE_END), Reason: uint8(reason), Error: errno, SpanId: id}))
	f.Flush()
}

const (
	server   = bpf.TareRoleTARE_SERVER
	client   = bpf.TareRoleTARE_CLIENT
	sent     = bpf.TareDirectionTARE_SENT
	received = bpf.TareDirectionTARE_RECEIVED
	next     = bpf.TareEndReasonTARE_END_NEXT
	closed   = bpf.TareEndReasonTARE_END_CLOSED
)

func attrs(s span.Span) map[string]string {
	m := map[string]string{}
	for _, a := range s.Attrs {
		m[a.Key] = a.Text()
	}
	return m
}

func TestServerSpan(t *testing.T) {
	f := newFixture(Config{TraceState: func(th uint64) string { return fmt.Sprintf("ot=th:%x", th) }})
	f.start(5, server, 1000, "POST /cart/7?secret=x HTTP/1.1\r\nHost: a\r\n", func(s *bpf.Start) {
		s.Flags = uint8(bpf.TareStartFlagsTARE_F_ROOT)
		s.Threshold = 8
	})
	f.data(5, received, 1500, "body")
	f.data(5, sent, 3000, "HTTP/1.1 201 Created\r\n")
	f.data(5, sent, 4000, "more")
	f.end(5, next, 0)
	if len(f.spans) != 1 {
		t.Fatalf("%d spans", len(f.spans))
	}
	s := f.spans[0]
	if s.Name != "POST" || s.Kind != span.Server || s.Duration() != 3000 || s.Status != span.Unset || s.TraceState != "ot=th:8" || !s.Parent.IsZero() {
		t.Errorf("span %+v", s)
	}
	want := map[string]string{
		"http.request.method": "POST", "url.path": "/cart/7", "url.scheme": "http", "http.response.status_code": "201",
		"network.protocol.version": "1.1",
		"server.address":           "127.0.0.1", "server.port": "8080", "network.peer.address": "10.0.0.9", "network.peer.port": "40000",
		"tare.bytes.received": "45", "tare.bytes.sent": "26", "tare.calls": "0",
	}
	if got := attrs(s); !maps.Equal(got, want) {
		t.Errorf("attributes %v\nwant %v", got, want)
	}
	if drift := time.Since(time.Unix(0, int64(s.Start))); drift < 0 {
		t.Errorf("began %v in the future", -drift)
	}
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		role             bpf.TareRole
		response         string
		errno            uint16
		status           span.Status
		errorType, query string
	}{
		"server 500":          {role: server, response: "HTTP/1.1 500 X", status: span.Error, errorType: "500"},
		"server 404":          {role: server, response: "HTTP/1.1 404 X", status: span.Unset},
		"client 404":          {role: client, response: "HTTP/1.1 404 X", status: span.Error, errorType: "404"},
		"client 200":          {role: client, response: "HTTP/1.1 200 X", status: span.Unset},
		"closed, no response": {role: client, status: span.Error, errorType: "no_response"},
		"reset":               {role: client, errno: 104, status: span.Error, errorType: "ECONNRESET"},
	} {
		f := newFixture(Config{})
		f.start(1, tc.role, 10, "GET / HTTP/1.1\r\n", nil)
		if tc.response != "" {
			direction := sent
			if tc.role == client {
				direction = received
			}
			f.data(1, direction, 20, tc.response)
		}
		f.end(1, closed, tc.errno)
		if got := attrs(f.spans[0])["error.type"]; got != tc.errorType || f.spans[0].Status != tc.status {
			t.Errorf("%s: status %v, error.type %q", name, f.spans[0].Status, got)
		}
	}
}

func TestIdentify(t *testing.T) {
	for _, tc := range []struct {
		request, response string
		want              facts
	}{
		{"GET /a?b=c HTTP/1.0\r\n", "HTTP/1.0 200 OK", facts{protocol: protocolHTTP, operation: "GET", target: "/a", version: "1.0", status: 200}},
		{"GET http://user:pw@host/a?b HTTP/1.1\r\n", "", facts{protocol: protocolHTTP, operation: "GET", target: "/a", version: "1.1"}},
		{"GET /cut-off", "HTTP/1.1 2", facts{protocol: protocolHTTP, operation: "GET", target: "/cut-off", cut: true, version: "1.1"}},
		{"BREW /pot HTTP/1.1\r\n", "", facts{protocol: protocolHTTP, operation: "_OTHER", original: "BREW", target: "/pot", version: "1.1"}},
		{"PROPFIND /dav?x HTTP/1.1\r\n", "HTTP/1.1 207 Multi-Status", facts{protocol: protocolHTTP, operation: "_OTHER", original: "PROPFIND", target: "/dav", version: "1.1", status: 207}},
		{"VERSION-CONTROL /a-long-path-that-is-cut-off", "HTTP/1.1 200 OK", facts{protocol: protocolHTTP, operation: "_OTHER", original: "VERSION-CONTROL", target: "/a-long-path-that-is-cut-off", cut: true, version: "1.1", status: 200}},
		{"GET /whole?quer", "HTTP/1.1 200 OK", facts{protocol: protocolHTTP, operation: "GET", target: "/whole", version: "1.1", status: 200}},
		{"GET /whole ", "HTTP/1.1 200 OK", facts{protocol: protocolHTTP, operation: "GET", target: "/whole", version: "1.1", status: 200}},
		{"get /x HTTP/1.1\r\n", "HTTP/1.1 405 Method Not Allowed", facts{protocol: protocolHTTP, operation: "_OTHER", original: "get", target: "/x", version: "1.1", status: 405}},
		{"get /x HTTP/1.1\r\n", "END\r\n", facts{protocol: protocolMemcached, operation: "get", target: "get /x"}},
		{"VRFY /x\r\n", "252 x\r\n", facts{protocol: protocolTCP}},
		{"BREW /pot HTTP/1.1\r\n", "no HTTP/1.1", facts{protocol: protocolTCP}},
		{"M(ETHOD /pot HTTP/1.1\r\n", "HTTP/1.1 400 Bad Request", facts{protocol: protocolTCP}},
		{"GET /\x1b[31m HTTP/1.1\r\n", "", facts{protocol: protocolHTTP, operation: "GET", target: "/.[31m", version: "1.1"}},
		{"*2\r\n$3\r\nGET\r\n$6\r\nitem:7\r\n", "$1\r\nx\r\n", facts{protocol: protocolRedis, operation: "GET", target: "GET item:7"}},
		{"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$6\r\nsecret\r\n", "-ERR wrong\r\n", facts{protocol: protocolRedis, operation: "SET", target: "SET k ?", failure: "ERR"}},
		{"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", "+OK\r\n", facts{protocol: protocolRedis, operation: "AUTH", target: "AUTH ?"}},
		{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nget\r\n$1\r\nb\r\n", "$1\r\nx\r\n-WRONGTYPE x\r\n", facts{protocol: protocolRedis, operation: "PIPELINE GET", target: "GET a; GET b", batch: 2, failure: "WRONGTYPE"}},
		{"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nx\r\n*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*1\r\n$4\r\nPING\r\n", "+OK\r\n+OK\r\n", facts{protocol: protocolRedis, operation: "PIPELINE", target: "SET a ?; AUTH ?; PING", batch: 3}},
		{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$9\r\nb", "", facts{protocol: protocolRedis, operation: "PIPELINE", target: "GET a; GET b"}},
		{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$", "$-1\r\n", facts{protocol: protocolRedis, operation: "PIPELINE", target: "GET a"}},
		{"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n-WRONGTYPE x\r\n",
			facts{protocol: protocolRedis, operation: "MULTI INCR", target: "MULTI; INCR a; INCR b; EXEC", batch: 2, failure: "WRONGTYPE"}},
		{"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nEXEC\r\n", "-ERR x\r\n", facts{protocol: protocolRedis, operation: "MULTI PING", target: "MULTI; PING; EXEC", batch: 1, failure: "ERR"}},
		{"*1\r\n$5\r\nMULTI\r\n", "+OK\r\n", facts{protocol: protocolRedis, operation: "MULTI", target: "MULTI"}},
		{"*1\r\n$4\r\nPING\r\n", "+PONG\r\n", facts{protocol: protocolRedis, operation: "PING", target: "PING"}},
		{"get item:7\r\n", "END\r\n", facts{protocol: protocolMemcached, operation: "get", target: "get item:7"}},
		{"set k 0 0 6\r\nsecret\r\n", "STORED\r\n", facts{protocol: protocolMemcached, operation: "set", target: "set k ?"}},
		{"get " + "x\r\n", "SERVER_ERROR out of memory\r\n", facts{protocol: protocolMemcached, operation: "get", target: "get x", failure: "SERVER_ERROR"}},
		{"mg item:7 v t\r\n", "VA 6 t60\r\nsecret\r\n", facts{protocol: protocolMemcached, operation: "mg", target: "mg item:7 ?"}},
		{"ms item:7 6 T60\r\nsecret\r\n", "HD\r\n", facts{protocol: protocolMemcached, operation: "ms", target: "ms item:7 ?"}},
		{"md item:7\r\n", "NF\r\n", facts{protocol: protocolMemcached, operation: "md", target: "md item:7"}},
		{"mn\r\n", "MN\r\n", facts{protocol: protocolMemcached, operation: "mn", target: "mn"}},
		{"ms item:7 x\r\n", "CLIENT_ERROR bad data chunk\r\n", facts{protocol: protocolMemcached, operation: "ms", target: "ms item:7 ?", failure: "CLIENT_ERROR"}},
		{"\x17\x03\x03\x00\x20abc", "", facts{protocol: protocolTLS}},
		{"", "", facts{protocol: protocolTCP}},
		{"*9999999999\r\n", "", facts{protocol: protocolTCP}},
	} {
		if got := identify(exchange{[]byte(tc.request), []byte(tc.response), len(tc.request), nil}); got != tc.want {
			t.Errorf("%q: %+v\nwant %+v", tc.request, got, tc.want)
		}
	}
}

func TestLosses(t *testing.T) {
	f := newFixture(Config{MaxOpen: 2, MaxAge: time.Nanosecond})
	f.Handle([]byte{77})
	f.data(99, sent, 1, "bytes of a span whose start was lost")
	f.start(1, server, 1, "", func(s *bpf.Start) { s.Service = 5 })
	for id := uint64(10); id < 13; id++ {
		f.start(id, server, 1, "", nil)
	}
	f.Sweep()
	want := map[string]uint64{LostMalformed: 1, LostOrphan: 1, LostUnknownService: 1}
	if !maps.Equal(f.lost, want) {
		t.Errorf("lost %v, want %v", f.lost, want)
	}
	if want := map[string]uint64{UnfinishedEvicted: 1, UnfinishedTooOld: 2}; !maps.Equal(f.unfinished, want) {
		t.Errorf("unfinished %v, want %v", f.unfinished, want)
	}
	if f.Open() != 0 || len(f.spans) != 3 {
		t.Errorf("%d open, %d emitted", f.Open(), len(f.spans))
	}
}

// A request that outlasts the agent, or that nobody asked, is no error of the service.
func TestUnfinishedIsNoError(t *testing.T) {
	f := newFixture(Config{})
	f.start(1, server, 1, "GET / HTTP/1.1\r\n", nil)
	f.start(2, client, 1, "GET / HTTP/1.1\r\n", nil)
	f.start(3, server, 1, "", func(s *bpf.Start) { s.Bytes = 0 })
	f.end(3, closed, 0)
	f.FinishAll()
	if len(f.spans) != 3 || len(f.lost) != 0 || f.unfinished[UnfinishedStopped] != 2 {
		t.Fatalf("%d spans, lost %v, unfinished %v", len(f.spans), f.lost, f.unfinished)
	}
	for i := range f.spans {
		s := &f.spans[i]
		if _, unfinished := attrs(*s)[semconv.Unfinished]; s.Status == span.Error || unfinished != (s.ID[0] != 3 && s.ID[7] != 3) {
			t.Errorf("%v: status %v, %v", s.ID, s.Status, attrs(*s))
		}
	}
}

// What was not linked, and behind whom a request begins, stands on the span.
func TestUnlinked(t *testing.T) {
	f := newFixture(Config{})
	f.start(1, server, 1, "GET / HTTP/1.1\r\n", func(s *bpf.Start) {
		s.Flags = uint8(bpf.TareStartFlagsTARE_F_ROOT | bpf.TareStartFlagsTARE_F_BEHIND)
		copy(s.Behind[:], "shop")
	})
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(sent), SpanId: 1, Ts: 2, Bytes: 9}
	d.Flags = uint8(bpf.TareDataFlagsTARE_D_FIRST) | uint8(bpf.TareUnlinkedTARE_UNLINKED_EPOLL)<<bpf.UnlinkedShift
	f.Handle(raw(d))
	f.end(1, closed, 0)
	got := attrs(f.spans[0])
	if got[semconv.Linking] != "none" || got[semconv.LinkingReason] != "epoll" || got[semconv.Behind] != "shop" {
		t.Errorf("attributes %v", got)
	}
}

func TestQuietSpansFinish(t *testing.T) {
	f := newFixture(Config{Quiet: time.Nanosecond})
	now := Monotonic()
	f.start(1, server, now, "GET / HTTP/1.1\r\n", nil)
	f.Sweep()
	if len(f.spans) != 0 {
		t.Fatal("finished before its response")
	}
	f.data(1, sent, now+1, "HTTP/1.1 200 OK")
	f.Sweep()
	if len(f.spans) != 1 || f.spans[0].Duration() != 1 {
		t.Errorf("spans %+v", f.spans)
	}
}

// A stream of messages may pause: only its end finishes it.
func TestQuietStreamsGoOn(t *testing.T) {
	f := newFixture(Config{Quiet: time.Nanosecond})
	begin := Monotonic()
	f.asks(begin, begin, client, newEncoder().frame(nil, get("/cart")...))
	for range 2 {
		f.more(begin, false, newEncoder().frame(nil, ":status", "200"))
		f.Sweep()
	}
	if len(f.spans) != 0 {
		t.Fatalf("finished before its end: %+v", f.spans)
	}
	f.end(begin, bpf.TareEndReasonTARE_END_STREAM, 0)
	if len(f.spans) != 1 || len(f.lost) != 0 {
		t.Errorf("%d spans, lost %v", len(f.spans), f.lost)
	}
}

func TestMessages(t *testing.T) {
	f := newFixture(Config{Messages: WithMessages})
	f.start(1, client, 5, "get x\r\n", nil)
	f.data(1, received, 9, "END\r\n")
	f.end(1, next, 0)
	if len(f.spans) != 3 {
		t.Fatalf("%d spans, want the span and two messages", len(f.spans))
	}
	for _, m := range f.spans[:2] {
		if m.Parent != f.spans[2].ID || m.Kind != span.Internal || m.ID == f.spans[2].ID {
			t.Errorf("message %+v", m)
		}
	}
	if f.spans[0].Name != "sent" || f.spans[1].Name != "received" {
		t.Errorf("messages %q, %q", f.spans[0].Name, f.spans[1].Name)
	}
}

// Where a request began in its connection's stream, at both ends.
func TestSequence(t *testing.T) {
	for _, c := range []struct{ all, told, want bool }{
		{all: true, told: true, want: true},
		{all: false, told: true, want: true}, // of a stream that may have to be joined
		{all: false, told: false, want: false},
	} {
		f := newFixture(Config{Sequence: c.all})
		at := func(s *bpf.Start) {
			if c.told {
				s.Offset, s.Sequence = 1<<40, 1<<31
			}
		}
		f.start(1, client, 1, "get x\r\n", at)
		f.start(2, server, 1, "get x\r\n", at)
		f.end(1, closed, 0)
		f.end(2, closed, 0)
		for _, s := range f.spans {
			a := attrs(s)
			got := [4]string{a[semconv.StreamOffset], a[semconv.StreamSequence], a["network.local.address"], a["network.local.port"]}
			if want := [4]string{"1099511627776", "2147483648", "127.0.0.1", "8080"}; c.want && got != want || !c.want && got != [4]string{} {
				t.Errorf("%+v, %v: %v", c, s.Kind, got)
			}
		}
	}
}

// peersTold is what Peers was told last.
type peersTold string

func (p *peersTold) TagSent(addr netip.Addr, port uint16, answered bool) {
	*p = peersTold(fmt.Sprintf("sent %v:%d %t", addr, port, answered))
}

func (p *peersTold) TagReceived(addr netip.Addr) { *p = peersTold(fmt.Sprintf("received %v", addr)) }

// The peer's mark may come with any message of its response.
func TestPeerTraced(t *testing.T) {
	const first, marked = uint8(bpf.TareDataFlagsTARE_D_FIRST), uint8(bpf.TareDataFlagsTARE_D_PEER_TRACED)
	for _, tc := range []struct {
		role  bpf.TareRole
		flags []uint8
		start uint8
		want  string
		told  peersTold
	}{
		{client, []uint8{first | marked}, 0, "true", "sent 10.0.0.9:40000 true"},
		{client, []uint8{first, marked}, 0, "true", "sent 10.0.0.9:40000 true"},
		{client, []uint8{first | marked, 0}, 0, "true", "sent 10.0.0.9:40000 true"},
		{client, []uint8{first, 0}, 0, "", "sent 10.0.0.9:40000 false"},
		{client, []uint8{first, 0}, uint8(bpf.TareStartFlagsTARE_F_UNTAGGED), "", ""},
		{client, nil, 0, "", ""},
		{server, []uint8{first | marked}, 0, "", ""},
		{server, []uint8{first}, uint8(bpf.TareStartFlagsTARE_F_TAG), "", "received 10.0.0.9"},
	} {
		var told peersTold
		f := newFixture(Config{Peers: &told})
		f.start(1, tc.role, 1, "get x\r\n", func(s *bpf.Start) { s.Flags = tc.start })
		for i, flags := range tc.flags {
			direction := received
			if tc.role == server {
				direction = sent
			}
			f.Handle(raw(bpf.Data{
				Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(direction), Flags: flags, Ts: uint64(2 + i), SpanId: 1, Bytes: 1,
			}))
		}
		f.end(1, next, 0)
		if got := attrs(f.spans[0])[semconv.PeerTraced]; got != tc.want || told != tc.told {
			t.Errorf("%+v: %q, told %q", tc, got, told)
		}
	}
}

// Go's server reads one byte ahead: the name comes in two pieces.
func TestRequestInPieces(t *testing.T) {
	f := newFixture(Config{})
	f.start(1, server, 1, "G", nil)
	f.data(1, received, 2, "ET /pieces HTTP/1.1\r\n")
	f.data(1, sent, 3, "HTTP/1.1 200 OK")
	f.end(1, next, 0)
	if got := attrs(f.spans[0])["url.path"]; got != "/pieces" {
		t.Errorf("url.path %q", got)
	}
}

// A start stands for the end of the span before it on the socket.
func TestStartEnds(t *testing.T) {
	f := newFixture(Config{})
	f.start(1, server, 1, "GET /a HTTP/1.1\r\n", nil)
	f.data(1, sent, 2, "HTTP/1.1 200 OK")
	f.start(2, server, 3, "GET /b HTTP/1.1\r\n", func(s *bpf.Start) { s.Ends = 1 })
	f.Flush()
	if len(f.spans) != 1 || f.spans[0].Status != span.Unset || f.Open() != 1 {
		t.Errorf("%d spans, %d open", len(f.spans), f.Open())
	}
}

// Objects are reused: nothing of one span may show up in another.
func TestReuse(t *testing.T) {
	f := newFixture(Config{})
	f.start(1, server, 1, "GET /first HTTP/1.1\r\n", func(s *bpf.Start) { s.ParentId = 77; s.Flags = 0xff })
	f.data(1, sent, 2, "HTTP/1.1 500 X")
	f.end(1, next, 0)
	f.start(2, server, 3, "", nil)
	f.data(2, sent, 4, "")
	f.end(2, next, 0)
	s := f.spans[1]
	if s.Name != "tcp" || s.Status != span.Unset || !s.Parent.IsZero() || attrs(s)["url.path"] != "" || attrs(s)["tare.linking"] != "" {
		t.Errorf("second span has something of the first: %+v", s)
	}
}

// A span names the span of an SDK that was current, and the rule for both where they are in one trace.
func TestPublished(t *testing.T) {
	trace := span.TraceID{0: 1, 8: 2} // as fixture's start has it, in the order of a little-endian host
	for name, tc := range map[string]struct {
		trace span.TraceID
		flags uint8
		id    uint64 // of the span that is told of
		keep  string
		lost  uint64
		none  bool
	}{
		"the same trace":      {trace: trace, flags: 1, id: 7, keep: semconv.KeepSDK},
		"not sampled there":   {trace: trace, flags: 2, id: 7},
		"another trace":       {trace: span.TraceID{9}, flags: 1, id: 7},
		"a span that is lost": {trace: trace, flags: 1, id: 8, lost: 1, none: true},
		"no trace":            {flags: 1, id: 7, none: true},
	} {
		f := newFixture(Config{Keep: func(index uint16) string { return map[uint16]string{1: semconv.KeepSDK}[index] }})
		f.start(7, bpf.TareRoleTARE_SERVER, 100, "GET /a HTTP/1.1\r\n", nil)
		f.Handle(raw(bpf.Published{
			Type: uint8(bpf.TareRecordTypeTARE_PUBLISHED), Flags: tc.flags, SpanId: tc.id, SdkTrace: tc.trace, SdkSpan: [8]byte{7: 5},
		}))
		f.data(7, bpf.TareDirectionTARE_SENT, 200, "HTTP/1.1 200 OK\r\n")
		f.end(7, bpf.TareEndReasonTARE_END_CLOSED, 0)
		f.Flush()
		s := f.spans[0]
		want := span.Link{TraceID: tc.trace, ID: span.ID{7: 5}, Flags: tc.flags}
		ids := map[string]string{semconv.SDKTrace: tc.trace.String(), semconv.SDKSpan: "0000000000000005", semconv.SDKKeep: tc.keep}
		if tc.none {
			want, ids = span.Link{}, map[string]string{}
		}
		have := attrs(s)
		for _, key := range []string{semconv.SDKTrace, semconv.SDKSpan, semconv.SDKKeep} {
			if have[key] != ids[key] {
				t.Errorf("%s: %s is %q, want %q", name, key, have[key], ids[key])
			}
		}
		if s.TraceID != trace || s.Link != want || f.lost[LostOrphan] != tc.lost {
			t.Errorf("%s: %+v in trace %s, lost %v", name, s.Link, s.TraceID, f.lost)
		}
	}
}

func FuzzHandle(f *testing.F) {
	fx := newFixture(Config{})
	fx.start(1, server, 1, "GET / HTTP/1.1\r\n", nil)
	f.Add(raw(bpf.Start{Type: 1, Role: 1, Service: 1}), []byte("GET /x HTTP/1.1\r\n"), []byte("HTTP/1.1 200 OK"))
	f.Add(raw(bpf.End{Type: 3}), []byte("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n"), []byte("-ERR x"))
	f.Add(raw(bpf.End{Type: 3}), []byte("GET / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: x, chunked\r\n\r\n"))
	f.Add(raw(bpf.Published{Type: 4, SpanId: 1, SdkTrace: [16]byte{1}, SdkSpan: [8]byte{1}}), []byte("GET / HTTP/1.1\r\n"), []byte(""))
	f.Fuzz(func(t *testing.T, record, request, response []byte) {
		b := newFixture(Config{MaxOpen: 4})
		b.Handle(record)
		b.start(1, server, 1, string(request[:min(len(request), bpf.TarePayloadStart)]), nil)
		b.data(1, sent, 2, string(response[:min(len(response), bpf.TarePayloadHead)]))
		b.FinishAll()
		for _, s := range b.spans {
			for _, a := range append(s.Attrs, span.String("the name", s.Name)) {
				for _, c := range []byte(a.Str) {
					if c < 0x20 || c > 0x7e {
						t.Fatalf("attribute %s holds byte %#x", a.Key, c)
					}
				}
			}
		}
	})
}

// A server span tells how many calls were begun for it while it was open.
func TestCalls(t *testing.T) {
	f := newFixture(Config{})
	below := func(parent uint64) func(*bpf.Start) { return func(s *bpf.Start) { s.ParentId = parent } }
	f.start(1, server, 1, "GET / HTTP/1.1\r\n", nil)
	f.start(2, client, 2, "get a\r\n", below(1))
	f.start(3, server, 3, "get a\r\n", below(2))
	f.start(4, client, 4, "get b\r\n", below(1))
	f.start(5, client, 5, "get c\r\n", below(99))
	for id := uint64(5); id > 0; id-- {
		f.end(id, closed, 0)
	}
	f.start(6, client, 6, "get d\r\n", below(1)) // too late
	f.end(6, closed, 0)
	for _, s := range f.spans {
		want := map[byte]string{1: "2", 3: "0"}[s.ID[0]|s.ID[7]]
		if got := attrs(s)[semconv.Calls]; got != want {
			t.Errorf("span %v: %q calls, want %q", s.ID, got, want)
		}
	}
	if len(f.spans) != 6 {
		t.Errorf("%d spans", len(f.spans))
	}
}

// A cluster names whom a call goes to, and not who calls.
func TestPeerOfACluster(t *testing.T) {
	f := newFixture(Config{Peer: func(a netip.Addr, port uint16) string {
		return fmt.Sprintf("service of %s:%d", a, port)
	}})
	for id, role := range map[uint64]bpf.TareRole{1: server, 2: client} {
		f.start(id, role, 1000, "GET / HTTP/1.1\r\n\r\n", nil)
		f.data(id, map[bpf.TareRole]bpf.TareDirection{server: sent, client: received}[role], 2000, "HTTP/1.1 200 OK\r\n\r\n")
		f.end(id, closed, 0)
	}
	got := map[span.Kind]string{}
	for _, s := range f.spans {
		for _, a := range s.Attrs {
			if a.Key == "peer.service" {
				got[s.Kind] = a.Text()
			}
		}
	}
	if want := map[span.Kind]string{span.Client: "service of 10.0.0.9:40000"}; len(f.spans) != 2 || !maps.Equal(got, want) {
		t.Errorf("%d spans, %v, want %v", len(f.spans), got, want)
	}
}
