package consistent

import (
	"math"
	"math/bits"
	"strconv"
)

// Threshold is a rejection threshold: of the 2^56 values that a [Randomness]
// can have, the number that is rejected. A span is sampled if and only if its
// randomness is not below the threshold. Values above [Never] mean Never.
type Threshold uint64

const (
	// Always rejects nothing: probability 1, written "th:0".
	Always Threshold = 0
	// Never rejects everything. It is no form of probability sampling and
	// cannot be written as th: a tracestate says nothing about it.
	Never Threshold = 1 << 56
)

// Precision is the number of significant hexadecimal digits that the
// specification recommends to SDKs; [NewRate] uses it.
const Precision = 4

// digits is the number of hexadecimal digits of 56 bits.
const digits = 56 / 4

// FromProbability returns the threshold that samples the share p of all
// traces, rounded to the nearest multiple of 2^-56. 1 and more give [Always];
// 0, less and NaN give [Never], and so does a p that rounds to 0 (below 2^-57).
func FromProbability(p float64) Threshold {
	if p >= 1 {
		return Always
	}
	if !(p > 0) { // NaN too
		return Never
	}
	// Scaling by a power of two is exact. 1-p would not be: for a small p it
	// has lost p's last bits.
	return Never - Threshold(math.Round(p*float64(Never)))
}

// Round returns th with the given number of significant hexadecimal digits,
// so that it is short on the wire. Leading f digits do not count: they carry
// the magnitude of a small probability, not its precision. At most 14 digits
// are there to be had; n below 1 counts as 1. A threshold below Never stays
// below it. Halves are rounded up, as in the specification's algorithm.
func (th Threshold) Round(n int) Threshold {
	if th >= Never {
		return Never
	}
	leading := (56 - bits.Len64(uint64(Never-th))) / 4
	n = max(n, 1) + max(leading, 0)
	if n >= digits {
		return th
	}
	unit := Threshold(1) << (4 * (digits - n))
	return (th + unit/2) &^ (unit - 1)
}

// Probability returns the share of all traces that th samples, 0 to 1.
func (th Threshold) Probability() float64 {
	if th >= Never {
		return 0
	}
	return float64(Never-th) / float64(Never)
}

// AdjustedCount returns how many spans a span sampled with th stands for: the
// inverse of the probability, 1 to 2^56. For [Never], where no span is sampled,
// it returns 0.
func AdjustedCount(th Threshold) float64 {
	if th >= Never {
		return 0
	}
	return float64(Never) / float64(Never-th)
}

// Samples reports whether a trace with randomness r is sampled.
func (th Threshold) Samples(r Randomness) bool { return uint64(r) >= uint64(th) }

// String returns the value of th in a tracestate: hexadecimal digits without
// trailing zeros, "0" for [Always]. [Never] has no such value and returns
// "never".
func (th Threshold) String() string {
	if th >= Never {
		return "never"
	}
	var buf [digits]byte
	return string(th.appendTo(buf[:0]))
}

// appendTo appends the value of th to b; th is below Never.
func (th Threshold) appendTo(b []byte) []byte {
	if th == Always {
		return append(b, '0')
	}
	// The bit above the 56 keeps leading zeros; it is overwritten.
	start := len(b)
	b = strconv.AppendUint(b, uint64(th|Never), 16)
	b = append(b[:start], b[start+1:]...)
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// ParseThreshold parses the value of th: 1 to 14 hexadecimal digits of either
// case, missing digits are zeros at the end. ok is false for anything else.
func ParseThreshold(s string) (th Threshold, ok bool) {
	v, ok := parseHex(s)
	if !ok {
		return 0, false
	}
	return Threshold(v << (4 * (digits - len(s)))), true
}

// parseHex accepts 1 to 14 hexadecimal digits and nothing else: unlike
// strconv, no sign, underscore or prefix.
func parseHex(s string) (v uint64, ok bool) {
	if len(s) == 0 || len(s) > digits {
		return 0, false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}
