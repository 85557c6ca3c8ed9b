package spans

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// encoder makes frames of one direction of a connection, as the kernel side hands
// them over: with their number in the place of the stream.
type encoder struct {
	block  bytes.Buffer
	hpack  *hpack.Encoder
	number uint32
}

func newEncoder() *encoder {
	e := &encoder{}
	e.hpack = hpack.NewEncoder(&e.block)
	return e
}

// frame has headers, given as "name", "value", in turns.
func (e *encoder) frame(change func(*http2.HeadersFrameParam), headers ...string) []byte {
	e.block.Reset()
	for i := 0; i < len(headers); i += 2 {
		_ = e.hpack.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1]})
	}
	p := http2.HeadersFrameParam{StreamID: 1, BlockFragment: e.block.Bytes(), EndHeaders: true}
	if change != nil {
		change(&p)
	}
	var out bytes.Buffer
	if err := http2.NewFramer(&out, nil).WriteHeaders(p); err != nil {
		panic(err)
	}
	frame := out.Bytes()
	binary.NativeEndian.PutUint32(frame[frameNumber:], e.number)
	e.number++
	return frame
}

// pieces cuts a frame's payload behind so many bytes: each piece has the header.
func pieces(frame []byte, at int) (first, rest []byte) {
	header := frame[:frameHeader]
	first = frame[:frameHeader+at]
	rest = append(bytes.Clone(header), frame[frameHeader+at:]...)
	rest[frameType] = bpf.FrameRest
	return first, rest
}

// exchange is a request on a connection, and its response.
func (f *fixture) exchange(id, connection uint64, role bpf.TareRole, request []byte, responses ...[]byte) map[string]string {
	f.asks(id, connection, role, request)
	for _, r := range responses {
		f.more(id, role == server, r)
	}
	f.end(id, bpf.TareEndReasonTARE_END_STREAM, 0)
	last := f.spans[len(f.spans)-1]
	got := attrs(last)
	got["name"], got["failed"] = last.Name, fmt.Sprint(last.Status == span.Error)
	return got
}

func (f *fixture) asks(id, connection uint64, role bpf.TareRole, frame []byte) {
	f.start(id, role, id, string(frame), func(s *bpf.Start) {
		s.Flags = uint8(bpf.TareStartFlagsTARE_F_HTTP2)
		s.Connection = connection
	})
}

// more is a further frame with headers.
func (f *fixture) more(id uint64, sends bool, frame []byte) {
	direction := received
	if sends {
		direction = sent
	}
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(direction), Ts: id + 1, SpanId: id, Bytes: uint32(len(frame)),
		Flags: uint8(bpf.TareDataFlagsTARE_D_HEADERS | bpf.TareDataFlagsTARE_D_FIRST)}
	d.PayloadLen = uint8(copy(d.Payload[:], frame))
	f.Handle(raw(d))
}

func get(path string) []string {
	return []string{":method", "GET", ":scheme", "http", ":path", path, ":authority", "shop"}
}

func rpc(method string, more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "shop", "content-type", "application/grpc+proto"}, more...)
}

func want(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got[want[i]] != want[i+1] {
			t.Errorf("%s is %q, want %q in %v", want[i], got[want[i]], want[i+1], got)
		}
	}
}

func TestStreamOfHTTP(t *testing.T) {
	for _, tc := range []struct {
		role         bpf.TareRole
		status       string
		failed       string
		path, target string
	}{
		{server, "200", "false", "/cart?secret=1", "/cart"},
		{server, "404", "false", "/x", "/x"},
		{server, "503", "true", "/x", "/x"},
		{client, "200", "false", "/x", "/x"},
		{client, "404", "true", "/x", "/x"},
	} {
		f, q, r := newFixture(Config{Headers: []string{"x-request-id"}}), newEncoder(), newEncoder()
		got := f.exchange(1, 7, tc.role, q.frame(nil, append(get(tc.path), "x-request-id", "41", "cookie", "secret")...), r.frame(nil, ":status", tc.status))
		want(t, got, "name", "GET", "http.request.method", "GET", "url.path", tc.target, "network.protocol.version", "2",
			"http.response.status_code", tc.status, "failed", tc.failed, "http.request.header.x-request-id", "41", "http.request.header.cookie", "")
	}
	f, q := newFixture(Config{}), newEncoder()
	want(t, f.exchange(1, 7, server, q.frame(nil, ":method", "BREW", ":path", "/pot")), "name", "HTTP", "http.request.method", "HTTP",
		"failed", "true", "error.type", "no_response")
}

