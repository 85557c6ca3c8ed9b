package consistent

import (
	"encoding/binary"
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// Randomness is what every participant in a trace compares with its own
// [Threshold]: 56 bits, the same for all spans of the trace.
type Randomness uint64

const randomnessMask = 1<<56 - 1

// OfTraceID returns the last 56 bits of the trace id, which W3C Trace Context
// level 2 requires to be random.
func OfTraceID(id trace.TraceID) Randomness {
	return Randomness(binary.BigEndian.Uint64(id[8:]) & randomnessMask)
}

// OfParent returns the explicit randomness (rv) of the tracestate if it has a
// valid one, and the trace id's otherwise.
func OfParent(ts trace.TraceState, id trace.TraceID) Randomness {
	if r, ok := RandomnessOf(ts); ok {
		return r
	}
	return OfTraceID(id)
}

// ParseRandomness parses the value of rv: exactly 14 hexadecimal digits. ok is
// false for anything else.
func ParseRandomness(s string) (r Randomness, ok bool) {
	if len(s) != digits {
		return 0, false
	}
	v, ok := parseHex(s)
	return Randomness(v), ok
}

// String returns the value of rv in a tracestate: 14 hexadecimal digits.
func (r Randomness) String() string {
	// The bit above the 56 keeps leading zeros; it is cut off.
	return strconv.FormatUint(uint64(r)&randomnessMask|1<<56, 16)[1:]
}
