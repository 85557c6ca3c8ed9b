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

// ipv6 looks around the first colon of an address.
func (p *pass) ipv6(i int) int {
	s, start, end := p.s, i, i
	for start > p.done && i-start <= 4 && isHex(s[start-1]) {
		start--
	}
	for end < len(s) && end-start <= v6Bytes && (isHex(s[end]) || s[end] == ':' || s[end] == '.') {
		end++
	}
	text := s[start:end]
	if c := p.before(start); strings.Count(text, ":") < 2 || isAlnum(c) || c == ':' {
		return i + 1
	}
	text = strings.TrimRight(text, ".")
	for _, t := range []string{text, strings.TrimSuffix(text, ":")} {
		if a, err := netip.ParseAddr(t); err == nil && a.Is6() && !isAlnum(p.after(start+len(t))) {
			return p.found(start, start+len(t), p.by.ip)
		}
	}
	return i + 1
}
