//go:build cgo

package hosttest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestTagRoundTrip(t *testing.T) {
	check := func(c TagContext, offset uint16) bool {
		c.TraceID[3], c.SpanID[5], c.Flags, c.Pad = c.TraceID[3]|1, c.SpanID[5]|1, 0, 0 // never zero
		wire := EncodeTag(c, uint32(offset))
		got, off, result := DecodeTag(wire)
		wantLen := 26
		if offset != 0 {
			wantLen = 28
		}
		return result == TagOK && got == c && off == uint32(offset) &&
			wire[0] == 25 && int(wire[1]) == len(wire) && len(wire) == wantLen
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

// A tag of a retro request is read as that, and as not sampled by who knows none.
func TestRetroTagRoundTrip(t *testing.T) {
	check := func(c TagContext, offset uint16, adopted bool) bool {
		c.TraceID[3], c.TraceID[11], c.SpanID[5], c.Flags, c.Pad = c.TraceID[3]|1, c.TraceID[11]|1, c.SpanID[5]|1, FlagRetro, 0
		if !adopted {
			c.Derive()
		}
		wire := EncodeTag(c, uint32(offset))
		if adopted && offset != 0 {
			return len(wire) == 0 // no room for such a trace id
		}
		got, off, result := DecodeTag(wire)
		head := []byte{25, 27}
		if offset != 0 {
			head = []byte{253, 22, 0x54, 0x63}
		}
		return result == TagUnsampled && got == c && off == uint32(offset) && bytes.HasPrefix(wire, head) && len(wire) == int(wire[1])
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if c, _, result := DecodeTag(append([]byte{253, 22, 0x54, 0x63, 1}, make([]byte, 17)...)); result != TagMalformed {
		t.Errorf("without a span: %v, %+v", result, c)
	}
}

// The two forms of OpenTelemetry eBPF Instrumentation, byte by byte.
func TestTagOfOBI(t *testing.T) {
	ids := "0af7651916cd43dd8448eb211c80319c" + "b7ad6b7169203331"
	for _, tc := range []struct {
		name, option string
		want         int
	}{
		{"26 bytes, sampled implied", "191a" + ids, TagOK},
		{"27 bytes, sampled", "191b" + ids + "01", TagOK},
		{"27 bytes, sampled and random", "191b" + ids + "03", TagOK},
		{"27 bytes, not sampled", "191b" + ids + "00", TagUnsampled},
	} {
		raw, _ := hex.DecodeString(tc.option)
		c, offset, result := DecodeTag(raw)
		if result != tc.want || offset != 0 {
			t.Errorf("%s: result %d, offset %d", tc.name, result, offset)
		}
		if got := hex.EncodeToString(c.TraceID[:]) + hex.EncodeToString(c.SpanID[:]); got != ids {
			t.Errorf("%s: ids %s", tc.name, got)
		}
	}
}

func TestStreamsRoundTrip(t *testing.T) {
	check := func(first uint32, count uint16, codes [20]byte) bool {
		s := Streams{First: first>>1 | 1, Count: uint32(count)}
		want := []byte{253, 10, 0x54, 0x62, byte(s.First >> 24), byte(s.First >> 16), byte(s.First >> 8), byte(s.First), byte(count >> 8), byte(count)}
		if count == 0 {
			codes[0] %= 11
			copy(s.Codes[:], codes[:])
			want = append([]byte{253, 28}, append(want[2:8:8], codes[:]...)...)
		}
		wire := EncodeStreams(s)
		got, result := DecodeStreams(wire)
		return result == TagOK && got == s && bytes.Equal(wire, want)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if err := quick.Check(func(first uint32, codes [20]byte) bool { return check(first, 0, codes) }, nil); err != nil {
		t.Error(err)
	}
}

// Streams of every density are the same behind the wire, and of sparse ones more have
// room.
func TestStreamsCodes(t *testing.T) {
	for _, tc := range []struct {
		rate float64
		span int // of streams that must have room, so many of them sampled, in nine of ten segments
	}{{1, 152}, {0.9, 140}, {0.5, 110}, {0.25, 140}, {0.1, 220}, {0.01, 1000}, {0.001, 4000}} {
		rnd, short := rand.New(rand.NewPCG(1, 2)), 0
		for range 500 {
			var streams []uint32
			for stream := uint32(2*rnd.IntN(1000) + 1); len(streams) < 2 || stream < streams[0]+uint32(2*tc.span); stream += 2 {
				if rnd.Float64() < tc.rate {
					streams = append(streams, stream)
				}
			}
			s, result := DecodeStreams(EncodeStreams(CodeStreams(streams)))
			got := s.Coded()
			if result != TagOK || len(got) == 0 || !slices.Equal(got, streams[:len(got)]) {
				t.Fatalf("%v: %v of %v", tc.rate, got, streams)
			}
			if len(got) < len(streams) {
				short++
			}
		}
		if short > 50 {
			t.Errorf("%v sampled: %d of 500 segments have no room for %d streams", tc.rate, short, tc.span)
		}
	}
}

// Whatever comes names streams in order, or none. (Behind the last number that a stream
// may have, they are of no stream.)
func FuzzStreamsCodes(f *testing.F) {
	for _, first := range []string{"\x00\x00\x00\x01", "\x00\x00\x00\x07", "\x7f\xff\xff\xff"} {
		f.Add([]byte("\xfd\x1c\x54\x62" + first + "\x03\xff\x10" + strings.Repeat("\x00", 17)))
	}
	f.Fuzz(func(t *testing.T, option []byte) {
		s, result := DecodeStreams(option[:min(len(option), 28)])
		if result != TagOK || s.Count > 0 {
			return
		}
		last := int64(s.First) - 2
		for _, stream := range s.Coded() {
			if int64(stream) <= last || stream%2 == 0 {
				t.Fatalf("stream %d behind %d", stream, last)
			}
			last = int64(stream)
		}
	})
}

func TestStreamsMalformed(t *testing.T) {
	good := EncodeStreams(Streams{First: 7, Count: 2})
	for length := range 256 {
		option := append(slices.Clone(good), make([]byte, 18)...)
		option[1] = byte(length)
		want := TagMalformed
		if length == 10 || length == 28 {
			want = TagOK
		}
		if _, result := DecodeStreams(option); result != want {
			t.Errorf("length %d: result %d, want %d", length, result, want)
		}
	}
	codes := EncodeStreams(CodeStreams([]uint32{7, 11}))
	codes[8] = 11
	if _, result := DecodeStreams(codes); result != TagMalformed {
		t.Errorf("a parameter of 11: result %d", result)
	}
	for name, change := range map[string]func([]byte){
		"other kind":              func(o []byte) { o[0] = 25 },
		"a mark":                  func(o []byte) { o[3] = 0x61 },
		"a server's stream":       func(o []byte) { o[7] = 8 },
		"no stream":               func(o []byte) { o[7] = 0 },
		"more than 31 bits of id": func(o []byte) { o[4] = 0x80 },
	} {
		option := slices.Clone(good)
		change(option)
		if _, result := DecodeStreams(option); result != TagMalformed {
			t.Errorf("%s: result %d", name, result)
		}
	}
}

func TestTagMalformed(t *testing.T) {
	ids := bytes.Repeat([]byte{7}, 24)
	for length := 0; length <= 255; length++ {
		option := append([]byte{25, byte(length)}, append(ids, 1, 1)...)
		_, _, result := DecodeTag(option)
		want := TagMalformed
		if length >= 26 && length <= 28 {
			want = TagOK
		}
		if result != want {
			t.Errorf("length %d: result %d, want %d", length, result, want)
		}
	}
	zeroTrace := append([]byte{25, 26}, append(make([]byte, 16), ids[:8]...)...)
	zeroSpan := append([]byte{25, 26}, append(ids[:16:16], make([]byte, 8)...)...)
	for name, option := range map[string][]byte{"zero trace id": zeroTrace, "zero span id": zeroSpan, "other kind": append([]byte{24, 26}, ids...)} {
		if _, _, result := DecodeTag(option); result != TagMalformed {
			t.Errorf("%s: result %d", name, result)
		}
	}
}

func TestPayloadKind(t *testing.T) {
	for text, want := range map[string]int{
		"GET / HTTP/1.1":                HTTPRequest,
		"POST /x HTTP/1.1":              HTTPRequest,
		"DELETE /x HTTP/1.1":            HTTPRequest,
		"HTTP/1.1 200 OK":               HTTPResponse,
		"HTTP/1.1 100 Continue":         HTTPInterim,
		"HTTP/1.1 103 Early Hints":      HTTPInterim,
		"HTTP/1.1 101 Switching":        HTTPSwitch,
		"\x16\x03\x01\x02\x00\x01":      TLSHandshake,
		"\x14\x03\x03\x00\x01\x01":      TLSHandshake,
		"\x17\x03\x03\x00\x35\x01":      TLSData,
		"\x17\x03\x03\x00\x13\x01":      TLSHandshake, // an alert
		"P":                             HTTPPiece,
		"GET":                           HTTPPiece,
		"*1\r\n$4\r\nPING\r\n":          Other,
		"get item:1\r\n":                Other,
		"":                              Other,
		"GETX/":                         Other,
		"\x00\x00\x00\x00\x00\x00\x00x": Other,
	} {
		if got := PayloadKind([]byte(text)); got != want {
			t.Errorf("%q: kind %d, want %d", text, got, want)
		}
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c, sampled, ok := Traceparent([]byte(good))
	if !ok || !sampled || hex.EncodeToString(c.TraceID[:]) != good[3:35] || hex.EncodeToString(c.SpanID[:]) != good[36:52] {
		t.Fatalf("%s: %x sampled %v ok %v", good, c, sampled, ok)
	}
	if _, sampled, ok := Traceparent([]byte(good[:54] + "0")); !ok || sampled {
		t.Error("flags 00: must be read, and say not sampled")
	}
	for _, bad := range []string{
		"", "00", "ff" + good[2:], strings.ToUpper(good), strings.Replace(good, "-", "_", 1),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		good[:54] + "g", good[:53] + "/0", strings.Replace(good, "a", "`", 1), strings.Replace(good, "a", ":", 1),
	} {
		if _, _, ok := Traceparent([]byte(bad)); ok {
			t.Errorf("%q was believed", bad)
		}
	}
	// every byte in every place against the grammar
	for at := range len(good) {
		for b := range 256 {
			text := []byte(good)
			text[at] = byte(b)
			if _, _, ok := Traceparent(text); ok != (grammar.Match(text) && string(text[:2]) != "ff") {
				t.Fatalf("%q: believed %v", text, ok)
			}
		}
	}
}

// W3C trace context 3.2 and 4.1; the version ff and all-zero ids are excluded besides.
var grammar = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// The W3C's rules, as a whole request; the libraries are held against the same table.
func TestSpecificationTraceparent(t *testing.T) {
	text, err := os.ReadFile("../../otel/lean/w3c/testdata/traceparent.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Name, Header, Flags string }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		want := c.Flags != ""
		for _, where := range []string{"%s\r\nHost: x\r\nAccept: */*\r\n", "Host: x\r\n%s\r\n", strings.Repeat("X: 1234567\r\n", 40) + "%s\r\n", strings.Repeat("X: 1234567\r\n", 1000) + "%s\r\n"} {
			request := "GET / HTTP/1.1\r\n" + fmt.Sprintf(where, c.Header) + "\r\n"
			got, sampled, ok := FindTraceparent([]byte(request))
			if ok != want || ok && (!sampled || got.TraceID[0] != 0x12 || got.SpanID[7] != 0x56) {
				t.Errorf("%s: found %t, want %t\n%q", c.Name, ok, want, request)
			}
		}
	}
	// A body is no header.
	body := "POST / HTTP/1.1\r\ntraceparent: 00-12345678901234567890123456789012-1234567890123456-01\r\n\r\ntraceparent: 00\r\n"
	if _, _, ok := FindTraceparent([]byte(body)); !ok {
		t.Error("a line of the body counts as a header")
	}
}

func FuzzFindTraceparent(f *testing.F) {
	const one = "traceparent: 00-12345678901234567890123456789012-1234567890123456-01\r\n"
	f.Add([]byte("GET / HTTP/1.1\r\n" + one + "\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\n" + one + one + "\r\n"))
	f.Add([]byte("POST / HTTP/1.1\nTraceParent:\t" + one[12:] + "X: y\n\nz"))
	f.Fuzz(func(t *testing.T, request []byte) {
		if len(request) > 16<<10 {
			return
		}
		if _, _, ok := FindTraceparent(request); !ok {
			return
		}
		head, _, _ := bytes.Cut(bytes.ReplaceAll(request, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
		n := 0
		for _, line := range bytes.Split(head, []byte("\n"))[1:] {
			if len(line) >= 12 && bytes.EqualFold(line[:12], []byte("traceparent:")) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d headers, and one was taken: %q", n, request)
		}
	})
}

func FuzzTraceparent(f *testing.F) {
	f.Add([]byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Add([]byte("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Add([]byte("0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) != 55 {
			return
		}
		c, _, ok := Traceparent(value)
		valid := grammar.Match(value) && string(value[:2]) != "ff" && c.TraceID != [16]byte{} && c.SpanID != [8]byte{}
		if ok != valid {
			t.Errorf("%q: believed %v, want %v", value, ok, valid)
		}
		if ok && fmt.Sprintf("%x-%x", c.TraceID, c.SpanID) != string(value[3:52]) {
			t.Errorf("%q: read as %x-%x", value, c.TraceID, c.SpanID)
		}
	})
}

func FuzzTag(f *testing.F) {
	f.Add(EncodeTag(TagContext{Context: Context{TraceID: [16]byte{1}, SpanID: [8]byte{2}}}, 3))
	retro := TagContext{Context: Context{SpanID: [8]byte{2}}}
	retro.Derive()
	f.Add(EncodeTag(retro, 0))
	f.Add(EncodeTag(retro, 3))
	f.Fuzz(func(t *testing.T, option []byte) {
		c, offset, result := DecodeTag(option)
		if result != TagMalformed && (c.TraceID == [16]byte{} || c.SpanID == [8]byte{} || offset > 0xffff || c.Flags&^FlagRetro != 0) {
			t.Errorf("%x: believed as %x at %d", option, c, offset)
		}
	})
}

func TestTraceparentKey(t *testing.T) {
	for line, want := range map[string]bool{
		"traceparent: 00": true, "Traceparent:00": true, "TRACEPARENT: 00": true,
		"traceparent 00": false, "tracestate: x": false, "traceparent": false, "xtraceparent:": false, "traceparentz": false,
	} {
		if got := IsTraceparentKey([]byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// Every bucket ends where the package that publishes them says, and holds its
// upper bound.
func TestBuckets(t *testing.T) {
	if got := Bucket(0); got != 0 {
		t.Errorf("0 ns is in bucket %d", got)
	}
	for i := range Buckets - 1 {
		bound := uint64(1) << (13 + i/2)
		if i%2 == 1 {
			bound += bound / 2
		}
		for ns, want := range map[uint64]int{bound - 1: i, bound: i, bound + 1: i + 1} {
			if got := Bucket(ns); got != want {
				t.Errorf("%d ns is in bucket %d, want %d", ns, got, want)
			}
		}
	}
	if err := quick.Check(func(ns uint64) bool { return Bucket(ns) >= 0 && Bucket(ns) < Buckets }, nil); err != nil {
		t.Error(err)
	}
	if Bucket(1<<64-1) != Buckets-1 {
		t.Error("the longest duration is not in the last bucket")
	}
}

func TestMeasuring(t *testing.T) {
	for text, want := range map[string]Measuring{
		"HTTP/1.1 200 OK":         {StatusClass: 2},
		"HTTP/1.0 503 Busy":       {StatusClass: 5},
		"HTTP/1.1 699 X":          {},
		"HTTP/1.1":                {},
		"*2\r\n$3\r\nGET\r\n":     {Redis: true},
		"*hello":                  {},
		"get item:7\r\n":          {Memcached: true},
		"gets a b\r\n":            {Memcached: true},
		"delete x\r\n":            {Memcached: true},
		"mg foo v\r\n":            {Memcached: true},
		"mn\r\n":                  {Memcached: true},
		"GET / HTTP/1.1\r\n":      {},
		"-ERR wrong\r\n":          {RedisError: true},
		"ERROR\r\n":               {MemcachedError: true},
		"CLIENT_ERROR bad\r\n":    {MemcachedError: true},
		"SERVER_ERROR memory\r\n": {MemcachedError: true},
		"END\r\n":                 {},
		"":                        {},
	} {
		if got := Measure([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzMeasure(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK"))
	f.Add([]byte("*2\r\n$3\r\nGET\r\n"))
	f.Add([]byte("mget"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := Measure(b)
		if m.StatusClass < 0 || m.StatusClass > 5 || m.Redis && m.Memcached || m.RedisError && m.MemcachedError {
			t.Errorf("%q: %+v", b, m)
		}
	})
}

// record is a TLS record of a type and a length.
func record(kind byte, n int) []byte {
	return append([]byte{kind, 3, 3, byte(n >> 8), byte(n)}, make([]byte, n)...)
}

func TestHandshakeEnd(t *testing.T) {
	hello, ccs := record(22, 512), record(20, 1)
	for name, tc := range map[string]struct {
		records [][]byte
		want    int // index of the record that is a request, or a result
	}{
		"1.2, whole":               {[][]byte{hello, record(22, 70), ccs, record(22, 40), record(23, 200)}, 4},
		"1.2, resumed":             {[][]byte{hello, ccs, record(22, 40), record(23, 40)}, 3},
		"1.2, client certificate":  {[][]byte{hello, record(22, 900), record(22, 70), record(22, 264), ccs, record(22, 40), record(23, 40)}, 6},
		"1.3":                      {[][]byte{hello, ccs, record(23, 53), record(23, 200)}, 3},
		"1.3, SHA-384":             {[][]byte{hello, ccs, record(23, 69), record(23, 53)}, 3},
		"1.3, no ChangeCipherSpec": {[][]byte{hello, record(23, 69), record(23, 200)}, 2},
		"1.3, hello twice":         {[][]byte{hello, ccs, hello, record(23, 69), record(23, 200)}, 4},
		"1.3, client certificate":  {[][]byte{hello, ccs, record(23, 900), record(23, 281), record(23, 69), record(23, 200)}, 5},
		"closed at once":           {[][]byte{hello, ccs, record(23, 69), record(23, 19)}, NoRequest},
		"alert":                    {[][]byte{hello, record(21, 2)}, NoRequest},
		"not TLS":                  {[][]byte{hello, []byte("GET / HTTP/1.1")}, Lost},
		"empty record":             {[][]byte{hello, {22, 3, 3, 0, 0}}, Lost},
	} {
		var all []byte
		want := tc.want
		for i, r := range tc.records {
			if i == tc.want {
				want = len(all)
			}
			all = append(all, r...)
		}
		if got := HandshakeEnd(all); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func FuzzHandshakeEnd(f *testing.F) {
	f.Add(slices.Concat(record(22, 512), record(20, 1), record(23, 53), record(23, 200)))
	f.Fuzz(func(t *testing.T, b []byte) {
		at := HandshakeEnd(b)
		if at >= 0 && (at+5 > len(b) || b[at] != 23 || b[at+1] != 3) {
			t.Errorf("a request at %d of %d bytes", at, len(b))
		}
	})
}

func TestProtocols(t *testing.T) {
	for text, want := range map[string]int{
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":         HTTP2,
		"PRI /x HTTP/1.1\r\n":                      Other,
		"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01": FastCGI,
		"\x01\x05\x00\x01\x00\x00\x00\x00":         Other, // FCGI_STDIN
		"\x01\x01\x00\x01":                         Other,
	} {
		if got := PayloadKind([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"\x00\x00\x2a\x01\x04\x00\x00\x00\x01":      true,  // HEADERS
		"\x00\x00\x05\x00\x01\x00\x00\x00\x03hello": true,  // DATA
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00":      true,  // WINDOW_UPDATE
		"\x00\x00\x08\x06\x00\x00\x00\x00\x00":      true,  // PING
		"\x00\x00\x00\x04\x01\x00\x00\x00\x00":      true,  // SETTINGS, acknowledged
		"\x00\x00\x2a\x01\x04\x00\x00\x00\x02":      false, // an even stream is the server's
		"\x00\x00\x00\x08\x04\xd2\x16\x2f\x00":      false, // PostgreSQL asks for TLS
		"\x00\x00\x00\x29\x00\x03\x00\x00user":      false, // PostgreSQL begins
		"\x0f\x00\x00\x00\x03select 1":              false, // MySQL
		"*2\r\n$3\r\nGET\r\n":                       false,
		"\x00\x00\x2a\x01":                          false,
	} {
		if got := HTTP2Frame([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// What ends a connection to a database is no request; more bytes are.
func TestGoodbyes(t *testing.T) {
	for text, want := range map[string]int{
		"X\x00\x00\x00\x04":        Goodbye, // PostgreSQL: Terminate
		"\x01\x00\x00\x00\x01":     Goodbye, // MySQL: COM_QUIT
		"X\x00\x00\x00\x04Q":       Other,
		"\x01\x00\x00\x00\x0e":     Other, // COM_PING
		"\x01\x00\x00\x00\x01\x01": Other,
	} {
		if got := PayloadKind([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestContentLength(t *testing.T) {
	for line, want := range map[string]struct {
		n  uint32
		ok bool
	}{
		"Content-Length: 0\r\n":         {0, true},
		"content-length:12345\r\n":      {12345, true},
		"CONTENT-LENGTH:   77\r\n":      {77, true},
		"Content-Length: 123456789\r\n": {123456789, true},
		"Content-Length: x\r\n":         {0, true},
		"Content-Type: text/plain\r\n":  {0, false},
		"Content-Lengths: 1\r\n":        {0, false},
		"X-Content-Length: 1\r\n":       {0, false},
	} {
		if n, ok := ContentLength([]byte(line)); n != want.n || ok != want.ok {
			t.Errorf("%q: %d, %v", line, n, ok)
		}
	}
}
