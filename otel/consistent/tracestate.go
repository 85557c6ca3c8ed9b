package consistent

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// member is the key of OpenTelemetry's own entry in a tracestate; its value is
// a list of sub-keys, "th:c;rv:0123456789abcd".
const member = "ot"

// maxValue is the length that the specification allows the list, as W3C Trace
// Context does for any value.
const maxValue = 256

// ThresholdOf returns the threshold of the tracestate. ok is false if it has
// none, or one that is not valid, or more than one: they count as absent.
func ThresholdOf(ts trace.TraceState) (th Threshold, ok bool) {
	v, ok := sub(ts.Get(member), "th")
	if !ok {
		return 0, false
	}
	return ParseThreshold(v)
}

// RandomnessOf returns the explicit randomness of the tracestate. ok is false
// if it has none, or one that is not valid, or more than one.
func RandomnessOf(ts trace.TraceState) (r Randomness, ok bool) {
	v, ok := sub(ts.Get(member), "rv")
	if !ok {
		return 0, false
	}
	return ParseRandomness(v)
}

// State returns a tracestate that holds th and nothing else. It is immutable:
// build it once for a rate and share it. For [Never] it is empty.
func State(th Threshold) trace.TraceState {
	return WithThreshold(trace.TraceState{}, th)
}

// WithThreshold returns ts with the threshold th. If that changes anything,
// the ot member moves to the front, as W3C Trace Context (3.5, mutating the
// tracestate) asks; its other sub-keys and the other members stay as they are,
// except that the last of 32 members gives way to a new one.
//
// Where th cannot be said, any earlier threshold is taken out, because it would
// be wrong: for [Never], and if ot would grow past 256 characters.
func WithThreshold(ts trace.TraceState, th Threshold) trace.TraceState {
	if th >= Never {
		return WithoutThreshold(ts)
	}
	var buf [digits]byte
	if changed, ok := with(ts, "th", th.appendTo(buf[:0])); ok {
		return changed
	}
	return WithoutThreshold(ts)
}

// WithRandomness returns ts with the explicit randomness r, under the rules of
// [WithThreshold]. Only the root of a trace may set it, and has to where its
// trace ids are not random. ok is false, and ts unchanged, if ot would grow
// past 256 characters.
func WithRandomness(ts trace.TraceState, r Randomness) (changed trace.TraceState, ok bool) {
	return with(ts, "rv", []byte(r.String()))
}

// WithoutThreshold returns ts without a threshold; ts itself if it has none.
func WithoutThreshold(ts trace.TraceState) trace.TraceState {
	value := ts.Get(member)
	rest := without(value, "th")
	if len(rest) == len(value) {
		return ts
	}
	if rest == "" {
		return ts.Delete(member)
	}
	return insert(ts, rest)
}

// with puts key:value first in ot.
func with(ts trace.TraceState, key string, value []byte) (trace.TraceState, bool) {
	old := ts.Get(member)
	if v, ok := sub(old, key); ok && v == string(value) {
		return ts, true
	}
	list := make([]byte, 0, 64)
	list = append(list, key...)
	list = append(list, ':')
	list = append(list, value...)
	if rest := without(old, key); rest != "" {
		list = append(list, ';')
		list = append(list, rest...)
	}
	if len(list) > maxValue {
		return ts, false
	}
	return insert(ts, string(list)), true
}

func insert(ts trace.TraceState, value string) trace.TraceState {
	changed, err := ts.Insert(member, value)
	if err != nil {
		// Not reached with a tracestate that the API has validated. Rather
		// no statement than a stale one.
		return ts.Delete(member)
	}
	return changed
}

// sub returns the value of the sub-key in a list such as "th:c;rv:00". ok is
// false if it is not there exactly once (the specification wants keys to be
// unique, so that with two of them neither is to be believed).
func sub(list, key string) (value string, ok bool) {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ";")
		if !is(item, key) {
			continue
		}
		if ok {
			return "", false
		}
		value, ok = item[len(key)+1:], true
	}
	return value, ok
}

// without returns the list without any item of the key. Everything else is
// kept byte for byte, understood or not: it is someone else's.
func without(list, key string) string {
	found := false
	for rest := list; rest != "" && !found; {
		var item string
		item, rest, _ = strings.Cut(rest, ";")
		found = is(item, key)
	}
	if !found {
		return list
	}
	kept := make([]byte, 0, len(list))
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ";")
		if is(item, key) {
			continue
		}
		if len(kept) > 0 {
			kept = append(kept, ';')
		}
		kept = append(kept, item...)
	}
	// A tracestate's value must not end in a space, and now another item may be
	// the last.
	return strings.TrimRight(string(kept), " ")
}

// is reports whether the item is key:anything.
func is(item, key string) bool {
	return len(item) > len(key) && item[len(key)] == ':' && item[:len(key)] == key
}
