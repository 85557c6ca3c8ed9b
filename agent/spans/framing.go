package spans

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tare-trace/tare/bpf"
)

// framing says where a response of HTTP/1 ends (RFC 9112 6.3), as far as its first
// bpf.TarePayloadHead bytes show it.
type framing struct {
	read   bool // the rest is set
	known  bool
	chunks bool   // with an empty chunk
	header uint64 // size of the header; 0: its end is not known
	size   uint64 // after so many bytes, if not in chunks; math.MaxUint64: with the connection
}

var headerEnd = []byte("\r\n\r\n")

// framingOf reads the beginning of a response to a request.
func framingOf(request, response []byte) framing {
	f := framing{read: true}
	if !bytes.HasPrefix(response, []byte("HTTP/1.")) || len(response) < 12 || bytes.HasPrefix(request, []byte("CONNECT ")) {
		return f
	}
	header := len(response) // it is longer than this if its end is not there
	end := bytes.Index(response, headerEnd)
	if end >= 0 {
		header = end + len(headerEnd)
		f.header = uint64(header)
	}
	switch status := string(response[9:12]); {
	case status == "100" || status == "102" || status == "103": // the response follows
		f = framingOf(request, response[header:])
		if f.header > 0 {
			f.header += uint64(header)
		}
		if f.size > 0 && f.size < math.MaxUint64 {
			f.size += uint64(header)
		}
		return f
	case status[0] == '1':
		return f
	case status == "204" || status == "304" || bytes.HasPrefix(request, []byte("HEAD ")):
		f.known = true
		return f
	}
	f.known, f.size = end >= 0, math.MaxUint64
	for rest := response[:header]; ; {
		at := bytes.Index(rest, headerEnd[:2])
		if at < 0 { // the end, or a line that is cut
			return f
		}
		key, value, _ := bytes.Cut(rest[:at], []byte(":"))
		rest, value = rest[at+2:], bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(key, []byte("transfer-encoding")):
			f.known, f.size = true, math.MaxUint64
			f.chunks = len(value) >= 7 && bytes.EqualFold(value[len(value)-7:], []byte("chunked"))
			return f
		case bytes.EqualFold(key, []byte("content-length")):
			n, err := strconv.ParseUint(string(value), 10, 63)
			if err != nil {
				return framing{read: true}
			}
			f.known, f.size = true, uint64(header)+n
		}
	}
}

// goesOn says whether the response is known not to be over.
func (o *open) goesOn() bool {
	if !o.framing.read {
		o.framing = framingOf(o.request[:o.requestN], o.response[:o.responseN])
	}
	f, answered := &o.framing, o.sent
	if o.role == bpf.TareRoleTARE_CLIENT {
		answered = o.received
	}
	switch {
	case !f.known:
		return false
	case f.chunks:
		return o.chunksOpen || answered == f.header // whatever that ends with
	}
	return answered < f.size
}

// subscribes are the commands of redis whose connection is sent messages from then on.
var subscribes = [][]byte{[]byte("SUBSCRIBE\r\n"), []byte("PSUBSCRIBE\r\n"), []byte("SSUBSCRIBE\r\n"), []byte("MONITOR\r\n")}

// isSubscription says whether what follows the first bytes of the response belongs to no request.
func isSubscription(request []byte) bool {
	if len(request) == 0 || request[0] != '*' {
		return false
	}
	_, rest, _ := bytes.Cut(request, []byte("\r\n"))
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	for _, command := range subscribes {
		if len(rest) >= len(command) && bytes.EqualFold(rest[:len(command)], command) {
			return true
		}
	}
	return false
}
