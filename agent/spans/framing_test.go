package spans

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span/semconv"
)

const goesOn = bpf.TareDirectionTARE_NO_LAST_CHUNK

// A response that is not over is not finished by a pause. Each piece is sent as the kernel side reports it.
func TestResponsesEndByTheirFraming(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("X-Padding: 0123456789\r\n", 12)
	for name, tc := range map[string]struct {
		request string
		pieces  []string // "+": of bytes that are known not to end with the empty chunk
		open    bool
	}{
		"length, whole":           {"GET /", []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}, false},
		"length, part":            {"GET /", []string{"HTTP/1.1 200 OK\r\ncontent-length:4\r\n\r\nok"}, true},
		"length, in pieces":       {"GET /", []string{"+HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", "+ok", "+ok"}, false},
		"length, long header":     {"GET /", []string{"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n" + long}, true},
		"no length, long header":  {"GET /", []string{"+HTTP/1.1 200 OK\r\n" + long + "Content-Length: 2\r\n\r\nok"}, false},
		"malformed length":        {"GET /", []string{"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"}, false},
		"HEAD":                    {"HEAD /", []string{"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n"}, false},
		"not modified":            {"GET /", []string{"HTTP/1.1 304 Not Modified\r\nContent-Length: 200\r\n\r\n"}, false},
		"no content":              {"GET /", []string{"HTTP/1.1 204 No Content\r\n\r\n"}, false},
		"chunks, head":            {"GET /", []string{"+" + chunks}, true},
		"chunks, some":            {"GET /", []string{"+" + chunks, "+1\r\na\r\n"}, true},
		"chunks, all":             {"GET /", []string{"+" + chunks, "+1\r\na\r\n", "0\r\n\r\n"}, false},
		"chunks, end not seen":    {"GET /", []string{"+" + chunks, "1\r\na\r\n"}, false},
		"to the connection's end": {"GET /", []string{"HTTP/1.0 200 OK\r\n\r\n", "all of it"}, true},
		"early hints":             {"GET /", []string{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}, false},
		"early hints, part":       {"GET /", []string{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"}, true},
		"a tunnel":                {"CONNECT a:1", []string{"HTTP/1.1 200 OK\r\n\r\n"}, false},
		"header in pieces":        {"GET /", []string{"HTTP/1.1 200 OK\r\n", "Content-Length: 20\r\n\r\n"}, false},
		"no HTTP":                 {"*1\r\n$4\r\nPING\r\n", []string{"+PONG"}, false},
	} {
		for role, direction := range map[bpf.TareRole]bpf.TareDirection{server: sent, client: received} {
			f := newFixture(Config{Quiet: time.Nanosecond})
			now := Monotonic()
			request := tc.request
			if request[0] != '*' {
				request += " HTTP/1.1\r\n\r\n"
			}
			f.start(1, role, now, request, nil)
			for i, piece := range tc.pieces {
				known := direction
				if rest, ok := strings.CutPrefix(piece, "+"); ok && request[0] != '*' {
					piece, known = rest, direction|goesOn
				}
				n := uint32(len(piece))
				d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(known), Ts: now + uint64(i) + 1, SpanId: 1, Bytes: n}
				if i == 0 {
					d.PayloadLen = uint8(copy(d.Payload[:], piece))
				}
				f.Handle(raw(d))
			}
			f.Sweep()
			if f.Open() != 0 != tc.open {
				t.Errorf("%s, role %d: open %v, want %v", name, role, !tc.open, tc.open)
			}
			f.FinishAll()
			if len(f.spans) != 1 || f.spans[0].Duration() != uint64(len(tc.pieces)) || f.unfinished[UnfinishedStopped] == 1 != tc.open ||
				(attrs(f.spans[0])[semconv.Unfinished] == "true") != tc.open {
				t.Errorf("%s, role %d: %+v, unfinished %v", name, role, f.spans, f.unfinished)
			}
		}
	}
}

// Messages that come after a subscription's reply are no part of it, and no loss.
func TestSubscriptionsEndWithTheirReply(t *testing.T) {
	f := newFixture(Config{Quiet: time.Nanosecond})
	now := Monotonic()
	f.start(1, client, now, "*2\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n", nil)
	f.data(1, received, now+5, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
	f.data(1, received, now+50, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\na\r\n")
	f.Sweep()
	f.data(1, received, now+100, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nb\r\n")
	if len(f.spans) != 1 || f.spans[0].Duration() != 5 || attrs(f.spans[0])[semconv.BytesReceived] != "33" || len(f.lost) != 0 {
		t.Errorf("spans %+v, lost %v", f.spans, f.lost)
	}
	f.end(1, closed, 0)
	f.data(1, received, now+200, "+OK\r\n")
	if f.lost[LostOrphan] != 1 {
		t.Errorf("lost %v", f.lost)
	}
}
