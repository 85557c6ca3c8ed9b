package redact

import "strings"

// localBytes bounds the local part; RFC 5321 allows 64, escapes make three of one.
const localBytes = 3 * 64

// email looks at an @ (or %40) for an address around it: a local part without
// quotes (RFC 5321 dot-atom, UTF-8 by RFC 6531) and a domain with a dot and a
// top level of letters. Addresses at a host without a dot, or at an IP, are
// left; so is what looks like a Go module version (otel@v1.47.0).
func (p *pass) email(i, width int) int {
	next := i + width
	if p.by.email == nil || i < p.userEnd {
		return next
	}
	s := p.s
	start := i
	for start > p.done && i-start < localBytes && isLocal(s, start-1) {
		start--
	}
	for start < i && s[start]&0xC0 == 0x80 { // the bound may have cut a character
		start++
	}
	start = p.afterEscape(start, i)
	if start == i || s[start:i] == "git" { // git@github.com:owner/repository is nobody's
		return next
	}
	end := domainEnd(s, next)
	if end < 0 {
		return next
	}
	return p.found(start, end, p.by.email)
}

func isLocal(s string, i int) bool {
	switch c := s[i]; {
	case isAlnum(c), c >= 0x80:
		return true
	case strings.IndexByte("._%+-~!#$*", c) >= 0:
		return true
	case c == '\'': // O'Brien, but not a quote
		return i > 0 && isAlnum(s[i-1]) && i+1 < len(s) && isAlnum(s[i+1])
	}
	return false
}

// afterEscape cuts from s[start:end] what a percent-encoded delimiter ends.
func (p *pass) afterEscape(start, end int) int {
	for i := start; i+3 <= end; i++ {
		if p.s[i] != '%' {
			continue
		}
		switch strings.ToUpper(p.s[i+1 : i+3]) {
		case "20", "22", "26", "27", "2C", "2F", "3A", "3B", "3C", "3D", "3F":
			start = i + 3
		}
	}
	return start
}

// domainEnd returns the end of the domain that begins at i, or -1.
func domainEnd(s string, i int) int {
	end := i
	for end < len(s) {
		if isAlnum(s[end]) || s[end] == '.' || s[end] == '-' || s[end] >= 0x80 {
			end++
		} else if end+3 <= len(s) && s[end] == '%' && isHex(s[end+1]) && s[end+1] >= '8' && isHex(s[end+2]) { // UTF-8, escaped
			end += 3
		} else {
			break
		}
	}
	d := strings.TrimRight(s[i:end], ".-")
	if len(d) > 1 && d[0] == 'v' && isDigit(d[1]) {
		return -1
	}
	for {
		dot := strings.LastIndexByte(d, '.')
		if dot <= 0 {
			return -1
		}
		if isTopLevel(d[dot+1:]) {
			return i + len(d)
		}
		d = d[:dot]
	}
}

func isTopLevel(s string) bool {
	if len(s) < 2 {
		return false
	}
	if strings.HasPrefix(s, "xn--") {
		return true
	}
	for i := range len(s) {
		if !isLetter(s[i]) && s[i] < 0x80 {
			return false
		}
	}
	return true
}
