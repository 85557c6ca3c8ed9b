package w3c

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Positions in a traceparent of version 00, W3C Trace Context §3.2.2:
// vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff.
const (
	traceIDAt = 3
	spanIDAt  = traceIDAt + 32 + 1
	flagsAt   = spanIDAt + 16 + 1
	size      = flagsAt + 2
)

// knownFlags are the flags that have a meaning: sampled (level 1) and random
// (level 2). The others are "reserved" and go out as zero.
const knownFlags = trace.FlagsSampled | trace.FlagsRandom

// bad marks a byte that is no lower-case hexadecimal digit: its upper half is
// what no digit sets.
const bad = 0xff

var digits = func() (t [256]byte) {
	for i := range t {
		t[i] = bad
	}
	for i, c := range []byte(hexDigits) {
		t[c] = byte(i)
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// decode writes the bytes that s, twice as long as dst, spells in lower-case
// hexadecimal.
func decode(dst []byte, s string) bool {
	var seen byte
	for i := range dst {
		hi, lo := digits[s[2*i]], digits[s[2*i+1]]
		dst[i] = hi<<4 | lo&0x0f
		seen |= hi | lo
	}
	return seen&0xf0 == 0
}

// parse reads a traceparent. The fields of version 00 must open every later
// version, which may append others after a further "-" (§4.1 "Versioning of
// traceparent").
func parse(s string) (c trace.SpanContextConfig, ok bool) {
	if len(s) < size || s[traceIDAt-1] != '-' || s[spanIDAt-1] != '-' || s[flagsAt-1] != '-' {
		return c, false
	}
	if len(s) > size && s[size] != '-' {
		return c, false
	}
	var version, flags [1]byte
	if !decode(version[:], s[:2]) || !decode(flags[:], s[flagsAt:size]) ||
		!decode(c.TraceID[:], s[traceIDAt:spanIDAt-1]) || !decode(c.SpanID[:], s[spanIDAt:flagsAt-1]) {
		return c, false
	}
	switch version[0] {
	case 0xff: // forbidden by §3.2.2.1
		return c, false
	case 0:
		if len(s) > size+1 || flags[0] > byte(knownFlags) {
			return c, false
		}
	}
	c.TraceFlags = trace.TraceFlags(flags[0]) & knownFlags
	return c, c.TraceID.IsValid() && c.SpanID.IsValid()
}

// spell writes sc's traceparent, version 00.
func spell(dst *[size]byte, sc trace.SpanContext) {
	id, span := sc.TraceID(), sc.SpanID()
	dst[0], dst[1] = '0', '0'
	dst[traceIDAt-1], dst[spanIDAt-1], dst[flagsAt-1] = '-', '-', '-'
	encode(dst[traceIDAt:spanIDAt-1], id[:])
	encode(dst[spanIDAt:flagsAt-1], span[:])
	encode(dst[flagsAt:size], []byte{byte(sc.TraceFlags() & knownFlags)})
}

func encode(dst, src []byte) {
	for i, b := range src {
		dst[2*i], dst[2*i+1] = hexDigits[b>>4], hexDigits[b&0x0f]
	}
}

// read takes one traceparent and the tracestate headers that came with it.
func read(traceparent string, tracestate []string) (trace.SpanContext, bool) {
	c, ok := parse(traceparent)
	if !ok {
		return trace.SpanContext{}, false
	}
	c.Remote = true
	if len(tracestate) != 0 {
		list := tracestate[0]
		if len(tracestate) > 1 {
			list = strings.Join(tracestate, ",")
		}
		if list != "" {
			// An unreadable tracestate must not cost the traceparent (§4.3).
			c.TraceState, _ = trace.ParseTraceState(list)
		}
	}
	return trace.NewSpanContext(c), true
}
