package redact

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// unsettled is how often a text is redacted again because its redaction still
// holds something to redact. One more round is the rule; rules that find their
// own replacement may go on for ever, and then the text is given up.
const unsettled = 8

const stars = "***"

// appendReplacement appends what stands in for found.
func (r *rule) appendReplacement(dst []byte, found string) []byte {
	switch r.Do {
	case Mask:
		return append(dst, r.Text...)
	case Keep:
		return append(dst, keepLast(found, r.Keep)...)
	case Hash:
		if n := r.hash.token(found); n > 0 && n == len(found) {
			return append(dst, found...)
		}
		return r.hash.appendToken(dst, canonical(r.Detect, found))
	case Truncate:
		return append(dst, first(found, r.Length)...)
	case Network:
		return appendNetwork(dst, found, r.V4, r.V6)
	}
	return dst // Remove
}

func (r *rule) replacement(found string) string {
	switch r.Do {
	case Mask:
		return r.Text
	case Truncate:
		return first(found, r.Length)
	}
	return string(r.appendReplacement(nil, found))
}

// keepLast is its own fixed point: three stars and n characters stay.
func keepLast(s string, n int) string {
	total := utf8.RuneCountInString(s)
	if strings.HasPrefix(s, stars) && total == len(stars)+n {
		return s
	}
	if total < 2*n || total <= len(stars) {
		return stars
	}
	at := len(s)
	for range n {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return stars + s[at:]
}

func first(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for at := range s {
		if n == 0 {
			return s[:at]
		}
		n--
	}
	return s
}

// canonical makes spellings of one thing alike, so that they have one token.
func canonical(d Detector, s string) string {
	switch d {
	case Email:
		return strings.ToLower(strings.ReplaceAll(s, "%40", "@"))
	case IP:
		return colonsOf(s)
	case Card, IBAN, Phone:
		out := make([]byte, 0, len(s))
		s = strings.TrimPrefix(s, "%2B")
		for i := 0; i < len(s); i++ {
			if n, _ := separator(s, i); n == 3 { // %20
				i += 2
			} else if isAlnum(s[i]) {
				out = append(out, lower(s[i]))
			}
		}
		return string(out)
	}
	return s
}

// appendNetwork cuts an address to its network. A loopback address stays: it is
// everybody's, and says only that both ends are on one host.
func appendNetwork(dst []byte, s string, v4, v6 int) []byte {
	a, err := netip.ParseAddr(colonsOf(s))
	if err != nil {
		return append(dst, maskText...) // the detector finds addresses only
	}
	a = a.Unmap()
	if a.IsLoopback() {
		return append(dst, s...)
	}
	bits := v6
	if a.Is4() {
		bits = v4
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return append(dst, maskText...)
	}
	return p.Addr().AppendTo(dst)
}
