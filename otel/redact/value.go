package redact

import (
	"strconv"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// nesting bounds how deep maps and slices of values are followed; what lies
// deeper is masked.
const nesting = 32

// value redacts the value of a key; changed false: out is v.
// Types: a text stays a text. A number, a boolean, bytes, a map or a mixed slice
// under a key rule become a text, except that Truncate leaves numbers and
// booleans, and cuts bytes. Arrays of strings are redacted element by element.
func (r *Redactor) value(p *plan, v attribute.Value, depth int) (out attribute.Value, changed bool) {
	if w := p.whole; w != nil && w.Do != Truncate {
		return r.wholeValue(w, p.scan, v)
	}
	switch v.Type() {
	case attribute.STRING:
		if s := v.AsString(); s != "" {
			if t := r.settle(p, s); t != s {
				return attribute.StringValue(t), true
			}
		}
	case attribute.STRINGSLICE:
		return r.stringSlice(p, v)
	case attribute.INT64, attribute.FLOAT64:
		if c := p.scan.by.card; c != nil {
			if digits, is := cardNumber(v); is {
				return attribute.StringValue(p.scan.text(c.counted(digits))), true
			}
		}
	case attribute.INT64SLICE, attribute.FLOAT64SLICE:
		if c := p.scan.by.card; c != nil {
			return cardSlice(c, v)
		}
	case attribute.BYTESLICE:
		return r.bytes(p, v)
	case attribute.SLICE:
		return r.valueSlice(p, v, depth)
	case attribute.MAP:
		return r.valueMap(v, depth)
	}
	return v, false
}

func (r *rule) counted(found string) string {
	out := r.replacement(found)
	if out != found {
		r.count.Add(1)
	}
	return out
}

func (r *Redactor) wholeValue(w *rule, sc *scanner, v attribute.Value) (attribute.Value, bool) {
	if v.Type() == attribute.STRINGSLICE {
		in := v.AsStringSlice()
		changed := false
		for i, s := range in {
			t := w.wholeText(sc, s)
			changed = changed || t != s
			in[i] = t
		}
		if !changed {
			return v, false
		}
		return attribute.StringSliceValue(in), true
	}
	s := v.String()
	t := w.wholeText(sc, s)
	if v.Type() == attribute.STRING && t == s {
		return v, false
	}
	return attribute.StringValue(t), true
}

// wholeText is for mask, hash and keep. What keep leaves is looked at again.
func (r *rule) wholeText(sc *scanner, s string) string {
	if r.Do == Keep {
		for range unsettled {
			t := sc.text(r.counted(s))
			if t == s {
				return s
			}
			s = t
		}
		return stars
	}
	return r.counted(s)
}

// settle redacts a text, and truncates it if the key's rule says so: to a fixed
// point, so that no cut leaves half of what would have been found whole.
func (r *Redactor) settle(p *plan, s string) string {
	s = p.scan.text(s)
	if p.whole == nil {
		return s
	}
	for range unsettled {
		t := p.scan.text(p.whole.counted(s))
		if t == s {
			return s
		}
		s = t
	}
	r.unstable.count.Add(1)
	return ""
}

func (r *Redactor) stringSlice(p *plan, v attribute.Value) (attribute.Value, bool) {
	in := v.AsStringSlice() // a copy
	changed := false
	for i, s := range in {
		if t := r.settle(p, s); t != s {
			in[i], changed = t, true
		}
	}
	if !changed {
		return v, false
	}
	return attribute.StringSliceValue(in), true
}

// bytes that are text are redacted as text.
func (r *Redactor) bytes(p *plan, v attribute.Value) (attribute.Value, bool) {
	s := string(v.AsByteSlice())
	if !utf8.ValidString(s) {
		if p.whole != nil && len(s) > p.whole.Length {
			p.whole.count.Add(1)
			return attribute.ByteSliceValue([]byte(s[:p.whole.Length])), true
		}
		return v, false
	}
	t := r.settle(p, s)
	if t == s {
		return v, false
	}
	return attribute.ByteSliceValue([]byte(t)), true
}

func (r *Redactor) valueSlice(p *plan, v attribute.Value, depth int) (attribute.Value, bool) {
	if depth >= nesting {
		r.unstable.count.Add(1)
		return attribute.StringValue(maskText), true
	}
	in := v.AsSlice()
	changed := false
	for i := range in {
		if e, is := r.value(p, in[i], depth+1); is {
			in[i], changed = e, true
		}
	}
	if !changed {
		return v, false
	}
	return attribute.SliceValue(in...), true
}

// valueMap applies key rules to the keys inside. The allow list is about the
// outermost key only.
func (r *Redactor) valueMap(v attribute.Value, depth int) (attribute.Value, bool) {
	if depth >= nesting {
		r.unstable.count.Add(1)
		return attribute.StringValue(maskText), true
	}
	in := v.AsMap() // a copy
	kept, changed := in[:0], false
	for i := range in {
		kv := in[i]
		leaves, is := r.apply(r.plan(string(kv.Key)), &in[i], &kv, depth+1)
		changed = changed || is
		if leaves {
			kept = append(kept, kv)
		}
	}
	if !changed {
		return v, false
	}
	return attribute.MapValue(kept...), true
}

// cardSlice makes a slice of strings of numbers if one of them is a card.
func cardSlice(c *rule, v attribute.Value) (attribute.Value, bool) {
	var out []string
	found := false
	add := func(text string, card bool) {
		if card {
			text, found = c.counted(text), true
		}
		out = append(out, text)
	}
	if v.Type() == attribute.INT64SLICE {
		for _, n := range v.AsInt64Slice() {
			if digits, card := cardInt(n); card {
				add(digits, true)
			} else {
				add(strconv.FormatInt(n, 10), false)
			}
		}
	} else {
		for _, f := range v.AsFloat64Slice() {
			if digits, card := cardFloat(f); card {
				add(digits, true)
			} else {
				add(strconv.FormatFloat(f, 'g', -1, 64), false)
			}
		}
	}
	if !found {
		return v, false
	}
	return attribute.StringSliceValue(out), true
}
