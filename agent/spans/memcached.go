package spans

import (
	"encoding/binary"
	"fmt"
)

const (
	memcachedHeader  = 24 // bytes
	memcachedKey     = 250
	memcachedLongest = 1 << 30
	memcachedAsks    = 0x80
	memcachedAnswers = 0x81
)

// memcachedOp is an operation of the binary protocol: how many bytes of extras its
// request has, whether it has a key, and a value.
type memcachedOp struct {
	name       string
	extras     byte
	key, value bool
	quiet      bool // answered only if something is wrong, or something was found
}

// Operations are named as in the text protocol, where that has them.
// https://github.com/memcached/memcached/blob/master/doc/protocol-binary.txt
var memcachedOps = map[byte]memcachedOp{
	0x00: {name: "get", key: true},
	0x01: {name: "set", extras: 8, key: true, value: true},
	0x02: {name: "add", extras: 8, key: true, value: true},
	0x03: {name: "replace", extras: 8, key: true, value: true},
	0x04: {name: "delete", key: true},
	0x05: {name: "incr", extras: 20, key: true},
	0x06: {name: "decr", extras: 20, key: true},
	0x07: {name: "quit"},
	0x08: {name: "flush_all"},
	0x09: {name: "get", key: true, quiet: true},
	0x0a: {name: "noop"},
	0x0b: {name: "version"},
	0x0c: {name: "get", key: true},
	0x0d: {name: "get", key: true, quiet: true},
	0x0e: {name: "append", key: true, value: true},
	0x0f: {name: "prepend", key: true, value: true},
	0x10: {name: "stats"},
	0x11: {name: "set", extras: 8, key: true, value: true, quiet: true},
	0x12: {name: "add", extras: 8, key: true, value: true, quiet: true},
	0x13: {name: "replace", extras: 8, key: true, value: true, quiet: true},
	0x14: {name: "delete", key: true, quiet: true},
	0x15: {name: "incr", extras: 20, key: true, quiet: true},
	0x16: {name: "decr", extras: 20, key: true, quiet: true},
	0x17: {name: "quit", quiet: true},
	0x18: {name: "flush_all", quiet: true},
	0x19: {name: "append", key: true, value: true, quiet: true},
	0x1a: {name: "prepend", key: true, value: true, quiet: true},
	0x1c: {name: "touch", extras: 4, key: true},
	0x1d: {name: "gat", extras: 4, key: true},
	0x1e: {name: "gat", extras: 4, key: true, quiet: true},
	0x20: {name: "sasl_list_mechs"},
	0x21: {name: "sasl_auth", key: true, value: true},
	0x22: {name: "sasl_step", key: true, value: true},
}

// identifyMemcachedBinary reads the header of the first request. One that is quiet
// may be answered by what follows it.
func identifyMemcachedBinary(x exchange) (f facts, ok bool) {
	op, key, whole, ok := memcachedRequest(x.request, x.size)
	if !ok {
		return f, false
	}
	f.protocol, f.operation, f.target = protocolMemcached, op.name, op.name
	f.unanswered = op.quiet
	switch {
	case op.extras == 0 && !op.key && len(key) == 0, op.name == "flush_all":
	case op.name == "sasl_auth", op.name == "sasl_step", op.name == "stats":
		f.target += " ?"
	default:
		f.target += " " + printable(key)
		if op.value || op.extras > 0 || !whole {
			f.target += " ?"
		}
	}
	if len(x.response) == 0 {
		return f, true
	}
	b := x.response
	if len(b) < 2 || b[0] != memcachedAnswers || b[1] != x.request[1] && !op.quiet || memcachedOps[b[1]].name == "" {
		return facts{}, false
	}
	if len(b) >= 8 {
		// 1 and 2: no such key, or there is one; 5: not stored. The text protocol
		// has no errors for these either.
		switch status := binary.BigEndian.Uint16(b[6:]); status {
		case 0, 1, 2, 5, 0x21: // 0x21: the authentication goes on
		default:
			f.failure = fmt.Sprintf("0x%04x", status)
		}
	}
	return f, true
}

// memcachedRequest checks all requests whose headers were seen.
func memcachedRequest(b []byte, left int) (first memcachedOp, key []byte, whole, ok bool) {
	for n := 0; n == 0 || len(b) >= memcachedHeader; n++ {
		if len(b) < memcachedHeader || b[0] != memcachedAsks || b[5] != 0 {
			return first, nil, false, false
		}
		op, known := memcachedOps[b[1]]
		keys, extras := int(binary.BigEndian.Uint16(b[2:])), int(b[4])
		body := int(binary.BigEndian.Uint32(b[8:]))
		optional := op.name == "flush_all" && extras == 4 || op.name == "stats"
		switch {
		case !known, keys > memcachedKey, body > memcachedLongest, keys+extras > body:
			return first, nil, false, false
		case !optional && (extras != int(op.extras) || op.key != (keys > 0)):
			return first, nil, false, false
		case !op.value && keys+extras != body:
			return first, nil, false, false
		}
		left -= memcachedHeader + body
		if left < 0 {
			return first, nil, false, false
		}
		b = b[memcachedHeader:]
		if n == 0 {
			first = op
			at := min(extras, len(b))
			key, whole = b[at:min(extras+keys, len(b))], extras+keys <= len(b)
		}
		if body > len(b) {
			return first, key, whole, left == 0 || op.quiet
		}
		b = b[body:]
	}
	return first, key, whole, left >= len(b) && (left == 0 || len(b) > 0)
}
