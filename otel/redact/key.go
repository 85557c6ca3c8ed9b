package redact

import (
	"go.opentelemetry.io/otel/attribute"
)

// MaxDepth bounds how deep a pipeline follows maps and arrays in values; what
// lies deeper is replaced by [Redactor.TooDeep].
const MaxDepth = nesting

// Key is what the rules say of one attribute key, for pipelines whose values
// are not the SDK's: the caller walks through arrays and maps, and asks about
// what it finds there. The rules are those of [Redactor.Attribute].
//
//	k := r.Key(name)
//	if !k.Leaves(outermost) {
//		// drop the attribute
//	}
//	rename it to k.Name(), and if k.Whole(), replace the value, whatever its
//	type, by k.Text of its text; an array of texts, each of them. Else ask Text,
//	Bytes, Int or Float, by type; elements of arrays like values of the key, of
//	maps by their own keys.
//
// A Key is small and may be kept and shared, as its Redactor may.
type Key struct {
	r *Redactor
	p *plan
}

// Key returns what the rules say of attributes with the key.
func (r *Redactor) Key(key string) Key { return Key{r, r.plan(key)} }

// Name returns the key as it may leave: a key that itself holds something
// sensitive is redacted.
func (k Key) Name() string { return string(k.p.key) }

// Leaves reports whether an attribute with the key may leave at all, and counts
// it if not. The allow list is about outermost keys, not those inside of maps.
func (k Key) Leaves(outermost bool) bool {
	if outermost && k.r.only && !k.p.allowed {
		k.r.dropped.Add(1)
		return false
	}
	if w := k.p.whole; w != nil && w.Do == Remove {
		w.count.Add(1)
		return false
	}
	return true
}

// Whole reports whether a rule replaces values of the key as a whole, of any
// type. The exception is truncation, which is about texts and bytes.
func (k Key) Whole() bool { return k.p.whole != nil && k.p.whole.Do != Truncate }

// Text returns a text of the key as it may leave.
func (k Key) Text(s string) string {
	switch {
	case k.p.whole == nil:
		return k.p.scan.text(s)
	case k.Whole():
		return k.p.whole.wholeText(k.p.scan, s)
	case s == "":
		return ""
	}
	return k.r.settle(k.p, s)
}

// Bytes returns b as it may leave; changed false: as it is.
func (k Key) Bytes(b []byte) (out []byte, changed bool) {
	v, changed := k.r.bytes(k.p, attribute.ByteSliceValue(b))
	if !changed {
		return b, false
	}
	return v.AsByteSlice(), true
}

// Int returns the text that stands in for an integer; changed false: none, the
// integer may leave.
func (k Key) Int(n int64) (text string, changed bool) {
	return k.number(cardInt(n))
}

// Float is Int for a floating-point number.
func (k Key) Float(f float64) (text string, changed bool) {
	return k.number(cardFloat(f))
}

func (k Key) number(digits string, card bool) (string, bool) {
	c := k.p.scan.by.card
	if c == nil || !card {
		return "", false
	}
	return k.p.scan.text(c.counted(digits)), true
}

// TooDeep returns what stands in for a value nested too deeply to be looked at,
// and counts it as unsettled.
func (r *Redactor) TooDeep() string {
	r.unstable.count.Add(1)
	return maskText
}