func TestStreamOfGRPC(t *testing.T) {
	const method = "shop.Cart/Add"
	for _, tc := range []struct {
		number, status                 string
		failedAtServer, failedAtClient string
	}{
		{"0", "OK", "false", "false"},
		{"1", "CANCELLED", "false", "true"},
		{"2", "UNKNOWN", "true", "true"},
		{"4", "DEADLINE_EXCEEDED", "true", "true"},
		{"5", "NOT_FOUND", "false", "true"},
		{"12", "UNIMPLEMENTED", "true", "true"},
		{"13", "INTERNAL", "true", "true"},
		{"14", "UNAVAILABLE", "true", "true"},
		{"15", "DATA_LOSS", "true", "true"},
		{"16", "UNAUTHENTICATED", "false", "true"},
		{"17", "", "false", "false"}, // is not defined
		{"-1", "", "false", "false"},
		{"", "", "false", "false"},
	} {
		for role, failed := range map[bpf.TareRole]string{server: tc.failedAtServer, client: tc.failedAtClient} {
			for _, only := range []bool{false, true} {
				f, q, r := newFixture(Config{Headers: []string{"x-request-id"}}), newEncoder(), newEncoder()
				responses := [][]byte{r.frame(nil, ":status", "200", "content-type", "application/grpc"), r.frame(nil, "grpc-status", tc.number, "grpc-message", "")}
				if only { // trailers
					r = newEncoder()
					responses = [][]byte{r.frame(nil, ":status", "200", "content-type", "application/grpc", "grpc-status", tc.number)}
				}
				got := f.exchange(1, 7, role, q.frame(nil, rpc("/"+method, "x-request-id", "41")...), responses...)
				want(t, got, "name", method, "rpc.system.name", "grpc", "rpc.method", method, "rpc.response.status_code", tc.status, "failed", failed,
					"rpc.request.metadata.x-request-id", "41", "url.path", "")
			}
		}
	}
}

// Each frame refers to those before: all ways in which one can be written are followed.
func TestHeadersFollowed(t *testing.T) {
	f, q, r := newFixture(Config{}), newEncoder(), newEncoder()
	forms := map[string]func(*http2.HeadersFrameParam){
		"plain":    nil,
		"padded":   func(p *http2.HeadersFrameParam) { p.PadLength = 7 },
		"priority": func(p *http2.HeadersFrameParam) { p.Priority = http2.PriorityParam{StreamDep: 3, Weight: 5} },
		"both": func(p *http2.HeadersFrameParam) {
			p.PadLength = 60
			p.Priority = http2.PriorityParam{StreamDep: 3, Exclusive: true}
		},
	}
	id := uint64(0)
	for range 3 {
		for name, change := range forms {
			for size := range 3 {
				id++
				if size > 0 {
					q.hpack.SetMaxDynamicTableSize(uint32(512 * size))
				}
				path := fmt.Sprintf("/%s/%d", name, id)
				want(t, f.exchange(id, 7, server, q.frame(change, get(path)...), r.frame(change, ":status", "200", "server", "x")),
					"name", "GET", "url.path", path, "http.response.status_code", "200")
			}
		}
	}
	if len(f.lost) > 0 {
		t.Errorf("lost %v", f.lost)
	}
}

// A frame may come in pieces, wherever it is cut.
func TestHeadersInPieces(t *testing.T) {
	f, q, r := newFixture(Config{}), newEncoder(), newEncoder()
	for id := uint64(1); id < 40; id++ {
		path := fmt.Sprintf("/cut/%d", id)
		frame := q.frame(func(p *http2.HeadersFrameParam) { p.PadLength = 2 }, get(path)...)
		first, rest := pieces(frame, 1+int(id)%(len(frame)-frameHeader-1))
		f.asks(id, 7, client, first)
		f.more(id, true, rest)
		first, rest = pieces(r.frame(nil, ":status", "201", "x-number", path), 1)
		f.more(id, false, first)
		f.more(id, false, rest)
		f.end(id, bpf.TareEndReasonTARE_END_STREAM, 0)
		got := attrs(f.spans[len(f.spans)-1])
		want(t, got, "url.path", path, "http.response.status_code", "201")
	}
}

