package redact

import "strings"

// userinfoBytes bounds how far the end of a user and password is looked for.
const userinfoBytes = 1024

const urlEnds = " \t\r\n\"'`<>"

// userinfo looks behind "://" for user:password@ (RFC 3986, 3.2.1); from is
// behind it. Both are replaced, each for itself, as the semantic conventions of
// url.full want. People write passwords with / and # into DSNs without escaping
// them; so if what stands behind a colon is no port, an @ further on ends the
// userinfo. Where the URL is itself a parameter, all delimiters may be escaped.
func (p *pass) userinfo(from int) int {
	s := p.s
	end := from
	for end < len(s) && end-from < userinfoBytes && strings.IndexByte("/?#&"+urlEnds, s[end]) < 0 {
		end++
	}
	sep, width := ":", 1
	at := strings.LastIndexByte(s[from:end], '@')
	if at < 0 {
		at = p.lateAt(from, end)
	}
	if at < 0 {
		if at = strings.LastIndex(s[from:end], "%40"); at < 0 {
			return from
		}
		if slash := strings.Index(strings.ToUpper(s[from:end]), "%2F"); slash >= 0 && slash < at {
			return from
		}
		width = 3
	}
	password := from + at
	p.userEnd = password + width
	r := p.by.userinfo
	if r.Do == Remove {
		return p.found(from, p.userEnd, r)
	}
	colon := strings.Index(s[from:password], sep)
	if colon < 0 && width == 3 {
		sep = "%3A"
		colon = strings.Index(strings.ToUpper(s[from:password]), sep)
	}
	if colon < 0 {
		colon, sep = at, ""
	}
	if colon > 0 {
		p.found(from, from+colon, r)
	}
	if start := from + colon + len(sep); start < password {
		p.found(start, password, r)
	}
	return password
}

func (p *pass) lateAt(from, end int) int {
	s := p.s
	colon := strings.IndexByte(s[from:end], ':')
	if colon < 0 || end == len(s) || strings.IndexByte("/?#", s[end]) < 0 || s[from] == '[' {
		return -1
	}
	port := s[from+colon+1 : end]
	if port == "" || strings.Trim(port, "0123456789") == "" {
		return -1
	}
	rest := s[from:min(len(s), from+userinfoBytes)]
	if stop := strings.IndexAny(rest, urlEnds); stop >= 0 {
		rest = rest[:stop]
	}
	return strings.LastIndexByte(rest, '@')
}
