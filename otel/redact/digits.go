package redact

import (
	"net/netip"
	"strings"
)

// digits looks at a run of digits that begins at i, for what begins with it.
func (p *pass) digits(i int) int {
	s, next := p.s, i+1
	for next < len(s) && isDigit(s[next]) {
		next++
	}
	if p.by.iban != nil {
		if end := p.ibanAt(i); end > 0 {
			return end
		}
	}
	if c := p.before(i); isAlnum(c) || c >= 0x80 {
		return next
	}
	if p.by.card != nil {
		if end := cardEnd(s, i); end > 0 && (i < 2 || s[i-1] != '.' || !isDigit(s[i-2])) {
			return p.found(i, end, p.by.card)
		}
	}
	if p.by.ssn != nil && isSSN(s, i, next) {
		return p.found(i, i+len("ddd-dd-dddd"), p.by.ssn)
	}
	if p.by.ip != nil {
		if end := ipv4End(s, i); end > 0 && p.before(i) != '.' {
			return p.found(i, end, p.by.ip)
		}
	}
	return next
}

// separator returns the length of the one that stands at i between the digits
// of a number, and which; 0 if there is none. %20 and + are spaces in URLs.
func separator(s string, i int) (length int, kind byte) {
	if i >= len(s) {
		return 0, 0
	}
	switch c := s[i]; {
	case c == ' ' || c == '+':
		return 1, ' '
	case c == '-' || c == '.':
		return 1, c
	case c == '%' && strings.HasPrefix(s[i:], "%20"):
		return 3, ' '
	case c == 0xC2 && i+1 < len(s) && s[i+1] == 0xA0: // no-break space
		return 2, ' '
	}
	return 0, 0
}

// isSSN excludes what the Social Security Administration never issues.
func isSSN(s string, i, next int) bool {
	const form = "ddd-dd-dddd"
	if next-i != 3 || len(s)-i < len(form) {
		return false
	}
	n := s[i : i+len(form)]
	for j := range len(form) {
		if (form[j] == 'd') != isDigit(n[j]) || form[j] == '-' && n[j] != '-' {
			return false
		}
	}
	if n[:3] == "000" || n[:3] == "666" || n[0] == '9' || n[4:6] == "00" || n[7:] == "0000" {
		return false
	}
	return (i == 0 || s[i-1] != '-') && (i+len(form) == len(s) || !isAlnum(s[i+len(form)]) && s[i+len(form)] != '-')
}

const (
	v4Bytes = len("255.255.255.255")
	v6Bytes = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
)

func ipv4End(s string, i int) int {
	end := i
	for end < len(s) && end-i <= v4Bytes && (isDigit(s[end]) || s[end] == '.') {
		end++
	}
	text := strings.TrimRight(s[i:end], ".")
	end = i + len(text)
	if end < len(s) && isAlnum(s[end]) || strings.Count(text, ".") != 3 {
		return 0
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return 0
	}
	return end
}

// ipv6 looks around the first colon of an address, which is written in width bytes, as
// all of them are: ':' or %3A.
func (p *pass) ipv6(i, width int) int {
	s, start, end, colons := p.s, i, i, 0
	colon := s[i : i+width]
	escaped := func(at int) bool { // s[:at] ends with a percent-encoded delimiter
		return at >= 3 && s[at-3] == '%' && isHex(s[at-2]) && isHex(s[at-1])
	}
	for start > p.done && i-start <= 4 && isHex(s[start-1]) && !escaped(start) {
		start--
	}
	for end < len(s) && end-start-colons*(width-1) <= v6Bytes {
		if strings.HasPrefix(s[end:], colon) {
			end, colons = end+width, colons+1
		} else if isHex(s[end]) || s[end] == '.' {
			end++
		} else {
			break
		}
	}
	if c := p.before(start); colons < 2 || (isAlnum(c) || c == ':') && !escaped(start) {
		return i + width
	}
	text := strings.TrimRight(s[start:end], ".")
	for _, t := range []string{text, strings.TrimSuffix(text, colon)} {
		if a, err := netip.ParseAddr(colonsOf(t)); err == nil && a.Is6() && !isAlnum(p.after(start+len(t))) {
			return p.found(start, start+len(t), p.by.ip)
		}
	}
	return i + width
}

// colonsOf is an address whose colons may be percent-encoded, without that.
func colonsOf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "%3A", ":"), "%3a", ":")
}