// Once headers were missed, those that refer to them are not known: a span without a name
// is better than one with another's. What is spelled out is known, and so is what refers
// to it.
func TestHeadersMissed(t *testing.T) {
	long := strings.Repeat("~", bpf.TarePayloadStart)
	for name, miss := range map[string]func(f *fixture, q *encoder){
		"of a request that is not sampled": func(_ *fixture, q *encoder) { q.frame(nil, get("/other")...) },
		"cut off":                          func(f *fixture, q *encoder) { f.exchange(2, 7, server, q.frame(nil, get("/"+long)...)) },
		"rest is missing": func(f *fixture, q *encoder) {
			first, _ := pieces(q.frame(nil, get("/pieces")...), 5)
			f.exchange(2, 7, server, first)
		},
		"beginning is missing": func(f *fixture, q *encoder) {
			_, rest := pieces(q.frame(nil, get("/pieces")...), 5)
			f.exchange(2, 7, server, rest)
		},
		"continued in other frames": func(f *fixture, q *encoder) {
			f.exchange(2, 7, server, q.frame(func(p *http2.HeadersFrameParam) { p.EndHeaders = false }, get("/")...))
		},
		"payload could not be read": func(f *fixture, q *encoder) { q.frame(nil); f.exchange(2, 7, server, nil) },
		"longer than it says": func(f *fixture, q *encoder) {
			f.exchange(2, 7, server, append(q.frame(nil, get("/")...), 0x82))
		},
		"only padding": func(f *fixture, q *encoder) {
			frame := q.frame(func(p *http2.HeadersFrameParam) { p.PadLength = 9 }, get("/")...)
			frame[frameHeader] = 255
			f.exchange(2, 7, server, frame)
		},
		"not even a priority": func(f *fixture, q *encoder) {
			frame := q.frame(nil, ":method", "GET")
			frame[frameFlags] |= flagPriority
			f.exchange(2, 7, server, frame)
		},
		"no headers at all": func(f *fixture, q *encoder) {
			frame := q.frame(nil, get("/")...)
			copy(frame[frameHeader:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
			f.exchange(2, 7, server, frame)
		},
		"a table that is too large": func(f *fixture, q *encoder) {
			f.exchange(2, 7, server, append(q.frame(nil)[:frameHeader], 0x3f, 0xff, 0xff, 0xff, 0x7f))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, q := newFixture(Config{}), newEncoder()
			want(t, f.exchange(1, 7, server, q.frame(nil, get("/first")...)), "name", "GET", "url.path", "/first")
			miss(f, q)
			for id := uint64(3); id < 6; id++ {
				want(t, f.exchange(id, 7, server, q.frame(nil, get("/first")...)), "name", "http2", "url.path", "", "http.request.method", "")
			}
			for id := uint64(6); id < 9; id++ {
				want(t, f.exchange(id, 7, server, q.frame(nil, get("/new")...)), "name", "GET", "url.path", "/new")
			}
			want(t, f.exchange(9, 7, server, q.frame(nil, get("/first")...)), "name", "http2", "url.path", "")
			// Another connection is none the worse for it.
			want(t, f.exchange(9, 8, server, newEncoder().frame(nil, get("/another")...)), "name", "GET", "url.path", "/another")
		})
	}
}

// Headers of a stream without a span keep the others' known.
func TestHeadersAlone(t *testing.T) {
	f, q, r := newFixture(Config{}), newEncoder(), newEncoder()
	alone := func(role bpf.TareRole, frame []byte) {
		f.asks(0, 7, role, frame)
	}
	for id := uint64(1); id < 4; id++ {
		path := fmt.Sprintf("/%d", id)
		first, rest := pieces(q.frame(nil, get(path)...), 3)
		alone(server, first)
		alone(server, rest)
		alone(client, r.frame(nil, ":status", "503", "x", path))
		want(t, f.exchange(id, 7, client, q.frame(nil, get(path)...), r.frame(nil, ":status", "503", "x", path)),
			"name", "GET", "url.path", path, "http.response.status_code", "503")
	}
	if len(f.spans) != 3 || len(f.lost) > 0 {
		t.Errorf("%d spans, lost %v", len(f.spans), f.lost)
	}
}

// The directions have tables of their own: of a response that is not known, the
// request still is.
func TestResponseMissed(t *testing.T) {
	f, q, r := newFixture(Config{}), newEncoder(), newEncoder()
	r.frame(nil, ":status", "599")
	want(t, f.exchange(1, 7, client, q.frame(nil, get("/a")...), r.frame(nil, ":status", "599")),
		"name", "GET", "url.path", "/a", "http.response.status_code", "", "failed", "false")
	want(t, f.exchange(2, 7, client, q.frame(nil, get("/a")...), r.frame(nil, ":status", "500")),
		"name", "GET", "url.path", "/a", "http.response.status_code", "500", "failed", "true")
}

// Connections that are older than the agent have no first block.
func TestConnectionFromTheMiddle(t *testing.T) {
	f, q := newFixture(Config{}), newEncoder()
	q.frame(nil, get("/first")...)
	want(t, f.exchange(1, 7, server, q.frame(nil, get("/first")...)), "name", "http2", "url.path", "")
	want(t, f.exchange(2, 7, server, q.frame(nil, get("/second")...)), "name", "GET", "url.path", "/second")
}

// Whatever is decoded behind headers that were missed is what was encoded, through many
// evictions and changes of the table's size; a call whose content is not known may be one
// of gRPC, and has no name.
func TestHeadersLearnedAgain(t *testing.T) {
	f, q := newFixture(Config{}), newEncoder()
	known, id := 0, uint64(0)
	for round := range 40 {
		for range round { // missed
			q.frame(nil, get(fmt.Sprintf("/missed/%d", round))...)
		}
		for n := range 20 {
			id++
			if n == 10 {
				q.hpack.SetMaxDynamicTableSize(uint32(64 << (round % 7)))
			}
			path := fmt.Sprintf("/%s/%d", strings.Repeat("x", round), n%7)
			got := f.exchange(id, 7, server, q.frame(nil, append(get(path), "x-n", fmt.Sprint(n%5))...))
			if got["name"] == "GET" {
				known++
				want(t, got, "url.path", path)
			} else {
				want(t, got, "name", "http2", "url.path", "")
			}
		}
	}
	if known < 600 {
		t.Errorf("%d of %d requests have a name", known, id)
	}
	for range 2 {
		q.frame(nil, rpc("/a/B")...)
	}
	q.frame(nil, get("/missed")...)
	want(t, f.exchange(id+1, 7, server, q.frame(nil, ":method", "POST", ":path", "/a/C", "content-type", "application/grpc+proto")), "name", "http2")
	want(t, f.exchange(id+2, 7, server, q.frame(nil, ":method", "POST", ":path", "/a/C", "content-type", "application/grpc")), "name", "a/C")
}

func TestTooManyConnections(t *testing.T) {
	f := newFixture(Config{})
	first := newEncoder()
	f.exchange(1, 1, server, first.frame(nil, get("/first")...))
	for id := uint64(2); id <= maxConnections+1; id++ {
		want(t, f.exchange(id, id, server, newEncoder().frame(nil, get("/")...)), "url.path", "/")
	}
	if n := len(f.Builder.http2); n > maxConnections {
		t.Errorf("%d connections are remembered", n)
	}
	want(t, f.exchange(9999, 1, server, first.frame(nil, get("/first")...)), "name", "http2", "url.path", "")
}

// A connection that cannot be followed any more takes its spans with it, unfinished.
func TestStreamNotSeenAnyMore(t *testing.T) {
	f, q := newFixture(Config{}), newEncoder()
	f.asks(1, 7, server, q.frame(nil, get("/")...))
	f.end(1, bpf.TareEndReasonTARE_END_LOST, 0)
	if len(f.spans) != 1 || f.spans[0].Status == span.Error || attrs(f.spans[0])[semconv.Unfinished] != "true" {
		t.Errorf("spans %+v", f.spans)
	}
	if want := map[string]uint64{UnfinishedUnseen: 1}; !maps.Equal(f.unfinished, want) {
		t.Errorf("unfinished %v, want %v", f.unfinished, want)
	}
}

func FuzzStreams(f *testing.F) {
	q, r := newEncoder(), newEncoder()
	f.Add(q.frame(nil, get("/a")...), q.frame(nil, rpc("/a.B/C", "x-request-id", "1")...), r.frame(nil, ":status", "200", "grpc-status", "1"), true)
	first, rest := pieces(newEncoder().frame(nil, get("/a")...), 3)
	f.Add(first, rest, []byte{}, false)
	f.Fuzz(func(t *testing.T, request, further, response []byte, isClient bool) {
		b := newFixture(Config{MaxOpen: 4, Headers: []string{"x-request-id"}})
		role := server
		if isClient {
			role = client
		}
		b.asks(1, 7, role, request)
		b.more(1, isClient, further)
		b.asks(2, 7, role, further)
		b.more(1, !isClient, response)
		b.more(2, !isClient, response)
		b.FinishAll()
		for _, c := range b.Builder.http2 {
			if n := len(c.request.begun) + len(c.response.begun); n > 4*bpf.TarePayloadStart {
				t.Fatalf("%d bytes are held", n)
			}
		}
		for _, s := range b.spans {
			for _, text := range append([]span.Attr{span.String("name", s.Name)}, s.Attrs...) {
				for _, c := range []byte(text.Str) {
					if c < 0x20 || c > 0x7e {
						t.Fatalf("%s holds byte %#x", text.Key, c)
					}
				}
			}
		}
	})
}
